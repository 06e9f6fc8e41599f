# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries the cases of draft-ietf-ccwg-bbr out over the grid of round trips and rates, and judges what happened.

    grid.py                       all cases in all cells
    grid.py --quick               the cells of the reduced grid
    grid.py --case 04 --cell 20M/100ms --verbose
    grid.py --case 17 --cell 20M/20ms --states 10         what each state delivered and lost in the last 10 s
    grid.py --log bbr.csv --case 04 --cell 20M/100ms      the log of another implementation

The exit code is 0 if all is met but what misses.toml knows, 1 if something else is missed or a known miss is gone,
2 for bad input.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER))

from case import GRID, QUICK, RATES, RTTS, Case, CaseError, Cell, cases  # noqa: E402
from judge import Verdict, by_state, judge  # noqa: E402
from qlog import read_qlog, write_qlog  # noqa: E402
from scenario import carry_out  # noqa: E402
from states import Log, read_csv, write_csv  # noqa: E402
from words import NotInLog, WordsError  # noqa: E402

MISSES = FOLDER / "misses.toml"


@dataclass(frozen=True)
class Outcome:
    """A case in a cell.

    Attributes:
        case: its name, with the variant.
        cell: the cell's name.
        verdicts: one per check.
        seconds: how long it took.
    """

    case: str
    cell: str
    verdicts: Sequence[Verdict]
    seconds: float

    @property
    def missed(self) -> list[Verdict]:
        """The checks that were not met."""
        return [verdict for verdict in self.verdicts if verdict.outcome == "missed"]


@dataclass(frozen=True)
class Miss:
    """A known miss.

    Attributes:
        case: the case.
        cell: the cell.
        reason: why it is missed.
        of: what is missed, `draft` or `bounds`: what the draft says, or a figure that is ours.
    """

    case: str
    cell: str
    reason: str
    of: str


def chosen(names: Sequence[str]) -> list[Case]:
    """Return the cases whose have one of these names; all, if none is given.

    Raises:
        CaseError: a name fits no case.
    """
    every = cases()
    for name in names:
        if not any(_fits(case, name) for case in every):
            raise CaseError(f"no case is called `{name}`; there are {', '.join(map(str, every))}")
    return [case for case in every if not names or any(_fits(case, name) for name in names)]


def _fits(case: Case, name: str) -> bool:
    """Whether a name is that of the case, or its number, with the variant or without."""
    base, _, variant = name.partition("/")
    return base in (f"{case.number:02}", case.name, f"{case.number:02}-{case.name}") and variant in ("", case.variant)


def cell(text: str) -> Cell:
    """Return the cell of a name such as 20M/100ms.

    Raises:
        CaseError: there is none.
    """
    rate, _, rtt = text.partition("/")
    if rate not in RATES or rtt not in RTTS:
        raise CaseError(f"no cell is called `{text}`; write RATE/RTT, with {', '.join(RATES)} and {', '.join(RTTS)}")
    return Cell(rtt, rate)


