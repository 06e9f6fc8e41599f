# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee cc attack`."""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perigee.commands import options
from perigee.console import error_console, result, say
from perigee.errors import EXIT_INTERRUPTED, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from perigee.attack.confirm import Confirmation
    from perigee.attack.finding import Finding

DEFAULT_BUDGET = "5 min"
LEAST_BUDGET_S = 1.0
PAGE = "report.html"
"""The file in the folder of an attack."""


def attack(
    what: Annotated[
        str,
        typer.Argument(metavar="ALGORITHM|FILE", help="Name of an algorithm, see `perigee cc list`, or its C file."),
    ],
    goal: Annotated[
        list[str] | None,
        typer.Option(
            "--goal",
            metavar="GOAL",
            help="Goal of the search: utilisation, delay, loss, starvation (of another flow) or stall; may be "
            "given several times. \\[default: all]",
        ),
    ] = None,
    where: Annotated[
        str, typer.Option("--where", metavar="PLACE", help="Round trips to search: geo, leo or any.")
    ] = "any",
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="TIME",
            help=f"Time for all goals. \\[default: {DEFAULT_BUDGET}, without limit with --trials]",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            metavar="N",
            min=1,
            help="Trials of each goal's search. The same number gives the same bytes, with the same NumPy.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the search.")] = 1,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            "--reference",
            metavar="ALGORITHM",
            help="Reference to compare it with, in the same trials; may be given several times. "
            "\\[default: reno and cubic]",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Folder for the page and the studies. \\[default: attack-NAME]"
        ),
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write findings and figures to this file.")
    ] = None,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm", help="Also replay each finding on the emulator, with this machine's own TCP; as root."
        ),
    ] = False,
    jobs: options.Jobs = None,
    cc_stall: options.CcStall = options.DEFAULT_STALL,
    cc_memory: options.CcMemory = options.DEFAULT_MEMORY,
) -> None:
    """Search for the link and traffic where a congestion control is worse than both Reno and CUBIC.

    Simulates thousands of short trials: rates, round trips, queues and their management, losses, changes of rate
    and delay, outages, competing flows, objects and pauses of the application. What it finds counts only if it
    holds on eight links nearby, and is shrunk: complications that it does not need are dropped, and numbers
    rounded. Each finding becomes a study of at most ten lines, which `perigee run` carries out. What it does as
    badly as one of the two is listed apart. Ctrl-C keeps what was found.

    [bold]Examples[/bold]

      perigee cc attack ./mycc.c --budget "2 min"
      perigee cc attack bbr --goal loss --where geo
      perigee cc attack ./mycc.c --trials 500 --seed 7 --json attack.json
      perigee cc attack cubic --reference bbr --goal utilisation
      perigee cc attack bbr --goal loss --trials 100 --confirm
    """
    from perigee.attack import running
    from perigee.attack.content import content
    from perigee.commands import progress
    from perigee.commands.targets import check_file, check_folder
    from perigee.evaluation.studies import candidate
    from perigee.files import write_atomically
    from perigee.report.pages.attack import page

    limits = options.code_limits(cc_stall, cc_memory)
    time_s = None if budget is None and trials is not None else _budget(budget or DEFAULT_BUDGET)
    subject = candidate(what)
    goals, references = running.chosen(goal or [], where, reference or [], subject.value)
    if subject.warnings:
        say(subject.warnings.rstrip())
    order = running.Order(subject, goals, where, references, time_s, trials, seed, jobs, limits)
    folder = out or Path(f"attack-{subject.name}")
    check_folder("--out", folder)
    if as_json is not None and as_json.parent != folder:
        check_file("--json", as_json)
    findings: list[Finding] = []
    replayed: dict[str, Confirmation] = {}

    def bar(name: str) -> AbstractContextManager[Callable[[float], None]]:
        return progress.share(error_console, f"{subject.name}: {name}")

    def found(one: Finding) -> None:
        findings.append(one)
        if one.is_one:
            write_atomically(folder / one.file, one.study(folder).encode())
        say(f"{one.name}: {one.sentence if one.is_one else 'nothing found'}")
        if one.shared:
            say(f"{one.name}, shared with a standard: {one.shared_words()}")

    def write() -> None:
        write_atomically(folder / PAGE, page(order, findings, folder, replayed, why).encode())
        if as_json is not None:
            text = json.dumps(content(order, findings, replayed), indent=1, ensure_ascii=False)
            write_atomically(as_json, f"{text}\n".encode())

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError.from_os(error, folder) from error
    why = _obstacle() if confirm else ""
    try:
        is_whole = running.attack(order, bar, found)
    finally:
        write()
    if confirm and is_whole and not why:
        for one in findings:
            if one.is_one and one.result and not one.result.fault:
                replayed[one.name] = _replayed(one)
                write()
    result(str(folder / PAGE))
    if not is_whole:
        raise typer.Exit(EXIT_INTERRUPTED)


def _obstacle() -> str:
    """Return why findings cannot be replayed here, and say so."""
    from perigee.engines.emu.obstacle import obstacle

    why = obstacle(["cubic"])
    if why:
        say(f"--confirm: {why}; findings are simulated only")
    return why


def _replayed(one: Finding) -> Confirmation:
    """Replay a finding on the emulator, and say what came out."""
    from perigee.attack.confirm import confirm
    from perigee.commands import progress

    with progress.share(error_console, f"{one.name} on the emulator") as watch:
        found = confirm(one, watch)
    say(f"{one.name} {found.sentence(one.candidate.name, one.goal)}")
    return found


def _budget(text: str) -> float:
    """Read the time of a search; `m` are minutes.

    Examples:
        >>> _budget("5m"), _budget("90 s")
        (300.0, 90.0)
    """
    return options.seconds("--budget", re.sub(r"(?<=[\d ])m$", "min", text), LEAST_BUDGET_S)
