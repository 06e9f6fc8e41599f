# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results in a browser: graphs that are zoomed, reports in the page, comparisons, a site in a folder."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from browsing import serving, violations
from conftest import NARROW, SMALL_STUDY
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.laboratory.publish import publish
from perigee.places import find_study
from perigee.report.writer import write_report

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from firefox import Firefox

WAIT_S = 120
WIDE = {**NARROW, "width": 1300, "mobile": False}
SAMPLES = "return document.querySelector('.actions .note')?.textContent.includes('samples') ?? false"
WINDOW = "return document.querySelector('.actions .note').textContent"
COLOURED = """
const canvas = document.querySelector(".of-results canvas");
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
let count = 0;
for (let at = 0; at < pixels.length; at += 4) {
  const rgb = pixels.slice(at, at + 3);
  if (pixels[at + 3] && Math.max(...rgb) - Math.min(...rgb) > 30) count += 1;
}
return count;
"""
"""How many pixels of the first graph have the colour of a line."""
COLOURS_OF_LINES = """
return [...document.querySelectorAll(".legend-of-runs i")].map((one) => one.className);
"""
CUT_OFF = """
const { width } = document.querySelector("main").getBoundingClientRect();
const isNarrow = matchMedia("(max-width: 44rem)").matches;
const table = document.querySelector("table.stacked");
table.querySelector(".mean").prepend("a label of very many words that has no room in one line of a telephone ");
const box = table.querySelector("td:has(> input)");
return [
  ...(isNarrow && table.getBoundingClientRect().width > width ? [table.getBoundingClientRect().width] : []),
  ...[getComputedStyle(box, "::before").content].filter((content) => content !== "none"),
];
"""
"""How wide the list of results is, where a telephone cuts it off, and what stands before its tick boxes."""
FRAMED = "return (document.querySelector('iframe[style*=height]')?.clientHeight ?? 0)"
"""How high the frame of a report is; it grows as the report is read."""


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a study and its results, whole with a report, and of two rounds."""
    folder = tmp_path_factory.mktemp("lab")
    study = folder / "studies" / "small" / "study.toml"
    study.parent.mkdir(parents=True)
    study.write_text(SMALL_STUDY.replace("10 kB", "5 MB"))
    for name, settings in (("small", []), ("again", ["rounds=2", "links.l.rate=5 Mbit/s"])):
        carry_out(Job(find_study(str(study)), Simulator, settings, out=folder / "results" / name, workers=1))
    write_report(folder / "results" / "small")
    return folder


def until(browser: Chrome | Firefox, script: str) -> Any:
    """Wait until a script answers with something true; return that."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if found := browser.execute_script(script):
            return found
        time.sleep(0.05)
    said = browser.execute_script("return document.querySelector('main').innerText.slice(0, 500)")
    raise AssertionError(f"{script}: not within {WAIT_S} s; the page has {said}")


def errors(chrome: Chrome) -> list[Any]:
    """Errors in the console of a browser."""
    logged: Any = chrome
    return [entry for entry in logged.get_log("browser") if entry["level"] == "SEVERE"]


