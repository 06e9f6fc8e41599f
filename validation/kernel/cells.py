# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries the long flows of the study `validation` out on both engines, and writes docs/models/validation.md.

Ctrl-C loses nothing but the runs under way: the same command goes on.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from scipy.stats import ks_2samp

FOLDER = Path(__file__).resolve().parent
sys.path.extend([str(FOLDER.parent), str(FOLDER.parent / "modes")])

import modes  # noqa: E402
from beside import QUANTITIES, ROOT, Run, Tolerance, differences, perigee, reasons, retransmitted, toml  # noqa: E402

STUDY = ROOT / "studies" / "validation" / "study.toml"
PAGE = ROOT / "docs" / "models" / "validation.md"
TOLERANCE = Tolerance(goodput=0.02, rtt=0.03, retransmitted=1.2)

NEAR = (*modes.QUANTITIES[:2], modes.Quantity("", "retransmitted, %", 2, 1.5, TOLERANCE.retransmitted, least=0.1))
"""How values of a cell's quantities make modes; of retransmissions the page has the share."""

FLOWS = ("alone", "fast", "pairs")
"""The study's experiments on long flows, which this page has."""

TRANSFERS = "transfers"
"""The one on short ones, which `short.py` carries out."""

ALL = (*FLOWS, TRANSFERS)

CLOCK_MONOTONIC_COARSE = 6
"""The clock of linux/time.h, which Python does not name."""

ROUNDS = 20
"""Most rounds of a cell; of one that takes all of them, distributions are compared."""

UNTIL = ("--until", "2 %", "--until", "rtt_mean_ms 3 %")
"""When the mean of a cell is known well enough: its 95 % intervals."""

ALIKE = 0.05
"""The probability, by Kolmogorov and Smirnov, below which two distributions are said to differ."""

STUDENT_OF_FOUR = 3.182
"""The 97.5 % quantile of Student's distribution with three degrees of freedom."""

LATE_US = 500.0
"""A round whose releases are later than this, in one of 100 cases, says nothing about TCP."""

STALL_US = 2000.0
"""A round with a release later than this is carried out again: HyStart, for one, takes 2 ms for a pause of the path."""

KERNELS_OWN = ("reno", "cubic", "bbr")
"""Congestion controls of which the emulator takes the kernel's own; of the others it loads the simulator's C file."""

ENOUGH = 4
"""Rounds without a stall that a cell needs; a cell that has fewer is judged by all that were not late."""

HEAD = """\
# The simulator beside the kernel

`make validate`, as root, carries the study [validation](../../studies/validation/README.md) out on both engines and
writes this page; [validation/kernel](../../validation/kernel/README.md) has the method. A cell has rounds until the
95 % intervals of its throughput and mean round trip on the kernel are within 2 and 3 % of the means. Within:
throughput and mean round trip differ by at most 2 and 3 %, the retransmitted share by a factor of at most 1.2 or 0.1
percentage points. Where a cell took all {rounds} rounds, or simulated rounds scatter by more than that, a quantity is
also within if its two distributions are alike (D, the distance of Kolmogorov and Smirnov, has a p of at least
{alike}). These cells and the pairs are simulated with this machine's lateness, {noise},
on the link `wire`, the others without. [Short transfers](validation-transfers.md) have a page of their own.

Of {date}, Linux {kernel}, {cores} cores. A round with a release more than {stall:g} ms late was repeated, up to five
times in all. A cell is judged by its rounds without such a stall, or, where they are fewer than {enough}
({stalled} cells), by all whose releases were at most {limit:.0f} us late in 99 of 100 cases. By this measure those
judged were at most {late:.0f} us late, {median:.0f} us in the median.

**{within} of {cells} cells of one flow and {pairs_within} of {pairs} pairs are within.**

Of the {controls} congestion controls {own} are the kernel's own. The other {same} are the same C file on both sides:
where they agree it is TCP that does, and nothing is said of the algorithm. *By tolerance* are cells whose means
agree; *only as a distribution* those whose means do not. A mean of rounds that scatter says less than one of steady
rounds.

| | cells | within: by tolerance | rounds | only as a distribution | rounds | not within |
|---|---:|---:|---:|---:|---:|---:|
"""

