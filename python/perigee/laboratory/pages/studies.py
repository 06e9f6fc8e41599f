# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The pages of studies: the list, one study with the form that puts it into the queue, and the editor."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse, Response

from perigee.cc import catalog
from perigee.errors import InputError
from perigee.files import read_bounded
from perigee.laboratory.catalogue import check_labels
from perigee.laboratory.entries import Entry, next_time_of_day
from perigee.laboratory.guard import policy_with
from perigee.laboratory.outlook import Outlook
from perigee.laboratory.own_studies import (
    LARGEST_BYTES,
    Studies,
    check_settings,
    keys_of,
    schema,
    stamp,
)
from perigee.laboratory.pages.visit import Visit
from perigee.laboratory.shelf import TAGS, asked, tags_of
from perigee.laboratory.study_settings import settings_of
from perigee.laboratory.topology import sketch
from perigee.laboratory.words import DAY_S
from perigee.places import StudyFile, profiles
from perigee.store.origins import ENGINES

TEMPLATE = Path(__file__).resolve().parent.parent.parent / "data" / "study" / "study.toml"
"""The beginning of a new study."""
ON_A_LINK = """# Four congestion controls over one link. Every key: docs/reference/study.md.

name = "NAME"
title = "Four congestion controls over LINK"
about = "Which congestion control has the highest throughput over LINK, and at which round trip?"
rounds = 5
nodes = ["server", "client"]

[[links]]
name = "satellite"
between = ["server", "client"]
profile = "LINK"

[[flows]]
name = "download"
from = "server"
to = "client"
duration = "60 s"

[vary]
"flow.cc" = ["cubic", "bbr", "hybla", "reno"]

[reduced]
set = { rounds = 1, "flows.download.duration" = "20 s" }
"""
"""The beginning of a study over a link."""
MOST_SETTINGS = 100
LATEST_S = 10 * 365 * DAY_S
"""How far away the time of an entry may be."""
LAST = 3
"""Results that the page of a study shows."""
READ_S = 0.05
"""Time for laying out studies that nobody has looked at yet; the next visitor sees the outlook of the others."""


def studies(visit: Visit) -> Response:
    """List the studies, or those with a tag."""
    laboratory = visit.laboratory
    every = laboratory.shelf.cards(laboratory.outlooks, laboratory.catalogue.all(), READ_S)
    chosen = visit.query.get("tag", "")
    there = [tag for tag in TAGS if any(tag in card.tags for card in every)]
    shown = [card for card in every if chosen in card.tags] if chosen in there else every
    return visit.page("studies.html", cards=shown, tags=there, chosen=chosen)


def study(visit: Visit) -> Response:
    """Show a study, and the form that puts it into the queue; with `again` as it was for results of that name."""
    if before := visit.query.get("again"):
        settings = visit.laboratory.catalogue.summary(before).settings
        visit = replace(visit, form={"settings": ["\n".join(settings)]})
    return _study(visit, visit.path["name"])


def _study(visit: Visit, name: str, error: str = "", status: int = 200) -> Response:
    laboratory = visit.laboratory
    found = laboratory.shelf.get(name)
    every = laboratory.catalogue.all()
    said = described(laboratory.studies, name, found)
    outlooks: dict[str, Outlook | None] = {"all": None, "small": None}
    with contextlib.suppress(InputError):
        outlooks["all"] = laboratory.outlooks.of(found)
        if said["has_reduced"]:
            outlooks["small"] = laboratory.outlooks.of(found, reduced=True)
    last = [one for one in every if one.study == name and one.state == "complete"][:LAST]
    return visit.page(
        "study.html",
        status,
        error=error,
        is_open=bool(error or visit.form),
        is_root=os.geteuid() == 0,
        now=datetime.now(),
        outlooks=outlooks,
        last=last,
        **said,
    )


def described(studies: Studies, name: str, found: StudyFile) -> dict[str, Any]:
    """Return what the page of a study shows of it."""
    content = found.content
    return {
        "name": name,
        "own": studies.is_own(name),
        "text": found.text,
        "title": content.get("title", ""),
        "about": asked(found),
        "tags": tags_of(found, is_own=studies.is_own(name)),
        "network": sketch(content),
        "groups": settings_of(content),
        "inputs": list(_table(content, "inputs").items()),
        "experiments": [one for one in content.get("experiments", []) if isinstance(one, dict)],
        "has_reduced": "reduced" in content,
        "engines": ENGINES,
    }


