# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Whether verdicts hold: the reduced size beside the whole one, and twins beside CUBIC and Reno for many seeds.

    verdicts.py sizes                        a standing of whole studies beside the reduced size
    verdicts.py near --seeds 40              twins at the reduced size, in the cells where a seed could decide
    verdicts.py whole --seeds 3              twins by whole studies
    verdicts.py near --criterion 7.3         by one criterion; may be given several times

Some seeds of all criteria come before more seeds of any, and cheap criteria before dear ones. What is done is kept in
--out, and the same command goes on, also with more seeds. Each part writes the page of all parts that are there. It
ends with 1 where two sizes have opposite verdicts, or where fewer than 95 % of 20 seeds or more pass a twin by what
its original passes. The further rounds of ten seeds that `near` takes together have the draws that an evaluation with
the number of that ten as its seed has in its further rounds: the two are no independent tests.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import math
import statistics
import sys
import time
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from perigee.engines.run.job import Job
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.evaluation.cells import settings_of, slug
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.criterion import Criterion
from perigee.evaluation.deciding import LOOKS, Outcome
from perigee.evaluation.further import HORIZON
from perigee.evaluation.judging import Cell, Evidence, Finding, Judged, Measured, measured
from perigee.evaluation.rules import Rule, Verdict
from perigee.evaluation.running import SEEDS_APART, subject_of
from perigee.evaluation.several import Several
from perigee.evaluation.studies import Order, key_of, share_left_out, study_of
from perigee.evaluation.summary import times as in_words
from perigee.evaluation.tables import Tables
from perigee.files import write_atomically
from perigee.keeper import kept
from perigee.keeper.kept import results_of
from perigee.standing.markdown import LEGEND, LETTERS, table
from perigee.standing.running import FILE

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "models" / "validation-verdicts.md"
TWINS = ROOT / "tests" / "planted_cc" / "twins"
TRACED = TWINS / "traced.toml"
"""Why a twin misses what its original passes: `part`, `criterion`, `cell`, `twin`, and `why`, with figures by name."""
NEAR = 0.2
"""Share of a threshold within which a mean is near it."""
ALIKE = 0.01
"""Share by which a figure may differ from that of CUBIC or Reno and still be as theirs."""
TOGETHER = 10
"""Seeds of which the rounds of a cell are runs of one study."""
LEAST_SHARE = 0.95
"""Share of the seeds in which a twin passes what its original passes."""
FEWEST_SEEDS = 20
"""Seeds without which one miss is more than that share allows: they do not test it."""
BESIDE_S, FEWEST = 5.0, 3
"""Processor time of a step beside its runs, s, as to compile twins; and the congestion controls of most studies."""
BAD = {Verdict.FAIL, Verdict.DOCUMENT}
PARTS = ("sizes", "near", "whole")
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

{opposite} of {count} pairs of verdicts, in criteria whose reduced size lacks cells, are opposite (a pass at one \
size, no pass by what is decided at the other). In {left} of them `--quick` is undecided: whole studies pass {passes} \
of these, miss {missed}, and are undecided in the others.

Packets per round trip in 5.1.1 are the median of a run's stretches of 5 s. That was chosen after the figures of a \
twin were seen ([why](../decisions/118-near-is-what-a-seed-could-decide.md)), and does not see a sender \
that fills the path for less than half of the time. The mean of the slowest tenth in 5.2.3 was chosen after figures of \
twins, too ([why](../decisions/126-short-transfers-are-many.md)).
"""
NEAR_WORDS = """
## Twins near a threshold

Five files that differ from CUBIC or Reno by the least step of one constant, such as a beta of 716/1024 in the place \
of 717, which is meant to change nothing that matters; in every cell of `--quick`, of the criteria below, in which \
another seed could decide otherwise about one of the seven. It could, by seed 1, where the first three rounds did not \
decide, where the interval of the distance reaches the threshold, and where the mean is within 20 % of it. The last \
says nothing of a threshold that is CUBIC's or Reno's own figure with a tolerance: with 1.25 times that, they always \
stand at 0.80 of it themselves, and what is within 1 % of that is as near as they are.

Each cell by itself, with as many rounds as it takes, and rounds of its own for each seed; {date}, \
`tools/verdicts.py near`. An entry has the seeds that pass, those undecided after 24 rounds, those beyond, and the \
mean figure as a multiple of its threshold.
"""
WHOLE_WORDS = """
## Twins by whole studies

{date}, `tools/verdicts.py whole`. Letters as above, one for each seed.
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
            small[order.candidate.name][criterion.id] = str(found.verdict)
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