ALONE = """
## One flow

| link | congestion control | Mbit/s: simulated | kernel | difference \
| round trip, ms: simulated | kernel | difference \
| retransmitted, %: simulated | kernel | rounds | within |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""

SCATTERED = """
## Cells that scatter

Distance and p of each quantity; {rounds} simulated rounds.

| link, congestion control | throughput: D | p | round trip: D | p | retransmissions: D | p |
|---|---:|---:|---:|---:|---:|---:|
"""

PAIRS = """
## Two flows on a link

Two downloads over a low orbit's link of 20 Mbit/s, each begun at random within a second: the first one's share of what
both deliver in {seconds:.0f} s, mean and standard deviation of {rounds} rounds.

| pair | share of the first, %: simulated | kernel | D | p | within |
|---|---:|---:|---:|---:|---|
"""

NEIGHBOURS = """
## Cells that miss, with their neighbours

Each cell of one flow that misses is simulated once more, 18 runs: with a packet of queue more or less, and a delay up
to 0.3 ms longer. Where the values lie in several modes, the cell is near a bistable point, and a round of the kernel
in one of them is as good as one in another; [its page](validation-modes.md) has the method, and more such cells. The
number of runs or rounds stands in parentheses.

| link, congestion control | | simulated | kernel | rounds in no mode |
|---|---|---|---|---:|
"""


@dataclass(frozen=True)
class Cell:
    """A point of the study.

    Attributes:
        experiment: of the study.
        values: of what varies, by key.
    """

    experiment: str
    values: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        """How the page names it: `geo-half, reno`."""
        return ", ".join(value for _, value in self.values)


@dataclass(frozen=True)
class Noise:
    """The lateness of a machine's releases as a log-normal distribution.

    Attributes:
        median_us: its median, us.
        sigma: standard deviation of its logarithm.
    """

    median_us: float
    sigma: float

    @classmethod
    def measured(cls, releases: pl.DataFrame) -> Noise:
        """Return the one with the median and the 99th percentile of a table of releases, in the median of its rows."""
        p50, p99 = releases.select(pl.median("late_p50_us"), pl.median("late_p99_us")).row(0)
        return cls(p50, math.log(p99 / p50) / statistics.NormalDist().inv_cdf(0.99))

    def delay(self) -> str:
        """Return the delay of `wire` with it, as TOML: twice, for each packet crosses two links."""
        once = f'kind = "log-normal", median = "{self.median_us:.3f} us", sigma = {self.sigma:.3f}'
        twice = f'body = {{ {once} }}, tail = {{ {once}, share = "100 %", every = "1 ms", max = "1 s" }}'
        return f'{{ kind = "jitter", base = "1 ms", every = "1 ms", {twice} }}'

    def __str__(self) -> str:
        """Say how large it is."""
        return f"log-normal with a median of {self.median_us:.1f} us and a sigma of {self.sigma:.2f}"


@dataclass(frozen=True)
class Compared:
    """A cell on both engines.

    Attributes:
        cell: which.
        sim: rounds of each quantity on the simulator, of a pair the share of the first, of a transfer the duration.
        emu: likewise on the kernel.
        late_us: how late these rounds' releases were in one of 100 cases, at most.
        stall_us: how late their latest release was.
        scatters: its distributions are compared where its means differ.
    """

    cell: Cell
    sim: tuple[list[float], ...]
    emu: tuple[list[float], ...]
    late_us: float
    stall_us: float
    scatters: bool

    @property
    def is_judged(self) -> bool:
        """Whether it has as many rounds as it needs."""
        return len(self.emu[0]) >= ENOUGH

    def distance(self, quantity: int) -> tuple[float, float]:
        """Return the distance of Kolmogorov and Smirnov of a quantity, and its p."""
        result = ks_2samp(self.sim[quantity], self.emu[quantity])
        return float(result.statistic), float(result.pvalue)

    def means(self) -> tuple[list[float], list[float]]:
        """Return the mean of each quantity on the simulator, and on the kernel."""
        sim, emu = ([statistics.fmean(rounds) for rounds in engine] for engine in (self.sim, self.emu))
        return sim, emu

    def differs(self) -> bool:
        """Return whether the means of the first quantity differ by more than throughputs may."""
        (here, *_), (there, *_) = self.means()
        return abs(there / here - 1) > TOLERANCE.goodput

    def misses(self) -> list[str]:
        """Return the quantities that differ by more than the page allows."""
        if self.cell.experiment == "pairs":
            return [] if self.distance(0)[1] >= ALIKE else ["share"]
        if self.cell.experiment == TRANSFERS:
            return ["duration"] if self.differs() and self.distance(0)[1] < ALIKE else []
        missed = TOLERANCE.misses(*self.means())
        if self.scatters:
            missed = [name for name in missed if self.distance(QUANTITIES.index(name))[1] < ALIKE]
        return missed

    def agrees_by_tolerance(self) -> bool:
        """Return whether its means agree; of a pair only distributions are compared."""
        if self.cell.experiment == "pairs":
            return False
        if self.cell.experiment == TRANSFERS:
            return not self.differs()
        return not TOLERANCE.misses(*self.means())


def cells(of: Sequence[str] = ALL) -> list[Cell]:
    """Return all points of these experiments, in the study's order."""
    found = []
    for experiment in toml(STUDY)["experiments"]:
        if experiment["name"] not in of:
            continue
        points: list[tuple[tuple[str, str], ...]] = [()]
        for key, values in experiment["vary"].items():
            names = [value if isinstance(value, str) else value["name"] for value in values]
            points = [(*point, (key, name)) for point in points for name in names]
        found += [Cell(experiment["name"], point) for point in points]
    return found


