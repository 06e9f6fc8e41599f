# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Whether verdicts hold: the reduced size beside the whole one, and twins beside CUBIC and Reno for many seeds.

    verdicts.py sizes                        a standing of whole studies beside the reduced size
    verdicts.py near --seeds 40              twins at the reduced size, in the cells within 20 % of a threshold
    verdicts.py whole --seeds 3              twins by whole studies
    verdicts.py near --criterion 7.3         by one criterion; may be given several times

What is done is kept in --out, and the same command goes on. Each part writes the page of all parts that are there. It
ends with 1 where two sizes have opposite verdicts, or where fewer than 95 % of the seeds pass a twin by what its
original passes.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perigee.engines.run.job import Job
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.evaluation.cells import settings_of, slug
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.criterion import Criterion
from perigee.evaluation.deciding import LOOKS
from perigee.evaluation.further import HORIZON
from perigee.evaluation.judging import Cell, Evidence, Finding, measured
from perigee.evaluation.rules import Verdict
from perigee.evaluation.running import SEEDS_APART, subject_of
from perigee.evaluation.several import Several
from perigee.evaluation.studies import Order, key_of, share_left_out, study_of
from perigee.evaluation.tables import Tables
from perigee.files import write_atomically
from perigee.keeper import kept
from perigee.keeper.kept import results_of
from perigee.standing.markdown import LEGEND, LETTERS, NOT_JUDGED, table
from perigee.standing.running import FILE, said

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "models" / "validation-verdicts.md"
TWINS = ROOT / "tests" / "planted_cc" / "twins"
NEAR = 0.2
"""Share of a threshold within which a cell is near it."""
LEAST_SHARE = 0.95
"""Share of the seeds in which a twin passes what its original passes."""
BAD = {Verdict.FAIL, Verdict.DOCUMENT}
HEAD = """# Verdicts: two sizes, and twins

A verdict should be that of an algorithm, not of a seed or of the size of a study \
([how a cell is decided](../decisions/107-verdicts-that-hold.md)).
`make validate-verdicts` asks that of `perigee cc evaluate`, and writes this page.
"""
SIZES = """
## Both sizes

`perigee cc standing --whole`, and `perigee cc evaluate --quick` beside it, {date}. Letters are those of whole \
studies: {legend} A second letter, in brackets, is that of `--quick` where its studies lack cells. The others have the \
same runs at both sizes, and are not run twice.

{opposite} of {count} pairs of verdicts are opposite (a pass at one size, no pass by what is decided at the other).
"""
NEAR_WORDS = """
## Twins near a threshold

Five files that differ from CUBIC or Reno by the least step of one constant, such as a beta of 716/1024 in the place \
of 717, which is meant to change nothing that matters; in every cell of `--quick`, of the criteria below, in which one \
of the seven is within 20 % of its threshold with seed 1, each cell by itself with as many rounds as it takes; {date}, \
`tools/verdicts.py near --seeds {seeds}`. An entry has the seeds that pass, those undecided after 24 rounds, those \
beyond, and the mean figure as a multiple of its threshold.
"""
REASONS = {
    "7.3 delay doubled": """\
`reno_beta` in 7.3, *delay doubled*: there the step does matter. It keeps 511/1024 of its window, its \
third halving comes half a second later than Reno's, and its window is 3 packets behind when the delay doubles (224 \
against 227 packets with seed 1). The throughput of the next 18 s is the window's, so that its figure is 1.5 % worse, \
where rounds differ by 0.2 %: its mean lies at the threshold, Reno's 1.3 % within.
""",
}
"""Why a twin misses what its original passes, by criterion and cell; the numbers are of the results of that cell."""
WHOLE_WORDS = """
## Twins by whole studies

{date}, `tools/verdicts.py whole --seeds {seeds}`. Letters as above, one for each seed.
"""


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