def known_misses(path: Path = MISSES) -> list[Miss]:
    """Return the known misses."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    misses = content.get("miss", [])
    return [Miss(one["case"], where, one["reason"], one["of"]) for one in misses for where in one["cells"]]


def outcome(case: Case, where: Cell, cc: object = "bbr3", logs: Path | None = None, form: str = "csv") -> Outcome:
    """Carry a case out in a cell, and judge it.

    Args:
        case: the case.
        where: the cell.
        cc: the congestion control, as a study names it.
        logs: a folder that gets the log; none: it is not kept.
        form: its format, `csv` or `qlog`.
    """
    begin = time.monotonic()
    try:
        log = carry_out(case, where, cc)
    except NotInLog as absent:
        verdicts = [Verdict("What the case changes happens.", "missed", str(absent))]
    else:
        verdicts = judge(case, where, log)
        if logs is not None:
            _write(log, logs / f"{case}-{where}".replace("/", "-"), form)
    return Outcome(str(case), str(where), verdicts, time.monotonic() - begin)


def _write(log: Log, stem: Path, form: str) -> None:
    if form == "qlog":
        write_qlog(log, stem.with_name(stem.name + ".sqlog"))
    else:
        write_csv(log, stem.with_name(stem.name + ".csv"))


def _outcome(job: tuple[Case, Cell, object, Path | None, str]) -> Outcome:
    return outcome(*job)


def outcomes(
    jobs: Sequence[tuple[Case, Cell]],
    cc: object = "bbr3",
    workers: int = 2,
    logs: Path | None = None,
    form: str = "csv",
) -> Iterator[Outcome]:
    """Yield the outcome of each case in its cell, in order."""
    whole = [(case, where, cc, logs, form) for case, where in jobs]
    if workers == 1:
        yield from map(_outcome, whole)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_outcome, whole, chunksize=1)


def laid_out(chosen_cases: Sequence[Case], cells: Sequence[Cell]) -> list[tuple[Case, Cell]]:
    """Return the pairs that are carried out: those without an exception."""
    return [(case, where) for case in chosen_cases for where in cells if case.exception(where) is None]


def surprises(done: Sequence[Outcome], known: Sequence[Miss]) -> list[str]:
    """Return a line for each miss that is not known, and for each known one that was carried out and met."""
    names = {(miss.case, miss.cell) for miss in known}
    lines = []
    for one in done:
        if one.missed and (one.case, one.cell) not in names:
            lines += [f"{one.case} {one.cell}: {verdict}" for verdict in one.missed]
        elif not one.missed and (one.case, one.cell) in names:
            lines.append(f"{one.case} {one.cell}: met, and misses.toml has it; remove it there")
    return lines


def _control(text: str) -> object:
    """Return a congestion control as a study names it."""
    return tomllib.loads(f"cc = {text}")["cc"] if text.startswith("{") else text


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out what the command line says."""
    parser = argparse.ArgumentParser(description="The cases of draft-ietf-ccwg-bbr.")
    parser.add_argument("--quick", action="store_true", help="the cells of the reduced grid")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="a number, name or name/variant")
    parser.add_argument("--cell", action="append", default=[], metavar="RATE/RTT", help="such as 20M/100ms")
    parser.add_argument(
        "--cc",
        default="bbr3",
        type=_control,
        metavar="NAME",
        help="with bbr3's states: a name, a C file, or a table such as '{ name = \"bbr3\", probe_rtt_cycle = true }'",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="judge this log (CSV or qlog) of one case and cell")
    parser.add_argument("--events", choices=["csv", "qlog"], help="write the log of each run in this format")
    parser.add_argument("--out", type=Path, default=Path("bbr3-logs"), help="folder of the logs")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--verbose", action="store_true", help="each check, with what it came to")
    parser.add_argument(
        "--study",
        type=Path,
        metavar="DIR",
        help="write one case in one cell as a study, with its timelines, and no more",
    )
    parser.add_argument(
        "--states",
        type=float,
        metavar="SECONDS",
        help="what each state delivered and lost in the last seconds of a run",
    )
    parser.add_argument(
        "--list", action="store_true", help="the cases, and the cells that each leaves out, with reasons"
    )
    options = parser.parse_args(arguments)
    try:
        return _carry_out(options)
    except (CaseError, WordsError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _carry_out(options: argparse.Namespace) -> int:
    of_cases = chosen(options.case)
    cells = [cell(text) for text in options.cell] or (QUICK if options.quick else GRID)
    if options.list:
        for case in of_cases:
            print(f"{case}: {case.says}")
            for where in cells:
                if reason := case.exception(where):
                    print(f"  not at {where}: {reason}")
        return 0
    if options.states is not None:
        for case, where in laid_out(of_cases, cells):
            log = carry_out(case, where, options.cc)
            print(f"{case} {where}")
            for line in by_state(where, log, float(log["t"][-1]) - options.states):
                print(f"  {line}")
        return 0
    if options.study is not None:
        case, where = _only(of_cases, cells)
        options.study.mkdir(parents=True, exist_ok=True)
        carry_out(case, where, options.cc, options.study)
        print(options.study / "study.toml")
        return 0
    if options.log is not None:
        return _judge_log(options.log, of_cases, cells)
    if options.events:
        options.out.mkdir(parents=True, exist_ok=True)
    logs = options.out if options.events else None
    jobs = laid_out(of_cases, cells)
    begin = time.monotonic()
    done = []
    for one in outcomes(jobs, options.cc, options.jobs, logs, options.events or "csv"):
        done.append(one)
        if options.verbose:
            print(f"{one.case} {one.cell} ({one.seconds:.1f} s)")
            for verdict in one.verdicts:
                print(f"  {verdict}")
    known = known_misses()
    for case in of_cases:
        of_case = [one for one in done if one.case == str(case)]
        missed = [one for one in of_case if one.missed]
        left = len(cells) - len(of_case)
        cells_missed = ": " + ", ".join(one.cell for one in missed) if missed else ""
        counts = f"{len(of_case) - len(missed):3} met {len(missed):3} missed {left:3} left out"
        print(f"{case!s:34} {counts}{cells_missed}")
    new = surprises(done, known if options.cc == "bbr3" else [])
    for line in new:
        print(line)
    bounds = {(miss.case, miss.cell) for miss in known if miss.of == "bounds"}
    missed = [one for one in done if one.missed]
    beyond = sum((one.case, one.cell) in bounds for one in missed)
    print(
        f"{len(done)} runs, {len(missed) - beyond} missed, {beyond} beyond our bounds, {len(new)} surprises, "
        f"{time.monotonic() - begin:.0f} s"
    )
    return 1 if new else 0


def _only(of_cases: Sequence[Case], cells: Sequence[Cell]) -> tuple[Case, Cell]:
    """Return the one case and the one cell that are chosen."""
    if len(of_cases) != 1 or len(cells) != 1:
        raise CaseError("this is of one case and one cell: give --case NAME or NAME/VARIANT, and --cell RATE/RTT")
    return of_cases[0], cells[0]


def _judge_log(path: Path, of_cases: Sequence[Case], cells: Sequence[Cell]) -> int:
    case, where = _only(of_cases, cells)
    verdicts = judge(case, where, read_csv(path) if path.suffix == ".csv" else read_qlog(path))
    for verdict in verdicts:
        print(verdict)
    return 1 if any(verdict.outcome == "missed" for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
