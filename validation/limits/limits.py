# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Flows of which is known what limits them, and what their captures and their results say of it.

    limits.py                 simulates, emulates (as root; nine minutes), and writes docs/models/validation-limits.md
    limits.py --case loss     one of them; may be given several times
    limits.py --engine sim    one engine
    limits.py --recorded      keeps the results of --out, of any build

The page is written where all cases are carried out on both engines; else its rows are printed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER)]

import polars as pl  # noqa: E402
from beside import ROOT, Run, perigee  # noqa: E402
from planted import PLANTED, Case, captured, right  # noqa: E402

from perigee import load  # noqa: E402
from perigee.statistics.limits import CAUSES  # noqa: E402

PAGE = ROOT / "docs" / "models" / "validation-limits.md"
TEXT = FOLDER / "page.txt"
RIGHT = 0.95
"""Least share of the time that is named right."""
ENGINES = {"sim": "simulated", "emu": "emulated"}


def carried_out(run: Run, case: Case, engine: str, folder: Path, *, recorded: bool) -> Path:
    """Return the results of a case, carried out anew unless they are there and `recorded` says to keep them."""
    results = folder / "results"
    if recorded and (results / "manifest.json").exists():
        return results
    folder.mkdir(parents=True, exist_ok=True)
    study = folder / "study.toml"
    study.write_text(case.text(), encoding="utf-8")
    run(["run", str(study), "--out", str(results), "--fresh", "--engine", engine])
    return results


def row(name: str, found: Mapping[str, tuple[float, float | None]]) -> str:
    """Return the page's row of a case: by engine, which share of the time its capture and its series name right."""
    case = PLANTED[name]
    said = f"; said: {CAUSES[case.said][0].lower()}" if case.said else ""
    cells = [
        f"{100 * share:.1f} | {'' if series is None else f'{100 * series:.1f}'}" for share, series in found.values()
    ]
    missed = ", ".join(
        ENGINES[engine]
        for engine, shares in found.items()
        if min(share for share in shares if share is not None) < RIGHT
    )
    return f"| `{name}` | {CAUSES[case.cause][0]} | {case.why}{said} | {' | '.join(cells)} | {missed or 'none'} |\n"


def of_series(case: Case, since_s: float, results: Path) -> float | None:
    """Return how much of the time from `since_s` on the flow's own series give to the cause; None of one far away."""
    if case.far:
        return None
    stored = load(results)
    found = stored.limits
    last = found.filter((pl.col("leg") == pl.col("leg").max()) | pl.col("leg").is_null())
    named = [case.cause, "queue"] if case.standing else [case.cause]
    share = float(last.filter(pl.col("cause").is_in(named))["share"].sum())
    duration_s = float(stored.table("flows")["duration_s"][0])
    return min(share * duration_s / (duration_s - since_s), 1.0)


def rows(run: Run, names: Sequence[str], engines: Sequence[str], folder: Path, *, recorded: bool) -> Iterator[str]:
    """Yield the rows of cases."""
    for name in names:
        case, found = PLANTED[name], {}
        for engine in engines:
            results = carried_out(run, case, engine, folder / engine / name, recorded=recorded)
            causes, since_s = captured(case, results)
            found[engine] = right(case, causes, results), of_series(case, since_s, results)
        yield row(name, found)


def main() -> None:
    """Carry out the cases, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=PLANTED, help="a case by its name")
    parser.add_argument("--engine", choices=ENGINES, help="one engine, not both")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "perigee-limits")
    parser.add_argument("--recorded", action="store_true", help="keep results that are there")
    chosen = parser.parse_args()
    engines = [chosen.engine] if chosen.engine else list(ENGINES)
    lines = []
    for line in rows(perigee, chosen.case or list(PLANTED), engines, chosen.out, recorded=chosen.recorded):
        print(line, end="", flush=True)
        lines.append(line)
    if not chosen.case and not chosen.engine:
        PAGE.write_text(TEXT.read_text(encoding="utf-8") + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
