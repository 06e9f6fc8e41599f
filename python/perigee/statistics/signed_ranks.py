# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Wilcoxon's signed-rank test: whether differences are as often and as far above zero as below.

Source: Wilcoxon, Biometrics Bulletin 1 (1945). SciPy has the test too, in a package of 140 MB;
it computes p from the normal distribution as soon as ties are among 14 and more differences, where this one counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perigee.statistics import special

EXACT_UP_TO = 50
"""Maximum differences for which p is counted over all signs of the ranks; beyond, the rank sum is taken as normal."""


def signed_rank_p(differences: npt.ArrayLike) -> float:
    """Return the two-tailed p of Wilcoxon's signed-rank test.

    Differences of zero are left out. Equal ones have the mean of their ranks.

    Args:
        differences: shape (n,), at least one of them not zero.

    Examples:
        >>> signed_rank_p([1, 2, 3, 4, 5]), signed_rank_p([1, -2, 3, 3, 0])
        (0.0625, 0.375)
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    n = len(values)
    _, place, counts = np.unique(np.abs(values), return_inverse=True, return_counts=True)
    # Twice the ranks, so that those of ties are whole numbers: the ranks k - c + 1 .. k have the mean k - (c - 1) / 2.
    doubled = (2 * np.cumsum(counts) - counts + 1)[place]
    above = int(doubled[values > 0].sum())
    if n > EXACT_UP_TO:
        mean = n * (n + 1) / 2
        variance = n * (n + 1) * (2 * n + 1) / 6 - float((counts.astype(np.float64) ** 3 - counts).sum()) / 12
        return 2 * special.normal_share(-abs(above - mean) / variance**0.5)
    # Share of all signs by the sum of the ranks above zero: a rank is there or it is not.
    shares = np.ones(1)
    for rank in doubled:
        shares = (np.pad(shares, (0, rank)) + np.pad(shares, (rank, 0))) / 2
    return min(1.0, 2 * float(min(shares[: above + 1].sum(), shares[above:].sum())))
