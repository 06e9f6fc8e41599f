# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Metrics of a flow's first seconds and of its steady phase, from its series."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from perigee.statistics.metrics import with_metric


class _Results:
    """Results of one flow that starts at 0.5 s, with a series of one row a second."""

    def has(self, name: str) -> bool:
        return name == "series"

    def table(self, _name: str) -> pl.DataFrame:
        t, goodput = zip((1.0, 10.0), (2.0, 20.0), (3.0, 40.0), (4.0, 60.0), (5.0, 80.0), strict=True)
        return pl.DataFrame({"run": 0, "flow": "f", "t_s": t, "goodput_mbps": goodput})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # Half a second at 10, one at 20 and one at 40 Mbit/s.
        ("first_2.5_s_mbps", (0.5 * 10 + 20 + 40) / 2.5),
        # And half of the second at 40.
        ("first_2_s_mbps", (0.5 * 10 + 20 + 0.5 * 40) / 2),
        ("first_30_s_mbps", None),
        # The steady phase lasts from second 2.2 on: the intervals that begin at 3 and 4 s.
        ("steady_goodput_p50_mbps", 70.0),
        ("steady_goodput_p10_mbps", 62.0),
    ],
)
def test_a_phase_has_the_intervals_that_lie_in_it(name: str, value: float | None) -> None:
    flows = pl.DataFrame({"run": [0], "flow": ["f"], "start_s": [0.5], "duration_s": [4.5], "steady_s": [2.8]})
    results: Any = _Results()
    (found,) = with_metric(flows, name, results)[name].to_list()
    assert found == (None if value is None else pytest.approx(value))
