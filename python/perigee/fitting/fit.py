# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Which measurement says what about which direction, and what is taken where none does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from perigee.analysis.log import Log
from perigee.engines.live.under_load import UnderLoad
from perigee.errors import InputError
from perigee.fitting import profile
from perigee.fitting.captured import Ceiling
from perigee.fitting.delay import Delay, fit_delay, with_spreads
from perigee.fitting.loss import (
    Loss,
    Runs,
    fit_outages,
    runs_of,
)
from perigee.fitting.period import Period, Window, find_period, steps_of, window_of
from perigee.fitting.profile import Fitted, Value, Way
from perigee.fitting.rate import (
    LEAST_BINS,
    Queue,
    Rate,
    fit_queue,
    fit_rates,
    spreads_below,
    variation_below,
)
from perigee.fitting.series import LEAST_ANSWERS, Pings
from perigee.fitting.written_losses import bunched_notes, losses
from perigee.measuring.in_band import Difference, waits
from perigee.measuring.probe_steps import Step
from perigee.numbers import number

DEFAULT_BPS = 100_000_000


@dataclass(frozen=True)
class Measured:
    """The measurements available.

    Attributes:
        pings: a ping log.
        steps: the rates of a probe.
        captured: transfers in captures, the fastest first.
        loads: measurements of latency under load, by their folder's name.
        down_bps: rate that is known from elsewhere.
        up_bps: likewise.
        down_delay_ms: one-way delay towards the user, where it is known.
        one_way: what logs say of it, which nobody has checked.
        lost: datagrams that logs counted as lost in each direction; empty: none of them tells the direction.
    """

    pings: Pings | None = None
    steps: list[Step] = field(default_factory=list)
    captured: list[Ceiling] = field(default_factory=list)
    loads: dict[str, UnderLoad] = field(default_factory=dict)
    down_bps: int | None = None
    up_bps: int | None = None
    down_delay_ms: float | None = None
    one_way: tuple[str, ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Idle:
    """Results of pings: delay, losses that repeat, and the others."""

    delay: Delay
    period: Period | None
    window: Window | None
    losses: list[Loss]
    runs: Runs


def fit(name: str, measured: Measured) -> Fitted:
    """Fit a profile to what was measured.

    Raises:
        InputError: nothing was, or it says too little.
    """
    if measured.pings is None and not measured.steps and not measured.captured:
        raise InputError("nothing to fit; give logs and captures (docs/reference/files.md), such as that of `ping`")
    if measured.steps and not any(step.received for step in measured.steps):
        raise InputError(f"{_logs(measured.steps)}: no packet of it arrived; probe with smaller packets (--packet)")
    idle = None if measured.pings is None else _idle(measured.pings)
    rates = {way: fit_rates(measured.steps, way) for way in ("down", "up")}
    jittery = _jittery(measured.steps)
    if idle is not None:
        idle = replace(idle, delay=with_spreads(idle.delay, *spreads_below(measured.steps, jittery[0])))
    ways = {}
    for way in ("down", "up"):
        rate = rates[way]
        queue = None if rate is None else fit_queue(measured.steps, rate)
        ways[way] = Way(
            rate=_rate(way, rate, measured),
            delay=_delay(way, idle, jittery, measured),
            queue=_queue(way, queue, rate, measured),
            loss=losses(way, idle, measured),
            burst=_burst(way, rate, measured),
        )
    notes = () if measured.pings is None else measured.pings.notes
    sources = [] if measured.pings is None else [measured.pings.described]
    if measured.steps:
        sources.append(f"{_logs(measured.steps)}: {len(measured.steps)} rates probed")
    sources += [f"{file}: transfers" for file in dict.fromkeys(ceiling.file for ceiling in measured.captured)]
    sources += [f"{folder}: latency under load" for folder in measured.loads]
    notes += tuple(dict.fromkeys(f"{seen.file}: {note}" for seen in measured.captured for note in seen.notes))
    notes = (
        *notes,
        *bunched_notes(idle, measured),
        *_period_notes(idle, measured.captured),
        *_in_band_notes(measured),
    )
    return Fitted(name, tuple(sources), ways["down"], ways["up"], notes, tuple(_unknown(measured)))


def one_way(files: Mapping[Path, Sequence[Log]]) -> tuple[str, ...]:
    """Return what logs say of the delay of each direction, in words."""
    found = []
    for path, logs in files.items():
        delays = {way.upload: way.delay_ms for log in logs for way in log.one_way if way.delay_ms is not None}
        if len(delays) == _BOTH:
            found.append(f"{path.name} says {delays[False]:.4g} ms down and {delays[True]:.4g} ms up")
    return tuple(found)


def lost_one_way(logs: Iterable[Sequence[Log]]) -> dict[str, int]:
    """Return how many datagrams were lost in each direction, by the logs that tell both; empty: none does."""
    found: dict[str, int] = {}
    for log in (log for own in logs for log in own):
        lost = {"up" if way.upload else "down": way.lost for way in log.one_way if way.lost is not None}
        if len(lost) == _BOTH:
            found = {way: found.get(way, 0) + count for way, count in lost.items()}
    return found


def _unknown(measured: Measured) -> Iterator[str]:
    """Yield parts of the link that the measurements cannot tell, with the reason."""
    pings = measured.pings
    if pings is None:
        yield "how the delay varies, and losses of an idle link: there are no pings"
    else:
        yield from pings.unknown
        if pings.is_short and not pings.is_loaded:
            count = int(np.isfinite(pings.rtt_ms).sum())
            yield f"how the delay varies: {count} round trips are too few, {LEAST_ANSWERS} tell; its least is taken"
    if measured.down_delay_ms is None:
        told = "".join(f"; {said}, by clocks that nobody has compared" for said in measured.one_way)
        yield f"how the round trip divides between the directions: give --down-delay{told}"


def _idle(pings: Pings) -> Idle:
    lost, follows, time_s = pings.lost, pings.follows, pings.time_s
    if pings.is_short:
        known = pings.rtt_ms[np.isfinite(pings.rtt_ms)]
        least = float(known.min())
        delay = Delay(least, least, "constant", pings.interval_s, pings.interval_s, len(known))
        runs = runs_of(lost, follows)
        return Idle(delay, None, None, fit_outages(runs, pings.interval_s), runs)
    delay = fit_delay(pings.rtt_ms, pings.interval_s, follows)
    begins = lost & ~np.concatenate(([False], lost[:-1]))
    length_s = float(time_s[-1])
    period = find_period(time_s[begins], length_s, pings.interval_s)
    window = None
    rest, rest_follows = lost, follows
    if period is not None:
        window = window_of(period.period_s, time_s, lost, pings.interval_s)
        into = (time_s - window.start_s) % period.period_s
        # A little around it, since its edges are known to a ping's interval.
        outside = (into > window.length_s + pings.interval_s) & (into < period.period_s - pings.interval_s)
        rest, rest_follows = lost[outside], np.diff(pings.place[outside]) == 1
    steps = find_period(steps_of(pings.rtt_ms, pings.interval_s), length_s, pings.interval_s)
    if steps is not None and delay.resolved and abs(delay.every_s / steps.period_s - 1) < _SAME_PERIOD:
        delay = replace(delay, every_s=steps.period_s)
    runs = runs_of(rest, rest_follows)
    return Idle(delay, period or steps, window, fit_outages(runs, pings.interval_s), runs)


def _jittery(steps: list[Step]) -> tuple[str, str]:
    """Return which direction's delay moves, and how that is known."""
    down, up = variation_below(steps, "down"), variation_below(steps, "up")
    if down is None or up is None:
        return "up", "which direction moves is not known (no probe of both): all of it is put up"
    way = "down" if down > up else "up"
    return way, (
        f"probed one-way delays vary by {number(down, 2)} ms down and {number(up, 2)} ms up (standard deviation): "
        f"all of it is put {way}"
    )


def _rate(way: str, rate: Rate | None, measured: Measured) -> Value:
    given = measured.down_bps if way == "down" else measured.up_bps
    if given is not None:
        return Value(profile.rate(given), (f"Given with --{way}.",))
    seen = transfer_of_rate(way, rate, measured)
    if seen is not None and seen.is_flood:
        what = (
            f"{seen.file}, {seen.flow}: {number(seen.bps / 1e6, 3)} Mbit/s arrived, headers of IP and UDP counted, "
            "of datagrams that were sent faster than the link carries."
        )
        return Value(profile.rate(seen.bps), (what,))
    if seen is not None:
        what = (
            f"{seen.file}, {seen.flow}: {seen.how} in a transfer of {number(seen.seconds, 0)} s, "
            f"headers of IP and {'UDP' if seen.is_udp else 'TCP'} counted; "
            + (
                "these are what its sender wrote, ahead of the link by its buffer: the link may carry less, or more."
                if seen.is_written
                else f"the link carries {number(seen.bps / 1e6, 0)} Mbit/s or more."
                if seen.is_udp
                else "the link carries this or more."
            )
        )
        return Value(profile.rate(seen.bps), (what,))
    if rate is None:
        return Value(
            profile.rate(DEFAULT_BPS),
            (f"Default: no probe or captured transfer went {way}; give one, or the rate with --{way}.",),
            measured=False,
        )
    step, log = rate.step, rate.step.log
    length_s = (step.record["sent"]["last_ns"] - step.record["sent"]["first_ns"]) / 1e9
    if rate.rounds > 1:
        what = (
            f"Mean of {rate.rounds} probes that filled the link (95 % interval +-{number(rate.error_bps / 1e6, 3)} "
            f"Mbit/s by how they differ); nearest is {log}."
        )
        return Value(_moving(rate), (what,))
    sent = (
        f"{log}: {number(step.sent_bps / 1e6, 3)} Mbit/s sent {way} for {number(length_s, 0)} s, "
        f"{step.received} packets arrived"
    )
    if not rate.full:
        what = f"{sent}: all of them that a lower rate would have; the link was never full, so it carries this or more."
        return Value(profile.rate(rate.bps), (what,))
    if not rate.sd_bps:
        how = (
            f"its {rate.bins} seconds vary by less than 2 %"
            if rate.bins >= LEAST_BINS
            else "too short to say how it moves"
        )
        within = f" (95 % interval of the mean: +-{number(rate.error_bps / 1e6, 3)})" if rate.error_bps else ""
        return Value(profile.rate(rate.bps), (f"{sent} at {number(rate.bps / 1e6, 3)} Mbit/s{within}; {how}.",))
    what = (
        f"{sent}: mean of {rate.bins} seconds (95 % interval +-{number(rate.error_bps / 1e6, 3)} Mbit/s), standard "
        "deviation without that of cutting at packets, least and most of them."
    )
    return Value(_moving(rate), (what,))


def _burst(way: str, rate: Rate | None, measured: Measured) -> Value | None:
    """Return the token bucket of a direction whose rate is that of a flood; none where it has none, or nobody knows."""
    flood = _captured(way, measured, floods=True)
    given = measured.down_bps if way == "down" else measured.up_bps
    if flood is None or not flood.burst_bytes or given is not None or (rate is not None and rate.full):
        return None
    what = (
        f"{flood.file}, {flood.flow}: so much more than in later seconds arrived in the first one, as a policer or a "
        "token bucket lets it pass."
    )
    return Value(profile.size(flood.burst_bytes), (what,))


def _moving(rate: Rate) -> str:
    if not rate.sd_bps:
        return profile.rate(rate.bps)
    memory = f", memory = {profile.time(rate.memory_s * 1000)}" if rate.memory_s else ""
    return (
        f'{{ kind = "fluctuating", mean = {profile.rate(rate.bps)}, sd = {profile.rate(rate.sd_bps)}, '
        f"min = {profile.rate(min(rate.least_bps, rate.bps))}, max = {profile.rate(max(rate.most_bps, rate.bps))}, "
        f'every = "1 s"{memory} }}'
    )


def _queue(way: str, queue: Queue | None, rate: Rate | None, measured: Measured) -> Value | None:
    seen, flood = _captured(way, measured), _captured(way, measured, floods=True)
    known_bps = None if flood is None else flood.bps
    if queue is None and seen is not None and seen.grown_ms is not None and (size := seen.queue_bytes(known_bps)):
        what = (
            f"{seen.file}, {seen.flow}: 99 % of the round trips are within {number(seen.grown_ms, 1)} ms of the least; "
            "that much of the rate waited, and the link holds this or more."
        )
        return Value(profile.size(max(size, _LEAST_QUEUE)), (what,))
    if queue is None:
        why = (
            "nothing filled it" if rate is not None or seen is not None else f"no probe or captured transfer went {way}"
        )
        return Value('{ time = "200 ms" }', (f"Default: 200 ms of the rate, since {why}.",), measured=False)
    how = "where the delay no longer grew" if queue.full else "and the delay still grew: it holds this or more"
    front = queue.kind is not None and queue.kind.name == "drop-front"
    what = (
        f"{queue.step.log}: at {number(queue.step.sent_bps / 1e6, 3)} Mbit/s the delay grew by "
        f"{number(queue.delay_ms, 1)} ms, {how}; that much of the rate{' sent' if front else ''}, and a packet."
    )
    limit = profile.size(queue.bytes_)
    return Value(
        f'{{ kind = "drop-front", bytes = {limit} }}' if front else limit,
        (what, *_sentences(None if queue.kind is None else queue.kind.why)),
    )


def _delay(way: str, idle: Idle | None, jittery: tuple[str, str], measured: Measured) -> Value:
    if idle is None:
        least_ms, known = _least_without_pings(measured)
        return Value(
            profile.time(_one_way(way, least_ms, measured)), (f"{known}; {_split(measured)}.",), measured=False
        )
    delay, pings = idle.delay, measured.pings
    log = pings.log.name if pings else ""
    own, other = (_one_way(one, delay.least_ms, measured) for one in (way, "up" if way == "down" else "down"))
    floor = f"{log}: least of {delay.count} round trips {number(delay.least_ms, 3)} ms; {_split(measured)}."
    if way != jittery[0] or (delay.body == "constant" and delay.tail is None):
        where = (
            f" What is above the least is put {jittery[0]}." if way != jittery[0] and delay.body != "constant" else ""
        )
        return Value(profile.time(own), (floor + where,))
    return Value(_jitter(delay, other), (floor, _about_body(delay, jittery[1]), *_about_tail(delay)))


def _least_without_pings(measured: Measured) -> tuple[float, str]:
    """Return the shortest round trip of whatever there is, and what it is."""
    if measured.steps:
        least_ms = 1000 * min(step.rtt_s for step in measured.steps)
        return least_ms, f"No ping log: the shortest of {len(measured.steps)} handshakes took {number(least_ms, 1)} ms"
    known = [seen.least_ms for seen in measured.captured if seen.least_ms is not None]
    if not known:
        raise InputError("no round trip was measured; give a log of `ping -D` with --ping")
    return min(known), f"No ping log: the shortest captured round trip took {number(min(known), 1)} ms"


def _captured(way: str, measured: Measured, *, floods: bool = False) -> Ceiling | None:
    """Return the fastest transfer of a direction by TCP, or of its floods; none: there is none."""
    return next(
        (one for one in measured.captured if one.way == way and one.is_udp == floods and one.is_flood == floods), None
    )


def transfer_of_rate(way: str, rate: Rate | None, measured: Measured) -> Ceiling | None:
    """Return the transfer that a direction's rate is taken from; none: probes say it, or nothing does.

    A flood tells the rate; without one the largest lower bound counts, by TCP or by datagrams.
    """
    flood = _captured(way, measured, floods=True)
    if flood is not None:
        return None if rate is not None and rate.full else flood
    own = [one for one in measured.captured if one.way == way]
    largest = max(own, key=lambda one: one.bps, default=None)
    if largest is None or (rate is not None and (rate.full or rate.bps >= largest.bps)):
        return None
    return largest


def _about_body(delay: Delay, where: str) -> str:
    if delay.body == "constant":
        return f"Body narrower than 1 ms; {where}."
    lasts = "drawn anew with each ping, since they are not correlated: the link's may change faster"
    if delay.spread_ms is not None:
        lasts = (
            f"not correlated from ping to ping; probed delays within a block are {number(delay.spread_ms, 1)} ms apart "
            f"(mean), as if drawn each {number(1000 * delay.every_s, 0)} ms"
        )
    elif delay.memory_s:
        lasts = f"correlation falls to 1/e in {number(delay.memory_s, 2)} s"
    elif delay.resolved:
        lasts = f"correlation falls in a line to 0 at {number(delay.every_s, 2)} s"
    return (
        f"Body over both directions: {delay.body}, quantiles from 0.5 to 99.5 % within {number(delay.error_ms, 2)} ms "
        f"(root of the mean square); {lasts}; {where}."
    )


def _about_tail(delay: Delay) -> tuple[str, ...]:
    if delay.tail is None:
        return (f"Tail: fewer than 10 of {delay.count} round trips are beyond the body.",)
    return (
        f"Tail: {delay.tail.count} of {delay.count} round trips are beyond the body, {delay.tail.kind} by likelihood.",
    )


def _jitter(delay: Delay, other_ms: float) -> str:
    base = max(delay.base_ms - other_ms, 0.0)
    if delay.body == "constant":
        body = '{ kind = "uniform", width = "0 ms" }'
    elif delay.body == "normal":
        body = f'{{ kind = "normal", sd = {profile.time(delay.width_ms)} }}'
    elif delay.body == "log-normal":
        body = (
            f'{{ kind = "log-normal", median = {profile.time(delay.width_ms)}, sigma = {profile.plain(delay.sigma)} }}'
        )
    else:
        body = f'{{ kind = "{delay.body}", width = {profile.time(delay.width_ms)} }}'
    parts = ['kind = "jitter"', f"base = {profile.time(base)}", f"every = {profile.time(delay.every_s * 1000)}"]
    if delay.memory_s:
        parts.append(f"memory = {profile.time(delay.memory_s * 1000)}")
    if delay.body == "normal":
        parts.append(f"min = {profile.time(max(delay.least_ms - other_ms, 0.0))}")
    parts.append(f"body = {body}")
    tail = delay.tail
    if tail is not None:
        shape = (
            f"min = {profile.time(tail.scale_ms)}, shape = {profile.plain(tail.shape)}"
            if tail.kind == "pareto"
            else f"median = {profile.time(tail.scale_ms)}, sigma = {profile.plain(tail.shape)}"
        )
        parts.append(
            f'tail = {{ kind = "{tail.kind}", share = {profile.share(tail.share)}, '
            f"every = {profile.time(delay.interval_s * 1000)}, {shape}, max = {profile.time(tail.most_ms)} }}"
        )
    return "{ " + ", ".join(parts) + " }"


def _one_way(way: str, least_ms: float, measured: Measured) -> float:
    down = least_ms / 2 if measured.down_delay_ms is None else measured.down_delay_ms
    if down > least_ms:
        raise InputError(f"--down-delay: {down:g} ms is more than the shortest round trip, {number(least_ms, 3)} ms")
    return down if way == "down" else least_ms - down


def _split(measured: Measured) -> str:
    if measured.down_delay_ms is None:
        return "half of it each way, since a round trip does not say more"
    return f"{measured.down_delay_ms:g} ms of it down, as given"


def _logs(steps: list[Step]) -> str:
    return ", ".join(dict.fromkeys(step.log for step in steps))


def _in_band_notes(measured: Measured) -> tuple[str, ...]:
    """Return what a flow that fills the path waits beside a ping, where a probe in band or a load has both."""
    found = []
    for way in ("down", "up"):
        seen: list[tuple[str, Difference]] = [(one.step.log, one) for one in waits(measured.steps, way)[:1]]
        for folder, load in measured.loads.items():
            between = load.difference(way) if way in load.rates else None
            if between is not None:
                seen.append((f"{folder}, TCP", between))
        found += [f"{source}, {way}: {between.finding}.{_apart(between)}" for source, between in seen]
    return tuple(found)


def _apart(between: Difference) -> str:
    if not between.hidden:
        return ""
    return (
        f" Pings queue apart from the flow: by them the queue would be {number(max(between.ping_ms, 0.0), 1)} ms long. "
        "A queue of this profile holds both."
    )


def _sentences(text: str | None) -> tuple[str, ...]:
    return () if text is None else (f"{text[0].upper()}{text[1:]}.",)


def _period_notes(idle: Idle | None, captured: list[Ceiling]) -> tuple[str, ...]:
    found = [
        f"{seen.file}, {seen.flow}: retransmissions repeat each {number(seen.period_s, 0)} s (autocorrelation)."
        for seen in captured
        if seen.period_s is not None
    ]
    found += [
        f"{seen.file}, {seen.flow}: its beginning is not there; it is taken for a download."
        for seen in captured
        if seen.assumed
    ]
    if idle is None or idle.period is None or idle.window is not None:
        return tuple(found)
    return (
        *found,
        f"Round trips step each {number(idle.period.period_s, 3)} s ({idle.period.events} steps; by chance with "
        f"p = {idle.period.p:.1g}).",
    )


_SAME_PERIOD = 0.1
_BOTH = 2
_LEAST_QUEUE = 1500
"""A queue that holds no packet lets none through."""
