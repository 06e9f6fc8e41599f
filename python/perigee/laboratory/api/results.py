# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results: the list with its search, one folder, its tables a part at a time, and the comparison of two."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from perigee.errors import InputError
from perigee.laboratory.access import title_of
from perigee.laboratory.api.queue import page_of, state_in_words
from perigee.laboratory.api.visit import Awaited, Laboratory, Visit, is_number
from perigee.laboratory.catalogue import Summary
from perigee.laboratory.entries import Entry
from perigee.laboratory.findings import Findings
from perigee.laboratory.result_files import FIGURES, is_file, table_of
from perigee.report.provenance import command_line
from perigee.store.manifest import read_manifest
from perigee.store.slices import height, readable

PAGE = 100
ROWS = 100
"""Rows of a part of a table that a page shows."""
READ_S = 0.05
"""Time for reading results that nobody has looked at yet; the next visitor has the others."""
OVER_TIME = frozenset({"series", "links", "proxies", "events", "segments", "losses", "milestones"})


def results(visit: Visit) -> dict[str, Any]:
    """List the results that are searched for, of an engine, with a tag, or of a person."""
    chosen = {name: visit.query.get(name, "")[:200] for name in ("q", "engine", "tag", "who")}
    laboratory = visit.laboratory
    entries = laboratory.queue.with_results()
    every = laboratory.catalogue.search(chosen["q"])

    def owner(one: Summary) -> str:
        return entries[one.name].owner if one.name in entries else ""

    shown = [
        one
        for one in every
        if chosen["engine"] in ("", one.engine)
        and (not chosen["tag"] or chosen["tag"] in one.tags)
        and chosen["who"] in ("", owner(one))
    ]
    first = page_of(visit)
    return {
        "results": _listed(laboratory, shown[first * PAGE : (first + 1) * PAGE], entries),
        "count": len(shown),
        "page": first,
        "pages": max(len(shown) - 1, 0) // PAGE + 1,
        "engines": sorted({one.engine for one in every if one.engine}),
        "tags": sorted({tag for one in every for tag in one.tags}),
        "people": [{"name": name, "title": title_of(name)} for name in sorted({owner(one) for one in every} - {""})],
    }


def _listed(laboratory: Laboratory, summaries: Sequence[Summary], entries: Mapping[str, Entry]) -> list[dict[str, Any]]:
    """Return results as the list has them; what is not read in time has no finding until the next request."""
    complete = [laboratory.place.results / one.name for one in summaries if one.state == "complete"]
    findings = laboratory.findings.several(complete, READ_S)
    return [
        {**described(one, findings.get(one.name)), **_of_entry(laboratory, one, entries.get(one.name))}
        for one in summaries
    ]


def described(one: Summary, finding: Findings | None) -> dict[str, Any]:
    """Return results as a list has them, without what only the queue knows."""
    return {
        "name": one.name,
        "study": one.study,
        "title": (finding.title if finding else "") or one.study or one.name,
        "engine": one.engine,
        "state": state_of(one),
        "runs": one.runs,
        "reduced": one.reduced,
        "at": one.at,
        "settings": one.settings,
        "tags": one.tags,
        "notes": one.notes,
        "owner": "",
        "entry": None,
        "finding": asdict(finding) if finding else None,
    }


def state_of(one: Summary) -> str:
    """Return the state of results in words."""
    return {"complete": "finished", "damaged": "damaged"}.get(one.state, "not complete")


def _of_entry(laboratory: Laboratory, one: Summary, entry: Entry | None) -> dict[str, Any]:
    """Return what the queue says about results; those of an entry that are not complete have its state."""
    if entry is None:
        return {}
    own = {"owner": title_of(entry.owner), "entry": entry.id}
    is_over = one.state in ("complete", "damaged")
    return own if is_over else {**own, "state": state_in_words(laboratory, entry)}


def result(visit: Visit) -> dict[str, Any]:
    """Return what is in a results folder."""
    name, laboratory = visit.path["name"], visit.laboratory
    summary, folder = laboratory.catalogue.summary(name), laboratory.catalogue.path(name)
    is_complete = summary.state == "complete"
    return {
        **described(summary, laboratory.findings.get(folder) if is_complete else None),
        **_of_entry(laboratory, summary, laboratory.queue.of_results(name)),
        "has_study": summary.study in laboratory.studies.names(),
        "contents": contents(folder) if is_complete else None,
    }


