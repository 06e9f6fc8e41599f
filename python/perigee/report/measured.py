# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The objects that a report's numbers were measured on, in words; they differ by engine and file."""

from __future__ import annotations

from dataclasses import dataclass

from perigee.store.results import Results


@dataclass(frozen=True)
class RoundTrips:
    """The objects of the distribution of round-trip times.

    Attributes:
        each: objects with a round-trip time, in the plural, for an axis.
        of: the same after "round-trip time of", for a caption.
    """

    each: str
    of: str


def round_trips(results: Results) -> RoundTrips:
    """Return the objects with a round-trip time in these results: acknowledgements, or intervals of iperf3's report."""
    engine = results.manifest["engine"]
    kinds = {about["kind"] for about in results.files()}
    if engine == "live":
        return RoundTrips("intervals", "each interval of iperf3's report: the sender's smoothed estimate at its end")
    if kinds and kinds != {"capture"}:
        return RoundTrips(
            "samples", "each sample: acknowledgements of captures, intervals of iperf3's JSON, and answers of pings"
        )
    return RoundTrips("acknowledgements", "every acknowledgement")
