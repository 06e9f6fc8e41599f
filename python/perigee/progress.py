# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The progress of a long command: a bar with the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_EVERY_S = 15.0

Watch = Callable[[float, int], None]


@contextlib.contextmanager
def bar(console: Console, title: str) -> Iterator[Watch]:
    """Show progress while the block runs.

    Args:
        console: where to show it.
        title: what is going on.

    Yields:
        A function to call with the runs done so far (parts count) and all runs.
    """
    if not console.is_terminal:
        yield _lines(console, title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[count]} runs"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, expand=True, transient=True) as shown:
        task = shown.add_task(title, total=None, count="")

        def watch(done: float, total: int) -> None:
            shown.update(task, completed=done, total=total, count=f"{int(done)}/{total}")

        yield watch


def _lines(console: Console, title: str) -> Watch:
    begun = last = time.monotonic()

    def watch(done: float, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_EVERY_S and 0 < done < total:
            last = now
            left = (now - begun) / done * (total - done)
            console.print(f"{title}: {int(done)} of {total} runs, about {left:.0f} s left", highlight=False)

    return watch
