# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs as qlog: a JSON text sequence (RFC 7464) of recovery events, with BBR's own values beside those of the schema.

Events are those of draft-ietf-quic-qlog-quic-events: `recovery:metrics_updated` per acknowledgement, with what has
changed, and
`recovery:congestion_state_updated` per change of state. BBR's values are in a table `bbr` of the metrics, by the
names and units of a log's
columns (`states.COLUMNS`); `null` stands for a bound that is not set. Changes of the path are events `loglevel:info`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from states import CODES, COLUMNS, Log

RECORD = "\x1e"
"""The first byte of each record of a JSON text sequence."""

STANDARD: Mapping[str, tuple[str, Callable[[float], float], Callable[[float], float]]] = {
    "min_rtt": ("min_rtt", lambda s: s * 1e3, lambda ms: ms / 1e3),
    "rtt": ("latest_rtt", lambda s: s * 1e3, lambda ms: ms / 1e3),
    "cwnd": ("congestion_window", lambda x: x, lambda x: x),
    "inflight": ("bytes_in_flight", lambda x: x, lambda x: x),
    "pacing_rate": ("pacing_rate", lambda x: x * 8, lambda x: x / 8),
}
"""Columns that qlog has a name for: the name, and the way into its unit (ms, bytes, bits/s) and back."""

OWN = [name for name in COLUMNS if name not in STANDARD and name not in ("t", "state")]
"""Columns that go into the table `bbr`."""


def write_qlog(log: Log, path: Path) -> None:
    """Write a log as qlog 0.3 in the serialisation JSON-SEQ (`.sqlog`)."""
    with path.open("w", encoding="utf-8") as file:
        for record in _records(log):
            file.write(RECORD + json.dumps(record, separators=(",", ":")) + "\n")


def _records(log: Log) -> Iterator[dict[str, Any]]:
    yield {
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": log.origin,
        "trace": {
            "vantage_point": {"type": "server"},
            "common_fields": {"ODCID": "00", "time_format": "relative", "reference_time": 0, "smss": log.smss},
        },
    }
    names = {code: name for name, code in CODES.items()}
    columns = {name: log[name].tolist() for name in COLUMNS if name in log.columns}
    marks = sorted((time * 1e3, name) for name, time in log.events.items())
    last: dict[str, float] = {}
    state = None
    for row, time in enumerate(columns["t"]):
        ms = time * 1e3
        while marks and marks[0][0] <= ms:
            at, name = marks.pop(0)
            yield {"time": at, "name": "loglevel:info", "data": {"code": 0, "message": name}}
        here = names[int(columns["state"][row])]
        if here != state:
            yield {"time": ms, "name": "recovery:congestion_state_updated", "data": {"old": state or "", "new": here}}
            state = here
        changed = {
            name: value
            for name, values in columns.items()
            if name not in ("t", "state") and not _same(value := values[row], last.get(name))
        }
        last |= changed
        data = {STANDARD[n][0]: STANDARD[n][1](v) for n, v in changed.items() if n in STANDARD and math.isfinite(v)}
        own = {n: v if math.isfinite(v) else None for n, v in changed.items() if n in OWN}
        yield {"time": ms, "name": "recovery:metrics_updated", "data": data | ({"bbr": own} if own else {})}


def _same(value: float, before: float | None) -> bool:
    return before is not None and (value == before or (math.isnan(value) and math.isnan(before)))


def read_qlog(path: Path) -> Log:
    """Return the log in a qlog file, of this program or of an implementation that writes the same tables.

    An acknowledgement is a `recovery:metrics_updated`; what it does not name keeps its value.

    Raises:
        ValueError: the file is none such; the message names record and fix.
    """
    records = [text for text in path.read_text(encoding="utf-8").split(RECORD) if text.strip()]
    rows: list[dict[str, float]] = []
    now: dict[str, float] = {}
    smss, events = 0, {}
    for number, text in enumerate(records, 1):
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, record {number}: no JSON ({error}); write a JSON text sequence") from None
        if "trace" in record:
            smss = int(record["trace"].get("common_fields", {}).get("smss", 0))
            continue
        data, name = record.get("data", {}), record.get("name", "")
        if name == "recovery:congestion_state_updated":
            if data.get("new") not in CODES:
                raise ValueError(f"{path}, record {number}: `{data.get('new')}` is no state; known: {', '.join(CODES)}")
            now["state"] = CODES[data["new"]]
        elif name == "loglevel:info":
            events[str(data.get("message"))] = float(record["time"]) / 1e3
        elif name == "recovery:metrics_updated" and "state" in now:
            now |= {ours: back(float(data[theirs])) for ours, (theirs, _, back) in STANDARD.items() if theirs in data}
            bbr = data.get("bbr", {})
            now |= {key: math.inf if bbr[key] is None else float(bbr[key]) for key in OWN if key in bbr}
            rows.append(now | {"t": float(record["time"]) / 1e3})
    if smss <= 0:
        raise ValueError(f"{path}: no `smss` in common_fields; the payload of a full segment, in bytes, is needed")
    if not rows:
        raise ValueError(f"{path}: no recovery:metrics_updated after a recovery:congestion_state_updated")
    names = [name for name in COLUMNS if all(name in row for row in rows[-1:])]
    columns = {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}
    return Log(columns, smss, events, str(path))
