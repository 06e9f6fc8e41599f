# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Small studies as text: one path between two hosts, and congestion controls that are put in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perigee.toml import lines

CANDIDATE, OTHER = "candidate", "other"
"""Names of flows: the one that is judged, and one beside it."""
CANDIDATE_KEY = f"flows.{CANDIDATE}.cc"
"""The key that puts congestion controls in."""
ENDS = {"from": "server", "to": "client"}
"""The ends of a flow."""
SMALLEST, LARGEST = "4096 B", "64 MB"


def small_study(
    head: Mapping[str, Any],
    algorithms: Sequence[str],
    link: Mapping[str, Any],
    flows: Sequence[Mapping[str, Any]],
    series_ms: int,
    *,
    key: str = CANDIDATE_KEY,
    ecn: bool = False,
) -> str:
    """Return a study as text of at most ten lines, with runs for each congestion control.

    Args:
        head: its name, title, rounds and the like; what is empty or 0 is left out.
        algorithms: names of congestion controls, or paths of files.
        link: keys of its link.
        flows: its flows, between `ENDS`.
        series_ms: interval of the time series.
        key: the key that puts a congestion control in.
        ecn: whether all flows use ECN.

    Examples:
        >>> link = {"rate": "10 Mbit/s", "delay": "20 ms"}
        >>> flow = {"name": "candidate", **ENDS, "duration": "9 s"}
        >>> print(small_study({"name": "a", "rounds": 3}, ["bbr", "reno"], link, [flow], 200))
        name = "a"
        rounds = 3
        nodes = ["server", "client"]
        measure = { series = "200 ms", rtt = false }
        hosts = { rmem = ["4096 B", "131072 B", "64 MB"], wmem = ["4096 B", "16384 B", "64 MB"] }
        links = [{ name = "path", between = ["server", "client"], rate = "10 Mbit/s", delay = "20 ms" }]
        flows = [{ name = "candidate", from = "server", to = "client", duration = "9 s" }]
        vary = { "flows.candidate.cc" = ["bbr", "reno"] }
        <BLANKLINE>
    """
    hosts = {"rmem": [SMALLEST, "131072 B", LARGEST], "wmem": [SMALLEST, "16384 B", LARGEST]}
    return lines(
        {
            **{name: value for name, value in head.items() if value},
            "nodes": ["server", "client"],
            "measure": {"series": f"{series_ms} ms", "rtt": False},
            "hosts": {**hosts, "ecn": True} if ecn else hosts,
            "links": [{"name": "path", "between": ["server", "client"], **link}],
            "flows": flows,
            "vary": {key: algorithms},
        }
    )
