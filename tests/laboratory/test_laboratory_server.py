# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The process of `perigee serve`: addresses, slow clients, its end and its next start, and a browser in front of it."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import uvicorn

from browsing import serving, violations
from conftest import NARROW, SMALL_STUDY, Perigee
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.laboratory import server
from perigee.laboratory.access import Access
from perigee.laboratory.entries import Entry, Queue
from perigee.laboratory.place import Place
from perigee.places import find_study
from perigee.report.writer import write_report

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

WAIT_S = 300


def state_of(folder: Path, number: int) -> str:
    with contextlib.closing(Queue(Place(folder).queue)) as queue:
        return queue.get(number).state


def wait_for_state(folder: Path, number: int, *states: str) -> None:
    until = time.monotonic() + WAIT_S
    with contextlib.closing(Queue(Place(folder).queue)) as queue:
        while (state := queue.get(number).state) not in states:
            assert time.monotonic() < until, state
            time.sleep(0.1)


def test_addresses_that_others_reach_need_tls(tmp_path: Path) -> None:
    assert server.Address("127.0.0.1", 1).hosts == {"127.0.0.1", "localhost", "::1"}
    assert server.Address("192.0.2.1", 1).hosts == frozenset()
    assert server.Address("192.0.2.1", 1, ("Lab.example.org",)).hosts == {"192.0.2.1", "lab.example.org"}
    assert server.Address("::1", 8700).url == "http://[::1]:8700/"
    server.Address("::1", 8700).check()
    with pytest.raises(InputError, match="give --certificate and --key"):
        server.Address("0.0.0.0", 8700).check()  # noqa: S104 - refused
    with pytest.raises(InputError, match="no address"):
        server.Address("lab.example.org", 8700).check()
    (tmp_path / "a.pem").write_text("no certificate")
    with pytest.raises(InputError, match="not usable"):
        server.Address("0.0.0.0", 8700, (), tmp_path / "a.pem", tmp_path / "a.pem").check()  # noqa: S104


def test_the_command_says_what_it_cannot_do(perigee: Perigee, tmp_path: Path) -> None:
    for arguments, why in (
        (["--bind", "0.0.0.0"], "give --certificate and --key"),  # noqa: S104 - refused
        (["--certificate", "a.pem"], "give both or neither"),
    ):
        done = perigee("serve", tmp_path / "lab", *arguments)
        assert done.returncode == 2, done.stderr
        assert why in done.stderr
    (tmp_path / "class.txt").write_text("eve\nbob\n")
    done = perigee("serve", tmp_path / "lab", "--add-links", tmp_path / "class.txt", "--quota", "3")
    assert re.fullmatch(r"eve http://127\.0\.0\.1:8700/enter\?token=\w+\nbob http://\S+\n", done.stdout), done.stderr
    (tmp_path / "class.txt").write_text("no-name\n")
    done = perigee("serve", tmp_path / "lab", "--add-links", tmp_path / "class.txt")
    assert (done.returncode, "no-name: no name of a user" in done.stderr) == (2, True), done.stderr
    server.add_user(tmp_path / "lab", "ada", "look", "correct horse battery")
    assert Access(Place(tmp_path / "lab").private, {}).users()["ada"]["role"] == "look"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = perigee("serve", tmp_path / "lab", "--port", taken.getsockname()[1])
    assert (done.returncode, "another program listens there" in done.stderr) == (2, True), done.stderr


def test_a_client_that_takes_its_time_with_a_request_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.5)

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, port=0, http=server.TimedProtocol, ws="none", lifespan="off", log_config=None)
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run)
    thread.start()
    try:
        until = time.monotonic() + WAIT_S
        while not serving.started:
            assert time.monotonic() < until
            time.sleep(0.01)
        address = serving.servers[0].sockets[0].getsockname()
        # Half a head, at once and after a whole request.
        for first in (b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"):
            with socket.create_connection(address, timeout=WAIT_S) as client:
                client.sendall(first)
                if first:
                    assert client.recv(4096).startswith(b"HTTP/1.1 204")
                client.sendall(b"GET / HTTP/1.1\r\nHo")
                with contextlib.suppress(ConnectionResetError):
                    assert client.recv(4096) == b""
    finally:
        serving.should_exit = True
        thread.join(WAIT_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.long)])
def test_an_entry_goes_on_when_the_server_was_ended_or_killed(tmp_path: Path, how: signal.Signals) -> None:
    place = Place(tmp_path)
    place.make()
    queue = Queue(place.queue)
    first = queue.add(Entry("first", "sim", 0.0, text=SMALL_STUDY, settings=("rounds=3",)))
    second = queue.add(Entry("second", "sim", 1.0, text=SMALL_STUDY))
    queue.close()
    with serving(tmp_path) as (process, _):
        wait_for_state(tmp_path, first, "running", "done")
        process.send_signal(how)
        assert process.wait(WAIT_S) == (0 if how is signal.SIGTERM else -how)
    with serving(tmp_path) as (process, _):
        wait_for_state(tmp_path, second, "done")
        assert state_of(tmp_path, first) == "done"
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0


