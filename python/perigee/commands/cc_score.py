# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee cc score`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.commands import options
from perigee.console import error_console, out_console, result, say
from perigee.errors import EXIT_RUN_FAILED
from perigee.numbers import number

if TYPE_CHECKING:
    from perigee.fitness.running import Scored

DEFAULT_STALL, DEFAULT_MEMORY, DEFAULT_LIMIT = "2 s", "1 GiB", "20 s"
LEAST_LIMIT_S = 1.0


def score(
    what: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="C files, or names of algorithms, see `perigee cc list`."),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON per file, in the order of the files.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", min=1, help="Number of files at a time. \\[default: one per core]"),
    ] = None,
    limit: Annotated[
        str,
        typer.Option(
            "--limit",
            metavar="TIME",
            help="CPU time that each file may take in all once it is compiled, whole seconds.",
        ),
    ] = DEFAULT_LIMIT,
    cc_stall: options.CcStall = DEFAULT_STALL,
    cc_memory: options.CcMemory = DEFAULT_MEMORY,
) -> None:
    """Score congestion controls, for programs that write them: a number per criterion of RFC 9743.

    Simulates a fixed set of small cells, six runs each. A score is how many times a figure is as good as the median of
    Reno, CUBIC and BBR, whose figures are computed once, as a binary logarithm: 0 is as good, 1 twice, -1 half. A
    verdict stands beside each; where one is fail, a study of at most ten lines shows it.

    Each file is compiled and run confined, within limits of CPU time and memory; each process of a compiler has 60 s
    and 4 GiB. One that is missing, does not compile, crashes or hangs is reported with its line, and the others go on;
    exit code 1. The same file has the same score, if it uses nothing but tcp.h.

    [bold]Examples[/bold]

      perigee cc score ./mycc.c
      perigee cc score generation-7/*.c --json > generation-7.jsonl
    """
    from perigee.cc.limits import CodeLimits
    from perigee.commands import progress
    from perigee.fitness.content import content
    from perigee.fitness.running import SCORED, scores

    code = options.code_limits(cc_stall, cc_memory)
    limits = CodeLimits(code.stall_s, code.memory_bytes, round(options.seconds("--limit", limit, LEAST_LIMIT_S)))
    found = []
    with progress.share(error_console, "scoring") as watch:
        for scored in scores(what, limits, jobs, lambda done: watch(done / len(what))):
            found.append(scored.status)
            if as_json:
                result(json.dumps(content(scored), ensure_ascii=False))
            else:
                _show(scored)
    failed = sum(status != SCORED for status in found)
    if failed:
        say(f"{failed} of {len(found)} could not be scored")
        raise typer.Exit(EXIT_RUN_FAILED)


def _show(scored: Scored) -> None:
    from perigee.fitness.marks import criteria_failed, score_of
    from perigee.fitness.running import SCORED

    if scored.status != SCORED:
        result(f"{scored.file}: {scored.status}")
        say(scored.error)
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Criterion")
    table.add_column("Figure", overflow="fold")
    for heading in ("Value", "Score", "Verdict"):
        table.add_column(heading, justify="right")
    styles = {"fail": "bold red", "pass": "green", "undecided": "dim"}
    for one in scored.found:
        unit = f" {one.mark.unit}" if one.mark.unit else ""
        value = f"{number(sum(one.values) / len(one.values), 2)}{unit}"
        verdict = f"[{styles.get(one.verdict, 'yellow')}]{one.verdict}[/]"
        title = f"{one.mark.title} ({one.cell.name})"
        table.add_row(one.cell.criterion, escape(title), escape(value), number(one.score, 2), verdict)
    failed = criteria_failed(scored.found)
    result(f"{scored.file}: score {number(score_of(scored.found), 2)}, fails {', '.join(failed) or 'nothing'}")
    out_console.print(table)
    if scored.for_kernel is False:
        say(f"{scored.file}: does not compile for the kernel; `perigee cc check` has what the compiler says")
    if scored.harm is not None:
        say(f"the smallest study that shows the first harm, {scored.harm.sentence}:")
        result(scored.harm.study.rstrip())
