# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results of one rate of a probe: packets received and lost, bursts of losses, one-way delay."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from perigee.errors import InputError

MOST_SKEW = 100e-6
"""Two machines' clocks differ by less than this share; a delay that grows faster is a queue's."""
SKEW_FROM_S = 30.0
"""In shorter times a clock moves less than 3 ms, and noise more."""
FULL_BELOW = 0.97
"""Received less than this share of what should have arrived: the path was full."""

_LEAST_RECEIVED = 2

Floats = npt.NDArray[np.float64]


class Step:
    """One rate in one direction.

    Attributes:
        record: a line of the log.
        log: the log's name.
        direction: `up` or `down`.
        offered_bps: the rate that was asked for.
        packet: bytes of a packet, headers counted.
        sent: packets that the network took.
        received: packets that arrived, each once.
        lost: packets that did not.
        runs: losses in a row: (length, how many).
        reordered: packets that came after a later one.
        duplicates: packets that came again.
        refused: instants at which this machine's own network took no packet.
        rtt_s: round trip of the handshake, before the load.
        interval_s: length of the blocks of time below.
        pings: pings before and beside it: when they were sent (s since its first packet), and their round trips (ms;
            NaN: lost); none: it was not measured with `--in-band`.
    """

    def __init__(self, record: dict[str, Any], packet: int, log: str = "probe") -> None:
        check(record)
        sent, report = record["sent"], record["report"]
        self.record = record
        self.log = log
        self.direction: str = record["direction"]
        self.offered_bps: int = record["offered_bps"]
        self.packet = packet
        self.sent: int = sent["packets"]
        self.received: int = report["received"]
        self.lost: int = report["lost"]
        self.runs: list[tuple[int, int]] = [(int(length), int(count)) for length, count in report["runs"]]
        self.reordered: int = report["reordered"]
        self.duplicates: int = report["duplicates"]
        self.refused: int = sent["refused"]
        self.rtt_s: float = record["rtt_s"]
        self.interval_s = report["per_block"] * packet * 8 / self.offered_bps
        pings = record.get("pings")
        self.pings: tuple[Floats, Floats] | None = (
            None if pings is None else (np.array(pings["sent_s"], float), np.array(pings["rtt_ms"], float))
        )
        if self.sent < 1 or self.received + self.lost < 1:
            raise ValueError("nothing was sent")

    @property
    def sent_bps(self) -> float:
        """The rate that was really sent."""
        sent = self.record["sent"]
        return self._rate(self.sent, sent["last_ns"] - sent["first_ns"])

    @property
    def received_bps(self) -> float:
        """The rate of the arrivals, from the first to the last; 0 with fewer than two."""
        report = self.record["report"]
        return self._rate(self.received, report["last_ns"] - report["first_ns"])

    @property
    def loss(self) -> float:
        """Share of the packets that did not arrive."""
        return self.lost / (self.received + self.lost)

    @property
    def bursts(self) -> int:
        """Times that one or several in a row were lost."""
        return sum(count for _, count in self.runs)

    @property
    def longest_burst(self) -> int:
        """Packets lost in a row at the most."""
        return max((length for length, _ in self.runs), default=0)

    @property
    def late_s(self) -> float:
        """How far the sender fell behind its timetable in all."""
        return float(self.record["sent"]["slipped_ns"]) / 1e9

    @cached_property
    def delays_ms(self) -> dict[str, Floats]:
        """One-way delays over the shortest one, per block of time: `t_s`, `least`, `mean`, `most`; NaN where none came.

        The clocks of both ends are not set: only differences mean something. A drift of the clocks, up to 100
        millionths, is taken out of what lasts for more than half a minute.
        """
        blocks = self.record["report"]["blocks"]
        least, mean, most = (np.array(blocks[name], float) / 1000 for name in ("least_us", "mean_us", "most_us"))
        t_s = (np.arange(len(least)) + 0.5) * self.interval_s
        drift = self._drift(t_s, least)
        least, mean, most = (values - drift * 1000 * t_s for values in (least, mean, most))
        base = np.nanmin(least) if np.isfinite(least).any() else 0.0
        return {"t_s": t_s, "least": least - base, "mean": mean - base, "most": most - base}

    @cached_property
    def lost_over_time(self) -> Floats:
        """Packets lost of those sent in each block of time."""
        received = np.array(self.record["report"]["blocks"]["received"], float)
        per_block = self.record["report"]["per_block"]
        sent = np.full(len(received), float(per_block))
        if len(sent):
            sent[-1] = self.received + self.lost - per_block * (len(sent) - 1)
        return np.asarray(sent - received, float)

    @cached_property
    def arrived_bps(self) -> Floats:
        """Rate of the arrivals in each block of time from the first on; the last one, which is not whole, left out."""
        arrivals = np.array(self.record["report"]["arrivals"][:-1], float)
        return np.asarray(arrivals * self.packet * 8 / self.interval_s, float)

    def arrived_per(self, bin_s: float) -> Floats:
        """Rate of the arrivals (bit/s) in each whole bin of this length."""
        per_bin = max(1, round(bin_s / self.interval_s))
        arrived = self.arrived_bps
        whole = len(arrived) // per_bin * per_bin
        return np.asarray(arrived[:whole].reshape(-1, per_bin).mean(axis=1), float)

    @property
    def delay_variation_ms(self) -> tuple[float, float]:
        """Mean and largest one-way delay over the shortest one."""
        delays = self.delays_ms
        if not np.isfinite(delays["most"]).any():
            return float("nan"), float("nan")
        received = np.array(self.record["report"]["blocks"]["received"], float)
        mean = float(np.nansum(delays["mean"] * received) / max(received.sum(), 1))
        return mean, float(np.nanmax(delays["most"]))

    def is_full(self, others: list[Step]) -> bool:
        """Whether the path carried less than was offered, beyond the loss that lower rates have too."""
        if self.received < _LEAST_RECEIVED:
            # Nothing passes at all: that is no capacity.
            return False
        own = [step for step in others if step.direction == self.direction and step.received]
        lower = [step.loss for step in own if step.offered_bps < self.offered_bps]
        expected = self.sent_bps * (1 - min(lower, default=0.0))
        # Without a lower rate, even losses all over are taken for a full path only where the delay says so too.
        return self.received_bps < FULL_BELOW * expected and (bool(lower) or self._queued())

    def _queued(self) -> bool:
        mean = self.delays_ms["mean"]
        packet_ms = self.packet * 8e3 / self.offered_bps
        return bool(np.isfinite(mean).any()) and float(np.nanmedian(mean)) > 2 * packet_ms

    def _rate(self, packets: int, ns: int) -> float:
        return (packets - 1) * self.packet * 8e9 / ns if packets > 1 and ns > 0 else 0.0

    def _drift(self, t_s: Floats, least: Floats) -> float:
        """Slope of the line under all delays that is nearest to them: seconds per second; 0 where it is no clock's."""
        here = np.isfinite(least)
        t_s, least = t_s[here], least[here]
        if len(t_s) < 2 or t_s[-1] - t_s[0] < SKEW_FROM_S:
            return 0.0
        hull: list[tuple[float, float]] = []
        for point in zip(t_s, least, strict=True):
            while len(hull) > 1 and _turns_right(hull[-2], hull[-1], point):
                hull.pop()
            hull.append(point)
        middle = float(t_s.mean())
        at = next(i for i in range(1, len(hull)) if hull[i][0] >= middle)
        (t0, y0), (t1, y1) = hull[at - 1], hull[at]
        slope = float((y1 - y0) / (t1 - t0) / 1000)
        return slope if abs(slope) <= MOST_SKEW else 0.0


