# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The modules of the laboratory in a browser tab, without a browser: addresses, archives, tables, and their page."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
import zipfile
import zlib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import ROOT, program, tool
from perigee.engines.plan.native import native_plan
from perigee.places import StudyFile, data_roots

MODULES = ROOT / "tests" / "web" / "modules.mjs"
ROWS = pl.DataFrame({"run": [0, 1], "flow": ["a", 'b "c", d'], "value": [1.5, None]})


def called(name: str, given: Any = None) -> Any:
    """Return what a call of `modules.mjs` answers."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    command = [node, "--no-warnings", str(MODULES), name]
    ran = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def packed(content: bytes) -> str:
    """Return a study as addresses have it."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.urlsafe_b64encode(compressor.compress(content) + compressor.flush()).decode().rstrip("=")


def test_an_address_holds_its_study_and_is_refused_where_it_is_broken_or_too_large() -> None:
    tab = pytest.importorskip("perigee.laboratory.tab", reason="starlette is not installed")
    text = 'name = "a"\ntitle = "Über Satelliten"\n'
    of_python = tab.fragment(text).removeprefix("#study=")
    bomb = packed(b"x" * 40_000_000)
    assert len(bomb) < 65536
    codes = [of_python, bomb, "a" * 100_000, "!!", "AAAA", packed(b"\xff\xfe")]
    (same, too_long, too_large, *broken), made = called("addresses", {"codes": codes, "texts": [text, "y" * 200_000]})
    assert same == text
    assert made == [text, "y" * 200_000]
    assert too_long == "refused: it is longer than 256 KiB"
    assert too_large == "refused: it is longer than 64 KiB"
    assert all(each.startswith("refused: ") for each in broken)


def test_controls_are_read_back_from_their_own_text_and_from_no_other() -> None:
    named = [["bbr", "reno"], 0.1, 100, 20, 1000]
    assert called("forms") == [[True] * 9, named, None, None, None, None]


def test_downloads_are_files_that_others_read() -> None:
    parts = (ROWS, ROWS.head(1))
    streams, columns = [], []
    for part in parts:
        buffer = io.BytesIO()
        part.write_ipc_stream(buffer)
        streams.append(list(buffer.getvalue()))
        columns.append({"rows": len(part), "columns": part.to_dict(as_series=False)})
    content = bytes(called("archive", {"streams": streams, "columns": columns}))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        arrow = pl.read_ipc_stream(archive.read("a.arrows"))
        csv = pl.read_csv(archive.read("ü.csv"))
    assert arrow.equals(pl.concat(parts))
    assert csv.equals(pl.concat(parts))


def test_the_reader_accepts_every_study_of_controls_and_lessons() -> None:
    texts = called("studies")
    assert len(texts) > 60
    for text in texts:
        native_plan(StudyFile(Path("lesson/study.toml"), text, tuple(data_roots())), [], reduced=False)


def test_live_figures_of_the_documentation_are_studies_of_what_their_comments_say() -> None:
    pattern = program(ROOT / "docs" / "site" / "conf.py").LIVE
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
    found = [address for text in texts.values() for address in pattern.findall(text)]
    comments = sum(line.startswith("<!-- live:") for text in texts.values() for line in text.splitlines())
    assert len(found) == comments >= 6
    for address, (text, form) in zip(found, called("named", found), strict=True):
        native_plan(StudyFile(Path("live/study.toml"), text, tuple(data_roots())), [], reduced=False)
        said = dict(part.split("=") for part in address.split("&"))
        assert form["cc"] == said["cc"].split(",")
        assert all(float(said[key]) == form[key] for key in ("loss", "duration", "rate") if key in said)
        assert form["aqm"] == said.get("aqm", "drop-tail")


def test_the_page_loads_nothing_and_its_policy_names_its_script_and_style() -> None:
    web = tool("web_page")
    page = web.page(b"\0asm")
    script, style, policy = (
        re.search(pattern, page, re.DOTALL)
        for pattern in (
            r'<script type="module">(.*?)</script>',
            "<style>(.*?)</style>",
            r'Content-Security-Policy" content="([^"]*)"',
        )
    )
    assert script
    assert style
    assert policy
    assert web.digest(script[1]) in policy[1]
    assert web.digest(style[1]) in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    assert "'unsafe-inline'" not in policy[1]
    rest = page[: page.index("<style>")] + page[page.index("</style>") : page.index("<script")]
    assert not re.search(r'(?:src|href)="(?!#|data:)', rest)
    assert "<!--" not in script[1], "a browser would read what follows otherwise"
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_modules_that_do_not_fit_together_are_refused() -> None:
    web = tool("web_page")
    with pytest.raises(ValueError, match=r"a\.js: does not export gone"):
        web.function("a.js", "export const here = 1;\n", ["gone"])
    with pytest.raises(FileNotFoundError, match=r"absent\.js: is imported, and in none of"):
        web.found("absent.js")
