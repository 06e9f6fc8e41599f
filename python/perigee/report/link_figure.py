# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Figure of a link profile: rate and delay over time, and distribution of the delays."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from perigee.groups.looks import other
from perigee.numbers import number
from perigee.report.legends import broken, legend_of
from perigee.report.style import WIDTH_IN, Drawing, figure, from_zero
from perigee.statistics.metrics import mean, sample_of

NAMES = {"down": "towards the user", "up": "away from the user"}
TITLE_SIZE = 9.5
"""In points."""
MOST_POINTS = 4000
"""Maximum points of a line; more are invisible."""


def draw_link(samples: pl.DataFrame, title: str = "") -> Drawing:
    """Draw rate, delay and loss of a link over time.

    Args:
        samples: what `perigee.engines.links.sampling.sample_profile` returns.
        title: title of the figure.

    Returns:
        Rate and delay over time, lost packets as marks below the delays, and the distribution of the delays, for each
        direction; one direction if both are equal.
    """
    parts = _directions(samples)
    drawing = figure(4.6)
    grid = drawing.subplot_mosaic([["rate", "rate"], ["delay", "spread"]], width_ratios=[2.4, 1.0])
    for place, (name, part) in enumerate(parts.items()):
        style = other(place)
        label = f"{name}: {_in_words(part)}"
        thin = part.gather_every(math.ceil(part.height / MOST_POINTS))
        t = thin["t_s"].to_numpy()
        grid["rate"].plot(t, thin["rate_mbps"].to_numpy(), color=style.color, ls=style.dash, label=label, lw=1.1)
        grid["delay"].plot(t, thin["delay_ms"].to_numpy(), color=style.color, ls=style.dash, lw=1.1)
        _mark_losses(grid["delay"], part, style.color, place)
        delays = np.sort(sample_of(part["delay_ms"]))
        if len(delays):
            shares = np.arange(1, len(delays) + 1) / len(delays)
            grid["spread"].plot(delays, 100 * shares, color=style.color, ls=style.dash, lw=1.2)
    grid["rate"].set(xlabel="Time (s)", ylabel="Rate (Mbit/s)")
    grid["delay"].set(xlabel="Time (s)", ylabel="One-way delay (ms)")
    grid["spread"].set(xlabel="One-way delay (ms)", ylabel="Share of packets (%)", ylim=(0, 100))
    from_zero([grid["rate"]])
    for axes in (grid["rate"], grid["delay"]):
        axes.set_xlim(0, float(samples["t_s"].max() or 0.0) or 1.0)  # type: ignore[arg-type]
    low, high = _delay_range(samples)
    grid["delay"].set_ylim(low, high)
    grid["spread"].set_xlim(low, high)
    if samples["lost"].any():
        grid["delay"].set_title("marks: lost packets", fontsize=8, fontweight="normal", loc="right")
    grid["rate"].set_title(broken(title, 0.85 * WIDTH_IN, TITLE_SIZE, "bold"), fontsize=TITLE_SIZE)
    legend_of(drawing, *grid["rate"].get_legend_handles_labels())
    return drawing


def _delay_range(samples: pl.DataFrame) -> tuple[float, float]:
    """Return the limits of the delay scale: the range of delays with a margin, at least a tenth of a delay."""
    delays = sample_of(samples["delay_ms"])
    if not len(delays):
        return 0.0, 1.0
    low, high = float(delays.min()), float(delays.max())
    margin = max(0.1 * (high - low), 0.05 * high, 0.01)
    return max(0.0, low - margin), high + margin


def _directions(samples: pl.DataFrame) -> dict[str, pl.DataFrame]:
    parts = {name: samples.filter(pl.col("direction") == name).drop("direction") for name in NAMES}
    if parts["down"].equals(parts["up"]):
        return {"both directions": parts["down"]}
    return {NAMES[name]: part for name, part in parts.items()}


def _in_words(part: pl.DataFrame) -> str:
    rate = mean(part["rate_mbps"])
    said = "no limit" if math.isinf(rate) else f"{number(rate)} Mbit/s"
    lost = 100 * float(part["lost"].sum()) / max(part.height, 1)
    return f"{said}, {number(mean(part['delay_ms']))} ms, {number(lost, 2)} % lost (means)"


def _mark_losses(axes: Axes, part: pl.DataFrame, color: str, place: int) -> None:
    """Mark lost packets at the foot of the panel, a line per direction."""
    lost = part.filter("lost")["t_s"].to_numpy()
    if len(lost):
        height = np.full(len(lost), 0.03 + 0.05 * place)
        axes.plot(
            lost, height, ls="", marker="|", ms=5, mew=0.8, color=color, transform=axes.get_xaxis_transform(),
            rasterized=len(lost) > MOST_POINTS,
        )  # fmt: skip
