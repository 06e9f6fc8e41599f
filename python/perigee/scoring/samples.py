# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Statistics of a sample: of the values of flows, or of the points of a curve."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perigee.statistics.estimates import Array

PERCENTILES: Mapping[str, int] = {"min": 0, "p10": 10, "p25": 25, "median": 50, "p75": 75, "p90": 90, "max": 100}
"""Statistics that are percentiles."""

OF_SAMPLE = ("mean", "sd", "sd_percent", *PERCENTILES, "iqr", "zero_percent", "below_percent")
"""Statistics of a sample."""


def of_sample(values: Array, statistic: str, below: float = 0.0) -> float:
    """Return a statistic of a sample.

    Args:
        values: the sample, not empty, shape (n,).
        statistic: of `OF_SAMPLE`.
        below: bound of `below_percent`, in the unit of the values.

    Returns:
        The statistic; NaN for a deviation of a single value, and relative to a mean of zero.

    Examples:
        >>> seen = np.array([1.0, 2.0, 6.0])
        >>> of_sample(seen, "median"), of_sample(seen, "iqr"), round(of_sample(seen, "below_percent", 2))
        (2.0, 2.5, 33)
    """
    if statistic == "zero_percent":
        return 100 * float(np.mean(values == 0))
    if statistic == "below_percent":
        return 100 * float(np.mean(values < below))
    if statistic == "iqr":
        return float(np.subtract(*np.percentile(values, (75, 25))))
    if statistic in PERCENTILES:
        return float(np.percentile(values, PERCENTILES[statistic]))
    mean = float(values.mean())
    if statistic == "mean":
        return mean
    deviation = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    if statistic == "sd":
        return deviation
    return 100 * deviation / mean if mean else float("nan")
