# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee run`."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from perigee.commands import options
from perigee.commands.old_names import say_old_names
from perigee.console import error_console, out_console, say
from perigee.errors import InputError, RunError
from perigee.numbers import counted
from perigee.places import find_study
from perigee.store.origins import ENGINES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from perigee.api.refinement import Refinement
    from perigee.engines.plan.contract import Plan
    from perigee.engines.run.job import Job
    from perigee.engines.run.part import Part
    from perigee.engines.run.runner import Done
    from perigee.places import StudyFile


@dataclass(frozen=True)
class RunOptions:
    """Options and arguments of `perigee run`."""

    study: options.Study
    engine: Annotated[
        str,
        typer.Option(
            metavar="|".join(ENGINES),
            help=" ".join(f"{name}: {carries}." for name, carries in ENGINES.items()),
        ),
    ] = "sim"
    settings: options.Settings = None
    rounds: Annotated[
        int | None, typer.Option("--rounds", metavar="N", min=1, help="Number of rounds, as --set rounds=N.")
    ] = None
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="KEY=V1,V2",
            help="Vary a key over these values instead of the study's; may be given several times.",
        ),
    ] = None
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also",
            metavar="KEY=V1,V2",
            help="Add values to those of a key that the study varies; may be given several times.",
        ),
    ] = None
    experiment: Annotated[
        list[str] | None,
        typer.Option(
            "--experiment",
            metavar="NAME",
            help="Run only this experiment of the study; may be given several times.",
        ),
    ] = None
    reduced: options.Reduced = False
    jobs: options.Jobs = None
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Results folder. \\[default: results/STUDY]")
    ] = None
    shard: options.Shard = None
    until: Annotated[
        list[str] | None,
        typer.Option(
            "--until",
            metavar="SHARE",
            help="Run rounds until each mean's 95 % interval is within this share of it, at most the study's rounds: "
            '"2 %" of the throughput, "rtt_mean_ms 1 %" of another column of flows; may be given several times.',
        ),
    ] = None
    fresh: options.Fresh = False
    force: Annotated[
        bool, typer.Option("--force", help="Start emulated runs even where this machine is too slow for real time.")
    ] = False
    nearest: Annotated[
        bool,
        typer.Option(
            "--nearest",
            help="Emulate what this kernel does not do by the nearest that it does, one line each.",
        ),
    ] = False
    repeat_late: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Carry an emulated run out again, up to five times in all, if this machine released a packet later "
            'than this, such as "2 ms".',
        ),
    ] = None
    plain: Annotated[
        bool,
        typer.Option("--plain", help="Simulate every packet by itself on the slow path, as --set carriage=plain does."),
    ] = False
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            "--exact-check",
            help="Simulate the study with fast paths, those that carry trains of segments in one step included, and "
            "packet by packet without, and compare all tables; exit code 1 if any cell differs. Discards the results, "
            "or keeps those with fast paths in --out.",
        ),
    ] = False
    cc_stall: options.CcStall = options.DEFAULT_STALL
    cc_memory: options.CcMemory = options.DEFAULT_MEMORY
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only list the runs; for real hosts also their start times and data volume."),
    ] = False


def command(given: RunOptions) -> None:
    """Run a study and write its results to a folder.

    After Ctrl-C, the same command resumes. The tables are the same, value for value, for any number of concurrent
    runs. A folder with other results, or with anything else in it, is never written to.
    Your own congestion controls run in separate processes with limits on time and memory.

    [bold]Examples[/bold]

      perigee run claypool-2021
      perigee run claypool-2021 --reduced --out /tmp/try
      perigee run claypool-2021 --rounds 10 --set flow.size="100 MB"
      perigee run ./my-study.toml --vary links.sat.loss="0 %,0.1 %,1 %"
      perigee run gallery --also flow.cc=./mycc.c
      perigee run ./my-study.toml --jobs 1
      perigee run ./my-study.toml --shard 2/8          the second of eight machines
      perigee run ./my-study.toml --set rounds=200 --until "2 %"      as many rounds as it takes, up to 200
      perigee run ./my-study.toml --reduced --verify      checks that fast paths do not change the results
      perigee run ./my-study.toml --engine live --set live.servers.server=example.org:5201 --dry-run
    """
    # Modules that a dry run, or another command, has no use for are slow to import.
    from perigee.engines import choice
    from perigee.engines.run.job import Job
    from perigee.engines.run.part import Part
    from perigee.engines.run.until import Until

    rounds = [] if given.rounds is None else [f"rounds={given.rounds}"]
    settings = options.study_settings([*(given.settings or ()), *rounds], given.vary, given.also, given.experiment)
    study = find_study(given.study)
    say_old_names(study, settings)
    if given.nearest:
        settings = (*settings, *_nearest(given, study, settings))
    job = Job(
        study=study,
        engine=choice.engine(
            given.engine,
            say,
            force=given.force,
            late_s=math.inf if given.repeat_late is None else options.seconds("--repeat-late", given.repeat_late, 1e-6),
            limits=options.code_limits(given.cc_stall, given.cc_memory),
        ),
        settings=(*settings, "carriage=plain") if given.plain else settings,
        reduced=given.reduced,
        out=given.out,
        workers=given.jobs,
        fresh=given.fresh,
        part=Part.read(given.shard) if given.shard is not None else None,
        until=[Until.read(text) for text in given.until or ()],
    )
    if given.verify and not given.dry_run:
        _check_verifiable(given)
        _verify(job)
    else:
        do(job, dry_run=given.dry_run)


