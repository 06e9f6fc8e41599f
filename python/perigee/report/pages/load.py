# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page of latency under load: one measurement, or several held against the first one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perigee.engines.live.under_load import BIN_S, UnderLoad
from perigee.groups.looks import other
from perigee.numbers import counted, decimals, number, signed
from perigee.report import html
from perigee.report.legends import legend_above
from perigee.report.model import Block, Plot, Report, Section, Short, Table
from perigee.report.pages.parts import table
from perigee.report.style import FAINT, INK, WIDTH_IN, figure, from_zero, styled

NAMES = {"down": "download", "up": "upload"}
HEAD = ("Round trip (ms)", "median", "95 %", "99 %", "largest", "lost")
QUANTILES = (0.5, 0.95, 0.99, 1.0)
PRACTICALLY_EQUAL = 0.05
"""Share below which two measurements of a real path are said to be about the same."""
ONCE = "One measurement each: how far two evenings differ by chance is not known. Repeat each to learn it."

Named = Mapping[str, UnderLoad]
"""Measurements by the names of their folders."""


def page(several: Named) -> str:
    """Return the page of a measurement, or of several."""
    with styled():
        return html.render(_report(several))


def _report(several: Named) -> Report:
    name, first = next(iter(several.items()))
    is_one = len(several) == 1
    sections = []
    for own, measured in several.items():
        blocks: list[Block] = [] if is_one else [_over_time(own, measured)]
        sections.append(
            Section(f"round-trips-{own}", "Round trips" if is_one else own, [*blocks, _table(own, measured)])
        )
    plan = first.plan
    way = "each way" if plan.direction == "both" else plan.direction
    load = f"{counted(plan.streams, 'transfer')} {way} for {plan.time_s} s"
    made = [("Host", plan.host), ("Load", load), ("Congestion control", plan.cc or "that of the hosts")]
    lines = directions(first) if is_one else [f"{own}: {sentence(measured)}" for own, measured in several.items()]
    return Report(
        title=f"Latency under load to {plan.host}" + ("" if is_one else f": {', '.join(several)}"),
        question="How long does a round trip take while transfers fill the path?",
        facts=[],
        sections=sections,
        short=Short(
            answer=sentence(first) if is_one else compared(several),
            caveats=[
                *dict.fromkeys(note for one in several.values() for note in one.notes),
                *([] if is_one else [ONCE]),
            ],
            lines=lines,
            blocks=[_over_time(name, first) if is_one else _distributions(several)],
        ),
        made=made,
    )


def draw(several: Named, width_in: float = WIDTH_IN) -> Figure:
    """Draw the first figure of the page."""
    return (
        _draw_over_time(next(iter(several.values())), width_in) if len(several) == 1 else _draw_all(several, width_in)
    )


def sentence(measured: UnderLoad) -> str:
    """Return the finding in a sentence."""
    idle, loaded = (measured.pings(loaded=loaded).quantile_ms(0.5) for loaded in (False, True))
    if not math.isfinite(loaded):
        return "No ping was answered under load."
    rates = " and ".join(f"{number(measured.mean_mbps(way), 1)} Mbit/s {way}" for way in measured.rates)
    return f"A round trip takes {in_ms(idle)}, and {in_ms(loaded)} under a load of {rates}."


def compared(several: Named) -> str:
    """Return how the later measurements differ from the first one, in a sentence each."""
    (base, first), *rest = several.items()
    said = []
    for name, later in rest:
        before, after = (one.pings(loaded=True).quantile_ms(0.5) for one in (first, later))
        clauses = [_differs("the round trip under load", before, after, in_ms)]
        for way in (way for way in first.rates if way in later.rates):
            clauses.append(_differs(f"the {NAMES[way]}", first.mean_mbps(way), later.mean_mbps(way), in_mbps))
            own = [one.flow_quantiles_ms(way, (0.5,)) for one in (first, later)]
            if all(own):
                clauses.append(_differs(f"the round trip of its transfers ({way})", own[0][0], own[1][0], in_ms))
        said.append(f"{name} against {base}: {'; '.join(clauses)}.")
    return " ".join(said)


def _differs(what: str, before: float, after: float, words: Callable[[float], str]) -> str:
    if not (math.isfinite(before) and math.isfinite(after) and before > 0):
        return f"{what} is not known"
    share = after / before - 1
    if abs(share) < PRACTICALLY_EQUAL:
        return f"{what} is about the same, {words(after)}"
    return f"{what} is {words(after)}, {signed(100 * share, 0)} %"


def directions(measured: UnderLoad) -> list[str]:
    """Return a sentence for each direction of the load, and one on what its transfers see beside the pings."""
    said = []
    for way in measured.rates:
        again = measured.retransmitted[way]
        told = "" if again is None else f", {number(again, 0)} packets retransmitted"
        said.append(f"{way}: {number(measured.mean_mbps(way), 1)} Mbit/s{told}")
        between = measured.difference(way)
        said += [f"{way}: {between.finding}"] if between else []
    return said


def rows(measured: UnderLoad) -> list[tuple[str, ...]]:
    """Return the round trips without load, under load, and of the transfers, in the columns of `HEAD`."""
    both = [("without load", measured.pings(loaded=False)), ("under load", measured.pings(loaded=True))]
    found = [
        (name, *(_ms(pings.quantile_ms(share)) for share in QUANTILES), f"{number(100 * pings.loss, 1)} %")
        for name, pings in both
        if pings.sent
    ]
    transfers = [(way, measured.flow_quantiles_ms(way, QUANTILES)) for way in measured.rates]
    return found + [
        (f"of the transfers {way}", *(_ms(value) for value in trips_ms), "–") for way, trips_ms in transfers if trips_ms
    ]


