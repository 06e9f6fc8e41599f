# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One download over each of a few satellite links, by which congestion controls are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from perigee.keeper.runs import Runs
from perigee.keeper.studies import ENDS, small_study
from perigee.numbers import for_json
from perigee.statistics.estimates import mean_interval

PROFILES = ("geo", "viasat2", "starlink", "oneweb")
"""Two geostationary links, two over low orbits."""
ROUNDS = 5
CANDIDATE = "CANDIDATE"
"""Stands for the name of a congestion control in the text of a study."""


def study(profile: str) -> str:
    """Return the study of a link, with `CANDIDATE` for the congestion control.

    Examples:
        >>> len(study("geo").splitlines())
        8
    """
    flow = {"name": "candidate", **ENDS, "duration": "60 s", "start_jitter": "200 ms"}
    head = {"name": f"standing-{profile}", "rounds": ROUNDS}
    return small_study(head, [CANDIDATE], {"profile": profile}, [flow], 500)


def row(algorithm: str, profile: str) -> dict[str, Any]:
    """Return `goodput_mbps`, `rtt_ms` and `retransmitted_percent` of a download of 60 s, each with its interval.

    Args:
        algorithm: name of a congestion control.
        profile: name of a link.

    Raises:
        RunError: a run failed.
    """
    with Runs() as runs:
        found = runs.tables(study(profile).replace(CANDIDATE, algorithm), ROUNDS, ["flows"])
        rounds = [tables["flows"].row(0, named=True) for tables in found]
    return {
        "profile": profile,
        "goodput_mbps": _figure([one["goodput_mbps"] for one in rounds]),
        "rtt_ms": _figure([one["rtt_mean_ms"] for one in rounds]),
        "retransmitted_percent": _figure([100 * _share(one) for one in rounds]),
    }


def _share(flow: Mapping[str, Any]) -> float:
    return float(flow["retransmitted_packets"] / flow["sent_packets"]) if flow["sent_packets"] else math.nan


def _figure(values: Sequence[float | None]) -> dict[str, float | None]:
    """Return mean and half width of the 95 % interval; none where a round has no value, or all are alike.

    Examples:
        >>> _figure([1.0, 1.0]), _figure([1.0, None])
        ({'mean': 1.0, 'half_width': None}, {'mean': None, 'half_width': None})
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < len(values):
        return {"mean": None, "half_width": None}
    mean, half = mean_interval(known)
    return {"mean": for_json(mean), "half_width": for_json(half) or None}
