# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Losses of one direction as a profile writes them: a probe's, a transfer's or those of pings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perigee.fitting import profile
from perigee.fitting.loss import (
    LEAST_EVENTS,
    SIGNIFICANT,
    Loss,
    Runs,
    bursty,
    fit_bursts,
    interval_of,
)
from perigee.fitting.profile import Value
from perigee.fitting.rate import runs_below
from perigee.numbers import number

if TYPE_CHECKING:
    from perigee.fitting.captured import Ceiling
    from perigee.fitting.fit import Idle, Measured

PROBE_DECIDES_FROM = 20
"""Times that a probe must have lost something for its losses to stand for those of pings."""


def losses(way: str, idle: Idle | None, measured: Measured) -> Value:
    """Return the losses of a direction, each kind with where it comes from."""
    entries: list[str] = []
    source: list[str] = []
    probed = runs_below(measured.steps, way)
    log = ", ".join(dict.fromkeys(step.log for step in measured.steps if step.direction == way))
    if measured.pings is not None and not measured.pings.has_losses:
        idle = None
    from_probe = probed.sent > 0 and (idle is None or probed.events >= PROBE_DECIDES_FROM)
    if idle is not None and idle.window is not None and idle.period is not None and way == "down":
        entries.append(
            f'{{ kind = "periodic", period = {profile.time(1000 * idle.period.period_s)}, '
            f"length = {profile.time(1000 * idle.window.length_s)}, loss = {profile.share(idle.window.loss)} }}"
        )
        source.append(
            f"Losses of pings repeat each {number(idle.period.period_s, 3)} s ({idle.period.events} of them; by chance "
            f"with p = {idle.period.p:.1g}): {number(100 * idle.window.loss, 1)} % are lost in "
            f"{number(idle.window.length_s, 2)} s of it, known to the pings' interval. All put down."
        )
    if from_probe:
        found = fit_bursts(probed)
        source.append(_interval(f"{log}, rates at which the link was not full", probed))
        if found is not None:
            entries.append(_entry(found))
            source.append(_about(found))
    elif (seen := transfer_of_losses(way, idle, measured)) is not None:
        runs = seen.quiet
        source.append(_interval(f"{seen.file}, {seen.flow}, sent again in seconds without a queue", runs))
        if runs.lost:
            entries.append(profile.share(runs.share))
            source.append("They are taken for independent losses.")
    elif idle is not None:
        source.append(_interval(f"{measured.pings.log.name if measured.pings else ''}, round trips", idle.runs))
        for loss in idle.losses:
            if loss.kind == "single":
                part = part_of_losses(way, measured)
                entries.append(profile.share(loss.share * part))
                what = f"{loss.events} single ones"
                if _is_bunched(idle.runs):
                    longest = max(idle.runs.lengths)[0]
                    what = f"Runs of losses: {idle.runs.events}, up to {longest} long, too few to fit: independent ones"
                where = (
                    "half of them each way"
                    if part == _HALF
                    else f"{100 * part:.0f} % of them {way}, as a log tells them apart"
                )
                source.append(f"{what}, {where}. {_chance(loss)}")
            elif way == "down":
                entries.append(_entry(loss))
                source.append(f"{_about(loss)} All put down.")
            else:
                source.append(f"Outages, {loss.events} of them, are put down.")
    if not entries:
        return Value('"0 %"', tuple(source) or ("Default: nothing was measured.",), measured=bool(source))
    toml = entries[0] if len(entries) == 1 else "[\n" + "".join(f"  {entry},\n" for entry in entries) + "]"
    return Value(toml, tuple(source))


def transfer_of_losses(way: str, idle: Idle | None, measured: Measured) -> Ceiling | None:
    """Return the transfer whose repeated packets say more of a direction's losses than pings do; none: none does.

    Pings say how losses lie in time where they lost enough. A transfer that sent more again than they can have lost
    met a policer, or a queue that nobody saw.
    """
    own = [one for one in measured.captured if one.way == way and one.quiet.sent]
    seen = max(own, key=lambda one: one.quiet.sent, default=None)
    is_policed = any(one.way == way and one.burst_bytes for one in measured.captured)
    if seen is None or is_policed or seen.quiet.sent < _LEAST_QUIET:
        return None
    if idle is None:
        return seen
    runs = idle.runs
    is_less = seen.quiet.share <= interval_of(runs.lost, runs.sent)[1]
    return seen if runs.events < LEAST_EVENTS and seen.quiet.sent > runs.sent and is_less else None


def part_of_losses(way: str, measured: Measured) -> float:
    """Return a direction's share of a round trip's losses: a half where logs tell too few of them apart."""
    count = sum(measured.lost.values())
    return measured.lost[way] / count if count >= _TOLD_APART else _HALF


def _is_bunched(runs: Runs) -> bool:
    """Whether losses are bunched, but too few to fit how."""
    return runs.events < LEAST_EVENTS and bursty(runs) < SIGNIFICANT


def bunched_notes(idle: Idle | None, measured: Measured) -> tuple[str, ...]:
    """Say where bunched losses are written as independent ones."""
    seen = {way: runs_below(measured.steps, way) for way in ("down", "up")}
    if idle is not None:
        seen["pings"] = idle.runs
    return tuple(
        f"Losses ({where}) are bunched, {runs.lost} in {runs.events} events (independent ones are with "
        f"p = {bursty(runs):.1g}); fewer than {LEAST_EVENTS} events do not say how long they last, so the profile has "
        "independent losses: measure for longer."
        for where, runs in seen.items()
        if _is_bunched(runs)
    )


def _interval(what: str, runs: Runs) -> str:
    low, high = interval_of(runs.lost, runs.sent)
    return (
        f"{what}: {runs.lost} of {runs.sent} packets lost, {profile.plain(100 * runs.share)} % "
        f"(95 % interval {profile.plain(100 * low)} to {profile.plain(100 * high)} %, were they independent)."
    )


def _entry(loss: Loss) -> str:
    if loss.kind == "burst":
        return (
            f'{{ kind = "gilbert-elliott", loss = {profile.share(loss.share)}, burst = {profile.plain(loss.burst)} }}'
        )
    if loss.kind == "outage":
        gap, length = profile.time(1000 * loss.gap_s), profile.time(1000 * loss.length_s)
        return f'{{ kind = "outages", gap = {gap}, length = {length} }}'
    return profile.share(loss.share)


def _about(loss: Loss) -> str:
    if loss.kind == "single":
        return _chance(loss)
    if loss.kind == "burst":
        return f"{loss.events} bursts of {profile.plain(loss.burst)} packets on average. {_chance(loss)}"
    return (
        f"{loss.events} outages of {number(loss.length_s, 2)} s on average, "
        f"{number(loss.gap_s, 0)} s from one to the next. {_chance(loss)}"
    )


def _chance(loss: Loss) -> str:
    if loss.p < _TINY:
        return "Independent losses would never be as bunched (likelihood ratio)."
    return f"Independent losses are as bunched with p = {loss.p:.1g} (likelihood ratio)."


_HALF, _TOLD_APART = 0.5, 5
"""The part of losses each way that nothing tells apart, and the fewest that do."""
_LEAST_QUIET = 2000
"""Packets of a transfer, in seconds without a queue, from which it says something of losses."""
_TINY = 1e-12
