# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Each rule of figures finds one that breaks it; `test_reduced_reports.py` holds the reports of all studies by them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from figure_rules import misleading
from perigee.groups.factors import Level, factor
from perigee.groups.looks import look as look_of
from perigee.report.charts import equal
from perigee.report.charts.heat import maps_figure
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.charts.scales import with_direction
from perigee.report.charts.tradeoff import MARK_PT
from perigee.report.model import OWN_SCALES, Plot
from perigee.report.style import figure, styled, tint
from perigee.statistics.metrics import metric

RATE = with_direction("Overall throughput (Mbit/s)", higher_is_better=True)
LOSS = with_direction("Retransmitted, overall (%)", higher_is_better=False)


SCALES = "scales of their own."


def plot(drawn: Figure, caption: str = "", data: pl.DataFrame | None = None) -> Plot:
    return Plot("figure", caption, "", drawn, data=data)


def panels(*rates: tuple[float, float], label: str = RATE, shade: bool = False, scale: str = "linear") -> Figure:
    """Panels side by side with two marks each, each from zero to its largest."""
    drawn = Figure()
    for place, (axes, values) in enumerate(zip(drawn.subplots(1, len(rates), squeeze=False)[0], rates, strict=True)):
        axes.plot([0, 1], values, marker="o", label="cubic")
        axes.set_yscale(scale if place else "linear")
        axes.set_ylim(0.1 if place and scale == "log" else 0, 1.1 * max(values))
        if shade:
            tint(axes)
        if place == 0:
            axes.set_ylabel(label)
    return drawn


def zoomed(low: float, high: float, label: str = RATE) -> Figure:
    drawn = panels((low, high), label=label)
    (axes,) = drawn.axes
    axes.plot([0, 1], [high, low], marker="s", label="bbr")
    axes.set_ylim(low, high)
    return drawn


def crowded() -> Figure:
    drawn = panels((1.0, 2.0))
    for number in range(8):
        drawn.axes[0].plot([0, 1], [number, 2], marker="o", color=f"C{number}", label=f"mine {number}")
    drawn.legend()
    return drawn


def map_of(values: tuple[float, float], *, colors: str = "", turned: bool = False) -> Figure:
    """A map of round-trip times in two rows with names."""
    rows = factor("cc", "flow.cc", [Level("bbr"), Level("cubic")])
    columns = factor("point.queue", "links.l.queue", [Level("short")])
    with styled():
        drawn = maps_figure({"": np.array([values]).T}, metric("rtt_mean_ms"), (columns, rows), None, 7.2)
    own = drawn.axes[0]
    if colors:
        own.collections[0].set_cmap(colors)
    if turned:
        own.invert_yaxis()
    return drawn


def means(*values: float) -> pl.DataFrame:
    return pl.DataFrame({"quantity": "goodput_mbps", "mean": values, "half_width_95": 0.0})


KEPT: tuple[Callable[[], Plot], ...] = (
    lambda: plot(panels((8.0, 12.0), (8.0, 12.0)), data=means(8.0, 12.0)),
    lambda: plot(panels((8.0, 12.0), (1.0, 0.8), shade=True), f"Rates. All panels {OWN_SCALES}"),
    lambda: plot(panels((80.0, 90.0), label=LOSS)),
    lambda: plot(map_of((33.0, 39.0))),
)
BROKEN: tuple[tuple[str, Callable[[], Plot]], ...] = (
    ("the axis spans 48.1964 to 48.1968 only", lambda: plot(zoomed(48.1964, 48.1968))),
    ("zoomed without the band", lambda: plot(zoomed(9.0, 10.0))),
    ("no arrow to the better end", lambda: plot(panels((8.0, 12.0), label="Overall throughput (Mbit/s)"))),
    ("a share of 133.1 %", lambda: plot(panels((90.0, 121.0), label=LOSS))),
    ("two scales side by side, not told", lambda: plot(panels((8.0, 12.0), (1.0, 0.8)))),
    ("two scales side by side, not told", lambda: plot(panels((8.0, 12.0), (1.0, 0.8), shade=True), "Rates.")),
    (
        "two scales side by side, not told",
        lambda: plot(panels((8.0, 12.0), (1.0, 0.8), shade=True), "All panels have horizontal scales of their own."),
    ),
    (
        "shares on two scales",
        lambda: plot(panels((8.0, 12.0), (1.0, 0.8), label=LOSS, shade=True), f"Panels {OWN_SCALES}"),
    ),
    ("linear beside log", lambda: plot(panels((8.0, 12.0), (8.0, 12.0), scale="log"))),
    ("9 names to tell apart", lambda: plot(crowded())),
    ("all groups are practically equal", lambda: plot(panels((8.0, 8.01)), data=means(8.0, 8.01))),
    ("not one from light to dark", lambda: plot(map_of((33.0, 39.0), colors="RdBu"))),
    ("the dark end is not the better one", lambda: plot(map_of((33.0, 39.0), colors="Blues"))),
    ("the first row is at the bottom", lambda: plot(map_of((33.0, 39.0), turned=True))),
)


