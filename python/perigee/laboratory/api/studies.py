# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Studies: the list, one study with its settings, what puts it into the queue, and what the editor asks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from perigee.cc import catalog
from perigee.errors import InputError
from perigee.files import read_bounded
from perigee.laboratory.api.visit import Visit
from perigee.laboratory.catalogue import Summary, check_labels
from perigee.laboratory.entries import Entry, next_time_of_day
from perigee.laboratory.outlook import Outlook, Outlooks
from perigee.laboratory.own_studies import (
    LARGEST_BYTES,
    Studies,
    check_settings,
    keys,
    stamp,
)
from perigee.laboratory.shelf import TAGS, Card, asked, tags_of
from perigee.laboratory.study_settings import settings_of
from perigee.laboratory.topology import network
from perigee.places import StudyFile, profiles
from perigee.store.origins import ENGINES

Json = dict[str, Any]

TEMPLATE = Path(__file__).resolve().parent.parent.parent / "data" / "study" / "study.toml"
"""The beginning of a new study."""
MOST_SETTINGS = 100
LATEST_S = 10 * 365 * 86400.0
"""How far away the time of an entry may be."""
LAST = 3
"""Results that the page of a study shows."""
READ_S = 0.05
"""Time for laying out studies that nobody has looked at yet; the next visitor sees the outlook of the others."""


def studies(visit: Visit) -> Json:
    """List the studies."""
    laboratory = visit.laboratory
    return listed(laboratory.shelf.cards(laboratory.outlooks, laboratory.catalogue.all(), READ_S))


def listed(cards: Sequence[Card]) -> Json:
    """Return the `studies` of a list, and the `tags` that one of them has."""
    found = [
        {
            "name": card.name,
            "title": card.title,
            "question": card.question,
            "tags": card.tags,
            "network": card.network,
            "outlook": card.outlook.words if card.outlook else "",
            "last": card.last and {"name": card.last.name, "at": card.last.at},
        }
        for card in cards
    ]
    return {"studies": found, "tags": [tag for tag in TAGS if any(tag in card.tags for card in cards)]}


def study(visit: Visit) -> Json:
    """Return a study; with `again` what was `given` for results of that name."""
    laboratory, name = visit.laboratory, visit.path["name"]
    found = laboratory.shelf.get(name)
    before = visit.query.get("again")
    last = [one for one in laboratory.catalogue.all() if one.study == name and one.state == "complete"]
    return {
        **described(laboratory.studies, laboratory.outlooks, name, found),
        "given": laboratory.catalogue.summary(before).settings if before else [],
        "last": [said_of(one) for one in last[:LAST]],
        "stamp": stamp(found.text) if laboratory.studies.is_own(name) else "",
        "now": time.time(),
        # An entry may begin at a time of the server's clock.
        "clock": datetime.now().astimezone().isoformat(timespec="minutes"),
    }


def said_of(one: Summary) -> Json:
    """Return results as the page of their study lists them."""
    return {
        "name": one.name,
        "runs": one.runs,
        "engine": one.engine,
        "reduced": one.reduced,
        "settings": one.settings,
        "at": one.at,
    }


def described(studies: Studies, outlooks: Outlooks, name: str, found: StudyFile) -> Json:
    """Return what the page of a study shows of it."""
    content = found.content
    is_own = studies.is_own(name)
    words: dict[str, str] = {}
    with contextlib.suppress(InputError):
        words = _outlooks(outlooks, found)
    return {
        "name": name,
        "own": is_own,
        "text": found.text,
        "title": str(content.get("title", "")),
        "about": asked(found),
        "tags": tags_of(found, is_own=is_own),
        "network": network(content),
        "groups": settings_of(content),
        "inputs": {name: str(file) for name, file in _table(content, "inputs").items()},
        "experiments": [_experiment(one) for one in _experiments(content)],
        "has_reduced": "reduced" in content,
        "engines": ENGINES,
        "outlook": words,
    }


