# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The commands `perigee agent`: an agent of a laboratory, and the file that makes a host one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perigee.commands.application import Application
from perigee.console import result, say

app = Application(
    help="Agents of a laboratory: other hosts that run flows of live studies.\n"
    """
[bold]Examples[/bold]

  perigee agent invite moon --controller lab.example.org:8701      on the host of `perigee serve`
  perigee agent run moon.agent                                     on the host moon
"""
)


@app.command("invite")
def invite(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the agent.")],
    controller: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Address of the laboratory as seen from the agent (serve --agents)."),
    ],
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Working folder of the laboratory.")] = Path(),
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write. \\[default: NAME.agent]")
    ] = None,
) -> None:
    """Write the credentials file by which a host becomes an agent of this laboratory.

    The file holds the agent's private key: copy it to the agent over a secure channel (scp), and remove it here. To
    revoke an agent, remove its certificate laboratory/agents/NAME.pem, or invite its name again.

    [bold]Example[/bold]

      perigee agent invite moon --controller lab.example.org:8701
    """
    from perigee.agents.certificates import Authority
    from perigee.laboratory.place import Place

    place = Place(folder.resolve())
    target = out or Path(f"{name}.agent")
    place.make()
    Authority(place.agents).invite(name, controller, target)
    result(str(target))
    say(f"next: copy it to its host, remove it here, and run there: perigee agent run {target.name}")


@app.command("run")
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File written by `perigee agent invite`.")],
) -> None:
    """Run as an agent of a laboratory until Ctrl-C or SIGTERM.

    Connects to the laboratory and offers the host's interfaces, congestion controls and iperf3 to live studies. If the
    connection ends, it stops its jobs and reconnects. Only captures need root or CAP_NET_RAW.

    [bold]Example[/bold]

      perigee agent run moon.agent
    """
    import asyncio
    import logging

    from perigee.agents.agent import Agent
    from perigee.agents.certificates import Identity

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    identity = Identity.read(file)
    host, port = identity.controller
    agent = Agent(identity, lambda: say(f"agent {identity.name} is connected to {host}, port {port}"))
    asyncio.run(agent.run())
