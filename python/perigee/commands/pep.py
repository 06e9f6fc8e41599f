# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee pep`: the proxy service, whose program is `perigee-pep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perigee.commands.application import Application
from perigee.engines.proxy import hand_over

app = Application(
    "The proxy that splits TCP connections, for satellite links. What is done is the program's, perigee-pep."
)

Configuration = Annotated[Path, typer.Argument(metavar="FILE", help="The service's configuration, in TOML.")]


@app.command()
def run(config: Configuration) -> None:
    """Run the service until SIGTERM, as root; SIGHUP has it read its configuration again.

    [bold]Example[/bold]

      perigee pep run pep.toml
    """
    hand_over("run", str(config))


@app.command()
def check(config: Configuration) -> None:
    """Read a configuration, and say what is wrong with it.

    [bold]Example[/bold]

      perigee pep check pep.toml
    """
    hand_over("check", str(config))


@app.command()
def rules(config: Configuration) -> None:
    """Print the firewall rules and routes of a configuration as a script. Nothing is changed.

    [bold]Example[/bold]

      perigee pep rules pep.toml
    """
    hand_over("rules", str(config))


@app.command()
def status(config: Configuration) -> None:
    """Print the state of the running service, which its control socket tells.

    [bold]Example[/bold]

      perigee pep status /etc/perigee/pep.toml
    """
    hand_over("status", str(config))
