# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A report in a browser: on a telephone, on a desk and on paper nothing is cut, and the contents stay in sight."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
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

pytestmark = pytest.mark.drawn

STUDY = (
    """
name = "swept"
rounds = 3
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

HOVER = """
const svg = document.querySelector("#figure-lines svg"), bars = svg.querySelector("g.interval");
const curve = bars.closest("g[id*='axes_']").querySelector(`g.series[data-entry="${bars.dataset.entry}"]`);
const mark = curve.querySelector("use"), [x, y] = ["x", "y"].map(each => Number(mark.getAttribute(each)));
const at = new DOMPoint(x, y + arguments[0]).matrixTransform(svg.getScreenCTM());
svg.dispatchEvent(new PointerEvent("pointermove", { clientX: at.x, clientY: at.y }));
return document.querySelector(".value").textContent.split("\\n");
"""
"""The words beside a pointer that is a number of points below the first mean of a curve with intervals."""


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


def test_the_pointer_reads_the_mean_with_its_interval_and_names_both_axes(chrome: Chrome, page: str) -> None:
    shown(chrome, page, WIDE)
    flows = Results(Path(page.removeprefix("file://")).parent / "results").table("flows")
    lossy = flows.filter(pl.col("point").str.contains('10 ms.*"0.1 %"'))
    for below in (0, 6):
        algorithm, x, y = chrome.execute_script(HOVER, below)
        assert x == "Delay of satellite (ms): 10", "the axis is labelled below another panel"
        sample = lossy.filter(pl.col("cc") == algorithm.lower())["goodput_mbps"].to_numpy()
        assert len(sample) == 3
        found = re.fullmatch(r"Overall throughput \(Mbit/s\): ([\d.]+) \[([\d.]+), ([\d.]+)\]", y)
        assert found is not None, y
        # Student's t at 97.5 % for three rounds; a tenth of a point is a hundredth of the axis.
        mean, half = float(sample.mean()), 4.303 * float(sample.std(ddof=1)) / math.sqrt(3)
        assert [float(each) for each in found.groups()] == pytest.approx([mean, mean - half, mean + half], abs=0.02)
