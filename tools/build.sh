#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Builds what a checkout uses, in a profile of Cargo's: the program of the proxy, while pip installs the Python libraries,
# and then the Python module, from the same crates: tools/build.sh local python3
set -euo pipefail

profile=$1
python=$2
export PATH="$PWD/.venv/bin:$PATH"

# A group of its own can be ended whole. Its output is shown at its end: the last lines of the log are of what failed.
set -m
tools/python.sh "$python" serve >.make/python.log 2>&1 &
libraries=$!
set +m
trap 'kill -- -"$libraries" 2>/dev/null || true' EXIT

# All members have the features that the module has, so that no crate is compiled twice.
cargo build --profile "$profile" --workspace --bin perigee-pep
code=0
wait "$libraries" || code=$?
trap - EXIT
cat .make/python.log
((code == 0)) || exit "$code"
maturin develop --profile "$profile"
