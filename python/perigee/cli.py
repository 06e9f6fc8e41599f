# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee`. Errors are one line on the error stream; exit codes: 0 done, 1 the run failed, 2 bad input."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import polars as pl
import typer
from rich import box
from rich.markup import escape
from rich.table import Table as RichTable

from perigee import __version__, analyze_command, cc, emu, engines, options, ping_command, probe_command, progress
from perigee.console import error_console, out_console, say
from perigee.dry import listing
from perigee.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, InterruptedRunError, PerigeeError
from perigee.fitting import command as fit_command
from perigee.numbers import number, probability, signed
from perigee.outcomes import FAILED, INCOMPLETE
from perigee.places import find_study
from perigee.runner import Job, carry_out

EXAMPLES = """
[bold]Examples[/bold]

  perigee run claypool-2021                 the whole study, on all cores
  perigee report results/claypool-2021      its tables and figures in one HTML file
  perigee compare results/a results/b       the same study on two versions, cell by cell
  perigee cc list                           the congestion controls there are
  perigee cc load hybla                     one of them, into the running kernel
  perigee exec --link geo -- curl ...       any program behind an emulated link
  perigee analyze download.pcapng           what a capture shows, in the same figures
  perigee ping example.org --log base.csv   round trip and loss of a real path
  perigee probe example.org --find          what a real path carries
  perigee fit --ping base.csv -o link.toml  a link profile out of both

Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 130 interrupted (resumable).
"""

LATE_US = 1000.0
"""99th percentile of the lateness of releases from which a run says so."""

app = typer.Typer(
    name="perigee",
    help="Predict and measure how TCP behaves over satellite links.\n" + EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(cc.app, name="cc")
app.add_typer(emu.app, name="emu")
app.command("exec")(emu.run_behind)
app.command("analyze")(analyze_command.analyze_files)
app.command()(ping_command.ping)
app.command()(probe_command.probe)
app.command()(fit_command.fit)


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The names of files come out as they went in, also where they are no UTF-8.
        sys.stdout.reconfigure(errors="surrogateescape")
    with contextlib.suppress(PerigeeError):
        # What cannot go on at the first signal ends at the second. Without the compiled module nothing hangs.
        engines.native_core().end_at_second_signal()
    try:
        app(standalone_mode=True)
    except PerigeeError as error:
        _say_error(str(error))
        if isinstance(error, InterruptedRunError):
            _say_how_to_resume()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _say_error("stopped")
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_RUN_FAILED)
    sys.exit(0)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.", is_eager=True)] = False,
) -> None:
    """Options that stand before the command."""
    if version:
        out_console.print(f"perigee {__version__}", highlight=False)
        raise typer.Exit


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="A study: its name in studies/, its folder, or its TOML file.")],
    engine: Annotated[
        str,
        typer.Option(
            help="sim: simulated, in virtual time. emu: real TCP over emulated links, in real time, as root. "
            "live: between real hosts, through their iperf3 servers."
        ),
    ] = "sim",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the study; may be given several times."),
    ] = None,
    reduced: Annotated[
        bool, typer.Option("--reduced", help="The small size that the study declares for tests.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time. \\[default: one per core]")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Results folder. \\[default: results/STUDY]")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, replacing results that are in the folder.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Emulated runs: begin also where this machine is too slow for real time.")
    ] = False,
    cc_stall: options.CcStall = options.DEFAULT_STALL,
    cc_memory: options.CcMemory = options.DEFAULT_MEMORY,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the runs; of real hosts also when they begin, and the data.")
    ] = False,
) -> None:
    """Carry a study out and keep its results in a folder.

    Ctrl-C leaves a folder that the same command resumes. The tables are the same, byte for byte, however many
    runs go at a time. A folder with other results, or with anything else in it, is never written to.
    Congestion controls of your own run in processes of their own, with limits of time and memory.

    [bold]Examples[/bold]

      perigee run claypool-2021
      perigee run claypool-2021 --reduced --out /tmp/try
      perigee run claypool-2021 --set rounds=10 --set flow.size="100 MB"
      perigee run ./my-study.toml --jobs 1
      perigee run ./my-study.toml --engine live --set live.servers.server=example.org:5201 --dry-run
    """
    job = Job(
        study=find_study(study),
        engine=engines.engine(engine, say, force=force, limits=options.code_limits(cc_stall, cc_memory)),
        settings=settings or (),
        reduced=reduced,
        out=out,
        workers=jobs,
        fresh=fresh,
    )
    if dry_run:
        table, together = listing(job.engine.plan(job.study, job.settings, job.reduced), time.time())
        out_console.print(table)
        say(together)
        return
    file = job.study.path.resolve()
    title = file.parent.name if file.name == "study.toml" else file.stem
    with progress.bar(error_console, title) as watch:
        done = carry_out(job, watch, say)
    if done.warnings:
        error_console.print(escape(done.warnings.rstrip()), highlight=False, soft_wrap=True)
    if done.resumed == done.runs:
        text = f"all {done.runs} runs are there already (--fresh begins anew)"
    elif done.resumed:
        text = f"{done.runs} runs, {done.resumed} of them from before"
    else:
        text = f"{done.runs} runs"
    _say_failures(done.folder)
    _say_lateness(done.folder)
    _say_left_out(done.folder)
    _say_gaps(done.folder)
    error_console.print(
        f"{text}; next: perigee report {shlex.quote(str(done.folder))}", highlight=False, soft_wrap=True
    )
    out_console.print(str(done.folder), highlight=False, soft_wrap=True, markup=False)


