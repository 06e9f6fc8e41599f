# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee doctor`: checks the host for what perigee can use."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from perigee.console import out_console, result, say
from perigee.errors import EXIT_RUN_FAILED

if TYPE_CHECKING:
    from perigee.engines.host.buffers import LinkSize
    from perigee.engines.host.checks import Check


def command(
    link: Annotated[
        str | None,
        typer.Option(
            "--link",
            "-l",
            metavar="PROFILE",
            help="Also compare the socket buffers with the bandwidth-delay product of this link.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: a list of objects.")] = False,
) -> None:
    """Check what this host has, what is missing for which command, and print fixes, without changing anything.

    The exit code is 0 if simulated runs have all they need, otherwise 1: the other checks are for commands that load
    congestion controls into the kernel, emulate links, or measure between hosts.

    [bold]Examples[/bold]

      perigee doctor
      perigee doctor --link geo      also whether tcp_rmem and tcp_wmem suffice for it
      perigee doctor --json
    """
    from perigee.engines.host.checks import checks

    found = [*checks(_size_of(link) if link else None), *parts()]
    show(found, as_json=as_json)
    lacking = [one.name for one in found if one.for_simulator and not one.ok]
    if lacking:
        say(f"missing for simulated runs: {', '.join(lacking)}")
        raise typer.Exit(EXIT_RUN_FAILED)


def show(found: Sequence[Check], *, as_json: bool) -> None:
    """Print checks, each with its fix where something is missing."""
    from perigee.engines.host.checks import as_data

    if as_json:
        result(json.dumps(as_data(found), indent=2))
    else:
        width = max(len(one.name) for one in found)
        for one in found:
            mark = "[green]ok     [/green]" if one.ok else "[bold red]missing[/bold red]"
            out_console.print(f"{mark}  {one.name:{width}}  {escape(one.found)}", highlight=False, soft_wrap=True)
            if not one.ok:
                result(f"{'':{width + 11}}needed for {one.needed_for}; {one.fix}")


def parts() -> Iterator[Check]:
    """Check the parts of Perigee that are not installed or built everywhere, and name what does that."""
    from perigee.engines.host.checks import Check
    from perigee.errors import EXTRAS
    from perigee.laboratory.page import simulates

    lacking = [package for package in EXTRAS["serve"] if not _is_installed(package)]
    found = f"{', '.join(lacking)} not installed" if lacking else f"{', '.join(EXTRAS['serve'])} installed"
    yield Check("web page", not lacking, found, "perigee serve", f"pip install {' '.join(lacking)}" if lacking else "")
    has = simulates()
    said, fix = ("in the page", "") if has else ("not built", "in a checkout: make web")
    yield Check("browser tab", has, said, "lessons and Try of the page", fix)


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _size_of(link: str) -> LinkSize:
    from perigee.engines.links.emulation import link_size
    from perigee.places import find_profile

    profile = find_profile(link)
    return link_size(profile, profile)
