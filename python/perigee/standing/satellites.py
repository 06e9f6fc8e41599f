# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One download over each of a few satellite links, by which congestion controls are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from perigee.core import native
from perigee.places import data_roots, headers
from perigee.statistics.estimates import mean_interval
from perigee.store.streams import frame_of

PROFILES = ("geo", "viasat2", "starlink", "oneweb")
"""Two geostationary links, two over low orbits."""
ROUNDS = 5
CANDIDATE = "CANDIDATE"
"""Stands for the name of a congestion control in the text of a study."""
PATH = "satellite.toml"
"""Name of a study in errors; it is never a file."""


def study(profile: str) -> str:
    """Return the study of a link, with `CANDIDATE` for the congestion control.

    Examples:
        >>> len(study("geo").splitlines())
        8
    """
    lines = (
        f'name = "standing-{profile}"',
        f"rounds = {ROUNDS}",
        'nodes = ["server", "client"]',
        'measure = { series = "500 ms", rtt = false }',
        'hosts = { rmem = ["4096 B", "131072 B", "64 MB"], wmem = ["4096 B", "16384 B", "64 MB"] }',
        f'links = [{{ name = "path", between = ["server", "client"], profile = "{profile}" }}]',
        'flows = [{ name = "candidate", from = "server", to = "client", duration = "60 s", start_jitter = "200 ms" }]',
        f'vary = {{ "flows.candidate.cc" = ["{CANDIDATE}"] }}',
    )
    return "\n".join(lines) + "\n"


def row(algorithm: str, profile: str) -> dict[str, Any]:
    """Return `goodput_mbps`, `rtt_ms` and `retransmitted_percent` of a download of 60 s, each with its interval.

    Args:
        algorithm: name of a congestion control.
        profile: name of a link.

    Raises:
        RunError: a run failed.
    """
    text = study(profile).replace(CANDIDATE, algorithm)
    plan = native.Plan(text, PATH, [], False, [str(root) for root in data_roots()], str(headers()))
    rounds = []
    for index in range(ROUNDS):
        done = plan.run(index, "sim", "", lambda *_: True)
        assert done, "nobody stops a run here"  # noqa: S101 - as the progress says
        rounds.append(frame_of(done[0]["flows"]).row(0, named=True))
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
    return {"mean": _digits(mean), "half_width": _digits(half) if math.isfinite(half) and half > 0 else None}


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
