# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Makes a study of a case in a cell, carries it out, and returns its log.

An event may be at an instant that the algorithm decides, such as the entry into DRAIN. The simulator is
deterministic: what
precedes an event does not depend on it. So the case is carried out with the events that are known, the log says
when the next one
is, and the case is carried out again with that one too.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from case import Case, Cell, Event
from states import CODES, Log
from words import NotInLog, duration, instant, split_offset

import perigee
from perigee.toml import document

STATES = {
    "startup": "startup",
    "drain": "drain",
    "probe_bw_down": "down",
    "probe_bw_cruise": "cruise",
    "probe_bw_refill": "refill",
    "probe_bw_up": "up",
    "probe_rtt": "probe_rtt",
}
"""Names of states in the results of a study, and in logs."""


@dataclass(frozen=True)
class Timed:
    """An event whose instant is known, s."""

    event: Event
    at_s: float


def carry_out(case: Case, cell: Cell, cc: object = "bbr3", folder: Path | None = None) -> Log:
    """Return the log of a case in a cell, an entry per acknowledgement.

    Args:
        case: the case.
        cell: the cell.
        cc: the congestion control, as a study names it: a name, a file, or a table of name and parameters.
        folder: gets the study, `study.toml`, and its timelines; none: they are not kept.

    Raises:
        NotInLog: an event refers to something that did not happen.
    """
    known: list[Timed] = []
    log: Log | None = None
    for event in case.events:
        base, offset = split_offset(event.at)
        if base == "start" or any(base == timed.event.name for timed in known):
            times = {timed.event.name: timed.at_s for timed in known} | {"start": 0.0}
            known.append(Timed(event, times[base] + (duration(offset, cell.units) if offset else 0.0)))
            continue
        if log is None or _is_touched(base, log, cell, known):
            log = _run(case, cell, cc, known, "changes", None)
        known.append(Timed(event, instant(event.at, log, cell.units)))
    return _run(case, cell, cc, known, "every", folder)


def _is_touched(base: str, log: Log, cell: Cell, known: Sequence[Timed]) -> bool:
    """Whether an event that the log does not have comes before the instant."""
    missing = [timed.at_s for timed in known if timed.event.name not in log.events]
    try:
        return bool(missing) and instant(base, log, cell.units) > min(missing)
    except NotInLog:
        return True


def _run(case: Case, cell: Cell, cc: object, known: Sequence[Timed], states: str, kept: Path | None) -> Log:
    with tempfile.TemporaryDirectory(prefix="perigee-bbr3-") as name:
        folder = Path(name) if kept is None else kept
        content = study_of(case, cell, cc, known, states, folder)
        if kept is not None:
            (kept / "study.toml").write_text(document(content), encoding="utf-8")
        study = perigee.Study.from_dict(content, folder)
        with study.run(jobs=1, out=Path(name) / "results") as results:
            log = from_results(results.states, cell.smss)
    log.events = {timed.event.name: timed.at_s for timed in known}
    log.origin = f"{case} {cell}"
    return log


