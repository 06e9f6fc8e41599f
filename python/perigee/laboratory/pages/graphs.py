# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page of graphs over time, its data for the script, and the figure for browsers without scripts."""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.responses import RedirectResponse, Response

from perigee.errors import InputError
from perigee.groups.looks import look
from perigee.laboratory.graphs import MOST_COLUMNS
from perigee.laboratory.pages.visit import Visit, at
from perigee.laboratory.runs import Runs, told_apart
from perigee.laboratory.views import Curve, Quantity, Shown, View, checked, first_view, largest, offered
from perigee.laboratory.words import is_number
from perigee.store.manifest import read_manifest

STATIC_COLUMNS = 800
LATEST_S = 1e9
"""The furthest time of a view, in seconds: thirty years."""
PANEL_IN = 2.1
"""Height of a panel of the figure."""
READ_S = 0.1
"""Time for reading tables before the rows read are sent; the script requests the rest."""
KEPT = 16
"""Results whose names of runs and quantities are kept in memory."""
MOST_LISTED = 500
"""Flows, and other results, in a menu."""


def graphs(visit: Visit) -> Response:
    """Show quantities of runs and flows over time."""
    here = visit.path["name"]
    view, runs = _view(visit)
    if added := _added(visit, view, runs):
        return RedirectResponse(_address(here, added), 303)
    other = visit.query.get("with", "")
    named = list(dict.fromkeys([here, *(curve.results for curve in view.curves), *([other] if other else [])]))
    opened = {name: runs.get(name) or _runs(visit, name) for name in named}
    menu = _quantities(visit, here)
    whole = [one.name for one in visit.laboratory.catalogue.all() if one.state == "complete" and one.name not in named]
    return visit.page(
        "graphs.html",
        name=here,
        view=view,
        address=_address(here, view),
        query=urlencode(view.query()),
        curves=[
            {"label": _label(curve, runs), "without": _address(here, view.without(curve))} for curve in view.curves
        ],
        panels=[
            {
                "title": one.title,
                "unit": one.unit,
                "csv": f"results/{here}/tables/{one.table}.csv",
                "without": _address(here, view.without(one)) if len(view.quantities) > 1 else "",
            }
            for one in view.quantities
        ],
        points={name: _points(name, one, here) for name, one in opened.items()},
        rounds=max(one.rounds for one in opened.values()),
        flows=_flows(list(opened.values())),
        menu={of: [one for one in quantities if one not in view.quantities] for of, quantities in menu.items()},
        others=whole[:MOST_LISTED],
        other=other,
    )


def data(visit: Visit) -> Response:
    """Return the envelopes of a view, see `Shown.packed`; of long tables, of what is read so far."""
    view, shown = _shown(visit, READ_S)
    from_s, to_s = view.span or shown.span_s
    columns = _number(visit, "columns", STATIC_COLUMNS)
    if not 1 <= columns <= MOST_COLUMNS:
        raise InputError(f"columns must be 1 to {MOST_COLUMNS}")
    return Response(shown.packed(from_s, to_s, int(columns)), media_type="application/octet-stream")


def figure(visit: Visit) -> Response:
    """Return the view as an SVG file."""
    view, shown = _shown(visit, math.inf)
    return Response(drawn(shown, *(view.span or shown.span_s)), media_type="image/svg+xml")


