# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What every section works on: the flows in their groups, named, ordered and with a look of their own."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from perigee.report.names import distinct
from perigee.report.network import Meeting, Network
from perigee.report.settings import Published, ReportSettings, published, report_settings
from perigee.report.style import Look, look
from perigee.statistics.estimates import most_typical
from perigee.statistics.metrics import Metric, group_value, metric, with_metric
from perigee.store.manifest import ENGINES
from perigee.store.outcomes import STOPPED, has_failed
from perigee.store.results import Results

MOST_DRAWN = 14
"""With more groups than this a figure is not readable: then the report is of tables only."""


@dataclass(frozen=True)
class Group:
    """Flows that are shown together, one per round: those of one name at one point of a study, or one flow of a file.

    Attributes:
        number: which it is; unique in a `Context`.
        name: what `report.toml` and the data files call it; no other group that is shown has the same.
        label: what people call it.
        cc: its congestion control, empty without TCP.
        factors: what varies between groups, and its value here; `cc` and `flow` are among them.
        rows: its rows of `flows`.
        look: how it is drawn.
    """

    number: int
    name: str
    label: str
    cc: str
    factors: Mapping[str, str]
    rows: pl.DataFrame
    look: Look

    @functools.cached_property
    def flows(self) -> pl.DataFrame:
        """Those of its flows that means are taken over: all but the failed ones."""
        return self.rows.filter(~has_failed())

    @property
    def legend(self) -> str:
        """The label for a legend: matplotlib leaves out what begins with an underscore."""
        return f" {self.label}" if self.label.startswith("_") else self.label

    @property
    def size(self) -> str:
        """How many flows means are taken over, in words."""
        if self.flows.height == self.rows.height:
            return str(self.rows.height)
        return f"{self.flows.height} of {self.rows.height}"


