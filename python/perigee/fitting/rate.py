# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Rate and queue of one direction, out of a probe that filled it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from perigee.fitting.delay import autocorrelation
from perigee.fitting.loss import Runs
from perigee.measuring.in_band import Kind, fit_kind, idle_flow_ms
from perigee.measuring.probe_steps import Step, capacity_bps
from perigee.statistics import special

BIN_S = 1.0
LEAST_BINS = 20
"""Shorter probes do not say how a rate moves."""
MOVES_FROM = 0.02
"""A rate whose standard deviation is a smaller share of it is constant."""
FLAT_WITHIN = 0.05
"""A queue whose delay still grows by more between the third and the last quarter was not full."""


@dataclass(frozen=True)
class Rate:
    """The capacity of a direction.

    Attributes:
        bps: mean rate.
        full: whether it was ever full; otherwise it carries as much, or more.
        step: the rate of the probe that says so.
        sd_bps: standard deviation of its seconds; 0: constant.
        least_bps: of its seconds.
        most_bps: of its seconds.
        memory_s: time in which the correlation falls to 1/e.
        bins: seconds that were looked at.
        standard_error_bps: of the mean, by its seconds, or its rounds where there are several.
        rounds: probes that filled it, of which the mean is taken.
    """

    bps: float
    full: bool
    step: Step
    sd_bps: float = 0.0
    least_bps: float = 0.0
    most_bps: float = 0.0
    memory_s: float = 0.0
    bins: int = 0
    standard_error_bps: float = 0.0
    rounds: int = 1

    @property
    def error_bps(self) -> float:
        """Half of the mean's 95 % interval."""
        units = self.rounds if self.rounds > 1 else self.bins
        return special.student_quantile(units - 1, 0.975) * self.standard_error_bps if units > 1 else 0.0


@dataclass(frozen=True)
class Queue:
    """The queue of a direction.

    Attributes:
        bytes_: its size.
        delay_ms: what it adds when it is full.
        full: whether it stopped to grow; otherwise it is larger.
        step: the rate of the probe that says so.
        kind: which packets it drops when it is full, of a probe in band.
        blocks: blocks of time that say so.
        error_ms: standard error of the delay, by these.
    """

    bytes_: float
    delay_ms: float
    full: bool
    step: Step
    kind: Kind | None = None
    blocks: int = 0
    error_ms: float = 0.0


def fit_rate(steps: list[Step], direction: str) -> Rate | None:
    """Fit the rate of a direction; none where nothing was measured there.

    What is lost on the air has used the link: the share that lower rates lose is added to what arrived.
    """
    own = [step for step in steps if step.direction == direction and step.received > 1]
    if not own:
        return None
    found = capacity_bps(own, direction)
    if found is None:
        best = max(own, key=lambda step: step.received_bps)
        return Rate(best.received_bps, False, best)
    carried, step = found
    lower = [other.loss for other in own if other.offered_bps < step.offered_bps]
    scale = 1 / (1 - min(lower, default=0.0))
    values = step.arrived_per(BIN_S) * scale
    if len(values) < LEAST_BINS:
        return Rate(carried * scale, True, step, bins=len(values))
    # A bin holds whole packets: its ends cut two of them anywhere.
    cut = step.packet * 8 / BIN_S / math.sqrt(6)
    sd = math.sqrt(max(float(np.var(values)) - cut**2, 0.0))
    rho = float(autocorrelation(values, 1, np.ones(len(values) - 1, bool))[0][0]) if sd else 0.0
    mean = carried * scale
    independent = len(values) * (1 - rho) / (1 + rho) if 0 < rho < 1 else len(values)
    error = sd / math.sqrt(max(independent, 1))
    if sd < MOVES_FROM * mean:
        return Rate(mean, True, step, bins=len(values), standard_error_bps=error)
    memory = -BIN_S / math.log(rho) if rho > _Z95 / math.sqrt(len(values)) else 0.0
    return Rate(mean, True, step, sd, float(values.min()), float(values.max()), memory, len(values), error)


