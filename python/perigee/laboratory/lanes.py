# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Long work beside the pages: few at once, few that wait, and a refusal for all others, so that short work never waits.

Nobody waits in a thread: those that a thread pool has are for the pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator
from pathlib import Path

from perigee.errors import InputError, PerigeeError

COMMAND_S = 1800.0
"""Longest time of a command."""


class BusyError(PerigeeError):
    """Too much of this kind goes on and waits already."""


class Lane:
    """Admits work of one kind, a number at once; some more wait, and people take turns. It belongs to one event loop.

    Nobody keeps others out by asking for much: where no more may wait, who has most in the lane gives the place of what
    was asked for last to somebody who has less.

    Args:
        at_once: how many work at once.
        waiting: how many wait at the most.

    Examples:
        >>> async def entered(lane: Lane) -> bool:
        ...     async with lane.of("ada"):
        ...         try:
        ...             async with lane.of("ada"):
        ...                 return True
        ...         except BusyError:
        ...             return False
        >>> asyncio.run(entered(Lane(1, 0))), asyncio.run(entered(Lane(2, 0)))
        (False, True)
    """

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = at_once
        self._most = at_once + waiting
        self._inside: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Entries that wait, by person; whose turn is next comes first."""

    @contextlib.asynccontextmanager
    async def of(self, who: str) -> AsyncIterator[None]:
        """Work for somebody, after a wait for that.

        Raises:
            BusyError: as many as may wait do, and who asks has as many of them as others;
                or others came later who have fewer.
        """
        await self._enter(who)
        try:
            yield
        finally:
            self._leave(who)

    async def _enter(self, who: str) -> None:
        if self._inside.total() >= self._most:
            self._displace_for(who)
        self._inside[who] += 1
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        try:
            await turn
        except BaseException:
            if turn.cancelled():
                self._forget(who, turn)
            elif turn.exception() is None:
                # It was cancelled after its turn had come.
                self._leave(who)
            raise

    def _displace_for(self, who: str) -> None:
        """Take the place of the last that who has most waits for, if they still have more than `who` then."""
        most = max(self._waiting, key=lambda each: self._inside[each], default=who)
        if self._inside[most] < self._inside[who] + 2:
            raise _busy()
        # A cancelled one leaves by itself, in its own turn of the loop.
        last = next((each for each in reversed(self._waiting.get(most, ())) if not each.done()), None)
        if last is None:
            raise _busy()
        self._forget(most, last)
        last.set_exception(_busy())

    def _forget(self, who: str, turn: asyncio.Future[None]) -> None:
        self._waiting[who].remove(turn)
        if not self._waiting[who]:
            del self._waiting[who]
        self._inside[who] -= 1

    def _leave(self, who: str) -> None:
        self._inside[who] -= 1
        # Without those that have nothing.
        self._inside = +self._inside
        for following, turns in self._waiting.items():
            # A cancelled one leaves by itself, in its own turn of the loop.
            turn = next((each for each in turns if not each.done()), None)
            if turn is not None:
                turns.remove(turn)
                turn.set_result(None)
                del self._waiting[following]
                if turns:
                    self._waiting[following] = turns
                return
        self._free += 1


def _busy() -> BusyError:
    return BusyError("the laboratory is busy", "try again in a minute")


class Commands:
    """Carries commands of perigee out, each in a process of its own.

    Args:
        root: their working folder.
        at_once: how many at once.
        waiting: how many wait at the most.
    """

    def __init__(self, root: Path, at_once: int, waiting: int) -> None:
        self._root = root
        self._lane = Lane(at_once, waiting)
        self._going_on: dict[tuple[str, ...], asyncio.Task[None]] = {}

    async def run(self, *arguments: str, who: str = "") -> None:
        """Carry a command out for somebody; the same one that goes on or waits already is awaited instead.

        Raises:
            BusyError: as many as may wait do.
            InputError: it failed; the message is its error.
        """
        task = self._going_on.get(arguments)
        if task is None:
            task = self._going_on[arguments] = asyncio.create_task(self._carry_out(who, arguments))
            task.add_done_callback(lambda _: self._going_on.pop(arguments))
        # It goes on where this request ends before.
        await asyncio.shield(task)

    async def _carry_out(self, who: str, arguments: tuple[str, ...]) -> None:
        async with self._lane.of(who):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "perigee", *arguments),
                cwd=self._root,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(COMMAND_S):
                    _, errors = await process.communicate()
            except TimeoutError:
                raise InputError(f"perigee {arguments[0]}: not done after {COMMAND_S:g} s; give it by hand") from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode:
            said = errors.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            named = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
            raise InputError((named or said)[-1])
