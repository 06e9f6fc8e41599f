# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The pages of the queue: what runs, waits and has ended, and what can be done about it."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any

from starlette.responses import Response

from perigee.engines.plan.native import native_plan
from perigee.errors import InputError
from perigee.laboratory import worker
from perigee.laboratory.access import Person, title_of
from perigee.laboratory.entries import ENDED, Entry
from perigee.laboratory.pages.visit import Laboratory, Visit
from perigee.laboratory.words import is_number
from perigee.store.shard_names import shards_in
from perigee.store.shards import ShardReader

PAGE = 100
LONGEST_PAGE = 6
"""Digits of the number of a page."""
MOST_POINTS = 500
"""Runs in a live graph: the last ones."""
SHARDS_AT_ONCE = 8
LARGEST_SHARD = 16 << 20

OF_ALGORITHM = "congestion control"
"""The property of a flow in the description of a study."""

ACTIONS = {
    "pause": (("waiting", "running"), "paused"),
    "stop": (("waiting", "running", "paused", "daily"), "stopped"),
    "resume": (("paused", "stopped", "failed"), "waiting"),
}
"""Requests that an entry accepts: in which states, and its next state if it does not run."""


def queue(visit: Visit) -> Response:
    """List the queue."""
    entries, number, now = visit.laboratory.queue, page_of(visit), time.time()
    count = entries.count()
    places = {number: place for place, number in enumerate(entries.order(now), 1)}
    waiting = entries.page(["waiting", "paused"], number * PAGE, PAGE)
    return visit.page(
        "queue.html",
        running_entries=[
            (one, progress(visit.laboratory, one), actions(one, visit.person)) for one in entries.running()
        ],
        waiting=sorted(((one, places.get(one.id)) for one in waiting), key=lambda each: each[1] or math.inf),
        daily=entries.page(["daily"]),
        ended=[(one, state_in_words(visit.laboratory, one)) for one in entries.page(ENDED, 0, 20, newest=True)],
        number=number,
        last=max(count.get("waiting", 0) + count.get("paused", 0) - 1, 0) // PAGE,
        now=now,
    )


def page_of(visit: Visit) -> int:
    """Return the number of the page that is asked for, from 0; 0 for what is none."""
    text = visit.query.get("page", "0")
    return int(text) if is_number(text) and len(text) <= LONGEST_PAGE else 0


def entry(visit: Visit) -> Response:
    """Show an entry."""
    found, laboratory, now = _entry(visit), visit.laboratory, time.time()
    order = laboratory.queue.order(now)
    return visit.page(
        "entry.html",
        entry=found,
        state=state_in_words(laboratory, found),
        place=order.index(found.id) + 1 if found.id in order else None,
        progress=progress(laboratory, found),
        actions=actions(found, visit.person),
        has_results=bool(found.results) and (laboratory.place.results / found.results / "manifest.json").is_file(),
        now=now,
    )


def state_in_words(laboratory: Laboratory, entry: Entry) -> str:
    """Return the state of an entry; of one that was interrupted also how many of its runs are done."""
    if entry.state not in ("stopped", "paused"):
        return {"done": "finished", "daily": "every day"}.get(entry.state, entry.state)
    found = progress(laboratory, entry)
    return f"{entry.state} at {int(found['done'])} of {found['total']}" if found["total"] else entry.state


def act(visit: Visit) -> Response:
    """Pause, stop, resume or remove an entry."""
    found, what = _entry(visit), visit.path["action"]
    if not _is_theirs(found, visit.person):
        raise InputError(f"entry {found.id} is of {title_of(found.owner)}, and not yours to change")
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


def actions(entry: Entry, person: Person) -> list[str]:
    """Return what a person can ask of an entry."""
    if entry.wish or not _is_theirs(entry, person):
        return []
    found = [name for name, (states, _) in ACTIONS.items() if entry.state in states]
    return found if entry.state == "running" else [*found, "remove"]


def _is_theirs(entry: Entry, person: Person) -> bool:
    """Whether a person may change an entry: with a quota, one changes only one's own."""
    return person.quota is None or entry.owner == person.name


def _entry(visit: Visit) -> Entry:
    number = visit.path["number"]
    if not is_number(number):
        raise InputError(f"{number}: no number of an entry")
    return visit.laboratory.queue.get(int(number))


def progress(laboratory: Laboratory, entry: Entry) -> dict[str, Any]:
    """Return how far an entry is: `done` and `total` runs, seconds `left_s` or none, and what the engine `says`.

    `curve` is that of a run that goes on, see `Curve.drawn`; none where the engine does not know it. `writing`: all
    runs are done, and their report is written.
    """
    nothing = {"done": 0, "total": 0, "left_s": None, "says": "", "curve": None}
    found = {**nothing, **worker.read(laboratory.place.entry(entry.id) / "progress.json")}
    return {**found, "writing": bool(found["total"]) and found["done"] >= found["total"]}


def state_of(laboratory: Laboratory) -> dict[str, Any]:
    """Return what runs and how far it is, and how many entries there are in each state."""
    running = [{"id": one.id, "wish": one.wish, **progress(laboratory, one)} for one in laboratory.queue.running()]
    return {"running": running, "count": laboratory.queue.count()}


class RunNames:
    """The names of runs of the entry that goes on: the values that vary, and the round.

    Args:
        laboratory: where the entries are.
    """

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._lock = threading.Lock()
        self._known: tuple[int, list[str]] = (0, [])

    def name(self, entry: Entry, run: int) -> str:
        """Return what a run is, as "cubic, round 2"; of an entry that cannot be read only its number."""
        with self._lock:
            if self._known[0] != entry.id:
                self._known = (entry.id, self._points(entry))
            points = self._known[1]
        if not points:
            return f"run {run}"
        turn, place = divmod(run, len(points))
        return ", ".join(each for each in (points[place], f"round {turn + 1}") if each)

    def _points(self, entry: Entry) -> list[str]:
        studies = self._laboratory.studies
        try:
            study = studies.get(entry.study) if entry.text is None else studies.given(entry.study, entry.text)
            plan = native_plan(study, entry.settings, entry.reduced)
        except InputError:
            return []
        points = [one["point"] for one in plan.laid_out()["points"]]
        constant = {text for flow in plan.setup()["flows"] for key, text in flow["properties"] if key == OF_ALGORITHM}
        same = (
            constant if len(constant) == 1 and not any(key.endswith("cc") for point in points for key in point) else ()
        )
        return [", ".join([*same, *(_value(key, value) for key, value in point.items())]) for point in points]


def _value(key: str, value: object) -> str:
    """Return the value of a key that varies; a number has the end of its key before it."""
    if isinstance(value, dict):
        return str(value.get("name", ""))
    return f"{key.rpartition('.')[2]} {value}" if isinstance(value, int | float) else str(value)


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
    return list(flows.select("cc", "goodput_mbps").drop_nulls("goodput_mbps").iter_rows())