def _experiments(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = content.get("experiments")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _experiment(content: Mapping[str, Any]) -> Json:
    name = str(content.get("name", ""))
    varies, sets = list(_table(content, "vary")), list(_table(content, "set"))
    return {"name": name, "title": str(content.get("title", name)), "varies": varies, "sets": sets}


def _outlooks(
    outlooks: Outlooks, found: StudyFile, settings: Sequence[str] = (), engine: str = "sim"
) -> dict[str, str]:
    """Return how many runs settings mean and about how long they take, in words: `all`, and `small` if there is one."""

    def of(*, reduced: bool) -> Outlook:
        return outlooks.of(found, settings, reduced=reduced, engine=engine)

    small = {"small": of(reduced=True).words} if "reduced" in found.content else {}
    return {"all": of(reduced=False).words, **small}


def outlook(visit: Visit) -> Json:
    """Return what the form means, see `_outlooks`, or what is wrong with it as `error`."""
    found = visit.laboratory.shelf.get(visit.path["name"])
    try:
        settings = _settings(visit, found.content)
        return {**_outlooks(visit.laboratory.outlooks, found, settings, visit.given("engine", "sim"))}
    except InputError as error:
        return {"error": str(error)}


def queue(visit: Visit) -> Json:
    """Put a study into the queue, as its form says; return the `number` of the entry."""
    return {"number": visit.laboratory.queue.add(_entry(visit, visit.path["name"]), visit.person.quota)}


def _entry(visit: Visit, name: str) -> Entry:
    found = visit.laboratory.studies.get(name)
    engine = visit.given("engine", "sim")
    settings = _settings(visit, found.content)
    reduced = bool(visit.given("reduced"))
    check_settings(found, engine, settings, reduced=reduced)
    tags = tuple(dict.fromkeys(visit.given("tags").replace(",", " ").split()))
    notes = visit.given("notes").strip()
    check_labels(tags, notes)
    now = time.time()
    entry = Entry(
        study=name,
        engine=engine,
        due=now,
        text=found.text if visit.laboratory.studies.is_own(name) else None,
        settings=settings,
        reduced=reduced,
        owner=visit.person.name,
        tags=tags,
        notes=notes,
    )
    match visit.given("when", "now"):
        case "at":
            return replace(entry, due=_instant(visit.given("at"), now))
        case "daily":
            daily = visit.given("daily")
            return replace(entry, daily=daily, state="daily", due=next_time_of_day(daily, now))
    return entry


def _settings(visit: Visit, content: dict[str, Any]) -> tuple[str, ...]:
    """Return the settings of the form: a line each of `settings`, and the experiments if they are not all."""
    found = [line.strip() for line in visit.given("settings").splitlines() if line.strip()]
    if wrong := [line for line in found if "=" not in line]:
        raise InputError(f"{wrong[0]}: no setting; write KEY=VALUE in each line")
    if chosen := visit.form.get("experiment"):
        names = [one.get("name") for one in _experiments(content)]
        if set(chosen) != set(names):
            found.append(f"experiments={','.join(chosen)}")
    if len(found) > MOST_SETTINGS:
        raise InputError(f"{len(found)} settings: at most {MOST_SETTINGS}")
    return tuple(found)


def _table(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    return value if isinstance(value, dict) else {}


def _instant(text: str, now: float) -> float:
    try:
        instant = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{text[:80]}: no time; choose a day and a time") from None
    if abs(instant - now) > LATEST_S:
        raise InputError(f"{text[:80]}: more than ten years away; choose another day")
    return instant


def template(_visit: Visit) -> Json:
    """Return the `text` that a new study begins with."""
    return {"text": read_bounded(TEMPLATE, LARGEST_BYTES, "a study").decode()}


def save(visit: Visit) -> Json:
    """Save what was edited; return the `name`."""
    # Browsers send the ends of lines as CR LF.
    name, text, before = visit.given("name"), visit.given("text").replace("\r\n", "\n"), visit.given("before")
    if not before:
        text = text.replace('name = "NAME"', f'name = "{name}"', 1)
    visit.laboratory.studies.save(name, text, before or None)
    return {"name": name}


def check(visit: Visit) -> Json:
    """Say what is wrong with a text, as one types."""
    name = visit.given("name") or "study"
    fault = visit.laboratory.studies.fault(
        name if name.replace("-", "").replace("_", "").isalnum() else "study", visit.given("text")
    )
    return {"fault": None if fault is None else {"message": fault.message, "line": fault.line}}


def completion(_visit: Visit) -> Json:
    """Return what can stand in a study: for each table its keys with default, meaning and values."""
    names = {"profile": list(profiles()), "cc": [one.name for one in catalog.algorithms()]}
    return {
        table: [{**one, "values": one["values"] or names.get(one["key"], [])} for one in found]
        for table, found in keys().items()
    }