def _nearest(given: RunOptions, study: StudyFile, settings: Sequence[str]) -> Sequence[str]:
    if given.engine != "emu":
        raise InputError("--nearest: only emulated runs are bound to this kernel; add --engine emu, or leave it out")
    from perigee.engines.emu.engine import nearest

    return nearest(study, settings, given.reduced, say)


def _check_verifiable(given: RunOptions) -> None:
    if given.engine != "sim":
        raise InputError("--verify: only the simulator has two ways to carry packets; leave --engine out")
    if given.plain:
        raise InputError("--verify runs the study with and without fast paths; leave out --plain")


def _verify(job: Job) -> None:
    """Run a job with and without fast paths, and report whether the tables agree."""
    from perigee.commands import progress
    from perigee.engines.sim.verify import verify

    with ExitStack() as shown:
        verified = verify(job, lambda way: shown.enter_context(progress.bar(error_console, way)), say)
    if verified.done.warnings:
        error_console.print(escape(verified.done.warnings.rstrip()), highlight=False, soft_wrap=True)
    if verified.difference:
        raise RunError(f"fast and plain differ: {verified.difference}")
    captures = f", {counted(verified.captures, 'capture')}" if verified.captures else ""
    compared = f"{counted(verified.done.runs, 'run')}, {counted(verified.tables, 'table')}{captures}: identical"
    out_console.print(compared, highlight=False, soft_wrap=True, markup=False)


def do(job: Job, *, dry_run: bool, refinement: Refinement | None = None) -> None:
    """Run a job, with progress and the next command; or list its runs, for a refined sweep those of the first grid."""
    if dry_run:
        first = refinement.settings(refinement.grid) if refinement else ()
        with replace(job, settings=(*job.settings, *first)) as grid:
            grid.check_timetable()
            table, together = _listing(grid.plan, grid.part)
            out_console.print(table)
            for remark in grid.plan.remarks:
                say(remark)
        say(together)
        if refinement:
            say(refinement.outlook)
        return
    from perigee.commands import progress
    from perigee.commands.run_notes import say_done
    from perigee.engines.run.runner import carry_out
    from perigee.report.beside import check_beside

    check_beside(job.study)
    file = job.study.path.resolve()
    title = file.parent.name if file.name == "study.toml" else file.stem
    with progress.bar(error_console, title) as watch:
        if refinement:
            from perigee.api import refined_sweep

            done = refined_sweep.carry_out(job, refinement, watch, say)
        else:
            done = carry_out(job, watch, say)
    if done.warnings:
        error_console.print(escape(done.warnings.rstrip()), highlight=False, soft_wrap=True)
    if done.left:
        _say_shard(done)
        return
    if done.resumed == done.runs:
        there = "the run is" if done.runs == 1 else f"all {done.runs} runs are"
        text = f"{there} there already (--fresh starts over)"
    else:
        text = counted(done.runs, "run") + (f", {done.resumed} of them from before" if done.resumed else "")
    say_done(text, done.folder)


def _say_shard(done: Done) -> None:
    """Print the next command after a part of the runs."""
    before = f", {done.resumed} of them from before" if done.resumed else ""
    error_console.print(
        f"{counted(done.runs, 'run')}{before}; {counted(done.left, 'run')} of other shards left; "
        "next, when all are there: perigee merge FOLDER...",
        highlight=False,
        soft_wrap=True,
    )
    out_console.print(str(done.folder), highlight=False, soft_wrap=True, markup=False)


def _listing(plan: Plan, part: Part | None) -> tuple[Table, str]:
    if plan.has_timetable:
        from perigee.commands.dry_run_live import live_listing

        return live_listing(plan, time.time())
    from perigee.commands.dry_run import listing

    return listing(plan, part)