def in_ms(value: float) -> str:
    """Return a round trip with a decimal below 100 ms, and at least two digits.

    Examples:
        >>> in_ms(27.34), in_ms(600.2), in_ms(0.0412)
        ('27.3 ms', '600 ms', '0.041 ms')
    """
    return f"{_ms(value) if value < 100 else number(value, 0)} ms"


def _ms(value: float) -> str:
    return number(value, decimals(1, value))


def in_mbps(value: float) -> str:
    """Return a throughput for people."""
    return f"{number(value, 1)} Mbit/s"


def _table(name: str, measured: UnderLoad) -> Table:
    caption = "Round trips of pings, and of the transfers as the sender's kernel smooths them"
    return table(f"round-trips-{name}", caption, HEAD, rows(measured))


def _over_time(name: str, measured: UnderLoad) -> Plot:
    data = pl.DataFrame({"sent_s": measured.sent_s, "rtt_ms": measured.rtt_ms}).with_columns(pl.all().fill_nan(None))
    return Plot.of(
        f"load-{name}",
        "Throughput of the transfers, and each ping's round trip. Grey: without load.",
        sentence(measured),
        partial(_draw_over_time, measured),
        data=data,
    )


def _draw_over_time(measured: UnderLoad, width_in: float) -> Figure:
    drawing = figure(4.4, width_in)
    rates, pings = drawing.subplots(2, 1, sharex=True, height_ratios=[1.0, 1.4])
    begin, last = measured.load_s
    for place, direction in enumerate(measured.rates):
        _rate(
            rates,
            measured,
            direction,
            begin,
            place,
            f"{NAMES[direction]}, {in_mbps(measured.mean_mbps(direction))} on average",
        )
    answered = np.isfinite(measured.rtt_ms)
    pings.plot(measured.sent_s[answered], measured.rtt_ms[answered], color=other(2).color, marker=".", ms=3, lw=0.7)
    lost = measured.sent_s[~answered]
    if len(lost):
        pings.plot(
            lost, np.zeros(len(lost)), ls="", marker="x", ms=4, color=other(1).color, label="lost", clip_on=False
        )
    end = max(float(measured.sent_s[-1]), last)
    for loaded, first, until, name in ((False, 0.0, begin, "without load"), (True, begin, last, "under load")):
        median = measured.pings(loaded=loaded).quantile_ms(0.5)
        if math.isfinite(median):
            label = f"median {name}, {in_ms(median)}"
            pings.hlines(median, first, until, color=INK, ls="--" if loaded else "-", lw=1.1, label=label, zorder=3)
    for axes in (rates, pings):
        axes.axvspan(0, begin, color=FAINT, alpha=0.5, lw=0, zorder=0)
        axes.axvspan(last, end, color=FAINT, alpha=0.5, lw=0, zorder=0)
        axes.legend(loc="upper right", ncols=3)
    rates.set(ylabel="Throughput (Mbit/s)")
    pings.set(xlabel="Time (s)", ylabel="Round trip (ms)", xlim=(0, end))
    from_zero([rates, pings])
    for axes in (rates, pings):
        # Room for the legend above the curves.
        axes.set_ylim(top=1.25 * axes.get_ylim()[1])
    return drawing


def _rate(axes: Axes, measured: UnderLoad, direction: str, begin: float, place: int, label: str) -> None:
    values, style = measured.rates[direction], other(place)
    axes.plot(begin + (np.arange(len(values)) + 0.5) * BIN_S, values, color=style.color, ls=style.dash, label=label)


def _distributions(several: Named) -> Plot:
    rows_of = [
        {"measurement": name, "load": loaded, "rtt_ms": float(value)}
        for name, one in several.items()
        for loaded in (False, True)
        for value in one.pings(loaded=loaded).answered_ms
    ]
    return Plot.of(
        "compared",
        "Share of the pings under load whose round trip is at most so long; dotted: without load. Below, throughput "
        "from the beginning of the load on.",
        compared(several),
        partial(_draw_all, several),
        data=pl.DataFrame(rows_of),
    )


def _draw_all(several: Named, width_in: float) -> Figure:
    ways = [way for way in NAMES if any(way in one.rates for one in several.values())]
    drawing = figure(2.4 + 1.3 * len(ways), width_in)
    trips, *rates = drawing.subplots(1 + len(ways), 1, height_ratios=[2.0, *([1.1] * len(ways))])
    for place, (name, one) in enumerate(several.items()):
        for loaded, dash in ((True, other(place).dash), (False, ":")):
            values = np.sort(one.pings(loaded=loaded).answered_ms)
            label = f"{name}, median {in_ms(one.pings(loaded=True).quantile_ms(0.5))}" if loaded else None
            if len(values):
                shares = 100 * np.arange(1, len(values) + 1) / len(values)
                trips.step(values, shares, where="post", color=other(place).color, ls=dash, label=label)
        for axes, way in zip(rates, ways, strict=True):
            if way in one.rates:
                _rate(axes, one, way, 0.0, place, name)
    trips.set(xlabel="Round trip (ms)  ← better", ylabel="Pings (%)", ylim=(0, 100))
    trips.set_xlim(left=0)
    for axes, way in zip(rates, ways, strict=True):
        axes.set(ylabel=f"{NAMES[way].capitalize()}\n(Mbit/s)")
    if rates:
        rates[-1].set_xlabel("Time under load (s)")
        for axes in rates:
            axes.set_xlim(left=0)
    from_zero(rates)
    legend_above(drawing, trips)
    return drawing
