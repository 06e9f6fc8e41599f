# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A hostile operator's harm to modem and router: firewall, routes, devices, settings; each harm undoes itself."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pep_box import HONEST, Box, Modem

LIES = (
    "-5", "0", "nan", "inf", "1e400", "twenty", "", "1 bit/s", "64 kbit/s", "9" * 60_000, "1e15", "3 TB/s", "1, 2, 3",
    "20 Mbit/s, -1", ", 5", '{"up": 5}', "<html><h1>Login</h1></html>", "\x1b[31m0 Mbit/s\r\n\r\n", "0x7fffffff",
)  # fmt: skip
DEVICES = {"lan0": 1, "wan0": 2}
HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
OF_OTHERS = (
    "counter", "ct state established,related accept", "ct state invalid counter", "meta l4proto udp drop",
    "tcp flags syn tcp option maxseg size set rt mtu", "limit rate 1000/second accept", "ct mark set meta mark",
    "fib daddr type local accept",
)  # fmt: skip
FULL = """table inet full {
  chain in { type filter hook prerouting priority -199; ct state new drop; }
  chain out { type filter hook output priority -199; ct state new drop; }
}
"""
SYSCTLS = (
    ("ipv4/ip_forward", "0"), ("ipv6/conf/all/forwarding", "0"), ("ipv4/conf/all/rp_filter", "1"),
    ("ipv4/tcp_rmem", "4096 4096 4096"), ("ipv4/tcp_wmem", "4096 4096 4096"), ("ipv4/tcp_ecn", "1"),
    ("ipv4/tcp_timestamps", "0"), ("ipv4/tcp_sack", "0"),
    ("ipv4/ip_early_demux", "0"), ("ipv4/tcp_mtu_probing", "2"), ("ipv4/ip_local_port_range", "2000 2100"),
)  # fmt: skip


@dataclass(frozen=True)
class Field:
    """Where harm is done, and what draws how."""

    box: Box
    draw: random.Random

    @property
    def modem(self) -> Modem:
        """The modem that the service asks."""
        return self.box.modem

    def pause(self, least: float, most: float) -> None:
        """Let time pass."""
        time.sleep(self.draw.uniform(least, most))

    def do(self, line: str, text: str | None = None) -> None:
        """Carry out a command at the router, whether it can be or not."""
        with suppress(RuntimeError):
            self.box.world.router.execute(line, text)

    def some(self, least: int, most: int) -> range:
        """Draw how often."""
        return range(self.draw.randint(least, most))


def lies(field: Field) -> None:
    """The modem says what is no rate, or none of its own."""
    for lie in field.draw.sample(LIES, 8):
        field.modem.say(lie)
        field.pause(0.1, 0.6)


def flapping(field: Field) -> None:
    """The modem's rate changes all the time."""
    rates = ("64 kbit/s", "1 Mbit/s, 1 Mbit/s", "20 Mbit/s", "10 Gbit/s, 9 Gbit/s", "", HONEST)
    for _ in field.some(20, 60):
        field.modem.say(field.draw.choice(rates))
        field.pause(0.01, 0.15)


def unwell(field: Field) -> None:
    """The modem does not answer, or not in time, or without end."""
    for what in field.draw.sample(Modem.FAILURES, 3):
        field.modem.be(what)
        field.pause(0.3, 1.5)


def rules_of_others(field: Field) -> None:
    """Tables of others come, change their order, are flushed, and go."""
    names = [f"{field.draw.choice(('inet', 'ip', 'ip6'))} other{at}" for at in range(4)]
    try:
        for _ in field.some(10, 25):
            table = f"table {field.draw.choice(names)}"
            chains = "".join(
                f"chain {hook} {{ type filter hook {hook} priority {field.draw.randint(-350, 350)}; policy accept; "
                f"{field.draw.choice(OF_OTHERS)}; counter; }}\n"
                for hook in field.draw.sample(HOOKS, 3)
            )
            again = f"{table}\ndelete {table}\n{table} {{\n{chains}}}\n"
            field.do("nft -f -", field.draw.choice((again, again, f"flush {table}\n", f"delete {table}\n")))
            field.pause(0.0, 0.3)
    finally:
        for name in names:
            field.do(f"nft delete table {name}")


def routes_of_others(field: Field) -> None:
    """Policy routes of others come before and beside those of the service, with its priorities and their own."""
    lines = [
        f"ip {version} {what}"
        for version, net, one in (("-4", "10.9.0.0/16", "10.2.0.2/32"), ("-6", "2001:db8:9::/48", "2001:db8:2::2/128"))
        for what in (
            f"rule add priority 0 from {net} lookup 99", f"rule add priority 0 to {net} unreachable",
            "rule add priority 0 fwmark 0x99 lookup 98", "rule add priority 1 iif lan0 lookup 99",
            f"route add {net} dev wan0 table 99", f"route add {one} dev wan0",
        )
    ]  # fmt: skip
    field.draw.shuffle(lines)
    try:
        for line in lines:
            field.do(line)
            field.pause(0.0, 0.2)
    finally:
        for line in field.draw.sample(lines, len(lines)):
            field.do(line.replace(" add ", " delete "))
            field.pause(0.0, 0.05)


def tracked_full(field: Field) -> None:
    """The host begins to track connections, and has no room for new ones: a rule drops what a full table drops."""
    try:
        field.do("nft -f -", FULL)
        field.pause(0.5, 3)
    finally:
        field.do("nft delete table inet full")


def device_down(field: Field) -> None:
    """A device goes down, and comes up."""
    device = field.draw.choice([*DEVICES])
    try:
        field.do(f"ip link set {device} down")
        field.pause(0.1, 3)
    finally:
        field.do(f"ip link set {device} up")
        _put_back(field, device)


def addresses_gone(field: Field) -> None:
    """A device loses its addresses, and gets them again."""
    device = field.draw.choice([*DEVICES])
    try:
        for version in field.draw.sample(("-4", "-6"), 2):
            field.do(f"ip {version} address flush dev {device} scope global")
            field.pause(0.1, 1.5)
    finally:
        _put_back(field, device)


def _put_back(field: Field, device: str) -> None:
    net = DEVICES[device]
    field.do(f"ip address replace 10.{net}.0.1/24 dev {device}")
    field.do(f"ip address replace 2001:db8:{net}::1/64 dev {device} nodad")


def other_mtu(field: Field) -> None:
    """A device has other MTUs."""
    device = field.draw.choice([*DEVICES])
    try:
        for mtu in field.draw.sample((1280, 1400, 2000, 9000), 2):
            field.do(f"ip link set {device} mtu {mtu}")
            field.pause(0.2, 1.5)
    finally:
        field.do(f"ip link set {device} mtu 1500")


def sysctls(field: Field) -> None:
    """The host's settings change."""
    router = field.box.world.router
    for name, value in field.draw.sample(SYSCTLS, 3):
        with router.entered():
            had = Path("/proc/sys/net", name).read_text()
        router.set(name, value)
        field.pause(0.2, 1.5)
        router.set(name, had)


def ruleset_flushed(field: Field) -> None:
    """All tables are flushed, those of the service too, as by a restart of the firewall."""
    field.do("nft flush ruleset")
    field.pause(0.1, 2)
