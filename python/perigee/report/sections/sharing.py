# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Flows that shared the link: who got how much, and how fairly."""

from __future__ import annotations

import math

import polars as pl
from matplotlib.artist import Artist

from perigee.metrics import mean, sample_of
from perigee.numbers import number
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Plot, Section, Table
from perigee.report.sections.timeline import capacity_area, utilisation
from perigee.report.style import INK, figure
from perigee.statistics import jain

COLUMNS = 2


def section(context: Context) -> Section | None:
    """Return a table of shares and fairness, and throughput over time of the first round of each combination."""
    flows = context.shared
    if flows.is_empty():
        return None
    link = context.main_link
    use = utilisation(context, link) if link else None
    rows, data, runs = [], [], []
    for part in flows.partition_by(["point"], as_dict=True, maintain_order=True).values():
        own = part.partition_by("flow", maintain_order=True)
        goodputs = [mean(one["goodput_mbps"]) for one in own]
        fair = [jain(one["goodput_mbps"].to_numpy()) for one in part.partition_by("run", maintain_order=True)]
        fairness = sum(fair) / len(fair)
        used = float("nan") if use is None else mean(part.join(use, on="run")["utilisation_percent"])
        names = [context.label(one["cc"][0]) for one in own]
        runs.append((int(sample_of(part["run"]).min()), " and ".join(names)))
        for place, (one, name, goodput) in enumerate(zip(own, names, goodputs, strict=True)):
            share = 100 * goodput / sum(goodputs) if sum(goodputs) else float("nan")
            delay, high = mean(one["rtt_mean_ms"]), mean(one["rtt_p95_ms"])
            together = [Cell(number(fairness, 2)), Cell(number(used))] if place == 0 else [Cell(""), Cell("")]
            first = Cell(" and ".join(names)) if place == 0 else Cell("")
            rows.append(
                [first, Cell(f"{name} ({one['flow'][0]})"), Cell(number(goodput)), Cell(number(share, 0)),
                 Cell(number(delay)), Cell(number(high)), *together]
            )  # fmt: skip
            data.append(
                {"together": " and ".join(one["cc"][0] for one in own), "flow": one["flow"][0], "cc": one["cc"][0],
                 "goodput_mbps": goodput, "share_percent": share, "rtt_mean_ms": delay, "rtt_p95_ms": high,
                 "jain": fairness, "utilisation_percent": used, "rounds": one.height}
            )  # fmt: skip
    table = Table(
        name="sharing",
        caption="Sharing the link: throughput and its share, Jain's fairness index (1: equal), capacity in use; means "
        "over rounds",
        head=["Together", "", "Throughput (Mbit/s)", "Share (%)", "Mean RTT (ms)", "95th percentile (ms)", "Jain",
              "Capacity in use (%)"],
        rows=rows,
        data=pl.DataFrame(data, infer_schema_length=None),
        words=(1,),
    )  # fmt: skip
    blocks: list[Block] = [table]
    if context.results.has("series"):
        blocks.append(_plot(context, runs, link))
    return Section("sharing", "Flows that share the link", blocks)


def _plot(context: Context, runs: list[tuple[int, str]], link: str | None) -> Plot:
    height = math.ceil(len(runs) / COLUMNS)
    drawing = figure(0.5 + 1.65 * height)
    panels = drawing.subplots(height, COLUMNS, sharex=True, sharey=True, squeeze=False)
    series = context.results.table("series")
    for axes, (run, title) in zip(panels.flat, runs, strict=False):
        if link:
            capacity = context.link_series(run, link)
            capacity_area(axes, capacity, 0.0)
        flows = context.shared.filter(pl.col("run") == run)
        for place, row in enumerate(flows.iter_rows(named=True)):
            part = series.filter((pl.col("run") == run) & (pl.col("flow") == row["flow"])).sort("t_s")
            look = context.look_of(row["cc"])
            same = flows["cc"].n_unique() < flows.height and place > 0
            label = "second of the same" if same else context.label(row["cc"])
            axes.plot(
                part["t_s"].to_numpy(), part["goodput_mbps"].to_numpy(), color=INK if same else look.color,
                ls=(0, (2, 1)) if same else look.dash, lw=1, label=label, rasterized=len(part) > 4000,
            )  # fmt: skip
        axes.set_title(title, fontsize=8.5)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
    for axes in panels.flat[len(runs) :]:
        axes.set_visible(False)
    seen: dict[str, Artist] = {}
    for axes in panels.flat[: len(runs)]:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            seen.setdefault(label, handle)
    drawing.legend(list(seen.values()), list(seen), loc="outside upper center", ncols=min(len(seen), 6))
    drawing.supxlabel("Time (s)", fontsize=9)
    drawing.supylabel("Throughput (Mbit/s)", fontsize=9)
    return Plot(
        "sharing",
        "Throughput of flows that share the link, first round of each combination"
        + (f"; grey: capacity of {link}." if link else "."),
        "Throughput over time of: " + "; ".join(title for _, title in runs),
        drawing,
    )
