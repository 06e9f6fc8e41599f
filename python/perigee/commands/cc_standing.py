# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee cc standing`."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perigee.commands import options
from perigee.console import error_console, result, say

if TYPE_CHECKING:
    from perigee.engines.run.crew import Watch


def standing(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ALGORITHM", help="Only this algorithm; may be given several times."),
    ] = None,
    criterion: Annotated[
        list[str] | None,
        typer.Option("--criterion", metavar="ID", help="Only this criterion, such as 7.5; may be given several times."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Whole studies: about two minutes of a core per algorithm.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the table, and of what is kept.")
    ] = Path("standing"),
    fresh: options.Fresh = False,
    jobs: options.Jobs = None,
) -> None:
    """Write the standing of every shipped congestion control: verdicts by RFC 9743, kernel, satellite links.

    Evaluates each by the quick studies of `perigee cc evaluate`, loads it into the running kernel for a moment (as
    root; empty otherwise), and downloads with it over two geostationary links and two over low orbits. Writes
    standing.json and standing.md, an annex for a draft; `perigee publish` shows the first. Results are kept per version
    of Perigee: the same command resumes after Ctrl-C, and a new version measures anew. Some minutes per algorithm.

    [bold]Examples[/bold]

      perigee cc standing
      perigee cc standing --only cubic --only bbr3 --out standing-of-two
    """
    from perigee.commands import progress
    from perigee.engines import choice
    from perigee.evaluation.running import choose as criteria
    from perigee.files import write_atomically
    from perigee.standing.markdown import annex
    from perigee.standing.running import FILE, Standing, choose, measure

    asked = Standing(
        choose(only or ()), out, choice.engine("sim", say), not whole, jobs, fresh, criteria(criterion or ())
    )

    def bar(title: str) -> AbstractContextManager[Watch]:
        return progress.bar(error_console, title)

    found = measure(asked, bar, say)
    tables = {FILE: json.dumps(found, indent=1, ensure_ascii=False), "standing.md": annex(found)}
    for name, text in tables.items():
        write_atomically(out / name, text.encode())
        result(str(out / name))