def contents(folder: Path) -> dict[str, Any]:
    """Return what complete results have in their folder, and how they were made."""
    manifest = read_manifest(folder)
    tables = [
        {"name": name, "rows": about["rows"], "bytes": about["bytes"]}
        for name, about in sorted(manifest["tables"].items())
        if about["rows"] > 0
    ]
    versions, host = manifest["versions"], manifest["host"]
    return {
        "facts": [
            ("Command", command_line(manifest)),
            ("Rounds", manifest["rounds"]),
            ("First seed", manifest["first_seed"]),
            ("Finished", manifest["finished"]),
            ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
            ("Host", f"{host['system']}, {host['machine']}, {host['cores']} cores"),
        ],
        "tables": tables,
        "has_report": is_file(folder / "report.html"),
        "has_figures": (folder / FIGURES).is_dir(),
        "has_captures": (folder / "captures").is_dir(),
        "has_graphs": any(one["name"] in OVER_TIME for one in tables),
    }


def rows(visit: Visit) -> dict[str, Any]:
    """Return `ROWS` rows of a table from the one that `first` names."""
    path = table_of(visit.laboratory.catalogue.path(visit.path["name"]), visit.path["table"])
    text = visit.query.get("first", "0")
    first = int(text) if is_number(text) else 0
    with readable(path), path.open("rb") as file:
        scan = pl.scan_parquet(file)
        count, part = height(scan), scan.slice(first, ROWS).collect()
    return {
        "table": path.stem,
        "first": first,
        "count": count,
        "columns": [{"name": name, "is_number": kind.is_numeric()} for name, kind in part.schema.items()],
        "rows": [[_said(value) for value in row] for row in part.iter_rows()],
    }


def _said(value: object) -> str | None:
    """Return a value of a table for a page; None where it is missing.

    Examples:
        >>> _said(0.1234567891), _said(12345678901234), _said(True), _said(None)
        ('0.12345679', '12345678901234', 'true', None)
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def label(visit: Visit) -> dict[str, Any]:
    """Change tags and notes."""
    name = visit.laboratory.catalogue.path(visit.path["name"]).name
    tags = visit.given("tags").replace(",", " ").split()
    visit.laboratory.catalogue.label(name, tags, visit.given("notes").strip())
    return {}


def make_report(visit: Visit) -> Awaited:
    """Make the report, or its figures and tables for papers, which takes some seconds."""
    folder = visit.laboratory.catalogue.path(visit.path["name"])
    formats = "html,pdf,png,csv" if visit.given("figures") else "html"
    return Awaited(visit.laboratory.commands, ("report", str(folder), "--format", formats), dict)


def compare(visit: Visit) -> dict[str, Any] | Awaited:
    """Compare two results; the answer has the key of the comparison."""
    names = visit.form.get("result", [])
    if len(names) != 2:
        raise InputError(f"{len(names)} results are chosen; choose two of one study")
    catalogue = visit.laboratory.catalogue
    # The earlier results are A.
    names = sorted(names, key=lambda name: catalogue.summary(name).at)
    folders = [catalogue.path(name) for name in names]
    stamps = [f"{one} {(one / 'manifest.json').stat().st_mtime_ns}" for one in folders]
    key = hashlib.sha256("\n".join(stamps).encode()).hexdigest()[:32]
    file = visit.laboratory.place.private / "compared" / f"{key}.json"
    file.parent.mkdir(exist_ok=True)
    if file.is_file():
        return {"key": key}
    return Awaited(
        visit.laboratory.commands, ("compare", *map(str, folders), "--json", str(file)), lambda: {"key": key}
    )


def compared(visit: Visit) -> dict[str, Any]:
    """Return a comparison, see `perigee.comparison.summary`."""
    key = visit.path["key"]
    path = visit.laboratory.place.private / "compared" / f"{key}.json"
    if not re.fullmatch("[0-9a-f]{32}", key) or not is_file(path):
        raise InputError("no such comparison; choose two results again")
    found: dict[str, Any] = json.loads(path.read_text())
    return found
