# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries downloads over QUIC out on both engines, and writes docs/models/validation-quic.md.

Cells that miss are simulated again with the lateness of their sockets in the links: whether real time may be the cause.
Ctrl-C loses nothing but the run under way: the same command goes on.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent))

from beside import ROOT, Run, Tolerance, differences, perigee, reasons, toml  # noqa: E402

STUDY = FOLDER / "study.toml"
PAGE = ROOT / "docs" / "models" / "validation-quic.md"
TOLERANCE = Tolerance(goodput=0.02, rtt=0.03, retransmitted=1.2)

CC = "flows.download.cc"
"""The key that varies on each link."""

LATE = "2 ms"
"""A round later than this is carried out again, up to three times in all, unless `--repeat-late` says otherwise."""

LATE_US = 500.0
"""A round whose releases are later than this, in one of 100 cases, is not judged: the machine had other work."""

P99_SIGMAS = 2.3263
"""A normal distribution has one value in 100 this many standard deviations above its median."""

LATE_ROUNDS = 8
"""Simulated rounds with lateness: each has its own."""

ONE = "one of each cell: one value, no mean"
HEAD = """\
# QUIC on sockets beside QUIC in virtual time

**Of the study's {study} cells {cells} were compared here, and {missing} are missing. Of those compared {judged} \
can be judged, and {within} are within. {missed}{explained}**{absent}

`make validate`, as root, carries the study [validation/quic](../../validation/quic/study.toml) out on both engines
and writes this page: the same flow and the same stack, once with links and keys that cost nothing in virtual time,
once with real keys over UDP sockets between namespaces ([the model](quic.md#on-sockets)). Rounds of 20 s, {rounds}.
A link's name has its Mbit/s and its round trip in ms. Within: throughput and mean round trip differ by at most 2 and
3 %, the share of packets deemed lost by a factor of at most 1.2 or 0.1 percentage points.

Of {date}, Linux {kernel}, {cores} cores.
A round in which a link or an end was more than {late} late was repeated, up to three times in all. Cells are judged by
rounds in which they were at most {limit:.0f} us late in 99 of 100 cases; a cell without any shows what the others came
to, and is not judged.

| link | congestion control | Mbit/s: simulated | sockets | difference \
| round trip, ms: simulated | sockets | difference | lost, %: simulated | sockets | within |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""
LATE_HEAD = """\

## What misses, with the lateness of its sockets

Each cell that misses, simulated again with links whose delay has the lateness of its sockets as jitter, that of the
link's releases and that of the ends together, drawn anew each millisecond in both directions: a log-normal distribution
with their median and 99th percentile, and in 1 % of the time a Pareto tail from there to the latest packet. The least
and the most of {rounds} rounds, each column by itself. Where the sockets came to something between, lateness may be the
cause: a wide range shows a cell that such lateness decides, and cells that are within are not simulated so. How late a
link takes up what ends send nobody measures, so it is not in it.

| link | congestion control | late, us: median | one in 100 | latest | Mbit/s: simulated | with lateness | sockets \
| round trip, ms: simulated | with lateness | sockets | lost, %: simulated | with lateness | sockets | as the sockets |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""


@dataclass(frozen=True)
class Lateness:
    """How late packets left a place, us: the median, what one in 100 was beyond, the most, and how many they were."""

    median_us: float
    p99_us: float
    max_us: float
    packets: float

    def beside(self, other: Lateness) -> Lateness:
        """Return the lateness of packets that pass both places."""
        return Lateness(
            self.median_us + other.median_us,
            max(self.p99_us, other.p99_us),
            max(self.max_us, other.max_us),
            min(self.packets, other.packets),
        )

    @property
    def processes(self) -> str:
        """Processes of a delay with this lateness, in TOML: a log-normal body, and a Pareto tail to the latest."""
        median = max(self.median_us, 1.0)
        p99 = max(self.p99_us, median)
        sigma = math.log(p99 / median) / P99_SIGMAS
        body = f'body = {{ kind = "log-normal", median = "{1000 * median:.0f} ns", sigma = {sigma:.4f} }}'
        if self.max_us <= p99 or self.packets <= 100:
            return body
        # One of the packets beyond the 99th percentile was as late as the latest.
        shape = max(math.log(self.packets / 100) / math.log(self.max_us / p99), 0.1)
        bounds = f'min = "{1000 * p99:.0f} ns", max = "{1000 * self.max_us:.0f} ns", shape = {min(shape, 100):.4f}'
        return f'{body}, tail = {{ kind = "pareto", share = "1 %", every = "1 ms", {bounds} }}'


