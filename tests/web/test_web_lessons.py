# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Lessons and graphs of the page in Chromium and Firefox: what they show is what they say, on a phone too."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from conftest import NARROW, ROOT
from perigee.laboratory.page import fragment
from trying import PRESS, READY, WIDE, study, text_in_the_address, until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from firefox import Firefox

SHEET = (ROOT / "docs" / "guide" / "teach-ten-lessons.md").read_text(encoding="utf-8")
RIGHT = [2, 1, 2, 1, 2, 2, 2, 1, 1, 2]
"""The answer to the question of each lesson: the number of its choice, from 0."""
NUMBERS = """
const numbers = [...document.querySelectorAll(".prose output")];
return numbers.length > 0 && numbers.every((one) => one.textContent !== "…");
"""
AT = """
const range = document.querySelector(".time");
range.value = %d;
range.dispatchEvent(new Event("input"));
"""
SLIDE = """
const slider = document.getElementById("%s");
slider.value = %d;
slider.dispatchEvent(new Event("input"));
"""
VIEWED = """
const boxes = [".panel", "%s"].map((name) => document.querySelector(name).getBoundingClientRect());
return boxes.every(({top, bottom}) => top >= 0 && bottom <= innerHeight) && boxes[0].bottom <= boxes[1].top;
"""


def lesson(browser: Chrome | Firefox, page: str, number: int) -> None:
    """Open a lesson, and wait for its results."""
    browser.get("about:blank")
    browser.get(f"{page}#lesson={number}")
    until(browser, NUMBERS)


def test_lessons_show_results_and_the_answer_that_was_expected(either: Chrome | Firefox, page: str) -> None:
    for number, right in enumerate(RIGHT, 1):
        lesson(either, page, number)
        title = either.execute_script("return document.querySelector('h1').textContent")
        choice = either.execute_script(f"return document.querySelectorAll('.choices button')[{right}].textContent")
        either.execute_script("document.querySelector('.choices button').click()")
        assert int(until(either, "return document.querySelector('.verdict')?.dataset.right")) == right, number
        said = either.execute_script("return document.querySelector('main').innerText")
        assert "(no " not in said, said
        assert "NaN" not in said, said
        assert f"## {number}. {title}\n" in SHEET
        assert f"“{choice}”" in SHEET.split(f"## {number}. ")[1].split("\n## ")[0], "the sheet has the answer"
    either.execute_script("document.querySelector('.turn a.main').click()")
    foreseen = until(either, "return document.querySelector('.known') && document.querySelector('main').innerText")
    assert "Foreseen so far: 0 of 1." in foreseen, "the page was opened anew for each lesson"
    assert either.execute_script("return document.querySelectorAll('.known > li').length") == len(RIGHT)


def test_the_first_lesson_shows_no_more_than_its_window_per_round_trip(chrome: Chrome, page: str) -> None:
    lesson(chrome, page, 1)
    most = float(re.search(r"is ([\d.]+) Mbit/s at most", text_of(chrome, ".prose")[0])[1])  # type: ignore[index]
    shown = []
    for place in range(0, 1001, 10):
        chrome.execute_script(AT % place)
        shown.append(float(text_of(chrome, ".readout b")[0] or 0))
    assert 0.95 * most < max(shown) < 1.03 * most, max(shown)


def text_of(browser: Chrome, selector: str) -> list[str]:
    """The texts of elements."""
    found: list[str] = browser.execute_script(
        f"return [...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)"
    )
    return found


def test_a_path_that_changes_moves_in_the_picture(chrome: Chrome, page: str) -> None:
    lesson(chrome, page, 10)
    assert " 0 ms each way" not in text_of(chrome, ".prose")[0]
    places = []
    for at in (100, 400):
        chrome.execute_script(AT % at)
        places.append(chrome.execute_script("return document.querySelector('.satellite').getAttribute('transform')"))
    assert places[0] != places[1]