def sizes(criteria: Collection[Criterion], standing: Path, folder: Path) -> dict[str, Any]:
    """Return the verdicts by both sizes: those of a standing by whole studies, and those of the reduced size.

    Raises:
        InputError: there is no such standing.
    """
    whole = kept.read(standing / FILE)
    if not whole or whole["size"] != "whole":
        raise InputError(
            f"{standing}: has no standing by whole studies; `perigee cc standing --whole --out {standing}`"
        )
    rows = whole["algorithms"]
    names = [row["name"] for row in rows]
    large = {row["name"]: {one["id"]: one["verdict"] for one in row["verdicts"]} for row in rows}
    small = {name: dict(verdicts) for name, verdicts in large.items()}
    titles = {one["id"]: one["title"] for one in whole["criteria"]}
    parts = [one for one in criteria if one.id in titles and share_left_out(one)]
    for criterion in parts:
        for order, found in Several(names, folder, quick=True, workers=1).findings(criterion, _tell):
            small[order.candidate.name][criterion.id] = said(found)
    return {
        "parts": [one.id for one in parts],
        "titles": titles,
        "verdicts": {
            name: {each: [small[name][each], verdict] for each, verdict in large[name].items()} for name in names
        },
    }


def opposite(verdicts: Collection[str]) -> bool:
    """Return whether verdicts of several sizes contradict each other.

    Examples:
        >>> opposite(["pass", "fail"]), opposite(["undecided", "fail"])
        (True, False)
    """
    return Verdict.PASS in verdicts and not BAD.isdisjoint(verdicts)


def near_cells(several: Several, criterion: Criterion) -> list[Cell]:
    """Return the cells in which the figure of one of these algorithms is within 20 % of its threshold."""
    found: dict[str, Cell] = {}
    for _, finding in several.findings(criterion, _tell):
        for judged in finding.measures:
            for cell in judged.cells:
                if abs(cell.times_beyond.get(judged.subject, 0.0) - 1) <= NEAR:
                    found.setdefault(cell.words, cell)
    return list(found.values())


Row = dict[str, Any]
"""`verdicts` by algorithm, one for each seed; of a cell also `cell` in words, and `times` by algorithm."""
Seen = tuple[Verdict, float]
"""A verdict, and the figure as a multiple of the threshold."""


def near(criteria: Collection[Criterion], folder: Path, seeds: range) -> Iterator[tuple[str, list[Row]]]:
    """Yield each criterion with a row for each cell that is near a threshold at the reduced size."""
    several = Several(everyone(), folder / "seed-1", quick=True, workers=1)
    for criterion in criteria:
        orders = several.orders((criterion.id,))
        rows = []
        for cell in near_cells(several, criterion):
            by_seed = [in_cell(orders, criterion, cell, seed, folder / f"cells-{seed}") for seed in seeds]
            names = list(by_seed[0])
            verdicts = {name: [str(one[name][0]) for one in by_seed] for name in names}
            times = {name: statistics.fmean(one[name][1] for one in by_seed) for name in names}
            rows.append({"cell": cell.words, "verdicts": verdicts, "times": times})
        yield criterion.id, rows


def everyone() -> list[str]:
    """Return the originals, and the files of their twins."""
    files = sorted(TWINS.glob("*.c"))
    return [*dict.fromkeys(original(file.stem) for file in files), *map(str, files)]


def original(twin: str) -> str:
    """Return the name of what a twin is one of; an original's own name.

    Examples:
        >>> original("reno_beta"), original("reno")
        ('reno', 'reno')
    """
    return twin.partition("_")[0]


def in_cell(orders: Sequence[Order], criterion: Criterion, cell: Cell, seed: int, folder: Path) -> dict[str, Seen]:
    """Return what one cell says of each algorithm, with as many rounds as it takes."""
    names = {order.candidate.value: subject_of(order, criterion) for order in orders}
    controls, *pinned = settings_of(orders[0], criterion, cell)
    taken = {order.candidate.value: Evidence(criterion, subject_of(order, criterion)) for order in orders}
    seen: dict[str, Seen] = {}
    done = 0
    for look in LOOKS:
        still_open = [value for value in taken if value not in seen]
        if not still_open:
            break
        every = ",".join(dict.fromkeys([*controls.partition("=")[2].split(","), *still_open]))
        settings = [f"vary.{key_of(criterion)}={every}", *pinned, f"rounds={look - done}"]
        settings.append(f"seed={seed * SEEDS_APART + done if done else seed}")
        out = folder / f"{slug(criterion, cell)}-{done}"
        job = Job(study_of(criterion), Simulator, settings, reduced=True, out=out, workers=1)
        figures = measured(criterion, Tables(results_of(job), names, first_round=done))
        for value in still_open:
            taken[value].add(figures)
            found = taken[value].finding()
            if found.verdict is not Verdict.UNDECIDED or look == LOOKS[-1]:
                seen[value] = found.verdict, _times(found)
        done = look
    return {order.candidate.name: seen[order.candidate.value] for order in orders}