@dataclass(frozen=True)
class Means:
    """Means of rounds: throughput, Mbit/s, round trip, ms, losses, per cent; and lateness by place, none simulated."""

    values: tuple[float, float, float]
    lateness: dict[str, Lateness]

    @property
    def late_us(self) -> float:
        """How late packets were, in one of 100 cases."""
        return max((late.p99_us for late in self.lateness.values()), default=0.0)


@dataclass(frozen=True)
class Range:
    """The least and the largest throughput, round trip and losses of rounds."""

    least: tuple[float, ...]
    most: tuple[float, ...]

    def misses(self, values: Sequence[float]) -> list[str]:
        """The quantities that lie further outside than the page allows."""
        nearest = [min(max(value, low), high) for value, low, high in zip(values, self.least, self.most, strict=True)]
        return _misses(nearest, values)


@dataclass(frozen=True)
class Cell:
    """A congestion control on a link, on both engines."""

    link: str
    cc: str
    sim: Means
    emu: Means

    @property
    def label(self) -> str:
        """How the page names it: `20x600, reno`."""
        return f"{self.link}, {self.cc}"

    @property
    def is_judged(self) -> bool:
        """Whether its rounds were on time."""
        return self.emu.late_us <= LATE_US

    @property
    def misses(self) -> list[str]:
        """The quantities that differ by more than the page allows; none of a cell that is not judged."""
        return _misses(self.sim.values, self.emu.values) if self.is_judged else []

    def row(self) -> str:
        """Return its row of the page's table."""
        parts = [self.link, self.cc]
        sim, emu = self.sim.values, self.emu.values
        for here, there, digits in zip(sim[:2], emu[:2], (2, 1), strict=True):
            parts += [f"{here:.{digits}f}", f"{there:.{digits}f}", f"{100 * (there / here - 1):+.1f} %"]
        verdict = "no: " + ", ".join(self.misses) if self.misses else "yes"
        parts += [
            f"{sim[2]:.2f}",
            f"{emu[2]:.2f}",
            verdict if self.is_judged else f"not judged: {self.emu.late_us:.0f} us late",
        ]
        return "| " + " | ".join(parts) + " |\n"


def _misses(sim: Sequence[float], emu: Sequence[float]) -> list[str]:
    return ["losses" if one == "retransmissions" else one for one in TOLERANCE.misses(sim, emu)]


def measured(run: Run, engine: str, only: str, options: argparse.Namespace) -> dict[str, Means]:
    """Carry congestion controls out on a link, or of `LINK/CONTROL` this one; return the means of each."""
    link, _, cc = only.partition("/")
    late = ["--repeat-late", options.repeat_late] if engine == "emu" else []
    rounds, folder = options.rounds, options.out / engine / only.replace("/", "-")
    chosen = ["--experiment", link, "--set", f"rounds={rounds}", *(["--set", f"{CC}={cc}"] if cc else [])]
    run(["run", str(STUDY), *chosen, "--engine", engine, "--out", str(folder), *late])
    return read(folder, engine, cc)


