#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# A wheel for aarch64 from a machine of another kind, and a study in it, on Debian, as root:
#   tools/aarch64.sh build WHEELS      builds it into a folder, with Debian's cross compiler
#   tools/aarch64.sh try WHEEL STUDY OUT   carries the reduced study out under qemu, into a folder
# Libraries and Python of Debian for aarch64 are unpacked into target/aarch64, and nothing of that is installed. What is emulated runs
# in namespaces of its own, so that the kernel knows no foreign programs afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/target/aarch64
target=aarch64-unknown-linux-gnu
qemu=/usr/bin/qemu-aarch64-static
PATH=$PWD/.venv/bin:$PATH

unpacked() {
    [[ -e $root/complete ]] && return
    local suite
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    rm -rf "$root"
    debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,libelf-dev,zlib1g-dev "$suite" "$root" >&2
    # Its second stage would install them; they are only unpacked, with the links of a merged /usr.
    for package in "$root"/var/cache/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar --extract --directory "$root" --keep-directory-symlink
    done
    # What is linked with of the C library is the cross compiler's: a script of this one names absolute paths.
    rm -f "$root/usr/lib/aarch64-linux-gnu/lib"{c,m,dl,pthread,rt,util}.{a,so}
    rm -f "$root/proc"
    mkdir -p "$root/proc" "$root/run/binfmt"
    touch "$root/complete"
}

build() {
    tools/packages.sh debootstrap debian-archive-keyring gcc-aarch64-linux-gnu libc6-dev-arm64-cross >&2
    unpacked
    rustup target add "$target" >&2
    local system=$root/usr/lib/aarch64-linux-gnu
    export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
    export CFLAGS_aarch64_unknown_linux_gnu="-idirafter $root/usr/include"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-L native=$system"
    export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$system/pkgconfig
    DIST=$1 tools/wheels.sh --target "$target" --auditwheel skip --interpreter python3.11
}

# Runs a command in the unpacked system, whose programs the kernel hands to qemu there.
emulated() {
    # Bytes of the head of an ELF program of 64 bits for aarch64, and which bits of them have to match.
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    format=":qemu-aarch64:M::$magic:$mask:$qemu:F" root=$root unshare --user --map-root-user --mount --pid --fork --kill-child \
        bash -euc '
            mount -t binfmt_misc none "$root/run/binfmt"
            printf %s "$format" >"$root/run/binfmt/register"
            mount -t proc proc "$root/proc"
            mount --rbind /dev "$root/dev"
            exec chroot "$root" "$@"' bash "$@"
}

try() {
    local wheel=$1 study=$2 out=$3 site=$root/opt/perigee
    tools/packages.sh qemu-user-static >&2
    unpacked
    rm -rf "$site" "$root/results"
    pip install --quiet --disable-pip-version-check --no-compile --only-binary :all: --target "$site" --python-version 3.11 \
        --platform linux_aarch64 --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 \
        --platform manylinux_2_28_aarch64 "$wheel"
    emulated /usr/bin/env PYTHONPATH=/opt/perigee HOME=/root python3 -m perigee --version
    emulated /usr/bin/env PYTHONPATH=/opt/perigee HOME=/root python3 -m perigee run "$study" --reduced --out /results
    mkdir -p "$out"
    cp -r "$root/results/." "$out"
}

case ${1-} in
build) build "$2" ;;
try) try "${@:2}" ;;
*)
    echo "aarch64.sh: \`${1-}\` is no part of it; build, or try WHEEL STUDY OUT" >&2
    exit 2
    ;;
esac
