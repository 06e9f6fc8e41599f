# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The menu: settings that a study simulates, and the commands that set and undo each on Linux."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perigee.advice.link import Hosts, Link
from perigee.fitting import profile

NOW = "as it is"
"""Name of today's settings."""
MOST = 12


@dataclass(frozen=True)
class Setting:
    """One entry of the menu.

    Attributes:
        name: in reports.
        does: what it is, in words.
        keys: what it sets in the study.
        commands: what sets it, a command a line.
        undo: what takes it back.
        cc: whether the sender's congestion control changes.
        is_queue: whether it is a queue's, which may gain by less delay.
        file: content of `pep.toml`, where it needs one.
    """

    name: str
    does: str
    keys: Mapping[str, Any]
    commands: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    cc: str = ""
    is_queue: bool = False
    file: str = field(default="", repr=False)


def menu(link: Link, hosts: Hosts, *, has_queue: bool) -> list[Setting]:
    """Return the settings to try over a link, beside today's: at most twelve.

    Args:
        link: the link.
        hosts: today's settings.
        has_queue: whether the bottleneck's queue is the user's; the settings of servers are then fewer.
    """
    buffers = _buffers(link, hosts)
    controls = [
        _control(buffers, "BBR", "bbr", "modprobe tcp_bbr"),
        _control(buffers, "Hybla", "hybla", "perigee cc load hybla --default"),
        _control(buffers, "BBRv3", "bbr3", "perigee cc load bbr3 --default"),
        _control(
            buffers,
            "Cubic with SEARCH",
            {"name": "cubic", "slow_start": "search"},
            "perigee cc load cubic --as cubic_search --set slow_start=search --default",
        ),
        _control(buffers, "Cubic", "cubic", "modprobe tcp_cubic"),
    ]
    proxies = [_proxy(link, "gateway", "bbr"), _proxy(link, "gateway", "hybla"), _proxy(link, "both", "bbr")]
    if has_queue:
        rest = [*controls[:2], *_queues(link), *proxies]
    else:
        rest = [*controls, _initial_window(), _pacing(), *proxies]
    own = [one for one in rest if one.cc != hosts.cc]
    return [*([buffers] if buffers else []), *own][:MOST]


def _buffers(link: Link, hosts: Hosts) -> Setting | None:
    """Return buffers for a window that fills path and queue: twice the product, of which Linux offers about half."""
    needed = window_bytes(link)
    keys: dict[str, Any] = {}
    commands: list[str] = []
    undo: list[str] = []
    said = []
    for what, who, table, today in (
        ("receive", "client", "rmem", hosts.receive_bytes),
        ("send", "server", "wmem", hosts.send_bytes),
    ):
        if needed > today:
            value = sizes(table, needed)
            keys[f"hosts.{who}.{table}"] = [f"{one} B" for one in value]
            set_it, back = _sysctl(f"net.ipv4.tcp_{table}", '"' + " ".join(map(str, value)) + '"', f"at the {who}")
            commands += set_it
            undo += back
            said.append(f"{what} buffer of the {who}")
    if not keys:
        return None
    size = f"{needed >> 20} MiB" if needed >= 1 << 20 else f"{needed >> 10} KiB"
    does = f"{' and '.join(said)} up to {size}"
    return Setting(f"Buffers of {size}", does, keys, tuple(commands), tuple(undo))


def _control(buffers: Setting | None, name: str, cc: str | dict[str, str], load: str) -> Setting:
    """Return a congestion control of the sender, with buffers that let it fill the path where today's do not."""
    kernel = cc if isinstance(cc, str) else "cubic_search"
    mine, undo = [f"{load}   # at the server"], [f"perigee cc unload {kernel}   # at the server"]
    if load.startswith("modprobe"):
        set_it, undo = _sysctl("net.ipv4.tcp_congestion_control", kernel, "at the server")
        mine += set_it
    return Setting(
        name,
        f"{name} at the server" + (f", with {buffers.does}" if buffers else ""),
        {"flows.download.cc": cc, **(buffers.keys if buffers else {})},
        (*mine, *(buffers.commands if buffers else ())),
        (*undo, *(buffers.undo if buffers else ())),
        cc=kernel,
    )


def _initial_window() -> Setting:
    save = "ip route show default | head -n 1 > route.before   # at the server"
    return Setting(
        "Initial window 40",
        "an initial window of 40 segments at the server",
        {"hosts.server.initial_window": 40},
        (save, "ip route change $(cat route.before) initcwnd 40"),
        ("ip route change $(cat route.before)   # at the server",),
    )


