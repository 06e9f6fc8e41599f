# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee cc evaluate`."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.commands import options
from perigee.console import error_console, out_console, result, say
from perigee.errors import EXIT_RUN_FAILED, InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perigee.engines.run.crew import Watch
    from perigee.evaluation.judging import Finding


LEAST_HORIZON_S = 120.0
EXIT_NO_VERDICT = 3
"""Exit code where a run failed, so that there is no verdict; 1 says that a criterion fails."""
MOST_ROWS = 10
"""Criteria that each have a row in the terminal, whatever their verdict."""
TRANSPORTS = ("tcp", "quic")


def evaluate(
    what: Annotated[
        str,
        typer.Argument(metavar="ALGORITHM|FILE", help="Name of an algorithm, see `perigee cc list`, or its C file."),
    ],
    criterion: Annotated[
        list[str] | None,
        typer.Option("--criterion", metavar="ID", help="Only this criterion, such as 7.5; may be given several times."),
    ] = None,
    cell: Annotated[
        str | None,
        typer.Option(
            "--cell", metavar="WORDS", help="Only this cell of one --criterion, in the words of the page or table."
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            metavar="N",
            min=3,
            max=10_000,
            help="First rounds of that --cell; up to 24, more follow while it is open. \\[default: 3]",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Fewer cells, at most two minutes on two cores; a pass on a part of them is left open."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Page to write. \\[default: evaluation-NAME.html]"),
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures and verdicts to this file.")
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            "--answers",
            metavar="FILE",
            help="The author's answers to what no study measures; an empty form is written if the file is missing.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep", metavar="FOLDER", help="Keep the results of the studies here; the same command resumes."
        ),
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy",
            help="Also run each study behind a splitting proxy that uses the candidate.",
        ),
    ] = False,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm",
            help="Also repeat the three worst cells on the emulator, with this machine's own TCP; as root.",
        ),
    ] = False,
    horizon: Annotated[
        str | None,
        typer.Option("--horizon", metavar="TIME", help="Also a few long runs of this length, such as 15min."),
    ] = None,
    transport: Annotated[
        str,
        typer.Option(
            "--transport", metavar="NAME", help="Transport of the candidate: tcp, or quic where that is measured."
        ),
    ] = "tcp",
    scavenger: Annotated[
        bool, typer.Option("--scavenger", help="It is meant to yield to all others: judge that, not its own share.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, max=999_999_999, help="Seed of all studies.")] = 1,
    fresh: options.Fresh = False,
    jobs: options.Jobs = None,
    cc_stall: options.CcStall = options.DEFAULT_STALL,
    cc_memory: options.CcMemory = options.DEFAULT_MEMORY,
) -> None:
    """Evaluate a congestion control by the criteria of RFC 9743, with a verdict for each.

    Simulates a study per criterion, beside Reno, CUBIC and BBR, and writes one HTML page. The verdicts are pass, fail,
    "not met, document it", "undecided" and "not measured". A cell fails if the interval of its figure lies beyond the
    threshold; near it, rounds are added. RFC 9743 sets no numbers; every threshold names its owner. The same file gives
    the same page. Exit code 1: a criterion fails; 2: the command or the file is wrong, as where it does not compile;
    3: a run failed, as where the candidate crashes or hangs, which leaves it without a verdict.

    [bold]Examples[/bold]

      perigee cc evaluate ./mycc.c --quick
      perigee cc evaluate ./mycc.c --criterion 7.5 --criterion 5.2.1
      perigee cc evaluate bbr --criterion 7.2 --cell "rate 10 Mbit/s, count 16, buffer 0.1 BDP"
      perigee cc evaluate bbr --json bbr.json --keep results/bbr
      perigee cc evaluate ./mycc.c --answers mycc.toml
      perigee cc evaluate ./mycc.c --quick --confirm
    """
    from perigee.commands import progress
    from perigee.commands.targets import check_file
    from perigee.engines import choice
    from perigee.engines.emu.obstacle import obstacle
    from perigee.evaluation import form, running, studies, summary
    from perigee.evaluation.confirm import confirm as repeat
    from perigee.evaluation.further import HORIZON
    from perigee.files import write_atomically
    from perigee.report.pages.evaluation import page

    if fresh and keep is None:
        raise InputError("--fresh: replaces results that were kept; give --keep, too")
    if transport not in TRANSPORTS:
        raise InputError(f"--transport {transport}: there is no such transport; use one of {', '.join(TRANSPORTS)}")
    if transport == "quic" and (confirm or behind_proxy):
        raise InputError(
            "--transport quic: neither the emulator nor the proxy carries it; leave out --confirm and --behind-proxy"
        )
    # A page has a no-break space before a unit, and writes us in its own way.
    words = " ".join((cell or "").replace("µs", "us").split())
    if cell is not None and not words:
        raise InputError("--cell: is empty; give the words of a cell, as a page or table has them, or leave it out")
    if cell is not None and (len(criterion or ()) != 1 or behind_proxy):
        raise InputError("--cell: names a cell of one criterion; give one --criterion, and leave out --behind-proxy")
    if rounds is not None and cell is None:
        raise InputError("--rounds: is the number of rounds of one cell; give --cell, too")
    horizon_s = options.seconds("--horizon", horizon, LEAST_HORIZON_S) if horizon else 0.0
    chosen = running.choose(criterion or ())
    if horizon and chosen and HORIZON not in chosen:
        raise InputError(
            f"--horizon: is the length of the runs of {HORIZON}, which is not chosen; add --criterion {HORIZON}"
        )
    engine = choice.engine("sim", say, limits=options.code_limits(cc_stall, cc_memory))
    candidate = studies.candidate(what)
    candidate = replace(candidate, scavenger=scavenger or candidate.scavenger, over_quic=transport == "quic")
    target = out or Path(f"evaluation-{candidate.name}{'' if cell is None else '-cell'}.html")
    check_file("--out", target)
    if as_json is not None:
        check_file("--json", as_json)
    if candidate.warnings:
        say(candidate.warnings.rstrip())
    if confirm and (why := obstacle([candidate.value])):
        raise InputError(f"--confirm: {why}")
    said: dict[str, str] = {}
    if answers is not None and answers.exists():
        said = form.read_form(answers)
    elif answers is not None:
        form.write_form(answers)
        say(f"wrote an empty form to {answers}; fill it in, and give the same command again")

    limits = {
        name: value
        for name, value, default in (
            ("--cc-stall", cc_stall, options.DEFAULT_STALL),
            ("--cc-memory", cc_memory, options.DEFAULT_MEMORY),
        )
        if value != default
    }

    def bar(title: str) -> AbstractContextManager[Watch]:
        return progress.bar(error_console, title)

    order = studies.Order(
        candidate,
        chosen,
        quick,
        engine,
        jobs,
        keep,
        fresh,
        behind_proxy,
        seed,
        horizon_s=horizon_s,
        cell=words,
        rounds=rounds,
        limits=limits,
    )
    try:
        findings = running.evaluate(order, bar, say)
    except RunError as error:
        error.exit_code = EXIT_NO_VERDICT
        raise
    repeated = repeat(order, findings, bar, say) if confirm else []
    shown = page(candidate, findings, said, quick=quick, repeated=repeated)
    write_atomically(target, shown.encode())
    if as_json is not None:
        content = summary.as_json(candidate, findings, quick=quick, repeated=repeated, cell=words, rounds=rounds)
        write_atomically(as_json, f"{json.dumps(content, indent=1, ensure_ascii=False)}\n".encode())
    out_console.print(_table(findings))
    for one in repeated:
        say(f"{one.criterion.id}, {one.simulated.words}: on the emulator: {one.sentence}")
    say(summary.scope(findings))
    if cell is not None:
        say(running.ALONE)
    held = (summary.alike(candidate, findings), summary.by_construction(candidate, findings))
    first = (*summary.repeats(findings), summary.not_shown(findings))
    for words in (*first, summary.left_words(findings), *held, summary.THRESHOLDS):
        if words:
            say(words)
    say(summary.summarize(candidate, findings).answer)
    result(str(target))
    if summary.exit_code(findings):
        raise typer.Exit(EXIT_RUN_FAILED)


def _table(findings: Sequence[Finding]) -> Table:
    """Return the verdicts, what fails last: there a terminal is read. Many passes are one row."""
    from perigee.evaluation import running
    from perigee.evaluation.judging import ORDER
    from perigee.evaluation.rules import Verdict
    from perigee.evaluation.summary import key_figure

    styles = {
        Verdict.FAIL: "bold red",
        Verdict.DOCUMENT: "yellow",
        Verdict.UNDECIDED: "cyan",
        Verdict.PASS: "green",
    }
    table = Table(box=box.SIMPLE_HEAD)
    # Narrow, so that most of a line is left to the figure.
    table.add_column("Criterion", max_width=24)
    table.add_column("Verdict", max_width=10)
    behind = any(found.behind for found in findings)
    if behind:
        table.add_column("Behind a proxy", max_width=10)
    table.add_column("Deciding figure, or reason", overflow="fold")
    measured = [found for found in findings if found.reason != running.NOT_CHOSEN]
    is_long = len(measured) > MOST_ROWS
    without = [one for one in Verdict if one not in ORDER]
    for verdict in (*reversed(without), *reversed(ORDER)):
        style = styles.get(verdict, "dim")
        of_it = [found for found in measured if found.verdict is verdict]
        if is_long and not behind and verdict in (Verdict.PASS, *without) and len(of_it) > 1:
            listed = ", ".join(found.criterion.id for found in of_it)
            table.add_row(listed, f"[{style}]{verdict}[/]", "each on the page")
            continue
        for found in of_it:
            words = [f"[{style}]{verdict}[/]"]
            if behind:
                words.append(
                    f"[{styles.get(found.behind.verdict, 'dim')}]{found.behind.verdict}[/]" if found.behind else ""
                )
            figure = escape(key_figure(found, is_brief=True))
            table.add_row(escape(f"{found.criterion.id} {found.criterion.title}"), *words, figure)
    return table
