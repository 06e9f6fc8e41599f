# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The keys of `report.toml`: what each takes, its default and its meaning.

The readers take the keys that are declared here and no others, and `docs/reference/report.md` is
generated from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perigee.statistics.estimates import CONFIDENCE, EFFECTS

TESTS = ("goodput_mbps", "steady_goodput_mbps", "startup_goodput_mbps", "rtt_mean_ms")
"""Metrics that are tested where a study does not say."""

SUMMARY = ("goodput_mbps", "rtt_mean_ms", "rtt_p95_ms", "retransmitted_percent", "rto_count")
"""Metrics of the summary table where a study does not say."""


@dataclass(frozen=True)
class Key:
    """One key of a table.

    Attributes:
        name: as it is written.
        takes: what its value is, for people.
        default: what holds without it, as it is written; `required` where it must be given, empty where nothing holds.
        meaning: one or two sentences.
    """

    name: str
    takes: str
    default: str
    meaning: str


def _listed(values: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


REPORT = (
    Key("title", "text", '""', "Headline. Without it: the study's `title`, then its name."),
    Key("question", "text", '""', "What the study asks; one paragraph below the headline. Without it: its `about`."),
    Key(
        "answer", "text", '""',
        "The answer to it in one or two sentences, below the question; its numbers are "
        "[computed](#numbers-of-an-answer).",
    ),
    Key("caveats", "list of texts", "[]", "What limits the answer, as a departure from a publication; a line each."),
    Key(
        "headline", "metrics", "[]",
        "Quantities of In short, at most four; of one flow, or all of a `count`, as `goodput_mbps of ftp`. Without it: "
        "those that suit the kinds of flows.",
    ),
    Key(
        "first", "experiment", '""',
        "Experiment whose first figure stands at the head of the page. Without it: the first that has one.",
    ),
    Key("sections", "sections", "[]", "Sections of the page, in this order. Without it: all that suit the data."),
    Key(
        "labels", "table of texts", "{}",
        "Names on the page, as `{ vivace = \"PCC\" }`, for groups, nodes, algorithms that have another name here, and "
        "values of what varies, as `{ \"proxy.enabled = false\" = \"no proxy\" }`.",
    ),
    Key("order", "groups", "[]", "Groups that come first, in this order; the others follow in the study's order."),
    Key("reference", "group", "", "Group that the others are tested against. Without it there are no tests."),
    Key(
        "between", "key that varies", "",
        "Key with two values, as `proxy.enabled`: the section `differences` shows the first minus the second.",
    ),
    Key(
        "link", "directed link", "",
        "Link whose capacity and queue are shown, as `satellite.down`. Without it: the link with the highest load.",
    ),
    Key("sizes_mb", "sizes, MB", "[]", "Sizes of the figure of download times, 0.000001 to 1000000000."),
    Key("tests", "metrics", _listed(TESTS), "Metrics that are tested; none that is a ratio of means."),
    Key(
        "confidence", "number", f"{CONFIDENCE}",
        "Level of all confidence intervals, 0.5 to 0.999; `--confidence` of `perigee report` wins. Tests have "
        "the same: α = 0.05 for 0.95.",
    ),
    Key(
        "effects", "four words", _listed(EFFECTS),
        "Words for effects (Cohen's d, Glass's Δ) below 0.2, 0.5 and 0.8, and for larger ones, where a publication has "
        "others.",
    ),
    Key("summary", "metrics", _listed(SUMMARY), "Columns of the summary table."),
    Key(
        "kept", "table of numbers", "{}",
        "Names of the shares of the window that an algorithm keeps at a loss, as `{ random = 0.9 }`, for the figure "
        "`kept`. Without it: the shares in steps of 5 %.",
    ),
    Key("figure", "tables", "[]", "Figures of your own: `[[figure]]`, see below."),
    Key("quality", "tables", "[]", "What applications need, to score pings against: `[[quality]]`, see below."),
    Key("experiments", "tables", "{}", "Of a study of several experiments, what each shows: [chapters](#chapters)."),
)  # fmt: skip
"""The head of `report.toml`."""

CHAPTER = tuple(key for key in REPORT if key.name not in ("experiments", "first"))
"""An `[experiments.NAME]` of `report.toml`."""

FIGURE = (
    Key(
        "figure", "kind", "required",
        "`lines`, `heatmap`, `gain`, `scatter`, `boxes`, `bars`, `cdf`, `dots`, `rtt` or `time`; of flows, "
        "without a metric: `window`, `rows`, `bands`, `campaign`, `kept` or `in-turn`.",
    ),
    Key("metric", "metrics", '["goodput_mbps"]', "What it shows."),
    Key(
        "x", "list of keys", "[]",
        "Along the horizontal axis: a key that varies, as `loss`; of `heatmap` and `gain` two, the second vertical; of "
        "`scatter` a metric. Without it: what suits.",
    ),
    Key("hue", "key", '""', 'What has a colour each. Without it: the algorithm; `"none"` for none.'),
    Key("facet", "list of keys", "[]", "What has panels each: first the columns, then the rows, then figures."),
    Key(
        "flows", "list of flows", "[]",
        "Names of the flows that it shows; a name stands for all of a `count` too. Without it: transfers, or the first "
        "kind of flows that has the metric.",
    ),
)  # fmt: skip
"""A `[[figure]]` of `report.toml`."""

QUALITY = (
    Key("name", "text", "required", "What needs it."),
    Key(
        "optimal_ms", "table of numbers", "required",
        "By percentile, as `{ 99 = 200, \"99.9\" = 300 }`: the round trip up to which the application works as well as "
        "it can, ms.",
    ),
    Key(
        "unacceptable_ms", "table of numbers", "required",
        "Of the same percentiles: the round trip from which on it is of no use, ms.",
    ),
    Key("optimal_loss_percent", "number", "", "The loss up to which it works as well as it can, %."),
    Key("unacceptable_loss_percent", "number", "", "The loss from which on it is of no use, %; with the one before."),
    Key("least_mbps", "number", "", "The throughput that it needs, Mbit/s."),
    Key("throughput_of", "flow", "", "The flow of the same run whose throughput counts; with `least_mbps`."),
)  # fmt: skip
"""A `[[quality]]` of `report.toml`."""
