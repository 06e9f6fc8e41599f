# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Names of files, labels and titles are text, never a formula, markup, a path or an option."""

from __future__ import annotations

import csv
import os
import random
import re
import shutil
from html.parser import HTMLParser
from importlib.resources import files as files_of
from pathlib import Path

import pytest

from adversary.conftest import Attempts, Limited, answered
from conftest import ROOT
from perigee.report.writer import write_report

PARTS = [
    "$", "$\\frac{1$", "/", "../", "\n", "%", "%s", "%n", "=", "=cmd|x!A1", "+1", "-1", "@x", "<",
    "<script>alert(1)</script>", ">", "&", "&amp;", '"', "'", "\\", "\\input{x}", "{", "}", "{0}", "#", "~", "^", "_",
    "`id`", "$(id)", ";", "|", "*", "?", "[red]", "[/red]", "a", "bb", "ä", "中", "\u202e", "\u200b", "\U0001f6f0", " ",
    "\t", ".", "CON", "-o", "--help",
]  # fmt: skip
CAPTURE = ROOT / "fuzz" / "corpus" / "capture" / "good-pcapng"


def name(chance: random.Random) -> str:
    """A name with special characters."""
    return "".join(chance.choice(PARTS) for _ in range(chance.randint(1, 5)))


class Scripts(HTMLParser):
    """Counts the elements of a page that execute code or load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        away = [
            value for key, value in attrs if key in ("src", "onload", "onerror") and not str(value).startswith("data:")
        ]
        if tag in ("script", "iframe", "object", "embed") or away:
            self.found.append(tag)


def hold(page: Path, files: Path) -> None:
    """Assert what holds for every report and its files."""
    text = page.read_text()
    scripts = Scripts()
    scripts.feed(text)
    # Only the unmodified scripts of the page execute.
    assert scripts.found == ["script"]
    own = "\n".join(files_of("perigee.report").joinpath(name).read_text("utf-8") for name in ("stretch.js", "page.js"))
    assert text.count(f"<script>{own}</script>") == 1
    for path in files.rglob("*"):
        assert re.fullmatch(r"[A-Za-z0-9._-]+", path.name), path
        assert path.parent == files or path.is_dir(), path
    for path in files.glob("*.csv"):
        with path.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        formulas = [cell for cell in cells if cell[:1] in ("=", "@", "\t") or re.match(r"[+-](?![\d.]|$)", cell)]
        assert formulas == [], path


@pytest.mark.drawn
def test_labels_and_titles_of_a_report_are_text(attempts: Attempts, results: Path) -> None:
    for chance in attempts:
        labels = {cc: name(chance) for cc in ("bbr", "cubic", "hybla", "vivace")}

        def quoted(text: str) -> str:
            return '"' + "".join(f"\\U{ord(letter):08x}" for letter in text) + '"'

        lines = [f"title = {quoted(name(chance))}", f"question = {quoted(name(chance))}", "[labels]"]
        lines += [f"{cc} = {quoted(label)}" for cc, label in labels.items()]
        (results / "study" / "report.toml").write_text("\n".join(lines))
        print(lines)
        write_report(results, results / "x.html", ["html", "csv", "latex", "png"])
        hold(results / "x.html", results / "x-files")
        shutil.rmtree(results / "x-files")


@pytest.mark.drawn
def test_files_of_any_name_are_analysed_and_reported(attempts: Attempts, tmp_path: Path, limited: Limited) -> None:
    for number, chance in enumerate(attempts):
        letters = os.fsencode(name(chance).replace("/", "_").replace("\0", "_"))[:200]
        if chance.random() < 0.3:
            letters += bytes(chance.choices(range(0x80, 0x100), k=3))
        path = tmp_path / os.fsdecode(b"./" + letters if letters not in (b".", b"..") else b"x")
        path.write_bytes(CAPTURE.read_bytes())
        print(letters)
        out = tmp_path / f"analysed-{number}"
        said = answered(done := limited("analyze", path, "--out", out, seconds=120))
        if done.returncode == 0:
            page = tmp_path / f"{number}.html"
            answered(limited("report", out, "--format", "html,csv,latex", "--out", page, seconds=120))
            hold(tmp_path / f"{number}.html", tmp_path / f"{number}-files")
        else:
            assert "UTF-8" in said or "name" in said, said
        path.unlink()
