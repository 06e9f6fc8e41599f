# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Parts of a recorded link with slots: its slots, bursts, outages, and the spikes of its delay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from perigee.errors import InputError
from perigee.fitting.recording import (
    DELAY_MS,
    OPPORTUNITY_KBIT,
    SLOT_MS,
    STEP_MS,
    Floats,
    Recording,
    autocorrelation,
)

QUIET_MS = (600, 200)
"""After the begin of a slot and before its end: what does not count as its inside."""
LEAST_OUTAGE_MS = 30
"""A shorter gap at the begin of a slot is one between bursts."""
LEAST_SPIKE_MS = 5.0
"""A delay is raised if it is this far above the slot's median, and four standard deviations of the jitter."""


@dataclass(frozen=True)
class LogNormal:
    """A log-normal distribution: that of the mean and standard deviation of the logarithms.

    Attributes:
        median: its median.
        sigma: its standard deviation of the logarithm.
        most: the largest value.
    """

    median: float
    sigma: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float] | Floats) -> LogNormal:
        """Return that of some positive values."""
        logs = np.log(np.asarray(values, float))
        return cls(float(np.exp(logs.mean())), float(logs.std(ddof=1)), float(np.max(values)))


@dataclass(frozen=True)
class Grants:
    """Bursts of the rate: one per frame.

    Attributes:
        every_ms: length of a frame.
        burst_ms: length of a burst.
    """

    every_ms: float
    burst_ms: float

    def sd(self, over_ms: float) -> float:
        """Return the standard deviation of a constant rate in these bursts over a length of time, as a share of it."""
        places = np.linspace(0, self.every_ms - self.burst_ms, _GRID)
        since = np.linspace(0, self.every_ms, _GRID, endpoint=False)[:, None]
        mean, variance = np.zeros(_GRID), np.zeros(_GRID)
        for frame in range(math.ceil(over_ms / self.every_ms) + 1):
            begin = frame * self.every_ms + places
            end = np.minimum(begin + self.burst_ms, since + over_ms)
            inside = np.clip(end - np.maximum(begin, since), 0, None)
            mean += inside.mean(axis=1)
            variance += inside.var(axis=1)
        return float(np.sqrt(variance.mean() + mean.var()) / mean.mean())


@dataclass(frozen=True)
class Spikes:
    """The spikes of the delay after the begin of slots.

    Attributes:
        share: share of the slots that have one.
        after_ms: from the slot's begin to that of the spike.
        length_ms: its length.
        height_ms: its height at the peak.
        begin: share of the height at its begin.
        peak: share of its length before the peak.
        outage_correlation: correlation of the logarithms of the heights with those of the slots' outages.
    """

    share: float
    after_ms: LogNormal
    length_ms: LogNormal
    height_ms: LogNormal
    begin: float
    peak: float
    outage_correlation: float

    @property
    def follow_outages(self) -> bool:
        """Whether long outages have high spikes."""
        return self.outage_correlation > _FOLLOWS


@dataclass(frozen=True)
class Slotted:
    """A recorded link with slots.

    Attributes:
        slots: how many the recording has, with those that it begins and ends in.
        first_ms: when the first of them begins that it has from its begin on.
        rate_mbps: mean rate over slots.
        rate_sd: standard deviation of the rates of slots, as a share of their mean.
        rate_correlation: correlation of the rates of neighbouring slots.
        ripple_measured: standard deviation of steps of 20 ms within slots, as a share of the slot's rate.
        ripple: what is left of it without that of the bursts.
        grants: bursts; none if the rate is continuous.
        outage_ms: time without capacity at the begin of slots; none if most slots have none.
        rise_ms: time over which the rate then rises.
        delay_ms: mean delay over slots.
        delay_sd_ms: standard deviation of the delays of slots.
        delay_correlation: correlation of the delays of neighbouring slots.
        least_delay_ms: the shortest delay.
        jitter_sd_ms: standard deviation of the delay within slots.
        jitter_correlation: its autocorrelation after 10 ms.
        spikes: longer delays after the begin of slots; none if most slots have none.
    """

    slots: int
    first_ms: int
    rate_mbps: float
    rate_sd: float
    rate_correlation: float
    ripple_measured: float
    ripple: float
    grants: Grants | None
    outage_ms: LogNormal | None
    rise_ms: float
    delay_ms: float
    delay_sd_ms: float
    delay_correlation: float
    least_delay_ms: float
    jitter_sd_ms: float
    jitter_correlation: float
    spikes: Spikes | None

    @property
    def jitter_memory_ms(self) -> float:
        """Time after which the autocorrelation of the jitter is 1/e; zero if it does not differ from none."""
        return -DELAY_MS / math.log(self.jitter_correlation) if self.jitter_correlation > _NO_CORRELATION else 0.0

    def memory_s(self, correlation: float) -> float:
        """Return the same from slot to slot; zero if the number of slots does not show that it differs from none."""
        shown = correlation > 2 / math.sqrt(self.slots) and self.slots >= _SLOTS_FOR_MEMORY
        return -SLOT_MS / 1000 / math.log(correlation) if shown else 0.0


