# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Intervals of what a profile is fitted to: by resampling pings in blocks, and by the seconds or rounds of a probe."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perigee.errors import InputError
from perigee.fitting.captured import Ceiling
from perigee.fitting.delay import Delay, fit_delay
from perigee.fitting.fit import Measured, transfer_of_rate
from perigee.fitting.loss import interval_of, runs_of
from perigee.fitting.rate import Queue, Rate, fit_queue, fit_rates
from perigee.fitting.series import Pings
from perigee.numbers import number
from perigee.statistics import special

LEVEL = 0.9
"""Level of the intervals where none is asked for."""
RESAMPLES = 200
"""Resamples of the pings."""
LEAST_RESAMPLES = 25
MOST_DRAWN = 4_000_000
"""Pings in all resamples together: a day of pings each 200 ms has fewer resamples."""
LEAST_BLOCKS = 20
"""Fewer stretches that do not hang together say nothing about how an estimate scatters."""
LEAST_KEPT = 0.5
"""Share of the resamples that must have the same kind of delay."""
MEMORIES = 5
"""Pings this many memories apart are taken for independent."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A parameter of a link with its interval.

    Attributes:
        name: which: `down.rate`, `delay body width` and so on.
        unit: its unit.
        value: the estimate.
        low: lower end; none: not known from below.
        high: upper end; none: not known from above.
        why: what it rests on, or why an end is not known.
    """

    name: str
    unit: str
    value: float
    low: float | None
    high: float | None
    why: str

    @property
    def sentence(self) -> str:
        """The interval in words."""
        ends = [None if end is None else number(end, 3) for end in (self.low, self.high)]
        match ends:
            case [None, None]:
                said = "not known"
            case [None, high]:
                said = f"{high} or less"
            case [low, None]:
                said = f"{low} or more"
            case [low, high]:
                said = f"{low} to {high}"
        return f"{self.name}: {said} {self.unit} ({self.why})"


def intervals(measured: Measured, level: float = LEVEL) -> list[Interval]:
    """Return the intervals of the parameters that were measured.

    Raises:
        InputError: the level is out of range.
    """
    if not 0.5 <= level <= 0.99:
        raise InputError(f"--level {level:g}: must be from 0.5 to 0.99")
    found = [] if measured.pings is None else list(of_pings(measured.pings, level))
    for way, given in (("down", measured.down_bps), ("up", measured.up_bps)):
        if given is None:
            found += _of_probe(measured, way, level)
    return found


def of_pings(pings: Pings, level: float, seed: int = 1, resamples: int = RESAMPLES) -> Iterator[Interval]:
    """Yield the intervals of the delay and of the loss of pings.

    Stretches of pings are drawn again with replacement, each as long as they hang together (moving blocks, Künsch
    1989), and everything is fitted to each such series. Median and spread of the body are of all of them, parameters of
    a kind of delay of those that have this kind: pings that do not tell kinds apart leave them unknown.
    """
    delay = fit_delay(pings.rtt_ms, pings.interval_s, pings.follows)
    together_s = MEMORIES * max(delay.memory_s, delay.every_s)
    count = len(pings.rtt_ms)
    length = max(math.ceil(together_s / pings.interval_s), math.ceil(count ** (1 / 3)))
    if count < LEAST_BLOCKS * length:
        why = f"{count} pings are too few: {LEAST_BLOCKS} stretches of {length} would say how they scatter"
        yield from (Interval(name, unit, of(delay), None, None, why) for name, unit, of in _parts(delay))
        yield from _bounds(pings, delay, [], level)
        return
    # A log of days has fewer, and takes seconds, not minutes.
    resamples = max(min(resamples, MOST_DRAWN // count), LEAST_RESAMPLES)
    generator = np.random.default_rng(seed)
    draws: list[Delay] = []
    lost: list[float] = []
    for _ in range(resamples):
        rtt_ms, follows = _drawn(pings, length, generator)
        lost.append(float(np.isnan(rtt_ms).mean()))
        draws.append(fit_delay(rtt_ms, pings.interval_s, follows))
    ends = ((1 - level) / 2, (1 + level) / 2)
    alike = [drawn for drawn in draws if drawn.body == delay.body and _tail(drawn) == _tail(delay)]
    for name, unit, of in _parts(delay):
        own = draws if name in _OF_ANY else alike
        if len(own) < LEAST_KEPT * resamples:
            why = f"only {len(own)} of {resamples} resamples have a {delay.body} body and {_tail(delay)}"
            yield Interval(name, unit, of(delay), None, None, why)
            continue
        low, high = np.quantile([of(drawn) for drawn in own], ends)
        yield Interval(name, unit, of(delay), float(low), float(high), f"{len(own)} resamples of {count} pings")
    yield from _bounds(pings, delay, lost, level)


def _bounds(pings: Pings, delay: Delay, lost: list[float], level: float) -> Iterator[Interval]:
    """Yield the intervals that any number of pings has."""
    yield Interval(
        "least round trip", "ms", delay.least_ms, None, delay.least_ms,
        "the least of all bounds it from above; nothing bounds it from below",
    )  # fmt: skip
    if pings.has_losses:
        yield _loss(pings, lost, level)


def _loss(pings: Pings, drawn: list[float], level: float) -> Interval:
    """Return the interval of the share of lost pings: of independent ones where that is wider than the resamples'."""
    runs = runs_of(pings.lost, pings.follows)
    exact = interval_of(runs.lost, runs.sent, level)
    low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2)) if drawn else exact
    share = 100 * runs.share
    if not runs.lost:
        return Interval("loss of pings", "%", 0.0, 0.0, 100 * exact[1], f"none of {runs.sent} was lost")
    bounds = min(float(low), exact[0]), max(float(high), exact[1])
    return Interval("loss of pings", "%", share, 100 * bounds[0], 100 * bounds[1], f"{runs.lost} of {runs.sent} lost")


