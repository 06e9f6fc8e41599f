# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The fixed list of jobs that a host runs; their values are always checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

HEADERS = 128
"""Snapshot length of captures, bytes: headers of Ethernet, IP and TCP with all options."""


@dataclass(frozen=True)
class Whole:
    """Integers within inclusive bounds."""

    least: int
    most: int

    def holds(self, value: int) -> bool:
        """True if a number is within the bounds."""
        return self.least <= value <= self.most


@dataclass(frozen=True)
class Word:
    """Texts that match a regular expression."""

    pattern: str

    def holds(self, value: str) -> bool:
        """True if a text matches."""
        return re.fullmatch(self.pattern, value) is not None


Port = Annotated[int, Whole(1, 65_535)]
Host = Annotated[str, Word(r"[0-9A-Za-z:_][0-9A-Za-z.:%_-]{0,252}")]
Address = Annotated[str, Word(r"[0-9a-f][0-9a-f.:]{1,44}")]
Interval = Annotated[int, Whole(100, 1000)]
Device = Annotated[str, Word(r"[0-9A-Za-z_][0-9A-Za-z._@-]{0,14}")]
Algorithm = Annotated[str, Word(r"[0-9A-Za-z_][0-9A-Za-z_-]{0,14}")]


@dataclass(frozen=True)
class Client:
    """An iperf3 client, which carries one flow.

    Attributes:
        host: the server.
        port: its port.
        v6: use IPv6.
        reverse: the server sends.
        interval_ms: reporting interval.
        connect_timeout_ms: longest wait for the server.
        bind: local address, or None.
        bind_device: local device, or None.
        bitrate_bps: payload rate of UDP; None: TCP.
        datagram: payload of a UDP packet, bytes.
        tos: TOS byte of UDP packets.
        congestion: congestion control of TCP.
        mss: maximum segment size of TCP, if the study sets it.
        window: fixed socket buffers of TCP, bytes, if the study sets them.
        size: bytes to carry; None: for `time_s`.
        time_s: duration, s.
    """

    name: ClassVar[str] = "iperf3-client"

    host: Host
    port: Port
    v6: bool
    reverse: bool
    interval_ms: Interval
    connect_timeout_ms: Annotated[int, Whole(1, 3_600_000)]
    bind: Host | None = None
    bind_device: Device | None = None
    bitrate_bps: Annotated[int, Whole(1, 10**13)] | None = None
    datagram: Annotated[int, Whole(16, 65_507)] | None = None
    tos: Annotated[int, Whole(0, 255)] = 0
    congestion: Algorithm | None = None
    mss: Annotated[int, Whole(1, 65_535)] | None = None
    window: Annotated[int, Whole(1, 2**31 - 1)] | None = None
    size: Annotated[int, Whole(1, 2**63 - 1)] | None = None
    time_s: Annotated[int, Whole(0, 86_400)] = 0

    def line(self) -> list[str]:
        """Return the command line."""
        line = ["iperf3", "--client", self.host, "--port", str(self.port), "--json", "--get-server-output"]
        line += ["--interval", f"{self.interval_ms / 1000:g}", "--connect-timeout", str(self.connect_timeout_ms)]
        line += ["--reverse"] if self.reverse else []
        line += ["--version6" if self.v6 else "--version4"]
        for option, value in (
            ("--bind", self.bind),
            ("--bind-dev", self.bind_device),
            ("--bitrate", self.bitrate_bps),
            ("--length", self.datagram),
            ("--tos", self.tos or None),
            ("--congestion", self.congestion),
            ("--set-mss", self.mss),
            ("--window", self.window),
        ):
            line += [option, str(value)] if value is not None else []
        line += ["--udp"] if self.bitrate_bps is not None else []
        return [*line, "--bytes", str(self.size)] if self.size is not None else [*line, "--time", str(self.time_s)]


@dataclass(frozen=True)
class Server:
    """An iperf3 server for one flow.

    Attributes:
        address: address to listen on.
        port: port to listen on.
        interval_ms: reporting interval.
    """

    name: ClassVar[str] = "iperf3-server"

    address: Address
    port: Port
    interval_ms: Interval

    def line(self) -> list[str]:
        """Return the command line."""
        line = ["iperf3", "--server", "--one-off", "--json", "--interval", f"{self.interval_ms / 1000:g}"]
        return [*line, "--bind", self.address, "--port", str(self.port)]


@dataclass(frozen=True)
class Capture:
    """A capture of the packet headers of a run by tcpdump.

    Attributes:
        device: the interface.
        first_port: first port of the flows.
        last_port: last port of the flows.
    """

    name: ClassVar[str] = "capture"

    device: Device
    first_port: Port
    last_port: Port

    def line(self) -> list[str]:
        """Return the command line."""
        # tcpdump keeps its user: with another one, the kernel would not signal it when the parent dies.
        line = ["tcpdump", "-Z", "root", "-i", self.device, "-n", "-p", "-U", "-w", "-", "-s", str(HEADERS)]
        return [*line, "portrange", f"{self.first_port}-{self.last_port}"]


Job = Client | Server | Capture
T = TypeVar("T")


def checked(kind: type[T], values: object) -> T:
    """Make a job or a request from received values.

    Raises:
        ValueError: a value is missing, unknown or not allowed.

    Examples:
        >>> checked(Server, {"address": "10.0.0.2", "port": 5201, "interval_ms": 100})
        Server(address='10.0.0.2', port=5201, interval_ms=100)
        >>> checked(Server, {"address": "10.0.0.2 --logfile /etc/passwd", "port": 5201})
        Traceback (most recent call last):
        ...
        ValueError: address: "10.0.0.2 --logfile /etc/passwd" is refused
    """
    if not isinstance(values, dict):
        raise ValueError("no table of values")  # noqa: TRY004 - one error for all that is refused
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(values) - known):
        raise ValueError(f"there is no {unknown[0]!r:.40}")
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name in values and not _fits(hint, values[name]):
            shown = f'"{values[name]:.80}"' if isinstance(values[name], str) else f"{values[name]!r:.80}"
            raise ValueError(f"{name}: {shown} is refused")
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError("values are missing") from error


def _fits(hint: Any, value: object) -> bool:
    if get_origin(hint) is UnionType or type(hint).__name__ == "_UnionGenericAlias":
        return any(_fits(each, value) for each in get_args(hint))
    if get_origin(hint) is Annotated:
        kind, rule = get_args(hint)
        return type(value) is kind and rule.holds(value)
    return type(value) is hint
