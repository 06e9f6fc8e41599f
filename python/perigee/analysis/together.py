# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files of the same minutes: their order in time, and pings without load apart from those beside transfers.

Files are placed by the times of day in them, as the clocks of their hosts were set; nobody compares these. A file
without a time of day stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from perigee.numbers import number
from perigee.store.small_flows import is_small

EDGE_S = 1.0
"""Pings sent this near the begin or end of a transfer are neither idle nor loaded: iperf3 notes its begin to the
second, and queues need time to empty; chosen."""
PHASES = ("idle", "loaded", "after")
"""Pings before all transfers, beside one, and between or after them, when queues may still be emptying."""
_NOTED_AT_THE_ANSWER = ("ping", "fping")


@dataclass(frozen=True)
class Placed:
    """A file, or a measurement in one.

    Attributes:
        name: its name.
        system: the program that wrote it.
        began_s: time of day of its time zero, s since 1970; none: it does not say.
        flows: its rows of the table `flows`.
        exchanges: its rows of the table `exchanges`.
    """

    name: str
    system: str
    began_s: float | None
    flows: pl.DataFrame
    exchanges: pl.DataFrame

    @property
    def span_s(self) -> tuple[float, float] | None:
        """Begin and end, s since 1970; none: not known."""
        ends = (self.flows["start_s"].fill_null(0.0) + self.flows["duration_s"].fill_null(0.0)).max()
        if self.began_s is None or not isinstance(ends, float):
            return None
        return self.began_s + float(self.flows["start_s"].fill_null(0.0).min()), self.began_s + ends  # type: ignore[arg-type]


@dataclass(frozen=True)
class Pings:
    """Pings of a part of a log.

    Attributes:
        sent: how many.
        lost: of them.
        median_ms: median round trip; none: no answer.
        p95_ms: 95th percentile.
    """

    sent: int
    lost: int
    median_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True)
class Beside:
    """Pings of a flow, apart by load.

    Attributes:
        file: where they are.
        flow: the flow.
        transfers: files of the transfers that were under way.
        phases: the pings of each of `PHASES`.
    """

    file: str
    flow: str
    transfers: tuple[str, ...]
    phases: Mapping[str, Pings]

    @property
    def sentence(self) -> str:
        """The round trips in words."""
        said = [f"{name}: {_trips(self.phases[name])}" for name in ("idle", "loaded") if self.phases[name].sent]
        return f"{self.file}, {self.flow}: {'; '.join(said)} (beside {', '.join(self.transfers)})"


def common(files: Sequence[Placed]) -> tuple[float, float] | None:
    """Return the time that all files with a time of day have in common, s since 1970; none: there is none."""
    spans = [file.span_s for file in files if file.span_s is not None]
    if not spans:
        return None
    begin, end = max(begin for begin, _ in spans), min(end for _, end in spans)
    return (begin, end) if begin < end else None


def beside(files: Sequence[Placed]) -> list[Beside]:
    """Return the pings of each file beside the transfers of all files that can be placed with it."""
    found = []
    for file in files:
        if file.exchanges.is_empty():
            continue
        others = [other for other in files if other is file or None not in (other.began_s, file.began_s)]
        busy = [(other.name, span) for other in others for span in _transfers(other, file.began_s)]
        for (flow,), own in file.exchanges.group_by("flow", maintain_order=True):
            if (one := _apart(file, str(flow), own, busy)) is not None:
                found.append(one)
    return found


def in_words(files: Sequence[Placed]) -> Iterator[str]:
    """Yield sentences on the order of files, and on pings beside transfers."""
    if len(files) > 1:
        known = sorted((span, file.name) for file in files if (span := file.span_s) is not None)
        if known:
            yield "in time (UTC): " + ", ".join(f"{name} {_clock(*span)}" for span, name in known)
        if len(known) > 1:
            span = common(files)
            yield "common to these: " + ("no time" if span is None else f"{_clock(*span)}")
        if unknown := [file.name for file in files if file.span_s is None]:
            yield f"without a time of day, so beside none of the others: {', '.join(unknown)}"
    for one in beside(files):
        yield one.sentence


