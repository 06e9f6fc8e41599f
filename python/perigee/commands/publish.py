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

    The first page shows each result with the first figure of its report, its finding and its paper. The others are the
    read-only ones of `perigee serve`: results with their reports, tables, figures and captures, tags and notes,
    studies, links and algorithms. They open from the folder or from any web server. Incomplete results, the queue and
    graphs over time are left out. Results without a report have only their tables.

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
