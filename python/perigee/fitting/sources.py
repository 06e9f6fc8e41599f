# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs and captures of a path, each read by what it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from perigee.analysis.logs import read as read_logs
from perigee.analysis.recordings import LOGS, kind_of
from perigee.engines.live.under_load import read as read_load
from perigee.errors import InputError
from perigee.fitting.captured import busy, ceilings, transfers_of
from perigee.fitting.fit import Measured, lost_one_way, one_way
from perigee.fitting.series import longest, read_pings
from perigee.measuring.probe import read_log


def measured_by(
    given: Sequence[Path],
    ping: Path | None = None,
    probes: Sequence[Path] = (),
    captures: Sequence[Path] = (),
    loads: Sequence[Path] = (),
) -> Measured:
    """Read logs and captures.

    Args:
        given: files of any kind.
        ping: a log of pings over the idle path.
        probes: logs of `perigee probe`.
        captures: captures and logs of transfers.
        loads: folders of `perigee rrul`.

    Raises:
        InputError: one cannot be read, or is nothing that can be analysed.
    """
    files = {path: kind_of(path) for path in given}
    if found := next((path for path, kind in files.items() if kind == "qlog"), None):
        raise InputError(
            f"{found}: a qlog has one connection as its end saw it, and no link is fitted to that (`perigee analyze` "
            "shows it); give a capture, or logs of pings and transfers"
        )
    logs = {path: read_logs(path) for path, kind in files.items() if kind in LOGS}
    pinged = [path for path, own in logs.items() if any(log.pings for log in own)]
    pings = [read_pings(path) for path in ([ping] if ping else []) + pinged]
    if ping is not None:
        logs[ping] = read_logs(ping)
    carried = [
        path for path, kind in files.items() if kind == "capture" or any(log.flows for log in logs.get(path, ()))
    ]
    spans = busy([*captures, *carried]) if pings else []
    idle = longest([one.without(spans) for one in pings])
    transfers = (ceilings(captures) if captures else []) + (transfers_of(carried) if carried else [])
    if idle is not None:
        least_ms = float(np.nanmin(idle.rtt_ms))
        transfers = [one.above(least_ms) for one in transfers]
    return Measured(
        pings=idle,
        steps=[
            step
            for log in (*probes, *(path for path, kind in files.items() if kind == "probe"))
            for step in read_log(log)
        ],
        captured=transfers,
        loads={folder.name: read_load(folder) for folder in loads},
        one_way=one_way(logs),
        lost=lost_one_way(logs.values()),
    )
