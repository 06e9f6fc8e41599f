#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Builds perigee-pep as a static program, with musl's C library, and prints its path. rustup has the target; the C and
# assembly of its cryptography need musl-gcc, of Debian's musl-tools.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(uname -m)-unknown-linux-musl
if ! [[ -d $(rustc --print sysroot)/lib/rustlib/$target ]]; then
    if ! command -v rustup >/dev/null; then
        echo "static.sh: this Rust lacks the target $target; install the package that has it, or Rust with rustup" >&2
        exit 1
    fi
    rustup target add "$target" >&2
fi
PERIGEE_VERSION=$(tools/version.sh)
export PERIGEE_VERSION
# Its own pointers, 2 % of a program that runs at any address, are listed packed; tables for unwinding, 8 %, are left out.
link=(-z,pack-relative-relocs --no-eh-frame-hdr "-T,$PWD/tools/static.ld")
cargo rustc --profile static -p perigee-pep --bin perigee-pep --target "$target" -- "${link[@]/#/-Clink-arg=-Wl,}" >&2
echo "${CARGO_TARGET_DIR:-target}/$target/static/perigee-pep"
