#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Builds the source distribution, and from it, in a folder of its own and without a network, a wheel: what is missing in the first
# fails here. Both are in dist/ then. A wheel for this machine has the program perigee-pep too.
# DIST names another folder. Arguments are maturin's: --target aarch64-unknown-linux-gnu --zig, --compatibility manylinux_2_28
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
PATH="$root/.venv/bin:$PATH"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
PERIGEE_VERSION=$(tools/version.sh)
export PERIGEE_VERSION

dist=${DIST:-$root/dist}
source=$(tools/sdist.sh "$dist")
unpacked=$root/target/unpacked
rm -rf "$unpacked"
mkdir -p "$unpacked"
# With the time of now: cargo goes by times, and those of an archive are the same for every version.
tar -xzmf "$source" -C "$unpacked" --strip-components 1
# Cross-compiling is maturin's business only: a wheel for another target has the package alone.
case " $* " in
*" --target"*) ;;
*)
    cargo build --release -p perigee-pep
    mkdir -p "$unpacked/packaging/wheel/scripts"
    install -s "$CARGO_TARGET_DIR/release/perigee-pep" "$unpacked/packaging/wheel/scripts/"
    ;;
esac
# The page of `perigee serve` and `publish`, which simulates where `make web` has compiled the simulator for it.
python python/perigee/laboratory/page.py target/web/perigee.wasm "$unpacked/python/perigee/data/web/index.html"
cargo fetch --locked
(cd "$unpacked" && maturin build --release --offline --out "$dist" "$@")
python tools/check_packages.py "$source" "$(ls -t "$dist"/perigee_lab-*.whl | head -n 1)"
