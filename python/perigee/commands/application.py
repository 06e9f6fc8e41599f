# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The typer application of all commands: our own form of help, and `-h` as well as `--help`."""

from __future__ import annotations

import contextlib
import inspect
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from inspect import Parameter
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from perigee.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from perigee.commands.tree import Command


class _Helpful:
    """Help by `help_text`; typer's own breaks examples and shows Python types."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(_rendered(self, ctx))

    def get_usage(self, ctx: Any) -> str:
        """Return the form of the command, as help and errors show it."""
        return f"Usage: {_tree(self, ctx).usage}"


class HelpfulCommand(_Helpful, TyperCommand):
    """A command with help by `help_text`."""


@contextlib.contextmanager
def _stop_told() -> Iterator[None]:
    """End with a line what Ctrl-C stops; typer ends it without a word."""
    try:
        yield
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None


class HelpfulGroup(_Helpful, TyperGroup):
    """A group of commands with help by `help_text`."""

    gone: ClassVar[dict[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line; without any, print the help, of which typer then prints nothing."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            print(_rendered(self, ctx), end="")
            raise typer.Exit(EXIT_BAD_INPUT)
        return super().parse_args(ctx, args)

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Read the command line."""
        with _stop_told():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Carry out the command."""
        with _stop_told():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first word; of one that is gone, or whose option is, say what there is instead."""
        for words, instead in self.gone.items():
            first, *others = words.split()
            if args[0] == first and set(others) <= {one.partition("=")[0] for one in args}:
                ctx.fail(f"`{ctx.command_path} {words}` is gone: {instead}")
        return super().resolve_command(ctx, args)


class ImplyingGroup(HelpfulGroup):
    """A group that takes a word that is none of its commands as the first one of the command it implies."""

    implied: str

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first word, or the implied one where no command is meant."""
        word = args[0]
        # With one command, a word that is like its name may be a name that a user chose.
        mistyped = len(self.commands) > 1 and get_close_matches(word, self.commands)
        if not word.startswith("-") and word not in self.commands and not mistyped:
            args = [self.implied, *args]
        return super().resolve_command(ctx, args)


class Application(typer.Typer):
    """A group of commands, all with help by `help_text`.

    Args:
        help: what it is, with examples.
        name: its name, where it is the root.
        lists: without a command it does what its command `list` does, instead of showing its help.
        implied: the command whose name may be left out; empty if none.
        gone: commands of earlier versions, or one with an option, and what to do instead.
    """

    def __init__(
        self,
        help: str,  # noqa: A002 - typer's name
        name: str | None = None,
        *,
        lists: bool = False,
        implied: str = "",
        gone: dict[str, str] | None = None,
    ) -> None:
        group = ImplyingGroup if implied else HelpfulGroup
        super().__init__(
            name=name,
            help=help,
            cls=type("Group", (group,), {"implied": implied, "gone": gone or {}}),
            no_args_is_help=not lists,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            add_completion=False,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        if lists:
            self.callback(invoke_without_command=True)(self._list_by_default)

    def _list_by_default(self, context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            next(one.callback for one in self.registered_commands if one.name == "list" and one.callback)()

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add a command, as typer does; a parameter that is a dataclass stands for one option or argument per field."""
        add = super().command(name, cls=HelpfulCommand, **settings)

        def decorated(command: Callable[..., None]) -> Callable[..., None]:
            add(_flat(command))
            return command

        return decorated


def _flat(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with a parameter for each field of the dataclasses among its parameters."""

    def flat(**given: Any) -> None:
        gathered = {
            name: kind(**{one.name: given.pop(one.name) for one in fields(kind)}) for name, kind in groups.items()
        }
        command(**given, **gathered)

    parameters = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {name: one.annotation for name, one in parameters.items() if is_dataclass(one.annotation)}
    flat.__doc__, flat.__name__ = command.__doc__, command.__name__
    flat.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            one.replace(kind=Parameter.KEYWORD_ONLY)
            for parameter in parameters.values()
            for one in (_fields(groups[parameter.name]) if parameter.name in groups else (parameter,))
        ]
    )
    return flat


def _fields(group: Any) -> Iterator[Parameter]:
    """Yield the fields of a dataclass as parameters."""
    kinds = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = Parameter.empty if field.default is MISSING else field.default
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=kinds[field.name])


def _rendered(command: Any, context: Any) -> str:
    from perigee.commands.help_text import WIDEST, help_text

    return help_text(_tree(command, context), shutil.get_terminal_size((WIDEST, 24)).columns).shown()


def _tree(command: Any, context: Any) -> Command:
    from perigee.commands.tree import tree

    return tree(command, ("perigee", *str(context.command_path).split()[1:]))