def test_lost_packets_fall_one_mark_at_a_time_from_each_place(chrome: Chrome, page: str) -> None:
    lesson(chrome, page, 7)
    colours = (
        "return [...document.querySelectorAll('.panel')].map((one) => one.querySelector('.swatch').className.trim())"
    )
    assert chrome.execute_script(colours) == ["swatch is-0", "swatch is-0", "swatch ink"], "its queue is nobody's"
    chrome.execute_script(SLIDE % ("lesson-kB", 0))
    until(chrome, NUMBERS)
    seen = until(chrome, "return document.querySelectorAll('.falls g').length")
    for _ in range(100):
        seen = max(seen, chrome.execute_script("return document.querySelectorAll('.falls g').length"))
    assert seen == 1, "this link loses packets at its queue only"


def test_an_orbit_keeps_the_loss_that_was_chosen_until_asked_for_its_own(chrome: Chrome, page: str) -> None:
    chrome.get(page)
    until(chrome, READY)
    for change in (SLIDE % ("slide-loss", 7), "document.querySelector('[data-link=leo]').click()"):
        before = chrome.execute_script("return location.hash")
        chrome.execute_script(change)
        until(chrome, f"return location.hash !== {json.dumps(before)}")
    chosen = text_in_the_address(chrome)
    assert 'down = { loss = "1 %" }' in chosen
    assert 'rate = "100 Mbit/s"\ndelay = "20 ms"' in chosen, "the rate was not chosen"
    assert chrome.execute_script("return document.querySelector('[data-link=leo]').ariaPressed") == "true"
    assert "As you chose: random loss." in chrome.execute_script("return document.querySelector('main').innerText")
    chrome.execute_script(PRESS % '"Those of low orbit"')
    until(chrome, "return document.getElementById('slide-loss').value === '0'")


def test_the_first_graph_stays_in_view_on_a_phone(chrome: Chrome, page: str) -> None:
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", NARROW)
    chrome.get(page)
    until(chrome, READY)
    chrome.execute_script("document.getElementById('slide-duration').scrollIntoView({block: 'center'})")
    until(chrome, VIEWED % "#slide-duration")
    chrome.execute_script("scrollTo(0, 0)")
    until(chrome, "return document.querySelector('.panels.pinned') === null")
    lesson(chrome, page, 3)
    chrome.execute_script("document.querySelector('.choices').scrollIntoView({block: 'end'})")
    until(chrome, VIEWED % ".choices")


def test_fifteen_flows_have_all_their_values_and_any_of_them_a_picture(chrome: Chrome, page: str) -> None:
    names = "cubic,bbr,hybla,reno,bbr3,copa,vegas,westwood_plus,illinois,htcp,bic,compound,highspeed,westwood,fast"
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    chrome.get(page + f"#link=cable&duration=2&cc={names}")
    until(chrome, READY)
    clipped = """
    return [...document.querySelectorAll(".readout")].some((one) => one.scrollHeight > one.clientHeight + 1);
    """
    assert not chrome.execute_script(clipped)
    assert "2 of 15 runs" in until(chrome, "return document.querySelector('.figure .note:not([hidden])')?.textContent")
    last = "document.querySelector('.legend li:last-child button')"
    name = chrome.execute_script(f"{last}.click(); return {last}.textContent")
    assert name in text_of(chrome, ".path .strong")


def test_a_link_from_a_folder_says_what_it_is_and_one_name_is_one_thing(chrome: Chrome, page: str) -> None:
    chrome.get(page)
    until(chrome, READY)
    chrome.execute_script(PRESS % '"Copy link"')
    assert "in your folder" in until(chrome, "return document.querySelector('.take [role=status]').textContent")
    named: list[str] = text_of(chrome, "main button")
    assert named.count("Study file") == 1
    chrome.execute_script(PRESS % '"Keep for comparison"')
    chrome.execute_script(PRESS % '"Clear"')
    assert "Keep for comparison" in text_of(chrome, "main button")


def test_a_misspelt_key_is_answered_with_the_one_that_was_meant(chrome: Chrome, page: str) -> None:
    chrome.get(page + fragment(study("1 s").replace("delay =", "dlay =")))
    assert "did you mean delay?" in until(chrome, "return document.querySelector('.fault.wrong')?.textContent")
