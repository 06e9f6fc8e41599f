#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Installs the Debian packages given as arguments, those of them that are missing.
# As root or with sudo; otherwise prints the command to give to somebody who may.
set -euo pipefail

if ! command -v dpkg-query >/dev/null; then
    echo "packages.sh: this is not a Debian system; install the equivalents of: $*" >&2
    exit 0
fi

missing=()
for package in "$@"; do
    state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $state == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

if ((EUID == 0)); then
    as_root=()
elif command -v sudo >/dev/null; then
    as_root=(sudo)
else
    echo "packages.sh: these packages are missing, and installing them needs root:" >&2
    echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

echo "installing: ${missing[*]}"
# Waits for another apt, such as the upgrades of a machine that has just started.
wait_s=(-o DPkg::Lock::Timeout=600)
"${as_root[@]}" apt-get "${wait_s[@]}" update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${wait_s[@]}" install -y -qq --no-install-recommends "${missing[@]}"
