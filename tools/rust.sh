#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Sees to a Rust that is at least the argument's version: takes the one at hand, or installs rustup for this user
# (Debian 12's own rustc is 1.63, which is too old).
set -euo pipefail

wanted=$1
export PATH="$HOME/.cargo/bin:$PATH"

at_hand() { rustc --version 2>/dev/null | awk '{print $2}'; }
new_enough() { [[ -n $1 && $(printf '%s\n' "$wanted" "$1" | sort --version-sort | head -1) == "$wanted" ]]; }

if new_enough "$(at_hand)" && command -v cargo >/dev/null; then
    exit 0
fi
if command -v rustup >/dev/null; then
    rustup toolchain install stable --profile minimal --component clippy,rustfmt
    rustup default stable
else
    export RUSTUP_INIT_SKIP_PATH_CHECK=yes
    if ! curl --proto '=https' --tlsv1.2 --silent --show-error --fail https://sh.rustup.rs |
        sh -s -- -y --quiet --profile minimal --component clippy,rustfmt; then
        echo "rust.sh: rustup could not be had from https://sh.rustup.rs; install Rust $wanted or later another way" \
            "(Debian 13 has one: apt install cargo rustc rustfmt rust-clippy) and call make again" >&2
        exit 1
    fi
fi
if ! new_enough "$(at_hand)"; then
    echo "rust.sh: rustc is '$(at_hand)' and $wanted is needed; is an older one first in PATH?" >&2
    exit 1
fi
