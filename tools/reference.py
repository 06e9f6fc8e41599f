# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes the tables of the reference that come from the Python package, in the pages of `PAGES`.

`.venv/bin/python tools/reference.py` brings the pages up to date; a test fails when they are stale. A table stands
between `<!-- keys: NAME -->` and `<!-- end -->`; the text around it is written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from perigee.campaigns import keys as campaign_keys
from perigee.core import native
from perigee.groups import keys
from perigee.groups.keys import Key
from perigee.report.sections import SECTIONS
from perigee.scoring import keys as published
from perigee.statistics.metrics import METRICS, Metric

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"

PLACE = re.compile(r"<!-- keys: (.+?) -->\n(.*?)<!-- end -->", re.DOTALL)


def rows(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    cells = ([cell.replace("|", "\\|") for cell in line] for line in [head, *lines])
    first, *others = ("| " + " | ".join(line) + " |\n" for line in cells)
    return first + "|" + "---|" * len(head) + "\n" + "".join(others)


def key_table(declared: Sequence[Key]) -> str:
    """The keys of a table of `report.toml` or `published.toml`."""
    return rows(
        ["key", "takes", "default", "meaning"],
        ([f"`{key.name}`", key.takes, default(key.default), key.meaning] for key in declared),
    )


def default(text: str) -> str:
    """A default for people."""
    return {"": "-", "required": "required"}.get(text, f"`{text}`")


def section_table() -> str:
    """The sections of a report, in the order of a report that does not choose."""
    return rows(["section", "shows"], ([f"`{name}`", shown(make)] for name, make in SECTIONS.items()))


def shown(make: Callable[..., object]) -> str:
    """Return the maker's description of its result."""
    first = (make.__doc__ or "").strip().splitlines()[0]
    words = first.removeprefix("Return ")
    return words[0].upper() + words[1:]


def measured() -> Iterator[Metric]:
    """The metrics that are columns of the table `flows`."""
    return (metric for metric in METRICS.values() if metric.parts is None and metric.source is None)


def column_table() -> str:
    """The metrics that are columns, each with the meaning that the column has."""
    meaning = meanings("flows")
    return rows(["metric", "in reports", "unit", "better", "meaning"], (row(m, meaning[m.name]) for m in measured()))


def meanings(name: str) -> Mapping[str, str]:
    """The meanings of the columns of a table of results."""
    tables = json.loads((ROOT / "schema" / "results.json").read_text(encoding="utf-8"))["tables"]
    columns = next(table["columns"] for table in tables if table["name"] == name)
    return {column["name"]: column["meaning"] for column in columns}


def source_table(name: str) -> str:
    """The metrics that are columns of another table, each with the meaning that the column has."""
    meaning = meanings(name)
    sources = ((metric, metric.source) for metric in METRICS.values() if metric.source and metric.source[0] == name)
    return rows(
        ["metric", "in reports", "unit", "better", "meaning"],
        (row(m, meaning.get(column) or f"`{column}`, of the columns.") for m, (_, column) in sources),
    )


def ratio_table() -> str:
    """The metrics that are computed from two columns."""
    ratios = ((metric, metric.parts) for metric in METRICS.values() if metric.parts)
    return rows(
        ["metric", "in reports", "unit", "better", "computed as"], (row(m, ratio(m, parts)) for m, parts in ratios)
    )


def row(metric: Metric, meaning: str) -> list[str]:
    """A metric as the cells of a row."""
    better = {True: "higher", False: "lower", None: "-"}[metric.higher_is_better]
    return [f"`{metric.name}`", metric.title, metric.unit or "-", better, meaning]


def ratio(metric: Metric, parts: tuple[str, str]) -> str:
    """A ratio as a formula."""
    top, bottom = (f"mean of `{part}`" if metric.of_means else f"`{part}`" for part in parts)
    return f"{metric.scale:g} * {top} / {bottom}"


def systems_table() -> str:
    """The systems that hosts can have, each with what holds its settings."""
    return rows(
        ["system", "what it is", "held against the system"],
        ([f"`{one.name}`", one.about, one.held] for one in native.host_systems()),
    )


def system_table(name: str) -> str:
    """The settings of a system that are not the defaults, with the source of each."""
    system = next(one for one in native.host_systems() if one.name == name)
    return rows(
        ["setting", "value", "source"],
        ([f"`{setting}`", value, source] for setting, value, source in system.settings if source),
    )


PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "report.md": {
        "report.toml": lambda: key_table(keys.REPORT),
        "sections": section_table,
        "figure": lambda: key_table(keys.FIGURE),
        "quality": lambda: key_table(keys.QUALITY),
    },
    "published.md": {
        "published.toml": lambda: key_table(published.PUBLISHED),
        "table": lambda: key_table(published.TABLE),
        "table.value": lambda: key_table(published.VALUE),
        "claim": lambda: key_table(published.CLAIM),
        "claim.test": lambda: key_table(published.TEST),
    },
    "campaign.md": {
        "campaign": lambda: key_table(campaign_keys.CAMPAIGN),
        "campaign measure": lambda: key_table(campaign_keys.MEASURE),
        "campaign recordings": lambda: key_table(campaign_keys.RECORDINGS),
    },
    "metrics.md": {
        "columns": column_table,
        "ratios": ratio_table,
        "voice": lambda: source_table("voice"),
        "videos": lambda: source_table("videos"),
        "calls": lambda: source_table("calls"),
        "pages": lambda: source_table("pages"),
    },
    # All but the first system, whose settings are the defaults.
    "hosts.md": {"systems": systems_table}
    | {one.name: partial(system_table, one.name) for one in native.host_systems()[1:]},
}
"""The tables of each page, by the names that the page has for them."""


def updated(page: str, text: str) -> str:
    """The text of a page with its tables brought up to date.

    Raises:
        ValueError: the page lacks a table, has it twice, or names one that there is none of.
    """
    tables = PAGES[page]
    found = [name for name, _ in PLACE.findall(text)]
    if sorted(found) != sorted(tables):
        raise ValueError(f"{page}: has the tables {', '.join(found)}; it needs {', '.join(tables)}")
    return PLACE.sub(lambda place: f"<!-- keys: {place[1]} -->\n{tables[place[1]]()}<!-- end -->", text)


def main() -> None:
    """Write the pages."""
    for page in PAGES:
        path = FOLDER / page
        path.write_text(updated(page, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
