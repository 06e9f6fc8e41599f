# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A log of BBR's states: a row per acknowledgement, in bytes and seconds, whatever implementation wrote it."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

CODES = {"startup": 0, "drain": 1, "down": 2, "cruise": 3, "refill": 4, "up": 5, "probe_rtt": 6}
"""States, by their names in logs and cases; in expressions they are written in capitals."""

COLUMNS = {
    "t": "s, since the first packet",
    "state": "startup, drain, down, cruise, refill, up or probe_rtt, after the acknowledgement was processed",
    "pacing_gain": "BBR.pacing_gain",
    "cwnd_gain": "BBR.cwnd_gain",
    "max_bw": "BBR.max_bw, bytes/s of payload",
    "bw": "BBR.bw, bytes/s",
    "bw_shortterm": "BBR.bw_shortterm, bytes/s; `inf`: none",
    "bw_latest": "BBR.bw_latest, bytes/s",
    "inflight_longterm": "BBR.inflight_longterm, bytes; `inf`: none",
    "inflight_shortterm": "BBR.inflight_shortterm, bytes; `inf`: none",
    "inflight_latest": "BBR.inflight_latest, bytes",
    "min_rtt": "BBR.min_rtt, s",
    "probe_rtt_min": "BBR.probe_rtt_min_delay, s",
    "extra_acked": "BBR.extra_acked, bytes",
    "round": "BBR.round_count",
    "full_bw": "BBR.full_bw, bytes/s",
    "full_bw_count": "BBR.full_bw_count",
    "full_bw_now": "BBR.full_bw_now, 0 or 1",
    "full_bw_reached": "BBR.full_bw_reached, 0 or 1",
    "rounds_since_probe": "BBR.rounds_since_bw_probe",
    "up_rounds": "BBR.bw_probe_up_rounds",
    "probe_wait": "BBR.bw_probe_wait, s",
    "prior_cwnd": "BBR.prior_cwnd, bytes",
    "idle_restart": "BBR.idle_restart, 0 or 1",
    "cwnd": "the congestion window, bytes",
    "pacing_rate": "bytes/s of payload",
    "inflight": "bytes in flight",
    "delivered": "bytes delivered so far",
    "lost": "bytes that were taken for lost so far",
    "rtt": "round trip of this acknowledgement, s; `nan`: none",
    "app_limited": "whether packets that leave now give samples limited by the application, 0 or 1",
}
"""Columns of a log. A log may leave some out; checks that need them are then not judged."""


_HEAD = re.compile(r"^# *(?:smss *= *([0-9]+)|event +([a-z0-9-]+) *= *([0-9.e+-]+)) *$")


@dataclass
class Log:
    """A log.

    Attributes:
        columns: arrays of one length, by name; see `COLUMNS`.
        smss: payload of a full segment, bytes.
        events: instants, in seconds, at which the path or the application was changed, by name.
        origin: what it was read from.
    """

    columns: dict[str, npt.NDArray[np.float64]]
    smss: int
    events: dict[str, float] = field(default_factory=dict)
    origin: str = ""

    def __getitem__(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column, or one that follows from others."""
        if name not in self.columns:
            if name not in DERIVED:
                from words import NotInLog

                raise NotInLog(f"the log has no column `{name}`")
            self.columns[name] = DERIVED[name](self)
        return self.columns[name]


def _quantum(log: Log) -> npt.NDArray[np.float64]:
    rate = log["pacing_rate"]
    before = np.concatenate((rate[:1], rate[:-1]))
    return np.maximum(np.minimum(before * 1e-3, 65536), 2 * log.smss)


def _budgeted(log: Log, inflight: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.maximum(inflight, np.maximum(3 * _quantum(log), 4 * log.smss))


def _headroom(log: Log) -> npt.NDArray[np.float64]:
    bound = log["inflight_longterm"]
    finite = np.where(np.isfinite(bound), bound, 0.0)
    return np.where(np.isfinite(bound), np.maximum(finite - np.maximum(0.15 * finite, log.smss), 4 * log.smss), bound)


DERIVED: Mapping[str, Callable[[Log], npt.NDArray[np.float64]]] = {
    "target": lambda log: _budgeted(log, log["bw"] * log["min_rtt"]),
    "target_max": lambda log: _budgeted(log, log["max_bw"] * log["min_rtt"]),
    "headroom": _headroom,
    "bdp": lambda log: log["bw"] * log["min_rtt"],
}
"""`target`: BBRInflight(1.0) by bw, with the offload budget of three quanta at the pacing rate before the
acknowledgement; `target_max`: by max_bw; `headroom`: BBRInflightWithHeadroom();
`bdp`: bw times min_rtt; all in bytes."""


def read_csv(path: Path) -> Log:
    """Return the log in a file of comma-separated values.

    The first line names the columns. Lines before it that begin with `#` have `smss = BYTES` and `event NAME =
    SECONDS`.

    Raises:
        ValueError: the file is none such; the message names line and fix.
    """
    smss, events, begin = 0, {}, 0
    lines = path.read_text(encoding="utf-8").splitlines()
    for begin, line in enumerate(lines):
        if not line.startswith("#"):
            break
        found = _HEAD.match(line)
        if not found:
            raise ValueError(f"{path}:{begin + 1}: write `# smss = BYTES` or `# event NAME = SECONDS`")
        if found[1]:
            smss = int(found[1])
        else:
            events[found[2]] = float(found[3])
    if smss <= 0:
        raise ValueError(f"{path}:1: no `# smss = BYTES`; the payload of a full segment is needed")
    rows = list(csv.reader(lines[begin:]))
    names = [name.strip() for name in rows[0]]
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"{path}:{begin + 1}: unknown column `{name}`; known are {', '.join(COLUMNS)}")
    for name in ("t", "state"):
        if name not in names:
            raise ValueError(f"{path}:{begin + 1}: no column `{name}`")
    values = np.empty((len(names), len(rows) - 1))
    for number, row in enumerate(rows[1:]):
        where = f"{path}:{begin + number + 2}"
        if len(row) != len(names):
            raise ValueError(f"{where}: {len(row)} values for {len(names)} columns")
        for column, (name, text) in enumerate(zip(names, row, strict=True)):
            values[column, number] = _number(name, text.strip(), where)
    if np.any(np.diff(values[names.index("t")]) < 0):
        row_number = int(np.flatnonzero(np.diff(values[names.index("t")]) < 0)[0])
        raise ValueError(f"{path}:{begin + row_number + 3}: time goes back; rows are in the order of time")
    return Log(dict(zip(names, values, strict=True)), smss, events, str(path))


def _number(name: str, text: str, where: str) -> float:
    if name == "state":
        if text not in CODES:
            raise ValueError(f"{where}: `{text}` is no state; known are {', '.join(CODES)}")
        return CODES[text]
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{where}: `{text}` is no number for `{name}`") from None


def write_csv(log: Log, path: Path) -> None:
    """Write a log as `read_csv` reads it."""
    names = [name for name in COLUMNS if name in log.columns]
    states = {code: name for name, code in CODES.items()}
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# smss = {log.smss}\n")
        file.writelines(f"# event {name} = {time:.9f}\n" for name, time in log.events.items())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in zip(*(log[name] for name in names), strict=True):
            writer.writerow(
                states[int(value)] if name == "state" else repr(float(value))
                for name, value in zip(names, row, strict=True)
            )
