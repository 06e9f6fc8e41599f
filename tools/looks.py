#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes the table of looks, `algorithms/looks.toml`, into the style sheet of all pages and the page's modules.

`looks.py` writes; `looks.py --check` prints what is not as the table has it, and exits with 1 if there is anything.
Change the table, call this, and look at a report and at the page in light and dark.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "algorithms" / "looks.toml"
SHEET = ROOT / "python" / "perigee" / "data" / "look.css"
MODULE = ROOT / "web" / "src" / "looks_table.js"

_PART = re.compile(r"(/\* Written by tools/looks\.py: (\w+)\. \*/\n).*?([ \t]*/\* End\. \*/)", re.DOTALL)


def parts(table: dict[str, Any]) -> dict[str, str]:
    """Return the parts of the style sheet by name: variables on a light and on a dark ground, classes."""
    rows = [*table["algorithms"], table["own"], *table["others"]]
    found = {}
    for ground, indent in (("light", "  "), ("dark", "    ")):
        inks = " ".join(f"--{name}: {colours[ground]};" for name, colours in table["inks"].items())
        looks = [f"--c{number}: {row[ground]};" for number, row in enumerate(rows)]
        lines = [inks, *(" ".join(looks[at : at + 8]) for at in range(0, len(looks), 8))]
        found[ground] = "".join(f"{indent}{line}\n" for line in lines)
    classes = [f".is-{number} {{ --colour: var(--c{number}); }}" for number in range(len(rows))]
    found["classes"] = "".join(f"{' '.join(classes[at : at + 4])}\n" for at in range(0, len(classes), 4))
    return found


def sheet(text: str, table: dict[str, Any]) -> str:
    """Return the style sheet with its parts as the table has them.

    Raises:
        KeyError: it has a part of another name.
    """
    written = parts(table)
    return _PART.sub(lambda found: found[1] + written[found[2]] + found[3], text)


def module(table: dict[str, Any]) -> str:
    """Return the module with the table."""
    rows = [*table["algorithms"], table["own"], *table["others"]]
    listed = "".join(f"  {json.dumps(row, ensure_ascii=False)},\n" for row in rows)
    return (
        "// SPDX-License-Identifier: GPL-2.0-only OR MIT\n"
        "// The table algorithms/looks.toml, written by tools/looks.py.\n\n"
        f"export const INKS = {json.dumps(table['inks'])};\n"
        f"export const DASHES = {json.dumps(table['dashes'])};\n"
        f"export const ROWS = [\n{listed}];\n"
        f"export const OWN = {len(table['algorithms'])};\n"
    )


def main(arguments: list[str]) -> int:
    """Write both files, or with `--check` compare them."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    old = SHEET.read_text(encoding="utf-8")
    wanted = {SHEET: sheet(old, table), MODULE: module(table)}
    if "--check" not in arguments:
        for path, text in wanted.items():
            path.write_text(text, encoding="utf-8")
        return 0
    wrong = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in wrong:
        print(f"{path.relative_to(ROOT)}: is not as {TABLE.relative_to(ROOT)} has it; call tools/looks.py")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
