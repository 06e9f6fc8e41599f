# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Checks of this host: kernel, devices, programs, capabilities, disk space; each with its fix."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perigee.engines.host.buffers import LinkSize, command, host_buffers, too_small
from perigee.engines.host.memory import available_bytes
from perigee.files import shown_bytes

SIMULATOR = "simulated runs"
"""Features that work on every host."""
OWN_CC = "congestion controls of your own"
KERNEL_CC = "perigee cc load"
EMULATOR = "perigee exec, --engine emu"
LIVE = "--engine live"
PROXY = "perigee pep"

OLDEST_KERNEL = (6, 12)
"""First kernel that loads perigee's BPF congestion controls."""
LEAST_MEMORY = 1 << 30
LEAST_DISK = 1 << 30
"""Minimum memory and disk space for a study of some size."""
STRUCT_OPS = b"bpf_struct_ops_tcp_congestion_ops"
"""The type in the kernel's BTF of congestion controls in BPF."""


@dataclass(frozen=True)
class Check:
    """A requirement and whether this host meets it.

    Attributes:
        name: name of the requirement.
        ok: the host meets it.
        found: what was found.
        needed_for: features that need it.
        fix: advice; empty if it is met.
    """

    name: str
    ok: bool
    found: str
    needed_for: str
    fix: str = ""

    @property
    def for_simulator(self) -> bool:
        """True if simulated runs need it."""
        return self.needed_for == SIMULATOR


def checks(link: LinkSize | None = None, root: Path = Path("/")) -> list[Check]:
    """Check this host without changing it.

    Args:
        link: link for the check of socket buffers.
        root: root of the file system to read.
    """
    return [
        _memory(),
        _disk(Path.cwd()),
        *_compilers(),
        *_kernel(platform.release(), root),
        *_emulation(root),
        *_programs(),
        _proxy(),
        *(_buffers(link) if link else ()),
    ]


def _memory() -> Check:
    bytes_ = available_bytes()
    if bytes_ is None:
        return Check("memory", True, "not known", SIMULATOR)
    fix = "" if bytes_ >= LEAST_MEMORY else f"{shown_bytes(LEAST_MEMORY)} leave room for a run; end other programs"
    return Check("memory", not fix, f"{shown_bytes(bytes_)} available", SIMULATOR, fix)


def _proxy() -> Check:
    from perigee.engines.proxy.program import find_program
    from perigee.errors import InputError

    try:
        return Check("proxy", True, str(find_program()), PROXY)
    except InputError as error:
        return Check("proxy", False, str(error).partition(";")[0], PROXY, error.fix or "")


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    fix = "" if free >= LEAST_DISK else f"free {shown_bytes(LEAST_DISK)}, or write elsewhere with --out"
    return Check("disk", not fix, f"{shown_bytes(free)} free in this folder", SIMULATOR, fix)


def _compilers() -> Iterator[Check]:
    """Compile a known-good algorithm for the simulator and for the kernel."""
    from perigee.core import native
    from perigee.errors import InputError
    from perigee.places import headers

    try:
        compiled = native.check_of(str(headers() / "reno.c"), str(headers()))
    except InputError as error:
        yield Check("C compiler", False, str(error).splitlines()[0], OWN_CC, "sudo apt install gcc libc6-dev")
        return
    yield Check("C compiler", True, "compiles for the simulator", OWN_CC)
    wrong = compiled.kernel_unknown or compiled.kernel_error
    found = wrong.splitlines()[0] if wrong else "compiles for the kernel"
    fix = "sudo apt install clang llvm libbpf-dev" if wrong else ""
    yield Check("clang for BPF", not wrong, found, f"{KERNEL_CC} FILE.c", fix)


def _kernel(release: str, root: Path) -> Iterator[Check]:
    oldest = ".".join(map(str, OLDEST_KERNEL))
    new_enough = version_of(release) >= OLDEST_KERNEL
    yield Check(
        "kernel", new_enough, f"Linux {release}", KERNEL_CC, "" if new_enough else f"boot Linux {oldest} or newer"
    )
    btf = root / "sys/kernel/btf/vmlinux"
    try:
        types = btf.read_bytes()
    except OSError:
        types = b""
    yield Check(
        "BTF", bool(types), f"{btf} {'is there' if types else 'is not there'}", KERNEL_CC,
        "" if types else "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions build them",
    )  # fmt: skip
    takes = STRUCT_OPS in types
    yield Check(
        "struct_ops", takes, f"the kernel takes {'congestion controls' if takes else 'none'} in BPF", KERNEL_CC,
        "" if takes else "boot a kernel with CONFIG_BPF_JIT=y and CONFIG_BPF_SYSCALL=y",
    )  # fmt: skip
    # Where it is not mounted, `perigee cc load` mounts it.
    there = (root / "sys/fs/bpf").is_dir()
    yield Check(
        "bpffs", there, f"{root / 'sys/fs/bpf'} {'is there' if there else 'is not there'}", KERNEL_CC,
        "" if there else "sudo mount -t bpf bpf /sys/fs/bpf",
    )  # fmt: skip


def version_of(release: str) -> tuple[int, int]:
    """Return the first two numbers of a kernel's release.

    Examples:
        >>> version_of("6.18.44-generic"), version_of("7-rc1"), version_of("?")
        ((6, 18), (7, 0), (0, 0))
    """
    found = re.match(r"(\d+)(?:\.(\d+))?", release)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _emulation(root: Path) -> Iterator[Check]:
    is_root = os.geteuid() == 0
    yield Check(
        "root", is_root, "this is root" if is_root else "this is not root", f"{EMULATOR}, {KERNEL_CC}",
        "" if is_root else 'give such commands with: sudo "$(command -v perigee)" ...',
    )  # fmt: skip
    namespaces = (root / "proc/self/ns/net").exists()
    yield Check(
        "network namespaces", namespaces, "the kernel has them" if namespaces else "the kernel has none", EMULATOR,
        "" if namespaces else "boot a kernel with CONFIG_NET_NS=y",
    )  # fmt: skip
    tun = (root / "dev/net/tun").exists()
    yield Check(
        "TUN devices", tun, f"{root / 'dev/net/tun'} {'is there' if tun else 'is not there'}", EMULATOR,
        "" if tun else "sudo modprobe tun; for a container: --device /dev/net/tun",
    )  # fmt: skip


PROGRAMS = (
    ("nft", "perigee exec, to reach other hosts", "nftables"),
    ("iperf3", LIVE, "iperf3"),
    ("tcpdump", "captures for perigee analyze", "tcpdump"),
)
"""Programs, the features that need them, and their Debian packages."""


def _programs() -> Iterator[Check]:
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    for program, needed_for, package in PROGRAMS:
        where = shutil.which(program, path=path)
        yield Check(
            program, where is not None, where or "not installed", needed_for,
            "" if where else f"sudo apt install {package}",
        )  # fmt: skip


def _buffers(link: LinkSize) -> Iterator[Check]:
    buffers = host_buffers()
    small = too_small(link, buffers)
    for buffer in buffers:
        largest = f"ends at {buffer.sizes[2] / 1e6:.1f} MB"
        fix = command(link, [buffer]) if buffer in small else ""
        needed_for = f"one connection to fill this link ({link.product_bytes / 1e6:.1f} MB in flight)"
        yield Check(buffer.name, not fix, largest, needed_for, fix)


def as_data(found: Sequence[Check]) -> list[dict[str, object]]:
    """Return checks for JSON."""
    return [
        {"name": one.name, "ok": one.ok, "found": one.found, "needed_for": one.needed_for, "fix": one.fix or None}
        for one in found
    ]