def outlook(visit: Visit) -> Response:
    """Return how many runs the form means and about how long they take, in words: `all` and `small`, or `error`."""
    name = visit.path["name"]
    laboratory = visit.laboratory
    found = laboratory.shelf.get(name)
    engine = visit.given("engine", "sim")
    try:
        settings = _settings(visit, found.content)
        words = {
            size: laboratory.outlooks.of(found, settings, reduced=size == "small", engine=engine).words
            for size in (("all", "small") if "reduced" in found.content else ("all",))
        }
    except InputError as error:
        return JSONResponse({"error": str(error)})
    return JSONResponse(words)


def queue(visit: Visit) -> Response:
    """Put a study into the queue, as its form says."""
    name = visit.path["name"]
    try:
        number = visit.laboratory.queue.add(_entry(visit, name), visit.person.quota)
    except InputError as error:
        return _study(visit, name, str(error), 422)
    return visit.go(f"queue/{number}", "In the queue.")


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
    """Return the settings of the form: only what was changed."""
    found = []
    for setting in itertools.chain.from_iterable(settings_of(content).values()):
        # `rounds` and `seed` are what programs send.
        given = (visit.given(setting.field) or visit.given(setting.key)).strip()
        if given and given != setting.value:
            found.append(f"{'vary.' if setting.varies else ''}{setting.key}={given}")
    for line in visit.given("settings").splitlines():
        if not line.strip():
            continue
        if "=" not in line:
            raise InputError(f"{line.strip()}: no setting; write KEY=VALUE in each line")
        found.append(line.strip())
    if chosen := visit.form.get("experiment"):
        names = [one.get("name") for one in content.get("experiments", []) if isinstance(one, dict)]
        if set(chosen) != set(names):
            found.append(f"experiments={','.join(chosen)}")
    if len(found) > MOST_SETTINGS:
        raise InputError(f"{len(found)} settings: at most {MOST_SETTINGS}")
    return tuple(found)


def _table(content: dict[str, Any], key: str) -> dict[str, Any]:
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


def edit(visit: Visit) -> Response:
    """Show a study in the editor; one that comes with perigee becomes a new one of the user's."""
    name = visit.path["name"]
    found = visit.laboratory.studies.get(name)
    own = visit.laboratory.studies.is_own(name)
    return _editor(visit, name if own else "", found.text, stamp(found.text) if own else "")


def new(visit: Visit) -> Response:
    """Begin a study, over a link if one is named."""
    text = read_bounded(TEMPLATE, LARGEST_BYTES, "a study").decode()
    if link := visit.query.get("link"):
        if link not in profiles():
            raise InputError(f"{link[:80]}: no profile of that name")
        text = ON_A_LINK.replace("LINK", link)
    return _editor(visit, "", text, "")


def _editor(visit: Visit, name: str, text: str, before: str, error: str = "", status: int = 200) -> Response:
    nonce = secrets.token_urlsafe(16)
    page = visit.page("edit.html", status, name=name, text=text, before=before, error=error, nonce=nonce)
    page.headers["content-security-policy"] = policy_with(nonce)
    return page


def save(visit: Visit) -> Response:
    """Save what was edited."""
    # Browsers send the ends of lines as CR LF.
    name, text, before = visit.given("name"), visit.given("text").replace("\r\n", "\n"), visit.given("before")
    if not before:
        text = text.replace('name = "NAME"', f'name = "{name}"', 1)
    try:
        visit.laboratory.studies.save(name, text, before or None)
    except InputError as error:
        return _editor(visit, name, text, before, str(error), 422)
    return visit.go(f"studies/{name}", "Saved.")


def check(visit: Visit) -> Response:
    """Say what is wrong with a text, as one types."""
    name = visit.given("name") or "study"
    fault = visit.laboratory.studies.fault(
        name if name.replace("-", "").replace("_", "").isalnum() else "study", visit.given("text")
    )
    return JSONResponse({"fault": None if fault is None else {"message": fault.message, "line": fault.line}})


def completion(_visit: Visit) -> Response:
    """Return what can stand in a study: for each table its keys with default, meaning and values."""
    found = keys_of(json.loads(schema()))
    names = {"profile": list(profiles()), "cc": [one.name for one in catalog.algorithms()]}
    for one in itertools.chain(*found.values()):
        one["values"] = one["values"] or names.get(one["key"], [])
    return JSONResponse(found)