class Context:
    """A study's results, ready for the report.

    Args:
        results: the finished results.

    Attributes:
        results: the same.
        settings: what to show.
        published: what was published, if anything.
        network: the paths of the flows.
        found: how the numbers of the results came about, in a word: see `ENGINES`.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.found = ENGINES[results.manifest["engine"]]
        self.settings: ReportSettings = report_settings(results)
        self.published: Published | None = published(results)
        self.network = Network(results)

    @functools.cached_property
    def rows(self) -> pl.DataFrame:
        """All rows of `flows`, with `group`, the number of the group of each."""
        rows = self.results.table("flows")
        if self.results.is_analysis:
            # A capture that shows how a connection ended has its figures all the same, and each is a group of its own.
            rows = rows.with_columns(outcome=pl.when(has_failed()).then(pl.lit(STOPPED)).otherwise("outcome"))
        identity = ["run", "flow"] if self.results.is_analysis else ["point", "flow", "cc"]
        numbers = rows.select(identity).unique(maintain_order=True).with_row_index("group")
        return rows.join(numbers, on=identity, how="left", maintain_order="left")

    @functools.cached_property
    def varied(self) -> dict[str, list[str]]:
        """The keys that vary between the points of a study, each with its values, in the order of the study."""
        if self.results.is_analysis:
            return {}
        points = [json.loads(point) for point in self.rows["point"].unique(maintain_order=True) if point]
        keys = dict.fromkeys(key for point in points for key in point)
        values = {key: [_in_full(point[key]) for point in points if key in point] for key in keys}
        return {key: list(dict.fromkeys(seen)) for key, seen in values.items()}

    @functools.cached_property
    def bulk(self) -> pl.DataFrame:
        """The rows of bulk transfers, else of all flows."""
        bulk = self.rows.filter(pl.col("kind") == "bulk")
        return self.rows if bulk.is_empty() else bulk

    @property
    def has_bulk(self) -> bool:
        """Whether there are bulk transfers."""
        return not self.rows.filter(pl.col("kind") == "bulk").is_empty()

    @functools.cached_property
    def meetings(self) -> list[Meeting]:
        """Which bulk flows shared a link with each other, and when."""
        return self.network.meetings(self.bulk.filter(~has_failed()), self.interval_s)

    @functools.cached_property
    def interval_s(self) -> float:
        """The interval of the series; 0 without one."""
        if not self.results.has("series"):
            return 0.0
        steps = self.results.table("series").select(pl.col("t_s").diff().over("run", "flow").median())
        return float(steps.item() or 0.0)

    @functools.cached_property
    def groups(self) -> list[Group]:
        """The groups, those the settings name first: of bulk flows that shared no link if there are any."""
        return self._grouped(self.bulk if self._alone.is_empty() else self._alone)

    @functools.cached_property
    def all_groups(self) -> list[Group]:
        """`groups`, and those of bulk flows that shared a link."""
        numbers = [group.number for group in self.groups]
        others = self.bulk.filter(~pl.col("group").is_in(numbers))
        return self.groups + (self._grouped(others, in_full=True) if not others.is_empty() else [])

    def groups_of(self, *kinds: str) -> list[Group]:
        """Return groups of all flows of these kinds (`request`, `udp`, `ping`), in order."""
        wanted = self.rows.filter(pl.col("kind").is_in(kinds))
        return self._grouped(wanted) if not wanted.is_empty() else []

    @functools.cached_property
    def _alone(self) -> pl.DataFrame:
        together = [(meeting.run, flow) for meeting in self.meetings for flow in meeting.flows]
        if not together:
            return self.bulk
        met = pl.DataFrame(together, schema={"run": self.bulk.schema["run"], "flow": pl.String}, orient="row")
        numbers = self.bulk.join(met, on=["run", "flow"], how="semi")["group"].unique()
        return self.bulk.filter(~pl.col("group").is_in(numbers.implode()))

    def _grouped(self, rows: pl.DataFrame, *, in_full: bool = False) -> list[Group]:
        parts = rows.partition_by("group", maintain_order=True)
        names = _names([part.row(0, named=True) for part in parts], in_full=in_full)
        order = {name: place for place, name in enumerate(self.settings.order)}
        ordered = sorted(zip(names, parts, strict=True), key=lambda one: order.get(one[0], len(order)))
        return [
            Group(
                number=int(part["group"][0]),
                name=name,
                label=self.label(name),
                cc=str(part["cc"][0]),
                factors=_factors(part.row(0, named=True)),
                rows=part.sort("run", "flow"),
                look=look(place),
            )
            for place, (name, part) in enumerate(ordered)
        ]

    def group(self, name: str) -> Group | None:
        """Return the group of that name, as `report.toml` and `published.toml` have it."""
        return next((group for group in self.groups if group.name == name), None)

    def label(self, name: str) -> str:
        """Return what people call a group, an algorithm or a node."""
        return self.settings.labels.get(name, name)

    def look_of(self, row: Mapping[str, Any]) -> Look:
        """Return how a flow is drawn: as its group, else as the first group of its algorithm."""
        same = [group for group in self.groups if group.number == row["group"]]
        alike = [group for group in self.groups if group.cc == row["cc"]]
        if same or alike:
            return (same or alike)[0].look
        others = self.bulk.filter(~pl.col("cc").is_in([group.cc for group in self.groups]))["cc"].unique().sort()
        return look(len(self.groups) + others.to_list().index(row["cc"]))

    def with_metric(self, group: Group, name: str) -> pl.DataFrame:
        """Return a group's flows with a metric as a column."""
        return with_metric(group.flows, name, self.results)

    def value(self, group: Group, wanted: Metric) -> float:
        """Return a metric of a group."""
        return group_value(self.with_metric(group, wanted.name), wanted)

    def metrics(self, names: Sequence[str]) -> list[Metric]:
        """Return those of the metrics that some flow has."""
        found = [metric(name) for name in names]
        return [one for one in found if any(self.with_metric(g, one.name)[one.name].count() for g in self.groups)]

    @functools.cached_property
    def drawn(self) -> list[Group]:
        """The groups that have a flow to draw."""
        return [group for group in self.groups if not group.flows.is_empty()]

    @functools.cached_property
    def typical(self) -> dict[int, tuple[int, str]]:
        """The run and flow of each group that is nearest to the group's median, by the group's number."""
        names = ("goodput_mbps", "startup_goodput_mbps", "rtt_mean_ms", "retransmitted_percent")
        chosen = {}
        for group in self.drawn:
            flows = group.flows
            for name in names:
                flows = with_metric(flows, name, self.results)
            table = flows.select(pl.col(name).cast(pl.Float64).fill_null(float("nan")) for name in names)
            known = table.select(name for name in names if not table[name].is_nan().all())
            row = flows.row(most_typical(known.to_numpy()) if known.width else 0, named=True)
            chosen[group.number] = (int(row["run"]), str(row["flow"]))
        return chosen

    def series(self, run: int, flow: str) -> pl.DataFrame:
        """Return a flow's series in order of time, `t_s` counted from the flow's beginning."""
        part = self.results.table("series").filter((pl.col("run") == run) & (pl.col("flow") == flow)).sort("t_s")
        start = self.results.table("flows").filter((pl.col("run") == run) & (pl.col("flow") == flow))["start_s"]
        return part.with_columns(pl.col("t_s") - (start[0] if len(start) else 0.0))

    @functools.cached_property
    def main_link(self) -> str | None:
        """The directed link the study turns on: as set, else the one that carried most of what it could."""
        if not self.results.has("links"):
            return None
        links = self.results.table("links")
        if self.settings.link:
            return self.settings.link if self.settings.link in links["link"].unique() else None
        load = links.group_by("link").agg((pl.col("delivered_bytes").sum() / pl.col("rate_mbps").sum()).alias("load"))
        return str(load.sort("load", "link", descending=[True, False])["link"][0])

    def link_series(self, run: int, link: str) -> pl.DataFrame:
        """Return a link's rows of a run in order of time, with the delivered rate in Mbit/s."""
        part = self.results.table("links").filter((pl.col("run") == run) & (pl.col("link") == link)).sort("t_s")
        step = pl.col("t_s").diff().fill_null(pl.col("t_s").first())
        return part.with_columns((pl.col("delivered_bytes") * 8e-6 / step).alias("delivered_mbps"))