def settings_of(cell: Cell) -> dict[str, Any]:
    """Return what a cell sets in the study, by key."""
    (experiment,) = (one for one in toml(STUDY)["experiments"] if one["name"] == cell.experiment)
    found = dict(experiment.get("set", {}))
    for key, name in cell.values:
        for value in experiment["vary"][key]:
            if isinstance(value, dict) and value["name"] == name:
                found |= value
    return found


def with_neighbours(run: Run, cell: Cell, folder: Path) -> pl.DataFrame:
    """Simulate a cell of one flow with its neighbours, see `modes.neighbours`; return the table of flows."""
    (path,) = (link for link in toml(STUDY)["links"] if link["name"] == "path")
    varied = modes.neighbours(path, settings_of(cell))
    run([*command_of(cell), "--set", "rounds=1", *varied, "--out", str(folder), "--fresh"])
    return pl.read_parquet(folder / "flows.parquet")


def command_of(cell: Cell) -> list[str]:
    """Return the command that carries a cell out."""
    chosen = [part for key, value in cell.values for part in ("--set", f"{key}={value}")]
    return ["run", str(STUDY), "--experiment", cell.experiment, *chosen]


def folder_of(folder: Path, cell: Cell) -> Path:
    """Return where the result of a cell on the kernel is."""
    return folder / cell.label.replace(", ", "-").replace(" ", "")


def emulated(run: Run, folder: Path, cell: Cell, scatters: bool) -> Path:
    """Carry a cell out on the kernel, each round again where it comes late; return the folder of the result."""
    out = folder_of(folder, cell)
    until = () if scatters else UNTIL
    command = [*command_of(cell), "--engine", "emu"]
    # `--force`: how late the releases were is judged afterwards, not by an estimate on a machine with other cells.
    command += ["--set", f"rounds={ROUNDS}", *until, "--repeat-late", f"{STALL_US:g} us", "--force", "--out", str(out)]
    run(command)
    return out


