# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A stop rule for rounds: enough for a given precision of means."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perigee.engines.run.kept_flows import GROUP, METRIC, check_column
from perigee.errors import InputError

if TYPE_CHECKING:
    import polars as pl

FIRST_ROUNDS = 4
"""Number of rounds before the first check."""


@dataclass(frozen=True)
class Until:
    """Rounds are enough when each mean's 95 % confidence interval is within a share of the mean.

    The interval is Student's t, checked after 4 rounds and again whenever it may have become narrow enough,
    so it covers the true mean a little less often than 95 % (Chow and Robbins 1965 show that this vanishes as the share
    does). A flow without a value, because it failed, is left out; a mean of fewer than two values is not known.

    Attributes:
        share: half of the interval's width, as a share of the mean.
        metric: the column of the table `flows`.
    """

    share: float
    metric: str = METRIC

    @classmethod
    def read(cls, text: str) -> Until:
        """Parse the value of `--until`: a share, or a column and a share.

        Raises:
            InputError: the text is neither, or the column is missing or not numeric.

        Examples:
            >>> Until.read("2 %"), Until.read("rtt_mean_ms 0.5%")
            (Until(share=0.02, metric='goodput_mbps'), Until(share=0.005, metric='rtt_mean_ms'))
            >>> Until.read("2")
            Traceback (most recent call last):
            ...
            perigee.errors.InputError: --until 2: not a share of a mean; write "2 %" or "rtt_mean_ms 2 %"
        """
        found = re.fullmatch(r"\s*(?:([a-z][a-z0-9_]*)\s+)?([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)
        if found is None:
            raise InputError(f'--until {text}: not a share of a mean; write "2 %" or "rtt_mean_ms 2 %"')
        share = float(found[2]) / 100
        if not 0 < share < 1:
            raise InputError(f"--until {text}: the share must lie between 0 % and 100 %")
        metric = found[1] or METRIC
        check_column("--until", metric)
        return cls(share, metric)

    def needed(self, flows: pl.DataFrame, rounds: int) -> int:
        """Return an estimate of the rounds needed; the current number if it suffices.

        Args:
            flows: rows of the table `flows` with `point`, `flow` and the metric, of all runs so far.
            rounds: number of these rounds.

        Examples:
            >>> import polars as pl
            >>> flows = pl.DataFrame({"point": "{}", "flow": "f", "goodput_mbps": [9.0, 10.0, 11.0, 10.0]})
            >>> Until(0.2).needed(flows, 4), Until(0.1).needed(flows, 4), Until(0.001).needed(flows, 4)
            (4, 7, 8)
        """
        from perigee.statistics.estimates import mean_interval

        worst = 0.0
        for _, part in flows.group_by(GROUP):
            values = part[self.metric].drop_nulls().to_numpy()
            if len(values) < 2:
                return rounds + 1
            mean, half_width = mean_interval(values)
            if half_width > 0:
                worst = max(worst, half_width / (abs(mean) * self.share) if mean else math.inf)
        if worst <= 1:
            return rounds
        # The width falls with the root of the rounds; at most doubled, since the estimate of the spread is rough.
        return min(2 * rounds, max(rounds + 1, math.ceil(rounds * min(worst, 2.0) ** 2)))