def drawn(shown: Shown, from_s: float, to_s: float) -> bytes:
    """Draw a view, a panel below the other."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(9.0, 0.8 + PANEL_IN * len(shown.panels)), layout="constrained")
    every: Any = picture.subplots(len(shown.panels), sharex=True, squeeze=False)
    times = np.repeat(from_s + (np.arange(STATIC_COLUMNS) + 0.5) * (to_s - from_s) / STATIC_COLUMNS, 2)
    handles: dict[str, Any] = {}
    for axes, (panel, envelopes) in zip(every[:, 0], shown.envelopes(from_s, to_s, STATIC_COLUMNS), strict=True):
        unit, scale = panel.quantity.scaled(largest(envelopes))
        axes.set_title(f"{panel.quantity.title} ({unit})" if unit else panel.quantity.title, loc="left", fontsize=9)
        for (line, _, _), envelope in zip(panel.traces, envelopes, strict=True):
            values = np.frombuffer(envelope).reshape(2, STATIC_COLUMNS).T.ravel() / scale
            there = ~np.isnan(values)
            (handles[line.label],) = axes.plot(
                times[there], values[there], "." if panel.is_dotted else "-", markersize=2, linewidth=0.9,
                color="black" if line.look is None else look(line.look).color,
                dashes=line.dash or (None, None), label=line.label,
            )  # fmt: skip
    every[-1, 0].set(xlabel="Time (s)", xlim=(from_s, to_s))
    if handles:
        picture.legend(handles.values(), handles.keys(), fontsize="small", loc="outside upper left", ncols=2)
    file = io.BytesIO()
    picture.savefig(file, format="svg")
    return file.getvalue()


def _view(visit: Visit) -> tuple[View, dict[str, Runs]]:
    """Return the view that the address names, and the runs of its results."""
    here = visit.path["name"]
    curves = tuple(dict.fromkeys(Curve.parse(text, here) for text in visit.query.getlist("run")))
    quantities = tuple(dict.fromkeys(Quantity.parse(text) for text in visit.query.getlist("what")))
    runs = {name: _runs(visit, name) for name in dict.fromkeys([here, *(curve.results for curve in curves)])}
    if not (curves and quantities):
        there = [one for several in _quantities(visit, here).values() for one in several]
        if not there:
            raise InputError("these results have no table over time; measure.series in the study asks for one")
        first = first_view(here, runs[here], there)
        curves, quantities = curves or first.curves, quantities or first.quantities
    span = None
    if "from" in visit.query or "to" in visit.query:
        span = _number(visit, "from", math.nan), _number(visit, "to", math.nan)
        if not span[0] < span[1] or max(map(abs, span)) > LATEST_S:
            raise InputError(f"from must be before to, both in seconds, and neither beyond {LATEST_S:g}")
    return checked(View(here, curves, quantities, span), runs), runs


def _shown(visit: Visit, for_s: float) -> tuple[View, Shown]:
    view, runs = _view(visit)
    laboratory = visit.laboratory
    for quantity in view.quantities:
        if quantity.table not in read_manifest(laboratory.catalogue.path(view.here))["tables"]:
            raise InputError(f"{quantity.table[:80]}: no such table")
    return view, Shown(view, runs, laboratory.catalogue.path, laboratory.graphs, for_s)


def _added(visit: Visit, view: View, runs: dict[str, Runs]) -> View | None:
    """Return the view with what the form adds; nothing where it adds nothing."""
    point, quantity = visit.query.get("point", ""), visit.query.get("panel", "")
    if point:
        curve = Curve.parse(point, view.here)
        there = runs.get(curve.results) or _runs(visit, curve.results)
        round_, flow = visit.query.get("round", "1"), visit.query.get("flow", "")
        if curve.run not in there or not (is_number(round_) and 0 < int(round_) < 1 << 30):
            raise InputError(f"{point[:80]}, round {round_[:20]}: no such run")
        named = Curve.parse(f"0:{flow}", view.here)
        curve = replace(curve, run=there.in_round(curve.run, int(round_) - 1), flow=named.flow, leg=named.leg)
        return replace(view, curves=tuple(dict.fromkeys([*view.curves, curve])))
    if quantity:
        return replace(view, quantities=tuple(dict.fromkeys([*view.quantities, Quantity.parse(quantity)])))
    return None


def _address(here: str, view: View) -> str:
    """Return the address of a page with a view."""
    span = [] if view.span is None else [("from", str(view.span[0])), ("to", str(view.span[1]))]
    return f"{at(f'results/{here}/graphs')}?{urlencode([*view.query(), *span])}"


def _label(curve: Curve, runs: dict[str, Runs]) -> str:
    flow = f"{curve.flow}, leg {curve.leg}" if curve.leg else curve.flow
    label = told_apart(runs[curve.results].label(curve.run), [flow] if flow else [])
    return ", ".join([label, *([curve.results] if len(runs) > 1 else [])])


def _points(name: str, runs: Runs, here: str) -> list[tuple[str, str]]:
    """Return the points of results for a menu: of each a curve as the form sends it, and what it is called."""
    firsts = [(next(iter(point.runs.values())), point.label) for point in runs.points]
    return [(Curve(name, run).key(here), label) for run, label in firsts]


def _flows(every: Sequence[Runs]) -> list[tuple[str, str]]:
    """Return flows and legs for a menu; nothing where there is one flow alone."""
    parts = list(dict.fromkeys(part for runs in every for part in runs.all_flows()))[:MOST_LISTED]
    if len(parts) < 2:
        return []
    whole = [(part.name, part.name) for part in parts if not part.leg]
    return whole + [(f"{part.name}~{part.leg}", f"{part.name}, leg {part.leg}") for part in parts if part.leg]


def _runs(visit: Visit, name: str) -> Runs:
    folder = visit.laboratory.catalogue.path(name)
    return _runs_of(folder, (folder / "manifest.json").stat().st_mtime_ns)


@functools.lru_cache(maxsize=KEPT)
def _runs_of(folder: Path, _written_ns: int) -> Runs:
    return Runs(folder)


def _quantities(visit: Visit, name: str) -> dict[str, list[Quantity]]:
    folder = visit.laboratory.catalogue.path(name)
    return _quantities_of(folder, (folder / "manifest.json").stat().st_mtime_ns)


@functools.lru_cache(maxsize=KEPT)
def _quantities_of(folder: Path, _written_ns: int) -> dict[str, list[Quantity]]:
    return offered(folder, read_manifest(folder).get("tables", {}))


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
