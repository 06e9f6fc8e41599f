# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The capabilities that a host offers to live studies."""

from __future__ import annotations

import fcntl
import ipaddress
import platform
import re
import shutil
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

from perigee.engines.host.settings import of_this_host
from perigee.version import __version__

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
V6_ADDRESSES = Path("/proc/net/if_inet6")
SIOCGIFADDR = 0x8915
GLOBAL_SCOPE = 0
PROGRAMS = ("iperf3", "tcpdump")


def offer() -> dict[str, Any]:
    """Return interfaces with addresses, congestion controls, programs, versions and TCP settings of this host.

    Examples:
        >>> sorted(offer())
        ['algorithms', 'captures', 'host', 'interfaces', 'kernel', 'programs', 'settings', 'version']
    """
    programs = {name: version for name in PROGRAMS if (version := _version(name))}
    return {
        "version": __version__,
        "host": platform.node(),
        "kernel": platform.release(),
        "interfaces": interfaces(),
        "algorithms": [name for name in AVAILABLE.read_text().split() if _is_allowed(name)],
        "programs": programs,
        "captures": "tcpdump" in programs and _may_capture(),
        "settings": of_this_host(),
    }


def interfaces() -> list[dict[str, Any]]:
    """Return the interfaces that have addresses, without loopback: `name` and `addresses`, those of IPv4 first.

    The kernel gives one address of IPv4 for an interface in this way.
    """
    found: dict[str, list[str]] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asked, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            found.setdefault(name, []).append(socket.inet_ntoa(answer[20:24]))
    if V6_ADDRESSES.exists():
        for line in V6_ADDRESSES.read_text().splitlines():
            digits, _, _, scope, _, name = line.split()
            if int(scope, 16) == GLOBAL_SCOPE:
                found.setdefault(name, []).append(str(ipaddress.ip_address(bytes.fromhex(digits))))
    outside = {
        name: [each for each in addresses if not ipaddress.ip_address(each).is_loopback]
        for name, addresses in found.items()
    }
    return [{"name": name, "addresses": addresses} for name, addresses in sorted(outside.items()) if addresses]


def _version(program: str) -> str:
    """Return the version of a program, or nothing where it is not installed."""
    if shutil.which(program) is None:
        return ""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=10)  # noqa: S603
    found = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
    return found[0] if found else "?"


def _is_allowed(algorithm: str) -> bool:
    """Whether a socket of this user can have a congestion control."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    except OSError:
        return False
    return True


def _may_capture() -> bool:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except PermissionError:
        return False
    return True
