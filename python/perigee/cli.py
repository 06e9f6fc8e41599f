# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee`. Errors are one line on the error stream; exit codes: 0 done, 1 the run failed, 2 bad input."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from perigee import __version__, progress
from perigee.engine import engine as find_engine
from perigee.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, Interrupted, PerigeeError
from perigee.places import find_study
from perigee.runner import Job, carry_out

EXAMPLES = """
[bold]Examples[/bold]

  perigee run claypool-2021                 the whole study, on all cores
  perigee report results/claypool-2021      its tables and figures in one HTML file
  perigee compare results/a results/b       the same study on two versions, cell by cell
  perigee cc list                           the congestion controls there are

Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 130 interrupted (resumable).
"""

app = typer.Typer(
    name="perigee",
    help="Predict and measure how TCP behaves over satellite links.\n" + EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
cc_app = typer.Typer(help="Congestion controls: what there is and what can be set.", no_args_is_help=True)
app.add_typer(cc_app, name="cc")

out_console = Console()
error_console = Console(stderr=True)


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        app(standalone_mode=True)
    except PerigeeError as error:
        _say_error(str(error))
        if isinstance(error, Interrupted):
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
        str, typer.Option(help="sim: simulated, in virtual time. (emu, live: not in this version.)")
    ] = "sim",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the study; may be given several times."),
    ] = None,
    reduced: Annotated[bool, typer.Option("--reduced", help="The small size that the study declares for tests.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time. [default: one per core]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Results folder. [default: results/STUDY]")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, replacing results that are in the folder.")
    ] = False,
) -> None:
    """Carry a study out and keep its results in a folder.

    Ctrl-C leaves a folder that the same command resumes. The tables are the same, byte for byte, however many
    runs go at a time. A folder with other results, or with anything else in it, is never written to.

    [bold]Examples[/bold]

      perigee run claypool-2021
      perigee run claypool-2021 --reduced --out /tmp/try
      perigee run claypool-2021 --set rounds=10 --set flow.size="100 MB"
      perigee run ./my-study.toml --jobs 1
    """
    job = Job(
        study=find_study(study),
        engine=find_engine(engine),
        settings=settings or (),
        reduced=reduced,
        out=out,
        workers=jobs,
        fresh=fresh,
    )
    with progress.bar(error_console, job.study.path.parent.name) as watch:
        done = carry_out(job, watch)
    if done.resumed == done.runs:
        text = f"all {done.runs} runs are there already (--fresh begins anew)"
    elif done.resumed:
        text = f"{done.runs} runs, {done.resumed} of them from before"
    else:
        text = f"{done.runs} runs"
    error_console.print(f"{text}; next: perigee report {shlex.quote(str(done.folder))}", highlight=False, soft_wrap=True)
    out_console.print(str(done.folder), highlight=False, soft_wrap=True, markup=False)


def _as_interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _say_error(text: str) -> None:
    error_console.print(f"[bold red]error:[/bold red] {escape(text)}", highlight=False, soft_wrap=True)


def _say_how_to_resume() -> None:
    command = shlex.join(["perigee", *sys.argv[1:]])
    error_console.print(f"resume with: {escape(command)}", highlight=False, soft_wrap=True)