@app.command()
def report(
    results: Annotated[Path, typer.Argument(help="A results folder that `perigee run` made.", metavar="RESULTS")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML file to write. \\[default: report.html in the folder]")
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", "-f", help="Any of html, pdf, png, csv, latex, separated by commas.")
    ] = "html",
) -> None:
    """Make tables and figures of a finished study.

    The HTML report is one file that needs nothing else. Other formats (figures as PDF or PNG, tables as CSV or
    LaTeX) go to a folder beside it.

    [bold]Examples[/bold]

      perigee report results/claypool-2021
      perigee report results/claypool-2021 --out viasat2.html --format html,pdf,csv
    """
    from perigee.report import write_report

    wanted = [name.strip() for name in formats.split(",") if name.strip()]
    for path in write_report(results, out, wanted):
        out_console.print(str(path), highlight=False, soft_wrap=True, markup=False)


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="A results folder.", metavar="A")],
    b: Annotated[Path, typer.Argument(help="Another, of the same study.", metavar="B")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Also write a page with the time series of both laid over each other."),
    ] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Also write the cells to this CSV file.")] = None,
) -> None:
    """Compare two results of a study cell by cell: two engines, two versions, two settings.

    Each cell has the mean in A and B and the difference B - A with its 95 % confidence interval. Where both results
    took the same random draws, rounds are compared in pairs (t test of the differences, and Wilcoxon's signed-rank
    test), otherwise by Welch's t test; p is corrected for the number of cells (Holm). The page of --out adds
    throughput, round trip, window and retransmissions over time, A's and B's on one scale.

    [bold]Examples[/bold]

      perigee compare results/claypool-2021 results/claypool-2021-new
      perigee compare results/validation-sim results/validation-emu --out overlay.html
      perigee compare results/a results/b --csv differences.csv
    """
    from perigee.compare import as_frame, remarks
    from perigee.compare import compare as compare_results
    from perigee.csv_text import csv_text
    from perigee.files import write_atomically
    from perigee.results import Results

    first, second = Results(a), Results(b)
    cells = compare_results(first, second)
    table = RichTable(title=f"A: {escape(str(a))}   B: {escape(str(b))}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("Flows")
    table.add_column("Quantity")
    for heading in ("A", "B", "B - A", "%", "95 % interval", "p", "p (Wilcoxon)", "rounds"):
        table.add_column(heading, justify="right")
    last = ""
    for cell in cells:
        digits = cell.digits
        interval = "-" if cell.half_width != cell.half_width else f"± {number(cell.half_width, digits)}"
        tests = (cell.comparison.reason or probability(cell.p), probability(cell.p_wilcoxon), cell.comparison.size)
        table.add_row(
            "" if cell.label == last else escape(cell.label), cell.metric.heading, number(cell.a, digits),
            number(cell.b, digits), signed(cell.difference, digits), signed(cell.percent), interval, *tests,
            end_section=cell is cells[-1],
        )  # fmt: skip
        last = cell.label
    if first.study != second.study:
        error_console.print(f"note: A is of {first.study}, B of {second.study}", highlight=False, soft_wrap=True)
    out_console.print(table)
    for remark in remarks(first, second, cells):
        out_console.print(escape(remark), highlight=False, soft_wrap=True)
    if csv:
        write_atomically(csv, csv_text(as_frame(cells)).encode())
    if out:
        from perigee.report.overlay import write_overlay

        write_overlay(first, second, cells, out)
        out_console.print(str(out), soft_wrap=True, markup=False)


def _say_lateness(folder: Path) -> None:
    """Say so where an emulator was too late for its results to be the link's."""
    from perigee.results import Results

    results = Results(folder)
    if not results.has("releases"):
        return
    late = results.table("releases").filter(pl.col("late_p99_us") > LATE_US)
    if not late.is_empty():
        worst = number(float(late.select(pl.max("late_p99_us")).item()) / 1000, 1)
        runs = late["run"].n_unique()
        error_console.print(
            f"[bold red]late:[/bold red] in {runs} runs this machine released packets up to {worst} ms late (p99); "
            "their delays are not the link's alone",
            highlight=False,
            soft_wrap=True,
        )


def _say_left_out(folder: Path) -> None:
    """Say how many runs between real hosts are not in the results."""
    count = len(list((folder / "raw").glob("run-*-left-out.json")))
    if count:
        say(f"{count} runs were left out when the time was over; they are in no table")


def _say_failures(folder: Path) -> None:
    """Say how flows ended that did not carry everything."""
    from perigee.results import Results

    flows = Results(folder).table("flows")
    ends = flows.filter(~pl.col("completed")).group_by("outcome").agg(pl.len(), pl.n_unique("run")).sort("outcome")
    for outcome, count, runs in ends.iter_rows():
        said = (FAILED | INCOMPLETE).get(outcome, outcome)
        where = f"{runs} run" if runs == 1 else f"{runs} runs"
        error_console.print(
            f"[bold red]not completed:[/bold red] {count} of {flows.height} flows, in {where}: {escape(said)} "
            "(table flows, column outcome)",
            highlight=False,
            soft_wrap=True,
        )


def _say_gaps(folder: Path) -> None:
    """Say so where an emulator could not record as fast as it moved packets."""
    from perigee.results import Results

    results = Results(folder)
    if not results.has("gaps"):
        return
    gaps = results.table("gaps").group_by("record").agg(pl.sum("missing"), pl.n_unique("run")).sort("record")
    for record, missing, runs in gaps.iter_rows():
        what = "packets" if record == "capture" else "events"
        error_console.print(
            f"[bold red]missing:[/bold red] {missing} {what} in {runs} runs came faster than they could be recorded "
            "(table gaps)",
            highlight=False,
            soft_wrap=True,
        )


def _as_interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _say_error(text: str) -> None:
    error_console.print(f"[bold red]error:[/bold red] {escape(text)}", highlight=False, soft_wrap=True)


def _say_how_to_resume() -> None:
    command = shlex.join(["perigee", *sys.argv[1:]])
    error_console.print(f"resume with: {escape(command)}", highlight=False, soft_wrap=True)
