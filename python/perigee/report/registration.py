# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Predictions of a study, registered before anybody opens what was published: a file that is written once."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from perigee.errors import InputError
from perigee.files import write_atomically
from perigee.groups.factors import ALGORITHM
from perigee.groups.group import Group
from perigee.groups.kinds import SECTION_OF
from perigee.report.charts.sample import Mean, mean_of
from perigee.report.context import Context
from perigee.report.model import Plot, Report, Table
from perigee.report.provenance import command_line
from perigee.statistics.metrics import METRICS, Metric, group_spread, numeric, sample
from perigee.statistics.metrics import metric as metric_of
from perigee.store.results import Results
from perigee.store.values import sum_of_sums

MOST_POINTS = 100
"""Points of a curve that are registered; of more, these are evenly picked, the first and the last among them."""

DIGITS = 6
"""Significant digits of a number: more than any report shows."""

PERCENTILES = (0, 10, 25, 50, 75, 90, 100)
"""Percentiles over the flows of a cell that are registered."""

CELL = ("cell", "mean", "half_width", "sd", "flows", "percentiles_0_10_25_50_75_90_100", "zero_percent", "factors")
"""Columns of the cells of a quantity: `zero_percent` is the share of flows without any, `factors` what varies here."""

OF_LINKS = "link_"
"""Beginning of the quantities of a link, which no flow has."""

HEAD = """\
# What version {version} predicted for `{study}` on {date}.
# `perigee report RESULTS --register FILE` wrote this file. It never changes; later versions write files of their own.
# An empty text stands for what is unknown.
"""

Value = str | float | int | bool | None | Sequence["Value"] | Mapping[str, "Value"]


def register(results: Results, report: Report, path: Path) -> None:
    """Write every quantity that a report shows, with what identifies the runs.

    Args:
        results: the results of a whole study.
        report: their whole report.
        path: a TOML file that does not exist.

    Raises:
        InputError: the file exists, or the runs are not those of the whole study as it is described.
        StorageError: it cannot be written.
    """
    if path.exists() or path.is_symlink():
        raise InputError(f"{path}: exists, and what is registered never changes; give --register another name")
    manifest = results.manifest
    if manifest["engine"] != "sim":
        raise InputError(f"{results.path}: was not simulated, and --register is for predictions")
    if manifest["reduced"] or manifest["settings"]:
        why = "of the study's reduced size" if manifest["reduced"] else f"with {', '.join(manifest['settings'])}"
        raise InputError(f"{results.path}: are runs {why}; --register needs the whole study as it stands")
    write_atomically(path, registration(results, report, datetime.now(UTC)).encode())


def registration(results: Results, report: Report, now: datetime) -> str:
    """Return the file: a head, a table per quantity and experiment, and the other tables and curves of the report.

    Args:
        results: the results.
        report: their report.
        now: the time of registration.
    """
    manifest = results.manifest
    version = manifest["versions"]["perigee"]
    lines = [HEAD.format(version=version, study=results.study, date=f"{now:%Y-%m-%d}")]
    lines += _table("registered", {
        "study": results.study, "title": report.title, "date": f"{now:%Y-%m-%dT%H:%M:%SZ}", "version": version,
        "build": manifest["build"], "command": command_line(manifest), "first_seed": manifest["first_seed"],
        "rounds": manifest["rounds"], "runs": manifest["runs"], "study_sha256": manifest["study_hash"],
        "values_sha256": sum_of_sums(results.value_sums()), "confidence": Context(results).settings.confidence,
    })  # fmt: skip
    lines.append("")
    for experiment in results.experiments or ("",):
        lines += _quantities(results, report, experiment)
    for block in _blocks(report):
        lines += _numbers(report, block)
    return "\n".join(lines)


def _quantities(results: Results, report: Report, experiment: str) -> Iterator[str]:
    """Return each quantity that the report shows: mean, interval and spread of each cell, and the algorithms' order."""
    context = Context(results.of_experiment(experiment) if experiment else results)
    groups = context.pooled(_of_all_kinds(context))
    columns = numeric(context.results.table("flows"))
    for metric in (metric_of(name, columns) for name in _of_flows(report)):
        of_groups = [(group, found) for group in groups if (found := _mean(context, group, metric)) is not None]
        if not of_groups:
            continue
        yield from _table("[quantity]", {
            "experiment": experiment, "metric": metric.name, "title": metric.title, "unit": metric.unit,
        })  # fmt: skip
        yield from _rows("cells", CELL, [_cell(context, group, metric, found) for group, found in of_groups])
        orders = _orders(context, [(group, found.mean) for group, found in of_groups])
        yield from _rows("highest_first", ["setting", "algorithms"], orders)
        yield ""