def judged(folder: Path) -> tuple[pl.DataFrame, float, float]:
    """Return the flows of an emulated result's rounds that are judged, and how late these came, see `Compared`."""
    releases = pl.read_parquet(folder / "releases.parquet")
    late = releases.group_by("run").agg(pl.max("late_p99_us"), pl.max("late_max_us"))
    late = late.filter(pl.col("late_p99_us") <= LATE_US)
    calm = late.filter(pl.col("late_max_us") <= STALL_US)
    kept = calm if calm.height >= ENOUGH else late
    flows = pl.read_parquet(folder / "flows.parquet").join(kept, on="run", how="semi")
    late_us, stall_us = kept.select(pl.max("late_p99_us"), pl.max("late_max_us")).row(0)
    return flows, late_us or 0.0, stall_us or 0.0


def simulated(run: Run, folder: Path, of: Sequence[str], noise: Noise | None) -> pl.DataFrame:
    """Simulate all cells of experiments with this noise on the link `wire`, if any; return the table of flows.

    Hosts of short transfers, which hang on whose timer is first, have this kernel's tick.
    """
    settings = [part for name in of for part in ("--experiment", name)]
    settings += ["--set", f"hosts.tick={kernel_tick_ns()} ns"] if TRANSFERS in of else []
    settings += ["--set", f"links.wire.delay={noise.delay()}"] if noise else []
    run(["run", str(STUDY), "--set", f"rounds={ROUNDS}", *settings, "--out", str(folder), "--fresh"])
    return pl.read_parquet(folder / "flows.parquet")


def kernel_tick_ns() -> int:
    """Return the length of this kernel's jiffy, the resolution of its coarse clock."""
    return round(1e9 * time.clock_getres(CLOCK_MONOTONIC_COARSE))


def rounds(flows: pl.DataFrame, cell: Cell) -> tuple[list[float], ...]:
    """Return each quantity of a cell by round.

    The three of a flow; of a pair the share of the first, per cent; of a transfer the duration, s, however it ended.
    """
    if cell.experiment == "pairs":
        first = flows.filter(flow="download").sort("round")["goodput_mbps"]
        second = flows.filter(flow="rival").sort("round")["goodput_mbps"]
        return ((100 * first / (first + second)).to_list(),)
    if cell.experiment == TRANSFERS:
        return (flows.filter(flow="transfer").sort("round")["duration_s"].to_list(),)
    table = flows.sort("round").select("goodput_mbps", "rtt_mean_ms", retransmitted())
    return tuple(column.to_list() for column in table)


def four_rounds_say_little(sim: tuple[list[float], ...]) -> bool:
    """Return whether the 95 % interval of four rounds is wider than what a cell may differ by."""
    if len(sim) == 1:
        return True
    goodput, rtt, share = (statistics.fmean(values) for values in sim)
    allowed = (TOLERANCE.goodput * goodput, TOLERANCE.rtt * rtt, max(0.1, (TOLERANCE.retransmitted - 1) * share))
    intervals = (STUDENT_OF_FOUR * statistics.stdev(values) / 2 for values in sim)
    return any(interval > limit for interval, limit in zip(intervals, allowed, strict=True))


