# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A laboratory whose entries take no time, for tests of what surrounds them; `python pretended.py FOLDER` serves it.

Each entry writes `STEPS` lines to the folder that its settings name, and is refused where another process works on it.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path
from typing import Any

from perigee.laboratory import worker
from perigee.laboratory.entries import Entry, Queue
from perigee.laboratory.place import Place
from perigee.laboratory.scheduler import Scheduler, only_one

STEPS = 3
STEP_S = 0.02
_BUSY: list[int] = []


def pretended(entry: dict[str, Any], folder: Path, _say: worker.Say) -> tuple[str, str]:
    """Do the steps of an entry that are not done yet, one after the other."""
    results = Path(entry["results"])
    results.mkdir(exist_ok=True)
    # Opened first, it is closed first when this process is killed: who has the entry's lock finds it free.
    try:
        fcntl.flock(_BUSY[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        (results / "twice").touch()
    (results / "process").write_text(str(os.getpid()))
    for step in range(STEPS):
        if (folder / "halt").exists():
            return "halted", ""
        if not (results / f"step-{step}").exists():
            time.sleep(STEP_S)
            (results / f"step-{step}").touch()
    with (results.parent / "finished").open("a") as file:
        file.write(f"{entry['study']}\n")
    return ("failed", "as it was meant to") if entry["study"] == "failing" else ("done", "")


def opened(root: Path) -> tuple[Place, Queue, Scheduler]:
    """The laboratory of a folder, whose entries are carried out by this program."""
    place = Place(root)
    place.make()
    queue = Queue(place.queue)
    return place, queue, Scheduler(place, queue, [sys.executable, __file__, "work"])


def entries(count: int) -> list[Entry]:
    """Entries that are due, each of a study of its own."""
    return [Entry(f"study-{number}", "sim", due=0.0, text="") for number in range(count)]


def step_until_ended(queue: Queue, scheduler: Scheduler) -> None:
    """Step until no entry waits or runs."""
    while any(queue.count().get(state) for state in ("waiting", "running")):
        scheduler.step()
        time.sleep(0.01)


def main() -> None:
    """Be the process of an entry, or a scheduler until all entries have ended."""
    if sys.argv[1] == "work":
        _BUSY.append(os.open(Path(sys.argv[2]) / "busy", os.O_RDWR | os.O_CREAT, 0o600))
        setattr(worker, "_carry_out", pretended)  # noqa: B010 - mypy refuses an assignment
        worker.work(Path(sys.argv[2]), int(sys.argv[3]))
        return
    place, queue, scheduler = opened(Path(sys.argv[1]))
    with only_one(place):
        print("begun", flush=True)
        step_until_ended(queue, scheduler)


if __name__ == "__main__":
    main()
