# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page of graphs over time of a run, its data for the script, and the figure for browsers without scripts."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
from starlette.responses import Response

from perigee.errors import InputError
from perigee.laboratory.graphs import MOST_COLUMNS, Graph, quantities
from perigee.laboratory.pages.visit import Visit
from perigee.store.manifest import read_manifest

FIRST = ("series.goodput_mbps", "segments.sequence")
"""What is drawn where nothing was chosen: the first of these that there is."""
STATIC_COLUMNS = 800
READ_S = 0.1
"""Time for reading a table before the rows read are sent; the script requests the rest."""


def graphs(visit: Visit) -> Response:
    """Show a quantity of a run over time."""
    folder = visit.laboratory.catalogue.path(visit.path["name"])
    manifest = read_manifest(folder)
    choices = drawable(folder, manifest.get("tables", {}))
    if not choices:
        raise InputError("these results have no table over time; measure.series in the study asks for one")
    otherwise = next((each for each in FIRST if each in choices), choices[0])
    what, run = visit.query.get("what", otherwise), run_of(visit)
    if what not in choices:
        raise InputError(f"{what[:80]}: no quantity of these results; choose one from the list")
    last = manifest["runs"] - 1
    return visit.page("graphs.html", name=folder.name, choices=choices, what=what, run=run, last=last)


def drawable(folder: Path, tables: dict[str, object]) -> list[str]:
    """Return the quantities over time of results, as `TABLE.COLUMN`."""
    there = [(name, folder / f"{name}.parquet") for name in sorted(tables)]
    return [
        f"{name}.{column}"
        for name, path in there
        if path.is_file() and not path.is_symlink()
        for column in quantities(path)
    ]


def data(visit: Visit) -> Response:
    """Return the envelopes of a graph, see `Graph.packed`; of a long table, of what is read so far."""
    graph = _graph(visit, READ_S)
    first, last = graph.span_s
    from_s, to_s = _number(visit, "from", first), _number(visit, "to", last)
    columns = _number(visit, "columns", STATIC_COLUMNS)
    if not (from_s < to_s and 1 <= columns <= MOST_COLUMNS):
        raise InputError(f"from must be before to, and columns 1 to {MOST_COLUMNS}")
    return Response(graph.packed(from_s, to_s, int(columns)), media_type="application/octet-stream")


def figure(visit: Visit) -> Response:
    """Return the graph of the whole run as an SVG file."""
    return Response(drawn(_graph(visit), visit.query.get("what", "")), media_type="image/svg+xml")


def drawn(graph: Graph, title: str) -> bytes:
    """Draw a graph of the whole run."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(9.0, 4.0), layout="constrained")
    axes = picture.add_subplot()
    from_s, to_s = graph.span_s
    times = np.repeat(from_s + (np.arange(STATIC_COLUMNS) + 0.5) * (to_s - from_s) / STATIC_COLUMNS, 2)
    for name, envelope in graph.envelopes(from_s, to_s, STATIC_COLUMNS).items():
        values = np.frombuffer(envelope).reshape(2, STATIC_COLUMNS).T.ravel()
        there = ~np.isnan(values)
        axes.plot(times[there], values[there], "." if graph.is_dotted else "-", markersize=2, linewidth=0.9, label=name)
    axes.set(xlabel="Time (s)", title=title)
    if graph.names:
        axes.legend(fontsize="small")
    file = io.BytesIO()
    picture.savefig(file, format="svg")
    return file.getvalue()


def run_of(visit: Visit) -> int:
    """Return the number of the run that is asked for, from 0."""
    text = visit.query.get("run", "0")
    if not text.isdecimal() or len(text) > 10:
        raise InputError(f"{text[:20]}: no number of a run")
    return int(text)


def _graph(visit: Visit, for_s: float = math.inf) -> Graph:
    folder = visit.laboratory.catalogue.path(visit.path["name"])
    table, _, column = visit.query.get("what", "").partition(".")
    path = folder / f"{table}.parquet"
    if table not in read_manifest(folder).get("tables", {}) or path.is_symlink():
        raise InputError(f"{table[:80]}: no such table")
    return visit.laboratory.graphs.get(path, run_of(visit), column, for_s)


def _number(visit: Visit, name: str, otherwise: float) -> float:
    try:
        found = float(visit.query.get(name, otherwise))
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{name}: no number")
    return found