def as_json(files: Sequence[Placed]) -> dict[str, Any]:
    """Return the order of files and pings beside transfers, for JSON; what is not known is null."""
    known = sorted((span, file.name) for file in files if (span := file.span_s) is not None)
    span = common(files)
    return {
        "order": [{"file": name, "began_unix_s": begin, "ended_unix_s": end} for (begin, end), name in known],
        "common": None if span is None else {"began_unix_s": span[0], "ended_unix_s": span[1]},
        "without_time_of_day": [file.name for file in files if file.span_s is None],
        "pings": [
            {"file": one.file, "flow": one.flow, "beside": list(one.transfers)}
            | {name: vars(pings) for name, pings in one.phases.items()}
            for one in beside(files)
        ],
    }


def _transfers(file: Placed, base_s: float | None) -> list[tuple[float, float]]:
    """Return begin and end of each transfer of a file, s after the time of day `base_s`, or after its own time zero."""
    shift = 0.0 if base_s is None or file.began_s is None else file.began_s - base_s
    own = file.flows.filter((pl.col("kind") != "ping") & ~is_small() & (pl.col("duration_s") > 0))
    return [(shift + begin, shift + begin + took) for begin, took in own.select("start_s", "duration_s").iter_rows()]


def _apart(
    file: Placed, flow: str, own: pl.DataFrame, busy: Sequence[tuple[str, tuple[float, float]]]
) -> Beside | None:
    rtt_ms = own["duration_ms"].cast(pl.Float64).to_numpy()
    sent_s = own["start_s"].to_numpy().astype(float)
    if file.system.split(" ")[0].lower() in _NOTED_AT_THE_ANSWER:
        sent_s = sent_s - np.nan_to_num(rtt_ms) / 1000
    spans = np.array([span for _, span in busy], float).reshape(-1, 2)
    near = np.zeros(len(sent_s), bool)
    loaded = np.zeros(len(sent_s), bool)
    for begin, end in spans:
        near |= (np.abs(sent_s - begin) < EDGE_S) | (np.abs(sent_s - end) < EDGE_S)
        loaded |= (sent_s >= begin + EDGE_S) & (sent_s <= end - EDGE_S)
    if not loaded.any():
        return None
    idle = (sent_s < spans[:, 0].min() - EDGE_S) & ~loaded
    phases = {"idle": idle, "loaded": loaded, "after": ~(idle | loaded | near)}
    names = tuple(
        dict.fromkeys(name for name, (begin, end) in busy if bool(((sent_s >= begin) & (sent_s <= end)).any()))
    )
    return Beside(file.name, flow, names, {name: _pings(rtt_ms[which]) for name, which in phases.items()})


def _pings(rtt_ms: np.ndarray[Any, np.dtype[np.float64]]) -> Pings:
    known = rtt_ms[np.isfinite(rtt_ms)]
    median, p95 = (float(np.quantile(known, share)) if len(known) else None for share in (0.5, 0.95))
    return Pings(len(rtt_ms), len(rtt_ms) - len(known), median, p95)


def _trips(pings: Pings) -> str:
    lost = f"{pings.lost} of {pings.sent} lost"
    if pings.median_ms is None or pings.p95_ms is None:
        return lost
    return f"median {number(pings.median_ms, 1)} ms (95 %: {number(pings.p95_ms, 1)} ms), {lost}"


def _clock(begin_s: float, end_s: float) -> str:
    begin, end = (datetime.fromtimestamp(at, UTC) for at in (begin_s, end_s))
    last = f"{end:%H:%M:%S}" if begin.date() == end.date() else f"{end:%Y-%m-%d %H:%M:%S}"
    return f"{begin:%Y-%m-%d %H:%M:%S} to {last} ({number(end_s - begin_s, 0)} s)"
