# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee cc standing`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perigee.commands import options
from perigee.commands.targets import check_folder
from perigee.console import error_console, result, say
from perigee.errors import InterruptedRunError

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
    whole: Annotated[bool, typer.Option("--whole", help="Whole studies, which take some 2.5 times as long.")] = False,
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
    of Perigee: the same command resumes after Ctrl-C, and a new version measures anew.

    One algorithm takes two to three minutes of a core, and five to seven with --whole, most of it for Reno, CUBIC and
    BBR beside it; these run once for all: 24 criteria of all 19 algorithms took 1,910 s of a core with --whole.
    With --criterion, too, each algorithm is loaded into the kernel and makes the four downloads (some seconds).

    [bold]Examples[/bold]

      perigee cc standing
      perigee cc standing --only cubic --only bbr3 --out standing-of-two
    """
    with _resumable(out):
        _written(only or (), criterion or (), out, quick=not whole, jobs=jobs, fresh=fresh)


@contextlib.contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Say how to go on wherever Ctrl-C comes; studies say it themselves, with their runs."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError(f"stopped: what was finished is kept in {out}") from None


def _written(
    only: Sequence[str], criterion: Sequence[str], out: Path, *, quick: bool, jobs: int | None, fresh: bool
) -> None:
    """Measure the standing, and write it."""
    from perigee.commands import progress
    from perigee.engines import choice
    from perigee.evaluation.running import choose as criteria
    from perigee.files import write_atomically
    from perigee.standing.markdown import annex
    from perigee.standing.running import FILE, Standing, choose, measure

    names, chosen = choose(only), criteria(criterion)
    check_folder("--out", out)
    asked = Standing(names, out, choice.engine("sim", say), quick, jobs, fresh, chosen)

    def bar(title: str) -> AbstractContextManager[Watch]:
        return progress.bar(error_console, title)

    found = measure(asked, bar, say)
    tables = {FILE: json.dumps(found, indent=1, ensure_ascii=False), "standing.md": annex(found)}
    for name, text in tables.items():
        write_atomically(out / name, text.encode())
        result(str(out / name))
