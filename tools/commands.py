#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes docs/reference/commands.md, a page of the site, from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perigee.commands.help_text import example_lines
from perigee.commands.line import whole_tree
from perigee.commands.tree import Command, Parameter

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "commands.md"
WIDTH = 110
HEAD = """\
# Commands

Every command with its arguments and options, as `perigee COMMAND --help` shows them. `perigee man` writes manual pages
with the same content, `perigee completion` completes it in a shell.

Quantities have units: times (`"200 ms"`), rates (`"20 Mbit/s"`), sizes (`"4 GiB"`).
"""


def reference(root: Command) -> str:
    """The whole page."""
    sections = [line for command in root.all() for line in section(command)]
    return "\n".join([HEAD, *sections]).rstrip() + "\n"


def section(command: Command) -> Iterator[str]:
    """A command's heading, form, description, and tables."""
    yield f"{'#' * (len(command.path) + 1)} {command.name}"
    yield from ("", f"`{command.usage}`", "", command.summary)
    for paragraph in command.paragraphs:
        yield from ("", paragraph)
    if command.examples:
        yield from ("", "```console", *example_lines(command.examples, WIDTH), "```")
    if command.commands:
        rows = [(f"[`{one.name}`](#{'-'.join(one.path)})", one.summary) for one in command.commands]
        yield from table("command", rows)
    if command.arguments:
        yield from table("argument", [(f"`{one.value}`", sentence(one)) for one in command.arguments])
    yield from table("option", [(f"`{one.usage}`", sentence(one)) for one in command.options])
    for paragraph in command.closing:
        yield from ("", paragraph)
    yield ""


def table(head: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    """A table of names and what they mean."""
    yield from ("", f"| {head} | |", "|---|---|")
    for name, text in rows:
        yield f"| {cell(name)} | {cell(text)} |"


def sentence(one: Parameter) -> str:
    """Return a sentence on a parameter: its purpose, whether it is needed, and its default."""
    needed = ["Required."] * (one.required and bool(one.names))
    named = [f"Environment: `{one.variable}`."] * bool(one.variable)
    default = [f"Default: {one.default}."] * bool(one.default)
    return " ".join([one.text, *needed, *named, *default])


def cell(text: str) -> str:
    """Text within a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(reference(whole_tree()), encoding="utf-8")
