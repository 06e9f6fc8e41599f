# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perigee.console import result, say
from perigee.errors import MissingPackagesError


def command(
    site: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the site; an existing site is replaced.")],
    folder: Annotated[
        Path, typer.Option("--from", metavar="FOLDER", help="Working folder, with results/ and studies/.")
    ] = Path(),
    title: Annotated[str, typer.Option(metavar="TEXT", help="Headline of the first page.")] = "Results",
    about: Annotated[str, typer.Option(metavar="TEXT", help="Text below the headline.")] = "",
) -> None:
    """Write the results of a working folder as a static site.

    The site is the page of `perigee serve` with data files beside it: results with their findings, reports, tables,
    figures and captures, graphs over time, tags and notes, studies, links, algorithms and their standing (`perigee cc
    standing`); lessons and Try where the simulator is built. It opens from the folder (index.html) or from any web
    server. Left out are incomplete results, the queue, comparisons, and of results with very many runs the graphs of
    the last rounds. Results without a report have their tables and graphs.

    [bold]Examples[/bold]

      perigee publish site                     results/ of this folder; then open site/index.html
      perigee publish public --from /srv/lab --title "Congestion control over satellites"
    """
    try:
        from perigee.laboratory.publish import publish
    except ModuleNotFoundError as error:
        raise MissingPackagesError("the site", error, "serve") from error

    done = publish(folder, site, title=title, about=about)
    for names, why in (
        (done.left_out, "not complete, left out"),
        (done.without_report, "without a report; make it with perigee report"),
    ):
        if names:
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            say(f"{why}: {shown}")
    result(str(site / "index.html"))
