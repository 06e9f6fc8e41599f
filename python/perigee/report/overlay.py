# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Two results of a study on one page: their cells, and their time series laid over each other, group by group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from perigee.errors import InputError
from perigee.numbers import number, probability, signed
from perigee.report.comparison import Difference, as_frame, label_of, pairs, remarks
from perigee.report.context import Context, Group
from perigee.report.html import write
from perigee.report.legends import legend_above
from perigee.report.model import Block, Cell, Fact, Plot, Report, Section, Table, Text
from perigee.report.provenance import citations, made
from perigee.report.sections.representative import rtt_of
from perigee.report.style import figure, look, styled
from perigee.statistics.metrics import mean
from perigee.store.manifest import ENGINES
from perigee.store.results import Results

ROWS = (
    ("goodput_mbps", "Throughput\n(Mbit/s)"),
    ("rtt_ms", "Round-trip\ntime (ms)"),
    ("cwnd_packets", "Window\n(packets)"),
    ("retransmitted_total", "Retransmitted\nso far (packets)"),
)
"""What is drawn over time: column and label."""


def write_overlay(a: Results, b: Results, cells: Sequence[Difference], out: Path) -> None:
    """Write the page of two results.

    Args:
        a: the first.
        b: the second.
        cells: what `perigee.report.comparison.compare` found.
        out: the HTML file.

    Raises:
        InputError: `out` is a folder.
        StorageError: it cannot be written.
    """
    if out.is_dir():
        raise InputError(f"{out}: is a folder; give the name of an HTML file to write with --out")
    with styled():
        write(overlay(a, b, cells), out)


def overlay(a: Results, b: Results, cells: Sequence[Difference]) -> Report:
    """Return the page of two results; figures are drawn, nothing is written."""
    names = (_name(a, "A"), _name(b, "B"))
    sections = [Section("cells", "Cell by cell", [_table(cells, names, remarks(a, b, cells))])]
    if a.has("series") and b.has("series"):
        contexts = (Context(a), Context(b))
        note = Text(
            "Lines: the mean over the rounds at each instant since the flow began; areas: from the least to the "
            "largest of the rounds. Retransmissions are counted from the beginning."
        )
        plots = [_plot(contexts, groups, names, place) for place, groups in enumerate(pairs(a, b))]
        blocks: list[Block] = [note, *(plot for plot in plots if plot)]
        sections.append(Section("series", "Over time", blocks))
    runs = (str(a.manifest["runs"]), str(b.manifest["runs"]))
    return Report(
        title=f"{a.study}: A beside B",
        question=f"What differs between {names[0]} and {names[1]}?",
        facts=[Fact(runs[0], "runs of A"), Fact(runs[1], "runs of B")],
        sections=sections,
        made=[
            (f"{side}, {name}", text)
            for side, context in (("A", Context(a)), ("B", Context(b)))
            for name, text in made(context)
        ],
        citations=citations(None),
    )


def over_time(context: Context, group: Group) -> pl.DataFrame:
    """Return what a group's flows did over time: `t_s`, and per quantity its mean, least and largest over the flows.

    Args:
        context: the results.
        group: flows of one kind, one per round.

    Returns:
        Columns `t_s` (since the flow began, the end of the interval) and, for each quantity of `ROWS`, `NAME`,
        `NAME_low` and `NAME_high`, in the unit of its name.
    """
    parts = []
    for run, flow in group.flows.select("run", "flow").iter_rows():
        part = context.series(run, flow)
        if part.is_empty():
            continue
        step = float(part["t_s"].diff().median() or 1.0)  # type: ignore[arg-type]
        parts.append(
            part.select(
                (pl.col("t_s") / step).round(0).mul(step).alias("t_s"),
                pl.col("goodput_mbps").cast(pl.Float64),
                rtt_of(part).cast(pl.Float64).alias("rtt_ms"),
                pl.col("cwnd_packets").cast(pl.Float64),
                pl.col("retransmitted_packets").cast(pl.Float64).cum_sum().alias("retransmitted_total"),
            ).filter(pl.col("t_s") >= 0)
        )
    if not parts:
        return pl.DataFrame()
    names = [name for name, _ in ROWS]
    return (
        pl.concat(parts)
        .group_by("t_s")
        .agg(
            *(pl.col(name).mean() for name in names),
            *(pl.col(name).min().alias(f"{name}_low") for name in names),
            *(pl.col(name).max().alias(f"{name}_high") for name in names),
        )
        .sort("t_s")
    )


def _plot(
    contexts: tuple[Context, Context], groups: tuple[Group, Group], names: tuple[str, str], place: int
) -> Plot | None:
    both = [over_time(context, group) for context, group in zip(contexts, groups, strict=True)]
    if any(part.is_empty() for part in both):
        return None
    shown = [(name, label) for name, label in ROWS if any(part[name].count() for part in both)]
    drawing = figure(1.25 * len(shown) + 0.6)
    axes = drawing.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for at, (part, name) in enumerate(zip(both, names, strict=True)):
        one, t, dense = look(at), part["t_s"].to_numpy(), part.height > 4000
        for axis, (column, label) in zip(axes, shown, strict=True):
            axis.plot(t, part[column].to_numpy(), color=one.color, ls=one.dash, lw=1.1, label=name, rasterized=dense)
            axis.fill_between(
                t, part[f"{column}_low"].to_numpy(), part[f"{column}_high"].to_numpy(), color=one.color, alpha=0.18,
                lw=0, rasterized=dense,
            )  # fmt: skip
            axis.set_ylabel(label)
    axes[0].set_title(label_of(groups))
    for axis in axes:
        axis.set_ylim(bottom=0)
    axes[-1].set_xlim(left=0)
    axes[-1].set_xlabel("Time since the flow began (s)")
    drawing.align_ylabels()
    legend_above(drawing, axes[0])
    means = [mean(group.flows["goodput_mbps"]) for group in groups]
    words = f"{label_of(groups)}: {number(means[0])} Mbit/s in A, {number(means[1])} in B"
    rounds = " and ".join(str(group.flows.height) for group in groups)
    return Plot(f"overlay-{place}", f"{words} ({rounds} flows).", f"{words}, over time", drawing)


def _table(cells: Sequence[Difference], names: tuple[str, str], remarks: Sequence[str]) -> Table:
    rows = []
    for cell in cells:
        digits = cell.digits
        half = "" if cell.half_width != cell.half_width else f" ± {number(cell.half_width, digits)}"
        texts = (
            cell.label, cell.metric.heading, number(cell.a, digits), number(cell.b, digits),
            signed(cell.difference, digits) + half, signed(cell.percent), cell.comparison.reason or probability(cell.p),
            probability(cell.p_wilcoxon), cell.comparison.size,
        )  # fmt: skip
        rows.append([Cell(text) for text in texts])
    return Table(
        name="cells",
        caption="Means, and the difference B - A with its 95 % confidence interval",
        head=["Flows", "Quantity", "A", "B", "B - A", "%", "p", "p (Wilcoxon)", "rounds"],
        rows=rows,
        data=as_frame(cells),
        notes=[*names, *remarks],
        words=(1, 8),
    )


def _name(results: Results, letter: str) -> str:
    return f"{letter}: {results.path.name} ({ENGINES[results.manifest['engine']]})"
