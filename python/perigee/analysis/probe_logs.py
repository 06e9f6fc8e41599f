# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Read logs of `perigee probe` into tables of results: each rate is a flow of kind `udp`."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

from perigee.analysis import observations
from perigee.analysis.observations import FlowDescription, Measure, Observation
from perigee.errors import InputError
from perigee.measuring.probe import read_log
from perigee.measuring.probe_steps import Step

MAGIC = b'{"perigee_probe":'
"""The first bytes of such a log."""


def tables(path: Path, study: str) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the tables of a log, and notes on it.

    Raises:
        InputError: the log is damaged, or no rate was measured to its end.
    """
    steps = read_log(path)
    if not steps:
        raise InputError(f"{path}: no rate was measured to its end; let `perigee probe` finish one")
    began = float(steps[0].record["began_unix_s"])
    flows = []
    for place, step in enumerate(steps, 1):
        name = f"{place}: {step.direction} {step.offered_bps / 1e6:g} Mbit/s"
        try:
            flows.append((_description(study, name, step), _MEASURE, _observation(step, began)))
        except ValueError as error:
            raise InputError(f"{path}: rate {place} was not measured so: {error}; remove its line") from error
    late = [step for step in steps if step.late_s]
    notes = (f"the sender of {len(late)} rates fell behind, so that less was sent than asked for",) if late else ()
    return observations.tables(flows), notes


def _description(study: str, name: str, step: Step) -> FlowDescription:
    ends = ("here", "there") if step.direction == "up" else ("there", "here")
    return FlowDescription(study, name, "udp", *ends, engine="", lost_packets=step.lost)


def _observation(step: Step, began: float) -> Observation:
    """Return the payload that arrived in each block of time; the last block ends with the last packet."""
    report = step.record["report"]
    duration_ns = report["last_ns"] - report["first_ns"]
    start_s = max(0.0, float(step.record["began_unix_s"]) - began)
    payload = step.packet - int(step.record.get("headers", _HEADERS))
    in_range = {
        "`headers`": payload >= 0,
        "`received`": step.received * payload < _MOST,
        "`last_ns`": 0 <= duration_ns <= _LONGEST_S * _NS_PER_S,
        "`began_unix_s`": start_s <= _LONGEST_S,
    }
    if wrong := [name for name, right in in_range.items() if not right]:
        raise ValueError(f"{wrong[0]} is out of range")
    arrived = accumulate(report["arrivals"][:-1])
    block_ns = step.interval_s * _NS_PER_S
    ends = [(min(round(place * block_ns), duration_ns), packets) for place, packets in enumerate(arrived, 1)]
    arrivals = [(at, min(packets, step.received) * payload) for at, packets in ends if at < duration_ns]
    return Observation(
        duration_ns=duration_ns,
        arrivals=[*arrivals, (duration_ns, step.received * payload)],
        start_ns=round(start_s * _NS_PER_S),
        sent_packets=step.sent,
    )


_MEASURE = Measure(steady=None, rtt_bin_ns=None)
_HEADERS = 28
"""Bytes of the headers of a packet over IPv4."""
_NS_PER_S = 1_000_000_000
_LONGEST_S = 30 * 24 * 3600
"""Longer probes are a damaged log."""
_MOST = 1 << 63