@pytest.mark.parametrize("kept", KEPT)
def test_a_figure_that_keeps_the_rules_is_not_said_to_mislead(kept: Callable[[], Plot]) -> None:
    assert misleading(kept()) == []


@pytest.mark.parametrize(("said", "broken"), BROKEN)
def test_a_figure_that_breaks_a_rule_is_found(said: str, broken: Callable[[], Plot]) -> None:
    found = misleading(broken())
    assert [line for line in found if said in line], found


def test_panels_over_time_end_with_the_longest_of_their_curves() -> None:
    look = look_of(0)
    lengths = (2.0, 9.0, 5.0)
    drawn = [TimePanel(f"{end:g} s", [[Curve("", look, [0.0, end], [1.0, 2.0])]]) for end in lengths]
    with styled():
        axes = over_time(drawn, ["Throughput (Mbit/s)"], "Time (s)", 7.2).axes
    assert {one.get_xlim() for one in axes} == {(0.0, 9.0)}


def test_the_words_below_a_map_do_not_touch() -> None:
    links = factor("point.to", "flow.to", [Level(f"a link of {rate} Mbit/s and 600 ms") for rate in (10, 20, 30, 40)])
    rows = factor("cc", "flow.cc", [Level("bbr"), Level("cubic")])
    with styled():
        drawn = maps_figure({"": np.ones((2, 4))}, metric("rtt_mean_ms"), (links, rows), None, 5.0)
    assert {label.get_rotation() for label in drawn.axes[0].get_xticklabels()} == {45.0}


def test_a_caption_tells_which_panels_and_which_axes_have_scales_of_their_own() -> None:
    def captions(*rates: tuple[float, float], shaded: int, ends: tuple[float, ...] = ()) -> str:
        drawn = panels(*rates)
        for axes in drawn.axes[:shaded]:
            tint(axes)
        for axes, end in zip(drawn.axes, ends, strict=False):
            axes.set_xlim(0, end)
        return Plot.of("one", "Rates.", "", lambda _: drawn).caption

    assert captions((8.0, 12.0), (8.0, 12.0), shaded=2, ends=(1, 30)) == "Rates. All panels have horizontal " + SCALES
    assert captions((8.0, 12.0), (1.0, 0.8), (8.0, 12.0), shaded=2) == "Rates. Shaded panels have vertical " + SCALES
    assert captions((8.0, 12.0), (1.0, 0.8), shaded=2, ends=(1, 30)) == f"Rates. All panels have {SCALES}"
    assert captions((8.0, 12.0), (8.0, 12.0), shaded=0) == captions((8.0, 12.0), (8.0, 12.0), shaded=2) == "Rates."


def test_a_box_that_the_best_mark_covers_is_not_told() -> None:
    def seen(last: float) -> bool:
        drawn = figure(3.0)
        axes = drawn.subplots()
        axes.set(xlim=(0, 10), ylim=(0, last))
        equal.box(axes, 5.0, 40.0)
        return equal.is_seen(drawn, MARK_PT)

    assert seen(5.0)
    assert not seen(100.0)
