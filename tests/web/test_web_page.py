# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The laboratory in a browser tab, opened from its file in Chromium and Firefox: it shows what the command computes."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from browsing import violations
from conftest import NARROW
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.laboratory.page import fragment
from perigee.places import find_study
from perigee.store.results import Results
from trying import PRESS, READY, WAIT_S, WIDE, study, text_in_the_address, until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from firefox import Firefox

TYPED = """
document.querySelector(".cm-content").focus();
document.execCommand("selectAll");
document.execCommand("insertText", false, %s);
"""
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
LOADED = """
return performance.getEntriesByType("resource").map((one) => one.name).filter((name) => !/^(blob|data):/.test(name));
"""
SUMMARY = """
return [...document.querySelectorAll(".summary tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
"""


def flows_of(text: str, tmp_path: Path) -> pl.DataFrame:
    """The table of flows as the command computes it."""
    (tmp_path / "study.toml").write_text(text)
    carry_out(Job(find_study(str(tmp_path / "study.toml")), Simulator, out=tmp_path / "results", workers=2))
    return Results(tmp_path / "results").table("flows")


def test_it_shows_without_a_click_what_the_command_computes(
    either: Chrome | Firefox, page: str, tmp_path: Path
) -> None:
    either.get(page)
    until(either, READY)
    text = text_in_the_address(either)
    flows = flows_of(text, tmp_path)
    shown = either.execute_script(SUMMARY)
    expected = [
        [three(row["received_bytes"] / 1e6) + " MB", three(row["duration_s"]) + " s", three(row["goodput_mbps"])]
        for row in flows.to_dicts()
    ]
    assert [row[1:4] for row in shown] == expected
    assert either.execute_script(LOADED) == []
    assert either.execute_script("return document.querySelectorAll('.panel canvas').length") == 4
    assert violations(either) == []
    address = either.execute_script("return location.hash")
    either.get("about:blank")
    either.get(page + address)
    until(either, READY)
    assert text_in_the_address(either) == text
    assert 'name = "tab"' in either.execute_script("return document.querySelector('.cm-content').textContent")


def three(value: float) -> str:
    """A number as the page has it."""
    return f"{float(f'{value:.3g}'):,.6f}".rstrip("0").rstrip(".").replace(",", "\u202f")


def test_tables_are_those_of_the_command_byte_for_byte_in_csv(chrome: Chrome, page: str, tmp_path: Path) -> None:
    chrome.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    text = study("2 s", '"flow.cc" = ["reno", "bbr"]')
    chrome.get(page + fragment(text))
    until(chrome, READY)
    for form in ("CSV", "Arrow"):
        chrome.execute_script(PRESS % json.dumps(f"Tables, {form}"))
    flows = flows_of(text, tmp_path)
    for name, read in (("tables-csv.zip", pl.read_csv), ("tables-arrow.zip", pl.read_ipc_stream)):
        waited_for(tmp_path / name)
        with zipfile.ZipFile(tmp_path / name) as archive:
            assert archive.read("study.toml").decode() == text
            found = read(archive.read("flows.csv" if "csv" in name else "flows.arrows"))
        for column in (
            "run",
            "seed",
            "cc",
            "bytes",
            "goodput_mbps",
            "rtt_mean_ms",
            "sent_packets",
            "retransmitted_packets",
        ):
            assert found[column].to_list() == flows[column].to_list(), column


def waited_for(path: Path) -> None:
    """Wait for a download."""
    end = time.monotonic() + WAIT_S
    while not path.is_file() and time.monotonic() < end:
        time.sleep(0.05)


def test_a_fault_is_said_at_its_line_as_one_types(chrome: Chrome, page: str) -> None:
    chrome.get(page)
    until(chrome, READY)
    chrome.execute_script("document.getElementById('tab-text').click()")
    wrong = study("2 s").replace("rate =", "rat =")
    line = next(number for number, each in enumerate(wrong.splitlines(), 1) if "rat =" in each)
    chrome.execute_script(TYPED % json.dumps(wrong))
    assert "rat" in until(chrome, "return document.querySelector('.fault.wrong')?.textContent")
    assert f"Line {line}" in chrome.execute_script("return document.querySelector('.fault.wrong').textContent")
    assert until(chrome, "return document.querySelector('.cm-lintRange-error')?.textContent") == "rat"
    chrome.execute_script(TYPED % json.dumps(study("2 s")))
    until(chrome, "return document.querySelector('.fault.right') !== null")
    until(chrome, "return document.querySelectorAll('.summary tbody tr').length === 1")


