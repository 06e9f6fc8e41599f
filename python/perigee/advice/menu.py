# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The menu: settings that a study simulates, and the commands that set and undo each on Linux."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perigee.advice.link import Hosts, Link
from perigee.advice.steps import BEFORE, DEVICE, Step, printed, sysctl
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
        steps: what sets it, and takes it back.
        cc: whether the sender's congestion control changes.
        is_queue: whether it is a queue's, which may gain by less delay.
        queue_bytes: size of a queue without a discipline; None of anything else.
        file: content of `pep.toml`, where it needs one.
    """

    name: str
    does: str
    keys: Mapping[str, Any]
    steps: tuple[Step, ...] = ()
    cc: str = ""
    is_queue: bool = False
    queue_bytes: int | None = None
    file: str = field(default="", repr=False)

    @property
    def effort(self) -> int:
        """How many places have to be changed; a proxy is more than any setting."""
        proxies = sum(key.startswith("proxies.") and key.endswith(".enabled") for key in self.keys)
        return MOST * proxies + len({step.at for step in self.steps})

    @property
    def commands(self) -> list[str]:
        """The commands that set it, one a line."""
        return printed(self.steps)

    @property
    def undo(self) -> list[str]:
        """The commands that take it back."""
        return printed(self.steps, is_undone=True)


def menu(link: Link, hosts: Hosts, *, has_queue: bool) -> list[Setting]:
    """Return the settings to try over a link, beside today's: at most twelve.

    Args:
        link: the link.
        hosts: today's settings.
        has_queue: whether the bottleneck's queue is the user's; the settings of servers are then fewer.
    """
    buffers = _buffers(link, hosts)
    controls = [
        _control(buffers, "BBR", "bbr"),
        _control(buffers, "Hybla", "hybla", "perigee cc load hybla --default"),
        _control(buffers, "BBRv3", "bbr3", "perigee cc load bbr3 --default"),
        _control(
            buffers,
            "Cubic with SEARCH",
            {"name": "cubic", "slow_start": "search"},
            "perigee cc load cubic --as cubic_search --set slow_start=search --default",
        ),
        _control(buffers, "Cubic", "cubic"),
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
    steps: list[Step] = []
    said = []
    for what, who, table, today in (
        ("receive", "client", "rmem", hosts.receive_bytes),
        ("send", "server", "wmem", hosts.send_bytes),
    ):
        if needed > today:
            value = sizes(table, needed)
            keys[f"hosts.{who}.{table}"] = [f"{one} B" for one in value]
            steps.append(sysctl(who, f"net.ipv4.tcp_{table}", '"' + " ".join(map(str, value)) + '"'))
            said.append(f"{what} buffer of the {who}")
    if not keys:
        return None
    size = f"{needed >> 20} MiB" if needed >= 1 << 20 else f"{needed >> 10} KiB"
    does = f"{' and '.join(said)} up to {size}"
    return Setting(f"Buffers of {size}", does, keys, tuple(steps))


def _control(buffers: Setting | None, name: str, cc: str | dict[str, str], load: str = "") -> Setting:
    """Return a congestion control of the sender, with buffers that let it fill the path where today's do not.

    Those of Linux are loaded by the kernel when they become the default.
    """
    kernel = cc if isinstance(cc, str) else "cubic_search"
    step = (
        Step("server", load, f"perigee cc unload {kernel}")
        if load
        else sysctl("server", "net.ipv4.tcp_congestion_control", kernel)
    )
    return Setting(
        name,
        f"{name} at the server" + (f", with {buffers.does}" if buffers else ""),
        {"flows.download.cc": cc, **(buffers.keys if buffers else {})},
        (step, *(buffers.steps if buffers else ())),
        cc=kernel,
    )


def _initial_window() -> Setting:
    route = Step(
        "server",
        f"ip route change {BEFORE} initcwnd 40",
        f"ip route change {BEFORE}",
        "ip route show default | head -n 1",
        "route.before",
    )
    return Setting(
        "Initial window 40",
        "an initial window of 40 segments at the server",
        {"hosts.server.initial_window": 40},
        (route,),
    )


def _pacing() -> Setting:
    return Setting(
        "Pacing",
        "the queue discipline fq at the server, which paces each connection",
        {"hosts.server.pacing": True},
        (
            Step(
                "server",
                f"tc qdisc replace dev {DEVICE} root fq",
                f"tc qdisc del dev {DEVICE} root",
                note=f", {DEVICE} its interface",
            ),
        ),
    )


def _proxy(link: Link, where: str, cc: str) -> Setting:
    """Return a proxy at the gateway, or one more at the user's side, with a congestion control over the link."""
    keys: dict[str, Any] = {"proxies.gateway.enabled": True, "proxies.gateway.sides.path.cc": cc}
    if where == "both":
        keys |= {"proxies.terminal.enabled": True, "proxies.terminal.sides.path.cc": cc}
    place = "gateway" if where == "gateway" else "gateway and at the user's side"
    name = {"bbr": "BBR", "hybla": "Hybla"}[cc]
    load = Step(
        place,
        {"bbr": "modprobe tcp_bbr", "hybla": "perigee cc load hybla"}[cc],
        {"bbr": "", "hybla": "perigee cc unload hybla"}[cc],
        note="; interfaces and sources are yours to fill in",
    )
    return Setting(
        f"Proxy at the {place} with {name}",
        f"a proxy at the {place}, with {name} over the link",
        keys,
        (
            load,
            Step(place, "perigee-pep check pep.toml"),
            Step(place, "perigee-pep run pep.toml", "kill -TERM $(pidof perigee-pep)"),
        ),
        file=_PEP.format(cc=cc, rate=profile.rate(link.rate_mbps * 1e6), trip=profile.time(link.rtt_ms)),
    )


def _queues(link: Link) -> list[Setting]:
    """Return sizes of the bottleneck's queue, and two that keep it short."""
    rtt = round(link.rtt_ms) or 1
    target = max(rtt // 20, 5)
    found = [
        replace(
            _queue(link, f"Queue of {said} BDP", {"bdp": share}, f"bfifo limit {max(size, _LEAST_QUEUE)}"),
            queue_bytes=size,
        )
        for said, share in (("1/4", 0.25), ("1/2", 0.5), ("1", 1), ("2", 2))
        for size in (round(share * link.product_bytes),)
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
            Step(
                "gateway",
                f"tc qdisc replace dev {DEVICE} root handle 1: htb default 1",
                f"tc qdisc del dev {DEVICE} root",
                note=f", {DEVICE} towards the user",
            ),
            Step("gateway", f"tc class replace dev {DEVICE} parent 1: classid 1:1 htb rate {rate}"),
            Step("gateway", f"tc qdisc replace dev {DEVICE} parent 1:1 {discipline}"),
        ),
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


_LEAST_QUEUE = 3000
"""Two packets, bytes."""
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
