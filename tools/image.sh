#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# The container image of packaging/Containerfile, with buildah, and storage of its own in target/containers:
#   tools/image.sh build             builds `perigee` from the wheel in dist/, and carries out a study in it
#   tools/image.sh push NAME USER    puts it into a registry, with the token in REGISTRY_TOKEN
# Where the base image cannot be fetched, root on Debian builds on a bare Debian that is made here, to try; push refuses that.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$PWD/target/containers
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
base=$(sed -n 's/^ARG BASE=//p' packaging/Containerfile)
substitute=localhost/debian

with_buildah() { buildah --root "$place/storage" --runroot "$place/run" "$@"; }

make_base() {
    local root=$place/debian container
    tools/packages.sh debootstrap debian-archive-keyring
    debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" >/dev/null
    rm -rf "$root/dev"
    mkdir "$root/dev"
    # A network with a certificate authority of its own names it here, and packages come through that network.
    [[ ! -d /usr/local/share/ca-certificates ]] ||
        cp --archive /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates"
    container=$(with_buildah from scratch)
    with_buildah add --quiet "$container" "$root" / >/dev/null
    with_buildah commit --quiet "$container" "$substitute" >/dev/null
    with_buildah rm "$container" >/dev/null
    rm -rf "$root"
}

case ${1-} in
build)
    tools/packages.sh buildah
    rm -rf "$place"
    if ! with_buildah pull --quiet "$base" >/dev/null 2>&1; then
        ((EUID == 0)) || { echo "image.sh: $base cannot be fetched, and making another base needs root" >&2; exit 3; }
        echo "image.sh: $base cannot be fetched; this image is on a Debian made here, to try" >&2
        make_base
        base=$substitute
    fi
    with_buildah build --pull-never --build-arg "BASE=$base" --file packaging/Containerfile --tag perigee \
        --label "org.opencontainers.image.version=$(tools/version.sh)" .
    container=$(with_buildah from --pull-never perigee)
    with_buildah run "$container" -- sh -euc 'id -un; perigee --version; perigee run claypool-2021 --reduced; perigee report results/*'
    with_buildah rm "$container" >/dev/null
    echo "$base"
    ;;
push)
    if with_buildah images --quiet "$substitute" >/dev/null 2>&1; then
        echo "image.sh: this image is on a Debian made here; build it where $base can be fetched" >&2
        exit 1
    fi
    version=$(tools/version.sh)
    with_buildah login --username "$3" --password-stdin "${2%%/*}" <<<"$REGISTRY_TOKEN"
    for tag in "${version/+/-}" latest; do
        with_buildah push perigee "docker://${2,,}:$tag"
    done
    ;;
*)
    echo "image.sh: \`${1-}\` is no part of it; build, or push NAME USER" >&2
    exit 2
    ;;
esac