def _pacing() -> Setting:
    return Setting(
        "Pacing",
        "the queue discipline fq at the server, which paces each connection",
        {"hosts.server.pacing": True},
        ("tc qdisc replace dev DEV root fq   # at the server, DEV its interface",),
        ("tc qdisc del dev DEV root   # at the server",),
    )


def _proxy(link: Link, where: str, cc: str) -> Setting:
    """Return a proxy at the gateway, or one more at the user's side, with a congestion control over the link."""
    keys: dict[str, Any] = {"proxies.gateway.enabled": True, "proxies.gateway.sides.path.cc": cc}
    if where == "both":
        keys |= {"proxies.terminal.enabled": True, "proxies.terminal.sides.path.cc": cc}
    place = "at the gateway" if where == "gateway" else "at the gateway and at the user's side"
    name = {"bbr": "BBR", "hybla": "Hybla"}[cc]
    load = {"bbr": "modprobe tcp_bbr", "hybla": "perigee cc load hybla"}[cc]
    boxes = f"   # {place}; interfaces and sources are yours to fill in"
    unload = ("perigee cc unload hybla",) if cc == "hybla" else ()
    return Setting(
        f"Proxy {place} with {name}",
        f"a proxy {place}, with {name} over the link",
        keys,
        (load + boxes, "perigee-pep check pep.toml", "perigee-pep run pep.toml"),
        (f"kill -TERM $(pidof perigee-pep)   # {place}", *unload),
        file=_PEP.format(cc=cc, rate=profile.rate(link.rate_mbps * 1e6), trip=profile.time(link.rtt_ms)),
    )


def _queues(link: Link) -> list[Setting]:
    """Return sizes of the bottleneck's queue, and two that keep it short."""
    rtt = round(link.rtt_ms) or 1
    target = max(rtt // 20, 5)
    found = [
        _queue(
            link, f"Queue of {said} BDP", {"bdp": share}, f"bfifo limit {max(round(share * link.product_bytes), 3000)}"
        )
        for said, share in (("1/4", 0.25), ("1", 1), ("2", 2))
    ]
    for name, kind in (("CoDel", "codel"), ("FQ-CoDel", "fq-codel")):
        aqm = {"kind": kind, "interval": f"{rtt} ms", "target": f"{target} ms"}
        command = f"{kind.replace('-', '_')} limit 10240 target {target}ms interval {rtt}ms"
        found.append(_queue(link, name, {"bdp": 2, "aqm": aqm}, command))
    return found


def _queue(link: Link, name: str, value: dict[str, Any], discipline: str) -> Setting:
    rate = f"{round(link.rate_mbps * 1000)}kbit"
    return Setting(
        name,
        f"{name} at the gateway, towards the user",
        {"links.path.down.queue": value},
        (
            "tc qdisc replace dev DEV root handle 1: htb default 1   # at the gateway, DEV towards the user",
            f"tc class replace dev DEV parent 1: classid 1:1 htb rate {rate}",
            f"tc qdisc replace dev DEV parent 1:1 {discipline}",
        ),
        ("tc qdisc del dev DEV root   # at the gateway",),
        is_queue=True,
    )


def window_bytes(link: Link) -> int:
    """Return the buffer for twice the product of rate and round trip: a power of two.

    Examples:
        >>> window_bytes(Link("a", "geo", "", 100.0, 600.0))
        33554432
    """
    return min(max(1 << (round(4 * link.product_bytes) - 1).bit_length(), 1 << 16), 1 << 30)


def sizes(table: str, largest: int) -> list[int]:
    """Return least, first and largest size of a buffer, bytes.

    Examples:
        >>> sizes("rmem", 33554432), sizes("wmem", 10000)
        ([4096, 131072, 33554432], [4096, 10000, 10000])
    """
    return [min(4096, largest), min({"rmem": 131_072, "wmem": 16_384}[table], largest), largest]


def _sysctl(key: str, value: str, where: str) -> tuple[list[str], list[str]]:
    """Return commands that keep a value and set another, and one that brings the kept one back."""
    kept = f"{key.rpartition('.')[2]}.before"
    return (
        [f"sysctl -n {key} > {kept}   # {where}", f"sysctl -w {key}={value}"],
        [f'sysctl -w {key}="$(cat {kept})"   # {where}'],
    )


_PEP = """[allow]
sources = ["10.1.0.0/24"]        # your clients
destinations = ["0.0.0.0/0"]

[transparent]
interfaces = ["lan0"]            # towards your clients

[legs.wire]
congestion = "cubic"

[legs.link]
congestion = ["{cc}", "cubic"]
bandwidth = {rate}
round_trip = {trip}

[[rules]]
name = "all"
# At the gateway the clients are behind the link; at the user's side the servers are: exchange the two there.
client = "link"
server = "wire"
"""
