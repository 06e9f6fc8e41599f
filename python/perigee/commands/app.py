# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee`. Errors are one line on the error stream; exit codes: 0 done, 1 the run failed, 2 bad input."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from perigee.commands.help_text import WIDEST, help_text
from perigee.commands.overview import COMMANDS, HIDDEN, overview
from perigee.errors import EXIT_BAD_INPUT, EXIT_RUN_FAILED, InterruptedRunError, PerigeeError, RootNeededError


def _needed(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that arguments ask for; what is misspelt asks for all.

    Examples:
        >>> _needed(["run", "gallery"]), _needed(["rum"]) == tuple(COMMANDS)
        (('run',), True)
    """
    first = arguments[0] if arguments else ""
    return (first,) if first in (*COMMANDS, *HIDDEN) else tuple(COMMANDS)


def carry_out(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code where it does not end the process itself."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The names of files come out as they went in, also where they are no UTF-8.
        sys.stdout.reconfigure(errors="surrogateescape")
    try:
        return _answered(arguments) if _is_simple(arguments) else _carried_out(arguments)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_RUN_FAILED


def _is_simple(arguments: Sequence[str]) -> bool:
    """Whether only the program's own help or version is asked for, which need no command."""
    return not arguments or list(arguments) in (["--help"], ["-h"], ["--version"])


def _answered(arguments: Sequence[str]) -> int:
    """Print the help or the version; return the exit code: without arguments, that of a command line that is wrong."""
    if list(arguments) == ["--version"]:
        from perigee.version import __version__

        print(f"perigee {__version__}", flush=True)
        return 0
    text = help_text(overview(), shutil.get_terminal_size((WIDEST, 24)).columns)
    print(text.shown(), end="", flush=True)
    return 0 if arguments else EXIT_BAD_INPUT


def _carried_out(arguments: Sequence[str]) -> int:
    """Run a command; return the exit code where it does not end the process itself."""
    from perigee.commands.line import command_line

    with contextlib.suppress(PerigeeError):
        # A part that cannot go on at the first signal ends at the second. Without the compiled module nothing hangs.
        from perigee.core import native

        native.end_at_second_signal()
    try:
        command_line(*_needed(arguments)).main(arguments, prog_name="perigee", standalone_mode=True)
    except PerigeeError as error:
        _say("[bold red]error:[/bold red] ", str(error))
        if isinstance(error, RootNeededError):
            _say_command("run it as", [*as_root(sys.argv[0], sys.executable), *arguments])
        if isinstance(error, InterruptedRunError):
            _say_command("resume with", ["perigee", *arguments])
        return error.exit_code
    return 0


def _say_command(what: str, words: Sequence[str]) -> None:
    _say(f"{what}: ", shlex.join(words))


def _say(begins: str, text: str) -> None:
    """Print a line on the error stream, whose beginning has markup."""
    from rich.markup import escape

    from perigee.console import error_console

    error_console.print(f"{begins}{escape(text)}", highlight=False, soft_wrap=True)


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