def read(folder: Path, engine: str, cc: str = "") -> dict[str, Means]:
    """Return the means of each congestion control in a folder, or of `cc` alone: of its rounds on time, or of all."""
    flows = pl.read_parquet(folder / "flows.parquet")
    names = [cc or json.loads(point)[CC] for point in flows["point"]]
    rounds = flows.with_columns(pl.Series("name", names))
    late = pl.read_parquet(folder / "releases.parquet") if engine == "emu" else None
    found = {}
    for (name,), of_cell in rounds.group_by("name", maintain_order=True):
        chosen = of_cell
        if late is not None:
            on_time = late.group_by("run").agg(pl.max("late_p99_us")).filter(pl.col("late_p99_us") <= LATE_US)
            chosen = of_cell.filter(pl.col("run").is_in(on_time["run"].implode()))
            chosen = chosen if chosen.height else of_cell
        goodput, rtt, lost = _values(chosen).mean().row(0)
        found[str(name)] = Means((goodput, rtt, lost), {} if late is None else _lateness(late, chosen["run"]))
    return found


def _lateness(late: pl.DataFrame, runs: pl.Series) -> dict[str, Lateness]:
    """Return how late these runs were by place, each value the mean of the runs'."""
    places = late.filter(pl.col("run").is_in(runs.implode())).group_by("link", maintain_order=True)
    means = places.agg(pl.mean("late_p50_us", "late_p99_us", "late_max_us", "released_packets"))
    return {place: Lateness(*values) for place, *values in means.iter_rows()}


