# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The process of one entry of the queue: it carries the study out, says how far it is, and leaves its outcome.

It speaks with the laboratory through the files of a folder, so that either may be killed at any instant:

- `entry.json`: what to do, and the number of this start; written by the laboratory.
- `lock`: held while the process works. A second process of the same entry ends at once.
- `progress.json`: how many of the runs are done, and the throughput so far of one that goes on.
- `halt`: there, it asks the process to keep what is done and end.
- `outcome.json`: `done`, `failed` or `halted`, and why; written last.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perigee.errors import InputError, InterruptedRunError, PerigeeError
from perigee.files import storage_errors, write_atomically

if TYPE_CHECKING:
    from perigee.engines.run.curve import Curve

SAY_EVERY_S = 0.5
"""How often progress is written and `halt` is looked for."""

Say = Callable[[str], None]


def work(folder: Path, start: int, say: Say = lambda _text: None) -> None:
    """Carry an entry out, unless another process does or did.

    Args:
        folder: that of the entry.
        start: the number of this start; an earlier one has no effect.
        say: prints notes on the way.

    Raises:
        InputError: the folder is no entry's.
    """
    with held(folder) as mine:
        if not mine:
            return
        entry = read(folder / "entry.json")
        if not entry:
            raise InputError(f"{folder}: no entry of a laboratory")
        if entry["start"] != start or read(folder / "outcome.json").get("start") == start:
            return
        state, message = _carry_out(entry, folder, say)
        content = {"start": start, "state": state, "message": message}
        write_atomically(folder / "outcome.json", json.dumps(content).encode())


def read(path: Path) -> dict[str, Any]:
    """Return what one of the files says; nothing where it is not there, or a power failure has cut it off."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@contextlib.contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold the entry against other processes while the block runs; false where another one does."""
    with storage_errors(folder):
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine = True
    except BlockingIOError:
        mine = False
    try:
        yield mine
    finally:
        os.close(descriptor)


def _carry_out(entry: dict[str, Any], folder: Path, say: Say) -> tuple[str, str]:
    from perigee.engines import choice
    from perigee.engines.run.job import Job
    from perigee.engines.run.runner import carry_out
    from perigee.places import StudyFile, data_roots, find_study
    from perigee.report.writer import write_report

    try:
        if entry["text"] is None:
            study = find_study(entry["study"])
        else:
            path = Path(entry["path"])
            study = StudyFile(path, entry["text"], tuple(dict.fromkeys((path.parent, *data_roots()))))
        job = Job(
            study, choice.engine(entry["engine"], say), entry["settings"], entry["reduced"], Path(entry["results"])
        )
        watch = Watch(folder)
        done = carry_out(job, watch, say, watch.follow)
        write_report(done.folder)
    except (InterruptedRunError, KeyboardInterrupt):
        return "halted", ""
    except PerigeeError as error:
        return "failed", str(error)
    return "done", ""


class Watch:
    """Writes the progress of an entry, and ends its runs when that is asked for.

    Args:
        folder: that of the entry.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said = 0.0
        self._began: tuple[float, float] | None = None
        self._curve: Curve | None = None

    def follow(self, curve: Curve) -> None:
        """Note the throughput over time of a run that goes on."""
        self._curve = curve

    def __call__(self, done: float, total: int, /, outlook: tuple[str, float | None] | None = None) -> None:
        """Note the runs done so far, and all of them.

        Raises:
            KeyboardInterrupt: the laboratory wants the entry to end.
        """
        now = time.monotonic()
        if self._began is None:
            self._began = (now, done)
        elif now - self._said < SAY_EVERY_S and done < total:
            return
        self._said = now
        since, before = self._began
        left: float | None = None
        if outlook is not None:
            left = outlook[1]
        elif done > before:
            left = (now - since) / (done - before) * (total - done)
        content = {
            "done": done,
            "total": total,
            "left_s": left,
            "says": outlook[0] if outlook else "",
            "curve": self._curve.drawn() if self._curve else None,
        }
        self._curve = None
        # A power failure may take it: the next one follows soon.
        temporary = self._folder / "progress.new"
        temporary.write_text(json.dumps(content))
        temporary.replace(self._folder / "progress.json")
        if (self._folder / "halt").exists():
            raise KeyboardInterrupt