def _drawn(pings: Pings, length: int, generator: np.random.Generator) -> tuple[Floats, npt.NDArray[np.bool_]]:
    count = len(pings.rtt_ms)
    begins = generator.integers(0, count - length + 1, math.ceil(count / length))
    places = (begins[:, None] + np.arange(length)).ravel()[:count]
    follows = np.concatenate(([False], pings.follows))[places]
    follows[::length] = False
    return pings.rtt_ms[places], follows[1:]


def _parts(delay: Delay) -> list[tuple[str, str, Callable[[Delay], float]]]:
    """Return the parameters that a delay has: name, unit, and how to read it."""
    parts: list[tuple[str, str, Callable[[Delay], float]]] = [
        (_OF_ANY[0], "ms", lambda one: one.quantile_ms(0.5)),
        (_OF_ANY[1], "ms", lambda one: (one.quantile_ms(_ABOVE) - one.quantile_ms(1 - _ABOVE)) / 2),
    ]
    if delay.body != "constant":
        parts += [
            (f"delay body base, {delay.body}", "ms", lambda one: one.base_ms),
            (f"delay body width, {delay.body}", "ms", lambda one: one.width_ms),
        ]
    if delay.body == "log-normal":
        parts.append(("delay body sigma", "", lambda one: one.sigma))
    if delay.memory_s:
        parts.append(("delay memory", "s", lambda one: one.memory_s))
    elif delay.resolved:
        parts.append(("delay holds", "s", lambda one: one.every_s))
    if delay.tail is not None:
        parts += [
            ("delay tail share", "%", lambda one: 100 * one.tail.share if one.tail else math.nan),
            ("delay tail scale", "ms", lambda one: one.tail.scale_ms if one.tail else math.nan),
            ("delay tail shape", "", lambda one: one.tail.shape if one.tail else math.nan),
        ]
    return parts


def _tail(delay: Delay) -> str:
    return "no tail" if delay.tail is None else f"a {delay.tail.kind} tail"


def _of_probe(measured: Measured, way: str, level: float) -> Iterator[Interval]:
    rate = fit_rates(measured.steps, way)
    seen = transfer_of_rate(way, rate, measured)
    if seen is not None:
        yield _of_transfer(way, seen, level)
    if rate is None or seen is not None:
        return
    mbps = rate.bps / 1e6
    if not rate.full:
        yield Interval(f"{way}.rate", "Mbit/s", mbps, mbps, None, "the probe never filled the link")
        return
    yield _rate(way, rate, level)
    queue = fit_queue(measured.steps, rate)
    if queue is not None:
        yield _queue(way, queue, rate, level)


def _of_transfer(way: str, seen: Ceiling, level: float) -> Interval:
    mbps, within = seen.bps / 1e6, _CAPTURED_WITHIN * seen.bps / 1e6
    name = f"{way}.rate"
    if seen.is_written:
        return Interval(name, "Mbit/s", mbps, None, None, "a sender wrote this, ahead of the link")
    if not seen.is_flood:
        return Interval(name, "Mbit/s", mbps, mbps - within, None, "a transfer carried this, to 1 %")
    if not seen.bins:
        return Interval(name, "Mbit/s", mbps, None, None, "a flood of few seconds does not say how it scatters")
    half = special.student_quantile(seen.bins - 1, (1 + level) / 2) * seen.standard_error_bps / 1e6 + within
    return Interval(name, "Mbit/s", mbps, mbps - half, mbps + half, f"{seen.bins} seconds of a flood, to 1 %")


def _rate(way: str, rate: Rate, level: float) -> Interval:
    step = rate.step
    length_s = (step.record["report"]["last_ns"] - step.record["report"]["first_ns"]) / 1e9
    # Arrivals are counted in whole packets: an error that is anywhere within one is within this share of it.
    packet = level * step.packet * 8 / max(length_s, 1e-9) / 1e6
    units, unit = (rate.rounds, "round") if rate.rounds > 1 else (rate.bins, "second")
    mbps = rate.bps / 1e6
    if units < _LEAST_UNITS:
        return Interval(f"{way}.rate", "Mbit/s", mbps, None, None, f"{units} {unit}s do not say how it scatters")
    half = special.student_quantile(units - 1, (1 + level) / 2) * rate.standard_error_bps / 1e6 + packet
    return Interval(f"{way}.rate", "Mbit/s", mbps, mbps - half, mbps + half, f"{units} {unit}s")


def _queue(way: str, queue: Queue, rate: Rate, level: float) -> Interval:
    size, packet = queue.bytes_ / 1e3, queue.step.packet / 1e3
    if not queue.full:
        return Interval(f"{way}.queue", "kB", size, size - packet, None, "the delay still grew")
    z = special.student_quantile(max(queue.blocks - 1, 1), (1 + level) / 2)
    half = z * queue.error_ms / 1000 * rate.bps / 8 / 1e3 + level * packet
    return Interval(f"{way}.queue", "kB", size, size - half, size + half, f"{queue.blocks} blocks of a full queue")


_LEAST_UNITS = 3
_CAPTURED_WITHIN = 0.01
"""A capture shows a rate to this: the edges of its seconds cut packets, and acknowledgements come in bunches."""
_OF_ANY = ("delay body median", "delay body spread")
"""Parameters that each kind of body has; the spread is half of what lies between 16 and 84 %."""
_ABOVE = 0.84
