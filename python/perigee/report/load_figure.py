# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Figure of latency under load: throughput of both directions, and round trips below it on the same time axis."""

from __future__ import annotations

import math

import numpy as np

from perigee.engines.live.under_load import BIN_S, UnderLoad
from perigee.groups.looks import other
from perigee.numbers import number
from perigee.report.style import Drawing, figure, from_zero

NAMES = {"down": "download", "up": "upload"}
IDLE_SHADE = "0.93"


def draw_load(measured: UnderLoad) -> Drawing:
    """Draw a measurement.

    Returns:
        The throughput of each direction over time, and below it the round trip of each ping, with the time without
        load in grey, the medians without and under load as lines, and lost pings as marks at the bottom.
    """
    drawing = figure(4.4)
    rates, pings = drawing.subplots(2, 1, sharex=True, height_ratios=[1.0, 1.4])
    begin, last = measured.load_s
    for place, (direction, values) in enumerate(measured.rates.items()):
        style = other(place)
        middle = begin + (np.arange(len(values)) + 0.5) * BIN_S
        label = f"{NAMES[direction]}, {number(measured.mean_mbps(direction), 1)} Mbit/s on average"
        rates.plot(middle, values, color=style.color, ls=style.dash, label=label)
    answered = np.isfinite(measured.rtt_ms)
    pings.plot(measured.sent_s[answered], measured.rtt_ms[answered], color=other(2).color, marker=".", ms=3, lw=0.7)
    lost = measured.sent_s[~answered]
    if len(lost):
        pings.plot(
            lost, np.zeros(len(lost)), ls="", marker="x", ms=4, color=other(1).color, label="lost", clip_on=False
        )
    end = max(float(measured.sent_s[-1]), last)
    idle, loaded = measured.round_trips(loaded=False), measured.round_trips(loaded=True)
    for counted, first, until, name in ((idle, 0.0, begin, "without load"), (loaded, begin, last, "under load")):
        median = counted.quantile_ms(0.5)
        if math.isfinite(median):
            dash = "-" if counted is idle else "--"
            label = f"median {name}, {in_ms(median)}"
            pings.hlines(median, first, until, color="black", ls=dash, lw=1.1, label=label, zorder=3)
    for axes in (rates, pings):
        axes.axvspan(0, begin, color=IDLE_SHADE, lw=0, zorder=0)
        axes.axvspan(last, end, color=IDLE_SHADE, lw=0, zorder=0)
        axes.legend(loc="upper right", ncols=3)
    rates.set(ylabel="Throughput (Mbit/s)")
    pings.set(xlabel="Time (s)", ylabel="Round trip (ms)", xlim=(0, end))
    from_zero([rates, pings])
    for axes in (rates, pings):
        # Room for the legend above the curves.
        axes.set_ylim(top=1.25 * axes.get_ylim()[1])
    rates.set_title(title_of(measured))
    return drawing


def in_ms(value: float) -> str:
    """Return a round trip with a decimal below 100 ms.

    Examples:
        >>> in_ms(27.34), in_ms(600.2)
        ('27.3 ms', '600 ms')
    """
    return f"{number(value, 1 if value < 100 else 0)} ms"


def title_of(measured: UnderLoad) -> str:
    """Return the finding in a line."""
    idle, loaded = (measured.round_trips(loaded).quantile_ms(0.5) for loaded in (False, True))
    if not math.isfinite(loaded):
        return f"{measured.plan.host}: no ping was answered under load"
    return f"{measured.plan.host}: a round trip takes {in_ms(idle)}, and {in_ms(loaded)} under load"