def _times(found: Finding) -> float:
    return max((one.times for one in found.measures if one.worst is not None), default=0.0)


def whole(criteria: Collection[Criterion], folder: Path, seeds: range) -> Iterator[tuple[str, list[Row]]]:
    """Yield each criterion with a row of the verdicts by whole studies."""
    for criterion in criteria:
        verdicts: dict[str, list[str]] = {}
        for seed in seeds:
            several = Several(everyone(), folder / f"seed-{seed}", quick=False, workers=1, seed=seed)
            for order, one in several.findings(criterion, _tell):
                verdicts.setdefault(order.candidate.name, []).append(str(one.verdict))
        yield criterion.id, [{"verdicts": verdicts}]


def missed(rows: Sequence[Mapping[str, Sequence[str]]]) -> dict[str, int]:
    """Return in how many seeds each twin does not pass something that its original passes.

    Args:
        rows: the verdicts by name, one for each seed; a row for each criterion or cell.

    Examples:
        >>> missed([{"reno": ["pass", "pass"], "reno_beta": ["pass", "fail"]}])
        {'reno_beta': 1}
    """
    lost: dict[str, set[int]] = {}
    for row in rows:
        for name in (one for one in row if original(one) != one):
            pairs = enumerate(zip(row[original(name)], row[name], strict=True))
            lost.setdefault(name, set()).update(seed for seed, (first, twin) in pairs if first == Verdict.PASS != twin)
    return {name: len(seeds) for name, seeds in lost.items()}


def missing_the_rule(lost: Mapping[str, int], seeds: int) -> list[str]:
    """Return the twins that pass what their original passes in too few seeds.

    Examples:
        >>> missing_the_rule({"cubic_beta": 2, "reno_beta": 3}, 40)
        ['reno_beta']
    """
    return [name for name, count in lost.items() if seeds - count < LEAST_SHARE * seeds]


def page(found: Mapping[str, Any], known: Collection[str]) -> str:
    """Return the page of the parts that are there, with the criteria that they lack."""
    parts = {"sizes": _of_sizes, "near": _of_near, "whole": _of_whole}
    left = "".join(f"\n`tools/verdicts.py {name}` was not run yet.\n" for name in parts if not found[name])
    return HEAD + "".join("\n".join(write(found[name], known)) for name, write in parts.items() if found[name]) + left


def _of_sizes(found: Mapping[str, Any], known: Collection[str]) -> list[str]:
    verdicts = found["verdicts"]
    pairs = [pair for row in verdicts.values() for pair in row.values() if not {*pair} <= {Verdict.UNKNOWN, NOT_JUDGED}]
    count = sum(map(opposite, pairs))
    body = [
        [f"{each} {title}", *(_letters(row[each], both=each in found["parts"]) for row in verdicts.values())]
        for each, title in found["titles"].items()
    ]
    words = SIZES.format(**found, legend=LEGEND, opposite=count, count=len(pairs))
    return [words, *table(["Criterion", *verdicts], body), "", *_left_out(found["titles"], known), ""]


def _letters(pair: Sequence[str], *, both: bool) -> str:
    small, large = (LETTERS[one] for one in pair)
    return f"{large} ({small})" if both else large