def test_a_study_of_somebody_else_can_only_run(chrome: Chrome, page: str) -> None:
    hostile = 'title = "<img src=x onerror=alert(1)>"\n' + study("1 s", '"flow.cc" = ["cubic", "reno"]')
    chrome.get(page + fragment(hostile))
    until(chrome, READY)
    assert chrome.execute_script("return document.querySelectorAll('main img').length") == 0
    fetched = "return fetch('https://example.org/').then(() => 'sent', (error) => `refused ${error.name}`)"
    assert chrome.execute_script(fetched).startswith("refused")
    for address in ("#study=AAAA", "#study=" + "a" * 70_000, "#study=%00"):
        chrome.get("about:blank")
        chrome.get(page + address)
        assert "The address holds no study" in until(
            chrome, "return document.querySelector('.error:not([hidden])')?.textContent"
        )


def test_a_setting_that_is_kept_is_drawn_beside_the_next_and_stays_in_the_address(chrome: Chrome, page: str) -> None:
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    chrome.get(page)
    until(chrome, READY)
    chrome.execute_script(PRESS % '"Keep for comparison"')
    chrome.execute_script("document.querySelector('[data-link=leo]').click()")
    settings = ("100 Mbit/s, 40 ms", "50 Mbit/s, 600 ms")
    expected = [f"{name}, {setting}" for setting in settings for name in ("Cubic", "BBR")]
    legend = "return [...document.querySelectorAll('.legend li')].map((one) => one.textContent)"
    until(chrome, f"{legend}.join() === {json.dumps(','.join(expected))}")
    until(chrome, "return location.hash.includes('&beside=')")
    until(chrome, READY)
    until(chrome, "return document.querySelectorAll('.summary td:empty').length === 0")
    kept = chrome.execute_script(SUMMARY)
    address = chrome.execute_script("return location.hash")
    chrome.get("about:blank")
    chrome.get(page + address)
    until(chrome, READY)
    until(chrome, f"return [...document.querySelectorAll('.summary tbody tr')].length === {len(kept)}")
    until(chrome, "return document.querySelectorAll('.summary td:empty').length === 0")
    assert chrome.execute_script(SUMMARY) == kept


def test_a_long_run_shows_what_it_has_and_stops_at_once(chrome: Chrome, page: str) -> None:
    chrome.get(page + fragment(study("50 min")))
    until(chrome, "return document.querySelectorAll('.summary tbody tr').length === 1")
    until(chrome, "return document.querySelector('progress').value > 0")
    chrome.execute_script(PRESS % '"Stop"')
    until(chrome, "return document.querySelector('progress').hidden")
    assert chrome.execute_script("return document.querySelectorAll('.panel canvas').length") == 4


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(chrome: Chrome, page: str, size: dict[str, Any], scheme: str) -> None:
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chrome.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    opened: dict[str, Callable[[], Any]] = {
        "": lambda: until(chrome, READY),
        "#lesson=1": lambda: until(chrome, "return document.querySelector('.panel canvas') !== null"),
        "#lesson=11": lambda: until(chrome, "return document.querySelector('.known') !== null"),
    }
    for address, ready in opened.items():
        chrome.get("about:blank")
        chrome.get(page + address)
        ready()
        assert chrome.execute_script(WIDER) <= 0
        assert violations(chrome) == []
    log: list[dict[str, Any]] = chrome.get_log("browser")  # type: ignore[no-untyped-call]
    assert [one for one in log if one["level"] == "SEVERE"] == []


def test_the_keyboard_alone_is_enough(chrome: Chrome, page: str) -> None:
    from selenium.webdriver import ActionChains, Keys

    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    chrome.get(page)
    until(chrome, READY)
    focused = "return document.activeElement.id || document.activeElement.className"
    reached = []
    for _ in range(60):
        ActionChains(chrome).send_keys(Keys.TAB).perform()
        reached.append(chrome.execute_script(focused))
    assert {"slide-rate", "aqm", "proxy", "panels", "tab-controls"} <= set(reached)
    chrome.execute_script("document.getElementById('slide-rate').focus()")
    before = chrome.execute_script("return location.hash")
    ActionChains(chrome).send_keys(Keys.ARROW_LEFT).perform()
    until(chrome, f"return location.hash !== {json.dumps(before)}")
    until(chrome, READY)
    chrome.execute_script("document.querySelector('.panels').focus()")
    ActionChains(chrome).send_keys(Keys.ARROW_RIGHT).perform()
    clock = chrome.execute_script("return document.querySelector('.clock').textContent")
    ActionChains(chrome).send_keys(Keys.ARROW_RIGHT).perform()
    until(chrome, f"return document.querySelector('.clock').textContent !== {json.dumps(clock)}")
