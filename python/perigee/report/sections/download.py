# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Download time by size of the object: mean and confidence interval over flows."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl

from perigee.numbers import number, with_interval
from perigee.report.charts.few import with_few
from perigee.report.charts.over_time import Curve, TimePanel, over_time
from perigee.report.charts.scales import with_direction
from perigee.report.context import Context
from perigee.report.model import Cell, Plot, Section, Table
from perigee.statistics.estimates import at_level, mean_interval, percent
from perigee.statistics.metrics import download_times

AXIS = with_direction("Time to download (s)", higher_is_better=False)

ROOM = 1.3
"""End of the vertical axis, as a multiple of the largest mean: bands may reach far beyond."""

MOST_PANELS = 6

IN_TABLE = 6
"""Maximum number of sizes in the printed table; the data have all."""


def section(context: Context) -> Section | None:
    """Return the figure and a table of download times."""
    level = context.settings.confidence
    sizes = [round(size * 1e6) for size in context.settings.sizes_mb]
    if not sizes:
        return None
    kept, left_out = context.panels(context.drawn, MOST_PANELS)
    data: list[dict[str, object]] = []
    cells, curves = {}, {}
    for group in context.drawn:
        times = download_times(group.flows, sizes, context.results)
        mine = times.join(group.flows.select("run", "flow"), on=["run", "flow"], how="semi")
        found = {key[0]: part["t_s"].to_numpy() for key, part in mine.partition_by("bytes", as_dict=True).items()}
        points = [(size / 1e6, *mean_interval(found[size], level), len(found[size])) for size in sizes if size in found]
        if not points:
            continue
        curves[group.number] = np.array([point[:3] for point in points])
        for megabytes, m, h, flows in points:
            cells[group.number, megabytes] = (m, h)
            half = {f"{at_level('half_width', level)}_s": h}
            data.append({"group": group.name, "size_mb": megabytes, "mean_s": m, **half, "flows": flows})
    if not data:
        return None
    kept = [panel for panel in kept if any(group.number in curves for group in panel.groups)]
    shown = [size / 1e6 for size in _spread(sizes)]
    table = Table(
        name="download-times",
        caption=f"Time to download an object, mean with its {percent(level)} confidence interval (s)",
        head=["", *(f"{size:g} MB" for size in shown)],
        rows=[
            [Cell.naming(group), *(_cell(cells.get((group.number, size))) for size in shown)]
            for group in context.groups
        ],
        data=pl.DataFrame(data, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None)),
        folded=True,
    )
    last = shown[-1]
    alt = "; ".join(
        f"{group.label}: {number(cells[group.number, last][0])} s for {last:g} MB"
        for group in context.groups
        if (group.number, last) in cells
    )
    caption = (
        "Time from opening the connection to the last byte of an object of each size: mean over flows; shaded, where "
        f"it can be seen: {percent(level)} confidence interval. {left_out}"
    )
    few, grey = with_few(kept, {group: float(curve[-1, 1]) for group, curve in curves.items()}, context.yardsticks)
    panels = [
        TimePanel(
            panel.title,
            [[
                Curve(text, group.look, x, mean, (mean - half, mean + half), form="marked", width=1.4)
                for group, text in panel.labelled() if group.number in curves
                for x, mean, half in [curves[group.number].T]
            ]],
        )
        for panel in few
    ]  # fmt: skip
    top = ROOM * max(float(curves[group.number][:, 1].max()) for panel in few for group, _ in panel.labelled()
                     if group.number in curves)  # fmt: skip
    draw = partial(
        over_time, panels, [AXIS], "Size of the object (MB)", narrowest_in=2.2,
        height_in=2.6 if len(few) == 1 else 1.8, tops=[[top] * len(few)],
    )  # fmt: skip
    plot = Plot.of("download-time", f"{caption} {grey}".strip(), alt, draw)
    return Section("download", "Time to download an object", [plot, table])


def _spread(sizes: list[int]) -> list[int]:
    """Return the smallest, the largest, and round sizes between.

    Examples:
        >>> [size // 10**6 for size in _spread([n * 10**6 for n in range(1, 51)])]
        [1, 5, 10, 20, 30, 40, 50]
    """
    if len(sizes) <= IN_TABLE:
        return sizes
    wanted = [sizes[0], *(round(sizes[-1] * share) for share in (0.1, 0.2, 0.4, 0.6, 0.8)), sizes[-1]]
    return [size for size in dict.fromkeys(wanted) if size in sizes]


def _cell(value: tuple[float, float] | None) -> Cell:
    if value is None:
        return Cell("–")
    return Cell(with_interval(*value))
