# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The standing on a published site: each cell leads to its study."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")

from browsing import there, violations
from conftest import NARROW, ROOT
from perigee.evaluation.criteria import CRITERIA
from perigee.laboratory.publish import publish
from perigee.standing.running import BESIDE, FILE, FOLDER, FORMAT, live_study
from perigee.standing.satellites import CANDIDATE, study
from trying import until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

WIDE = {**NARROW, "width": 1300, "mobile": False}
CRITERION = next(one for one in CRITERIA if one.id == "5.1.3")
FIGURE = {"mean": 12.3, "half_width": 0.4}
UNKNOWN = {"mean": None, "half_width": None}
VIEW = ROOT / "tests" / "standing" / "standing.mjs"
LINKS = """
return [...document.querySelectorAll('a[href^="#study"]')].map((one) => [one.textContent, one.getAttribute("href")])
"""


def written(folder: Path) -> None:
    """Write a standing of two congestion controls, one criterion and one link."""
    verdicts = {"cubic": "pass", "bbr": "fail"}
    rows = [
        {
            "name": name,
            "title": f"<b>{name}</b>",
            "date": "2026-01-02",
            "kernel": None,
            "verdicts": [{"id": CRITERION.id, "verdict": verdict, "figure": "2 %", "reason": None}],
            "satellites": [
                {"profile": "geo", "goodput_mbps": FIGURE, "rtt_ms": FIGURE, "retransmitted_percent": UNKNOWN}
            ],
        }
        for name, verdict in verdicts.items()
    ]
    content = {
        "format": FORMAT,
        "version": "1",
        "criteria_version": "2",
        "size": "quick",
        "command": "perigee cc standing",
        "criteria": [
            {"id": CRITERION.id, "title": CRITERION.title, "level": CRITERION.level, "study": live_study(CRITERION)}
        ],
        "satellites": [{"profile": "geo", "study": study("geo")}],
        "algorithms": rows,
    }
    (folder / FOLDER).mkdir(parents=True)
    (folder / "results").mkdir()
    (folder / FOLDER / FILE).write_text(json.dumps(content), encoding="utf-8")


def study_at(address: str) -> str:
    """Return the study in an address of the page."""
    code = address.removeprefix("#study=")
    return zlib.decompress(base64.urlsafe_b64decode(f"{code}{'=' * (-len(code) % 4)}"), -15).decode()


def is_right(links: list[list[str]], text: str) -> bool:
    """Whether each cell leads to its study, and the figures stand there as text."""
    whole = live_study(CRITERION)
    assert whole is not None
    assert [words for words, _ in links] == ["pass", "fail", "geo", "geo"]
    assert [study_at(address) for _, address in links] == [
        whole.replace(CANDIDATE, "cubic").replace(BESIDE, "reno"),
        whole.replace(CANDIDATE, "bbr").replace(BESIDE, "cubic"),
        study("geo").replace(CANDIDATE, "cubic"),
        study("geo").replace(CANDIDATE, "bbr"),
    ]
    return "12.30 ± 0.40" in text and "<b>bbr</b>" in text


def test_each_cell_of_a_published_standing_leads_to_its_study(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    written(tmp_path / "lab")
    publish(tmp_path / "lab", tmp_path / "site")
    text = (tmp_path / "site" / "data" / "standing.js").read_text(encoding="utf-8")
    content = text.removeprefix('perigeeData("standing", ').removesuffix(");\n")
    ran = subprocess.run([node, str(VIEW)], input=content, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert is_right(found["links"], found["text"])


def test_the_view_opens_in_a_browser_and_is_accessible(chromium: Chrome, tmp_path: Path) -> None:
    written(tmp_path / "lab")
    publish(tmp_path / "lab", tmp_path / "site")
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    chromium.get(f"{(tmp_path / 'site' / 'index.html').as_uri()}#/algorithms")
    there(chromium, "[href='#/standing']").click()
    there(chromium, "td a")
    links = chromium.execute_script(LINKS)
    assert is_right(links, chromium.execute_script("return document.querySelector('main').textContent"))
    assert violations(chromium) == []


def test_a_site_without_a_standing_says_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "lab" / "results").mkdir(parents=True)
    publish(tmp_path / "lab", tmp_path / "site")
    assert not (tmp_path / "site" / "data" / "standing.js").exists()
    assert '"standing":false' in (tmp_path / "site" / "data" / "algorithms.js").read_text(encoding="utf-8")


RAN = """
return [...document.querySelectorAll(".summary tbody tr")].some((row) => /\\d/.test(row.cells[1]?.textContent ?? ""));
"""
FAULT = "return document.querySelector('.error:not([hidden]), .fault.wrong')?.textContent ?? ''"


def test_a_cell_that_is_clicked_runs_its_study_in_the_tab(chromium: Chrome, page: str, tmp_path: Path) -> None:
    assert page, "the simulator is compiled for the browser"
    written(tmp_path / "lab")
    publish(tmp_path / "lab", tmp_path / "site")
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    for place in range(4):
        chromium.get("about:blank")
        chromium.get(f"{(tmp_path / 'site' / 'index.html').as_uri()}#/standing")
        there(chromium, "td a")
        chromium.execute_script(f"document.querySelectorAll('a[href^=\"#study\"]')[{place}].click()")
        until(chromium, RAN)
        assert chromium.execute_script(FAULT) == ""
