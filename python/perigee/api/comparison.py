# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results of a study held against each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from perigee.comparison.cells import as_frame, compare, remarks
from perigee.comparison.changes import changes, letters

if TYPE_CHECKING:
    from perigee.store.results import Results


class Comparison:
    """Results of one study, cell by cell; the others are held against the first, `A`. `Results.compare` makes one.

    Args:
        results: two or more.
        confidence: level of the intervals; none: that of the `report.toml` of the first.

    Attributes:
        cells: a row per group of flows, quantity and other results: `group, quantity, unit, other` (`B`, ...), `a, b`
            (the means), `difference, difference_percent, half_width_95` (or another level), `flows_a, flows_b, p_holm`
            and more, see `perigee.comparison.cells.as_frame`.
        changes: what differs in how the results were made: `what`, and a column of text for each of the results.
        remarks: notes on the cells: how they were tested, which are the same, which flows failed.

    Raises:
        InputError: there are fewer than two, or one has no flows in common with the first.
    """

    def __init__(self, results: Sequence[Results], confidence: float | None = None) -> None:
        self._results = list(results)
        self._cells = compare(*self._results, confidence=confidence)
        names = letters(len(self._results))
        found = changes(self._results)
        self.cells: pl.DataFrame = as_frame(self._results, self._cells)
        self.changes = pl.DataFrame(
            {"what": [one.what for one in found]}
            | {name: [one.values[at] for one in found] for at, name in enumerate(names)},
            schema=dict.fromkeys(("what", *names), pl.String),
        )
        self.remarks: list[str] = remarks(self._results, self._cells)

    def page(self, out: str | Path) -> Path:
        """Write the page of `perigee compare --out`, with the time series laid over each other; return its path.

        Raises:
            InputError: `out` is a folder.
            StorageError: it cannot be written.
        """
        from perigee.report.overlay import write_overlay

        write_overlay(self._results, self._cells, Path(out))
        return Path(out)

    def __repr__(self) -> str:
        return f"<Comparison of {len(self._results)} results: {self.cells.height} cells>"

    def _repr_html_(self) -> str:
        from perigee.api.notebook import frame_html, heading, paragraph

        half_width = next((name for name in self.cells.columns if name.startswith("half_width_")), "difference")
        shown = ["group", "quantity", "unit", "other", "a", "b", "difference", half_width, "p_holm"]
        shown += ["flows_a", "flows_b"]
        cells = self.cells.filter(pl.col("remark") != "the same").select(shown)
        parts = [heading("Comparison", "", ""), frame_html(self.changes), frame_html(cells)]
        return "".join([*parts, *map(paragraph, self.remarks)])
