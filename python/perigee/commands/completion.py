# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee completion`: scripts by which shells complete the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from perigee.commands.values import SHELLS
from perigee.console import result, say
from perigee.errors import InputError
from perigee.files import storage_errors, write_atomically
from perigee.names import suggestion

SCRIPTS = Path(__file__).resolve().parent.parent / "data" / "completion"
FILES = {"bash": "perigee.bash", "zsh": "_perigee", "fish": "perigee.fish"}


def command(
    shell: Annotated[
        str | None, typer.Argument(metavar="SHELL", help="bash, zsh or fish. \\[default: that of $SHELL]")
    ] = None,
    install: Annotated[
        bool, typer.Option("--install", help="Install it in your home folder, where the shell finds it.")
    ] = False,
) -> None:
    """Print the script that completes commands, options, names and files in your shell.

    With --install, new shells load it by themselves. Names of studies, profiles and congestion controls are looked up
    at each completion; after the name of a study, --set, --vary and --also complete its key paths and their values.

    [bold]Examples[/bold]

      perigee completion --install                  for your shell, from the next one on
      source <(perigee completion bash)             in this shell only
      perigee completion fish --install
    """
    chosen = shell or Path(os.environ.get("SHELL", "")).name
    if chosen not in SHELLS:
        what = f"{chosen}: completion is not available for this shell" if shell else "SHELL names no known shell"
        raise InputError(what, suggestion(chosen, SHELLS))
    script = (SCRIPTS / FILES[chosen]).read_text(encoding="utf-8")
    if not install:
        print(script, end="")
        return
    target = place(chosen) / {"bash": "perigee"}.get(chosen, FILES[chosen])
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, script.encode())
    say(NEXT[chosen].format(folder=target.parent))
    result(str(target))


def place(shell: str) -> Path:
    """Return the folder of the user from which a shell reads completions.

    Args:
        shell: one of `SHELLS`.
    """
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    configuration = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        "bash": Path(os.environ.get("BASH_COMPLETION_USER_DIR") or data / "bash-completion") / "completions",
        "zsh": data / "zsh/site-functions",
        "fish": configuration / "fish/completions",
    }[shell]


NEXT = {
    "bash": "bash reads it in new shells, where the package bash-completion is installed",
    "zsh": "zsh reads it in new shells with this line in ~/.zshrc, before compinit:\n  fpath=({folder} $fpath)",
    "fish": "fish reads it in new shells",
}
"""Next step of the user."""
