# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Transfers that pass a proxy all the time, and what becomes of them: slow, short, in turns, with late readers."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from pep_ends import MB, Ends, LostError, RefusedError, Work, connected, data, echo, exchange
from pep_world import PATIENCE_S, SERVER, SERVER6, Proxy

POOL = data(8 * MB, 64)
PORTS = {"first": range(8500, 9000), "all": range(8000, 8500)}
"""Servers' ports by the rule for them, one for each transfer that is open."""
SLOW, TALKING, SHORT = 8, 6, 3
"""Clients of each kind, one transfer at a time each."""


@dataclass
class Ledger:
    """The fate of transfers, by what is done meanwhile."""

    now: str = "nothing"
    may: frozenset[str] = frozenset()
    """How transfers may fail by it: `refused` before the server had heard of it, or `reset`."""
    open: set[str] = field(default_factory=set)
    fates: list[tuple[str, str, int]] = field(default_factory=list)
    """Each has what was done, how a transfer ended (`whole`, `refused`, `reset`, `lost`), and its bytes."""
    losses: list[str] = field(default_factory=list)
    """Those that may not be, a line each, which are printed too."""
    began: float = field(default_factory=time.monotonic)

    def note(self, how: str, carried: int = 0, why: str = "") -> None:
        """Take down how a transfer has ended."""
        self.fates.append((self.now, how, carried))
        if how not in ("whole", *self.may):
            self.losses.append(f"{how} amid `{self.now}`: {why}")
            print(f"{(time.monotonic() - self.began) / 60:.1f} min: {self.losses[-1]}", flush=True)

    def carry(self, name: str, transfer: Callable[[], int]) -> None:
        """Carry out a transfer, which returns its number of bytes."""
        self.open.add(name)
        try:
            self.note("whole", transfer())
        except (LostError, OSError) as error:
            is_lost = isinstance(error, TimeoutError) or not isinstance(error, OSError)
            how = "lost" if is_lost else "refused" if isinstance(error, RefusedError) else "reset"
            self.note(how, why=f"{name}: {error}")
        self.open.discard(name)


Kind = Callable[[Ends, random.Random], int]
"""Carries out a transfer and returns its number of bytes."""


class Traffic:
    """Transfers through a proxy; they begin at once."""

    def __init__(self, proxy: Proxy, ledger: Ledger, seed: int) -> None:
        self.proxy, self.ledger = proxy, ledger
        self._numbers, self._ends = itertools.count(), threading.Event()
        kinds: list[Kind] = [*[_slow] * SLOW, *[self._talk] * TALKING, *[_short] * SHORT]
        self._clients = [
            Work(partial(self._repeat, kind, random.Random(f"{seed} {at}")))  # noqa: S311 - it is no secret
            for at, kind in enumerate(kinds)
        ]

    def end(self) -> None:
        """Begin no more transfers, and wait for those that are open."""
        self._ends.set()
        for client in self._clients:
            client.result(2 * PATIENCE_S)

    def _repeat(self, kind: Kind, choice: random.Random) -> None:
        while not self._ends.is_set():
            address, ports = choice.choice((SERVER, SERVER6)), PORTS[choice.choice([*PORTS])]
            port = ports[next(self._numbers) % len(ports)]
            self.ledger.carry(f"{address}, port {port}", partial(self._carry, kind, choice, address, port))
            self._ends.wait(choice.uniform(0.1, 0.8))

    def _carry(self, kind: Kind, choice: random.Random, address: str, port: int) -> int:
        with connected(self.proxy, address, port) as ends:
            return kind(ends, choice)

    def _talk(self, ends: Ends, choice: random.Random) -> int:
        until = time.monotonic() + choice.uniform(1, 120)
        while time.monotonic() < until and not self._ends.wait(0.5):
            echo(*ends, choice.randbytes(64))
        exchange(*ends, b"", b"", waits_s=0)
        return 0


def _slow(ends: Ends, choice: random.Random) -> int:
    rate, ways = choice.randint(30_000, 150_000), choice.choice(((1, 0), (0, 1), (1, 1)))
    size = int(rate * choice.uniform(2, 15))
    up, down = (_some(choice, 16 + way * size) for way in ways)
    exchange(*ends, up, down, rate=rate, waits_s=choice.choice((None, 0.0)))
    return len(up) + len(down)


def _short(ends: Ends, choice: random.Random) -> int:
    up, down = (_some(choice, choice.choice((1, 1000, 20_000, 100_000))) for _ in range(2))
    late_s = choice.choice((0.0, 0.0, 0.0, 1.2))
    down = _some(choice, MB) if late_s else down
    exchange(*ends, up, down, waits_s=0, late_s=late_s)
    return len(up) + len(down)


def _some(choice: random.Random, count: int) -> bytes:
    at = choice.randrange(len(POOL) - count)
    return POOL[at : at + count]