def check(record: dict[str, Any]) -> None:
    """Refuse a record of a log unless all that is computed with has its type and a size that numbers here may have.

    Raises:
        ValueError: it has not; says which.
    """
    report, sent = record.get("report"), record.get("sent")
    if not isinstance(report, dict) or not isinstance(sent, dict) or not isinstance(report.get("blocks"), dict):
        raise ValueError("`sent` or `report` is missing")  # noqa: TRY004 - what is wrong is a file, not a call
    blocks = report["blocks"]
    pairs = report.get("runs")
    is_right = {
        "direction": record.get("direction") in ("up", "down"),
        "offered_bps": _is_count(record.get("offered_bps")) and record["offered_bps"] > 0,
        "headers": _is_count(record.get("headers", 28)),
        "began_unix_s": _is_number(record.get("began_unix_s")),
        "rtt_s": _is_number(record.get("rtt_s")),
        "per_block": _is_count(report.get("per_block")) and report["per_block"] > 0,
        "arrivals": _is_list(report.get("arrivals"), _is_count),
        "runs": _is_list(pairs, lambda pair: _is_list(pair, _is_count) and len(pair) == len(("length", "count"))),
        **{name: _is_count(sent.get(name)) for name in ("packets", "refused", "first_ns", "last_ns", "slipped_ns")},
        **{f"report.{name}": _is_count(report.get(name)) for name in _COUNTS},
        **{f"blocks.{name}": _is_list(blocks.get(name), _is_number_or_none) for name in _BLOCKS},
        "pings": record.get("pings") is None or _are_pings(record["pings"]),
    }
    wrong = [name for name, right in is_right.items() if not right]
    if not wrong and not _is_whole([blocks[name] for name in _BLOCKS]):
        wrong = ["blocks"]
    if wrong:
        raise ValueError(f"`{wrong[0]}` is missing or no such value")


def _is_whole(blocks: list[list[float | None]]) -> bool:
    """Whether each block of time has a count, and delays exactly where something was received."""
    if len({len(column) for column in blocks}) > 1:
        return False
    columns = zip(*blocks, strict=True)
    return all(
        count is not None and all((delay is not None) == (count > 0) for delay in delays) for count, *delays in columns
    )


def _are_pings(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    sent_s, rtt_ms = value.get("sent_s"), value.get("rtt_ms")
    lists = _is_list(sent_s, _is_number) and _is_list(rtt_ms, _is_number_or_none)
    return lists and len(value["sent_s"]) == len(value["rtt_ms"])


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST


def _is_number_or_none(value: object) -> bool:
    return value is None or _is_number(value)


def _is_list(value: object, check: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(check, value))


_COUNTS = ("received", "lost", "reordered", "duplicates", "first_ns", "last_ns")
_BLOCKS = ("received", "least_us", "mean_us", "most_us")
_MOST = 1e15
"""No time of a probe is longer, in any unit."""


def _turns_right(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) <= (b[1] - a[1]) * (c[0] - a[0])


def capacity_bps(steps: list[Step], direction: str) -> tuple[float, Step] | None:
    """Return what a path carried when it was full, and the lowest rate at which it was; none: it never was.

    Raises:
        InputError: nothing was measured in this direction.
    """
    own = [step for step in steps if step.direction == direction]
    if not own:
        raise InputError(f"nothing was measured {direction}")
    full = sorted((step for step in own if step.is_full(own)), key=lambda step: step.offered_bps)
    return (full[0].received_bps, full[0]) if full else None
