# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The commands `perigee agent`: an agent of a laboratory, and the file that makes a host one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perigee.commands.application import Application
from perigee.console import result, say

app = Application(
    help="Agents of a laboratory: other hosts that carry flows of live studies.\n"
    """
[bold]Examples[/bold]

  perigee agent invite moon --controller lab.example.org:8701      on the host of `perigee serve`
  perigee agent run moon.agent                                     on the host moon
"""
)


@app.command("invite")
def invite(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the agent is called.")],
    controller: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where its host reaches the laboratory (serve --agents).")
    ],
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="The working folder of the laboratory.")] = Path(),
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The file. \\[default: NAME.agent]")
    ] = None,
) -> None:
    """Make the file with which a host becomes an agent of this laboratory.

    It holds the key of the agent, so copy it to that host by a way that nobody reads (scp), and remove it here. An
    agent is refused once its certificate laboratory/agents/NAME.pem is removed, or when its name is invited again.

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
    say(f"copy it to its host, remove it here, and start there: perigee agent run {target.name}")


@app.command("run")
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `perigee agent invite` made.")],
) -> None:
    """Be an agent of a laboratory until Ctrl-C or SIGTERM.

    It connects to the laboratory and offers the host's interfaces, congestion controls and iperf3 to live studies. When
    the connection ends, it ends what it has started, and connects again. Only captures need root, or CAP_NET_RAW.

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
