# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The table of `perigee run --dry-run`.

Of many runs the first and the last are shown: a million lines say less than their number.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.engines.plan.contract import Plan
from perigee.engines.plan.forecast import LOGS, cores_for, elapsed_seconds
from perigee.engines.plan.runs import Runs, describe
from perigee.engines.run.part import Part
from perigee.files import shown_bytes
from perigee.numbers import counted, span

ALL_SHOWN = 30
"""The largest number of runs that are all shown."""
FIRST_SHOWN, LAST_SHOWN = 10, 3
"""The number of runs shown of more."""
LOGGED = "a sixth to two fifths"
"""Share of the upper bound of logs and captures that is written: of 60 s of BBR over 50 Mbit/s 82 MB of captures for
502 MiB, and 428,000 rows of events, in 146 MB of memory for 686 MiB, which are 5 MB of file after compression."""


def listing(plan: Plan, part: Part | None = None) -> tuple[Table, str]:
    """Return a table of the runs, or of those of a part, and their totals in words."""
    table = new_table("Run", "What", "Flows", "Links")
    mine = part.of_all(len(plan.runs)) if part else range(len(plan.runs))
    for place in shown_indices(len(mine)):
        if place is None:
            table.add_row(*["..."] * 4)
            continue
        index = mine[place]
        run = plan.runs[index]
        flows, links = (", ".join(map(str, run.get(key, ()))) for key in ("flows", "links"))
        table.add_row(str(index), escape(describe(run)), escape(flows), escape(links))
    of = f"{len(mine)} of " if part else ""
    said = f"{of}{counted_runs(plan.runs)}{_time(plan, len(mine))}{_size(plan, len(mine))}"
    return table, f"{said}; nothing was run"


def shown_indices(count: int) -> Iterator[int | None]:
    """Yield the runs to show; none: some are left out here.

    Examples:
        >>> list(shown_indices(1_000_000))[8:]
        [8, 9, None, 999997, 999998, 999999]
    """
    if count <= ALL_SHOWN:
        yield from range(count)
        return
    yield from range(FIRST_SHOWN)
    yield None
    yield from range(count - LAST_SHOWN, count)


def _time(plan: Plan, runs: int) -> str:
    """Estimate the time of a number of the runs on all cores of this machine; empty if unknown."""
    if plan.processor_s is None or not runs:
        return ""
    elapsed_s = elapsed_seconds(plan.processor_s * runs / len(plan.runs), runs)
    return f"; about {span(elapsed_s)} on {counted(cores_for(runs), 'core')}, a rough estimate"


def _size(plan: Plan, runs: int) -> str:
    """Return upper bounds of the disk that results of a number of the runs take, and of the memory of a run's logs.

    Empty if unknown.
    """
    if not plan.rooms or not runs:
        return ""
    size = runs * sum(part.file for parts in plan.rooms for part in parts) // len(plan.rooms)
    said = f"; results up to about {shown_bytes(size)} before compression"
    logs = [[part for part in parts if part.name in LOGS] for parts in plan.rooms]
    if not any(logs):
        return said
    memory = max(sum(part.memory for part in parts) for parts in logs)
    names = ", ".join(dict.fromkeys(part.name for parts in logs for part in parts))
    most = f"{names} of a run at most {shown_bytes(memory)} of memory"
    return f"{said}, and {most}, or {LOGGED} of both where little is lost"


def counted_runs(runs: Runs) -> str:
    """Return the numbers of runs, points and rounds in words."""
    points, rounds = len(runs.points), runs.rounds
    if len(runs) == 1:
        return "1 run"
    return f"{len(runs)} runs: {counted(points, 'point')} in {counted(rounds, 'round')}"


def new_table(*headings: str) -> Table:
    """Return an empty table with these headings."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading)
    return table
