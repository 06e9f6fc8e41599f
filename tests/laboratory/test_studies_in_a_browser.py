# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Studies and the queue as a person uses them: with the keyboard, on a telephone, and while something runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from browsing import WAIT_S, go, press, serving, severe, there, violations
from conftest import NARROW, SMALL_STUDY

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

VARIED = SMALL_STUDY.replace('size = "10 kB"', 'size = "10 kB"\nkind = "bulk"') + (
    '[vary]\n"flow.cc" = ["cubic", { name = "bbr", extra_acked = false }]\n[reduced]\nset = { rounds = 1 }\n'
)
LONG = SMALL_STUDY.replace("10 Mbit/s", "1 Gbit/s").replace("10 kB", "600 GB")


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def click(chrome: Chrome, found: WebElement) -> None:
    """Click on an element, wherever the page is scrolled to."""
    chrome.execute_script("arguments[0].click()", found)


def made(folder: Path, name: str, text: str) -> Path:
    """A laboratory's folder with a study."""
    study = folder / "studies" / name / "study.toml"
    study.parent.mkdir(parents=True)
    study.write_text(text)
    return folder


def test_a_study_is_run_by_the_keyboard_and_leads_to_its_result(chrome: Chrome, tmp_path: Path) -> None:
    with serving(made(tmp_path / "lab", "small", VARIED)) as (_, address):
        chrome.get(address)
        there(chrome, ".start .note", " runs, about ")
        there(chrome, "#pages a", "Studies")
        press(chrome, "Studies")
        there(chrome, ".card", "small")
        press(chrome, "small")
        there(chrome, ".run-bar small", "2 runs")
        press(chrome, "Run all")
        until(lambda: "#/results/small-1-" in chrome.current_url, "the entry does not lead to its result")
        assert "entry 1, yours" in there(chrome, ".head p", "entry").text
        click(chrome, there(chrome, ".head a", "entry 1"))
        there(chrome, "#state", "finished")
        chrome.back()
        there(chrome, ".head a", "entry 1")
        chrome.back()
        there(chrome, ".run-bar small", "2 runs")
        go(chrome, "#/queue")
        assert there(chrome, "[aria-label=Finished] td", "finished").text == "finished"
        assert severe(chrome) == []


def test_what_is_changed_stands_in_the_address_and_in_the_numbers(chrome: Chrome, tmp_path: Path) -> None:
    with serving(made(tmp_path / "lab", "small", VARIED)) as (_, address):
        chrome.get(address)
        go(chrome, "#/studies/small")
        click(chrome, there(chrome, "summary", "Change settings"))
        (cubic, bbr) = chrome.find_elements("css selector", ".setting.varies input[type=checkbox]")
        click(chrome, cubic)
        there(chrome, ".run-bar small", "1 run,")
        kept = chrome.current_url
        assert "set=vary.flow.cc%3D%7B+name" in kept
        click(chrome, bbr)
        assert "flow.cc has no value left" in there(chrome, ".run-bar .bad", "no value").text
        label = chrome.find_element("xpath", "//label[contains(., 'Rounds')]")
        rounds = chrome.find_element("id", str(label.get_attribute("for")))
        rounds.clear()
        noted = "document.getElementById('run').addEventListener('submit', () => { window.sent = true; })"
        chrome.execute_script(noted)
        rounds.send_keys("x\n")
        assert chrome.execute_script("return window.sent") is None, "Enter has run it"
        click(chrome, bbr)
        there(chrome, ".run-bar .bad", "rounds")
        chrome.get("about:blank")
        chrome.get(kept)
        there(chrome, ".run-bar small", "1 run,")
        boxes = chrome.find_elements("css selector", ".setting.varies input[type=checkbox]")
        assert [box.is_selected() for box in boxes] == [False, True]
        click(chrome, there(chrome, ".run-bar button", "Undo 1 change"))
        there(chrome, ".run-bar small", "2 runs,")
        assert chrome.current_url.endswith("#/studies/small")
        # The buttons stay in view, below the header of the page.
        end = "document.querySelector('[name=notes]').scrollIntoView({ block: 'end', behavior: 'instant' })"
        chrome.execute_script(end)
        top = chrome.execute_script("return document.querySelector('.run-bar').getBoundingClientRect().top")
        assert 0 < top < 100


