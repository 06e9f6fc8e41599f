# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Whether verdicts hold: the reduced size beside the whole one, and twins beside CUBIC and Reno for many seeds.

    verdicts.py sizes                        every shipped algorithm by both sizes; hours
    verdicts.py sizes --criterion 7.4        by one criterion; may be given several times
    verdicts.py sizes --only bbr --only a.c  some algorithms, or files
    verdicts.py twins --seeds 40             twins at the reduced size, in the cells within 20 % of a threshold
    verdicts.py twins --whole --seeds 3      twins by whole studies

Runs of the references serve all algorithms. What is done is kept in --out, and the same command goes on; another choice
of algorithms takes another folder. It ends with 1 where two sizes have opposite verdicts, or where fewer than 95 % of
the seeds pass a twin by what its original passes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from perigee.cc.catalog import algorithms
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.evaluation.cells import settings_of, slug
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.criterion import Criterion
from perigee.evaluation.deciding import LOOKS
from perigee.evaluation.further import HORIZON
from perigee.evaluation.judging import Cell, Evidence, Finding
from perigee.evaluation.rules import Verdict
from perigee.evaluation.running import SEEDS_APART, subject_of
from perigee.evaluation.several import Several
from perigee.evaluation.studies import Order, candidate, key_of, study_of
from perigee.evaluation.tables import Tables
from perigee.store.results import Results

ROOT = Path(__file__).resolve().parents[1]
TWINS = ROOT / "tests" / "planted_cc" / "twins"
NEAR = 0.2
"""Share of a threshold within which a cell is near it."""
LEAST_SHARE = 0.95
"""Share of the seeds in which a twin passes what its original passes."""
BAD = {Verdict.FAIL, Verdict.DOCUMENT}


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


def sizes(criteria: Collection[Criterion], names: Sequence[str], folder: Path) -> int:
    """Print the verdicts by both sizes, and what the whole one rests on; return how many are opposite."""
    opposite = 0
    both = [Several(names, folder / size, size == "quick", workers=1) for size in ("quick", "whole")]
    for criterion in criteria:
        for (order, small), (_, large) in zip(*(one.findings(criterion, _tell) for one in both), strict=True):
            verdicts = {small.verdict, large.verdict}
            is_opposite = Verdict.PASS in verdicts and bool(verdicts & BAD)
            opposite += is_opposite
            said = f"{small.verdict:20} {large.verdict:20} {'OPPOSITE' if is_opposite else '':8} {_rests_on(large)}"
            print(f"{criterion.id:8} {order.candidate.name:16} {said}".rstrip(), flush=True)
    return opposite


def _rests_on(found: Finding) -> str:
    """Return the cell that decides a verdict, with the figure as a multiple of its threshold."""
    judged = found.nearest
    if judged is None or judged.deciding is None:
        return ""
    times = judged.deciding.times_beyond.get(judged.subject, 0.0)
    return f"{judged.measure.title}: {judged.deciding.words} ({times:.2f})"


def near_cells(several: Several, criterion: Criterion) -> list[Cell]:
    """Return the cells in which the figure of one of these algorithms is within 20 % of its threshold."""
    found: dict[str, Cell] = {}
    for _, finding in several.findings(criterion, _tell):
        for judged in finding.measures:
            for cell in judged.cells:
                if abs(cell.times_beyond.get(judged.subject, 0.0) - 1) <= NEAR:
                    found.setdefault(cell.words, cell)
    return list(found.values())


def twins(criteria: Collection[Criterion], folder: Path, seeds: range, *, whole: bool) -> int:
    """Print in how many seeds each twin passes what its original passes; return how many pass too few."""
    files = {path.stem: str(path) for path in sorted(TWINS.glob("*.c"))}
    originals = {name: name.partition("_")[0] for name in files}
    names = [*dict.fromkeys(originals.values()), *files.values()]
    missed: dict[str, set[int]] = {name: set() for name in files}
    found = in_whole(criteria, names, folder, seeds) if whole else in_near_cells(criteria, names, folder, seeds)
    for place, by_seed in found:
        here = {
            name: {
                seed
                for seed, verdicts in by_seed.items()
                if verdicts[original] is Verdict.PASS is not verdicts[candidate(files[name]).name]
            }
            for name, original in originals.items()
        }
        for name, lost in here.items():
            missed[name] |= lost
        print(f"{place:80} {_tally(here, len(seeds))}", flush=True)
    print(f"{'all of these':80} {_tally(missed, len(seeds))}")
    return sum(len(lost) > (1 - LEAST_SHARE) * len(seeds) for lost in missed.values())


