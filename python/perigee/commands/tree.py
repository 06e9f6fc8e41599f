# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The tree of commands as data: the source of help, manual pages, reference and completion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any

DEFAULT = re.compile(r"\s*\[default: (?P<value>[^\]]*)\]$")
HEADINGS = ("Example", "Examples")


@dataclass(frozen=True)
class Parameter:
    """An option or an argument of a command.

    Attributes:
        names: of an option, short ones first; of an argument nothing.
        value: what it takes (`FILE`, `sim|emu|live`); empty for a switch.
        text: what it is for.
        default: what holds without it, in words; empty where nothing is said.
        required: it cannot be left out.
        repeated: it may be given several times.
        variable: environment variable that gives it too, or empty.
    """

    names: tuple[str, ...]
    value: str
    text: str
    default: str
    required: bool
    repeated: bool
    variable: str

    @property
    def usage(self) -> str:
        """Names and value as help shows them: `-o, --out FOLDER`."""
        names = ", ".join(self.names)
        return f"{names} {self.value}".strip()

    @property
    def sentence(self) -> str:
        """Its purpose, with its default and environment variable."""
        parts = [self.text]
        if self.variable:
            parts.append(f"[environment: {self.variable}]")
        if self.default:
            parts.append(f"[default: {self.default}]")
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Example:
    """A command line, and its effect or an empty text."""

    command: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command with its documentation.

    Attributes:
        path: its words: `("perigee", "cc", "load")`.
        summary: its first sentence.
        paragraphs: what follows, each in one line.
        examples: commands that can be given.
        closing: paragraphs after the examples.
        arguments: in their order.
        options: in the order of the help.
        commands: what is below it, in the order of the help.
        group: title of the commands among which the help lists it, where there are several.
        implied: the command below whose name may be left out, or empty.
    """

    path: tuple[str, ...]
    summary: str
    paragraphs: tuple[str, ...]
    examples: tuple[Example, ...]
    closing: tuple[str, ...]
    arguments: tuple[Parameter, ...]
    options: tuple[Parameter, ...]
    commands: tuple[Command, ...]
    group: str = ""
    implied: str = ""

    @property
    def name(self) -> str:
        """All its words: `perigee cc load`."""
        return " ".join(self.path)

    @property
    def usage(self) -> str:
        """Its form: `perigee cc load [OPTIONS] NAME|FILE`."""
        words = [self.name, "[OPTIONS]"]
        if self.commands:
            words.append("COMMAND")
        words += [one.value if one.required else f"[{one.value}]" for one in self.arguments]
        return " ".join(words)

    def all(self) -> Iterator[Command]:
        """This command and all below it."""
        yield self
        for command in self.commands:
            yield from command.all()


def tree(command: Any, path: tuple[str, ...] = ("perigee",)) -> Command:
    """Return the documentation of typer's command and of all commands below it that are not hidden.

    Args:
        command: what `typer.main.get_command` returns; its class is private to typer.
        path: the words that call it.
    """
    summary, paragraphs, examples, closing = described(command.help or "")
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    below = getattr(command, "commands", {})
    return Command(
        path=path,
        summary=summary,
        paragraphs=paragraphs,
        examples=examples,
        closing=closing,
        arguments=tuple(_parameter(one) for one in shown if one.param_type_name == "argument"),
        options=(*(_parameter(one) for one in shown if one.param_type_name == "option"), HELP),
        commands=tuple(tree(one, (*path, name)) for name, one in below.items() if not one.hidden),
        group=getattr(command, "rich_help_panel", None) or "",
        implied=getattr(command, "implied", ""),
    )


def described(text: str) -> tuple[str, tuple[str, ...], tuple[Example, ...], tuple[str, ...]]:
    r"""Split a docstring into its first sentence, paragraphs, examples, and closing paragraphs.

    Examples:
        >>> described("Do it.\n\nIn two\nlines.\n\n[bold]Example[/bold]\n\n  perigee do   at once\n\nCodes: 0")
        ('Do it.', ('In two lines.',), (Example(command='perigee do', text='at once'),), ('Codes: 0',))
    """
    blocks = [block for block in re.split(r"\n\s*\n", cleandoc(_plain(text))) if block.strip()]
    summary, *rest = [*blocks, ""][: max(len(blocks), 1)]
    before: list[str] = []
    after: list[str] = []
    examples: list[Example] = []
    for block in rest:
        if block.strip() in HEADINGS:
            continue
        if block.startswith("  "):
            examples += [_example(line) for line in block.splitlines()]
        else:
            (after if examples else before).append(_one_line(block))
    return _one_line(summary), tuple(before), tuple(examples), tuple(after)


def _plain(text: str) -> str:
    """Return a text without its markup."""
    if "[" not in text:
        return text
    # Slow to import, and most texts have none.
    from rich.markup import render

    return render(text).plain


def _example(line: str) -> Example:
    command, _, text = line.strip().partition("   ")
    return Example(command.strip(), text.strip())


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _parameter(one: Any) -> Parameter:
    names = tuple(sorted((*one.opts, *one.secondary_opts), key=len)) if one.param_type_name == "option" else ()
    text = _one_line(_plain(one.help or ""))
    found = DEFAULT.search(text)
    default = found["value"] if found else ""
    if found:
        text = text[: found.start()]
    elif one.default not in (None, "", False) and not getattr(one, "is_flag", False):
        default = str(one.default)
    return Parameter(
        names=names,
        value=_value(one),
        text=text,
        default=default,
        required=one.required,
        repeated=bool(getattr(one, "multiple", False)) or one.nargs == -1,
        variable=one.envvar or "",
    )


def _value(one: Any) -> str:
    if getattr(one, "is_flag", False):
        return ""
    return str(one.metavar or one.name.upper().replace("_", "-"))


def switch(*names: str, text: str) -> Parameter:
    """Return an option that takes no value."""
    return Parameter(names, "", text, "", False, False, "")


HELP = switch("-h", "--help", text="Show this text and end.")
"""Every command has it; typer adds it when a command is parsed."""
