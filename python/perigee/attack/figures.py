# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measurements of a trial, and the goals of a search: how badly a congestion control does in one respect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perigee.attack.trial import Trial
from perigee.keeper.runs import Tables
from perigee.keeper.studies import CANDIDATE

if TYPE_CHECKING:
    import polars as pl

RTO_MIN_S = 0.2
"""Linux's smallest retransmission timeout beyond the round trip, s."""
LEAST_RTT_MS = 50.0
"""Waits are measured in this at the least: on a short path a wait of several round trips disturbs nobody."""
FEW_PACKETS = 100
"""The share of retransmissions is of this number of packets at the least."""


@dataclass(frozen=True)
class Figures:
    """The figures of one congestion control in a trial.

    Attributes:
        goodput_mbps: payload that the candidate delivered, over the trial.
        utilisation: that, over what its fair share of the path carries.
        wait_rtts: mean wait of its packets in queues, in round trips without queues, each at least `LEAST_RTT_MS`.
        loss: share of its packets that were retransmissions.
        taken: what the other flow that has least lacks of its fair share, as a part of that.
        stall_rtos: longest time in which nothing arrives though the path carries packets, in retransmission timeouts.
    """

    goodput_mbps: float
    utilisation: float
    wait_rtts: float
    loss: float
    taken: float
    stall_rtos: float


def figures_of(trial: Trial, tables: Tables, run: int = 0) -> Figures:
    """Return the figures of a run from its tables `flows` and `series`."""
    flows = [row for row in tables["flows"].to_dicts() if row["run"] == run]
    candidate = next(row for row in flows if row["flow"] == CANDIDATE)
    series = _series(tables["series"], run)
    delivered_mb = (candidate["received_bytes"] or 0) / 1e6
    others = [row for row in flows if row["flow"] != CANDIDATE and row["leg"] is None]
    sent = max(candidate["sent_packets"] or 0, FEW_PACKETS)
    return Figures(
        goodput_mbps=delivered_mb * 8 / trial.duration_s,
        utilisation=min(delivered_mb / _fair_mb(trial, CANDIDATE), 1.0),
        wait_rtts=_wait(trial, series),
        loss=(candidate["retransmitted_packets"] or 0) / sent,
        taken=max((_lacks(trial, row) for row in others), default=0.0),
        stall_rtos=_stall_s(trial, series) / (trial.longest_rtt_s + RTO_MIN_S),
    )


@dataclass(frozen=True)
class Goal:
    """A goal of a search.

    Attributes:
        name: its name on the command line.
        title: what the candidate does worst.
        badness: the figure, higher where it is worse.
        least: the smallest distance from the reference that is a finding.
        label: what is shown to people in its place, with the unit.
        shown: the value of that from the badness.
        amount: format of the value with its unit.
        phrase: a sentence's verb and object, of the amount.
        is_better_high: whether a higher value shown is better.
        needs_others: whether it is about competing flows.
    """

    name: str
    title: str
    badness: Callable[[Figures], float]
    least: float
    label: str
    shown: Callable[[float], float]
    amount: str
    phrase: str
    is_better_high: bool = False
    needs_others: bool = False

    def words(self, badness: float) -> str:
        """Return a figure for people.

        Examples:
            >>> GOALS["utilisation"].words(0.654)
            'uses 34.6 % of its share of the path'
        """
        return self.phrase.format(self.said(badness))

    def said(self, badness: float) -> str:
        """Return a figure with its unit alone."""
        return self.amount.format(self.shown(badness))


