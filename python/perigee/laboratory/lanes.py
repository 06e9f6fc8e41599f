# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Long work beside the pages: few at once, few that wait, and a refusal for all others, so that short work never waits.

Nobody waits in a thread: those that a thread pool has are for the pages.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from perigee.errors import InputError, PerigeeError

COMMAND_S = 1800.0
"""Longest time of a command."""


class BusyError(PerigeeError):
    """Too much of this kind goes on and waits already."""


class Lane:
    """Admits work of one kind, a number at once; some more wait. It belongs to one event loop.

    Args:
        at_once: how many work at once.
        waiting: how many wait at the most.

    Examples:
        >>> async def entered(lane: Lane) -> bool:
        ...     async with lane:
        ...         try:
        ...             async with lane:
        ...                 return True
        ...         except BusyError:
        ...             return False
        >>> asyncio.run(entered(Lane(1, 0))), asyncio.run(entered(Lane(2, 0)))
        (False, True)
    """

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most = at_once + waiting
        self._inside = 0

    async def __aenter__(self) -> None:
        """Enter, or wait for that.

        Raises:
            BusyError: as many as may wait do.
        """
        if self._inside >= self._most:
            raise BusyError("the laboratory is busy", "try again in a minute")
        self._inside += 1
        try:
            await self._free.acquire()
        except BaseException:
            self._inside -= 1
            raise

    async def __aexit__(self, *_: object) -> None:
        """Leave."""
        self._inside -= 1
        self._free.release()


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

    async def run(self, *arguments: str) -> None:
        """Carry a command out; the same one that goes on or waits already is awaited instead.

        Raises:
            BusyError: as many as may wait do.
            InputError: it failed; the message is its error.
        """
        task = self._going_on.get(arguments)
        if task is None:
            task = self._going_on[arguments] = asyncio.create_task(self._carry_out(arguments))
            task.add_done_callback(lambda _: self._going_on.pop(arguments))
        # It goes on where this request ends before.
        await asyncio.shield(task)

    async def _carry_out(self, arguments: tuple[str, ...]) -> None:
        async with self._lane:
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
