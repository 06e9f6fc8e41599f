#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Builds the source distribution, and from it, in a folder of its own, a wheel: what is missing in the first fails here.
# Both are in dist/ then. A wheel for this machine has the program perigee-pep too.
# Arguments are maturin's: --target aarch64-unknown-linux-gnu --zig, --compatibility manylinux_2_28
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
PATH="$root/.venv/bin:$PATH"

rm -rf packaging/wheel/data/share/man
perigee man --out packaging/wheel/data/share/man/man1
maturin sdist --out dist

unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
tar -xzf "$(ls -t dist/perigee_lab-*.tar.gz | head -n 1)" -C "$unpacked" --strip-components 1
# Cross-compiling is maturin's business only: a wheel for another target has the package alone.
case " $* " in
*" --target"*) ;;
*)
    cargo build --release -p perigee-pep
    mkdir -p "$unpacked/packaging/wheel/scripts"
    install -s "${CARGO_TARGET_DIR:-target}/release/perigee-pep" "$unpacked/packaging/wheel/scripts/"
    ;;
esac
# The laboratory in a browser tab goes with the package where `make web` has made it: `perigee serve` and `publish` offer it then.
if [ -f target/web/index.html ]; then
    mkdir -p "$unpacked/python/perigee/data/web"
    cp target/web/index.html "$unpacked/python/perigee/data/web/"
fi
cd "$unpacked"
maturin build --release --out "$root/dist" "$@"
cd "$root"
python tools/check_packages.py "$(ls -t dist/perigee_lab-*.tar.gz | head -n 1)" "$(ls -t dist/perigee_lab-*.whl | head -n 1)"