def test_a_drag_over_one_panel_zooms_all_and_the_address_and_the_keyboard_give_the_view_and_its_values(
    chrome: Chrome, laboratory: Path
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    with serving(laboratory) as (_, address):
        chrome.get(address)
        root, _, _ = address.partition("enter?")
        chrome.get(f"{root}#/results/small/graphs?what=series.goodput_mbps&what=series.cwnd_packets")
        until(chrome, SAMPLES)
        whole = chrome.execute_script(WINDOW)
        (_, second) = chrome.find_elements("css selector", ".of-results .u-over")
        ActionChains(chrome).move_to_element_with_offset(second, -200, 0).perform()
        until(chrome, "return document.querySelector('.read-values').textContent.includes('At ')")
        ActionChains(chrome).click_and_hold().move_by_offset(150, 0).release().perform()
        until(chrome, f"{WINDOW} !== {json.dumps(whole)}")
        zoomed = chrome.execute_script(WINDOW)
        assert "&from=" in chrome.current_url
        chrome.refresh()
        until(chrome, SAMPLES)
        assert chrome.execute_script(WINDOW) == zoomed
        first = chrome.find_elements("css selector", ".of-results .u-over")[0]
        ActionChains(chrome).double_click(first).perform()
        until(chrome, f"{WINDOW} === {json.dumps(whole)}")
        assert "from=" not in chrome.current_url
        chrome.execute_script("document.querySelector('.of-results').focus()")
        ActionChains(chrome).send_keys(Keys.HOME, Keys.ARROW_RIGHT).perform()
        spoken = chrome.execute_script("return document.querySelector('main p.unseen').textContent")
        assert re.match(r"At [0-9.]+ s\. .*: Throughput \(.?bit/s\) [0-9.]+, Congestion window", spoken)
        # A zoom that leaves the instant behind leaves none of its values under its time.
        ActionChains(chrome).send_keys("++").perform()
        until(chrome, "return document.querySelector('.read-values').textContent.startsWith('Smallest and largest')")
        ActionChains(chrome).send_keys("0").perform()
        until(chrome, f"{WINDOW} === {json.dumps(whole)}")
        # Another run of other results, laid over it; back takes it away.
        chrome.execute_script("document.querySelector('.choices-of-graphs form:last-of-type button').click()")
        until(chrome, "return document.querySelectorAll('.choices-of-graphs optgroup[label=again] option').length > 0")
        chrome.execute_script(
            "document.querySelector('.choices-of-graphs select').value = 'again/0';"
            "document.querySelector('.choices-of-graphs form button').click()"
        )
        until(chrome, "return document.querySelectorAll('.legend-of-runs li').length === 2")
        until(chrome, "return location.hash.includes('again%2F0')")
        assert len(set(chrome.execute_script(COLOURS_OF_LINES))) == 2
        chrome.back()
        until(chrome, "return document.querySelectorAll('.legend-of-runs li').length === 1")
        assert errors(chrome) == []


def test_a_report_stands_in_the_page_as_high_as_it_is_and_its_links_move_the_page(
    chrome: Chrome, laboratory: Path
) -> None:
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    with serving(laboratory) as (_, address):
        chrome.get(address)
        root, _, _ = address.partition("enter?")
        chrome.get(f"{root}#/results/small/report")
        until(chrome, f"{FRAMED} > 1500")
        assert chrome.execute_script("return document.querySelector('header.bar nav a[aria-current]').textContent") == (
            "Results"
        )
        frame = chrome.find_element("css selector", "iframe")
        chrome.switch_to.frame(frame)
        until(chrome, "return document.documentElement.scrollHeight === document.documentElement.clientHeight")
        assert chrome.execute_script("return location.origin") != chrome.execute_script("return origin"), "opaque"
        chrome.find_elements("css selector", "nav a")[-1].click()
        chrome.switch_to.default_content()
        until(chrome, "return scrollY > 500")
        chrome.get(f"{root}#/results/again/report")
        until(chrome, "return document.querySelector('main h1')?.textContent === 'No report yet'")
        assert errors(chrome) == []


HOSTILE = """<!doctype html><script>
const tell = (said) => parent.postMessage(said, "*");
const hrefs = ["http://SERVER/enter?token=x", "javascript:alert(1)", "http://SERVER@elsewhere.example/b"];
const told = () => {
  tell({ perigee: "scroll", top: 5000 });
  hrefs.forEach((href) => tell({ perigee: "open", href }));
};
setInterval(() => tell({ perigee: "height", height: 1e9 }), 50);
addEventListener("load", told);
addEventListener("click", told);
new Image().src = "../../../index.html";
fetch("../../../index.html").catch(() => {});
</script><h1>Mine</h1><p>press here</p>"""
OLD = """<!doctype html><meta http-equiv="Content-Security-Policy" content="script-src 'none'">
<h1>Old</h1><div style="height: 3000px"></div>"""
"""A report of an earlier version, whose own policy lets no script run."""
LEADS = "return document.querySelector('main .sticky:not([hidden])')?.textContent"


def test_a_report_moves_the_page_and_leads_elsewhere_only_once_its_reader_has_pressed_something(
    chrome: Chrome, laboratory: Path, tmp_path: Path
) -> None:
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    shutil.copytree(laboratory / "results" / "again", tmp_path / "results" / "evil")
    with serving(tmp_path) as (_, address):
        chrome.get(address)
        root, _, _ = address.partition("enter?")
        server = root.split("/")[2]
        report = tmp_path / "results" / "evil" / "report.html"
        report.write_text(OLD)
        chrome.get(f"{root}#/results/evil/report")
        until(chrome, f"{FRAMED} > 3000")
        assert chrome.execute_script(FRAMED) < 3200
        chrome.get(f"{root}#/results")
        report.write_text(HOSTILE.replace("SERVER", server))
        chrome.get(f"{root}#/results/evil/report")
        until(chrome, f"{FRAMED} === 200000")
        time.sleep(0.5)
        assert chrome.execute_script("return scrollY") == 0
        assert chrome.execute_script(LEADS) is None
        chrome.switch_to.frame(chrome.find_element("css selector", "iframe"))
        chrome.find_element("css selector", "p").click()
        chrome.switch_to.default_content()
        assert until(chrome, LEADS) == "The report leads to http://elsewhere.example/bStay here"
        until(chrome, "return scrollY > 1000")
        assert len(chrome.window_handles) == 1
        chrome.find_element("css selector", ".sticky button").click()
        assert chrome.execute_script(LEADS) is None


def test_an_address_leads_to_no_file_outside_the_data_and_a_published_report_loads_nothing(
    chrome: Chrome, laboratory: Path, tmp_path: Path
) -> None:
    shutil.copytree(laboratory / "results" / "again", tmp_path / "lab" / "results" / "evil")
    (tmp_path / "lab" / "results" / "evil" / "report.html").write_text(f"<!-- <head> -->{HOSTILE}")
    site = tmp_path / "site"
    publish(tmp_path / "lab", site)
    (site / "pwn.js").write_text("globalThis.pwned = true;")
    chrome.get(f"{(site / 'index.html').as_uri()}#/studies/..%2F..%2Fpwn")
    until(chrome, "return document.querySelector('main h1')?.textContent === 'No such page'")
    chrome.execute_script("location.hash = '#/results/evil/rows?table=../../../../pwn'")
    until(chrome, "return document.querySelector('#said.error')?.textContent.includes('leads elsewhere')")
    assert chrome.execute_script("return globalThis.pwned") is None
    chrome.execute_script("location.hash = '#/results/none'")
    until(chrome, "return document.querySelector('#said.error')?.textContent.includes('is not in this site')")
    time.sleep(0.5)
    # Nothing is read, and nothing is said to be read.
    shown = chrome.execute_script("return document.querySelector('main .view').textContent")
    assert shown == "This page cannot be shown"
    chrome.get((site / "files" / "results" / "evil" / "report.html").as_uri())
    assert chrome.execute_script("return [document.head.firstChild.tagName, document.compatMode]") == [
        "META",
        "CSS1Compat",
    ]
    refused = [entry["message"] for entry in errors(chrome) if "Content Security Policy" in entry["message"]]
    assert [kind in " ".join(refused) for kind in ("img-src", "connect-src")] == [True, True]


def test_a_comparison_says_one_sentence_first_and_has_its_table_open(chrome: Chrome, laboratory: Path) -> None:
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    chrome.set_script_timeout(WAIT_S)
    with serving(laboratory) as (_, address):
        chrome.get(address)
        root, _, _ = address.partition("enter?")
        chrome.get(f"{root}#/results")
        until(chrome, "return document.querySelectorAll('tr:has(input) .means:not(:empty)').length === 2")
        assert not chrome.find_element("css selector", ".sticky button").is_enabled()
        runs = "return [...document.querySelectorAll('td[data-head=Runs]')].map((one) => Number(one.textContent))"
        assert chrome.execute_script(runs) == [1, 2]
        for order in ([2, 1], [1, 2]):
            chrome.execute_script("document.querySelectorAll('button.sort')[1].click()")
            assert chrome.execute_script(runs) == order
        chrome.get("about:blank")
        chrome.get(f"{root}#/results?sort=Runs&order=descending")
        until(chrome, "return document.querySelectorAll('tr:has(input) .means:not(:empty)').length === 2")
        assert chrome.execute_script(runs) == [2, 1]
        for box in chrome.find_elements("css selector", "input[type=checkbox]"):
            box.click()
        chrome.find_element("css selector", ".sticky button").click()
        sentence = until(chrome, "return document.querySelector('.finding-of-two')?.textContent")
        assert re.match(
            r"A and B differ in links\.l\.rate and rounds; overall throughput of .* is \d+ % (lower|higher) in B",
            sentence,
        )
        assert chrome.execute_script("return document.querySelectorAll('.compared tbody tr').length") > 2
        assert chrome.execute_script("return document.querySelector('main :is(iframe, details)')") is None
        assert violations(chrome) == []
        assert errors(chrome) == []


@pytest.mark.parametrize("kind", ["chrome", "firefox"])
def test_a_site_opens_from_a_folder_with_its_graphs_and_loads_nothing_else(
    request: pytest.FixtureRequest, kind: str, laboratory: Path, tmp_path: Path
) -> None:
    browser: Any = request.getfixturevalue(kind)
    if kind == "chrome":
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", WIDE)
    else:
        browser.resize(1300, 900)
    publish(laboratory, tmp_path / "site", title="From a folder")
    page = (tmp_path / "site" / "index.html").as_uri()
    browser.get(f"{page}#/results")
    until(browser, "return document.querySelectorAll('table a').length === 2")
    assert browser.execute_script("return document.querySelectorAll('input[type=checkbox]').length") == 0
    browser.execute_script("location.hash = '#/results/small'")
    until(browser, "return document.querySelector('img.figure')?.naturalWidth > 0")
    browser.execute_script("location.hash = '#/results/small/graphs?run=0&run=again/0&what=series.goodput_mbps'")
    until(browser, SAMPLES)
    assert violations(browser) == []
    assert browser.execute_script(COLOURED) > 500
    whole = browser.execute_script(WINDOW)
    browser.execute_script(
        "[...document.querySelectorAll('main button')].find((one) => one.textContent === 'Zoom in').click()"
    )
    until(browser, f"{WINDOW} !== {json.dumps(whole)}")
    assert browser.execute_script(COLOURED) > 500
    browser.execute_script("location.hash = '#/results/small/report'")
    until(browser, f"{FRAMED} > 1500")
    own = (tmp_path / "site").as_uri()
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert [name for name in loaded if not name.startswith((own, "data:", "blob:"))] == []
    assert (errors(browser) if kind == "chrome" else browser.log) == []


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1300, "dark")])
def test_pages_of_results_are_accessible_wide_and_narrow_in_light_and_dark(
    chrome: Chrome, laboratory: Path, width: int, scheme: str
) -> None:
    chrome.set_script_timeout(WAIT_S)
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**WIDE, "width": width, "mobile": width == 400})
    chrome.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    with serving(laboratory) as (_, address):
        chrome.get(address)
        root, _, _ = address.partition("enter?")
        for path in (
            "results",
            "results/small",
            "results/small/graphs",
            "results/small/rows?table=flows",
            "results/gone",
        ):
            chrome.get(f"{root}#/{path}")
            until(chrome, "return document.querySelector('main h1') !== null")
            if path.endswith("graphs"):
                until(chrome, SAMPLES)
            assert violations(chrome) == [], path
            wider = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert chrome.execute_script(wider) <= 0, path
            if path == "results":
                until(chrome, "return document.querySelector('.mean') !== null")
                assert chrome.execute_script(CUT_OFF) == [], width