def by_cell(flows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of each cell of a result with all of them."""
    found = {}
    for (point,), part in flows.group_by("point"):
        values = [value for key, value in json.loads(str(point)).items() if key != "experiment"]
        found[", ".join(value["name"] if isinstance(value, dict) else value for value in values)] = part
    return found


def compared(
    of: Sequence[str], folders: Sequence[Path], plain: dict[str, pl.DataFrame], run: Run, out: Path
) -> tuple[list[Compared], Noise]:
    """Simulate with noise too; return the engines beside each other, and the noise of scattered cells and pairs."""
    noise = Noise.measured(pl.concat([pl.read_parquet(folder / "releases.parquet") for folder in folders]))
    noisy = by_cell(simulated(run, out, of, noise))
    found = []
    for cell, folder in zip(cells(of), folders, strict=True):
        flows, late_us, stall_us = judged(folder)
        emu = rounds(flows, cell)
        carried_out = pl.read_parquet(folder / "flows.parquet")["round"].n_unique()
        sim = rounds(noisy[cell.label], cell)
        scatters = carried_out >= ROUNDS or four_rounds_say_little(sim)
        if not scatters:
            sim = tuple(quantity[: len(emu[0])] for quantity in rounds(plain[cell.label], cell))
        found.append(Compared(cell, sim, emu, late_us, stall_us, scatters))
    return found, noise


def page(found: Sequence[Compared], noise: Noise, beside: Callable[[Cell], pl.DataFrame]) -> str:
    """Return the page; `beside` gives the simulated flows of a cell that misses and its neighbours."""
    chosen = [one for one in found if one.is_judged]
    alone = [one for one in chosen if one.cell.experiment in ("alone", "fast")]
    pairs = [one for one in chosen if one.cell.experiment == "pairs"]
    head = HEAD.format(
        rounds=ROUNDS,
        alike=ALIKE,
        noise=noise,
        date=datetime.datetime.now(datetime.UTC).strftime("%-d %B %Y"),
        kernel=platform.release(),
        cores=os.cpu_count(),
        limit=LATE_US,
        stall=STALL_US / 1000,
        enough=ENOUGH,
        late=max(one.late_us for one in chosen),
        median=statistics.median(one.late_us for one in chosen),
        stalled=sum(one.stall_us > STALL_US for one in chosen),
        within=sum(not one.misses() for one in alone),
        cells=len(alone),
        pairs_within=sum(not one.misses() for one in pairs),
        pairs=len(pairs),
        controls=len({_control(one) for one in alone}),
        own=", ".join(f"`{name}`" for name in KERNELS_OWN),
        same=len({_control(one) for one in alone} - set(KERNELS_OWN)),
    )
    late = [one.cell.label for one in found if not one.is_judged]
    not_judged = f"\nThis machine was too busy to judge {len(late)}: {'; '.join(late)}.\n" if late else ""
    parts = [head, *agreement(alone, pairs), not_judged, ALONE, *map(_row, alone)]
    parts += [SCATTERED.format(rounds=ROUNDS), *(_distances(one) for one in alone if one.scatters)]
    seconds = float(toml(STUDY)["flows"][0]["duration"].split()[0])
    parts += [PAIRS.format(rounds=ROUNDS, seconds=seconds), *map(_pair, pairs)]
    missing = [one for one in alone if one.misses()]
    if missing:
        parts += [NEIGHBOURS, *(row for one in missing for row in _neighbours(one, beside(one.cell)))]
    missed = [one.cell.label for one in chosen if one.misses()]
    return "".join([*parts, *reasons(missed, known_of(FLOWS))])


def known_of(of: Sequence[str]) -> dict[str, str]:
    """Return why cells of experiments miss, by label, as far as it is known."""
    labels = {cell.label for cell in cells(of)}
    return {label: why for label, why in differences(FOLDER / "differences.toml").items() if label in labels}


def agreement(alone: Sequence[Compared], pairs: Sequence[Compared]) -> Iterator[str]:
    """Yield the rows of the table that counts apart what agrees by tolerance and what only as a distribution."""
    for name, is_own in (("the kernel's own algorithm", True), ("the same C file on both sides", False)):
        those = [one for one in alone if (_control(one) in KERNELS_OWN) == is_own]
        yield _counted(f"one flow, {name}: steady", [one for one in those if not one.scatters])
        yield _counted(f"one flow, {name}: scattering", [one for one in those if one.scatters])
    yield _counted("pairs", pairs)


def arguments(about: str | None, page: Path) -> argparse.Namespace:
    """Return the command line of a comparison that writes a page."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "validation-kernel", help="where all results go")
    parser.add_argument("--page", type=Path, default=page, help="the page to write")
    parser.add_argument("--at-once", type=int, default=3, help="emulated cells at a time: they wait most of theirs")
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="keep the kernel's results in --out, of any build; carry out those that are missing",
    )
    return parser.parse_args()