def _of_all_kinds(context: Context) -> list[Group]:
    """Return the groups of the report's main part, and of the flows that have a section to themselves."""
    of_sections = [group for kind in SECTION_OF for group in context.groups_of(kind)]
    return list({group.name: group for group in [*of_sections, *context.all_groups]}.values())


def _cell(context: Context, group: Group, metric: Metric, found: Mean) -> list[Value]:
    """Return what `CELL` names."""
    flows = context.with_metric(group, metric.name)
    values = sample(flows, metric.name)
    return [
        group.name, found.mean, found.half_width, group_spread(flows, metric), found.flows,
        np.percentile(values, PERCENTILES).tolist() if len(values) else [],
        100 * float(np.mean(values == 0)) if len(values) else None,
        dict(group.factors),
    ]  # fmt: skip


def _blocks(report: Report) -> list[Table | Plot]:
    return [*report.tables(), *report.plots()]


def _of_flows(report: Report) -> list[str]:
    """Return the metrics of flows that tables and curves name; those of links stand in their tables."""
    shown = [block.data for block in _blocks(report) if block.data is not None]
    named = [str(name) for data in shown if "quantity" in data.columns for name in data["quantity"]]
    columns = [name for data in shown for name in data.columns if name in METRICS]
    return [name for name in dict.fromkeys([*named, *columns]) if name and not name.startswith(OF_LINKS)]


def _mean(context: Context, group: Group, metric: Metric) -> Mean | None:
    return mean_of(context.with_metric(group, metric.name), metric, context.settings.confidence)


def _orders(context: Context, means: Sequence[tuple[Group, float]]) -> list[list[Value]]:
    """Return the algorithms by falling means, for each setting under which several were run."""
    of_setting: dict[str, list[tuple[float, str]]] = {}
    for group, mean in means:
        others = {key: value for key, value in group.factors.items() if key != ALGORITHM}
        setting = ", ".join(f"{key} = {value}" for key, value in others.items())
        of_setting.setdefault(setting, []).append((mean, context.algorithm(group.rows.row(0, named=True))))
    return [
        [setting, [name for _, name in sorted(pairs, key=lambda pair: -pair[0])]]
        for setting, pairs in of_setting.items()
        if len(pairs) > 1
    ]


def _numbers(report: Report, block: Table | Plot) -> Iterator[str]:
    """Return the numbers of a table or of a figure's curves; nothing without any."""
    if block.data is None or not any(kind.is_numeric() for kind in block.data.dtypes):
        return
    data = _thinned(block.data) if isinstance(block, Plot) else block.data
    kind = "[curves]" if isinstance(block, Plot) else "[table]"
    yield from _table(kind, {"name": block.name, "place": report.number(block), "caption": block.caption})
    yield from _rows("rows", data.columns, data.rows())
    yield ""


def _thinned(data: pl.DataFrame) -> pl.DataFrame:
    """Return at most `MOST_POINTS` rows of each curve, in order; a curve is what has the same texts.

    Examples:
        >>> curve = pl.DataFrame({"flow": ["a"] * 199 + ["b"], "t_s": [*range(199), 7]})
        >>> thin = _thinned(curve)
        >>> thin.height, thin["t_s"].to_list()[:3], thin["t_s"].to_list()[-2:]
        (101, [0, 2, 4], [198, 7])
    """
    texts = [name for name, kind in data.schema.items() if not kind.is_numeric()]
    parts = data.partition_by(texts, maintain_order=True) if texts else [data]
    return pl.concat([part[_picked(part.height)] for part in parts]) if parts else data


def _picked(count: int) -> list[int]:
    """Return the indices of at most `MOST_POINTS` of `count` rows."""
    most = min(count, MOST_POINTS)
    return [round(at * (count - 1) / max(most - 1, 1)) for at in range(most)]


def _table(name: str, values: dict[str, Value]) -> list[str]:
    return [f"[{name}]", *(f"{key} = {_text(value)}" for key, value in values.items())]


def _rows(name: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> Iterator[str]:
    """Return the names of columns and a row per line; nothing without rows."""
    if rows:
        yield f"{name}_columns = {_text(list(columns))}"
        yield f"{name} = ["
        yield from (f"  {_text(list(row))}," for row in rows)
        yield "]"


def _text(value: Value) -> str:
    """Return a value as TOML, which has no word for what is unknown: an empty text.

    Examples:
        >>> print(_text(["a = 1 %", 1234567.8, 0.25, 3, None, float("nan"), True]))
        ["a = 1 %", 1234570.0, 0.25, 3, "", "", true]
        >>> print(_text({"cc": "cubic {}", "links.sat.loss": "1 %"}))
        {"cc" = "cubic {}", "links.sat.loss" = "1 %"}
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return '""'
    if isinstance(value, float):
        return repr(float(f"{value:.{DIGITS}g}"))
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(key)} = {_text(item)}' for key, item in value.items())}}}"
    return json.dumps(value, ensure_ascii=False, default=str)