def study_of(case: Case, cell: Cell, cc: object, known: Sequence[Timed], states: str, folder: Path) -> dict[str, Any]:
    """Return the study of a case in a cell; its timelines and recordings are written into the folder."""
    share = float(case.path.get("rate", 1.0))
    # At 1 ms the first pacing rate, 2.77 first windows per round trip, lets three quanta of 26 packets out until
    # the pipe is full.
    depth = float(case.path["queue"])
    queue_bytes = max(depth * cell.rate_bps * cell.base_s / 8, (200 if depth >= 10 else 20) * cell.mtu)
    buffer = min(max(16 * cell.rate_bps * cell.base_s / 8, 8e6), 1.9e9)
    down: dict[str, Any] = {"queue": _bytes(queue_bytes)}
    if "burst" in case.path:
        down["queue"] = _bytes(cell.mtu)
        down["burst"] = _bytes(max(duration(case.path["burst"], cell.units) * cell.rate_bps / 8, 2 * cell.mtu))
    (folder / "path.csv").write_text(_timeline(cell, share, known), encoding="utf-8")
    down["timeline"] = "path.csv"
    drops = [_drop(timed, case, cell) for timed in known if "drop" in timed.event.changes]
    if drops:
        down["loss"] = {"kind": "counted", "least": _bytes(0.9 * cell.mtu), "drops": drops}
    up: dict[str, Any] = {"rate": "400 Gbit/s", "delay": "0 s"}
    if "acks" in case.path:
        (folder / "acks.txt").write_text(_ack_bursts(case, cell), encoding="utf-8")
        up["rate"] = {"trace": "./acks.txt"}
    flow: dict[str, Any] = {
        "name": "flow",
        "from": "server",
        "to": "client",
        "cc": cc,
        "duration": _seconds(case.length_s(cell)),
    }
    flow |= _offered(case, cell, known)
    detours = [timed for timed in known if "detour" in timed.event.changes]
    study: dict[str, Any] = {
        "name": f"bbr3-{case.number:02}",
        "time_limit": _seconds(case.length_s(cell) + 1),
        "nodes": ["server", "gate", "client"],
        "measure": {"series": "off", "steady": "off", "rtt": False, "states": states},
        "hosts": {
            "mss": _bytes(cell.mtu - 40),
            "rmem": ["4096 B", _bytes(buffer), _bytes(buffer)],
            "wmem": ["4096 B", *2 * [_bytes(_send_buffer(case, cell, buffer))]],
            "segment_memory": _bytes(_memory(cell.smss)),
            "slow_start_after_idle": False,
        },
        "links": [
            {"name": "path", "between": ["server", "gate"], "down": down, "up": up},
            {"name": "air", "between": ["gate", "client"], "rate": "400 Gbit/s", "delay": "0 s"},
        ],
        "flows": [flow],
    }
    for timed in detours:
        name = timed.event.name
        extra, length = (duration(timed.event.changes["detour"][key], cell.units) for key in ("extra", "for"))
        study["links"].append(
            {"name": name, "between": ["gate", "client"], "rate": "400 Gbit/s", "delay": _seconds(extra)}
        )
        begin = _seconds(timed.at_s)
        route = {"node": "gate", "to": "client", "via": name, "start": begin, "end": _seconds(timed.at_s + length)}
        study.setdefault("routes", []).append(route)
    return study


def _send_buffer(case: Case, cell: Cell, most: float) -> float:
    """Return the size of the send buffer, in bytes of memory.

    Where the application becomes slower, what waits there has to leave first: it holds no more than what may be in
    flight then.
    """
    if all("app" not in event.changes for event in case.events):
        return most
    return min(_memory(max(2.7 * cell.bdp_bytes, 16 * cell.smss)), most)


def _memory(payload: float) -> float:
    """Return the memory that payload takes, bytes: 2304 for a segment of 1448."""
    return payload * 2304 / 1448


def _timeline(cell: Cell, share: float, known: Sequence[Timed]) -> str:
    """Return rate and delay of the bottleneck, as a timeline: the whole round trip is on the way to the receiver."""
    state = (share, cell.rtt_s)
    rows = {0.0: state}
    for timed in sorted(known, key=lambda one: one.at_s):
        changes = timed.event.changes
        if "rate" in changes or "shorter" in changes:
            delay = cell.shorter_s(changes["shorter"]) if "shorter" in changes else state[1]
            state = (float(changes.get("rate", state[0])), delay)
            rows[timed.at_s] = state
        if "hold" in changes:
            rows[timed.at_s] = (0.0, state[1])
            rows[timed.at_s + duration(changes["hold"], cell.units)] = state
    lines = ["time_s,rate_mbps,delay_ms"]
    for at, (rate, delay) in sorted(rows.items()):
        lines.append(f"{at:.9f},{rate * cell.rate_bps / 1e6:.9f},{delay * 1e3:.6f}")
    return "\n".join(lines) + "\n"


def _ack_bursts(case: Case, cell: Cell) -> str:
    """Return a recording in which acknowledgements leave once per gap, all that have come until then."""
    gap_ms = max(1, round(duration(case.path["acks"], cell.units) * 1e3))
    room = math.ceil(cell.rate_bps / 8 * gap_ms / 1e3 * 0.2 / 1500) + 2
    return f"{gap_ms}\n" * room


