# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tables for LaTeX compile, whatever their texts, widths and lengths are."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from perigee.report.latex import MOST_COLUMNS, PACKAGES, latex
from perigee.report.model import Cell, Table

HOSTILE = ["\\input{x} & 100 % $a_b^c$ #1 {}~", "[2mm] *", "日本 é µ ² ✓ ★ −1 ± 2", "a\n\nb", "", "x" * 200]


def table(rows: int, columns: int) -> Table:
    """A table of hostile texts; `columns` does not count the first."""
    texts = [[Cell(HOSTILE[(row + column) % len(HOSTILE)]) for column in range(columns + 1)] for row in range(rows)]
    head = ["", *(f"Head {number} % (Mbit/s) of some length" for number in range(columns))]
    groups = [("", 1), ("both", columns)] if columns > 1 else ()
    name = f"t-{rows}-{columns}"
    return Table(name, HOSTILE[0], head, texts, pl.DataFrame(), groups, HOSTILE[:3], words=(1,))


TABLES = [table(rows, columns) for rows in (1, 45) for columns in (1, 6, 3 * MOST_COLUMNS)]


def test_no_part_of_a_table_is_wider_than_a_page() -> None:
    for one in TABLES:
        declarations = re.findall(r"begin\{(?:tabular|longtable)\}\{(.*)\}\n", latex(one))
        assert len(declarations) == -(-(len(one.head) - 1) // MOST_COLUMNS)
        for declaration in declarations:
            widths = [float(width) for width in re.findall(r"p\{([0-9.]+)", declaration)]
            assert 0 < sum(widths) < 1
            assert min(widths) > 0.04
            assert len(widths) <= MOST_COLUMNS + 1


def test_tables_of_any_text_compile(tmp_path: Path) -> None:
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("pdflatex is not installed")
    body = "\n".join(latex(one) + "\\clearpage" for one in TABLES)
    document = rf"\documentclass{{article}}\usepackage{{{','.join(PACKAGES)}}}\begin{{document}}" + body
    (tmp_path / "all.tex").write_text(document + "\n\\end{document}\n", encoding="utf-8")
    done = subprocess.run(
        [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"],
        cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False, timeout=300,
    )  # fmt: skip
    if "File `" in done.stdout and "' not found" in done.stdout:
        pytest.skip("a package that the tables need is not installed")
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "all.pdf").read_bytes().startswith(b"%PDF")
