# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The hidden command `perigee candidates`: completions for the scripts of `perigee completion`."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    words: Annotated[list[str] | None, typer.Argument(help="Words of the command line after the program.")] = None,
) -> None:
    """Print the completions of the last word, for the scripts of `perigee completion`."""
    from perigee.commands.line import command_line
    from perigee.commands.overview import COMMANDS
    from perigee.commands.tree import tree
    from perigee.commands.values import candidates

    asked = words or [""]
    # A command that is whole needs no other; the name of one may need them all.
    needed = (asked[0],) if len(asked) > 1 and asked[0] in COMMANDS else tuple(COMMANDS)
    print(candidates(tree(command_line(*needed)), asked).lines())
