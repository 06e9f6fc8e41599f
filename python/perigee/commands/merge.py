# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perigee.numbers import counted


def command(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Results folders of `perigee run --shard`.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the merged results. \\[default: results/STUDY]"),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace results in the folder.")] = False,
) -> None:
    """Merge the shards of a study that several machines or jobs ran.

    The tables are the same, value for value, as those of a single machine. All shards must come from the same study
    with the same settings and the same version; a run that is missing, or that differs between two shards, is an error.
    The shards are not changed, and can be removed afterwards.

    [bold]Examples[/bold]

      perigee run wu-2008 --shard 1/4           on the first of four machines
      perigee merge results/wu-2008-*-of-4      when all have finished
      perigee merge /shared/part-* --out results/wu-2008
    """
    from perigee.commands.run_notes import say_done
    from perigee.store.merging import merge

    done = merge(folders, out, fresh=fresh)
    text = "merged already (--fresh starts over)" if done.was_there else counted(done.runs, "run")
    say_done(text, done.folder)
