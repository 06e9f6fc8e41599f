# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A report in a browser: on a telephone, on a desk and on paper nothing is cut, and the contents stay in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conftest import NARROW
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import find_study
from perigee.report.assemble import assemble
from perigee.report.html import write
from perigee.report.style import styled
from perigee.store.results import Results
from study_text import flow, link

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

STUDY = (
    """
name = "swept"
title = "Two algorithms over losses and delays"
nodes = ["server", "terminal"]
"""
    + link("satellite", "server terminal", rate="2 Mbit/s", queue="20 kB")
    + flow("download", "server terminal", duration="1500 ms")
    + """
[vary]
"flow.cc" = ["cubic", "reno"]
"links.satellite.delay" = ["10 ms", "20.5 ms", "40 ms"]
"links.satellite.loss" = ["0 %", "0.1 %"]
"""
)
WIDE = {"width": 1300, "height": 900, "deviceScaleFactor": 1, "mobile": False}
PAPER = {"width": 688, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
"""The text of A4 between its margins, in CSS pixels."""

CUT = """
const width = document.documentElement.clientWidth, scrolls = new Set(["auto", "scroll"]);
const inScroller = e => e && (scrolls.has(getComputedStyle(e).overflowX) || inScroller(e.parentElement));
return [...document.querySelectorAll("h1, h2, h3, p, li, figcaption, table, svg, td, th")]
  .filter(e => e.getBoundingClientRect().right > width + 1 && !inScroller(e)).map(e => e.outerHTML.slice(0, 80));
"""
TOP_OF_CONTENTS = """
window.scrollTo({ top: 5000, behavior: "instant" });
return document.querySelector("nav").getBoundingClientRect().top;
"""
SIZES = """
const size = e => parseFloat(getComputedStyle(e).fontSize);
return [size(document.body), ...[...document.querySelectorAll("main p, figcaption, td")].map(size)];
"""
SPLIT_UNITS = """
return [...document.querySelectorAll("th[scope=row]")].map(e => e.textContent).filter(t => /\\d (%|ms)/.test(t));
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("swept")
    (folder / "study.toml").write_text(STUDY)
    carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "results", workers=1))
    with styled():
        write(assemble(Results(folder / "results")), folder / "report.html")
    return (folder / "report.html").as_uri()


def shown(chrome: Chrome, page: str, size: dict[str, int], media: str = "screen") -> None:
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
    chrome.get(page)


def test_nothing_is_cut_and_the_contents_stay(chrome: Chrome, page: str) -> None:
    for size in (NARROW, WIDE):
        shown(chrome, page, size)
        assert chrome.execute_script("return document.documentElement.scrollWidth") <= size["width"]
        assert chrome.execute_script(CUT) == []
        assert chrome.execute_script(SPLIT_UNITS) == []
        assert chrome.execute_script(TOP_OF_CONTENTS) == 0, "the contents scroll away"


def test_on_paper_nothing_is_cut_and_notes_are_no_larger_than_the_text(chrome: Chrome, page: str) -> None:
    shown(chrome, page, PAPER, "print")
    assert chrome.execute_script(CUT) == []
    text, *others = chrome.execute_script(SIZES)
    assert len(others) > 20
    assert max(others) <= text
