# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries downloads over QUIC out on both engines, and writes docs/models/validation-quic.md.

Ctrl-C loses nothing but the run under way: the same command goes on.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Sequence
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
"""A round with a release later than this is carried out again, up to three times in all."""

HEAD = """\
# QUIC on sockets beside QUIC in virtual time

`make validate`, as root, carries the study [validation/quic](../../validation/quic/study.toml) out on both engines
and writes this page: the same flow and the same stack, once with links and keys that cost nothing in virtual time,
once with real keys over UDP sockets between namespaces ([the model](quic.md#on-sockets)). Means of {rounds} rounds of
20 s. Within: throughput and mean round trip differ by at most 2 and 3 %, the share of packets deemed lost by a factor
of at most 1.2 or 0.1 percentage points.

Of {date}, Linux {kernel}, {cores} cores. A round with a release more than {late} late was repeated, up to three times
in all; those of this page were at most {worst:.1f} ms late, and {p99:.0f} us in 99 of 100 cases.

**{within} of {cells} cells are within.**{missing}

| link | congestion control | Mbit/s: simulated | sockets | difference \
| round trip, ms: simulated | sockets | difference | lost, %: simulated | sockets | within |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""


@dataclass(frozen=True)
class Cell:
    """A congestion control on a link, on both engines: mean Mbit/s, round trip in ms, and losses in per cent."""

    link: str
    cc: str
    sim: tuple[float, float, float]
    emu: tuple[float, float, float]

    @property
    def label(self) -> str:
        """How the page names it: `20x600, reno`."""
        return f"{self.link}, {self.cc}"

    @property
    def misses(self) -> list[str]:
        """The quantities that differ by more than the page allows."""
        return ["losses" if one == "retransmissions" else one for one in TOLERANCE.misses(self.sim, self.emu)]

    def row(self) -> str:
        """Return its row of the page's table."""
        parts = [self.link, self.cc]
        for here, there, digits in zip(self.sim[:2], self.emu[:2], (2, 1), strict=True):
            parts += [f"{here:.{digits}f}", f"{there:.{digits}f}", f"{100 * (there / here - 1):+.1f} %"]
        parts += [f"{self.sim[2]:.2f}", f"{self.emu[2]:.2f}"]
        return "| " + " | ".join([*parts, "no: " + ", ".join(self.misses) if self.misses else "yes"]) + " |\n"


def measured(run: Run, engine: str, link: str, rounds: int, folder: Path) -> dict[str, tuple[float, float, float]]:
    """Carry the congestion controls out on a link; return the means of each."""
    late = ["--repeat-late", LATE] if engine == "emu" else []
    chosen = ["--experiment", link, "--set", f"rounds={rounds}"]
    run(["run", str(STUDY), *chosen, "--engine", engine, "--out", str(folder), *late])
    flows = pl.read_parquet(folder / "flows.parquet")
    lost = (100 * pl.col("lost_packets") / pl.col("sent_packets")).alias("lost")
    names = [json.loads(point)[CC] for point in flows["point"]]
    means = flows.with_columns(pl.Series("name", names)).group_by("name")
    rows = means.agg(pl.mean("goodput_mbps"), pl.mean("rtt_mean_ms"), lost.mean()).rows()
    return {name: (goodput, rtt, share) for name, goodput, rtt, share in rows}


def page(cells: Sequence[Cell], releases: pl.DataFrame, rounds: int, links: Sequence[str]) -> str:
    """Return the page with these cells, of which the study has others on links that are not in `links`."""
    missed = [cell.label for cell in cells if cell.misses]
    absent = [name for name in _links() if name not in links]
    head = HEAD.format(
        rounds=rounds,
        date=datetime.datetime.now(datetime.UTC).strftime("%-d %B %Y"),
        kernel=platform.release(),
        cores=os.cpu_count(),
        late=LATE,
        worst=releases["late_max_us"].max() / 1000,
        p99=releases["late_p99_us"].max(),
        within=len(cells) - len(missed),
        cells=len(cells),
        missing=f" Not carried out yet: {', '.join(absent)}." if absent else "",
    )
    why = {
        label: reason
        for label, reason in differences(FOLDER / "differences.toml").items()
        if label.split(",")[0] in links
    }
    return "".join([head, *(cell.row() for cell in cells), *reasons(missed, why)])


def main() -> None:
    """Carry both engines out, compare, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "validation-quic", help="where all results go")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    parser.add_argument("--only", action="append", choices=_links(), help="a link, in place of all; may be given again")
    parser.add_argument("--rounds", type=int, default=int(toml(STUDY)["rounds"]), help="rounds of a cell")
    options = parser.parse_args()
    links = options.only or _links()
    cells, releases = [], []
    for link in links:
        here, there = (
            measured(perigee, engine, link, options.rounds, options.out / engine / link) for engine in ("sim", "emu")
        )
        cells += [Cell(link, cc, here[cc], there[cc]) for cc in here]
        releases.append(pl.read_parquet(options.out / "emu" / link / "releases.parquet"))
    options.page.write_text(page(cells, pl.concat(releases), options.rounds, links), encoding="utf-8")
    print(options.page)


def _links() -> list[str]:
    return [experiment["name"] for experiment in toml(STUDY)["experiments"]]


if __name__ == "__main__":
    main()
