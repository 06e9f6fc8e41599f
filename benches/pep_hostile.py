#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An hour of a hostile operator: perigee-pep carries transfers while all is done to it and its host, and loses nothing.

    benches/pep_hostile.py [--minutes 60] [--seed N] [--only WORDS]

Each transfer is checked to the byte, by its hash, and for its end. Kinds of harm (`pep_host_harms.py`,
`pep_service_harms.py`) follow each other, in a random order that the seed repeats; after each the service has to run,
and to serve new connections over IPv4 and IPv6. What may end connections (a kill, a link that is down) says so; what it
ends is counted, and may be no orderly end, nor another byte. In the end nothing may be left: processes, rules, routes,
sockets, files. Prints a row for each kind, and ends with 1 if anything was lost. At least all kinds are done once. All
is in namespaces that end with this process. Needs root, and the program as pep.py does. The clock is left alone:
namespaces have none of their own.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pep_host_harms as host
import pep_service_harms as service
from emulator import table
from pep import end_at_once, hide_files
from pep_box import HONEST, Box, reap
from pep_ends import MB, LostError, expect
from pep_traffic import Ledger, Traffic
from pep_world import DEATH_SIGNAL, DESCRIPTORS, LIBC, SERVER, SERVER6, World, await_that

NEW_PROCESSES = 0x20000000
PATIENCE_S = 30.0
"""Time in which the service serves as before, after any harm."""
HURT = ("refused", "reset", "lost")
LEFT = (
    "nft list ruleset", "ip -4 rule", "ip -6 rule", "ip -4 route show table all", "ip -6 route show table all",
    "ip -br link", "ss -Hltun", "ss -Hlx",
)  # fmt: skip


@dataclass(frozen=True)
class Harm:
    """A kind of harm, and how transfers may end by it."""

    name: str
    do: Callable[[host.Field], None]
    may: frozenset[str] = frozenset()


UNREACHED, ENDED = frozenset({"refused"}), frozenset({"refused", "reset"})
HARMS = (
    Harm("wrong rates", host.lies),
    Harm("flapping modem", host.flapping),
    Harm("unwell modem", host.unwell),
    Harm("reloads, broken and good", service.reloads),
    Harm("limits below what is open", service.narrow),
    Harm("rules of others", host.rules_of_others),
    Harm("routes of others", host.routes_of_others),
    Harm("conntrack full", host.tracked_full),
    Harm("full disk", service.full_disk),
    Harm("upgrade", service.upgrade),
    Harm("failed upgrades", service.failed_upgrades),
    Harm("killed upgrades", service.killed_upgrades, ENDED),
    Harm("strange successors", service.strange_successors),
    Harm("accounting folder gone", service.accounts_gone),
    Harm("device down", host.device_down, UNREACHED),
    Harm("addresses gone", host.addresses_gone, UNREACHED),
    Harm("other MTU", host.other_mtu),
    Harm("stopped by SIGSTOP", service.halted),
    Harm("few descriptors", service.few_descriptors),
    Harm("sysctls", host.sysctls),
    Harm("all rules flushed", host.ruleset_flushed),
    Harm("kill -9, and start", service.killed, ENDED),
    Harm("stop, and start", service.stopped, ENDED),
)


def begin_alone() -> None:
    """Go on as the first process of a namespace, with which the kernel ends all others; its parent waits for it."""
    if LIBC.unshare(NEW_PROCESSES):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if process := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        os._exit(code if code >= 0 else 128 - code)
    LIBC.prctl(DEATH_SIGNAL, signal.SIGKILL)
    hide_files()
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)


