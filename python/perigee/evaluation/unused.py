# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Whether a window that is not used stays within bounds: one run of the criterion `limited`, for `perigee cc check`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from perigee.core import native
from perigee.engines.plan.contract import Engine
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.evaluation.further import FURTHER
from perigee.evaluation.limited import IN_FLIGHT
from perigee.evaluation.studies import key_of, study_of
from perigee.evaluation.tables import Tables
from perigee.store.results import Results

LARGEST = 5 * IN_FLIGHT
"""Window that an algorithm may reach while an application has `IN_FLIGHT` packets in flight, packets."""


def unused_window(path: Path, engine: Engine) -> int:
    """Return the largest window while an application sends 20 kB at a time for a minute, packets.

    Args:
        path: an author's C file, which compiles.
        engine: the simulator.

    Raises:
        InputError: the file is no algorithm.
        RunError: its code failed.
    """
    criterion = next(one for one in FURTHER if one.id == "limited")
    file = path.resolve()
    settings = ["experiments=responses", "rounds=1", f"vary.{key_of(criterion)}={file}"]
    with tempfile.TemporaryDirectory(prefix=native.scratch_prefix("check")) as folder:
        out = Path(folder) / "responses"
        carry_out(Job(study_of(criterion), engine, settings, reduced=True, out=out, workers=1))
        return int(Tables(Results(out), {}).series("responses")["cwnd_packets"].max())  # type: ignore[arg-type]
