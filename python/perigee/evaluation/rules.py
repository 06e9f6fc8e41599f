# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Thresholds of figures, and how far a figure is from its threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

CUBIC, RENO = "cubic", "reno"
OURS = "ours"
"""Owner of a threshold that this project chose; RFC 9743 sets no numbers."""


class Verdict(StrEnum):
    """The verdict of an evaluation on a criterion."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    DOCUMENT = "not met, document it"
    UNDECIDED = "undecided"
    NOT_JUDGED = "not judged"
    UNKNOWN = "not measured"

    @property
    def is_judged(self) -> bool:
        """Whether a figure has a verdict; those of a scavenger's own are measured, and have none."""
        return self not in (Verdict.NOT_JUDGED, Verdict.UNKNOWN)


@dataclass(frozen=True)
class Rule:
    """A threshold: a bound of the figure, or of its ratio to CUBIC's figure in the same cell.

    With both bounds, a figure is beyond the threshold only if it is beyond both bounds.

    Attributes:
        words: the threshold for readers, which says `at most` or `at least`.
        limit: bound of the figure, in its unit; none: no such bound.
        of_cubic: bound of its ratio to CUBIC's; none: no such bound.
        or_reno: whether Reno's figure serves as well, which is a standard like CUBIC: the more lenient of both counts.
        owner: whose threshold it is: a document, or `OURS`.
        missed: the verdict beyond the threshold.
    """

    words: str
    limit: float | None = None
    of_cubic: float | None = None
    or_reno: bool = False
    owner: str = OURS
    missed: Verdict = Verdict.FAIL

    @property
    def at_most(self) -> bool:
        """Whether the figure may not be larger than the bound; otherwise it may not be smaller."""
        return "at least" not in self.words

    @property
    def references(self) -> tuple[str, ...]:
        """The congestion controls whose figures set the threshold."""
        if self.of_cubic is None:
            return ()
        return (CUBIC, RENO) if self.or_reno else (CUBIC,)

    def bound(self, references: Sequence[float]) -> float | None:
        """Return the bound of the figure in a cell; none: it has none there.

        Args:
            references: the figures of `references` in the cell.

        Examples:
            >>> Rule("at most 2 % or twice CUBIC's", limit=2, of_cubic=2).bound([3])
            6
        """
        bounds = [] if self.limit is None else [self.limit]
        if self.of_cubic is not None:
            bounds += [self.of_cubic * reference for reference in references]
        return (max if self.at_most else min)(bounds, default=None)

    def times_of(self, value: float, bound: float | None) -> float:
        """Return the figure as a multiple of its bound: beyond it above 1; 0 without a bound.

        Examples:
            >>> Rule("at most 2 %", limit=2).times_of(6, 4)
            1.5
            >>> Rule("at least 0.8", limit=0.8).times_of(1.6, 0.8)
            0.5
        """
        if bound is None:
            return 0.0
        over, under = (value, bound) if self.at_most else (bound, value)
        if over <= 0:
            return 0.0
        return over / under if under > 0 else math.inf


TIMES_OF_CUBIC = Rule("at most 1.25 times CUBIC's", of_cubic=1.25, missed=Verdict.DOCUMENT)
RATES_OF_CUBIC = Rule("at least 0.8 times CUBIC's", of_cubic=0.8, missed=Verdict.DOCUMENT)
"""Thresholds of times and of rates beside those of CUBIC in the same place, which most criteria have."""
