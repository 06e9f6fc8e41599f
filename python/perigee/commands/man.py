# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee man`: writes manual pages from the help texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from perigee.commands.tree import Command, Parameter
from perigee.console import result
from perigee.files import storage_errors, write_atomically


def command(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the pages.")] = Path("man1"),
) -> None:
    """Write the manual pages: perigee.1, and one per command.

    [bold]Examples[/bold]

      perigee man --out ~/.local/share/man/man1
      man perigee-run
    """
    from perigee.commands.line import whole_tree
    from perigee.version import __version__

    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    for one in whole_tree().all():
        write_atomically(out / f"{page_name(one)}.1", page(one, __version__).encode())
    result(str(out))


def page_name(one: Command) -> str:
    """Return the name of a page, such as `perigee-cc-load`."""
    return "-".join(one.path)


def page(one: Command, version: str) -> str:
    """Return the manual page of a command, in the language of man(7)."""
    name = page_name(one)
    first, *others = one.usage.removeprefix(one.name).split() or [""]
    lines = [
        f'.TH {name.upper()} 1 "" "Perigee {version}" "Perigee"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(one.summary.removesuffix('.'))}",
        ".SH SYNOPSIS",
        f".B {escaped(one.name)}",
        escaped(" ".join((first, *others))),
        ".SH DESCRIPTION",
        *_paragraphs((one.summary, *one.paragraphs)),
        *_listed("COMMANDS", ((page_name(each) + "(1)", each.summary) for each in one.commands)),
        *_listed("ARGUMENTS", ((each.value, each.sentence) for each in one.arguments)),
        *_listed("OPTIONS", ((each.usage, _said(each)) for each in one.options)),
        *_examples(one),
        *([".SH NOTES", *_paragraphs(one.closing)] if one.closing else []),
        ".SH SEE ALSO",
        _see_also(one),
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Return text that means itself in man(7).

    Examples:
        >>> print(escaped(r"--set a='b\c'"), escaped(".5 ms"), escaped("'x'"))
        \-\-set a=\(aqb\ec\(aq \&.5 ms \(aqx\(aq
    """
    changed = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{changed}" if changed.startswith(".") else changed


def _paragraphs(texts: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number:
            yield ".PP"
        yield escaped(text)


def _listed(title: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    for number, (name, text) in enumerate(rows):
        if not number:
            yield f".SH {title}"
        yield ".TP"
        yield f".B {escaped(name)}"
        yield escaped(text) or "\\&"


def _said(one: Parameter) -> str:
    return f"{one.sentence} [required]" if one.required else one.sentence


def _examples(one: Command) -> Iterator[str]:
    if one.examples:
        yield ".SH EXAMPLES"
    for number, example in enumerate(one.examples):
        if example.text:
            yield from [".PP"] * bool(number)
            yield escaped(f"{example.text[0].upper()}{example.text[1:]}:")
        yield from [".PP"] * bool(number or example.text)
        yield from (".nf", ".RS", escaped(example.command), ".RE", ".fi")


def _see_also(one: Command) -> str:
    above = ["-".join(one.path[:-1])] if len(one.path) > 1 else []
    pages = [*above, *(page_name(each) for each in one.commands)]
    return escaped(", ".join(f"{name}(1)" for name in pages))
