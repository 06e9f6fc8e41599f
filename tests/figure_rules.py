# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Rules that keep a figure from misleading, as tests hold them on drawn figures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from perigee.report.charts.cumulative import QUARTERS
from perigee.report.charts.ends import END
from perigee.report.charts.equal import BAND
from perigee.report.charts.few import MOST_MARKED, UNMARKED
from perigee.report.charts.scales import LEAST_SPAN, without_direction
from perigee.report.model import Plot
from perigee.report.style import WHOLE, is_tinted
from perigee.statistics.estimates import EQUAL_SHARE
from perigee.statistics.metrics import METRICS

POSITIONS = re.compile(r"Time (?!to )|Lag|Position")
"""How labels of axes begin along which something is a place, not a value."""
DIRECTED = {one.heading for one in METRICS.values() if one.higher_is_better is not None}
NO_SHARE = re.compile("difference|gain|change|error|effect|deviation")
"""Names of columns in percent that are no shares of a whole."""
NEAR = 1e-6


def misleading(plot: Plot) -> list[str]:
    """Return what may mislead in a figure, a line each; empty: nothing."""
    drawn: Figure = plot.figure
    panels = [axes for axes in drawn.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]
    every = itertools.chain(
        *(_axis(plot, axes, is_x=is_x) for axes in panels for is_x in (True, False)),
        _beside(plot, panels),
        _marks(drawn, panels),
        _equals(plot),
        *(_map(axes) for axes in drawn.axes if axes.get_label() == "<colorbar>"),
    )
    return [f"{plot.name}: {what}" for what in every]


def _axis(plot: Plot, axes: Axes, *, is_x: bool) -> Iterator[str]:
    """Hold one axis: how much it spans, where its better end is, and that no share is over 100 %."""
    axis: Any = axes.xaxis if is_x else axes.yaxis
    label, low, high = _label(axes, is_x=is_x), *sorted(axes.get_xlim() if is_x else axes.get_ylim())
    is_value = not plot.sequence and not _has_words(axis)
    if is_value and axis.get_scale() == "linear" and not POSITIONS.match(label):
        if high - low < LEAST_SPAN * abs(high + low) / 2 * (1 - NEAR):
            yield f"{label}: the axis spans {low:g} to {high:g} only"
        if label.endswith("(%)") and high > WHOLE + NEAR:
            yield f"{label}: a share of {high:g} %"
        has_marks = any(line.get_marker() not in ("None", "", ".", "_", "|") for line in axes.lines)
        is_zoomed = low > 0.8 * high > 0
        has_band = any(one.get_label() == BAND for one in axes.patches)
        if is_zoomed and has_marks and label in DIRECTED and not has_band and len(_told(axes)) > 1:
            yield f"{label}: the axis is zoomed without the band of what is practically equal"
    if label in DIRECTED and is_value and "is better" not in axis.get_label_text() and axis.get_label_text():
        yield f"{label}: no arrow to the better end"


def _beside(plot: Plot, panels: Sequence[Axes]) -> Iterator[str]:
    """Hold panels side by side: scales are the same, or shaded and told; never of shares, never log beside linear."""
    lines: dict[tuple[int, str, bool], list[Axes]] = {}
    for axes, is_x in itertools.product(panels, (True, False)):
        label = _label(axes, is_x=is_x)
        lines.setdefault((round(100 * axes.get_position().y0), label, is_x), []).append(axes)
    pairs = ((key, pair) for key, several in lines.items() for pair in itertools.pairwise(several))
    for (_, label, is_x), (one, other) in pairs:
        if POSITIONS.match(label) or not (label in DIRECTED or "(" in label):
            continue
        scales = [axes.get_xscale() if is_x else axes.get_yscale() for axes in (one, other)]
        if scales[0] != scales[1]:
            yield f"{label}: {scales[0]} beside {scales[1]}"
        limits = [axes.get_xlim() if is_x else axes.get_ylim() for axes in (one, other)]
        if np.allclose(limits[0], limits[1], rtol=NEAR):
            continue
        if label.endswith("(%)"):
            yield f"{label}: shares on two scales, {limits[0]} and {limits[1]}"
        elif not (is_tinted(one) and is_tinted(other) and _tells(plot.caption, is_x=is_x)):
            yield f"{label}: two scales side by side, not told, {limits[0]} and {limits[1]}"


def _tells(caption: str, *, is_x: bool) -> bool:
    way = "horizontal" if is_x else "vertical"
    return re.search(rf"[Pp]anels have ({way} )?scales of their own", caption) is not None


def _marks(drawn: Figure, panels: Sequence[Axes]) -> Iterator[str]:
    """Hold the number of names and looks that a reader must tell apart."""
    entries = [text.get_text() for legend in drawn.legends for text in legend.get_texts()]
    ends = [text.get_text() for axes in panels for text in axes.texts if text.get_label() == END]
    if len(set(entries + ends)) > MOST_MARKED:
        yield f"{len(set(entries + ends))} names to tell apart"
    for axes in panels:
        if any(_has_words(one.yaxis) for one in panels):
            # Rows have their names beside them.
            return
        looks = {(str(line.get_color()), str(line.get_marker()), str(line.get_linestyle())) for line in _told(axes)}
        if len(looks) > MOST_MARKED:
            yield f"{len(looks)} looks to tell apart in a panel"


