# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Graphs over time: the names of the runs, flows and quantities of results, and samples reduced to columns of pixels.

The page puts graphs of several results together, and has their labels and colours; a request is of one folder.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.responses import Response

from perigee.errors import InputError
from perigee.laboratory.api.visit import Visit, is_number
from perigee.laboratory.graphs import MOST_COLUMNS, MOST_FLOWS, Asked, Graph, kind_of, packed
from perigee.laboratory.quantities import Quantity, first, offered
from perigee.laboratory.runs import Runs
from perigee.store.manifest import read_manifest

COLUMNS = 800
LATEST_S = 1e9
"""The furthest time of a view, in seconds: thirty years."""
READ_S = 0.1
"""Time for reading tables before the rows read are sent; the page requests the rest."""
KEPT = 16
"""Results whose names of runs and quantities are kept in memory."""
MOST_CURVES = 24
MOST_QUANTITIES = 8
FIRST_RUNS = 6


@dataclass(frozen=True)
class Drawn:
    """A quantity of a run that is drawn.

    Attributes:
        run: its number.
        what: number of the quantity in the request.
        graph: its samples.
    """

    run: int
    what: int
    graph: Graph


def graphs(visit: Visit) -> dict[str, Any]:
    """Return what results have to draw: points, runs, flows, quantities, and what is drawn where nothing is named."""
    return described(visit.laboratory.catalogue.path(visit.path["name"]))


def described(folder: Path) -> dict[str, Any]:
    """Return what a results folder has to draw.

    Raises:
        InputError: it has no table over time, or cannot be read.
    """
    runs, there = runs_of(folder), quantities_of(folder)
    keys = {one.key: one for several in there.values() for one in several}
    if not keys:
        raise InputError("these results have no table over time; measure.series in the study asks for one")
    return {
        "points": [
            {
                "label": point.label,
                "runs": [[number, run] for number, run in point.runs.items()],
                "flows": [flow._asdict() for flow in point.flows],
            }
            for point in runs.points
        ],
        "rounds": runs.rounds,
        "quantities": [
            {"key": one.key, "of": of, "title": one.title, "unit": one.unit, "table": one.table}
            for of, several in there.items()
            for one in several
        ],
        "first": {"runs": runs.first(FIRST_RUNS), "what": first(keys)},
    }


def data(visit: Visit) -> Response:
    """Return envelopes of runs and quantities, see `perigee.laboratory.graphs.packed`; of long tables, of what is read.

    The head has `from, to` (the window, s), `first, last` (the whole runs), `columns`, `samples`, `read` (share of the
    tables, 0 to 1), `left_out` (flows, links or events beyond the bounds), and `traces`, each with `run`, `what` (the
    number of the quantity in the request), `name` (of the flow, link or proxy), `leg`, `event`.
    """
    folder = visit.laboratory.catalogue.path(visit.path["name"])
    runs = runs_of(folder)
    asked, left_out = _asked(folder, runs, _curves(visit, runs), _quantities(visit, folder))
    found = visit.laboratory.graphs.get([each for _, _, each in asked], READ_S)
    drawn = [Drawn(run, what, graph) for (run, what, _), graph in zip(asked, found, strict=True)]
    first_s, last_s = _span(drawn)
    from_s, to_s = _window(visit) or (first_s, last_s)
    columns = _number(visit, "columns", COLUMNS)
    if not 1 <= columns <= MOST_COLUMNS:
        raise InputError(f"columns must be 1 to {MOST_COLUMNS}")
    traces, envelopes = _envelopes(drawn, from_s, to_s, int(columns))
    head = {
        "from": from_s,
        "to": to_s,
        "first": first_s,
        "last": last_s,
        "columns": int(columns),
        "samples": sum(one.graph.samples for one in drawn),
        "read": sum(one.graph.share_read for one in drawn) / max(len(drawn), 1),
        "left_out": left_out + sum(one.graph.left_out for one in drawn),
        "traces": traces,
    }
    return Response(packed(head, envelopes), media_type="application/octet-stream")


def runs_of(folder: Path) -> Runs:
    """Return the runs of results; those that were asked for last stay in memory."""
    return _runs_of(folder, (folder / "manifest.json").stat().st_mtime_ns)


def quantities_of(folder: Path) -> dict[str, list[Quantity]]:
    """Return the quantities over time of results; those that were asked for last stay in memory."""
    return _quantities_of(folder, (folder / "manifest.json").stat().st_mtime_ns)


@functools.lru_cache(maxsize=KEPT)
def _runs_of(folder: Path, _written_ns: int) -> Runs:
    return Runs(folder)