def carried_out(options: argparse.Namespace, of: Sequence[str]) -> tuple[list[Compared], Noise]:
    """Carry the cells of experiments out on both engines; return these beside each other, and the noise."""
    place = options.out / of[0]
    plain = by_cell(simulated(perigee, place / "sim", of, None))

    def carry_out(cell: Cell) -> Path:
        folder = folder_of(options.out / "emu", cell)
        if not (options.recorded and folder.exists()):
            scatters = four_rounds_say_little(rounds(plain[cell.label], cell))
            emulated(perigee, options.out / "emu", cell, scatters)
        flows, late_us, stall_us = judged(folder)
        said = f"{flows['round'].n_unique()} rounds, {late_us:.0f} us late (p99), at most {stall_us:.0f} us"
        print(f"{cell.label}: {said}", flush=True)
        return folder

    with ThreadPoolExecutor(options.at_once) as pool:
        folders = list(pool.map(carry_out, cells(of)))
    return compared(of, folders, plain, perigee, place / "noisy")


def main() -> None:
    """Carry both engines out, compare, write the page."""
    options = arguments(__doc__, PAGE)
    found, noise = carried_out(options, FLOWS)

    def beside(cell: Cell) -> pl.DataFrame:
        return with_neighbours(perigee, cell, folder_of(options.out / "neighbours", cell))

    options.page.write_text(page(found, noise, beside), encoding="utf-8")
    print(options.page)


def _control(one: Compared) -> str:
    return dict(one.cell.values)["flows.download.cc"]


def _counted(name: str, those: Sequence[Compared]) -> str:
    within = [one for one in those if not one.misses()]
    parts = [name, str(len(those))]
    for by_tolerance in (True, False):
        taken = [len(one.emu[0]) for one in within if one.agrees_by_tolerance() == by_tolerance]
        parts += [str(len(taken)), _range(taken)]
    return "| " + " | ".join([*parts, str(len(those) - len(within))]) + " |\n"


def _range(counts: Sequence[int]) -> str:
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"


def _neighbours(one: Compared, flows: pl.DataFrame) -> Iterator[str]:
    table = flows.select("goodput_mbps", "rtt_mean_ms", retransmitted())
    for quantity, here, there in zip(NEAR, table, one.emu, strict=True):
        split = modes.modes(here.to_list(), quantity)
        outside = sum(modes.outside(value, split, quantity) for value in there)
        said = (modes.describe(one_side, quantity) for one_side in (split, modes.modes(there, quantity)))
        yield "| " + " | ".join([one.cell.label, quantity.title, *said, str(outside)]) + " |\n"


def _row(one: Compared) -> str:
    parts = [value for _, value in one.cell.values]
    for quantity, digits in ((0, 2), (1, 1)):
        here, there = one.sim[quantity], one.emu[quantity]
        parts += [spread(here, digits), spread(there, digits)]
        parts.append(f"{100 * (statistics.fmean(there) / statistics.fmean(here) - 1):+.1f} %")
    parts += [spread(one.sim[2], 2), spread(one.emu[2], 2), str(len(one.emu[0])), within(one)]
    return "| " + " | ".join(parts) + " |\n"


def _distances(one: Compared) -> str:
    distances = [f"{value:.2f}" for quantity in range(3) for value in one.distance(quantity)]
    return f"| {one.cell.label} | " + " | ".join(distances) + " |\n"


def _pair(one: Compared) -> str:
    distance, probability = one.distance(0)
    parts = [one.cell.label, spread(one.sim[0], 1), spread(one.emu[0], 1), f"{distance:.2f}", f"{probability:.2f}"]
    return "| " + " | ".join([*parts, within(one)]) + " |\n"


def within(one: Compared) -> str:
    """Return the word of a row: yes, or what misses."""
    missed = one.misses()
    return "no: " + ", ".join(missed) if missed else "yes"


def spread(values: Sequence[float], digits: int) -> str:
    """Return mean and standard deviation in this many decimals."""
    return f"{statistics.fmean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


if __name__ == "__main__":
    main()
