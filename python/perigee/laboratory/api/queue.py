# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The queue: what runs, waits and has ended, and what can be done about it."""

from __future__ import annotations

import contextlib
import math
import time
from typing import Any

from perigee.errors import InputError
from perigee.laboratory.access import Person, title_of
from perigee.laboratory.api.visit import Laboratory, Visit, is_number
from perigee.laboratory.entries import ENDED, Entry
from perigee.laboratory.live import progress
from perigee.places import StudyFile

Json = dict[str, Any]

PAGE = 100
LONGEST_PAGE = 6
"""Digits of the number of a page."""
LAST = 20
"""Entries that have ended in the list."""

ACTIONS = {
    "pause": (("waiting", "running"), "paused"),
    "stop": (("waiting", "running", "paused", "daily"), "stopped"),
    "resume": (("paused", "stopped", "failed"), "waiting"),
}
"""Requests that an entry accepts: in which states, and its next state if it does not run."""


def queue(visit: Visit) -> Json:
    """List the queue: entries that are `running`, a `page` of those that are `waiting`, `daily` ones, and `ended`."""
    entries, number = visit.laboratory.queue, page_of(visit)
    count, described = entries.count(), Described(visit)
    waiting = [described(one) for one in entries.page(["waiting", "paused"], number * PAGE, PAGE)]
    return {
        "running": [described(one) for one in entries.running()],
        "waiting": sorted(waiting, key=lambda one: one["place"] or math.inf),
        "daily": [described(one) for one in entries.page(["daily"])],
        "ended": [described(one) for one in entries.page(ENDED, 0, LAST, newest=True)],
        "page": number,
        "pages": max(count.get("waiting", 0) + count.get("paused", 0) - 1, 0) // PAGE + 1,
        "now": described.now,
    }


def page_of(visit: Visit) -> int:
    """Return the number of the page that is asked for, from 0; 0 for what is none."""
    text = visit.query.get("page", "0")
    return int(text) if is_number(text) and len(text) <= LONGEST_PAGE else 0


def entry(visit: Visit) -> Json:
    """Return an entry with the study file as it was queued."""
    found, described = _entry(visit), Described(visit)
    return {**described(found), "text": found.text, "now": described.now}


class Described:
    """Returns what pages show of entries.

    `size` has the runs of an entry and their time in words, where these are known; `result` the name of results that
    can be looked at; `place` its place in the queue.

    Args:
        visit: who asks.

    Attributes:
        now: when, as Unix time.
    """

    def __init__(self, visit: Visit) -> None:
        self.now = time.time()
        self._visit = visit
        self._laboratory = visit.laboratory
        self._places = {number: place for place, number in enumerate(visit.laboratory.queue.order(self.now), 1)}
        self._studies: dict[str, tuple[StudyFile | None, str]] = {}

    def __call__(self, one: Entry) -> Json:
        """Return what is shown of an entry."""
        laboratory = self._laboratory
        study, title = self._study(one.study)
        return {
            "number": one.id,
            "study": one.study,
            "title": title,
            "engine": one.engine,
            "settings": one.settings,
            "reduced": one.reduced,
            "size": self._size(one, study),
            "state": one.state,
            "said": state_in_words(laboratory, one),
            "place": self._places.get(one.id),
            "who": who(one.owner, self._visit.person),
            "due": one.due,
            "daily": one.daily,
            "began": one.began,
            "ended": one.ended,
            "starts": one.starts,
            "wish": one.wish,
            "message": one.message,
            "parent": one.parent,
            "tags": one.tags,
            "notes": one.notes,
            "result": self._result(one),
            "actions": actions(one, self._visit.person),
            "progress": progress(laboratory, one) | {"curve": None} if one.state == "running" else None,
        }

    def _study(self, name: str) -> tuple[StudyFile | None, str]:
        """Return a study and its title; nothing of one that is gone."""
        if name not in self._studies:
            self._studies[name] = (None, "")
            with contextlib.suppress(InputError):
                found = self._laboratory.shelf.get(name)
                self._studies[name] = (found, found.head("title"))
        return self._studies[name]

    def _size(self, one: Entry, study: StudyFile | None) -> str:
        if study is None or one.text not in (None, study.text):
            return ""
        found = self._laboratory.outlooks.known(study, one.settings, reduced=one.reduced, engine=one.engine)
        return found.words if found else ""

    def _result(self, one: Entry) -> str:
        is_there = one.results and (self._laboratory.place.results / one.results / "manifest.json").is_file()
        return one.results if is_there else ""


def who(owner: str, person: Person) -> str:
    """Return what a person reads of who made something."""
    return "You" if owner == person.name and person.may("run") else title_of(owner)


def state_in_words(laboratory: Laboratory, entry: Entry) -> str:
    """Return the state of an entry; of one that was interrupted also how many of its runs are done."""
    if entry.state not in ("stopped", "paused"):
        return {"done": "finished", "daily": "every day"}.get(entry.state, entry.state)
    found = progress(laboratory, entry)
    return f"{entry.state} at {int(found['done'])} of {found['total']}" if found["total"] else entry.state


def act(visit: Visit) -> Json:
    """Pause, stop, resume or remove an entry; return it, or nothing of one that was removed."""
    found, what = _entry(visit), visit.path["action"]
    if not _is_theirs(found, visit.person):
        raise InputError(f"entry {found.id} is of {title_of(found.owner)}, and not yours to change")
    queue = visit.laboratory.queue
    if what == "remove":
        if not queue.remove(found.id):
            raise InputError("it runs; stop it first")
        return {}
    if what not in ACTIONS:
        raise InputError(f"{what}: nothing that can be done")
    states, then = ACTIONS[what]
    if found.state == "running" and what in ("pause", "stop"):
        done = queue.change(found.id, ["running"], wish=what)
    else:
        ended = time.time() if then == "stopped" else None
        from_states = [each for each in states if each != "running"]
        quota = visit.person.quota
        done = queue.change(found.id, from_states, quota, state=then, ended=ended, message="", crashes=0)
    if not done:
        now = queue.get(found.id)
        raise InputError(f"too late: entry {now.id} is {state_in_words(visit.laboratory, now)}")
    return entry(visit)


def actions(entry: Entry, person: Person) -> list[str]:
    """Return what a person can ask of an entry."""
    if entry.wish or not person.may("run") or not _is_theirs(entry, person):
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
