# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Linux's own congestion control modules import as they are, and do what this project's files do."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from conftest import ROOT, program


@pytest.fixture(scope="module")
def comparison() -> ModuleType:
    return program(ROOT / "validation" / "imported" / "modules.py")


def test_what_is_undone_is_still_in_our_files(comparison: ModuleType, tmp_path: Path) -> None:
    known = comparison.toml(comparison.UNDONE)
    ours = [name for name, difference in known.items() if difference["file"] == "ours"]
    assert len(ours) > 2
    for name in ours:
        (made,) = comparison.undone(name, tmp_path / "unused.c", tmp_path)
        assert "CC_REGISTER(undone" in made.read_text(encoding="utf-8")


@pytest.mark.long
def test_linux_modules_import_and_simulate_as_they_are(comparison: ModuleType, tmp_path: Path) -> None:
    try:
        sources = comparison.modules(tmp_path)
    except comparison.MissingError as missing:
        pytest.skip(str(missing))
    for name in (*comparison.OURS, *comparison.ALONE):
        code, said = comparison.perigee("cc", "import", sources / f"tcp_{name}.c", "--out", tmp_path / f"{name}.c")
        assert code == (2 if name == "cdg" else 0), said
        assert name != "cdg" or all(word in said for word in ("tcp_cdg.c:257: `tcp_enter_cwr`", "`kcalloc`"))
    for name in ("bbr", "illinois"):
        (tmp_path / f"{name}.c").unlink()
        cells = list(comparison.cells(comparison.examine(name, sources, tmp_path)))
        assert len(cells) == 10
        assert [cell["link"] for cell in cells if not cell["same" if name == "bbr" else "same_undone"]] == []