def wait_until_there(chrome: Chrome, selector: str, text: str = "") -> WebElement:
    """Wait for an element with a text on the page that is shown."""
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.by import By

    until = time.monotonic() + WAIT_S
    while True:
        # The page may be replaced at any moment.
        with contextlib.suppress(StaleElementReferenceException):
            for found in chrome.find_elements(By.CSS_SELECTOR, selector):
                if text in found.text:
                    return found
        assert time.monotonic() < until, f"no {selector} with {text!r} at {chrome.current_url}"
        time.sleep(0.1)


def wait_until_other(chrome: Chrome, selector: str, before: str) -> None:
    """Wait until an element has another text than before."""
    from selenium.webdriver.common.by import By

    until = time.monotonic() + WAIT_S
    while chrome.find_element(By.CSS_SELECTOR, selector).text == before:
        assert time.monotonic() < until, f"{selector} stays {before!r}"
        time.sleep(0.1)


def press(chrome: Chrome, text: str) -> None:
    """Reach what begins with a text with the Tab key alone, and press Enter."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    reached = "return document.activeElement.matches('a, button') ? document.activeElement.innerText.trim() : ''"
    for _ in range(200):
        ActionChains(chrome).send_keys(Keys.TAB).perform()
        if chrome.execute_script(reached).startswith(text):
            ActionChains(chrome).send_keys(Keys.ENTER).perform()
            return
    raise AssertionError(f"the Tab key reaches no {text!r} at {chrome.current_url}")


LOOKS = ((400, "light"), (1300, "dark"))
"""Widths of the window, and colour schemes."""
SOME_PAGES = ("", "queue", "edit", "studies/small", "results/small", "results/small/graphs")
"""With a list, a form, a study, and results."""


@pytest.mark.parametrize("is_every_page", [False, pytest.param(True, marks=pytest.mark.long)])
def test_pages_are_accessible_wide_and_narrow_in_light_and_dark(
    chrome: Chrome, tmp_path: Path, is_every_page: bool
) -> None:
    folder = tmp_path / "lab"
    study = folder / "studies" / "small" / "study.toml"
    study.parent.mkdir(parents=True)
    study.write_text(SMALL_STUDY)
    small = folder / "results" / "small"
    carry_out(Job(find_study(str(study)), Simulator, out=small, workers=1))
    if is_every_page:
        write_report(small)
    chrome.set_script_timeout(WAIT_S)
    with serving(folder) as (_, address):
        chrome.get(address)
        root, _, _ = address.partition("enter?")
        pages = (
            "",
            "queue",
            "studies",
            "studies/small",
            "edit",
            "reference",
            "results",
            "links",
            "links/geo",
            "algorithms",
            "agents",
        )
        of_results = ("results/small", "results/small/graphs", "results/small/report")
        for number, page in enumerate((*pages, *of_results) if is_every_page else SOME_PAGES):
            # A few pages have one look each, by turns; every page has all of them.
            for width, scheme in LOOKS if is_every_page else (LOOKS[number % 2],):
                size = {**NARROW, "width": width, "mobile": width == NARROW["width"]}
                chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
                chrome.get(root + page)
                wait_until_there(chrome, "h1")
                assert violations(chrome) == [], f"{page}, {width} px, {scheme}"


def test_a_run_that_goes_on_is_drawn(chrome: Chrome, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    (folder / "studies" / "long").mkdir(parents=True)
    long = SMALL_STUDY.replace("10 Mbit/s", "1 Gbit/s").replace("10 kB", "20 GB")
    (folder / "studies" / "long" / "study.toml").write_text(long)
    chrome.set_script_timeout(WAIT_S)
    with serving(folder) as (process, address):
        chrome.get(address)
        root, _, _ = address.partition("enter?")
        chrome.get(f"{root}studies/long")
        press(chrome, "Run all")
        wait_until_there(chrome, "h1", "Entry 1")
        wait_for_state(folder, 1, "running")
        chrome.refresh()
        wait_until_there(chrome, ".curve text", "Throughput of cubic, round 1")
        line = chrome.execute_script("return document.querySelector('.curve path.line').getAttribute('d')")
        assert re.fullmatch(r"M[0-9.,]+(L[0-9.,]+)+", line)
        label = "return getComputedStyle(document.querySelector('.curve path.line')).stroke"
        assert chrome.execute_script(label) == "rgb(0, 114, 178)"
        logged: Any = chrome
        assert [entry for entry in logged.get_log("browser") if entry["level"] == "SEVERE"] == []
        assert violations(chrome) == []
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0


def test_a_drag_over_one_panel_zooms_all_and_the_address_and_the_keyboard_give_the_view_and_its_values(
    chrome: Chrome, tmp_path: Path
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    folder = tmp_path / "lab"
    study = folder / "studies" / "small" / "study.toml"
    study.parent.mkdir(parents=True)
    study.write_text(SMALL_STUDY.replace("10 kB", "5 MB"))
    carry_out(Job(find_study(str(study)), Simulator, out=folder / "results" / "small", workers=1))
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**NARROW, "width": 1300, "mobile": False})
    with serving(folder) as (_, address):
        chrome.get(address)
        root, _, _ = address.partition("enter?")
        chrome.get(f"{root}results/small/graphs?what=series.goodput_mbps&what=series.cwnd_packets")
        wait_until_there(chrome, "#window", "samples")
        whole = chrome.find_element("id", "window").text
        (_, second) = chrome.find_elements("css selector", "#graph .u-over")
        ActionChains(chrome).move_to_element_with_offset(second, -200, 0).perform()
        wait_until_there(chrome, "#values", "At ")
        ActionChains(chrome).click_and_hold().move_by_offset(150, 0).release().perform()
        wait_until_other(chrome, "#window", whole)
        zoomed = chrome.find_element("id", "window").text
        assert "&from=" in chrome.current_url
        chrome.get(chrome.current_url)
        wait_until_there(chrome, "#window", zoomed)
        first = chrome.find_elements("css selector", "#graph .u-over")[0]
        ActionChains(chrome).double_click(first).perform()
        wait_until_there(chrome, "#window", whole)
        assert "from=" not in chrome.current_url
        chrome.execute_script("document.getElementById('graph').focus()")
        ActionChains(chrome).send_keys(Keys.HOME, Keys.ARROW_RIGHT).perform()
        spoken = chrome.execute_script("return document.getElementById('reading').textContent")
        assert re.match(r"At [0-9.]+ s\. .*: Throughput \(.?bit/s\) [0-9.]+, Congestion window", spoken)
        logged: Any = chrome
        assert [entry for entry in logged.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_browser_from_form_to_report_with_the_keyboard_alone(chrome: Chrome, tmp_path: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    folder = tmp_path / "lab"
    (folder / "studies" / "small").mkdir(parents=True)
    (folder / "studies" / "small" / "study.toml").write_text(SMALL_STUDY)
    with serving(folder) as (process, address):
        chrome.get(address)
        wait_until_there(chrome, "h2", "Running")
        press(chrome, "Studies")
        wait_until_there(chrome, "h1", "Studies")
        press(chrome, "small")
        wait_until_there(chrome, "h1", "small")
        press(chrome, "Run all")
        wait_until_there(chrome, "h1", "Entry 1")
        wait_for_state(folder, 1, "done")
        chrome.refresh()
        wait_until_there(chrome, "#state", "finished")
        press(chrome, "Open the result")
        wait_until_there(chrome, "h2", "In short")
        press(chrome, "Report")
        wait_until_there(chrome, "h2", "How this was made")
        root, _, _ = address.partition("enter?")
        results = next(path.name for path in (folder / "results").iterdir())
        chrome.get(f"{root}results/{results}/graphs")
        wait_until_there(chrome, "#window", "samples")
        before = chrome.find_element("id", "window").text
        chrome.execute_script("document.getElementById('graph').focus()")
        ActionChains(chrome).send_keys("+").perform()
        wait_until_other(chrome, "#window", before)
        ActionChains(chrome).send_keys("0").perform()
        wait_until_there(chrome, "#window", before)
        own = (
            "",
            "queue",
            "queue/1",
            "studies",
            "studies/small",
            "edit",
            "reference",
            "results",
            "links",
            "algorithms",
            "agents",
        )
        for page in (*own, f"results/{results}", f"results/{results}/graphs"):
            chrome.get(root + page)
            wait_until_there(chrome, "h1")
            wide = chrome.execute_script("return document.documentElement.scrollWidth")
            assert wide <= NARROW["width"], f"{page}: {wide} px wide"
        chrome.get(f"{root}edit/small")
        wait_until_there(chrome, "#fault.right", "accepts")
        text = wait_until_there(chrome, ".cm-content", "rate")
        chrome.execute_script("arguments[0].focus()", text)
        ActionChains(chrome).send_keys("rond = 3\n").perform()
        wait_until_there(chrome, "#fault.wrong", "Line 1")
        wait_until_there(chrome, ".cm-lintRange-error", "rond")
        assert "`" not in chrome.find_element("id", "fault").text
        ActionChains(chrome).send_keys("rou").perform()
        wait_until_there(chrome, ".cm-tooltip-autocomplete li[aria-selected]", "rounds")
        assert chrome.execute_script("return document.getElementById('text').value").startswith("rond = 3\nrou")
        logged: Any = chrome
        said = [entry for entry in logged.get_log("browser") if entry["level"] == "SEVERE"]
        assert said == []
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0
