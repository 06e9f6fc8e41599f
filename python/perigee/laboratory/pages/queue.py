# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The pages of the queue: what runs, waits and has ended, and what can be done about it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from starlette.responses import Response

from perigee.errors import InputError
from perigee.laboratory import worker
from perigee.laboratory.entries import ENDED, Entry
from perigee.laboratory.pages.visit import Laboratory, Visit, local_time
from perigee.store.shards import ShardReader, shards_in

PAGE = 100
LONGEST_PAGE = 6
"""Digits of the number of a page."""
MOST_POINTS = 500
"""Runs in a live graph: the last ones."""
SHARDS_AT_ONCE = 8
LARGEST_SHARD = 16 << 20

ACTIONS = {
    "pause": (("waiting", "running"), "paused"),
    "stop": (("waiting", "running", "paused", "daily"), "stopped"),
    "resume": (("paused", "stopped", "failed"), "waiting"),
}
"""What can be asked of an entry: in which states, and what becomes of one that does not run."""


def queue(visit: Visit) -> Response:
    """List the queue."""
    entries, first = visit.laboratory.queue, page_of(visit)
    count = entries.count()
    return visit.page(
        "queue.html",
        running=[(entry, progress(visit.laboratory, entry)) for entry in entries.running()],
        waiting=entries.page(["waiting", "paused"], first * PAGE, PAGE),
        daily=entries.page(["daily"]),
        ended=entries.page(ENDED, 0, 20, newest=True),
        count=count,
        number=first,
        last=max(count.get("waiting", 0) + count.get("paused", 0) - 1, 0) // PAGE,
        actions=actions,
    )


def page_of(visit: Visit) -> int:
    """Return the number of the page that is asked for, from 0; 0 for what is none."""
    text = visit.query.get("page", "0")
    return int(text) if text.isdecimal() and len(text) <= LONGEST_PAGE else 0


def entry(visit: Visit) -> Response:
    """Show an entry."""
    found = _entry(visit)
    return visit.page(
        "entry.html",
        entry=found,
        progress=progress(visit.laboratory, found),
        actions=actions(found),
        has_results=bool(found.results)
        and (visit.laboratory.place.results / found.results / "manifest.json").is_file(),
    )


def act(visit: Visit) -> Response:
    """Pause, stop, resume or remove an entry."""
    found, what = _entry(visit), visit.path["action"]
    queue = visit.laboratory.queue
    if what == "remove":
        if not queue.remove(found.id):
            raise InputError("it runs; stop it first")
        return visit.go("queue", f"Entry {found.id} was removed; its results were kept.")
    if what not in ACTIONS:
        raise InputError(f"{what}: nothing that can be done")
    states, then = ACTIONS[what]
    if found.state == "running" and what in ("pause", "stop"):
        done = queue.change(found.id, ["running"], wish=what)
    else:
        ended = time.time() if then == "stopped" else None
        done = queue.change(
            found.id, [each for each in states if each != "running"], state=then, ended=ended, message="", crashes=0
        )
    return visit.go(f"queue/{found.id}", "" if done else "It was too late for that.")


def actions(entry: Entry) -> list[str]:
    """Return what can be asked of an entry."""
    if entry.wish:
        return []
    found = [name for name, (states, _) in ACTIONS.items() if entry.state in states]
    return found if entry.state == "running" else [*found, "remove"]


def _entry(visit: Visit) -> Entry:
    number = visit.path["number"]
    if not number.isdecimal() or len(number) > 12:
        raise InputError(f"{number}: no number of an entry")
    return visit.laboratory.queue.get(int(number))


def progress(laboratory: Laboratory, entry: Entry) -> dict[str, Any]:
    """Return how far an entry is: `done` and `total` runs, seconds `left_s` or none, and what the engine `says`.

    `curve` is that of a run that goes on, see `Curve.drawn`; none where the engine does not know it.
    """
    nothing = {"done": 0, "total": 0, "left_s": None, "says": "", "curve": None}
    return {**nothing, **worker.read(laboratory.place.entry(entry.id) / "progress.json")}


def state_of(laboratory: Laboratory) -> dict[str, Any]:
    """Return what runs and how far it is, and how many entries there are in each state."""
    running = [
        {
            "id": one.id,
            "study": one.study,
            "wish": one.wish,
            "began": local_time(one.began),
            **progress(laboratory, one),
        }
        for one in laboratory.queue.running()
    ]
    return {"running": running, "count": laboratory.queue.count()}


class LiveGraph:
    """The throughput of each flow of the runs that are done, while the others are still to come.

    Args:
        laboratory: where they are.
    """

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._lock = threading.Lock()
        self._known: tuple[str, dict[int, list[tuple[str, float]]]] = ("", {})

    def points(self, name: str) -> list[tuple[int, str, float]]:
        """Return run, congestion control and throughput in Mbit/s of flows; a few more runs with each call."""
        folder = self._laboratory.place.results / name / "shards"
        with self._lock:
            if self._known[0] != name:
                self._known = (name, {})
            known = self._known[1]
            there = shards_in(folder)
            new = sorted(there.keys() - known.keys())[-MOST_POINTS:]
            reader = ShardReader()
            for run in new[:SHARDS_AT_ONCE]:
                known[run] = _flows(reader, there[run], run)
            shown = sorted(known)[-MOST_POINTS:]
            return [(run, label, value) for run in shown for label, value in known[run]]


def _flows(reader: ShardReader, path: Path, run: int) -> list[tuple[str, float]]:
    try:
        if path.stat().st_size > LARGEST_SHARD:
            return []
        flows = reader.tables(path, range(run, run + 1)).get("flows")
    except (OSError, InputError):
        # The runs were merged meanwhile.
        return []
    if flows is None:
        return []
    rows = flows.select(["cc", "goodput_mbps"]).to_pylist()
    return [(str(row["cc"]), float(row["goodput_mbps"])) for row in rows if row["goodput_mbps"] is not None]
