# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Keys that vary from the command line: in the place of the study's values, or added to them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from conftest import SMALL_STUDY, Perigee
from perigee.commands.line import command_line
from perigee.errors import InputError
from perigee.places import headers
from perigee.report.context import Context
from perigee.report.model import Plot
from perigee.report.sections import build
from perigee.report.style import styled
from perigee.store.results import Results

VARIED = SMALL_STUDY + '[vary]\n"flow.cc" = ["cubic", "reno"]\n'


@pytest.fixture
def varied(tmp_path: Path) -> Path:
    """A study that varies the congestion control of one short transfer, in the folder where commands are started."""
    path = tmp_path / "varied.toml"
    path.write_text(VARIED)
    return path


def points(results: Path) -> list[dict[str, object]]:
    """The settings of each run of a results folder."""
    return [json.loads(text) for text in pl.read_parquet(results / "flows.parquet").sort("run")["point"]]


def test_lists_from_the_command_line_vary_keys_in_every_combination(
    perigee: Perigee, varied: Path, tmp_path: Path
) -> None:
    queues = 'links.l.queue=10 kB,{ bytes = "20 kB", aqm = { kind = "codel" } }'
    done = perigee("run", varied, "--vary", "flow.cc=bbr,vegas", "--vary", queues, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert [(point["flow.cc"], point["links.l.queue"]) for point in points(tmp_path / "out")] == [
        (cc, queue) for cc in ("bbr", "vegas") for queue in ("10 kB", {"bytes": "20 kB", "aqm": {"kind": "codel"}})
    ]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["settings"] == ["vary.flow.cc=bbr,vegas", f"vary.{queues}"]


def test_values_are_added_and_an_authors_file_is_relative_to_the_working_directory(
    perigee: Perigee, varied: Path, tmp_path: Path
) -> None:
    (tmp_path / "cc").mkdir()
    shutil.copy(headers() / "vegas.c", tmp_path / "cc" / "mine.c")
    done = perigee("run", varied, "--also", "flow.cc=cc/mine.c", "--set", "rounds=2", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert [point["flow.cc"] for point in points(tmp_path / "out")] == ["cubic", "reno", "cc/mine.c"] * 2
    again = perigee("run", varied, "--also", "flow.cc=cc/mine.c", "--set", "rounds=2", "--out", tmp_path / "out")
    assert "are there already" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", "cubic,bbr"], "--vary cubic,bbr: the key or `=` is missing; write --vary flow.cc=cubic,bbr"),
        (["--also", "=bbr"], "--also =bbr: the key or `=` is missing"),
        (["--vary", "flow.cc=cubic,"], "--vary flow.cc=cubic,: a value is empty"),
        (["--also", "flow.cc=reno"], '--also flow.cc=reno: `flow.cc` has "reno" twice; give it once'),
        (["--also", "links.l.loss=1 %"], "`links.l.loss` does not vary in the study; give all values with --vary"),
        (["--vary", "rounds=1,2"], "--vary rounds=1,2: `rounds` cannot vary"),
        (["--vary", "flow.cc=nonesuch"], "--vary flow.cc=nonesuch: "),
        (["--vary", "links.l.loss=1"], "--vary links.l.loss=1: "),
    ],
)
def test_keys_that_cannot_vary_are_refused(varied: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        command_line("run").main(["run", str(varied), *arguments, "--dry-run"], standalone_mode=False)


def test_an_authors_algorithm_appears_among_the_others_in_the_gallery(perigee: Perigee, tmp_path: Path) -> None:
    source = (headers() / "reno.c").read_text().replace("CC_REGISTER(reno", "CC_REGISTER(mine")
    (tmp_path / "mine.c").write_text(source)
    few = ("--vary", "flows.main.cc=cubic,vegas", "--set", "flow.to=geo-10", "--reduced")
    done = perigee("run", "gallery", *few, "--also", "flow.cc=./mine.c", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    results = Results(tmp_path / "out")
    with styled():
        sections = {one.name: one.blocks for one in build(Context(results))}
    figures = [one for one in sections["figures"] if isinstance(one, Plot)]
    assert figures
    for one in figures:
        assert "mine" in one.alt, one.name
