# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A hostile operator's harm to modem, router and service: `HARMS` has all kinds; each undoes itself."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pep_box import MODEM, Answer, Box, said
from pep_ends import damaged, expect, flood
from pep_world import SERVICE

LIES = (
    "-5", "0", "nan", "inf", "1e400", "twenty", "", "1 bit/s", "64 kbit/s", "9" * 60_000, "1e15", "3 TB/s", "1, 2, 3",
    "20 Mbit/s, -1", ", 5", '{"up": 5}', "<html><h1>Login</h1></html>", "\x1b[31m0 Mbit/s\r\n\r\n", "0x7fffffff",
)  # fmt: skip
RATES = ("64 kbit/s", "1 Mbit/s, 1 Mbit/s", "20 Mbit/s", "10 Gbit/s, 9 Gbit/s", "", "500 Mbit/s, 500 Mbit/s")
HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
OF_OTHERS = (
    "counter", "ct state established,related accept", "ct state invalid counter", "meta l4proto udp drop",
    "tcp flags syn tcp option maxseg size set rt mtu", "limit rate 1000/second accept", "ct mark set meta mark",
    "fib daddr type local accept",
)  # fmt: skip
ROUTES = tuple(
    f"ip {version} {what}"
    for version, net, one in (("-4", "10.9.0.0/16", "10.2.0.2/32"), ("-6", "2001:db8:9::/48", "2001:db8:2::2/128"))
    for what in (
        f"rule add priority 0 from {net} lookup 99", f"rule add priority 0 to {net} unreachable",
        "rule add priority 0 fwmark 0x99 lookup 98", "rule add priority 1 iif lan0 lookup 99",
        f"route add {net} dev wan0 table 99", f"route add {one} dev wan0",
    )
)  # fmt: skip
FULL = (
    "nft table inet full { chain in { type filter hook prerouting priority -199; ct state new drop; }; "
    "chain out { type filter hook output priority -199; ct state new drop; }; }"
)
SYSCTLS = (
    ("ipv4/ip_forward", "0"), ("ipv6/conf/all/forwarding", "0"), ("ipv4/conf/all/rp_filter", "1"),
    ("ipv4/tcp_rmem", "4096 4096 4096"), ("ipv4/tcp_wmem", "4096 4096 4096"), ("ipv4/tcp_ecn", "1"),
    ("ipv4/tcp_timestamps", "0"), ("ipv4/tcp_sack", "0"),
    ("ipv4/ip_early_demux", "0"), ("ipv4/tcp_mtu_probing", "2"), ("ipv4/ip_local_port_range", "2000 2100"),
)  # fmt: skip
TABLES = [f"table {family} other{at}" for at, family in enumerate(("inet", "ip", "ip6", "inet"))]
FAILURES: tuple[Answer, ...] = (
    (lambda asking: asking.recv(1), "read nothing"),
    (lambda asking: flood(asking, b"HTTP/1.1 200 OK\r\n\r\n" + bytes(4096)), "while :; do printf 111111; done"),
    (lambda asking: None, "kill -9 $$"),
    (lambda asking: asking.sendall(b"HTTP/1.1 500 No\r\n\r\n500"), "exit 3"),
    (lambda asking: asking.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n20 M"), "printf 20"),
)
"""A modem that is silent, tells without end, dies, fails, and breaks off."""

Act = Callable[[Box], object]


def answers(*choices: Answer) -> Act:
    """The modem answers otherwise."""
    return lambda box: box.modem.answer(box.draw.choice(choices))


def one_of(*lines: str) -> Act:
    """One of these commands is carried out at the router."""
    return lambda box: box.do(box.draw.choice(lines))


def each(*lines: str) -> Act:
    """All of these commands are carried out at the router."""
    return lambda box: box.do(*lines)


def rules_of_others(box: Box) -> None:
    """A table of others comes, changes its order, is flushed, or goes."""
    table = box.draw.choice(TABLES)
    chains = "".join(
        f"chain {hook} {{ type filter hook {hook} priority {box.draw.randint(-350, 350)}; policy accept; "
        f"{box.draw.choice(OF_OTHERS)}; counter; }}; "
        for hook in box.draw.sample(HOOKS, 3)
    )
    again = f"{table}; delete {table}; {table} {{ {chains}}}"
    box.do(f"nft {box.draw.choice((again, again, f'flush {table}', f'delete {table}'))}")


def sysctls(box: Box) -> None:
    """A setting of the host changes for a while."""
    router, (name, value) = box.world.router, box.draw.choice(SYSCTLS)
    with router.entered():
        had = Path("/proc/sys/net", name).read_text()
    router.set(name, value)
    box.pause(0.2, 1.5)
    router.set(name, had)


def reloads(box: Box) -> None:
    """A broken or good configuration is read."""
    good, draw = box.text(), box.draw
    limits, rate = f'held = "{draw.randint(2, 64)} MiB"', f'send = "{draw.randint(5, 900)} Mbit/s"'
    texts = (good, good[: len(good) // 2], "", box.text(limits, source=rate))
    box.path.write_bytes(draw.choice((damaged(good, draw), *map(str.encode, texts))))
    box.signal(signal.SIGHUP)


def narrow(box: Box) -> None:
    """A limit falls below what is open."""
    most, at_limit = box.draw.randint(1, 12), box.draw.choice(("wait", "pass"))
    box.path.write_text(box.text(f'connections = {most}\nper_client = {most}\nat_limit = "{at_limit}"'))
    box.signal(signal.SIGHUP)


def full_disk(box: Box) -> None:
    """The disk of log, accounting and control socket is full, amid a reload or an upgrade."""
    with suppress(OSError), (box.disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    box.pause(0.2, 1.5)
    box.draw.choice((box.reload, box.upgrade))()


def failed_upgrades(box: Box) -> None:
    """An upgrade fails: the program is gone, of a wrong kind, cut off, or has no room, or a wrong configuration."""
    draw, copy, service, good = box.draw, box.world.folder / f"{SERVICE.name}-next", str(SERVICE), box.text()
    # The kernel's name of a program that somebody has removed while it runs.
    gone = Path(f"{copy} (deleted)")
    what = draw.choice(("gone", "wrong", "cut", "memory", "descriptors", "input", "taken"))
    program = {
        "cut": (str(copy),),
        "memory": ("prlimit", f"--as={draw.randint(4, 80) * 1_000_000}", service),
        "descriptors": ("prlimit", f"--nofile={draw.randint(4, 60)}", service),
    }.get(what, (service,))
    shutil.copy(SERVICE, copy)
    if what in ("gone", "wrong"):
        program = ("sh", "-c", 'exec 3< "$0"; rm "$0"; exec /proc/self/fd/3 "$@"', str(copy))
    if what == "wrong":
        does = draw.choice(("exit 0", "kill -9 $$", "echo ready 1 9.9", "echo 2 no", "yes | head -c 100000"))
        gone.write_text(f"#!/bin/sh\n{does}\n")
        gone.chmod(0o755)
    if what == "cut":
        os.truncate(copy, draw.randrange(100, copy.stat().st_size // 4))
    texts = {"input": f"{good}nonsense = 1\n", "taken": box.text(metrics=f"{MODEM[0]}:{MODEM[1]}")}
    box.path.write_text(texts.get(what, good))
    done: object = ""
    # The kernel refuses some programs.
    with suppress(OSError):
        done = box.ask("upgrade", *program)
    copy.unlink(missing_ok=True)
    gone.unlink(missing_ok=True)
    box.path.write_text(good)
    before = box.pid
    box.await_running()
    if box.pid != before:
        expect(what == "memory", f"an upgrade ({what}) has replaced the service: {done}")
        # It has so little room only.
        box.upgrade()


def killed_upgrades(box: Box) -> None:
    """The new process is killed at some time, maybe after it has taken over: then as the service itself."""
    there = box.processes()
    with box.world.router.entered():
        upgrading = subprocess.Popen([SERVICE, "upgrade", box.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    box.pause(0.0, 0.25)
    box.end(signal.SIGKILL, box.processes() - there - {upgrading.pid})
    upgrading.communicate()
    if not box.runs():
        box.start()
    box.await_running()


def strange_successors(box: Box) -> None:
    """Programs that do not know the language ask to take over, and stop at any step."""
    words = ([b"offer 9.9"], [b"offer 9.9", b"ready"], [b"garbage"], [b"ready"], [b"offer"], [bytes(9000)])
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.settimeout(1)
        stranger.connect(f"{box.disk}/control.upgrade")
        with suppress(OSError):
            for step in box.draw.choice(words):
                stranger.send(step)
                box.pause(0.0, 0.3)


def accounts_gone(box: Box) -> None:
    """The folder of accounting is moved, removed, or something else; the configuration is read again meanwhile."""
    away = box.accounts.rename(box.disk / "away")
    if box.draw.random() < 0.5:
        shutil.rmtree(away)
    if box.draw.random() < 0.3:
        box.accounts.write_text("no folder")
    box.pause(0.0, 1.5)
    box.reload()


def accounts_back(box: Box) -> None:
    """The folder of accounting is there again."""
    box.accounts.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        (box.disk / "away").rename(box.accounts)
    box.make_accounts()


def few_descriptors(box: Box) -> None:
    """The process may open hardly more than it has; one of another user, which only some may limit, begins with few."""
    few = len([*Path(f"/proc/{box.pid}/fd").iterdir()]) + box.draw.randint(-5, 8)
    try:
        had = resource.prlimit(box.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(box.pid, resource.RLIMIT_NOFILE, (few, had[1]))
        box.pause(0.5, 3)
        resource.prlimit(box.pid, resource.RLIMIT_NOFILE, had)
    except PermissionError:
        box.ask("upgrade", "prlimit", f"--nofile={few + 60}", str(SERVICE))
        box.pause(0.5, 3)
        box.await_running()
        box.upgrade()


@dataclass(frozen=True)
class Harm:
    """A kind of harm."""

    name: str
    act: Act
    times: tuple[int, int] = (1, 1)
    """The least and the most."""
    pause: tuple[float, float] = (0.0, 0.0)
    """After each time, at least and at most, s."""
    undo: Act = Box.do
    may: frozenset[str] = frozenset()
    """How transfers may end by it."""

    def do(self, box: Box) -> None:
        """Do it, and undo it."""
        try:
            for _ in range(box.draw.randint(*self.times)):
                self.act(box)
                box.pause(*self.pause)
        finally:
            self.undo(box)


UNREACHED, ENDED = frozenset({"refused"}), frozenset({"refused", "reset"})
DEVICES, FAMILIES, MTUS = ("lan0", "wan0"), ("-4", "-6"), (1280, 1400, 2000, 9000)
DOWN = [f"ip link set {device} down" for device in DEVICES]
FLUSHED = [f"ip {family} address flush dev {device} scope global" for family in FAMILIES for device in DEVICES]
RESIZED = [f"ip link set {device} mtu {mtu}" for device in DEVICES for mtu in MTUS]
PUT_BACK = each(
    *(
        line
        for net, device in enumerate(DEVICES, 1)
        for line in (
            f"ip link set {device} up mtu 1500",
            f"ip address replace 10.{net}.0.1/24 dev {device}",
            f"ip address replace 2001:db8:{net}::1/64 dev {device} nodad",
        )
    )
)
NO_TABLES = each(*(f"nft delete {table}" for table in TABLES))
UNROUTED = each(*(line.replace(" add ", " delete ") for line in ROUTES))
HARMS = (
    Harm("wrong rates", answers(*map(said, LIES)), (8, 8), (0.1, 0.6)),
    Harm("flapping modem", answers(*map(said, RATES)), (20, 60), (0.01, 0.15)),
    Harm("unwell modem", answers(*FAILURES), (3, 3), (0.3, 1.5)),
    Harm("reloads, broken and good", reloads, (8, 25), (0.0, 0.15)),
    Harm("limits below what is open", narrow, (2, 2), (0.5, 2)),
    Harm("rules of others", rules_of_others, (10, 25), (0.0, 0.3), NO_TABLES),
    Harm("routes of others", one_of(*ROUTES), (12, 24), (0.0, 0.2), UNROUTED),
    Harm("conntrack full", each(FULL), pause=(0.5, 3), undo=each("nft delete table inet full")),
    Harm("full disk", full_disk, pause=(0.2, 1.5), undo=lambda box: (box.disk / "filler").unlink()),
    Harm("upgrade", Box.upgrade),
    Harm("failed upgrades", failed_upgrades, (3, 3)),
    Harm("killed upgrades", killed_upgrades, (1, 3), may=ENDED),
    Harm("strange successors", strange_successors),
    Harm("accounting folder gone", accounts_gone, pause=(0.0, 1.5), undo=accounts_back),
    Harm("device down", one_of(*DOWN), (1, 1), (0.1, 3), PUT_BACK, UNREACHED),
    Harm("addresses gone", one_of(*FLUSHED), (2, 2), (0.1, 1.5), PUT_BACK, UNREACHED),
    Harm("other MTU", one_of(*RESIZED), (2, 2), (0.2, 1.5), PUT_BACK),
    Harm(
        "stopped by SIGSTOP",
        lambda box: box.signal(signal.SIGSTOP),
        pause=(0.1, 4),
        undo=lambda box: box.signal(signal.SIGCONT),
    ),
    Harm("few descriptors", few_descriptors),
    Harm("sysctls", sysctls, (3, 3)),
    Harm("all rules flushed", each("nft flush ruleset"), pause=(0.1, 2)),
    Harm("kill -9, and start", lambda box: box.end(signal.SIGKILL, {box.pid}), pause=(0, 1), undo=Box.start, may=ENDED),
    Harm("stop, and start", lambda box: box.end(signal.SIGTERM, box.processes()), undo=Box.start, may=ENDED),
)