class Operator:
    """Does harm, and looks at what has become of the service after each."""

    def __init__(self, box: Box, traffic: Traffic, draw: random.Random) -> None:
        self.field, self.traffic, self.ledger = host.Field(box, draw), traffic, traffic.ledger
        self.done, self.open = Counter[str](), Counter[str]()

    def harm(self, harm: Harm) -> None:
        """Do it, undo what it leaves, and look."""
        box, ledger = self.field.box, self.ledger
        ledger.now, ledger.may = harm.name, harm.may
        self.done[harm.name] += 1
        self.open[harm.name] += ledger.open
        try:
            harm.do(self.field)
            box.modem.say(HONEST)
            box.reload()
            self._look()
        except (LostError, OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            ledger.fails(-sum(self.done.values()), "lost", f"the service: {error}\n" + "\n".join(box.wrong))
            if "state running" not in box.status():
                box.close()
                box.start()

    def _look(self) -> None:
        box, deadline = self.field.box, time.monotonic() + PATIENCE_S
        served = box.probed()
        while box.probed() < served + 2:
            expect(time.monotonic() < deadline, "new connections are not served")
            for address in (SERVER, SERVER6):
                # One that began while a device had no address may fail.
                with suppress(OSError):
                    self.traffic.probe(address)
        # The end by a kill is noticed by the next byte of each.
        self.field.pause(2, 3.5)
        box.look_at_log()
        reap()

    def end(self, before: list[str]) -> list[str]:
        """Have all transfers and then the service end; return what is left, or missing, beside what was there."""
        box, self.ledger.now, self.ledger.may = self.field.box, "end", frozenset[str]()
        try:
            self.traffic.end()
            box.signal(signal.SIGTERM)
            await_that(lambda: not box.processes(), lambda: f"processes that do not end: {box.processes()}")
        except (LostError, OSError, RuntimeError) as error:
            self.ledger.fails(0, "lost", error)
        after = standing(box.world)
        return sorted({*before} ^ {*after})

    def rows(self) -> list[list[str]]:
        """Return a row for each kind of harm."""
        hurt = self.ledger.hurt
        return [
            [name, str(count), f"{self.open[name] / count:.0f}", *(str(hurt[name, how]) for how in HURT)]
            for name, count in sorted(self.done.items())
        ]


def rounds(draw: random.Random, harms: list[Harm]) -> Iterator[Harm]:
    """Yield all kinds of harm, in another order each time."""
    while True:
        yield from draw.sample(harms, len(harms))


def tell(ledger: Ledger, told: int, began: float) -> int:
    """Print losses from this one on; return how many have been told."""
    for line in ledger.losses[told:]:
        print(f"{(time.monotonic() - began) / 60:.1f} min: {line}", flush=True)
    return len(ledger.losses)


def standing(world: World) -> list[str]:
    """Return what the router has: rules, routes, sockets, devices, files; and the processes."""
    there = [line for what in LEFT for line in world.router.execute(what).splitlines()]
    files = [str(path) for path in world.folder.rglob("*") if path.name not in ("log", "use.jsonl")]
    reap()
    processes = [path.name for path in Path("/proc").glob("[0-9]*") if path.name != str(os.getpid())]
    return sorted(" ".join(line.split()) for line in (*there, *files, *processes))


def main() -> int:
    """Do harm for as long as is asked, and print what it did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", metavar="WORDS", help="only harms with these words in their name")
    asked = parser.parse_args()
    chosen = [harm for harm in HARMS if asked.only in harm.name]
    end_at_once()
    begin_alone()
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    print(f"seed {asked.seed}", flush=True)
    draw = random.Random(asked.seed)  # noqa: S311 - it is no secret
    world = World()
    box = Box(world, draw)
    before, began = standing(world), time.monotonic()
    box.start()
    operator = Operator(box, Traffic(world, Ledger(), asked.seed), draw)
    ledger, told = operator.ledger, 0
    kinds = rounds(draw, chosen)
    while time.monotonic() < began + 60 * asked.minutes or len(operator.done) < len(chosen):
        operator.harm(next(kinds))
        told = tell(ledger, told, began)
    left = operator.end(before)
    tell(ledger, told, began)
    table(["what was done", "times", "open", *HURT], operator.rows())
    took = time.monotonic() - began
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    counts = [f"{sum(count for (_, how), count in ledger.hurt.items() if how == each)} {each}" for each in HURT]
    print(
        f"\nseed {asked.seed}: {took / 60:.1f} min, {operator.done.total()} harms; {ledger.whole} transfers whole, "
        f"{ledger.carried / MB:.0f} MB, {', '.join(counts)}; {100 * used / took:.0f} % of a core"
    )
    for line in left:
        print(f"left: {line}")
    print(f"{len(ledger.losses)} hurt that may not be" if ledger.losses else "nothing is lost")
    return 1 if left or ledger.losses else 0


if __name__ == "__main__":
    sys.exit(main())
