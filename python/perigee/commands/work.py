# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The hidden command `perigee work`: the process that `perigee serve` starts for an entry of its queue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perigee.console import say


def command(
    folder: Annotated[Path, typer.Argument(help="Folder of the entry.")],
    start: Annotated[int, typer.Argument(help="The number of this start.")],
) -> None:
    """Execute an entry of a laboratory's queue, for `perigee serve`."""
    from perigee.laboratory.worker import work

    work(folder, start, say)
