# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee serve`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from perigee.console import result, say
from perigee.errors import InputError, MissingPackagesError
from perigee.files import MIB, read_bounded


@dataclass(frozen=True)
class ServeOptions:
    """Options and arguments of `perigee serve`."""

    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Working folder, with results/ and studies/.")] = (
        Path()
    )
    bind: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on. Any but loopback needs TLS.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, typer.Option("--port", "-p", metavar="N", min=1, max=65535, help="TCP port.")] = 8700
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="Host name by which browsers reach it; may be given several times."),
    ] = None
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TLS certificate with its chain, in PEM.")
    ] = None
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Key of the TLS certificate, in PEM.")] = None
    agents: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS:PORT", help="Address to listen on for agents, which run live studies."),
    ] = None
    look_token: Annotated[bool, typer.Option("--look-token", help="Also print a second, view-only link.")] = False
    add_links: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Only make a personal link for each name of a file, one a line, and print them."
        ),
    ] = None
    remove_link: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only take back the personal link of a name; may be given several times."),
    ] = None
    quota: Annotated[
        int, typer.Option(metavar="N", min=1, help="Entries that each of them may have in the queue at once.")
    ] = 5


def command(given: ServeOptions) -> None:
    """Serve the web page that runs studies: queue, results, links and algorithms.

    Queued studies run without an open browser, and resume after the server was stopped or killed. Results are folders
    as those of `perigee run`. Anyone with the printed link can run studies; `--look-token` prints a second, view-only
    link. Other users have personal links with a name and a quota (--add-links); their entries take turns. What is tried
    out in the page is simulated there. Studies from the page cannot name files or C code of this machine.

    [bold]Examples[/bold]

      perigee serve                                   this folder, at http://127.0.0.1:8700/
      perigee serve /srv/lab --port 8080
      perigee serve /srv/lab --add-links class.txt --quota 3
      perigee serve /srv/lab --remove-link ada
      perigee serve /srv/lab --agents 0.0.0.0:8701    agents of `perigee agent invite` may connect
      perigee serve /srv/lab --bind 0.0.0.0 --name lab.example.org --certificate lab.pem --key lab.key
    """
    try:
        from perigee.agents.certificates import endpoint
        from perigee.laboratory import server
        from perigee.laboratory.page import simulates
        from perigee.laboratory.place import Place
        from perigee.laboratory.scheduler import served_at
    except ModuleNotFoundError as error:
        raise MissingPackagesError("the web page", error, "serve") from error

    if (given.certificate is None) != (given.key is None):
        raise InputError("--certificate and --key: give both or neither")
    address = server.Address(given.bind, given.port, tuple(given.name or ()), given.certificate, given.key)
    if given.add_links is not None:
        names = read_bounded(given.add_links, MIB, "a list of names").decode(errors="replace").split()
        url = served_at(Place(given.folder.resolve()))
        if not url:
            say(
                f"note: no server runs on this folder; the links are to {address.url}, --port, --bind and --name set it"
            )
        for name, link in server.add_links(given.folder, names, given.quota, url or address.url).items():
            result(f"{name} {link}")
        return
    if given.remove_link:
        server.remove_links(given.folder, given.remove_link)
        result(f"{', '.join(given.remove_link)}: the personal link opens nothing any more, and its sessions are over")
        return
    at = endpoint("--agents", given.agents) if given.agents is not None else None

    def begun(links: dict[str, str]) -> None:
        result(links["run"])
        if given.look_token:
            result(f"view only: {links['look']}")
        say("Ctrl-C stops the server; running studies are kept and resume at the next start")

    if not simulates():
        say("note: lessons and Try are not in the page; make web compiles the simulator for it")
    if os.geteuid() != 0:
        say("note: without root, entries with the engine emu fail")
    server.serve(given.folder, address, begun, at)
