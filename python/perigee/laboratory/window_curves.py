# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The congestion window of each algorithm over one geostationary link, as pictures; simulated once per version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from perigee.cc.catalog import algorithms
from perigee.engines.plan.native import native_plan
from perigee.files import MIB, read_bounded, write_atomically
from perigee.places import StudyFile, data_roots
from perigee.store.streams import frame_of
from perigee.version import __version__

SPAN_S = 90
LINK = "20 Mbit/s, 600 ms round trip, a queue of one bandwidth-delay product"
STUDY = """
name = "windows"
nodes = ["server", "client"]
[measure]
series = "500 ms"
[[links]]
name = "geo"
between = ["server", "client"]
rate = "20 Mbit/s"
delay = "300 ms"
queue = "1.5 MB"
[[flows]]
name = "download"
from = "server"
to = "client"
duration = "SPAN s"
[vary]
"flow.cc" = NAMES
"""
LARGEST = 2.2
"""Window at the top of a picture, bandwidth-delay products."""
BDP_PACKETS = 1.5e6 / 1460


def window_curves(kept: Path | None = None, is_ending: Callable[[], bool] = lambda: False) -> dict[str, str]:
    """Return the window of each algorithm over `SPAN_S`, as points of a picture of 100 x 40.

    Args:
        kept: a folder in which they are looked for, and left for the next time; none: nowhere.
        is_ending: asked before each simulation whether to leave them, and return none.
    """
    names = [one.name for one in algorithms()]
    text = STUDY.replace("SPAN", str(SPAN_S)).replace("NAMES", json.dumps(names))
    path = kept / f"windows-{hashlib.sha256(f'{__version__}{text}'.encode()).hexdigest()[:16]}.json" if kept else None
    if path is not None and path.is_file():
        found: dict[str, str] = json.loads(read_bounded(path, MIB, "curves of windows"))
        return found
    plan = native_plan(StudyFile(Path("windows/study.toml"), text, tuple(data_roots())), [], reduced=False)
    curves = {}
    for run, name in enumerate(names):
        if is_ending():
            return {}
        result = plan.run(run, "sim", "", lambda *_: True)
        if result is None:
            continue
        series = frame_of(result[0]["series"])
        shares = np.nan_to_num(series["cwnd_packets"].to_numpy().astype(float)) / BDP_PACKETS / LARGEST
        times = series["t_s"].to_numpy()
        curves[name] = " ".join(
            f"{x * 100 / SPAN_S:.1f},{39 - 38 * min(y, 1.0):.1f}" for x, y in zip(times, shares, strict=True)
        )
    if path is not None:
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, json.dumps(curves).encode())
    return curves
