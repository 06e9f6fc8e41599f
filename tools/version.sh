#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Prints the version of what is built from this folder: that of python/perigee/version.py, without its commit where the release's tag
# is at it; or PERIGEE_VERSION, by which the parts of a release have one.
set -eu
cd "$(dirname "$0")/.."

if [ -n "${PERIGEE_VERSION-}" ]; then
    echo "$PERIGEE_VERSION"
    exit
fi
version=$(python3 python/perigee/version.py)
number=${version%%+*}
if [ -n "$(git tag --points-at HEAD "v$number" 2>/dev/null)" ]; then
    version=$number
fi
echo "$version"