def fit_slots(recording: Recording) -> Slotted:
    """Estimate what a recorded link with slots is made of; `docs/models/fit.md` has the estimators.

    Raises:
        InputError: it has a slot in which nothing can be sent.
    """
    outages = _outages(recording)
    begins = [begin for begin, _ in outages]
    length = len(recording.opportunities)
    edges = [begins[0] - SLOT_MS, *begins, begins[-1] + SLOT_MS]
    inside = [
        (max(a, -QUIET_MS[0]) + QUIET_MS[0], min(b, length + QUIET_MS[1]) - QUIET_MS[1]) for a, b in pairwise(edges)
    ]
    inside = [(a // STEP_MS * STEP_MS, b // STEP_MS * STEP_MS) for a, b in inside if b - a >= SLOT_MS / 4]
    rates = [recording.steps_mbps[a // STEP_MS : b // STEP_MS] for a, b in inside]
    delays = [recording.delay_ms[a // DELAY_MS : b // DELAY_MS] for a, b in inside]
    for (begin, end), part in zip(inside, rates, strict=True):
        if not part.any():
            raise InputError(
                f"{recording.bw}: nothing can be sent from {begin / 1000:g} to {end / 1000:g} s; leave out the time "
                "in which the link was down"
            )
    of_rates, of_delays = (np.array([part.mean() for part in parts]) for parts in (rates, delays))
    ripple = float(np.concatenate([part / part.mean() - 1 for part in rates]).std())
    jitter = np.concatenate([part - part.mean() for part in delays])
    grants = _grants([recording.opportunities[a:b] > 0 for a, b in inside])
    # Half a gap between bursts belongs to either side of an outage.
    between = 0.0 if grants is None else grants.every_ms - grants.burst_ms
    gaps = [gap - between for _, gap in outages if gap >= LEAST_OUTAGE_MS]
    has_outages = 2 * len(gaps) > len(outages)
    return Slotted(
        slots=len(inside),
        first_ms=begins[0],
        rate_mbps=float(of_rates.mean()),
        rate_sd=float(of_rates.std(ddof=1) / of_rates.mean()),
        rate_correlation=autocorrelation(of_rates, 1),
        ripple_measured=ripple,
        ripple=ripple if grants is None else _without(ripple, grants),
        grants=grants,
        outage_ms=LogNormal.of(gaps) if has_outages else None,
        rise_ms=_rise(recording, outages, float(of_rates.mean())) if has_outages else 0.0,
        delay_ms=float(of_delays.mean()),
        delay_sd_ms=float(of_delays.std(ddof=1)),
        delay_correlation=autocorrelation(of_delays, 1),
        least_delay_ms=float(recording.delay_ms.min()),
        jitter_sd_ms=float(jitter.std()),
        jitter_correlation=autocorrelation(jitter, 1),
        spikes=_spikes(recording, [(begin, gap - between) for begin, gap in outages], float(jitter.std())),
    )


def _outages(recording: Recording) -> list[tuple[int, int]]:
    """Return the begin (ms) of each slot, and the longest gap without an opportunity around it (ms).

    All slots begin at the same place, that of the median gap.
    """
    first = recording.first_step * STEP_MS
    found = []
    for about in range(first % SLOT_MS, len(recording.opportunities) - _LEAST_PART_MS, SLOT_MS):
        low, high = max(about - _AROUND_MS[0], 0), min(about + _AROUND_MS[1], len(recording.opportunities))
        begin, gap = _longest_gap(recording.opportunities[low:high] > 0)
        found.append((about, low + begin, gap))
    off = [begin - about for about, begin, gap in found if gap >= LEAST_OUTAGE_MS]
    shift = round(float(np.median(off))) if off else 0
    return [(about + shift, gap) for about, _, gap in found]


def _longest_gap(sends: npt.NDArray[np.bool_]) -> tuple[int, int]:
    at = np.flatnonzero(np.concatenate(([True], sends, [True])))
    gaps = np.diff(at) - 1
    longest = int(gaps.argmax())
    return int(at[longest]), int(gaps[longest])


def _rise(recording: Recording, outages: Sequence[tuple[int, int]], mean_mbps: float) -> float:
    """Return the time of a rise in a straight line: half of what it would carry at the mean rate is lacking."""
    lacking = []
    for begin, gap in outages:
        part = recording.opportunities[begin + gap : begin + gap + QUIET_MS[0]]
        lacking.append(len(part) - part.sum() * OPPORTUNITY_KBIT / mean_mbps)
    return max(2 * float(np.mean(lacking)), 0.0)


def _grants(sends: Sequence[npt.NDArray[np.bool_]]) -> Grants | None:
    """Return the bursts of frames as often as those of the recording, with the mean wait of a lone packet on it.

    The wait for a burst at a uniform place in each frame is (every - burst)^2 x 7/12 / every.
    """
    begins = sum(int((part[1:] & ~part[:-1]).sum()) for part in sends)
    whole = sum(len(part) for part in sends)
    if begins * _LONGEST_FRAME_MS < whole:
        return None
    every = whole / begins
    wait = float(np.mean(np.concatenate([_waits(part) for part in sends])))
    if wait < _LEAST_WAIT_MS:
        return None
    return Grants(every, max(every - math.sqrt(wait * every * 12 / 7), every / 100))


def _waits(sends: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the milliseconds from each to the next in which something can be sent."""
    count = len(sends)
    upcoming = np.where(sends, np.arange(count), count)
    upcoming = np.minimum.accumulate(upcoming[::-1])[::-1]
    return (upcoming - np.arange(count))[upcoming < count]


def _without(ripple: float, grants: Grants) -> float:
    """Return the ripple of steps whose bursts make this one.

    A frame has the rate of the step in which it begins, so steps of the recording mix two of them at their edges.
    """
    part = grants.every_ms / STEP_MS
    mixed = 1 - part + 2 * part**2 / 3
    return math.sqrt(max(ripple**2 - grants.sd(STEP_MS) ** 2, 0.0) / mixed)


def _spikes(recording: Recording, outages: Sequence[tuple[int, float]], jitter_sd_ms: float) -> Spikes | None:
    found: list[tuple[float, Floats]] = []
    gaps = []
    for begin, gap in outages:
        # The first step within the slot; another slot has another delay.
        step = -(-begin // DELAY_MS)
        usual = np.median(recording.delay_ms[step + 50 : step + 300])
        above = recording.delay_ms[step : step + _SPIKE_MS // DELAY_MS] - usual
        raised = np.flatnonzero(above > max(LEAST_SPIKE_MS, _BEYOND_JITTER * jitter_sd_ms))
        if len(raised):
            # The delay rose within the step before the first that is raised.
            since = float((step + raised[0] - 0.5) * DELAY_MS - begin)
            found.append((max(since, 1.0), above[raised[0] : raised[-1] + 1]))
            gaps.append(max(gap, 1.0))
    if 2 * len(found) <= len(outages) or len(found) < _LEAST_SPIKES:
        return None
    heights = np.array([above.max() for _, above in found])
    lengths = LogNormal.of([len(above) * float(DELAY_MS) for _, above in found])
    after = LogNormal.of([since for since, _ in found])
    follows = _correlation(np.log(heights), np.log(gaps))
    # The peak of spikes that follow outages is at the end of the outage, where the packets leave that have waited.
    tops = [(LogNormal.of(gaps).median - after.median) / lengths.median] if follows > _FOLLOWS else []
    tops = tops or [(above.argmax() + 0.5) / len(above) for _, above in found]
    return Spikes(
        share=len(found) / len(outages),
        after_ms=after,
        length_ms=lengths,
        height_ms=LogNormal.of(heights),
        begin=float(np.mean([above[0] / above.max() for _, above in found])),
        peak=min(max(float(np.mean(tops)), 0.0), 1.0),
        outage_correlation=follows,
    )


def _correlation(one: Floats, other: Floats) -> float:
    return float(np.corrcoef(one, other)[0, 1]) if one.std() and other.std() else 0.0


_AROUND_MS = (100, 300)
_BEYOND_JITTER = 4
_FOLLOWS = 0.7
_GRID = 200
_LEAST_PART_MS = 3_500
_LEAST_SPIKES = 3
_LEAST_WAIT_MS = 0.25
_LONGEST_FRAME_MS = 20
_NO_CORRELATION = 0.05
_SLOTS_FOR_MEMORY = 30
_SPIKE_MS = 400
