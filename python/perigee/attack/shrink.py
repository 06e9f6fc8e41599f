# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Shrinks a trial: complications that the finding does not need are dropped, and numbers rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from perigee.attack.bench import Bench, Result
from perigee.attack.figures import Goal
from perigee.attack.trial import Trial, scaled
from perigee.numbers import significant

KEPT_SHARE = 0.8
"""The part of the excess that a smaller trial keeps at the least."""
AT_ONCE = 4
"""Smaller trials that are carried out at once; the first that suffices is taken."""
SHORT_S = 20.0
ROUND_RATES_MBPS = (10.0, 20.0)
ROUND_QUEUES_BDP = (0.25, 0.5, 1.0, 2.0, 4.0)
ROUND_RTTS_MS = (20.0, 50.0, 100.0, 200.0, 300.0, 600.0)
COMPLICATIONS = (
    ("outage_s", "outage_at_s"), ("others", "other", "other_at_s"), ("loss_percent", "burst_ms"), ("aqm",),
    ("rate_factor",), ("rtt_factor",), ("object_kb", "pause_s"), ("up_share",), ("pause_s",), ("burst_ms",),
    ("other_at_s",),
)  # fmt: skip
"""Attributes that stand for one complication each, in the order in which they are dropped."""
PLAIN = Trial(rate_mbps=10, rtt_ms=100, queue_kb=125, duration_s=20)


def shrink(bench: Bench, goal: Goal, found: Result, rounds: int, is_over: Callable[[], bool] = lambda: False) -> Result:
    """Return the smallest trial found that keeps `KEPT_SHARE` of the excess.

    Args:
        bench: carries trials out.
        goal: what the finding is about.
        found: the worst trial, measured in `rounds` rounds.
        rounds: number of runs of each congestion control.
        is_over: whether to stop with what there is.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    bound = max(found.excess(goal) * KEPT_SHARE, goal.least) if not found.fault else float("inf")
    best, tried = found, {found.trial}
    while True:
        left = [one for one in dict.fromkeys(_smaller(best.trial)) if one not in tried]
        left = [one for one in left if one.others or not goal.needs_others]
        kept = None
        for first in range(0, len(left), AT_ONCE):
            wanted = left[first : first + AT_ONCE]
            if is_over():
                return best
            kept = next((one for one in bench.measure(wanted, rounds) if one.excess(goal) >= bound), None)
            tried |= set(wanted)
            if kept:
                break
        if kept is None:
            return best
        best = kept


def _smaller(trial: Trial) -> Iterator[Trial]:
    """Return simpler trials: first those that take less time, then those without a complication, then rounder ones."""
    if trial.duration_s > SHORT_S:
        yield _settled(replace(trial, duration_s=SHORT_S))
    if trial.rate_mbps not in ROUND_RATES_MBPS:
        for rate in ROUND_RATES_MBPS:
            yield scaled(trial, rate_mbps=rate)
    for names in COMPLICATIONS:
        yield _settled(_with(trial, {name: getattr(PLAIN, name) for name in names}))
    if trial.others > 1:
        yield replace(trial, others=1)
        yield replace(trial, others=trial.others - 1)
    if trial.other != PLAIN.other:
        yield replace(trial, other=PLAIN.other)
    if trial.rtt_ms not in ROUND_RTTS_MS:
        for rtt in ROUND_RTTS_MS:
            if 0.6 < trial.rtt_ms / rtt < 1.6:
                yield scaled(trial, rtt_ms=rtt)
    round_queues = [significant(queue * trial.bdp_kb) for queue in ROUND_QUEUES_BDP]
    has_round_queue = trial.queue_kb in round_queues
    if not has_round_queue:
        for queue in round_queues:
            if 0.6 < trial.queue_kb / queue < 1.6:
                yield replace(trial, queue_kb=queue)
    for digits in (1, 2):
        for name in ROUNDED:
            if name == "queue_kb" and has_round_queue:
                continue
            value = getattr(trial, name)
            yield _settled(_with(trial, {name: significant(value, digits)}))


def _with(trial: Trial, values: Mapping[str, Any]) -> Trial:
    return replace(trial, **values)


def _settled(trial: Trial) -> Trial:
    """Return a trial without an instant of a change that it no longer has, and with all its instants within it."""
    changes = trial.rate_factor != 1 or trial.rtt_factor != 1
    return replace(
        trial,
        change_s=significant(min(trial.change_s, 0.7 * trial.duration_s)) if changes else 0.0,
        outage_at_s=significant(min(trial.outage_at_s, 0.7 * trial.duration_s)),
        other_at_s=significant(min(trial.other_at_s, 0.5 * trial.duration_s)),
    )


ROUNDED = (
    "rtt_ms", "rate_mbps", "queue_kb", "duration_s", "loss_percent", "burst_ms", "change_s", "rate_factor",
    "rtt_factor", "outage_s", "outage_at_s", "other_at_s", "object_kb", "pause_s", "up_share",
)  # fmt: skip
"""Attributes whose numbers are rounded, in this order."""