@functools.lru_cache(maxsize=KEPT)
def _quantities_of(folder: Path, _written_ns: int) -> dict[str, list[Quantity]]:
    return offered(folder, read_manifest(folder).get("tables", {}))


def _curves(visit: Visit, runs: Runs) -> dict[int, frozenset[str]]:
    """Return the flows of each run that the address names as `run=RUN` or `run=RUN:FLOW`; no flow: all of them."""
    texts = list(dict.fromkeys(visit.query.getlist("run")))
    if not 0 < len(texts) <= MOST_CURVES:
        raise InputError(f"{len(texts)} runs and flows: from 1 to {MOST_CURVES} in one graph")
    found: dict[int, frozenset[str]] = {}
    every = set()
    for text in texts:
        number, _, flow = text.partition(":")
        if not is_number(number) or int(number) not in runs:
            raise InputError(f"run {text[:80]}: not in these results; choose one from the list")
        run = int(number)
        if flow and flow not in runs.flows(run):
            raise InputError(f"{flow[:80]}: no flow of that run")
        if not flow:
            every.add(run)
        found[run] = found.get(run, frozenset()) | ({flow} if flow else frozenset())
    return {run: frozenset() if run in every else flows for run, flows in found.items()}


def _quantities(visit: Visit, folder: Path) -> list[Quantity]:
    texts = list(dict.fromkeys(visit.query.getlist("what")))
    if not 0 < len(texts) <= MOST_QUANTITIES:
        raise InputError(f"{len(texts)} quantities: from 1 to {MOST_QUANTITIES} at once")
    tables = read_manifest(folder).get("tables", {})
    wanted = [Quantity.parse(text) for text in texts]
    if unknown := [one.table for one in wanted if one.table not in tables]:
        raise InputError(f"{unknown[0][:80]}: no such table")
    return wanted


def _asked(
    folder: Path, runs: Runs, curves: Mapping[int, frozenset[str]], wanted: Sequence[Quantity]
) -> tuple[list[tuple[int, int, Asked]], int]:
    """Return the run, the number of the quantity and what to read of each graph, and how many flows are left out."""
    found, left_out = [], 0
    for run, named in curves.items():
        there = runs.flows(run)
        flows = tuple(sorted(named or there[:MOST_FLOWS]))
        left_out += 0 if named else max(0, len(there) - MOST_FLOWS)
        for number, quantity in enumerate(wanted):
            path = folder / f"{quantity.table}.parquet"
            if not path.is_file() or path.is_symlink():
                raise InputError(f"{quantity.table}: is gone; run the study again")
            is_of_flows = kind_of(path) == "flow"
            if is_of_flows and quantity.name:
                raise InputError(f"{quantity.key[:80]}: no quantity of a link")
            names = flows if is_of_flows else (quantity.name,) if quantity.name else ()
            found.append((run, number, Asked(path, run, quantity.column, names)))
    return found, left_out


def _envelopes(
    drawn: Sequence[Drawn], from_s: float, to_s: float, columns: int
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return traces as the head describes them, and their smallest and largest values in columns of a time span."""
    traces, envelopes = [], []
    for one in drawn:
        found = one.graph.envelopes(from_s, to_s, columns)
        for part in one.graph.parts:
            if one.graph.has_samples(part):
                traces.append({"run": one.run, "what": one.what, **part._asdict()})
                envelopes.append(found[part])
    return traces, envelopes


def _span(drawn: Sequence[Drawn]) -> tuple[float, float]:
    """Return the times of the first and the last sample of all runs."""
    spans = [one.graph.span_s for one in drawn if one.graph.samples or one.graph.share_read < 1]
    return (min(first_s for first_s, _ in spans), max(last_s for _, last_s in spans)) if spans else (0.0, 1.0)


def _window(visit: Visit) -> tuple[float, float] | None:
    """Return the times between which is drawn, in seconds; none: whole runs."""
    if "from" not in visit.query and "to" not in visit.query:
        return None
    from_s, to_s = _number(visit, "from", math.nan), _number(visit, "to", math.nan)
    if not from_s < to_s or max(abs(from_s), abs(to_s)) > LATEST_S:
        raise InputError(f"from must be before to, both in seconds, and neither beyond {LATEST_S:g}")
    return from_s, to_s


def _number(visit: Visit, name: str, otherwise: float) -> float:
    text = visit.query.get(name, "")
    try:
        found = float(text or otherwise)
    except ValueError:
        found = math.nan
    # Other digits than 0 to 9 are numbers to Python, too.
    if not (text.isascii() and math.isfinite(found)):
        raise InputError(f"{name}: no number")
    return found
