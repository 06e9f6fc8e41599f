# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Whether a window that is not used stays within bounds: runs of the criterion `limited`, for `perigee cc check`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from perigee.engines.plan.contract import Engine
from perigee.engines.run.job import Job
from perigee.evaluation.further import FURTHER
from perigee.evaluation.limited import IN_FLIGHT
from perigee.evaluation.studies import key_of, study_of
from perigee.evaluation.tables import Tables
from perigee.keeper.kept import results_folder, results_of

LARGEST = 5 * IN_FLIGHT
"""Window that an algorithm may reach while an application has `IN_FLIGHT` packets in flight, packets."""
_RTT = "vary.rtt=50 ms"
_LOSS = 'links.path.loss={ kind = "periodic", period = "1000 s", phase = "2 s", length = "120 ms" }'
"""Longer than a response and its pause, so that one is lost: the rest of the minute is congestion avoidance."""
_RECOVERED_S = 4.0
"""When the loss is repaired, and the window that was before it gone."""


def unused_windows(path: Path, engine: Engine) -> tuple[int, int]:
    """Return the largest windows while an application sends 20 kB at a time for a minute, packets.

    The first is of a minute without loss, which a usual algorithm spends in slow start; the second of a minute with one
    loss after 2 s, from 4 s on.

    Args:
        path: an author's C file, which compiles.
        engine: the simulator.

    Raises:
        InputError: the file is no algorithm.
        RunError: its code failed.
    """
    without = _windows(path, engine, _RTT)
    after = _windows(path, engine, _RTT, _LOSS).filter(pl.col("t_s") >= _RECOVERED_S)
    return tuple(int(series["cwnd_packets"].max()) for series in (without, after))  # type: ignore[arg-type,return-value]


def _windows(path: Path, engine: Engine, *more: str) -> pl.DataFrame:
    criterion = next(one for one in FURTHER if one.id == "limited")
    settings = ["experiments=responses", "rounds=1", f"vary.{key_of(criterion)}={path.resolve()}", *more]
    with results_folder(None, "") as folder:
        job = Job(study_of(criterion), engine, settings, reduced=True, out=folder / "responses", workers=1)
        return Tables(results_of(job), {}).series("responses")
