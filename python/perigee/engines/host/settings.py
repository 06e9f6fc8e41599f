# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The TCP settings in force on hosts: sysctls, read from kernels that are accessible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perigee.core import native

SYSCTLS = Path("/proc/sys/net/ipv4")
UNKNOWN = "unknown"
"""Value of a sysctl that cannot be read."""
IN_BYTES = ("tcp_rmem", "tcp_wmem")
"""Sysctls in bytes."""
_BINARY = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_DECIMAL = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def of_this_host(folder: Path = SYSCTLS) -> dict[str, str]:
    """Return the sysctls of TCP settings in this process's network namespace by name, without missing ones."""
    found = {}
    for _, name in native.tcp_sysctls():
        try:
            found[name] = (folder / name).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            continue
    return found


def of_namespaces(
    sysctls_of: Callable[[int], Sequence[tuple[str, Sequence[tuple[str, str]]]]], points: int
) -> list[dict[str, Any]]:
    """Return the hosts of an emulated study for its report: each node with the sysctls of its namespace.

    Args:
        sysctls_of: returns the sysctls (name, text) of each node in a run of the first round.
        points: number of runs of the first round.
    """
    values: dict[str, dict[str, list[str]]] = {}
    for index in range(points):
        for node, texts in sysctls_of(index):
            for name, text in texts:
                seen = values.setdefault(node, {}).setdefault(name, [])
                said = in_words(name, text)
                if said not in seen:
                    seen.append(said)
    return [
        described(node, {name: "; ".join(of) + (" (varied)" if len(of) > 1 else "") for name, of in texts.items()})
        for node, texts in values.items()
    ]


def of_real_hosts(known: Mapping[str, Mapping[str, str]], others: Iterable[str]) -> list[dict[str, Any]]:
    """Return the hosts of a study between real hosts for its report; sysctls of other nodes are unknown.

    Args:
        known: sysctls by node, for this host and those with agents.
        others: the other nodes.

    Examples:
        >>> hosts = of_real_hosts({"client": {"tcp_sack": "1"}}, ["server"])
        >>> [(host["name"], host["properties"]) for host in hosts]
        [('client', [('tcp_sack: SACK', '1')]), ('server', [('tcp_sack: SACK', 'unknown')])]
    """
    names = dict.fromkeys(name for own in known.values() for name in own)
    return [
        *(described(node, {name: in_words(name, own[name]) for name in own}) for node, own in known.items()),
        *(described(node, dict.fromkeys(names, UNKNOWN)) for node in others),
    ]


def described(node: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a host for `setup.json`: each sysctl with the name of its setting."""
    words = {name: words for words, name in native.tcp_sysctls()}
    return {"name": node, "properties": [(f"{name}: {words.get(name, '')}", text) for name, text in texts.items()]}


def in_words(name: str, text: str) -> str:
    r"""Return the text of a sysctl for a report: sizes with units.

    Examples:
        >>> in_words("tcp_rmem", "4096\t131072\t60000000\n"), in_words("tcp_wmem", "4096 16384 4194304")
        ('4096 B, 128 KiB, 60 MB', '4096 B, 16 KiB, 4 MiB')
        >>> in_words("tcp_sack", "1\n"), in_words("tcp_rmem", "33554431")
        ('1', '33.554 MB')
    """
    parts = text.split()
    if name in IN_BYTES and all(part.isdigit() for part in parts):
        return ", ".join(_size(int(part)) for part in parts)
    return " ".join(parts)


def _size(size: int) -> str:
    """Return a size for a setup: in decimal units if whole kilobytes, else in binary units if exact."""
    if size < 10_000:
        return f"{size} B"
    exact = size % 1000 == 0
    units = _BINARY if not exact and size % 256 == 0 else _DECIMAL
    factor, unit = next((factor, unit) for factor, unit in units if size >= factor)
    return f"{size / factor:.3f}".rstrip("0").rstrip(".") + f" {unit}"