def is_near(judged: Judged, cell: Cell) -> bool:
    """Return whether another seed could decide otherwise about a cell, as the page says it."""
    far, rule = cell.distance, judged.measure.rule
    if far is None or rule is None:
        return False
    if far.rounds > LOOKS[0] or far.outcome is Outcome.OPEN or abs(far.mean) <= (far.half_width or 0.0):
        return True
    times = cell.times_beyond.get(judged.subject, 0.0)
    return abs(times - 1) <= NEAR and not _is_as_its_reference(rule, cell, times)


def _is_as_its_reference(rule: Rule, cell: Cell, times: float) -> bool:
    """Return whether a threshold is a reference's own figure with a tolerance, and a figure is as the reference's."""
    if rule.of_cubic is None:
        return False
    own = min(rule.of_cubic, 1 / rule.of_cubic)
    sets_it = any(math.isclose(cell.times_beyond.get(one, 0.0), own) for one in rule.references)
    return sets_it and abs(times / own - 1) <= ALIKE


def near_cells(several: Several, criterion: Criterion) -> list[str]:
    """Return the cells of a criterion that are near, in words; those whose figures compare the same runs as one."""
    found: dict[tuple[str, ...], list[str]] = {}
    for order, finding in several.findings(criterion, _tell):
        near_ones = (cell for judged in finding.measures for cell in judged.cells if is_near(judged, cell))
        for cell in near_ones:
            _, *pinned = settings_of(order, criterion, cell)
            found.setdefault(tuple(pinned), []).append(cell.words)
    return [_common(words) for words in found.values()]


def _common(words: Sequence[str]) -> str:
    """Return what several cells have in common.

    Examples:
        >>> _common(["alone, rtt 50 ms, tunnel none", "alone, rtt 50 ms, tunnel bleached"])
        'alone, rtt 50 ms'
    """
    return ", ".join(part for part in words[0].split(", ") if all(part in each.split(", ") for each in words))


Row = dict[str, Any]
"""`verdicts` by algorithm, one for each seed; of a cell also `cell` in words, and `times` by algorithm and seed."""
Seen = tuple[Verdict, float]
"""A verdict, and the figure as a multiple of the threshold."""
Step = Callable[[Criterion, list[Row] | None, int, Path, int], list[Row]]
"""Adds the verdicts of further seeds to the rows of a criterion: the step, the folder, and the number of workers."""


def near(criterion: Criterion, rows: list[Row] | None, step: int, folder: Path, workers: int) -> list[Row]:
    """Add ten seeds to the rows of a criterion, which has one for each cell that is near a threshold."""
    several = Several(everyone(), folder / "near" / "seed-1", quick=True, workers=workers)
    if rows is None:
        # Most criteria have the same runs at both sizes.
        first = several if share_left_out(criterion) else _whole(1, folder, workers)
        rows = [{"cell": words, "verdicts": {}, "times": {}} for words in near_cells(first, criterion)]
    for row in rows:
        cell = Cell(row["cell"], {}, {})
        orders = several.orders((criterion.id,))
        for of_seed in in_cell(orders, criterion, cell, step + 1, folder / "near" / f"block-{step + 1}"):
            for name, (verdict, times) in of_seed.items():
                row["verdicts"].setdefault(name, []).append(str(verdict))
                row["times"].setdefault(name, []).append(times)
    return rows


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


def in_cell(
    orders: Sequence[Order], criterion: Criterion, cell: Cell, block: int, folder: Path
) -> list[dict[str, Seen]]:
    """Return what one cell says of each algorithm, with as many rounds as it takes, for each of ten seeds."""
    names = {order.candidate.value: subject_of(order, criterion) for order in orders}
    controls, *pinned = settings_of(orders[0], criterion, cell)
    taken = {(seed, value): Evidence(criterion, names[value]) for seed in range(TOGETHER) for value in names}
    seen: dict[tuple[int, str], Seen] = {}
    done = 0
    for look in LOOKS:
        still_open = [one for one in taken if one not in seen]
        if not still_open:
            break
        seeds, rounds = list(dict.fromkeys(seed for seed, _ in still_open)), look - done
        every = dict.fromkeys([*controls.partition("=")[2].split(","), *sorted(value for _, value in still_open)])
        settings = [f"vary.{key_of(criterion)}={','.join(every)}", *pinned, f"rounds={rounds * len(seeds)}"]
        settings.append(f"seed={block * SEEDS_APART + done}")
        out = folder / f"{slug(criterion, cell)}-{done}"
        job = Job(study_of(criterion), Simulator, settings, reduced=True, out=out, workers=orders[0].workers)
        figures = measured(criterion, Tables(results_of(job), names))
        for place, seed in enumerate(seeds):
            own = _some_rounds(figures, place * rounds, rounds, done)
            for value in (value for each, value in still_open if each == seed):
                taken[seed, value].add(own)
                found = taken[seed, value].finding()
                if found.verdict is not Verdict.UNDECIDED or look == LOOKS[-1]:
                    seen[seed, value] = found.verdict, _times(found)
        done = look
    return [{order.candidate.name: seen[seed, order.candidate.value] for order in orders} for seed in range(TOGETHER)]


