# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of `perigee probe` as tables of results: each rate is a flow of kind `udp`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from perigee import observed
from perigee.errors import InputError
from perigee.probe import read_log
from perigee.probed import Step

MAGIC = b'{"perigee_probe":'
"""How such a log begins."""

_BIN_S = 1.0


def tables(path: Path, study: str) -> tuple[dict[str, pa.Table], tuple[str, ...]]:
    """Return the tables of a log, and notes on it.

    Raises:
        InputError: the log is damaged, or no rate was measured to its end.
    """
    steps = read_log(path)
    if not steps:
        raise InputError(f"{path}: no rate was measured to its end; let `perigee probe` finish one")
    made = observed.tables([])
    began = float(steps[0].record["began_unix_s"])
    flows, series = [], []
    for place, step in enumerate(steps, 1):
        name = f"{place}: {step.direction} {step.offered_bps / 1e6:g} Mbit/s"
        rates = _payload_mbps(step)
        flows.append(_flow(made["flows"].schema, study, name, step, began, rates))
        series += _series(made["series"].schema, name, step, rates)
    made["flows"] = pa.Table.from_pylist(flows, schema=made["flows"].schema)
    made["series"] = pa.Table.from_pylist(series, schema=made["series"].schema)
    late = [step for step in steps if step.late_s]
    notes = (f"the sender of {len(late)} rates fell behind, so that less was sent than asked for",) if late else ()
    return made, notes


def _flow(
    schema: pa.Schema, study: str, name: str, step: Step, began: float, rates: np.typing.NDArray[np.float64]
) -> dict[str, Any]:
    report = step.record["report"]
    length = (report["last_ns"] - report["first_ns"]) / 1e9
    received = step.received * _payload(step)
    ends = ("here", "there") if step.direction == "up" else ("there", "here")
    quantiles = np.quantile(rates, (0.1, 0.5, 0.9)) if len(rates) else (None, None, None)
    return observed.blank(schema) | {
        "study": study, "point": "{}", "cc_params": "{}", "flow": name, "kind": "udp", "from_node": ends[0],
        "to_node": ends[1], "start_s": float(step.record["began_unix_s"]) - began, "duration_s": length,
        "completed": True, "outcome": "completed", "bytes": received, "received_bytes": received,
        "goodput_mbps": received * 8e-6 / length if length > 0 else 0.0,
        **dict(zip(("goodput_p10_mbps", "goodput_p50_mbps", "goodput_p90_mbps"), quantiles, strict=True)),
        "sent_packets": step.sent, "lost_packets": step.lost,
    }  # fmt: skip


def _series(schema: pa.Schema, name: str, step: Step, rates: np.typing.NDArray[np.float64]) -> list[dict[str, Any]]:
    start = observed.blank(schema) | {"flow": name}
    return [start | {"t_s": (place + 1) * _BIN_S, "goodput_mbps": rate} for place, rate in enumerate(rates.tolist())]


def _payload_mbps(step: Step) -> np.typing.NDArray[np.float64]:
    return step.arrived_per(_BIN_S) / 1e6 * _payload(step) / step.packet


def _payload(step: Step) -> int:
    return step.packet - int(step.record.get("headers", 28))
