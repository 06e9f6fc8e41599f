# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee serve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from perigee.console import result, say
from perigee.errors import InputError


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The working folder, with results/ and studies/.")
    ] = Path(),
    bind: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen. Others than this machine's own need TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", metavar="N", min=1, max=65535, help="TCP port.")] = 8700,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A name by which browsers reach it; may be given several times."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For TLS: the certificate and its chain, in PEM.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="For TLS: the certificate's key, in PEM.")] = None,
    agents: Annotated[
        str | None, typer.Option(metavar="ADDRESS:PORT", help="Where to listen for agents, which carry live studies.")
    ] = None,
    look_token: Annotated[
        bool, typer.Option("--look-token", help="Also say the address with a token for who may only look.")
    ] = False,
    add_user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only add a user, or change one; the password is asked for."),
    ] = None,
    role: Annotated[str, typer.Option(metavar="look|run", help="What that user may do.")] = "run",
) -> None:
    """Serve the web page that runs studies: a queue, results, links and algorithms, in a browser.

    Entries of the queue go on while no browser looks, and after the server was ended or killed. Results are the folders
    that `perigee run` makes. The address that is printed has a token in it: who has it may run studies. Other users
    have names and passwords (--add-user). Studies from the page may name no files and no C code of this machine.

    [bold]Examples[/bold]

      perigee serve                                   this folder, at http://127.0.0.1:8700/
      perigee serve /srv/lab --port 8080
      perigee serve /srv/lab --add-user ada --role look
      perigee serve /srv/lab --agents 0.0.0.0:8701    agents of `perigee agent invite` may connect
      perigee serve /srv/lab --bind 0.0.0.0 --name lab.example.org --certificate lab.pem --key lab.key
    """
    try:
        from perigee.agents.certificates import endpoint
        from perigee.laboratory import server
    except ModuleNotFoundError as error:
        raise InputError(f"the web page needs {error.name}; install it with pip install 'perigee[serve]'") from error

    if add_user is not None:
        server.add_user(folder, add_user, role, _password(add_user))
        result(f"{add_user} may {role}")
        return
    if (certificate is None) != (key is None):
        raise InputError("--certificate and --key: give both, or none")
    address = server.Address(bind, port, tuple(name or ()), certificate, key)
    at = endpoint("--agents", agents) if agents is not None else None

    def begun(links: dict[str, str]) -> None:
        result(links["run"])
        if look_token:
            result(f"to look only: {links['look']}")
        say("Ctrl-C ends it; what runs is kept and goes on when it is started again")

    if os.geteuid() != 0:
        say("note: without root, entries with the engine emu fail")
    server.serve(folder, address, begun, at)


def _password(name: str) -> str:
    return str(typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True))
