#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An hour of a hostile operator: perigee-pep carries transfers while all is done to it and its host, and loses nothing.

    benches/pep_hostile.py [--minutes 60] [--seed N] [--only WORDS]

Each transfer is checked to the byte and for its end. Kinds of harm (`pep_harms.py`) follow each other, in
a random order that the seed repeats; after each the service has to run, and to serve new connections over IPv4 and
IPv6. What may end connections (a kill, a link that is down) says so; what it ends is counted, and may be no orderly
end, nor another byte. In the end nothing may be left: processes, rules, routes, sockets, files. Prints a row for each
kind, and ends with 1 if anything was lost. At least all kinds are done once. All is in namespaces that end with this
process. Needs root, and the program as pep.py does. The clock is left alone: namespaces have none of their own.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from pep_box import HONEST, PROBED, Box
from pep_ends import MB, LostError, connected, exchange, expect
from pep_harms import ENDED, HARMS, Harm
from pep_traffic import Ledger, Traffic
from pep_world import SERVER, SERVER6, World, await_that, begin
from shown import table

PATIENCE_S = 30.0
"""Time in which the service serves as before, after any harm."""
HURT = ("refused", "reset", "lost")
LEFT = (
    "nft list ruleset", "ip -4 rule", "ip -6 rule", "ip -4 route show table all", "ip -6 route show table all",
    "ip -br link", "ss -Hltun", "ss -Hlx",
)  # fmt: skip


class Operator:
    """Does harm, looks at what has become of the service after each, and keeps the account."""

    def __init__(self, box: Box, ledger: Ledger) -> None:
        self.box, self.ledger = box, ledger
        self.done, self.open = Counter[str](), Counter[str]()

    def harm(self, harm: Harm) -> None:
        """Do it, undo what it leaves, and look."""
        box, ledger = self.box, self.ledger
        ledger.now, ledger.may = harm.name, harm.may
        self.done[harm.name] += 1
        self.open[harm.name] += len(ledger.open)
        try:
            harm.do(box)
            box.modem.answer(HONEST)
            box.reload()
            self._look()
        except (LostError, OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            ledger.note("lost", why=f"the service: {error}\n{box.told()}")
            if not box.runs():
                ledger.may = ENDED
                box.end(signal.SIGKILL, box.processes())
                box.start()
                box.pause(2, 3.5)

    def _look(self) -> None:
        box, deadline = self.box, time.monotonic() + PATIENCE_S
        wanted = box.value(ACCEPTED) + 2
        while box.value(ACCEPTED) < wanted:
            expect(time.monotonic() < deadline, "new connections are not served")
            for address in (SERVER, SERVER6):
                # One that began while a device had no address may fail.
                with suppress(OSError), connected(box, address, PROBED[0]) as ends:
                    exchange(*ends, bytes(1000), bytes(1000))
        # The end by a kill is noticed by the next byte of each.
        box.pause(2, 3.5)
        box.look_at_log()
        reap()

    def end(self, traffic: Traffic) -> None:
        """Have all transfers and then the service end."""
        self.ledger.now, self.ledger.may = "end", frozenset()
        try:
            traffic.end()
            self.box.signal(signal.SIGTERM)
            await_that(lambda: not self.box.processes(), lambda: f"processes that do not end: {self.box.processes()}")
        except (LostError, OSError, RuntimeError) as error:
            self.ledger.note("lost", why=str(error))

    def report(self, seed: int) -> None:
        """Print a row for each kind of harm, and the sums."""
        fates, took = self.ledger.fates, time.monotonic() - self.ledger.began
        hurt = Counter((now, how) for now, how, _ in fates)
        rows = [
            [name, str(count), f"{self.open[name] / count:.0f}", *(str(hurt[name, how]) for how in HURT)]
            for name, count in sorted(self.done.items())
        ]
        table(["what was done", "times", "open", *HURT], rows)
        used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        all_of = Counter(how for _, how, _ in fates)
        print(
            f"\nseed {seed}: {took / 60:.1f} min, {self.done.total()} harms; {all_of['whole']} transfers whole, "
            f"{sum(carried for *_, carried in fates) / MB:.0f} MB, "
            f"{', '.join(f'{all_of[how]} {how}' for how in HURT)}; {100 * used / took:.0f} % of a core"
        )


def standing(world: World) -> set[str]:
    """Return what the router has: rules, routes, sockets, devices, files; and the processes."""
    there = [line for what in LEFT for line in world.router.execute(what).splitlines()]
    files = [str(path) for path in world.folder.rglob("*") if path.name not in ("log", "use.jsonl")]
    reap()
    processes = [path.name for path in Path("/proc").glob("[0-9]*") if path.name != str(os.getpid())]
    return {" ".join(line.split()) for line in (*there, *files, *processes)}


def reap() -> None:
    """Take note of the end of processes; those whose parents have ended are this one's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> int:
    """Do harm for as long as is asked, and print what it did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", metavar="WORDS", help="only harms with these words in their name")
    asked = parser.parse_args()
    chosen = [harm for harm in HARMS if asked.only in harm.name]
    begin(alone=True)
    print(f"seed {asked.seed}", flush=True)
    draw = random.Random(asked.seed)  # noqa: S311 - it is no secret
    box = Box(World(), draw)
    before = standing(box.world)
    box.start()
    ledger = Ledger()
    operator, traffic = Operator(box, ledger), Traffic(box, ledger, asked.seed)
    # Transfers are open from the first harm on.
    box.pause(1, 2)
    # All kinds, in another order each time.
    harms = itertools.chain.from_iterable(draw.sample(chosen, len(chosen)) for _ in itertools.count())
    while time.monotonic() < ledger.began + 60 * asked.minutes or len(operator.done) < len(chosen):
        operator.harm(next(harms))
    operator.end(traffic)
    operator.report(asked.seed)
    left = standing(box.world) ^ before
    for line in sorted(left):
        print(f"left: {line}")
    print(f"{len(ledger.losses)} hurt that may not be" if ledger.losses else "nothing is lost")
    return 1 if left or ledger.losses else 0


ACCEPTED = "rule probe .* accepted"

if __name__ == "__main__":
    sys.exit(main())
