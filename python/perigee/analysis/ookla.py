# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results of Ookla's Speedtest (`speedtest --format=json` or `jsonl`): figures of a download and an upload."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from perigee.analysis.documents import Documents, amount, documents, table, whole
from perigee.analysis.log import Flow, Log
from perigee.analysis.observations import Observation
from perigee.analysis.source import Source
from perigee.errors import InputError
from perigee.files import DOCUMENT_BYTES

_NS_PER_MS = 1_000_000
_BITS = 8e-6


def is_of_ookla(document: Mapping[str, Any]) -> bool:
    """Whether an object is a result of Ookla's.

    Examples:
        >>> is_of_ookla({"type": "result", "download": {"bandwidth": 1, "bytes": 2, "elapsed": 3}})
        True
    """
    return any("bandwidth" in table(document.get(way)) for way in ("download", "upload"))


def read(path: Path) -> list[Log]:
    """Read results; each is a measurement.

    Raises:
        InputError: it cannot be read, or holds no result.
    """
    source = Source(path)
    made = documents(source.text(DOCUMENT_BYTES, "Ookla's JSON"))
    results = [one for one in made.found if is_of_ookla(one) and one.get("type", "result") == "result"]
    logs = [log for one in results if (log := _log(one, made)) is not None]
    if not logs:
        raise InputError(f"{path}: holds no result of Ookla's Speedtest; let it end, with --format=json")
    return logs


def _log(result: Mapping[str, Any], made: Documents) -> Log | None:
    flows, told = [], []
    for way, upload in (("download", False), ("upload", True)):
        about = table(result.get(way))
        carried, took, rate = (whole(about.get(key)) for key in ("bytes", "elapsed", "bandwidth"))
        if not carried or not took:
            continue
        waits = table(about.get("latency"))
        seen = Observation(took * _NS_PER_MS, [(took * _NS_PER_MS, carried)])
        figures = (amount(waits.get("low")), amount(waits.get("iqm")), None)
        flows.append(Flow(way, "bulk", upload, "", seen, "completed", rtt_ms=figures if any(figures) else None))
        if rate is not None:
            told.append(f"{way} {_BITS * rate:.4g} Mbit/s")
    if not flows:
        return None
    idle = table(result.get("ping"))
    notes = [*made.notes]
    if told:
        notes.append(f"Ookla says {' and '.join(told)}, without the slow beginning; here are all bytes over all time")
    if (latency := amount(idle.get("latency"))) is not None:
        least = amount(idle.get("low"))
        low = "" if least is None else f", {least:g} ms at least"
        notes.append(f"round trip without load: {latency:g} ms{low}; those of the transfers are under load")
    if (loss := amount(result.get("packetLoss"))) is not None:
        notes.append(f"packets lost: {loss:.3g} %, by Ookla's own datagrams")
    notes.append("figures only: nothing over time, no packets")
    return Log(
        "Ookla Speedtest", tuple(flows), began_s=_began(result.get("timestamp")), notes=tuple(notes),
        damage=tuple(made.damage),
    )  # fmt: skip


def _began(said: object) -> float | None:
    try:
        return datetime.fromisoformat(str(said).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
