# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A trial: one flow over one link, with what may complicate it, and the study that carries it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from perigee.keeper.studies import CANDIDATE, ENDS, OTHER, small_study
from perigee.numbers import significant

PAYLOAD_SHARE = 1448 / 1500
"""Payload of a full packet with timestamps."""
LEAST_SERIES_MS = 100
MANY = 1_000_000
"""Objects of an application that goes on until the time is up."""


@dataclass(frozen=True)
class Trial:
    """A link with its traffic. Where a default stands, the trial lacks that complication.

    Attributes:
        rate_mbps: rate towards the receiver.
        rtt_ms: round trip without queues.
        queue_kb: queue towards the receiver, kB.
        duration_s: length of the trial.
        loss_percent: random losses towards the receiver.
        burst_ms: mean length of the times in which all packets are lost; 0: each packet is lost by itself.
        aqm: active queue management; empty: drop-tail.
        change_s: instant from which rate and round trip are multiplied.
        rate_factor: by how much the rate.
        rtt_factor: by how much the round trip.
        outage_s: time in which both directions lose all packets.
        outage_at_s: its begin.
        others: number of competing flows.
        other: their congestion control.
        other_at_s: when they begin.
        object_kb: size of the objects that the application sends, kB; 0: one without end.
        pause_s: its pause after each.
        up_share: rate of the way back, as a share of `rate_mbps`.

    Examples:
        >>> trial = Trial(20, 600, 750, 60)
        >>> trial.bdp_kb, trial.complications
        (1500.0, [])
    """

    rate_mbps: float
    rtt_ms: float
    queue_kb: float
    duration_s: float
    loss_percent: float = 0.0
    burst_ms: float = 0.0
    aqm: str = ""
    change_s: float = 0.0
    rate_factor: float = 1.0
    rtt_factor: float = 1.0
    outage_s: float = 0.0
    outage_at_s: float = 0.0
    others: int = 0
    other: str = "cubic"
    other_at_s: float = 0.0
    object_kb: float = 0.0
    pause_s: float = 0.0
    up_share: float = 1.0

    @property
    def bdp_kb(self) -> float:
        """Rate times round trip, before any change, kB."""
        return self.rate_mbps * self.rtt_ms / 8

    @property
    def complications(self) -> list[str]:
        """Describe what it has beyond a plain link with one flow.

        Examples:
            >>> Trial(20, 600, 750, 60, loss_percent=1, others=2, other="reno").complications
            ['random loss of 1 %', '2 flows of reno from 0 s on']
        """
        said = []
        if self.loss_percent:
            rows = f" in bursts of {number(self.burst_ms)} ms" if self.burst_ms else ""
            said.append(f"random loss of {number(self.loss_percent)} %{rows}")
        if self.aqm:
            said.append(f"{self.aqm} in the queue")
        if self.rate_factor != 1:
            said.append(f"from {number(self.change_s)} s on {number(self.rate_factor)} times the rate")
        if self.rtt_factor != 1:
            said.append(f"from {number(self.change_s)} s on {number(self.rtt_factor)} times the round trip")
        if self.outage_s:
            said.append(f"an outage of {number(self.outage_s)} s at {number(self.outage_at_s)} s")
        if self.others:
            flows = "a flow" if self.others == 1 else f"{self.others} flows"
            said.append(f"{flows} of {self.other} from {number(self.other_at_s)} s on")
        if self.object_kb:
            said.append(f"objects of {number(self.object_kb)} kB with pauses of {number(self.pause_s)} s")
        if self.up_share != 1:
            said.append(f"{number(self.rate_mbps * self.up_share)} Mbit/s for the way back")
        return said

    @property
    def words(self) -> str:
        """The trial in one line."""
        queue = f"a queue of {number(self.queue_kb)} kB ({self.queue_kb / self.bdp_kb:.2g} bandwidth-delay products)"
        link = f"{number(self.rate_mbps)} Mbit/s, round trip {number(self.rtt_ms)} ms, {queue}"
        return "; ".join([link, *self.complications, f"for {number(self.duration_s)} s"])

    @property
    def longest_rtt_s(self) -> float:
        """The longer of the round trips before and after the change, s."""
        return self.rtt_ms * max(1.0, self.rtt_factor) / 1e3

    @property
    def series_ms(self) -> int:
        """Interval of the time series: half a round trip, and at least `LEAST_SERIES_MS`."""
        return max(LEAST_SERIES_MS, round(self.longest_rtt_s * 500))

    def rate_at(self, t_s: float) -> float:
        """Return the rate at an instant, Mbit/s; the outage is left out."""
        return self.rate_mbps * (self.rate_factor if self.rate_factor != 1 and t_s >= self.change_s else 1.0)

    def rtt_at(self, t_s: float) -> float:
        """Return the round trip without queues at an instant, ms."""
        return self.rtt_ms * (self.rtt_factor if self.rtt_factor != 1 and t_s >= self.change_s else 1.0)

    def payload_mb(self, begin_s: float, end_s: float, shared_by: int = 1) -> float:
        """Return the payload that the path carries for a flow between two instants, without losses and outage, MB.

        Examples:
            >>> round(Trial(12, 100, 100, 20).payload_mb(0, 10), 2)
            14.48
            >>> round(Trial(12, 100, 100, 20, outage_s=5, outage_at_s=8).payload_mb(0, 10), 2)
            11.58
        """
        # Between two of these instants nothing changes.
        marks = {begin_s, end_s}
        for at in (self.change_s, self.outage_at_s, self.outage_at_s + self.outage_s):
            marks.add(min(max(at, begin_s), end_s))
        total, ordered = 0.0, sorted(marks)
        for first, last in pairwise(ordered):
            if not self.is_out(first):
                total += self.rate_at(first) * (last - first) / 8
        return total * PAYLOAD_SHARE * (1 - self.loss_percent / 100) / shared_by

    def is_out(self, t_s: float) -> bool:
        """True during the outage."""
        return bool(self.outage_s) and self.outage_at_s <= t_s < self.outage_at_s + self.outage_s


