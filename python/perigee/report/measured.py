# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the numbers of a report were measured on, in words: engines and files see different things of a flow."""

from __future__ import annotations

from dataclasses import dataclass

from perigee.store.results import Results


@dataclass(frozen=True)
class RoundTrips:
    """Of what the distribution of round-trip times is.

    Attributes:
        each: what has a round-trip time, in the plural, for an axis.
        of: the same after "round-trip time of", for a caption.
    """

    each: str
    of: str


def round_trips(results: Results) -> RoundTrips:
    """Return what has a round-trip time in these results: acknowledgements, or intervals of iperf3's report."""
    engine = results.manifest["engine"]
    kinds = {about["kind"] for about in results.files()} if results.is_analysis else set()
    if engine == "live":
        return RoundTrips("intervals", "each interval of iperf3's report: the sender's smoothed estimate at its end")
    if results.is_analysis and kinds != {"capture"}:
        return RoundTrips(
            "samples", "each sample: acknowledgements of captures, intervals of iperf3's JSON, and answers of pings"
        )
    return RoundTrips("acknowledgements", "every acknowledgement")
