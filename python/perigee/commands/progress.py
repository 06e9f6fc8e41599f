# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The progress of a long command: a bar with the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from perigee.engines.run.crew import Watch

LINE_EVERY_S = 15.0
TIMED_LINE_EVERY_S = 600.0
"""Interval of lines for a study with a schedule, which may take days."""
FEW_RUNS = 5
"""Runs after which their speed says something about the others', unless ten times as many are all."""

Outlook = tuple[str, float | None]


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
        yield _Lines(console, title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[count]} runs"),
        TimeElapsedColumn(),
        TextColumn("left"),
        _Left(),
    )
    with Progress(*columns, console=console, expand=True, transient=True) as shown:
        task = shown.add_task(title, total=None, count="", left=None)

        def watch(done: float, total: int, /, outlook: Outlook | None = None) -> None:
            said = f"{title}: {outlook[0]}" if outlook and outlook[0] else title
            left = None if outlook is None else duration(outlook[1])
            shown.update(task, completed=done, total=total, count=f"{int(done)}/{total}", description=said, left=left)

        yield watch


@contextlib.contextmanager
def share(console: Console, title: str) -> Iterator[Callable[[float], None]]:
    """Show the progress of one long piece of work while the block runs.

    Yields:
        A function to call with the share done, 0 to 1.
    """
    if not console.is_terminal:
        yield _Lines(console, title).share
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, expand=True, transient=True) as shown:
        task = shown.add_task(title, total=1.0)
        yield lambda done: shown.update(task, completed=done)


class _Left(TimeRemainingColumn):
    """The time left: by the plan, or else by the speed so far."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        left = task.fields["left"]
        return super().render(task) if left is None else Text(left, style="progress.remaining")


class _Lines:
    """Prints progress as lines, where the output is not a terminal."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._begun = self._last = time.monotonic()
        self._said = ""

    def share(self, done: float) -> None:
        """Print the progress of one piece of work."""
        now = time.monotonic()
        if now - self._last >= LINE_EVERY_S and 0 < done < 1:
            left = (now - self._begun) / done * (1 - done)
            self._say(f"{done:.0%}, about {left:.0f} s left", now)

    def __call__(self, done: float, total: int, /, outlook: Outlook | None = None) -> None:
        now = time.monotonic()
        if outlook is None:
            if now - self._last >= LINE_EVERY_S and 0 < done < total:
                parts = [f"{int(done)} of {total} runs"]
                if done >= min(FEW_RUNS, total / 10):
                    parts.append(f"about {(now - self._begun) / done * (total - done):.0f} s left")
                self._say(", ".join(parts), now)
            return
        said, left_s = outlook
        is_news = bool(said) and said != self._said and now - self._last >= LINE_EVERY_S
        if done < total and (is_news or now - self._last >= TIMED_LINE_EVERY_S):
            self._said = said
            self._say(", ".join(filter(None, [f"{int(done)} of {total} runs", said, f"{duration(left_s)} left"])), now)

    def _say(self, text: str, now: float) -> None:
        self._last = now
        self._console.print(f"{self._title}: {text}", highlight=False)


def duration(seconds: float | None) -> str:
    """Return remaining time as text.

    Examples:
        >>> duration(42.4), duration(3 * 3600 + 125), duration(None)
        ('0:00:42', '3:02:05', 'unknown time')
    """
    if seconds is None:
        return "unknown time"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
