#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Two commands side by side: tools/beside.sh LOG COMMAND ... -- COMMAND ...
# The output of the first, which is in the log, is shown at its end: the last lines are of what failed. It ends where the second one fails.
set -euo pipefail

log=$1
shift
first=()
while [[ $1 != -- ]]; do
    first+=("$1")
    shift
done
shift

# A group of its own can be ended whole.
set -m
"${first[@]}" >"$log" 2>&1 &
beside=$!
set +m
trap 'kill -- -"$beside" 2>/dev/null || true' EXIT

"$@"
code=0
wait "$beside" || code=$?
trap - EXIT
cat "$log"
exit "$code"
