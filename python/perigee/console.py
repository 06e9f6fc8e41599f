# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The two streams of the command line."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.markup import escape

WIDTH_OF_A_FILE = 140

# Where nobody looks, long lines are better than tables folded to 80 columns.
out_console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE)
error_console = Console(stderr=True)


def say(text: str) -> None:
    """Print a line that is not the command's result; what is a `warning:` begins in red."""
    begins, colon, rest = text.partition("warning:")
    if colon and not begins:
        warn("warning", rest.removeprefix(" "))
    else:
        error_console.print(escape(text), highlight=False, soft_wrap=True)


def warn(head: str, text: str) -> None:
    """Print a line that is not the command's result, and begins with a word in red."""
    error_console.print(f"[bold red]{head}:[/bold red] {escape(text)}", highlight=False, soft_wrap=True)


def result(text: str) -> None:
    """Print a line of the command's result."""
    out_console.print(text, highlight=False, soft_wrap=True, markup=False)