def test_variants_that_an_experiment_takes_itself_are_told(chrome: Chrome, tmp_path: Path) -> None:
    with serving(tmp_path / "lab") as (_, address):
        chrome.get(address)
        go(chrome, "#/studies/caini-2009?set=vary.sender%3DSACK%2CBIC")
        assert "leave these experiments out" in there(chrome, ".run-bar .bad", "ping").text


def test_the_editor_marks_faults_lists_keys_and_saves(chrome: Chrome, tmp_path: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    folder = made(tmp_path / "lab", "small", SMALL_STUDY)
    with serving(folder) as (_, address):
        chrome.get(address)
        go(chrome, "#/edit/small")
        there(chrome, "#fault.right", "accepts")
        text = there(chrome, ".cm-content", "rate")
        assert chrome.execute_script("return getComputedStyle(document.querySelector('.cm-gutters')).display") == "flex"
        chrome.execute_script("arguments[0].focus()", text)
        ActionChains(chrome).send_keys("rond = 3\n").perform()
        there(chrome, "#fault.wrong", "Line 1")
        there(chrome, ".cm-lintRange-error", "rond")
        assert "`" not in chrome.find_element("id", "fault").text
        there(chrome, "#fault a", "Keys of studies")
        press(chrome, "Save")
        there(chrome, ".error", "rond")
        chrome.execute_script("arguments[0].focus()", text)
        ActionChains(chrome).send_keys("rou").perform()
        there(chrome, ".cm-tooltip-autocomplete li[aria-selected]", "rounds")
        assert [said for said in severe(chrome) if "/api/studies" not in said] == []


def test_a_run_that_goes_on_is_drawn_beside_the_name_of_its_algorithm(chrome: Chrome, tmp_path: Path) -> None:
    with serving(made(tmp_path / "lab", "long", LONG)) as (_, address):
        chrome.get(address)
        go(chrome, "#/studies/long")
        there(chrome, ".run-bar small", "1 run")
        press(chrome, "Run all")
        there(chrome, ".multiple-box h3", "Cubic")
        until(lambda: bool(chrome.find_elements("css selector", ".multiple .line")), "no curve")
        assert " s" in there(chrome, ".multiple-box .note", "round 1").text
        go(chrome, "#/queue")
        there(chrome, ".running .name", "long")
        until(lambda: bool(chrome.find_elements("css selector", ".multiple .line")), "no curve")
        assert violations(chrome) == []
        click(chrome, there(chrome, ".running button", "Stop"))
        there(chrome, "[aria-label=Finished] td", "stopped at 0 of 1")
        assert severe(chrome) == []


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), pytest.param(1300, "dark", marks=pytest.mark.long)])
def test_pages_of_studies_and_the_queue_are_accessible_and_fit(
    chrome: Chrome, tmp_path: Path, width: int, scheme: str
) -> None:
    chrome.set_script_timeout(WAIT_S)
    size = {**NARROW, "width": width, "mobile": width == 400}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    pages = {
        "#/studies": ".card",
        "#/studies/small?set=rounds%3D2": "#run details[open]",
        "#/studies/wu-2008": ".run-bar",
        "#/edit": "#fault.right",
        "#/queue": ".view h1",
        "#/queue/1": "#state",
        "#/keys": "table",
    }
    with serving(made(tmp_path / "lab", "small", VARIED)) as (_, address):
        chrome.get(address)
        go(chrome, "#/studies/small")
        click(chrome, there(chrome, "summary", "Change settings"))
        chrome.execute_script("document.querySelector('input[value=daily]').click()")
        press(chrome, "Run all")
        there(chrome, "#state", "every day")
        for page, selector in pages.items():
            go(chrome, page)
            there(chrome, selector)
            assert violations(chrome) == [], page
            wide = chrome.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, f"{page}: {wide} px wide"
