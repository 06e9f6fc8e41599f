# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results: tables with what varied in columns, figures, comparisons."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from perigee.api.names import python_words
from perigee.errors import InputError
from perigee.groups.limited import shares_of
from perigee.numbers import counted
from perigee.store import results as store
from perigee.store.schema import is_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perigee.api.comparison import Comparison


def load(folder: str | Path) -> Results:
    """Return the results in a folder that `perigee run`, `analyze`, `campaign` or `Study.run` made.

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
    responses = _Table("How long the transactions of populations took, by size of the response.")
    voice = _Table("A row per voice flow: what its listener heard.")
    videos = _Table("A row per video flow: what its viewer saw.")
    calls = _Table("A row per call flow: the frames that were seen in time.")
    pages = _Table("A row per page that a browser began to load.")
    events = _Table("The TCP log, where the study asked for it (`measure.events`).")
    states = _Table("What congestion controls know, where the study asked for it (`measure.states`).")
    releases = _Table("Of emulated runs: how late packets were released.")
    proxies = _Table("Where proxies split flows: a row per proxy per `measure.series` interval.")
    gaps = _Table("Of emulated runs: what came faster than it could be recorded.")
    connections = _Table("Of captures: how each connection was captured.")
    losses = _Table("Of captures: losses.")
    rounds = _Table("Of captures: a row per round trip of a flow, with what its sender waited for.")

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
        """The engine: `sim`, `emu` or `live`; `capture`, `campaign`: it was measured from files."""
        return str(self.manifest["engine"])

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest: engine, settings, seeds, versions, host, times, checksums; see `docs/reference/results.md`."""
        return self._stored.manifest

    @property
    def points(self) -> pl.DataFrame:
        """The points: `run`, and a column for each key that the study varies."""
        return self._stored.points.table

    @property
    def units(self) -> dict[str, str]:
        """The unit (`ms`, `Mbit/s`, `B`, `%`) of each column of `points` that is a quantity."""
        return self._stored.points.units

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that have rows."""
        return tuple(name for name, about in self.manifest["tables"].items() if about["rows"])

    @property
    def limits(self) -> pl.DataFrame:
        """Shares of each flow's time by cause: `run`, `flow`, `leg`, `cause` and `share`, as far as they are known.

        Of a flow that proxies split they are those of its legs. The causes are `application`, `receiver`, `slow_start`,
        `loss`, `pacing`, `queue`, `policer`, `proxy` and `window` (the sender's own); `docs/models/analysis.md` says
        how they are judged.
        """
        return shares_of(self._stored)

    def table(self, name: str) -> pl.DataFrame:
        """Return a table by its name, with what varied in columns; one without rows where the study did not write it.

        Raises:
            InputError: there is no table of this name.
        """
        self._require(name)
        if name not in self._tables:
            self._tables[name] = self._stored.with_points(name)
        return self._tables[name].clone()

    def __getitem__(self, name: str) -> pl.DataFrame:
        """The table of this name, as `table` returns it."""
        return self.table(name)

    def _require(self, name: str) -> None:
        if name not in self.tables and not is_table(name):
            raise InputError(f"{self.folder}: there is no table `{name}`; the tables are: {', '.join(self.tables)}")

    def legs(self, name: str = "flows") -> pl.DataFrame:
        """Return a table's rows for the legs of flows that proxies split, with what varied in columns.

        Such a flow has one row in `flows` from end to end, and one here for each of its connections.

        Args:
            name: a table that has a row per leg too: `flows`, `series`, `rtt`, `milestones`, `events` or `states`.

        Returns:
            The columns of the table, with `leg`, the number of the leg from 1 in the direction of the data; without
            rows where no proxy split a flow.

        Raises:
            InputError: the study did not write the table, or the table has no legs.

        Examples:
            >>> from perigee import Study
            >>> study = Study.load("claypool-2021").set("rounds", 1).set("flow.size", "1 MB").vary("flow.cc", ["bbr"])
            >>> with study.run() as results:
            ...     results.legs().height
            0
        """
        self._require(name)
        legs = self._stored.legs(name)
        if "leg" not in legs.columns:
            raise InputError(f"{self.folder}: the table `{name}` has no legs; give `flows` or `series`")
        return self._stored.points.join(legs)

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
        self,
        x: str | Sequence[str] | None = None,
        y: str = "goodput_mbps",
        hue: str | None = None,
        facet: str | Sequence[str] = (),
        kind: str = "lines",
        experiment: str | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Return a figure of a quantity of the flows over what varies, as `perigee report --figure` draws it.

        Args:
            x: what is along the horizontal axis: the last part of a key that varies (`loss` of `links.sat.loss`), the
                whole key, or its column `point.loss`; `cc` or `flow`. None: the varied number with the most values; the
                algorithm where nothing else varies. A heat map takes two, as `["loss", "cc"]`.
            y: a column of `flows`, a metric as in `with_metrics`, or arithmetic over them:
                `"goodput_mbps / rtt_mean_ms"`. A quantity over time (`cwnd_packets`, `rtt_ms`, `queue_mb`) is that of
                a representative flow of each group.
            hue: what has a colour each. None: the algorithm, or what suits; `none`: nothing.
            facet: what has panels: one key for the columns, a second one for the rows. What varies beside has panels
                too.
            kind: `lines` (means with their confidence intervals), `boxes`, `bars`, `cdf`, `scatter`, `heatmap`,
                `gain`, `rtt` or `time`.
            experiment: of a study of several experiments, the one that is drawn. None: all, each in panels of its own.
            ax: axes of a figure of yours, in whose place it is drawn. None: in a figure of its own.

        Returns:
            The figure; where more varies than one has places for, the first of several.

        Raises:
            InputError: there is no such kind, column, key or experiment, or nothing varies; the message says what there
                is.
        """
        from perigee.groups.settings import Choice
        from perigee.report.choice import plots_of
        from perigee.report.context import Context
        from perigee.report.sections import representative
        from perigee.report.style import in_place_of, styled
        from perigee.statistics.metrics import METRICS

        stored = self._stored if experiment is None else self._stored.of_experiment(experiment)
        facets = (facet,) if isinstance(facet, str) else tuple(facet)
        across = (x,) if isinstance(x, str) else tuple(x or ())
        # The retransmitted share is a metric of flows, too.
        if y in representative.OVER_TIME and y not in METRICS and y not in stored.table("flows").columns:
            if kind not in ("lines", "time") or across or facets or hue:
                raise InputError(f'y="{y}" is a quantity over time, which has no other x, hue or facet; give it alone')
            with styled(), in_place_of(ax) as whole:
                drawn = representative.plot_of(Context(stored), y).figure
        else:
            if not across and kind == "lines" and all(one.key.endswith(".cc") for one in stored.points.columns):
                across = ("cc",)
            with styled(), in_place_of(ax) as whole, python_words():
                choice = Choice(kind, (y,), across, hue or "", facets)
                drawn = plots_of(Context(stored), choice)[0].figure
        return whole or drawn

    def summary(self) -> str:
        """Return what the report says in short: what held flows back, the author's answer, and findings, a line each.

        Examples:
            >>> from perigee import Study
            >>> study = Study.load("claypool-2021").set({"rounds": 1, "flow.size": "1 MB"})
            >>> with study.vary("flow.cc", ["bbr"]).run() as results:
            ...     "Mbit/s" in results.summary()
            True
        """
        from perigee.report.context import Context
        from perigee.report.short import in_short

        short = in_short(Context(self._stored))
        return "\n".join(line for line in (short.answer, *short.caveats, *short.lines) if line)

    def compare(self, *others: Results, confidence: float | None = None) -> Comparison:
        """Compare these results with others of the same study, cell by cell.

        Each of the others is compared with these: means, differences with their confidence intervals, tests.

        Args:
            others: one or more.
            confidence: level of the confidence intervals, as 0.9; none: that of the `report.toml` of these results.

        Raises:
            InputError: there is none, one has no flows in common with these, or there is no such level.
        """
        from perigee.api.comparison import Comparison

        return Comparison([self._stored, *(other._stored for other in others)], confidence)

    def report(
        self, out: str | Path | None = None, confidence: float | None = None, reference: str | None = None
    ) -> Path:
        """Write the report, an HTML file that needs nothing else, and return its path.

        Args:
            out: the file; none: `report.html` in the results folder.
            confidence: level of the confidence intervals, as 0.9; none: that of the study's `report.toml`.
            reference: algorithm that the others are compared with, as `cubic`; none: that of `report.toml`, or the
                best of each setting.

        Raises:
            InputError: `out` is a folder, there is no such level or reference, or a file beside the study is wrong.
            StorageError: it cannot be written.
        """
        from perigee.report.writer import write_report

        file = Path(out) if out is not None else None
        return write_report(self.folder, file, confidence=confidence, reference=reference)[0]

    def close(self) -> None:
        """Remove the folder where it is a temporary one; tables that were read already stay readable."""
        if self._remove:
            self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Results of {self.study} in {self.folder}: {counted(self.manifest['runs'], 'run')}>"

    def _repr_html_(self) -> str:
        from perigee.api.notebook import frame_html, heading, paragraph

        said = [counted(self.manifest["runs"], "run"), f"engine {self.engine}", *self.manifest["settings"]]
        said += ["the study's reduced size"] if self.manifest["reduced"] else []
        parts = [heading("Results", self.study, self.title), paragraph(f"{self.folder}: {', '.join(said)}")]
        return "".join([*parts, frame_html(self._means()), paragraph(f"Tables: {', '.join(self.tables)}")])

    def _means(self) -> pl.DataFrame:
        """Return means of the flows by what varies."""
        keys = [name for name in self.points.columns if name != "run"]
        flows = self.with_metrics("retransmitted_percent")
        own = ["flow", *([] if "point.cc" in keys else ["cc"])]
        quantities = ["goodput_mbps", "rtt_mean_ms", "retransmitted_percent"]
        means = flows.group_by(*keys, *own, maintain_order=True).agg(
            pl.len().alias("flows"), *(pl.col(name).cast(pl.Float64).mean() for name in quantities)
        )
        return means.rename({key: f"{key} ({unit})" for key, unit in self.units.items()})
