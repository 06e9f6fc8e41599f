# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Notes on finished runs: flows that did not complete or were held back, late releases, gaps, runs left out."""

from __future__ import annotations

import shlex
from pathlib import Path

import polars as pl

from perigee.console import error_console, out_console, say, warn
from perigee.groups.looks import name_of
from perigee.numbers import counted, number
from perigee.store.identity import REDUCED
from perigee.store.lateness import late_releases
from perigee.store.limits import held_back
from perigee.store.outcomes import FAILED, INCOMPLETE
from perigee.store.results import Results


def say_done(text: str, folder: Path) -> None:
    """Print warnings about finished runs, what was done, the next command, and the folder."""
    results = Results(folder)
    _say_failures(results)
    _say_held_back(results)
    _say_lateness(results)
    _say_left_out(folder)
    _say_gaps(results)
    if results.manifest["reduced"]:
        say(REDUCED.lower())
    error_console.print(f"{text}; next: perigee report {shlex.quote(str(folder))}", highlight=False, soft_wrap=True)
    out_console.print(str(folder), highlight=False, soft_wrap=True, markup=False)


def _say_lateness(results: Results) -> None:
    """Warn where the emulator released packets too late for results to be those of the link."""
    late = late_releases(results)
    if not late.is_empty():
        worst = number(float(late.select(pl.max("late_p99_us")).item()) / 1000, 1)
        runs = counted(late["run"].n_unique(), "run")
        said = f"in {runs} this machine released packets up to {worst} ms late (p99)"
        warn("late", f"{said}; their delays are not the link's alone")


def _say_left_out(folder: Path) -> None:
    """Report runs between real hosts that are not in the results."""
    count = len(list((folder / "raw").glob("run-*-left-out.json")))
    if count:
        were = "was" if count == 1 else "were"
        say(f"{counted(count, 'run')} {were} skipped when the time was over, and are in no table")


def _say_failures(results: Results) -> None:
    """Report the outcomes of flows that did not complete."""
    flows = results.table("flows")
    ends = flows.filter(~pl.col("completed")).group_by("outcome").agg(pl.len(), pl.n_unique("run")).sort("outcome")
    for outcome, count, runs in ends.iter_rows():
        said = (FAILED | INCOMPLETE).get(outcome, outcome)
        where = counted(runs, "run")
        warn("not completed", f"{count} of {flows.height} flows, in {where}: {said} (table flows, column outcome)")


def _say_held_back(results: Results) -> None:
    """Report flows that a buffer or a window held back."""
    if held := held_back(results, name_of):
        say(f"note: {held}")


def _say_gaps(results: Results) -> None:
    """Report packets and events that the emulator could not record."""
    if not results.has("gaps"):
        return
    gaps = results.table("gaps").group_by("record").agg(pl.sum("missing"), pl.n_unique("run")).sort("record")
    for record, missing, runs in gaps.iter_rows():
        what = f"{'packets' if record == 'capture' else 'events'} in {counted(runs, 'run')}"
        warn("missing", f"{missing} {what} were not recorded, as they came too fast (table gaps)")
