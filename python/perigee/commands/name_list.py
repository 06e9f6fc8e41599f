# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The table of studies or profiles that can be used by name, with their titles and folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.console import out_console, result

HERE, SHIPPED = "here", "perigee"
"""Words for a folder below the working directory, and for that of the installed package."""


def show_names(found: Mapping[str, Path], title: Callable[[str], str]) -> None:
    """Print names with their titles, and below them where their files are.

    Args:
        found: the file of each name.
        title: returns the title of a name.
    """
    files = {name: _pattern(path, name) for name, path in sorted(found.items())}
    words = {pattern: SHIPPED if Path(pattern).is_absolute() else HERE for pattern in files.values()}
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Name", no_wrap=True)
    table.add_column("What it is")
    if len(words) > 1:
        table.add_column("Where", no_wrap=True)
    for name, pattern in files.items():
        table.add_row(name, escape(title(name)), *([words[pattern]] if len(words) > 1 else []))
    out_console.print(table)
    for pattern, word in words.items():
        result(f"{word if len(words) > 1 else 'files'}: {pattern}")


def _pattern(path: Path, name: str) -> str:
    """Return the path of a file with NAME for its name.

    Examples:
        >>> _pattern(Path("studies/mine/study.toml"), "mine"), _pattern(Path("/p/profiles/geo.toml"), "geo")
        ('studies/NAME/study.toml', '/p/profiles/NAME.toml')
    """
    *folders, last = path.parts
    if path.stem == name:
        return str(Path(*folders, f"NAME{path.suffix}"))
    return str(Path(*(*folders[:-1], "NAME", last)))
