# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The pages of studies: the list, one study with the form that puts it into the queue, and the editor."""

from __future__ import annotations

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
from perigee.laboratory.own_studies import LARGEST_BYTES, Studies, check_settings, keys_of, schema, stamp
from perigee.laboratory.pages.visit import Visit
from perigee.places import StudyFile, profiles
from perigee.store.origins import ENGINES

TEMPLATE = Path(__file__).resolve().parent.parent.parent / "data" / "study" / "study.toml"
"""What a new study begins with."""
MOST_SETTINGS = 100


def listed(studies: Studies) -> list[dict[str, Any]]:
    """Return the studies with `name`, `title` and whether each is the user's own."""
    found = []
    for name, own in studies.names().items():
        try:
            title = studies.get(name).content.get("title", "")
        except InputError as error:
            title = str(error)
        found.append({"name": name, "title": title, "own": own})
    return found


def studies(visit: Visit) -> Response:
    """List the studies."""
    return visit.page("studies.html", studies=listed(visit.laboratory.studies))


def study(visit: Visit) -> Response:
    """Show a study, and the form that puts it into the queue."""
    return _study(visit, visit.path["name"])


def _study(visit: Visit, name: str, error: str = "", status: int = 200) -> Response:
    found = visit.laboratory.studies.get(name)
    said = described(visit.laboratory.studies, name, found)
    return visit.page("study.html", status, error=error, is_root=os.geteuid() == 0, now=datetime.now(), **said)


def described(studies: Studies, name: str, found: StudyFile) -> dict[str, Any]:
    """Return what the page of a study shows of it."""
    content = found.content
    about = content.get("about", "")
    return {
        "name": name,
        "own": studies.is_own(name),
        "text": found.text,
        "title": content.get("title", ""),
        "about": " ".join(about.split()) if isinstance(about, str) else "",
        "rounds": content.get("rounds", 1),
        "seed": content.get("seed", ""),
        "varies": _varies(content),
        "inputs": list(_table(content, "inputs").items()),
        "experiments": [one for one in content.get("experiments", []) if isinstance(one, dict)],
        "has_reduced": "reduced" in content,
        "engines": ENGINES,
    }


def queue(visit: Visit) -> Response:
    """Put a study into the queue, as its form says."""
    name = visit.path["name"]
    try:
        entry = _entry(visit, name)
    except InputError as error:
        return _study(visit, name, str(error), 422)
    number = visit.laboratory.queue.add(entry)
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
            return replace(entry, due=_instant(visit.given("at")))
        case "daily":
            daily = visit.given("daily")
            return replace(entry, daily=daily, state="daily", due=next_time_of_day(daily, now))
    return entry


def _settings(visit: Visit, content: dict[str, Any]) -> tuple[str, ...]:
    """Return the settings of the form: only what was changed."""
    found = []
    for key in ("rounds", "seed"):
        value = visit.given(key).strip()
        if value and value != str(content.get(key, "")):
            found.append(f"{key}={value}")
    for key, values in _varies(content):
        given = visit.given(f"vary.{key}").strip()
        if given and given != values:
            found.append(f"vary.{key}={given}")
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


def _varies(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the keys that vary over plain values, and these as a form has them."""
    found = []
    for key, values in _table(content, "vary").items():
        if isinstance(values, list) and all(isinstance(value, str | int | float) for value in values):
            found.append(
                (key, ",".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values))
            )
    return found


def _table(content: dict[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    return value if isinstance(value, dict) else {}


def _instant(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise InputError(f"{text}: no time; choose a day and a time") from None


def edit(visit: Visit) -> Response:
    """Show a study in the editor; one that comes with perigee becomes a new one of the user's."""
    name = visit.path["name"]
    found = visit.laboratory.studies.get(name)
    own = visit.laboratory.studies.is_own(name)
    return _editor(visit, name if own else "", found.text, stamp(found.text) if own else "")


def new(visit: Visit) -> Response:
    """Begin a study."""
    text = read_bounded(TEMPLATE, LARGEST_BYTES, "a study").decode()
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
