#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Builds the source distribution into the folder that is the argument, and prints its path. It is made of a copy of the files
# that git knows; the copy also has the manual pages, the commit that versions name, and a README whose links lead to the repository.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | tar --create --null --files-from - | tar --extract --directory "$copy"
version=$(tools/version.sh)
case $version in
*+g*) echo "${version#*+g}" >"$copy/python/perigee/data/commit" ;;
esac
python tools/readme.py "$version" >"$copy/README.md"
cp python/perigee/_core*.so "$copy/python/perigee/"
cd "$copy"
PYTHONPATH=python python -m perigee man --out packaging/wheel/data/share/man/man1 >&2
rm python/perigee/_core*.so
find python -name __pycache__ -prune -exec rm -r {} +
maturin sdist --out "$out" >&2
ls -t "$out"/perigee_lab-*.tar.gz | head -n 1
