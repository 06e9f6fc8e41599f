#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# What everything else is built with: a Rust that is at least the first argument's version, and the Debian packages that are the others.
# Most of either is waiting for a download: tools/ground.sh 1.88 clang gcc
set -euo pipefail

rust=$1
shift
# What rustup is fetched with.
tools/packages.sh ca-certificates curl
"$(dirname "$0")/beside.sh" .make/rust.log tools/rust.sh "$rust" -- tools/packages.sh "$@"
