#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# The container image of packaging/Containerfile, with buildah:
#   tools/image.sh build               builds `perigee` from the wheel in dist/, and carries out a study in it
#   tools/image.sh push NAME USER      puts it into a registry, with the token in REGISTRY_TOKEN
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1-} in
build)
    version=$(tools/version.sh)
    buildah build --file packaging/Containerfile --tag perigee --annotation "org.opencontainers.image.version=$version" .
    container=$(buildah from --pull-never perigee)
    trap 'buildah rm "$container" >/dev/null' EXIT
    buildah run "$container" -- sh -euc 'perigee --version; perigee run claypool-2021 --reduced; perigee report results/*'
    ;;
push)
    version=$(tools/version.sh)
    buildah login --username "$3" --password-stdin "${2%%/*}" <<<"$REGISTRY_TOKEN"
    for tag in "$version" latest; do
        buildah push perigee "docker://$2:$tag"
    done
    ;;
*)
    echo "image.sh: \`${1-}\` is no part of it; build, or push NAME USER" >&2
    exit 2
    ;;
esac