def _of_near(found: Mapping[str, Any], known: Collection[str]) -> list[str]:
    rows = _rows(found, known)
    names = list(rows[0][1]["verdicts"])
    body = [
        [each, row["cell"], *(_tally(row["verdicts"][name], row["times"][name]) for name in names)]
        for each, row in rows
    ]
    why = [text for cell, text in REASONS.items() if cell in (f"{each} {row['cell']}" for each, row in rows)]
    return [NEAR_WORDS.format(**found), *table(["", "Cell", *names], body), "", *_kept(found, known), *why]


def _tally(verdicts: Sequence[str], times: float) -> str:
    """Return how many seeds pass, are undecided, and are beyond, and the figure.

    Examples:
        >>> _tally(["pass", "pass", "undecided"], 0.9), _tally(["fail"], 1.5)
        ('2, 1 undecided (0.90)', '0, 1 beyond (1.50)')
    """
    passed, still_open = (sum(one == each for one in verdicts) for each in (Verdict.PASS, Verdict.UNDECIDED))
    counts = {"undecided": still_open, "beyond": len(verdicts) - passed - still_open}
    more = [f"{count} {word}" for word, count in counts.items() if count]
    return f"{', '.join([str(passed), *more])} ({times:.2f})"


def _of_whole(found: Mapping[str, Any], known: Collection[str]) -> list[str]:
    rows = _rows(found, known)
    names = list(rows[0][1]["verdicts"])
    body = [[each, *(" ".join(LETTERS[one] for one in row["verdicts"][name]) for name in names)] for each, row in rows]
    return [WHOLE_WORDS.format(**found), *table(["Criterion", *names], body), "", *_kept(found, known)]


def _rows(found: Mapping[str, Any], known: Collection[str]) -> list[tuple[str, Row]]:
    return [(each, row) for each in known for row in found["rows"].get(each, [])]


def _kept(found: Mapping[str, Any], known: Collection[str]) -> list[str]:
    lost = missed([row["verdicts"] for _, row in _rows(found, known)])
    words = (f"{name} {found['seeds'] - count} of {found['seeds']}" for name, count in lost.items())
    without = ", ".join(each for each in known if each in found["rows"] and not found["rows"][each])
    misses = ", ".join(missing_the_rule(lost, found["seeds"]))
    return [
        f"Seeds in which a twin passes all that its original passes: {', '.join(words)}. The rule asks for "
        f"{100 * LEAST_SHARE:.0f} % of the seeds: {f'missed by {misses}' if misses else 'met by all'}.",
        *[f"No cell is that near in {without}."] * bool(without),
        *_left_out(found["rows"], known),
        "",
    ]


def _left_out(there: Collection[str], known: Collection[str]) -> list[str]:
    left = [each for each in known if each not in there]
    return [f"Not measured: {', '.join(left)}."] if left else []


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sizes", "near", "whole"])
    parser.add_argument("--criterion", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--standing", type=Path, default=ROOT / "results" / "standing-whole")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "verdicts")
    given = parser.parse_args()
    known = {one.id: one for one in CRITERIA if one.study and one.id != HORIZON}
    criteria = [known[one] for one in given.criterion or known]
    folder, seeds = given.out / given.what, range(1, given.seeds + 1)
    head = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "seeds": given.seeds}

    def write(made: Mapping[str, Any]) -> None:
        kept.write(given.out / f"{given.what}.json", {**head, **made})
        parts = {name: kept.read(given.out / f"{name}.json") for name in ("sizes", "near", "whole")}
        write_atomically(given.page, page(parts, known).encode())

    if given.what == "sizes":
        made = sizes(criteria, given.standing, folder)
        write(made)
        return int(any(opposite(pair) for row in made["verdicts"].values() for pair in row.values()))
    before = kept.read(given.out / f"{given.what}.json") or {"seeds": 0}
    rows = before["rows"] if before["seeds"] == given.seeds else {}
    for each, found in (near if given.what == "near" else whole)(criteria, folder, seeds):
        rows[each] = found
        _tell(f"{each}: {missed([row['verdicts'] for row in found])}")
        write({"rows": rows})
    lost = missed([row["verdicts"] for found in rows.values() for row in found])
    return int(bool(missing_the_rule(lost, given.seeds)))


if __name__ == "__main__":
    sys.exit(main())
