# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Readers accept valid input and refuse the rest with one line; a report of damaged results is refused or made."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from adversary.conftest import Attempts, damaged
from conftest import ROOT
from perigee.errors import PerigeeError
from perigee.report.writer import write_report

sys.path.insert(0, str(ROOT / "fuzz" / "python"))
from readers import TARGETS, feed

CORPUS = ROOT / "fuzz" / "corpus"


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_in_the_corpus_and_changes_of_it_are_read_or_refused(
    attempts: Attempts, tmp_path: Path, target: str
) -> None:
    inputs = [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]
    for content in inputs:
        feed(target, content, tmp_path)
    for chance in attempts:
        for _ in range(20):
            feed(target, damaged(chance.choice(inputs), chance), tmp_path)


@pytest.mark.drawn
@pytest.mark.parametrize("name", ["report.toml", "published.toml"])
def test_a_report_of_changed_settings_is_made_or_refused_and_stays_in_its_folder(
    attempts: Attempts, results: Path, tmp_path: Path, name: str
) -> None:
    content = (ROOT / "studies" / "claypool-2021" / name).read_bytes()
    before = {path for path in tmp_path.rglob("*") if results not in path.parents}
    for chance in attempts:
        (results / "study" / name).write_bytes(damaged(content, chance))
        try:
            write_report(results, results / "x.html", ["html", "csv", "latex"])
        except PerigeeError as error:
            assert str(error), name
        shutil.rmtree(results / "x-files", ignore_errors=True)
    assert {path for path in tmp_path.rglob("*") if results not in path.parents} == before


def test_a_capture_that_lies_about_its_size_takes_no_memory_for_it(attempts: Attempts, tmp_path: Path) -> None:
    from perigee.analysis.recordings import analyze

    for chance in attempts:
        kind = chance.choice(("good-pcap", "good-pcapng"))
        data = bytearray((CORPUS / "capture" / kind).read_bytes())
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(0, len(data) - 4) // 4 * 4
            data[at : at + 4] = chance.choice((b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\x40", b"\0\0\0\0"))
        path = tmp_path / "lie.pcap"
        path.write_bytes(data)
        before = peak_kib()
        try:
            analyze([path])
        except PerigeeError as error:
            assert "\n" not in str(error), error
        assert peak_kib() - before < 300_000, kind


def peak_kib() -> int:
    """The peak memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
