# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A trial: one flow over one link, with what may complicate it, and the study that carries it out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

PAYLOAD_SHARE = 1448 / 1500
"""Payload of a full packet with timestamps."""
CANDIDATE, OTHER = "candidate", "other"
"""Names of the flows."""
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
    return f"{rounded(value):.10g}"


def rounded(value: float, digits: int = 3) -> float:
    """Round to significant digits.

    Examples:
        >>> rounded(123456), rounded(0.012345, 2)
        (123000.0, 0.012)
    """
    if not value or not math.isfinite(value):
        return value
    return round(float(value), digits - 1 - math.floor(math.log10(abs(value))))


def scaled(trial: Trial, *, rate_mbps: float = 0.0, rtt_ms: float = 0.0) -> Trial:
    """Return a trial of another rate or round trip, whose queue is as large in bandwidth-delay products."""
    other = replace(trial, rate_mbps=rate_mbps or trial.rate_mbps, rtt_ms=rtt_ms or trial.rtt_ms)
    return replace(other, queue_kb=rounded(trial.queue_kb * other.bdp_kb / trial.bdp_kb))


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
    lines = [
        f"name = {_text(name)}",
        *([f"title = {_text(title)}"] if title else []),
        *([f"rounds = {rounds}"] if rounds > 1 else []),
        *([f'time_limit = "{number(trial.duration_s)} s"'] if trial.object_kb else []),
        'nodes = ["server", "client"]',
        f'measure = {{ series = "{trial.series_ms} ms", rtt = false }}',
        'hosts = { rmem = ["4096 B", "131072 B", "64 MB"], wmem = ["4096 B", "16384 B", "64 MB"] }',
        f"links = [{{ {_link(trial)} }}]",
        f"flows = [{', '.join(_flows(trial))}]",
        f'vary = {{ "flows.{CANDIDATE}.cc" = [{", ".join(map(_text, algorithms))}] }}',
    ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    # The escapes of JSON are those of TOML's basic strings.
    return json.dumps(value, ensure_ascii=False)


def _link(trial: Trial) -> str:
    half = trial.rtt_ms / 2
    outage = (
        f'{{ kind = "periodic", period = "100000 s", phase = "{number(trial.outage_at_s)} s", '
        f'length = "{number(trial.outage_s)} s" }}'
    )
    losses = []
    if trial.loss_percent and trial.burst_ms:
        gap_ms = trial.burst_ms * (100 / trial.loss_percent - 1)
        losses.append(f'{{ kind = "outages", gap = "{number(gap_ms)} ms", length = "{number(trial.burst_ms)} ms" }}')
    elif trial.loss_percent:
        losses.append(f'"{number(trial.loss_percent)} %"')
    back = []
    if trial.outage_s:
        losses.append(outage)
        back.append(outage)
    aqm = f', aqm = {{ kind = "{trial.aqm}" }}' if trial.aqm else ""
    down = [f'queue = {{ bytes = "{number(trial.queue_kb)} kB"{aqm} }}', *_losses(losses)]
    up = [f'rate = "{number(trial.rate_mbps * trial.up_share)} Mbit/s"', *_losses(back)]
    if trial.rtt_factor != 1:
        delays = f'"0, {number(half)}", "{number(trial.change_s)}, {number(half * trial.rtt_factor)}"'
        up.append(f'timeline = ["time_s, delay_ms", {delays}]')
    else:
        up.append(f'delay = "{number(half)} ms"')
    if trial.rate_factor != 1 or trial.rtt_factor != 1:
        after = f"{number(trial.rate_mbps * trial.rate_factor)}, {number(half * trial.rtt_factor)}"
        rows = f'"0, {number(trial.rate_mbps)}, {number(half)}", "{number(trial.change_s)}, {after}"'
        down.append(f'timeline = ["time_s, rate_mbps, delay_ms", {rows}]')
    else:
        down += [f'rate = "{number(trial.rate_mbps)} Mbit/s"', f'delay = "{number(half)} ms"']
    between = 'name = "path", between = ["server", "client"]'
    return f"{between}, down = {{ {', '.join(down)} }}, up = {{ {', '.join(up)} }}"


def _losses(processes: Sequence[str]) -> list[str]:
    return [f"loss = [{', '.join(processes)}]"] if processes else []


def _flows(trial: Trial) -> list[str]:
    ends = 'from = "server", to = "client"'
    if trial.object_kb:
        objects = f'response = "{number(trial.object_kb)} kB", think = "{number(trial.pause_s)} s"'
        does = f'kind = "request", request = "100 B", {objects}, repeat = {MANY}'
    else:
        does = f'duration = "{number(trial.duration_s)} s"'
    found = [f'{{ name = "{CANDIDATE}", {ends}, {does} }}']
    if trial.others:
        rest = trial.duration_s - trial.other_at_s
        found.append(
            f'{{ name = "{OTHER}", {ends}, count = {trial.others}, cc = "{trial.other}", '
            f'start = "{number(trial.other_at_s)} s", duration = "{number(rest)} s" }}'
        )
    return found