FILE = "file"
"""Where results were measured from several files, this is what varies."""


def _factors(row: Mapping[str, Any]) -> dict[str, str]:
    """Return what a flow's group differs in from others: what varied, and its flow and congestion control."""
    own = {"flow": str(row["flow"]), "cc": f"{row['cc']} {row['cc_params']}"}
    return own | {key: _text(value) for key, value in _varied(row)}


def _varied(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return what the point of a flow varies beside the flow's own congestion control."""
    own = ("flow.cc", f"flows.{row['flow'].split('.')[0]}.cc")
    point: dict[str, Any] = json.loads(row["point"]) if row["point"] else {}
    return ((key, value) for key, value in point.items() if key not in own)


def _names(rows: Sequence[Mapping[str, Any]], *, in_full: bool) -> list[str]:
    """Name groups, of each of which a row of `flows` is given: by the algorithm where that tells them apart.

    Otherwise (or `in_full`) by what varies too; groups that have the same words all the same are numbered.
    """
    algorithms = [str(row["cc"]) for row in rows]
    if not in_full and all(algorithms) and len(set(algorithms)) == len(rows):
        return algorithms
    many = in_full or len({row["flow"] for row in rows}) > 1
    names: list[str] = []
    for row in rows:
        words = [str(row["flow"])] if many or not row["cc"] else []
        words += [str(row["cc"])] if row["cc"] else []
        set_values = {} if row["cc_params"] in ("", "{}") else json.loads(row["cc_params"])
        words += [f"{key} = {_text(value)}" for key, value in set_values.items()]
        words += [_text(value) if key == FILE else f"{in_words(key)} = {_text(value)}" for key, value in _varied(row)]
        names.append(", ".join(words))
    return distinct(names, lambda name, copy: f"{name} ({copy})")


def in_words(key: str) -> str:
    """Return a key path of a study as words.

    Examples:
        >>> in_words("links.satellite.queue"), in_words("flow.size"), in_words("flows.download.cc")
        ('satellite queue', 'size', 'download cc')
    """
    parts = key.split(".")
    return " ".join(parts[1:] if parts[0] in ("flow", "flows", "link", "links", "hosts") and len(parts) > 1 else parts)


def _in_full(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name", json.dumps(value, sort_keys=True)))
    return value if isinstance(value, str) else json.dumps(value)
