# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee`. Errors are one line on the error stream; exit codes: 0 done, 1 the run failed, 2 bad input."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from perigee.commands.application import Application
from perigee.commands.tree import Command, tree
from perigee.console import error_console, out_console
from perigee.errors import EXIT_RUN_FAILED, InterruptedRunError, PerigeeError, RootNeededError

EXAMPLES = """
[bold]Examples[/bold]

  perigee studies                           the available studies
  perigee run claypool-2021                 the whole study, on all cores
  perigee report results/claypool-2021      its tables and figures as one page
  perigee compare results/a results/b       the same study on two versions
  perigee merge shard-1 shard-2 --out all   a study that several machines carried out
  perigee hosts                             the systems whose TCP hosts can have
  perigee cc list                           the available congestion controls
  perigee cc load hybla                     one of them, into this kernel
  perigee analyze download.pcapng           what a capture shows
  perigee ping example.org --log base.csv   round trip and loss of a real path
  perigee rrul example.org                  latency under load of a real path
  perigee probe example.org --find          what a real path carries
  perigee fit --ping base.csv -o my.toml    a link profile out of both
  perigee exec --link geo -- curl ...       any program behind that link
  perigee pep check pep.toml                a configuration of the proxy
  perigee serve                             all of this as a web page
  perigee publish site                      results as pages without a server
  perigee agent run moon.agent              a host that carries flows for it

Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 130 interrupted (resumable).
"""

COMMANDS = (
    "run", "report", "compare", "sweep", "merge", "studies", "profiles", "hosts", "orbit", "new", "cc", "analyze",
    "ping", "rrul", "probe", "fit", "exec", "emu", "pep", "serve", "publish", "agent", "doctor", "completion", "man",
)  # fmt: skip
"""In the order of the help. Each is a module of this package, with a function `command`, or `app` where it has commands
of its own."""
HIDDEN = ("candidates", "work")
"""Likewise, for programs: in no help."""


def command_line(*names: str) -> Any:
    """Return the command line with some of its commands: others need not be imported to carry one out.

    Its class is private to typer.
    """
    app = Application(name="perigee", help="Predict and measure how TCP behaves over satellite links.\n" + EXAMPLES)
    app.callback(invoke_without_command=True)(_root)
    for name in names:
        module = importlib.import_module(f"perigee.commands.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name, hidden=name in HIDDEN)(module.command)
    group = typer.main.get_command(app)
    # Typer puts commands with others below them last.
    group.commands = {name: group.commands[name] for name in names}  # type: ignore[attr-defined]
    return group


def whole_tree() -> Command:
    """Return all commands as data."""
    return tree(command_line(*COMMANDS))


def _needed(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that arguments ask for; the help and what is misspelt ask for all.

    Examples:
        >>> _needed(["run", "gallery"]), _needed(["--version"]), _needed(["--help"]) == COMMANDS
        (('run',), (), True)
    """
    first = arguments[0] if arguments else ""
    if first == "--version":
        return ()
    return (first,) if first in (*COMMANDS, *HIDDEN) else COMMANDS


def carry_out(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code where it does not end the process itself."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The names of files come out as they went in, also where they are no UTF-8.
        sys.stdout.reconfigure(errors="surrogateescape")
    with contextlib.suppress(PerigeeError):
        # What cannot go on at the first signal ends at the second. Without the compiled module nothing hangs.
        from perigee.core import native

        native.end_at_second_signal()
    try:
        command_line(*_needed(arguments)).main(arguments, prog_name="perigee", standalone_mode=True)
    except PerigeeError as error:
        error_console.print(f"[bold red]error:[/bold red] {escape(str(error))}", highlight=False, soft_wrap=True)
        if isinstance(error, RootNeededError):
            _say_command("run it as", [*as_root(sys.argv[0], sys.executable), *arguments])
        if isinstance(error, InterruptedRunError):
            _say_command("resume with", ["perigee", *arguments])
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_RUN_FAILED
    return 0


def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """Options of the command `perigee` itself."""
    if version:
        from perigee import __version__

        out_console.print(f"perigee {__version__}", highlight=False)
        raise typer.Exit


def _say_command(what: str, words: Sequence[str]) -> None:
    error_console.print(f"{what}: {escape(shlex.join(words))}", highlight=False, soft_wrap=True)


def as_root(program: str, python: str) -> list[str]:
    """Return the words that start this program as root: by its full path, since sudo resets PATH.

    Args:
        program: how this program was started.
        python: what runs it.

    Examples:
        >>> as_root("/home/a/.venv/bin/perigee", "/home/a/.venv/bin/python")
        ['sudo', '/home/a/.venv/bin/perigee']
        >>> as_root("/home/a/perigee/__main__.py", "/home/a/.venv/bin/python")
        ['sudo', '/home/a/.venv/bin/python', '-m', 'perigee']
    """
    if Path(program).suffix == ".py":
        return ["sudo", python, "-m", "perigee"]
    return ["sudo", str(Path(program).absolute())]