def fit_rates(steps: list[Step], direction: str) -> Rate | None:
    """Fit the rate of a direction that several probes measured, each a log: the mean of those that filled it.

    How they differ is in its standard error; the rate varies within one as it does in the probe that is nearest.
    """
    logs: dict[str, list[Step]] = {}
    for step in steps:
        logs.setdefault(step.log, []).append(step)
    found = [rate for own in logs.values() if (rate := fit_rate(own, direction)) is not None and rate.full]
    if len(found) < _SEVERAL:
        return fit_rate(steps, direction)
    rates = np.array([rate.bps for rate in found])
    nearest = min(found, key=lambda rate: abs(rate.bps - rates.mean()))
    error = float(rates.std(ddof=1)) / math.sqrt(len(rates))
    return replace(nearest, bps=float(rates.mean()), standard_error_bps=error, rounds=len(found))


def fit_queue(steps: list[Step], rate: Rate) -> Queue | None:
    """Fit the queue of a direction that was full: the delay that it added, times the rate, and the packet itself.

    Packets pass a queue that drops from its front at the rate of the arrivals, delivered or dropped, and any other at
    the link's.
    """
    if not rate.full:
        return None
    step = rate.step
    mean = step.delays_ms["mean"]
    # Data sent in the last block may have been cut off.
    third, last = np.array_split(mean[:-1], 4)[2:]
    if not np.isfinite(last).any() or not np.isfinite(third).any():
        return None
    before, after = float(np.nanmedian(third)), float(np.nanmedian(last))
    delay_ms = max(after - idle_flow_ms(step, steps), 0.0)
    full = abs(after - before) <= FLAT_WITHIN * max(after, 1.0)
    kind = None if step.pings is None else fit_kind(steps, step.direction)
    passing_bps = step.sent_bps if kind is not None and kind.name == "drop-front" else rate.bps
    known = last[np.isfinite(last)]
    # The error of a median follows from the spread of the values.
    error_ms = _OF_MEDIAN * float(known.std()) / math.sqrt(len(known))
    size = delay_ms / 1000 * passing_bps / 8 + step.packet
    return Queue(size, delay_ms, full, step, kind, len(known), error_ms)


def runs_below(steps: list[Step], direction: str) -> Runs:
    """Return the losses in a row of the rates of a direction at which it was not full."""
    own = [step for step in steps if step.direction == direction]
    quiet = [step for step in own if not step.is_full(own)]
    counts: dict[int, int] = {}
    for step in quiet:
        for length, count in step.runs:
            counts[length] = counts.get(length, 0) + count
    return Runs(sum(step.received + step.lost for step in quiet), tuple(sorted(counts.items())))


def variation_below(steps: list[Step], direction: str) -> float | None:
    """Return the standard deviation of the one-way delay (ms) of a direction that is not full; none: not measured."""
    own = [step for step in steps if step.direction == direction]
    quiet = [step.delays_ms["mean"] for step in own if not step.is_full(own) and step.received]
    values = np.concatenate(quiet) if quiet else np.empty(0)
    values = values[np.isfinite(values)]
    return float(values.std()) if len(values) >= LEAST_BINS else None


def spreads_below(steps: list[Step], direction: str) -> tuple[npt.NDArray[np.float64], float]:
    """Return largest less least one-way delay (ms) of each block of a direction that is not full, and a block's length.

    Of the rate with most packets in a block, and of blocks in which all arrived; none without ten packets in each.
    """
    own = [step for step in steps if step.direction == direction]
    dense = [s for s in own if not s.is_full(own) and s.record["report"]["per_block"] >= _DENSE]
    if not dense:
        return np.empty(0), 0.0
    step = max(dense, key=lambda step: step.offered_bps)
    whole = step.lost_over_time == 0
    spreads = (step.delays_ms["most"] - step.delays_ms["least"])[whole]
    return (spreads if len(spreads) >= LEAST_BINS else np.empty(0)), step.interval_s


_DENSE = 10
_SEVERAL = 2
_OF_MEDIAN = math.sqrt(math.pi / 2)
"""Standard error of a median over that of a mean, of normal values."""
_Z95 = 1.96