Verdicts = dict[int, dict[str, Verdict]]
"""The verdict on each algorithm, by seed."""


def in_whole(
    criteria: Collection[Criterion], names: Sequence[str], folder: Path, seeds: range
) -> Iterator[tuple[str, Verdicts]]:
    """Yield the verdicts by whole studies."""
    for criterion in criteria:
        found: Verdicts = {}
        for seed in seeds:
            several = Several(names, folder / "whole" / f"seed-{seed}", quick=False, workers=1, seed=seed)
            found[seed] = {order.candidate.name: one.verdict for order, one in several.findings(criterion, _tell)}
        yield criterion.id, found


def in_near_cells(
    criteria: Collection[Criterion], names: Sequence[str], folder: Path, seeds: range
) -> Iterator[tuple[str, Verdicts]]:
    """Yield the verdicts by each cell that is near a threshold at the reduced size."""
    several = Several(names, folder / "near", quick=True, workers=1)
    for criterion in criteria:
        for cell in near_cells(several, criterion):
            orders = list(several.orders(criterion))
            found = {seed: in_cell(orders, criterion, cell, seed, folder / f"seed-{seed}") for seed in seeds}
            yield f"{criterion.id} {cell.words}", found


def in_cell(orders: Sequence[Order], criterion: Criterion, cell: Cell, seed: int, folder: Path) -> dict[str, Verdict]:
    """Return the verdict on each algorithm by one cell, with as many rounds as it takes."""
    names = {order.candidate.value: subject_of(order, criterion) for order in orders}
    controls, *pinned = settings_of(orders[0], criterion, cell)
    every = ",".join(dict.fromkeys([*controls.partition("=")[2].split(","), *names]))
    taken: dict[str, Evidence] = {}
    for order in orders:
        taken[order.candidate.name] = Evidence(criterion, names[order.candidate.value])
    verdicts: dict[str, Verdict] = {}
    done = 0
    for look in LOOKS:
        if len(verdicts) == len(taken):
            break
        settings = [f"vary.{key_of(criterion)}={every}", *pinned, f"rounds={look - done}"]
        settings.append(f"seed={seed * SEEDS_APART + done if done else seed}")
        out = folder / f"{slug(criterion, cell)}-{done}"
        carry_out(Job(study_of(criterion), Simulator, settings, reduced=True, out=out, workers=1))
        tables = Tables(Results(out), names, first_round=done)
        for name, evidence in taken.items():
            evidence.add(tables)
            verdict = evidence.finding().verdict
            if verdict is not Verdict.UNDECIDED or look == LOOKS[-1]:
                verdicts.setdefault(name, verdict)
        done = look
    return verdicts


def _tally(missed: Mapping[str, Collection[int]], seeds: int) -> str:
    return ", ".join(f"{name} {seeds - len(lost)}/{seeds}" for name, lost in missed.items())


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sizes", "twins"])
    parser.add_argument("--criterion", action="append", default=[])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--whole", action="store_true", help="twins: by whole studies, not by cells near a threshold")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "verdicts")
    given = parser.parse_args()
    known = {one.id: one for one in CRITERIA if one.study and one.id != HORIZON}
    criteria = [known[one] for one in given.criterion or known]
    if given.what == "twins":
        seeds = range(1, given.seeds + 1)
        return int(twins(criteria, given.out / "twins", seeds, whole=given.whole) > 0)
    return int(sizes(criteria, given.only or [one.name for one in algorithms()], given.out) > 0)


if __name__ == "__main__":
    sys.exit(main())
