#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Builds what a checkout uses, in a profile of Cargo's: the program of the proxy, while pip installs the Python libraries,
# and then the Python module, from the same crates: tools/build.sh local python3
set -euo pipefail

profile=$1
python=$2
export PATH="$PWD/.venv/bin:$PATH"

# All members have the features that the module has, so that no crate is compiled twice.
"$(dirname "$0")/beside.sh" .make/python.log tools/python.sh "$python" serve -- \
cargo build --profile "$profile" --workspace --bin perigee-pep
maturin develop --profile "$profile"