def with_lateness(run: Run, cell: Cell) -> Range:
    """Simulate a cell with the lateness of its sockets, of the link and of the ends, as jitter of both directions."""
    settings = [f"rounds={LATE_ROUNDS}", f"{CC}={cell.cc}"]
    for direction in ("down", "up"):
        late = cell.emu.lateness[f"path.{direction}"].beside(cell.emu.lateness["download"])
        jitter = f'kind = "jitter", base = "{delay_of(cell.link)}", every = "1 ms", {late.processes}'
        settings.append(f"links.path.{direction}.delay={{ {jitter} }}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "late"
        given = [part for setting in settings for part in ("--set", setting)]
        run(["run", str(STUDY), "--experiment", cell.link, *given, "--engine", "sim", "--out", str(folder)])
        rounds = _values(pl.read_parquet(folder / "flows.parquet")).rows()
    return Range(*(tuple(chosen(column) for column in zip(*rounds, strict=True)) for chosen in (min, max)))


def _values(flows: pl.DataFrame) -> pl.DataFrame:
    """Return throughput, Mbit/s, round trip, ms, and losses, per cent, of each row."""
    return flows.select("goodput_mbps", "rtt_mean_ms", lost=100 * pl.col("lost_packets") / pl.col("sent_packets"))


def page(cells: Sequence[Cell], late: dict[str, Range], rounds: int, repeat_late: str = LATE) -> str:
    """Return the page with these cells, of which the study may have others; `late`: what misses, with lateness."""
    controls = controls_of()
    missed = [cell.label for cell in cells if cell.misses or not cell.is_judged]
    there = {cell.label for cell in cells}
    absent = {link: [cc for cc in all_of if f"{link}, {cc}" not in there] for link, all_of in controls.items()}
    said = [
        link if others == controls[link] else f"{link} with {', '.join(others)}"
        for link, others in absent.items()
        if others
    ]
    head = HEAD.format(
        rounds=ONE if rounds == 1 else f"{rounds} of each cell, whose means are compared",
        date=datetime.datetime.now(datetime.UTC).strftime("%-d %B %Y"),
        kernel=platform.release(),
        cores=os.cpu_count(),
        late=repeat_late,
        limit=LATE_US,
        within=sum(cell.is_judged and not cell.misses for cell in cells),
        judged=sum(cell.is_judged for cell in cells),
        cells=len(cells),
        study=sum(map(len, controls.values())),
        missing=sum(map(len, absent.values())),
        absent=f" Missing: {'; '.join(said)}." if said else "",
        missed=_missed(cells),
        explained=f" {_explained(cells, late)}" if late else "",
    )
    by_hand = differences(FOLDER / "differences.toml")
    why = {
        cell.label: why
        for cell in cells
        if cell.label in missed and (why := by_hand.get(cell.label) or _why_late(cell, late.get(cell.label)))
    }
    return "".join([head, *(cell.row() for cell in cells), *_late_rows(cells, late), *reasons(missed, why)])


def _explained(cells: Sequence[Cell], late: dict[str, Range]) -> str:
    """Return how many cells that miss are as their sockets once they are simulated with their lateness."""
    are = [not late[cell.label].misses(cell.emu.values) for cell in cells if cell.label in late]
    return f"Of those that miss {sum(are)} of {len(are)} come to the same in virtual time with their lateness."


def _why_late(cell: Cell, late: Range | None) -> str:
    """Return why a cell misses, or is not judged, as far as lateness says."""
    if not cell.is_judged:
        return "This machine was busy."
    is_late = late is not None and not late.misses(cell.emu.values)
    return "Perhaps real time: see its row above." if is_late else ""


def _late_rows(cells: Sequence[Cell], late: dict[str, Range]) -> Iterator[str]:
    """Yield the section about what misses, simulated with lateness."""
    if late:
        yield LATE_HEAD.format(rounds=LATE_ROUNDS)
    for cell in cells:
        if bounds := late.get(cell.label):
            left = bounds.misses(cell.emu.values)
            late_us = cell.emu.lateness["path.down"].beside(cell.emu.lateness["download"])
            parts = [cell.link, cell.cc]
            parts += [f"{value:.0f}" for value in (late_us.median_us, late_us.p99_us, late_us.max_us)]
            for place, digits in enumerate((2, 1, 2)):
                bound = [f"{of[place]:.{digits}f}" for of in (bounds.least, bounds.most)]
                parts += [f"{cell.sim.values[place]:.{digits}f}", " to ".join(bound)]
                parts.append(f"{cell.emu.values[place]:.{digits}f}")
            yield "| " + " | ".join([*parts, "no: " + ", ".join(left) if left else "yes"]) + " |\n"


def _missed(cells: Sequence[Cell]) -> str:
    """Return how many cells miss over a geostationary satellite without loss, and elsewhere, of those judged."""
    judged = [cell for cell in cells if cell.is_judged]
    far = [bool(cell.misses) for cell in judged if cell.link.endswith("x600")]
    near = [bool(cell.misses) for cell in judged if not cell.link.endswith("x600")]
    return f"Over 600 ms without loss {sum(far)} of {len(far)} miss, elsewhere {sum(near)} of {len(near)}."


def main() -> None:
    """Carry both engines out, compare, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "validation-quic", help="where all results go")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    names = [*controls_of(), *(f"{link}/{cc}" for link, controls in controls_of().items() for cc in controls)]
    parser.add_argument(
        "--only", action="append", choices=names, metavar="LINK[/CONTROL]", help="in place of all; may be given again"
    )
    parser.add_argument("--rounds", type=int, default=int(toml(STUDY)["rounds"]), help="rounds of a cell")
    parser.add_argument(
        "--repeat-late", default=LATE, metavar="TIME", help="repeat a round with a release later than this"
    )
    options = parser.parse_args()
    cells = []
    for only in options.only or controls_of():
        here, there = (measured(perigee, engine, only, options) for engine in ("sim", "emu"))
        cells += [Cell(only.partition("/")[0], cc, here[cc], there[cc]) for cc in here]
    late = {cell.label: with_lateness(perigee, cell) for cell in cells if cell.misses}
    options.page.write_text(page(cells, late, options.rounds, options.repeat_late), encoding="utf-8")
    print(options.page)


def delay_of(link: str) -> str:
    """Return the delay of a link of the study, one way."""
    study = toml(STUDY)
    (experiment,) = (experiment for experiment in study["experiments"] if experiment["name"] == link)
    delay: str = experiment.get("set", {}).get("links.path.delay", study["links"][0]["delay"])
    return delay


def controls_of() -> dict[str, list[str]]:
    """Return the congestion controls of the study by its links."""
    return {experiment["name"]: experiment["vary"][CC] for experiment in toml(STUDY)["experiments"]}


if __name__ == "__main__":
    main()
