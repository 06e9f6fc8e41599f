# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How studies, results and profiles show themselves in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from perigee.errors import PerigeeError
from perigee.numbers import counted, number

if TYPE_CHECKING:
    import polars as pl

    from perigee.api.comparison import Comparison
    from perigee.api.profiles import Profile
    from perigee.api.results import Results
    from perigee.api.study import Study

MOST_ROWS = 20
"""Rows of a table that are shown."""

Row = Sequence[str]


def study_html(study: Study) -> str:
    """Return what a study is: its title, what was changed, its points; where it is wrong, what is."""
    parts = [_heading("Study", study.name, study.title), _paragraph(study.about)]
    if study.settings:
        parts.append(_paragraph(f"Changed: {'; '.join(study.settings)}"))
    try:
        points = study.laid_out()
    except PerigeeError as error:
        parts.append(_paragraph(f"error: {error}"))
    else:
        count = f"{points.table.height} point{'' if points.table.height == 1 else 's'}"
        shown = points.table.drop("run").rename({key: f"{key} ({unit})" for key, unit in points.units.items()})
        parts += [_paragraph(count), _frame(shown) if shown.width else ""]
    return "".join(parts)


def results_html(results: Results) -> str:
    """Return what results are, and their means by what varies."""
    manifest = results.manifest
    said = [counted(manifest["runs"], "run"), f"engine {results.engine}", *manifest["settings"]]
    said += ["the study's reduced size"] if manifest["reduced"] else []
    parts = [_heading("Results", results.study, results.title), _paragraph(f"{results.folder}: {', '.join(said)}")]
    return "".join([*parts, _frame(_means(results)), _paragraph(f"Tables: {', '.join(results.tables)}")])


def profile_html(profile: Profile) -> str:
    """Return what a profile is, and a minute of it drawn; what is wrong with it, where something is."""
    parts = [_heading("Profile", profile.name, profile.title), _paragraph(f"Source: {profile.source}")]
    if profile.settings:
        parts.append(_paragraph(f"Changed: {'; '.join(f'{key}={value}' for key, value in profile.settings)}"))
    try:
        image = base64.b64encode(profile.draw()._repr_png_()).decode()
        parts.append(f'<img alt="" src="data:image/png;base64,{image}"/>')
    except PerigeeError as error:
        parts.append(_paragraph(f"error: {error}"))
    return "".join(parts)


def comparison_html(comparison: Comparison) -> str:
    """Return differences in how results were made, the cells that differ, and notes on them."""
    import polars as pl

    half_width = next((name for name in comparison.cells.columns if name.startswith("half_width_")), "difference")
    shown = ["group", "quantity", "unit", "other", "a", "b", "difference", half_width, "p_holm"]
    shown += ["flows_a", "flows_b"]
    cells = comparison.cells.filter(pl.col("remark") != "the same").select(shown)
    parts = [_heading("Comparison", "", ""), _frame(comparison.changes), _frame(cells)]
    return "".join([*parts, *map(_paragraph, comparison.remarks)])


def table_html(head: Row, rows: Iterable[Row]) -> str:
    """Return a table.

    Examples:
        >>> table_html(["a"], [["<1>"]])
        '<table><thead><tr><th scope="col">a</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _means(results: Results) -> pl.DataFrame:
    import polars as pl

    keys = [name for name in results.points.columns if name != "run"]
    flows = results.with_metrics("retransmitted_percent")
    own = ["flow", *([] if "point.cc" in keys else ["cc"])]
    quantities = ["goodput_mbps", "rtt_mean_ms", "retransmitted_percent"]
    means = flows.group_by(*keys, *own, maintain_order=True).agg(
        pl.len().alias("flows"), *(pl.col(name).cast(pl.Float64).mean() for name in quantities)
    )
    return means.rename({key: f"{key} ({unit})" for key, unit in results.units.items()})


def _frame(frame: pl.DataFrame) -> str:
    rows = [[_cell(value) for value in row] for row in frame.head(MOST_ROWS).iter_rows()]
    more = frame.height - len(rows)
    return table_html(frame.columns, rows) + (_paragraph(f"and {more} more") if more > 0 else "")


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:g}" if value == round(value, 6) else number(value, 2)
    return str(value)


def _heading(kind: str, name: str, title: str) -> str:
    said = f": {escape(title)}" if title else ""
    return f"<p><strong>{escape(' '.join(filter(None, (kind, name))))}</strong>{said}</p>"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""