def _some_rounds(figures: Measured, first: int, count: int, done: int) -> Measured:
    """Return the figures of some rounds, numbered from those that were done before."""
    number = (pl.col("round").cast(pl.Int64) - first + done).cast(pl.UInt32)
    chosen = pl.col("round").is_between(first, first + count - 1)
    return Measured(
        {measure: each.filter(chosen).with_columns(round=number) for measure, each in figures.figures.items()},
        figures.longest_s,
    )


def _times(found: Finding) -> float:
    return max((one.times for one in found.measures if one.worst is not None), default=0.0)


def whole(criterion: Criterion, rows: list[Row] | None, step: int, folder: Path, workers: int) -> list[Row]:
    """Add a seed to the row of a criterion: the verdicts by whole studies."""
    row = rows[0] if rows else {"verdicts": {}}
    for order, one in _whole(step + 1, folder, workers).findings(criterion, _tell):
        row["verdicts"].setdefault(order.candidate.name, []).append(str(one.verdict))
    return [row]


def _whole(seed: int, folder: Path, workers: int) -> Several:
    return Several(everyone(), folder / "whole" / f"seed-{seed}", quick=False, workers=workers, seed=seed)


def seeds_of(rows: Sequence[Row]) -> int:
    """Return the number of seeds that all rows have."""
    return min((len(one) for row in rows for one in row["verdicts"].values()), default=0)


def missed(rows: Sequence[Row]) -> dict[str, int]:
    """Return in how many of the seeds that all rows have each twin does not pass something that its original passes.

    Examples:
        >>> missed([{"verdicts": {"reno": ["pass", "pass"], "reno_beta": ["pass", "fail"]}}])
        {'reno_beta': 1}
    """
    lost: dict[str, set[int]] = {}
    for verdicts in (row["verdicts"] for row in rows):
        for name in (one for one in verdicts if original(one) != one):
            pairs = list(zip(verdicts[original(name)], verdicts[name], strict=True))[: seeds_of(rows)]
            beyond = {seed for seed, (first, twin) in enumerate(pairs) if first == Verdict.PASS != twin}
            lost.setdefault(name, set()).update(beyond)
    return {name: len(seeds) for name, seeds in lost.items()}


def below(lost: Mapping[str, int], seeds: int) -> list[str]:
    """Return the twins that pass what their original passes in less than the share that the rule asks for.

    Examples:
        >>> below({"cubic_beta": 2, "reno_beta": 3}, 40)
        ['reno_beta']
    """
    return [name for name, count in lost.items() if seeds - count < LEAST_SHARE * seeds]


def page(found: Mapping[str, Any], known: Collection[str]) -> str:
    """Return the page of the parts that are there, with the criteria that they lack."""
    parts = [name for name in PARTS if found[name]]
    lines = [
        _of_sizes(found[name], known) if name == "sizes" else _of_twins(name, found[name], known) for name in parts
    ]
    left = "".join(f"\n`tools/verdicts.py {name}` was not run yet.\n" for name in PARTS if not found[name])
    return HEAD + "".join(map("\n".join, lines)) + left


def _of_sizes(found: Mapping[str, Any], known: Collection[str]) -> list[str]:
    verdicts = found["verdicts"]
    pairs = [row[each] for row in verdicts.values() for each in found["parts"]]
    judged = [pair for pair in pairs if any(Verdict(one).is_judged for one in pair)]
    left = [Verdict(large) for small, large in judged if small == Verdict.UNDECIDED]
    counts = {"passes": left.count(Verdict.PASS), "missed": sum(one in BAD for one in left)}
    counts |= {"opposite": sum(map(opposite, judged)), "count": len(judged), "left": len(left)}
    body = [
        [f"{each} {title}", *(_letters(row[each], both=each in found["parts"]) for row in verdicts.values())]
        for each, title in found["titles"].items()
    ]
    words = SIZES.format(**found, legend=LEGEND, **counts)
    return [words, *table(["Criterion", *verdicts], body), "", *_left_out(found["titles"], known), ""]