def number(value: float) -> str:
    """Write a number with three significant digits, and without zeros at its end.

    Examples:
        >>> number(12.345), number(600.0), number(1234), number(0.01)
        ('12.3', '600', '1230', '0.01')
    """
    return f"{significant(value):.10g}"


def scaled(trial: Trial, *, rate_mbps: float = 0.0, rtt_ms: float = 0.0) -> Trial:
    """Return a trial of another rate or round trip, whose queue is as large in bandwidth-delay products."""
    other = replace(trial, rate_mbps=rate_mbps or trial.rate_mbps, rtt_ms=rtt_ms or trial.rtt_ms)
    return replace(other, queue_kb=significant(trial.queue_kb * other.bdp_kb / trial.bdp_kb))


def study(trial: Trial, algorithms: Sequence[str], *, name: str = "trial", title: str = "", rounds: int = 1) -> str:
    """Return the study of a trial as text of at most ten lines, with a run for each congestion control.

    Args:
        trial: link and traffic.
        algorithms: names of congestion controls, or paths of files.
        name: name of the study.
        title: its title.
        rounds: number of runs of each.

    Examples:
        >>> print(study(Trial(20, 600, 750, 60), ["bbr", "reno"]).splitlines()[-1])
        vary = { "flows.candidate.cc" = ["bbr", "reno"] }
    """
    limit = f"{number(trial.duration_s)} s" if trial.object_kb else ""
    head = {"name": name, "title": title, "rounds": rounds if rounds > 1 else 0, "time_limit": limit}
    return small_study(head, algorithms, _link(trial), _flows(trial), trial.series_ms)


def _link(trial: Trial) -> dict[str, Any]:
    half, rate = trial.rtt_ms / 2, trial.rate_mbps
    outages: list[Any] = []
    losses: list[Any] = []
    if trial.outage_s:
        phase, length = f"{number(trial.outage_at_s)} s", f"{number(trial.outage_s)} s"
        outages.append({"kind": "periodic", "period": "100000 s", "phase": phase, "length": length})
    if trial.loss_percent and trial.burst_ms:
        gap_ms = trial.burst_ms * (100 / trial.loss_percent - 1)
        losses.append({"kind": "outages", "gap": f"{number(gap_ms)} ms", "length": f"{number(trial.burst_ms)} ms"})
    elif trial.loss_percent:
        losses.append(f"{number(trial.loss_percent)} %")
    aqm = {"aqm": {"kind": trial.aqm}} if trial.aqm else {}
    down = {"queue": {"bytes": f"{number(trial.queue_kb)} kB", **aqm}, **_losses([*losses, *outages])}
    up = {"rate": f"{number(rate * trial.up_share)} Mbit/s", **_losses(outages)}
    delay, later = number(half), number(half * trial.rtt_factor)
    if trial.rtt_factor != 1:
        up["timeline"] = ["time_s, delay_ms", f"0, {delay}", f"{number(trial.change_s)}, {later}"]
    else:
        up["delay"] = f"{delay} ms"
    if trial.rate_factor != 1 or trial.rtt_factor != 1:
        after = f"{number(trial.change_s)}, {number(rate * trial.rate_factor)}, {later}"
        down["timeline"] = ["time_s, rate_mbps, delay_ms", f"0, {number(rate)}, {delay}", after]
    else:
        down |= {"rate": f"{number(rate)} Mbit/s", "delay": f"{delay} ms"}
    return {"down": down, "up": up}


def _losses(processes: Sequence[Any]) -> dict[str, Any]:
    return {"loss": processes} if processes else {}


def _flows(trial: Trial) -> list[dict[str, Any]]:
    duration = {"duration": f"{number(trial.duration_s)} s"}
    objects = {
        "kind": "request",
        "request": "100 B",
        "response": f"{number(trial.object_kb)} kB",
        "think": f"{number(trial.pause_s)} s",
        "repeat": MANY,
    }
    found: list[dict[str, Any]] = [{"name": CANDIDATE, **ENDS, **(objects if trial.object_kb else duration)}]
    if trial.others:
        times = {"start": trial.other_at_s, "duration": trial.duration_s - trial.other_at_s}
        beside = {"name": OTHER, **ENDS, "count": trial.others, "cc": trial.other}
        found.append(beside | {key: f"{number(time_s)} s" for key, time_s in times.items()})
    return found
