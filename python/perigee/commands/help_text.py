# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The help of a command as text for a terminal, with examples that can be pasted at any width."""

from __future__ import annotations

import io
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from perigee.commands.tree import Command, Example, Parameter

WIDEST = 100
"""Longer lines are hard to read."""
LEFT_WIDTH = 26
"""Columns for the names of options and commands; longer ones have a line of their own."""


class Styled:
    """A text in styles, which are shown on a terminal only."""

    def __init__(self) -> None:
        self._pieces: list[tuple[str, str]] = []

    def append(self, text: str, style: str = "") -> Styled:
        """Add a piece in a style of rich; return this text."""
        self._pieces.append((text, style))
        return self

    @property
    def plain(self) -> str:
        """The text without styles, and without the empty line at its end."""
        return "".join(text for text, _ in self._pieces).removesuffix("\n")

    def shown(self) -> str:
        """Return the text as standard output shows it."""
        if not sys.stdout.isatty():
            return self.plain
        # Slow to import.
        from rich.console import Console
        from rich.text import Text

        from perigee.console import out_console

        buffer = io.StringIO()
        console = Console(file=buffer, width=1000, force_terminal=out_console.is_terminal, highlight=False)
        text = Text.assemble(*self._pieces)
        text.right_crop(1)
        console.print(text, soft_wrap=True, end="")
        return buffer.getvalue()


def help_text(command: Command, width: int) -> Styled:
    """Return the help of a command.

    Args:
        command: the command with its documentation.
        width: columns of the terminal.
    """
    width = max(min(width, WIDEST), 40)
    text = Styled()
    text.append("Usage: ", style="bold").append(f"{command.usage}\n\n")
    for paragraph in (command.summary, *command.paragraphs):
        text.append(f"{textwrap.fill(paragraph, width)}\n\n")
    if command.examples:
        text.append("Examples:\n", style="bold")
        for line in example_lines(command.examples, width - 2):
            text.append(f"  {line}\n", style="dim" if line.startswith("#") else "")
        text.append("\n")
    groups = groupby(command.commands, key=lambda one: one.group or "Commands")
    for title, rows in (
        *((title, [(one.path[-1], one.summary) for one in group]) for title, group in groups),
        ("Arguments", [(one.value, _said(one)) for one in command.arguments]),
        ("Options", [(_aligned(one), _said(one)) for one in command.options]),
    ):
        if rows:
            text.append(f"{title}:\n", style="bold")
            _append_rows(text, rows, width)
            text.append("\n")
    for paragraph in command.closing:
        text.append(f"{textwrap.fill(paragraph, width)}\n\n")
    return text


def example_lines(examples: Sequence[Example], width: int) -> list[str]:
    r"""Return examples as lines of a shell: explained beside the command where all fit, otherwise in a comment above.

    Examples:
        >>> long = Example("perigee run ./a.toml --set flow.size='1 MB' --out results/b", "")
        >>> print(*example_lines([Example("perigee run a", "all of it"), Example("perigee run b", "")], 40), sep="\n")
        perigee run a   all of it
        perigee run b
        >>> print(*example_lines([Example("perigee run a", "all of it"), long], 40), sep="\n")
        # all of it
        perigee run a
        perigee run ./a.toml \
            --set flow.size='1 MB' \
            --out results/b
    """
    longest = max(len(one.command) for one in examples)
    if all(len(one.command) <= width and longest + 3 + len(one.text) <= width for one in examples if one.text) and all(
        len(one.command) <= width for one in examples
    ):
        return [f"{one.command:{longest}}   {one.text}".rstrip() for one in examples]
    lines = []
    for one in examples:
        if one.text:
            lines += [f"# {line}" for line in textwrap.wrap(one.text, width - 2)]
        lines += _broken(one.command, width)
    return lines


def _broken(command: str, width: int) -> Iterator[str]:
    r"""Yield a command in lines that continue each other (`\`): before options, and otherwise between words."""
    if len(command) <= width:
        yield command
        return
    pieces = re.findall(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", command)
    line, indent = "", ""
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=True):
        # An option and its value stay together.
        room = len(piece) + (1 + len(following) if piece.startswith("-") and not following.startswith("-") else 0)
        if line.strip() and len(line) + 1 + room > width - 2:
            yield f"{line} \\"
            indent = "    "
            line = f"{indent}{piece}"
        else:
            line = f"{line} {piece}" if line else piece
    yield line


def _said(one: Parameter) -> str:
    several = "May be given several times." if one.repeated and one.names and "several" not in one.text else ""
    return " ".join(part for part in (one.text, several, _facts(one)) if part)


def _facts(one: Parameter) -> str:
    facts = [f"environment: {one.variable}"] * bool(one.variable) + [f"default: {one.default}"] * bool(one.default)
    facts += ["required"] * (one.required and bool(one.names))
    return f"[{'; '.join(facts)}]" if facts else ""


def _aligned(one: Parameter) -> str:
    """Return an option whose long name stands where those with a short name have theirs."""
    return one.usage if len(one.names[0]) == 2 else f"    {one.usage}"


def _append_rows(text: Styled, rows: Sequence[tuple[str, str]], width: int) -> None:
    left = min(max(len(name) for name, _ in rows), LEFT_WIDTH)
    for name, said in rows:
        lines = textwrap.wrap(said, width - left - 4) or [""]
        text.append("  ").append(name, style="cyan")
        if len(name) > left:
            text.append("\n")
            text.append(" " * (left + 4))
        else:
            text.append(" " * (left + 2 - len(name)))
        text.append(f"{lines[0]}\n")
        for line in lines[1:]:
            text.append(f"{' ' * (left + 4)}{line}\n")