def _letters(pair: Sequence[str], *, both: bool) -> str:
    small, large = (LETTERS[one] for one in pair)
    return f"{large} ({small})" if both else large


def _of_twins(part: str, found: Mapping[str, Any], known: Collection[str]) -> list[str]:
    rows = [(each, row) for each in known for row in found["rows"].get(each, [])]
    names = list(rows[0][1]["verdicts"]) if rows else []
    # The days on which rows were measured, the first and the last.
    days = sorted({day for _, row in rows for day in row.get("days", [found["date"]])}) or [found["date"]]
    date = " to ".join(dict.fromkeys([days[0], days[-1]]))
    if part == "whole":
        body = [
            [each, *(" ".join(LETTERS[one] for one in row["verdicts"][name]) for name in names)] for each, row in rows
        ]
        return [
            WHOLE_WORDS.format(date=date),
            *table(["Criterion", *names], body),
            "",
            *_kept(part, found, rows, known),
        ]
    body = [
        [each, row["cell"], *(_tally(row["verdicts"][name], row["times"][name]) for name in names)]
        for each, row in rows
    ]
    without = ", ".join(each for each in known if found["rows"].get(each) == [])
    none = [f"No cell is near in {without}.", ""] if without else []
    more = [*_zeros(rows), *none, *_kept(part, found, rows, known)]
    return [NEAR_WORDS.format(date=date), *table(["", "Cell", *names], body), "", *more]


def _zeros(rows: Sequence[tuple[str, Row]]) -> list[str]:
    """Return which cells say nothing of a distance."""
    zeros = [_place(each, row) for each, row in rows if not any(itertools.chain(*row["times"].values()))]
    said = f"A multiple of 0.00 is no distance, since the figure or its threshold is 0: {'; '.join(zeros)}."
    return [said, ""] if zeros else []


def _tally(verdicts: Sequence[str], times: Sequence[float]) -> str:
    """Return how many seeds pass, are undecided, and are beyond, and the mean figure.

    Examples:
        >>> _tally(["pass", "pass", "undecided"], [0.8, 0.9, 1.0]), _tally(["fail"], [1.5])
        ('2, 1 undecided (0.90)', '0, 1 beyond (1.50)')
    """
    passed, still_open = (sum(one == each for one in verdicts) for each in (Verdict.PASS, Verdict.UNDECIDED))
    counts = {"undecided": still_open, "beyond": len(verdicts) - passed - still_open}
    more = [f"{count} {word}" for word, count in counts.items() if count]
    return f"{', '.join([str(passed), *more])} ({in_words(statistics.fmean(times))})"


def _kept(part: str, found: Mapping[str, Any], rows: Sequence[tuple[str, Row]], known: Collection[str]) -> list[str]:
    """Return whether twins keep the rule, in all rows together and in each, and why not."""
    lost, seeds = missed([row for _, row in rows]), seeds_of([row for _, row in rows])
    words = (f"{name} {seeds - count} of {seeds}" for name, count in lost.items())
    together = ", ".join(below(lost, seeds))
    rule = "too few seeds to tell" if seeds < FEWEST_SEEDS else f"missed by {together}" if together else "met by all"
    alone = [(each, row, name) for each, row in rows for name in below(missed([row]), seeds_of([row]))]
    where = "; ".join(f"{name} in {_place(each, row)}, {_passing(row, name)}" for each, row, name in alone)
    return [
        f"Seeds, of those that all rows have, in which a twin passes all that its original passes: {', '.join(words)}. "
        f"The rule asks for {100 * LEAST_SHARE:.0f} %: {rule}. "
        f"In each row by itself, with all its seeds, {f'below that share: {where}' if where else 'none is below'}.",
        *_left_out(found["rows"], known),
        "",
        *_reasons(part, alone),
    ]


def _place(criterion: str, row: Row) -> str:
    return f"{criterion}, *{row['cell']}*" if "cell" in row else criterion


def _passing(row: Row, name: str) -> str:
    return f"{seeds_of([row]) - missed([row])[name]} of {seeds_of([row])}"


