# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Decides which entries of the queue run, starts their processes, and notes how they end.

All that it knows is on the disk: after a crash another scheduler goes on where the first one was. Processes outlive a
scheduler that was killed; the next one recognises them by their locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from perigee.errors import InputError
from perigee.files import storage_errors, write_atomically
from perigee.laboratory import worker
from perigee.laboratory.entries import Entry, Queue
from perigee.laboratory.place import Place

MOST_CRASHES = 3
"""Crashes of a process in a row after which its entry has failed."""
PROGRAM = (sys.executable, "-m", "perigee", "work")
LOG_TAIL = 2000
"""Characters of what a process said last that are kept when it crashed."""


class Scheduler:
    """The one that starts and ends entries; one at a time per laboratory.

    Args:
        place: the laboratory.
        queue: its entries.
        program: what is started for an entry, before the entry's folder and the number of the start.
        begun: called with an entry and the name of its results folder when it begins for the first time.
    """

    def __init__(
        self,
        place: Place,
        queue: Queue,
        program: Sequence[str] = PROGRAM,
        begun: Callable[[Entry, str], None] = lambda _entry, _results: None,
    ) -> None:
        self._place = place
        self._queue = queue
        self._program = tuple(program)
        self._begun = begun
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def step(self) -> None:
        """Note which entries have ended, pass wishes on, and begin what is due.

        Raises:
            StorageError: the disk is full, or cannot be written.
        """
        running = []
        for entry in self._queue.running():
            if self._is_alive(entry):
                running.append(entry)
                if entry.wish:
                    (self._place.entry(entry.id) / "halt").touch()
            else:
                self._collect(entry)
        now = time.time()
        self._queue.make_daily(now)
        if not running and (due := self._queue.next(now)):
            self._begin(due)

    def stop(self, wait_s: float) -> None:
        """Ask all entries that run to keep what is done; they go on when a scheduler is there again.

        Args:
            wait_s: how long to wait for their ends, seconds; what takes longer ends by itself.
        """
        for entry in filter(self._is_alive, self._queue.running()):
            (self._place.entry(entry.id) / "halt").touch()
        until = time.monotonic() + wait_s
        while any(map(self._is_alive, self._queue.running())) and time.monotonic() < until:
            time.sleep(0.1)
        for entry in self._queue.running():
            if not self._is_alive(entry):
                self._collect(entry)

    def _is_alive(self, entry: Entry) -> bool:
        process = self._processes.get(entry.id)
        if process is not None and process.poll() is None:
            return True
        folder = self._place.entry(entry.id)
        if not folder.is_dir():
            return False
        with worker.held(folder) as free:
            return not free

    def _collect(self, entry: Entry) -> None:
        """Note how an entry ended whose process is gone."""
        process = self._processes.pop(entry.id, None)
        outcome = worker.read(self._place.entry(entry.id) / "outcome.json")
        if outcome.get("start") != entry.starts:
            outcome = {}
        match outcome.get("state"):
            case "done":
                self._end(entry, "done")
            case "failed":
                self._end(entry, "failed", str(outcome["message"]))
            case _ if entry.wish == "stop":
                self._end(entry, "stopped")
            case _ if entry.wish == "pause":
                self._queue.change(entry.id, ["running"], state="paused", wish=None, crashes=0)
            case None if process is not None and process.returncode != 0:
                self._crashed(entry, process.returncode)
            case _:
                # No user of this entry has ended it: it resumes.
                self._queue.change(entry.id, ["running"], state="waiting")

    def _end(self, entry: Entry, state: str, message: str = "") -> None:
        self._queue.change(entry.id, ["running"], state=state, wish=None, message=message, ended=time.time())

    def _crashed(self, entry: Entry, code: int) -> None:
        if entry.crashes + 1 < MOST_CRASHES:
            self._queue.change(entry.id, ["running"], state="waiting", crashes=entry.crashes + 1)
            return
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        log = self._place.entry(entry.id) / "log"
        said = log.read_text(errors="replace")[-LOG_TAIL:].strip() if log.is_file() else ""
        self._end(
            entry, "failed", f"its process ended {how}, {MOST_CRASHES} times in a row; it said last: {said or '-'}"
        )

    def _begin(self, entry: Entry) -> None:
        """Start the process of an entry; first the queue knows, so that a crash in between loses nothing."""
        start = entry.starts + 1
        results = entry.results or results_name(entry)
        began = self._queue.change(
            entry.id, ["waiting"], state="running", starts=start, results=results, began=time.time(), wish=None
        )
        if not began:
            return
        if not entry.results:
            self._begun(entry, results)
        folder = self._place.entry(entry.id)
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)
            for name in ("halt", "outcome.json", "progress.json"):
                (folder / name).unlink(missing_ok=True)
        content = {
            "start": start,
            "study": entry.study,
            "text": entry.text,
            "path": str(self._place.studies / entry.study / "study.toml"),
            "engine": entry.engine,
            "settings": entry.settings,
            "reduced": entry.reduced,
            "results": str(self._place.results / results),
        }
        write_atomically(folder / "entry.json", json.dumps(content).encode())
        with (folder / "log").open("ab") as log:
            self._processes[entry.id] = subprocess.Popen(  # noqa: S603 - our own program
                [*self._program, str(folder), str(start)],
                cwd=self._place.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal of the laboratory is not meant for it.
                start_new_session=True,
            )


def results_name(entry: Entry) -> str:
    """Return the name of a new results folder: study, engine, number, and when it began.

    Examples:
        >>> entry = Entry("gallery", "emu", due=0.0, id=12, began=datetime(2026, 3, 1, 12, 0).timestamp())
        >>> results_name(entry)
        'gallery-emu-12-20260301-120000'
    """
    engine = "" if entry.engine == "sim" else f"-{entry.engine}"
    at = datetime.fromtimestamp(time.time() if entry.began is None else entry.began)
    return f"{entry.study}{engine}-{entry.id}-{at:%Y%m%d-%H%M%S}"


@contextlib.contextmanager
def only_one(place: Place, url: str = "") -> Iterator[None]:
    """Hold a laboratory against a second scheduler while the block runs.

    Args:
        place: the laboratory.
        url: its address, for `served_at`.

    Raises:
        InputError: there is one.
    """
    with storage_errors(place.lock):
        descriptor = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{place.root}: another perigee serves this folder; end it, or give another folder"
            ) from None
        with storage_errors(place.lock):
            os.truncate(descriptor, 0)
            os.write(descriptor, url.encode())
        yield
    finally:
        os.close(descriptor)


def served_at(place: Place) -> str:
    """Return the address of the laboratory that is held by `only_one`; empty: none is, or it has no address."""
    if not place.lock.is_file():
        return ""
    with storage_errors(place.lock), place.lock.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock.read()
    return ""
