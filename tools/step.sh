#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# A step of the set-up: one line with what it does and how long it takes, all output of its command in .make/setup.log.
#   tools/step.sh '[1/2] Debian packages beside Rust, about a minute' COMMAND ...
# Shows the end of the log if the command fails, and ends with the command's exit code.
set -uo pipefail

what=$1
shift
log=.make/setup.log
mkdir -p .make
echo "== $what, $(date --iso-8601=seconds): $*" >>"$log"
began=$SECONDS
printf '%s ... ' "$what"

# Background jobs hear no Ctrl-C, so the command is in the foreground, and the clock behind it.
if [[ -t 1 ]]; then
    (
        trap 'exit' TERM
        while sleep 1; do printf '\r%s ... %s s ' "$what" $((SECONDS - began)); done
    ) &
    trap 'kill $! 2>/dev/null' EXIT
fi
trap 'echo "interrupted; the same command goes on where it stopped"; exit 130' INT

"$@" >>"$log" 2>&1
code=$?
[[ -t 1 ]] && printf '\r%s ... ' "$what"
if ((code)); then
    echo "failed after $((SECONDS - began)) s; the end of $log:"
    tail -n 30 "$log" >&2
    exit "$code"
fi
echo "$((SECONDS - began)) s"