def _has_words(axis: Any) -> bool:
    """Return True if the ticks of an axis are words."""
    texts = [text.get_text() for text in axis.get_ticklabels()]
    return any(text and not re.fullmatch(r"[−-]?[\d.]+(e[+-]?\d+)?( %|k)?", text) for text in texts)


def _told(axes: Axes) -> list[Line2D]:
    """Return the lines that are to be told apart: neither grey nor without a name."""
    named = [line for line in axes.lines if not str(line.get_label()).startswith("_") and np.size(line.get_xdata())]
    return [line for line in named if line.get_color() != UNMARKED.color]


def _equals(plot: Plot) -> Iterator[str]:
    """Hold by its data that groups of a figure differ in each quantity, or in one of two drawn against each other.

    Of curves, quarters are compared.
    """
    data = plot.data
    if data is None:
        return
    if {"quantity", "mean"} <= set(data.columns):
        half = next(name for name in data.columns if name.startswith("half_width"))
        parts = data.partition_by("quantity")
        alike = [str(part["quantity"][0]) for part in parts if _are_alike(part["mean"], part[half])]
        is_against = "tradeoff" in plot.name
        if alike and (not is_against or len(alike) == data["quantity"].n_unique()):
            yield f"all groups are practically equal in {', '.join(alike)}"
    if {"curve", "share"} <= set(data.columns):
        quantity = next(name for name in data.columns if name not in ("panel", "row", "curve", "share"))
        curves = data.partition_by("panel", "row", "curve")
        at = [[part.filter(pl.col("share") >= share - NEAR)[quantity][0] for part in curves] for share in QUARTERS]
        if all(_are_alike(pl.Series(values), None) for values in at):
            yield f"all curves are practically equal in {quantity}"


def _are_alike(means: pl.Series, half: pl.Series | None) -> bool:
    seen = means.drop_nulls().to_numpy()
    bound = EQUAL_SHARE * np.abs(seen).max(initial=0.0)
    is_wide = half is not None and bool((half.fill_null(0.0).to_numpy() >= max(bound, 1e-12)).any())
    return len(seen) > 1 and bool(np.ptp(seen) < bound) and not is_wide


def _map(bar: Axes) -> Iterator[str]:
    """Hold a map's colours: one that grows darker to the better end, and cells that differ."""
    label = without_direction(bar.get_ylabel())
    cells = [mesh for axes in bar.figure.axes if axes is not bar for mesh in axes.collections if _is_map(mesh)]
    low, high = sorted(bar.get_ylim())
    if label in DIRECTED and "is better" not in bar.get_ylabel():
        yield f"{label}: no arrow at the colours"
    luminance = [float(np.dot(color[:3], (0.3, 0.59, 0.11))) for color in cells[0].get_cmap()(np.linspace(0, 1, 11))]
    if label in DIRECTED:
        is_darker_up = luminance[0] > luminance[-1]
        if not all(a > b for a, b in itertools.pairwise(luminance if is_darker_up else luminance[::-1])):
            yield f"{label}: the colours are not one from light to dark"
        if ("lower is better" in bar.get_ylabel()) is is_darker_up:
            yield f"{label}: the dark end is not the better one"
    values = np.concatenate([np.ma.filled(np.ma.asarray(mesh.get_array()), np.nan).ravel() for mesh in cells])
    values = values[np.isfinite(values)]
    shades = [float(np.asarray(cells[0].norm(end))) for end in (values.min(), values.max())]
    if shades[1] - shades[0] < 0.2 and np.ptp(values) > LEAST_SPAN * np.abs(values).max():
        yield f"{label}: all cells have about one colour"
    for axes in (one for one in bar.figure.axes if one is not bar):
        names = [text.get_text() for text in axes.get_yticklabels()]
        is_number = all(re.fullmatch(r"[\d.e+-]+", name) for name in names)
        if names and not is_number and axes.get_ylim()[0] < axes.get_ylim()[1]:
            yield f"{label}: the first row is at the bottom"
    if high <= low:
        yield f"{label}: the scale of colours has no length"


def _is_map(mesh: object) -> bool:
    return isinstance(mesh, QuadMesh) and mesh.get_array() is not None


def _label(axes: Axes, *, is_x: bool) -> str:
    """Return the label of an axis, or that of the panels in its line or column, which share it."""
    here = axes.get_position()
    for other in (axes, *axes.figure.axes):
        place = other.get_position()
        if abs(place.x0 - here.x0) < 0.01 if is_x else abs(place.y0 - here.y0) < 0.01:
            text = other.get_xlabel() if is_x else other.get_ylabel()
            if text:
                return without_direction(text)
    return ""


def over_100_percent(tables: Sequence[Any]) -> list[str]:
    """Return the shares over 100 % in the data of tables; changes and distances are none."""
    found = []
    for table in tables:
        data: pl.DataFrame = table.data
        for name in data.columns:
            is_share = name.endswith("_percent") and not NO_SHARE.search(name)
            values = data[name].cast(pl.Float64).to_numpy() if is_share else np.empty(0)
            if (values > 100 + NEAR).any():
                found.append(f"{table.name}: {name} of {np.nanmax(values):g}")
    return found
