#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Builds the simulator for WebAssembly into target/web, with Debian's Rust: its source package has the standard library, which is compiled
# for the target along with it. The Rust of rustup, if any, is not used.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh clang lld llvm cargo-web rustc-web rust-web-src

export PATH=/usr/bin:/bin
# Building the standard library is behind a flag of nightly's.
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
# What a developer sets for native builds would make another module.
unset "${!CARGO_PROFILE_@}" CARGO_INCREMENTAL RUSTFLAGS

# An author's module is linked into the table, and uses the stack.
cargo rustc --profile web --package perigee-web --lib --crate-type cdylib --target wasm32-unknown-unknown \
    --target-dir target/wasm -Z build-std=std,panic_abort "$@" -- \
    -C link-arg=--export-table -C link-arg=--growable-table -C link-arg=--export=__stack_pointer

built=target/wasm/wasm32-unknown-unknown/web/perigee_web.wasm
mkdir -p target/web
cp "$built" target/web/perigee.wasm
cp web/perigee.js target/web/
printf 'globalThis.PERIGEE_WASM = "%s";\n' "$(base64 --wrap=0 "$built")" >target/web/perigee.wasm.js
printf 'target/web/perigee.wasm: %d bytes, %d compressed\n' "$(wc -c <"$built")" "$(gzip -9 <"$built" | wc -c)"
