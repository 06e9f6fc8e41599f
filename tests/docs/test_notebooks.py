# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The notebooks of the documentation: their cells work in order, and they are stored without outputs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from conftest import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


def shown(value: object) -> str:
    """A value as a notebook shows it: as HTML if it has HTML, otherwise as text."""
    if isinstance(value, Figure):
        # Polars and matplotlib make their own HTML; the project's figures are pictures.
        return "PNG" if value._repr_png_().startswith(b"\x89PNG") else ""  # type: ignore[attr-defined]
    return str(value._repr_html_()) if hasattr(value, "_repr_html_") else repr(value)


def execute(source: str, names: dict[str, Any]) -> str:
    """Execute a cell; return how its last expression is shown, or nothing where it ends in a statement."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102 - the project's own notebooks
    if not isinstance(last, ast.Expr):
        return ""
    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307 - likewise
    return "" if value is None else shown(value)


def test_there_are_three_notebooks_and_each_is_in_the_list() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first-study", "own-algorithm", "sweep"]
    listed = (FOLDER / "README.md").read_text()
    assert all(f"]({path.name})" in listed for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    for cell in cells(path):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    assert len({cell["id"] for cell in cells(path)}) == len(cells(path))


EXPECTED = {
    "first-study": ("Study small-link", "<td>vegas</td>", "Results small-link", "point.cc", "PNG", "small-link.html"),
    "sweep": ("data:image/png", "12 points", "point.loss (%)", "'point.rate': 'Mbit/s'", "PNG"),
    "own-algorithm": ("<td>mycc.c</td>", "No test: ", "PNG", "gallery.html"),
}
"""Texts that some cell of each notebook shows."""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_works(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    said = [execute("".join(cell["source"]), names) for cell in cells(path) if cell["cell_type"] == "code"]
    for expected in EXPECTED[path.stem]:
        assert any(expected in one for one in said), expected