def _drop(timed: Timed, case: Case, cell: Cell) -> dict[str, Any]:
    """Return an entry of scripted losses: each `every`-th packet of a time, or of `packets` of the application."""
    drop = timed.event.changes["drop"]
    if "packets" in drop:
        length = float(drop["packets"]) * cell.packet_s / (case.app or 1.0)
    else:
        length = duration(drop["for"], cell.units)
    return {"from": _seconds(timed.at_s), "to": _seconds(timed.at_s + length), "every": int(drop["every"])}


def _offered(case: Case, cell: Cell, known: Sequence[Timed]) -> dict[str, Any]:
    """Return what the application offers, as shares of the rate in payload; nothing where it always has data."""
    changes = [timed for timed in known if "app" in timed.event.changes]
    if case.app is None and not changes:
        return {}

    def rate(share: float | None) -> str:
        return "unlimited" if share is None else f"{share * cell.payload * 8:.0f} bit/s"

    rows = [{"rate": rate(case.app), "at": "0 s"}]
    for timed in sorted(changes, key=lambda one: one.at_s):
        share = timed.event.changes["app"]
        rows.append({"rate": rate(None if share == "unlimited" else float(share)), "at": _seconds(timed.at_s)})
    return {"offered": rows}


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e9:.0f} ns"


def _bytes(size: float) -> str:
    return f"{size:.0f} B"


def from_results(table: pl.DataFrame, smss: int) -> Log:
    """Return the log of a `states` table: bytes and seconds in place of packets, bits and microseconds."""
    packets, bits, us, percent = float(smss), 1 / 8, 1e-6, 1e-2
    columns: dict[str, npt.NDArray[np.float64]] = {}
    for name, (source, scale, empty) in {
        "t": ("t_s", 1.0, math.nan),
        "pacing_gain": ("pacing_gain_percent", percent, math.nan),
        "cwnd_gain": ("cwnd_gain_percent", percent, math.nan),
        "max_bw": ("max_bw_bps", bits, math.nan),
        "bw": ("bw_bps", bits, math.nan),
        "bw_shortterm": ("bw_shortterm_bps", bits, math.inf),
        "bw_latest": ("bw_latest_bps", bits, math.nan),
        "inflight_longterm": ("inflight_longterm_packets", packets, math.inf),
        "inflight_shortterm": ("inflight_shortterm_packets", packets, math.inf),
        "inflight_latest": ("inflight_latest_packets", packets, math.nan),
        "min_rtt": ("min_rtt_us", us, math.inf),
        "probe_rtt_min": ("probe_rtt_min_delay_us", us, math.inf),
        "extra_acked": ("extra_acked_packets", packets, math.nan),
        "round": ("round_count", 1.0, math.nan),
        "full_bw": ("full_bw_bps", bits, math.nan),
        "full_bw_count": ("full_bw_count", 1.0, math.nan),
        "full_bw_now": ("full_bw_now", 1.0, math.nan),
        "full_bw_reached": ("full_bw_reached", 1.0, math.nan),
        "rounds_since_probe": ("rounds_since_probe_up", 1.0, math.nan),
        "up_rounds": ("bw_probe_up_rounds", 1.0, math.nan),
        "probe_wait": ("bw_probe_wait_us", us, math.nan),
        "prior_cwnd": ("prior_cwnd_packets", packets, math.nan),
        "idle_restart": ("idle_restart", 1.0, math.nan),
        "cwnd": ("cwnd_packets", packets, math.nan),
        "pacing_rate": ("pacing_mbps", 1e6 / 8, math.nan),
        "inflight": ("inflight_packets", packets, math.nan),
        "delivered": ("delivered_packets", packets, math.nan),
        "lost": ("lost_packets", packets, math.nan),
        "rtt": ("rtt_ms", 1e-3, math.nan),
        "app_limited": ("app_limited", 1.0, math.nan),
    }.items():
        columns[name] = table[source].cast(pl.Float64).fill_null(empty).to_numpy() * scale
    names: Mapping[str, int] = {long: CODES[short] for long, short in STATES.items()}
    columns["state"] = table["state"].replace_strict(names, return_dtype=pl.Float64).to_numpy()
    return Log(columns, smss)
