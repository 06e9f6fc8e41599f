# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs with equal settings and seeds: one is carried out, and its tables are kept for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from perigee.engines.plan.contract import Plan
from perigee.engines.run.stretches import Stretches

if TYPE_CHECKING:
    from perigee.store.streams import Streams


class EqualRuns:
    """Which of the missing runs are carried out, and which have the results of one of them.

    Two points are equal if all their settings are, as where one experiment of a study varies what another holds.

    Args:
        plan: the plan.
        missing: the missing runs in ascending order.

    Attributes:
        carried_out: the runs to carry out, in ascending order.

    Examples:
        >>> from types import SimpleNamespace as Planned
        >>> from perigee.engines.plan.runs import Runs
        >>> points = [{"fingerprint": "6f"}, {"fingerprint": "a0"}, {"fingerprint": "6f"}]
        >>> runs = Runs(points, 3, lambda number: 7 + number)
        >>> plan = Planned(is_repeatable=True, runs=runs, seed=lambda run: run // 3)
        >>> equal = EqualRuns(plan, [0, 1, 2, 4, 5, 6, 7, 8])
        >>> equal.carried_out, equal.number_after([0, 1]), equal.number_after([4, 6])
        ([0, 1, 4, 5, 6, 7], 1, 1)
        >>> list(equal.after([0, 4, 6]))
        [(range(2, 14, 6), [0, 6])]
    """

    def __init__(self, plan: Plan, missing: Sequence[int]) -> None:
        self._plan = plan
        self._after: dict[int, list[int]] = {}
        self.carried_out: Sequence[int] = missing
        if not plan.is_repeatable:
            return
        of_points = [str(point["fingerprint"]) for point in plan.runs.points]
        if len(set(of_points)) == len(of_points):
            return
        first: dict[tuple[str, int], int] = {}
        for run in missing:
            same = first.setdefault((of_points[run % len(of_points)], plan.seed(run)), run)
            if same != run:
                self._after.setdefault(same, []).append(run)
        self.carried_out = list(first.values())

    def number_after(self, runs: Iterable[int]) -> int:
        """Return the number of further runs with the results of these."""
        return sum(len(self._after.get(run, ())) for run in runs)

    def after(self, runs: Iterable[int]) -> Iterator[tuple[range, list[int]]]:
        """Yield ranges of further runs with the results of these, and for each run of a range which of these it is."""
        of = {later: run for run in runs for later in self._after.get(run, ())}
        left = Stretches(sorted(of))
        while left:
            some = left.take(len(left))
            yield some, [of[later] for later in some]

    def tables(self, tables: Streams, later: range, of: Sequence[int]) -> dict[str, bytes]:
        """Return the tables of further runs.

        Args:
            tables: tables of a batch.
            later: the further runs.
            of: for each, the run of the batch with its results.
        """
        import polars as pl

        from perigee.store.streams import frames_of, stream_of

        texts = pl.Series([self._plan.point_text(run) for run in later], dtype=pl.String)
        found = {}
        for name, table in frames_of(tables).items():
            held = table["run"].to_numpy()
            begins, ends = held.searchsorted(of), held.searchsorted(of, "right")
            which = np.repeat(np.arange(len(later)), ends - begins)
            rows = np.concatenate([np.arange(begin, end) for begin, end in zip(begins, ends, strict=True)])
            if not len(rows):
                continue
            changed = {"run": pl.Series(np.array(later)[which]), "point": texts.gather(which)}
            own = [cells.cast(table.schema[key]).alias(key) for key, cells in changed.items() if key in table.columns]
            found[name] = stream_of(table[rows].with_columns(own))
        return found