def _reasons(part: str, alone: Sequence[tuple[str, Row, str]]) -> list[str]:
    """Return why twins miss the rule, of what was traced: with figures of the row, or of one seed while that misses."""
    traced = tomllib.loads(TRACED.read_text())["miss"]
    found = []
    for criterion, row, name in alone:
        here = {"part": part, "criterion": criterion, "cell": row.get("cell", ""), "twin": name}
        of_it = [one for one in traced if {key: one.get(key, "") for key in here} == here]
        texts = [one["why"] for one in of_it if "seed" not in one or _misses(row, name, one["seed"])]
        means = {each: statistics.fmean(times) for each, times in row.get("times", {}).items()}
        why = texts[0].strip().format(**means) if texts else "it was not traced."
        found += [f"`{name}` in {_place(criterion, row)}: {why}", ""]
    return found


def _misses(row: Row, name: str, seed: int) -> bool:
    """Return whether a twin misses by one seed; seeds count from 1."""
    first, twin = (row["verdicts"][one][seed - 1] for one in (original(name), name))
    return bool(first == Verdict.PASS != twin)


def _left_out(there: Collection[str], known: Collection[str]) -> list[str]:
    left = [each for each in known if each not in there]
    return [f"Not measured: {', '.join(left)}."] if left else []


def cheapest_first(criteria: Collection[Criterion], *, is_quick: bool) -> dict[Criterion, float]:
    """Return criteria with the processor time that a step is expected to take, s."""
    more = len(everyone()) / FEWEST
    cost = {one: BESIDE_S + more * Simulator(study_of(one), [], is_quick).processor_s for one in criteria}
    return dict(sorted(cost.items(), key=lambda pair: pair[1]))


def twins(part: str, criteria: Collection[Criterion], given: argparse.Namespace, write: Callable[[Any], None]) -> int:
    """Add seeds to what is kept until there are as many as were asked for, or the time is over."""
    step, at_once = (near, TOGETHER) if part == "near" else (whole, 1)
    before = kept.read(given.out / f"{part}.json") or {"rows": {}}
    rows: dict[str, list[Row]] = before["rows"]
    for row in itertools.chain(*rows.values()):
        row.setdefault("days", [before["date"]])
    cost = cheapest_first(criteria, is_quick=part == "near")
    begun, done_s = time.monotonic(), 0.0
    for number in range(math.ceil(given.seeds / at_once)):
        for criterion in cost:
            took_s = time.monotonic() - begun
            if given.minutes and took_s > 60 * given.minutes:
                break
            if (found := rows.get(criterion.id)) == [] or seeds_of(found or []) > number * at_once:
                continue
            rows[criterion.id] = step(criterion, found, number, given.out, given.jobs)
            for row in rows[criterion.id]:
                row["days"] = sorted({*row.get("days", []), today()})
            write({"rows": rows})
            done_s += cost[criterion]
            left_s = sum(cost[one] * _steps_left(rows.get(one.id), given.seeds, at_once) for one in cost)
            took_s = time.monotonic() - begun
            _tell(
                f"{criterion.id}, seeds to {(number + 1) * at_once}: missed {missed(rows[criterion.id])}; "
                f"{took_s / 60:.1f} min, about {left_s / done_s * took_s / 60:.0f} left"
            )
    lost = missed(every := [row for each in rows.values() for row in each])
    return int(seeds_of(every) >= FEWEST_SEEDS and bool(below(lost, seeds_of(every))))


def _steps_left(rows: list[Row] | None, seeds: int, at_once: int) -> int:
    return 0 if rows == [] else max(0, math.ceil((seeds - seeds_of(rows or [])) / at_once))


def today() -> str:
    """Return the date of today."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=PARTS)
    parser.add_argument("--criterion", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=40, help="of twins; by tens for `near`")
    parser.add_argument("--minutes", type=float, help="begin no criterion of twins after this time")
    parser.add_argument("--jobs", type=int, default=1, help="concurrent runs of twins")
    parser.add_argument("--standing", type=Path, default=ROOT / "results" / "standing-whole")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "verdicts")
    given = parser.parse_args()
    known = {one.id: one for one in CRITERIA if one.study and one.id != HORIZON}
    criteria = [known[one] for one in given.criterion or known]

    def write(made: Mapping[str, Any]) -> None:
        kept.write(given.out / f"{given.what}.json", {"date": today(), **made})
        parts = {name: kept.read(given.out / f"{name}.json") for name in PARTS}
        write_atomically(given.page, page(parts, known).encode())

    if given.what != "sizes":
        return twins(given.what, criteria, given, write)
    write(made := sizes(criteria, given.standing, given.out / given.what))
    return int(any(opposite(pair) for row in made["verdicts"].values() for pair in row.values()))


if __name__ == "__main__":
    sys.exit(main())