_GOALS = (
    Goal("utilisation", "leaves its share of the path unused", lambda found: 1 - found.utilisation, 0.15,
        "Used of its share (%)", lambda bad: 100 * (1 - bad), "{:.1f} %", "uses {} of its share of the path",
        is_better_high=True),
    Goal("delay", "fills queues", lambda found: found.wait_rtts, 0.25,
        "Wait in queues (round trips)", lambda bad: bad, "{:.2f} round trips", "lets packets wait {}"),
    Goal("loss", "loses packets", lambda found: found.loss, 0.02,
        "Retransmitted (%)", lambda bad: 100 * bad, "{:.1f} %", "retransmits {} of its packets"),
    Goal("starvation", "starves another flow", lambda found: found.taken, 0.2,
        "Left to another flow (% of its share)", lambda bad: 100 * (1 - bad), "{:.1f} %",
        "leaves another flow {} of its share", is_better_high=True, needs_others=True),
    Goal("stall", "stops delivering", lambda found: found.stall_rtos, 3.0,
        "Longest silence (timeouts)", lambda bad: bad, "{:.1f} retransmission timeouts", "delivers nothing for {}"),
)  # fmt: skip
GOALS = {goal.name: goal for goal in _GOALS}
"""The goals, in the order in which they are searched for."""


def _series(table: pl.DataFrame, run: int) -> dict[str, np.ndarray]:
    """Return the candidate's columns; a mean that is missing is not a number."""
    mine = table.filter((table["flow"] == CANDIDATE) & (table["run"] == run))
    return {name: mine[name].to_numpy().astype(np.float64) for name in ("t_s", "goodput_mbps", "rtt_mean_ms")}


def _fair_mb(trial: Trial, flow: str) -> float:
    """Return the payload of a flow's fair share of the path, MB."""
    begin = 0.0 if flow == CANDIDATE else trial.other_at_s
    joined = trial.other_at_s if trial.others else trial.duration_s
    alone = trial.payload_mb(begin, max(joined, begin))
    shared = trial.payload_mb(max(joined, begin), trial.duration_s, 1 + trial.others)
    return max(alone + shared, 1e-6)


def _lacks(trial: Trial, row: Mapping[str, float]) -> float:
    return 1 - min((row["received_bytes"] or 0) / 1e6 / _fair_mb(trial, str(row["flow"])), 1.0)


def _wait(trial: Trial, series: Mapping[str, np.ndarray]) -> float:
    """Return the mean of rtt - base over the intervals with samples, but those of the change, whose base is either."""
    interval_s = trial.series_ms / 1e3
    times, rtts = series["t_s"], series["rtt_mean_ms"]
    bases = np.asarray([trial.rtt_at(t - interval_s) for t in times])
    settling = (times > trial.change_s) & (times < trial.change_s + 2 * trial.longest_rtt_s + 2 * interval_s)
    used = np.isfinite(rtts) & ~(settling if trial.rtt_factor != 1 else np.zeros_like(settling))
    if not used.any():
        return 0.0
    waits = np.clip(rtts[used] - bases[used], 0, None) / np.clip(bases[used], LEAST_RTT_MS, None)
    return float(waits.mean())


def _stall_s(trial: Trial, series: Mapping[str, np.ndarray]) -> float:
    """Return the longest time without an arrival, beyond handshake, pauses, and the outage with its back-off.

    A sender whose timeout doubles tries again as long after an outage as that lasted, at the latest.
    """
    interval_s = trial.series_ms / 1e3
    rtt_s = trial.longest_rtt_s
    pause_s = trial.pause_s + 2 * rtt_s if trial.object_kb else 0.0
    longest, begin = 0.0, 3 * rtt_s
    # The time between the ends of the last interval with an arrival and of the first one after it.
    arrivals = [t - interval_s for t, goodput in zip(series["t_s"], series["goodput_mbps"], strict=True) if goodput > 0]
    for instant in (*arrivals, trial.duration_s):
        end = max(instant, begin)
        gap = end - begin
        if trial.outage_s:
            out_end = trial.outage_at_s + 2 * (trial.outage_s + rtt_s + RTO_MIN_S)
            gap -= max(min(end, out_end) - max(begin, trial.outage_at_s), 0.0)
        longest = max(longest, gap - pause_s)
        begin = max(instant + interval_s, begin)
    # Instants are sums of intervals: what is left below a microsecond is rounding.
    return round(longest, 6)
