# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Links and flows of a plan in words, as a report has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.console import out_console, result


def show_setup(setup: Mapping[str, Any], kinds: Sequence[str]) -> None:
    """Print the properties of each link or flow: two side by side, more of them below each other.

    Args:
        setup: of a plan.
        kinds: which of its lists, such as `links`.
    """
    for kind in kinds:
        entries = setup.get(kind, ())
        if len(entries) == 2:
            _side_by_side(kind, entries)
            continue
        result(f"\n{kind}:")
        for entry in entries:
            words = "; ".join(value if name == "way" else f"{name} {value}" for name, value in entry["properties"])
            out_console.print(f"  [bold]{escape(entry['name'])}[/bold]: {escape(words)}", highlight=False)


def _side_by_side(kind: str, entries: Sequence[Mapping[str, Any]]) -> None:
    rows = dict.fromkeys(name for entry in entries for name, _ in entry["properties"])
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(kind.capitalize())
    for entry in entries:
        table.add_column(escape(entry["name"]))
    for row in rows:
        cells = (dict(entry["properties"]).get(row, "") for entry in entries)
        table.add_row(row, *(escape(str(cell)) for cell in cells))
    out_console.print(table)
