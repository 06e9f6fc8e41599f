# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Figure of the path over satellites: sky of the user, and delay over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from perigee.groups.looks import other
from perigee.numbers import number
from perigee.report.legends import broken
from perigee.report.style import WIDTH_IN, Drawing, figure

if TYPE_CHECKING:
    from perigee._core import Orbit, OrbitSlot

TITLE_SIZE = 9.5
"""In points."""
UNITS = ((2 * 86_400.0, 86_400.0, "days"), (2 * 3600.0, 3600.0, "h"), (600.0, 60.0, "min"), (0.0, 1.0, "s"))
"""Units of time: minimum length for the unit, seconds per unit, and name."""
MOST_TRACKS = 400
"""Maximum number of slots with satellite tracks; more would cover the sky."""


def draw_orbit(orbit: Orbit, title: str = "") -> Drawing:
    """Draw the path of a link over satellites.

    Args:
        orbit: what `perigee.engines.links.orbits.orbit_slots` returns.
        title: title of the figure.

    Returns:
        The sky of the user (north above, east to the right, the zenith in the middle) with each satellite in view as
        a slot begins and the one that serves, and the delay over time, with slots without a path as grey bars.
    """
    drawing = figure(3.6)
    grid = drawing.add_gridspec(1, 2, width_ratios=[1.0, 1.7])
    sky: Axes = drawing.add_subplot(grid[0], projection="polar")
    delay = drawing.add_subplot(grid[1])
    _draw_sky(sky, orbit)
    _draw_delay(delay, orbit.slots)
    drawing.suptitle(broken(title, 0.85 * WIDTH_IN, TITLE_SIZE), fontsize=TITLE_SIZE)
    return drawing


def _draw_sky(axes: Axes, orbit: Orbit) -> None:
    serving, others = other(0), other(1)
    least = orbit.elevation_deg
    axes.set_theta_zero_location("N")  # type: ignore[attr-defined]
    axes.set_theta_direction(-1)  # type: ignore[attr-defined]
    axes.set_rlim(90.0, least)  # type: ignore[attr-defined]
    seen = [(azimuth, elevation) for slot in orbit.slots for _, elevation, azimuth, _ in slot.visible]
    if seen:
        azimuths, elevations = np.array(seen).T
        axes.plot(
            np.radians(azimuths), elevations, ls="", marker=".", ms=2, color=others.color, alpha=0.5,
            label="in view", rasterized=len(seen) > MOST_TRACKS,
        )  # fmt: skip
    chosen = np.array([slot.first[1:3] for slot in orbit.slots if slot.first is not None]).reshape(-1, 2)
    if len(chosen):
        joined = "-" if len(chosen) <= MOST_TRACKS else ""
        axes.plot(
            np.radians(chosen[:, 1]), chosen[:, 0], ls=joined, lw=0.6, marker="o", ms=3, color=serving.color,
            label="serves", rasterized=len(chosen) > MOST_TRACKS,
        )  # fmt: skip
    axes.set_xticks(np.radians([0, 90, 180, 270]), ["N", "E", "S", "W"])
    axes.tick_params(labelsize=7)
    axes.set_title("Sky of the user (elevation in degrees)", fontsize=8, fontweight="normal")
    if seen or len(chosen):
        axes.legend(fontsize=7, loc="lower right", bbox_to_anchor=(1.15, -0.12))


def _draw_delay(axes: Axes, slots: list[OrbitSlot]) -> None:
    style = other(0)
    span = slots[-1].t_s + slots[-1].length_s
    scale, unit = next((seconds, name) for least, seconds, name in UNITS if span >= least)
    t, delays = [], []
    for slot in slots:
        # A gap after each slot, since the delay jumps.
        t += [slot.t_s / scale, (slot.t_s + slot.length_s / 2) / scale, (slot.t_s + slot.length_s) / scale, np.nan]
        delays += [*(slot.delay_ms or (np.nan,) * 3), np.nan]
        if slot.delay_ms is None:
            axes.axvspan(slot.t_s / scale, (slot.t_s + slot.length_s) / scale, color="0.85", lw=0)
    axes.plot(t, delays, color=style.color, lw=1.1)
    axes.set(xlabel=f"Time ({unit})", ylabel="One-way delay (ms)", xlim=(max(0.0, slots[0].t_s / scale), span / scale))
    missing = sum(slot.delay_ms is None for slot in slots)
    if missing:
        axes.set_title(
            f"grey: no path ({number(100 * missing / len(slots), 1)} % of the slots)", fontsize=8, loc="right"
        )
