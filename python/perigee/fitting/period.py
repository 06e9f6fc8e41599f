# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The period of events, such as the handovers of a constellation that schedules its paths anew at fixed times.

The test is the H test (de Jager, Raubenheimer and Swanepoel 1989), made for pulsars: events folded by a period have
sums of their phases' harmonics; Z2(m) = 2/N sum over k to m of |sum exp(2 pi i k t f)|^2 and H = max Z2(m) - 4 m + 4.
Where nothing is periodic, P(H > h) = exp(-0.4 h) (de Jager and Büsching 2010), for each of the frequencies tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SIGNIFICANT = 0.001
LEAST_EVENTS = 20
"""With fewer, chance gives large values more often than its formula says."""
LEAST_PERIODS = 5
HARMONICS = 10
SHORTEST_S = 1.0
_FINER = 4
_MOST_PARTS = 12
_SHARE_OF_POWER = 0.25
_LEAST_POWER = 25.0
"""Where nothing repeats, a frequency has more with a chance of 4 in a million (chi squared with two degrees)."""
_MOST_BINS = 1 << 22


@dataclass(frozen=True)
class Period:
    """The period of events.

    Attributes:
        period_s: the period.
        phase_s: when the mean event of a period comes, from the series' start on.
        events: how many there were.
        p: how often chance gives as much, at any of the periods tried.
    """

    period_s: float
    phase_s: float
    events: int
    p: float


@dataclass(frozen=True)
class Window:
    """Where in its period something is lost.

    Attributes:
        start_s: begin of the window, from a period's start on.
        length_s: its length.
        loss: share that is lost in it.
        sent: packets that were sent in it.
    """

    start_s: float
    length_s: float
    loss: float
    sent: int


def find_period(events_s: Floats, length_s: float, step_s: float) -> Period | None:
    """Find the period of events; none where chance may explain them.

    Args:
        events_s: when each was, from the start on. Events that belong together are one.
        length_s: of the time in which they were looked for.
        step_s: exactness of the times; periods from ten of them on are found.
    """
    count = len(events_s)
    shortest = max(SHORTEST_S, 10 * step_s)
    if count < LEAST_EVENTS or length_s < LEAST_PERIODS * shortest:
        return None
    # Bins fine enough for the harmonics of the shortest period, or for what memory allows.
    step = max(shortest / (2 * HARMONICS), length_s * _FINER / _MOST_BINS)
    bins = np.bincount((events_s / step).astype(np.int64), minlength=math.ceil(length_s / step) + 1)
    size = 1 << math.ceil(math.log2(len(bins) * _FINER))
    power = np.abs(np.fft.rfft(bins.astype(float), size)) ** 2
    unit = 1 / (size * step)
    first = math.ceil(LEAST_PERIODS / length_s / unit)
    last = min(math.floor(1 / shortest / unit), (len(power) - 1) // 2)
    if last <= first:
        return None
    places = np.arange(first, last + 1)
    h = np.full(len(places), -math.inf)
    z = np.zeros(len(places))
    for m in range(1, HARMONICS + 1):
        here = np.minimum(places * m, len(power) - 1)
        z += np.where(places * m < len(power), 2 / count * power[here], 0.0)
        h = np.maximum(h, z - 4 * m + 4)
    frequency = _refined(events_s, float(places[int(np.argmax(h))]) * unit, unit)
    frequency = _fundamental(events_s, frequency, LEAST_PERIODS / length_s)
    p = min(1.0, len(places) * math.exp(-0.4 * _h(events_s, frequency)))
    if p >= SIGNIFICANT:
        return None
    phase = float(np.angle(np.sum(np.exp(2j * np.pi * events_s * frequency)))) / (2 * np.pi) % 1.0
    return Period(1 / frequency, phase / frequency, count, p)


def window_of(period_s: float, time_s: Floats, lost: npt.NDArray[np.bool_], step_s: float) -> Window:
    """Return the part of the period in which losses stand out.

    Args:
        period_s: the period.
        time_s: when each packet was sent.
        lost: whether it was lost.
        step_s: exactness.
    """
    bins = max(4, round(period_s / step_s))
    at = np.minimum((time_s % period_s / period_s * bins).astype(np.int64), bins - 1)
    sent = np.bincount(at, minlength=bins).astype(float)
    gone = np.bincount(at, weights=lost.astype(float), minlength=bins)
    share = gone / np.maximum(sent, 1)
    peak = int(np.argmax(share))
    over = share > max(0.5 * float(share[peak]), 3 * float(np.median(share)))
    first, last = peak, peak
    while last - first < bins - 1 and over[(first - 1) % bins]:
        first -= 1
    while last - first < bins - 1 and over[(last + 1) % bins]:
        last += 1
    inside = np.arange(first, last + 1) % bins
    width = period_s / bins
    in_all = float(sent[inside].sum())
    return Window(first % bins * width, (last - first + 1) * width, float(gone[inside].sum()) / in_all, int(in_all))


def steps_of(rtt_ms: Floats, interval_s: float) -> Floats:
    """Return when the level of round trips steps: differences of medians before and after that stand out of the noise.

    Round trips within a second before and after an instant are compared; the largest difference of each second around
    counts, where it is over six times the usual one.
    """
    half = max(3, round(1.0 / interval_s))
    if len(rtt_ms) < 4 * half:
        return np.empty(0)
    filled = rtt_ms.copy()
    lost = np.isnan(filled)
    filled[lost] = np.interp(np.flatnonzero(lost), np.flatnonzero(~lost), filled[~lost])
    medians = np.median(np.lib.stride_tricks.sliding_window_view(filled, half), axis=1)
    jumps = np.abs(medians[half:] - medians[:-half])
    usual = float(np.median(jumps))
    wide = np.lib.stride_tricks.sliding_window_view(np.pad(jumps, half), 2 * half + 1)
    peaks = np.flatnonzero((jumps >= wide.max(axis=1)) & (jumps > max(6 * usual, 0.5)))
    if len(peaks):
        # A flat top is one step.
        peaks = peaks[np.concatenate(([True], np.diff(peaks) > half))]
    return np.asarray((peaks + half) * interval_s, float)


def _h(events_s: Floats, frequency: float) -> float:
    angles = 2 * np.pi * np.outer(np.arange(1, HARMONICS + 1), events_s * frequency)
    power = np.cos(angles).sum(axis=1) ** 2 + np.sin(angles).sum(axis=1) ** 2
    z = np.cumsum(2 / len(events_s) * power)
    return float(np.max(z - 4 * np.arange(HARMONICS)))


def _fundamental(events_s: Floats, frequency: float, least: float) -> float:
    """Short events have all harmonics alike, and the test may have taken one: is there power at a part of it?"""
    power = _power(events_s, frequency)
    for part in range(_MOST_PARTS, 1, -1):
        lower = frequency / part
        if lower >= least and _power(events_s, lower) > max(_SHARE_OF_POWER * power, _LEAST_POWER):
            return lower
    return frequency


def _power(events_s: Floats, frequency: float) -> float:
    return float(2 / len(events_s) * abs(np.sum(np.exp(2j * np.pi * events_s * frequency))) ** 2)


def _refined(events_s: Floats, frequency: float, unit: float) -> float:
    around = frequency + np.linspace(-1.0, 1.0, 201) * unit
    return float(max(around, key=lambda tried: _h(events_s, float(tried))))
