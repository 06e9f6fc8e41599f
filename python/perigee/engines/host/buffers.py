# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Socket buffers of this host or of a study against a link: whether TCP can fill its bandwidth-delay product.

The window of one connection is at most what the sender may buffer (`tcp_wmem`) and what the receiver may (`tcp_rmem`).
The kernel charges a buffer for its own structures beside the payload, so that a window needs about twice its size
(`tcp_adv_win_scale = 1`, Linux's default, reserves half of a receive buffer for them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perigee.numbers import number

OVERHEAD = 2
"""Bytes of a socket buffer per byte of window."""
SYSCTLS = Path("/proc/sys/net/ipv4")
ROUND_BYTES = 1_000_000
"""Unit of proposed sizes, bytes."""


@dataclass(frozen=True)
class LinkSize:
    """Bandwidth-delay product of a link.

    Attributes:
        rate_bps: the larger rate of its two directions, bit/s.
        rtt_s: its round trip without queues, s.
    """

    rate_bps: float
    rtt_s: float

    @property
    def product_bytes(self) -> int:
        """The bandwidth-delay product, bytes.

        Examples:
            >>> LinkSize(100e6, 0.6).product_bytes
            7500000
        """
        return int(self.rate_bps * self.rtt_s / 8)

    @property
    def buffer_bytes(self) -> int:
        """A size of buffers with which one connection fills the link, bytes.

        Examples:
            >>> LinkSize(100e6, 0.6).buffer_bytes
            15000000
        """
        return -(-OVERHEAD * self.product_bytes // ROUND_BYTES) * ROUND_BYTES


@dataclass(frozen=True)
class Buffer:
    """A limit of socket buffers: `tcp_wmem` (sending) or `tcp_rmem` (receiving).

    Attributes:
        name: of this host the sysctl below `net.ipv4`, of a study what it is of which node.
        sizes: least, first and largest size, bytes.
    """

    name: str
    sizes: tuple[int, int, int]

    def holds(self, link: LinkSize) -> bool:
        """Whether one connection can fill the link.

        Examples:
            >>> Buffer("tcp_wmem", (4096, 16384, 4194304)).holds(LinkSize(100e6, 0.6))
            False
            >>> Buffer("tcp_wmem", (4096, 16384, 4194304)).holds(LinkSize(100e6, 0.02))
            True
        """
        return self.sizes[2] >= OVERHEAD * link.product_bytes

    def fix(self, link: LinkSize) -> str:
        """Return a sufficient setting for `sysctl -w`.

        Examples:
            >>> Buffer("tcp_wmem", (4096, 16384, 4194304)).fix(LinkSize(100e6, 0.6))
            'net.ipv4.tcp_wmem="4096 16384 15000000"'
        """
        return f'net.ipv4.{self.name}="{self.sizes[0]} {self.sizes[1]} {max(link.buffer_bytes, self.sizes[2])}"'


def host_buffers(sysctls: Path = SYSCTLS) -> list[Buffer]:
    """Return this host's limits, without unreadable ones.

    Args:
        sysctls: the folder with `tcp_wmem` and `tcp_rmem`.

    Examples:
        >>> host_buffers(Path("/nowhere"))
        []
    """
    found = []
    for name in ("tcp_wmem", "tcp_rmem"):
        try:
            least, first, largest = map(int, (sysctls / name).read_text(encoding="ascii").split())
        except (OSError, ValueError):
            continue
        found.append(Buffer(name, (least, first, largest)))
    return found


def too_small(link: LinkSize, buffers: Sequence[Buffer]) -> list[Buffer]:
    """Return the buffers that are too small for one connection to fill the link.

    Examples:
        >>> own = [Buffer("tcp_wmem", (4096, 16384, 4194304)), Buffer("tcp_rmem", (4096, 131072, 33554432))]
        >>> [buffer.name for buffer in too_small(LinkSize(100e6, 0.6), own)]
        ['tcp_wmem']
    """
    return [buffer for buffer in buffers if not buffer.holds(link)]


def hint(link: LinkSize, buffers: Sequence[Buffer]) -> str | None:
    """Return a line of advice with the command to run if buffers are too small for a link, else None.

    Examples:
        >>> own = [Buffer("tcp_wmem", (4096, 16384, 4194304)), Buffer("tcp_rmem", (4096, 131072, 33554432))]
        >>> print(hint(LinkSize(100e6, 0.6), own))
        tcp_wmem ends at 4.2 MB, and one connection needs 15 MB to fill this link (100 Mbit/s x 600 ms = 7.5 MB in \
flight); raise it with: sudo sysctl -w net.ipv4.tcp_wmem="4096 16384 15000000"
        >>> hint(LinkSize(100e6, 0.02), own) is None
        True
    """
    small = too_small(link, buffers)
    return advice(link, small, ("one connection", "this link"), command(link, small)) if small else None


def advice(link: LinkSize, small: Sequence[Buffer], who_and_what: tuple[str, str], fix: str) -> str:
    """Return the line of advice on buffers that are too small.

    Args:
        link: the link.
        small: the buffers.
        who_and_what: which connection needs more, and what it fills then.
        fix: what to type.
    """
    ends = " and ".join(f"{buffer.name} ends at {_megabytes(buffer.sizes[2])}" for buffer in small)
    product = f"{_megabits(link.rate_bps)} x {number(link.rtt_s * 1000, 0)} ms = {_megabytes(link.product_bytes)}"
    who, what = who_and_what
    return (
        f"{ends}, and {who} needs {_megabytes(OVERHEAD * link.product_bytes)} to fill {what} "
        f"({product} in flight); raise {'it' if len(small) == 1 else 'them'} with: {fix}"
    )


def command(link: LinkSize, small: Sequence[Buffer]) -> str:
    """Return the command that makes buffers large enough for a link.

    Examples:
        >>> command(LinkSize(100e6, 0.6), [Buffer("tcp_wmem", (4096, 16384, 4194304))])
        'sudo sysctl -w net.ipv4.tcp_wmem="4096 16384 15000000"'
    """
    return "sudo sysctl -w " + " ".join(buffer.fix(link) for buffer in small)


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.3g} MB" if count < 1e6 or count % 1e6 == 0 else f"{number(count / 1e6, 1)} MB"


def _megabits(rate_bps: float) -> str:
    return f"{rate_bps / 1e6:.3g} Mbit/s" if rate_bps < 1e9 else f"{rate_bps / 1e9:.3g} Gbit/s"
