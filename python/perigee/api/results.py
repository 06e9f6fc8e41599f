# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results: tables with what varied in columns, figures, comparisons."""

from __future__ import annotations

import shutil
import weakref
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from perigee.errors import InputError
from perigee.store import results as store
from perigee.store.points import PREFIX, PointColumn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perigee.api.comparison import Comparison


def load(folder: str | Path) -> Results:
    """Return the results in a folder that `perigee run`, `perigee analyze` or `Study.run` made.

    Raises:
        InputError: it is no results folder, not finished, or damaged.

    Examples:
        >>> from perigee import Study
        >>> study = Study.load("claypool-2021").set("rounds", 1).set("flow.size", "1 MB").vary("flow.cc", ["bbr"])
        >>> with study.run() as results:
        ...     load(results.folder).flows["point.cc"].to_list()
        ['bbr']
    """
    return Results(folder)


class _Table:
    """A table of results as an attribute."""

    def __init__(self, about: str) -> None:
        self.__doc__ = about

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, results: Results, owner: type | None = None) -> pl.DataFrame:
        return results.table(self._name)


class Results:
    """The results of a study, or of files that were analysed.

    Each table is an attribute, a polars data frame. A table has the columns of `schema/results.md`, whose names end in
    their units, and a column for each key that the study varies: `point.loss`, `point.rate`, `point.cc`. `units` has
    the units of these.

    Args:
        folder: the results folder.
        temporary: a folder around it that is removed when the results are closed, or with the process.

    Attributes:
        folder: the results folder.

    Raises:
        InputError: it is no results folder, not finished, or damaged.
    """

    flows = _Table("A row per flow per run.")
    series = _Table("A row per flow per `measure.series` interval.")
    links = _Table("A row per direction of a link per `measure.series` interval.")
    rtt = _Table("The distribution of the round trips of each flow.")
    milestones = _Table("When each flow had delivered so much.")
    exchanges = _Table("A row per request and per ping.")
    events = _Table("The TCP log, where the study asked for it (`measure.events`).")
    releases = _Table("Of emulated runs: how late packets were released.")
    gaps = _Table("Of emulated runs: what came faster than it could be recorded.")
    connections = _Table("Of captures: how each connection was captured.")
    losses = _Table("Of captures: losses.")

    def __init__(self, folder: str | Path, *, temporary: Path | None = None) -> None:
        self._stored = store.Results(Path(folder))
        self.folder = self._stored.path
        self._tables: dict[str, pl.DataFrame] = {}
        self._remove = weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True) if temporary else None

    @property
    def study(self) -> str:
        """The study's name."""
        return self._stored.study

    @property
    def title(self) -> str:
        """The study's title; empty where it has none."""
        return self._stored.title

    @property
    def engine(self) -> str:
        """What carried it out: `sim`, `emu` or `live`; `capture`: it was measured from files."""
        return str(self.manifest["engine"])

    @property
    def manifest(self) -> dict[str, Any]:
        """What was run: engine, settings, seeds, versions, host, times, checksums; see `docs/reference/results.md`."""
        return self._stored.manifest

    @property
    def points(self) -> pl.DataFrame:
        """What varied: `run`, and a column for each key that the study varies."""
        return self._stored.points.table

    @property
    def units(self) -> dict[str, str]:
        """The unit (`ms`, `Mbit/s`, `B`, `%`) of each column of `points` that is a quantity."""
        return self._stored.points.units

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that there are."""
        return tuple(self.manifest["tables"])

    def table(self, name: str) -> pl.DataFrame:
        """Return a table by its name, with what varied in columns.

        Raises:
            InputError: the study did not write it.
        """
        if name not in self.tables:
            raise InputError(f"{self.folder}: there is no table `{name}`; the tables are: {', '.join(self.tables)}")
        if name not in self._tables:
            self._tables[name] = self._stored.with_points(name)
        return self._tables[name].clone()

    def with_metrics(self, *names: str) -> pl.DataFrame:
        """Return the table `flows` with metrics as further columns; null where a flow has none.

        Args:
            names: metrics that reports have too: `retransmitted_percent`, `power`, `download_5_mb_s`,
                `time_to_100_mbps_s`.

        Raises:
            InputError: there is no such metric.
        """
        from perigee.statistics.metrics import metric, with_metric

        flows = self.flows
        for name in names:
            flows = with_metric(flows, metric(name).name, self._stored)
        return flows

    def plot(
        self, x: str | None = None, y: str = "goodput_mbps", hue: str | None = None, facet: str | None = None
    ) -> Figure:
        """Return a figure of the mean of a quantity of the flows, with its 95 % confidence interval, over what varies.

        Args:
            x: a column of `flows` along the horizontal axis: `point.loss`, or `loss` for short. None: the varied number
                with the most values, else what varies first. Numbers that span decades are on a logarithmic scale.
            y: a column of `flows`, or a metric as in `with_metrics`.
            hue: a column that has a line of its own colour per value. None: the congestion control, where it varies and
                is not `x`.
            facet: a column that has a panel per value.

        Raises:
            InputError: there is no such column or metric, or nothing varies and `x` is not given.
        """
        from perigee.report.plotting import Choice, plot_flows
        from perigee.report.style import styled
        from perigee.statistics.metrics import METRICS

        flows = self.flows
        if y not in flows.columns:
            flows = self.with_metrics(y)
        x = self._column(x) if x else self._varied()
        if hue is None and x not in ("cc", f"{PREFIX}cc") and flows["cc"].n_unique() > 1:
            hue = "cc"
        headings = {column.name: self._heading(column) for column in self._stored.points.columns}
        headings |= {name: one.heading for name, one in METRICS.items()}
        chosen = Choice(x, y, self._column(hue) if hue else None, self._column(facet) if facet else None)
        with styled():
            return plot_flows(flows, chosen, headings)

    def compare(self, *others: Results) -> Comparison:
        """Compare these results with others of the same study, cell by cell.

        Each of the others is compared with these: means, differences with their 95 % confidence intervals, tests.

        Raises:
            InputError: there is none, or one has no flows in common with these.
        """
        from perigee.api.comparison import Comparison

        return Comparison([self._stored, *(other._stored for other in others)])

    def report(self, out: str | Path | None = None) -> Path:
        """Write the report, an HTML file that needs nothing else, and return its path.

        Args:
            out: the file; none: `report.html` in the results folder.

        Raises:
            InputError: `out` is a folder, or a file beside the study is wrong.
            StorageError: it cannot be written.
        """
        from perigee.report.writer import write_report

        return write_report(self.folder, Path(out) if out is not None else None)[0]

    def _column(self, name: str) -> str:
        """Return the column of this name, or of what varies under it."""
        prefixed = f"{PREFIX}{name}"
        return prefixed if prefixed in self.points.columns else name

    def _varied(self) -> str:
        """Return the varied number with the most values, else what varies first."""
        columns = self._stored.points.columns
        if not columns:
            raise InputError(f"{self.folder}: nothing varies in {self.study}; say what is along the axis with x=")
        return max(columns, key=lambda column: len(column.values) if column.is_number else 0).name

    @staticmethod
    def _heading(column: PointColumn) -> str:
        parts = column.key.split(".")
        what = " ".join(parts[1:] if len(parts) > 1 else parts).replace("_", " ")
        return f"{what} ({column.unit})" if column.unit else what

    def close(self) -> None:
        """Remove the folder where it is a temporary one; tables that were read already stay readable."""
        if self._remove:
            self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Results of {self.study} in {self.folder}: {self.manifest['runs']} runs>"

    def _repr_html_(self) -> str:
        from perigee.api.notebook import results_html

        return results_html(self)
