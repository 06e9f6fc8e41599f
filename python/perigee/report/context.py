# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What every section works on: the flows in their groups, named, ordered and with a look of their own."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from perigee.metrics import Metric, group_value, metric, with_metric
from perigee.report.settings import Published, ReportSettings, published, report_settings
from perigee.report.style import Look, look
from perigee.results import Results
from perigee.statistics import most_typical


@dataclass(frozen=True)
class Group:
    """Flows that are shown together, one per run and round.

    Attributes:
        key: what the data calls it: an algorithm, or the point and flow.
        label: what people call it.
        flows: the rows of `flows`.
        look: how it is drawn.
    """

    key: str
    label: str
    flows: pl.DataFrame
    look: Look


class Context:
    """A study's results, ready for the report.

    Args:
        results: the finished results.

    Attributes:
        results: the same.
        settings: what to show.
        published: what was published, if anything.
        flows: the bulk flows that were alone in their run if there are any, else all bulk flows (else all flows).
        shared: bulk flows that shared their run with others.
        found: how the numbers of the results came about, in a word: `simulated`, `emulated` or `measured`.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.found = {"emu": "emulated", "live": "measured"}.get(results.manifest["engine"], "simulated")
        self.settings: ReportSettings = report_settings(results)
        self.published: Published | None = published(results)
        every = results.table("flows")
        bulk = every.filter(pl.col("kind") == "bulk")
        flows = every if bulk.is_empty() else bulk
        flows = flows.with_columns(pl.len().over("run").alias("in_run"))
        alone = flows.filter(pl.col("in_run") == 1)
        self.shared = flows.filter(pl.col("in_run") > 1)
        self._flows = flows if alone.is_empty() or results.is_analysis else alone

    @functools.cached_property
    def groups(self) -> list[Group]:
        """The groups in order: those the settings name first, then as the study has them."""
        return self._grouped(self._flows)

    def groups_of(self, *kinds: str) -> list[Group]:
        """Return groups of all flows of these kinds (`request`, `udp`, `ping`), in order."""
        wanted = self.results.table("flows").filter(pl.col("kind").is_in(kinds))
        return self._grouped(wanted) if not wanted.is_empty() else []

    def _grouped(self, flows: pl.DataFrame) -> list[Group]:
        keyed = flows.with_columns(pl.Series("group", self._keys(flows)))
        keys = keyed["group"].unique(maintain_order=True).to_list()
        named = [key for key in self.settings.order if key in keys]
        ordered = named + [key for key in keys if key not in named]
        parts = keyed.partition_by("group", as_dict=True)
        return [
            Group(key, self.label(key), parts[(key,)].sort("run", "flow"), look(number))
            for number, key in enumerate(ordered)
        ]

    def group(self, key: str) -> Group | None:
        """Return the group of that key."""
        return next((group for group in self.groups if group.key == key), None)

    def label(self, key: str) -> str:
        """Return what people call a group."""
        return self.settings.labels.get(key, key)

    def look_of(self, cc: str) -> Look:
        """Return how an algorithm is drawn, as its own group is if it has one."""
        for group in self.groups:
            if group.key == cc:
                return group.look
        names = sorted(set(self.results.table("flows")["cc"].to_list()))
        return look(names.index(cc))

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
    def typical(self) -> dict[str, tuple[int, str]]:
        """The run and flow of each group that is nearest to the group's median, by the group's key."""
        names = ("goodput_mbps", "startup_goodput_mbps", "rtt_mean_ms", "retransmitted_percent")
        chosen = {}
        for group in self.groups:
            flows = group.flows
            for name in names:
                flows = with_metric(flows, name, self.results)
            table = flows.select(pl.col(name).cast(pl.Float64).fill_null(float("nan")) for name in names)
            known = table.select(name for name in names if not table[name].is_nan().all())
            row = flows.row(most_typical(known.to_numpy()) if known.width else 0, named=True)
            chosen[group.key] = (int(row["run"]), str(row["flow"]))
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

    def _keys(self, flows: pl.DataFrame) -> list[str]:
        """Name each flow's group: by its algorithm where that tells them apart, else by what varies too."""
        distinct = flows.select("cc", "point", "flow").unique()
        if distinct.height == distinct["cc"].n_unique() and "" not in distinct["cc"]:
            return flows["cc"].to_list()
        points = {text: json.loads(text) if text else {} for text in flows["point"].unique().to_list()}
        many = flows["flow"].n_unique() > 1
        keys = []
        for row in flows.select("point", "flow", "cc", "cc_params").iter_rows(named=True):
            set_values = {} if row["cc_params"] in ("", "{}") else json.loads(row["cc_params"])
            words = [row["flow"]] if many or not row["cc"] else []
            words += [row["cc"]] if row["cc"] else []
            words += [f"{key} = {_text(value)}" for key, value in set_values.items()]
            for key, value in points[row["point"]].items():
                if key == FILE:
                    words.append(_text(value))
                elif key not in ("flow.cc", f"flows.{row['flow'].split('.')[0]}.cc"):
                    words.append(f"{_short(key)} = {_text(value)}")
            keys.append(", ".join(words))
        return keys


FILE = "file"
"""Where results were measured from several files, this is what varies."""


def _short(key: str) -> str:
    """Return a key path as words.

    Examples:
        >>> _short("links.satellite.queue"), _short("flow.size"), _short("flows.download.cc")
        ('satellite queue', 'size', 'download cc')
    """
    parts = key.split(".")
    return " ".join(parts[1:] if parts[0] in ("flow", "flows", "link", "links", "hosts") and len(parts) > 1 else parts)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name", json.dumps(value, sort_keys=True)))
    return value if isinstance(value, str) else json.dumps(value)
