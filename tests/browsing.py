# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A browser of the laboratory's pages without a network, and their server, for tests; fixtures are in `conftest.py`."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from conftest import ROOT, environment, free_port, next_line, running
from firefox import Firefox
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.laboratory import page, server
from perigee.laboratory.api.visit import Laboratory
from perigee.laboratory.guard import Limits
from perigee.laboratory.site import FORMS, Site
from perigee.places import find_study
from synthetic import SyntheticEngine

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

URL = "http://127.0.0.1:8700"
SCRIPT = "<script>alert(1)</script>"
"""A text that must be shown, and not carried out."""
WAIT_S = 300
"""Time for which a browser waits for what a page is to show."""
AXE = Path(__file__).resolve().parent / "axe-core" / "axe.min.js"


def page_in_a_tab(folder: Path) -> Path:
    """Write the page as `make web` does, from the sources that are here; skip the test without a simulator."""
    simulator = page.SIMULATOR
    # Its module is compiled for these headers, and refuses files that were compiled with others.
    headers = (ROOT / "algorithms").glob("*.h")
    if not simulator.is_file() or simulator.stat().st_mtime < max(each.stat().st_mtime for each in headers):
        pytest.skip("the simulator is not compiled for the browser; make web")
    path = folder / "index.html"
    path.write_text(page.assembled(simulator.read_bytes()), encoding="utf-8")
    return path


class Browser:
    """Asks the application of a laboratory, without a network; it keeps cookies."""

    def __init__(self, laboratory: Laboratory, limits: Limits | None = None) -> None:
        hosts = server.Address("127.0.0.1", 8700).hosts
        self.site = Site(laboratory, hosts, limits=limits)
        transport = httpx.ASGITransport(self.site.app, client=("127.0.0.1", 40000))
        self._client = httpx.AsyncClient(transport=transport, base_url=URL)
        self._loop = asyncio.Runner()

    def get(self, path: str, **options: Any) -> httpx.Response:
        """GET a page."""
        return self._loop.run(self._client.get(path, **options))

    def post(self, path: str, **options: Any) -> httpx.Response:
        """POST a page."""
        return self._loop.run(self._client.post(path, **options))

    def at_once(self, *requests: tuple[str, str, dict[str, str]]) -> list[httpx.Response]:
        """Make several requests at once, of method, path and form; return the answers in their order."""
        headers = forms(self)

        async def gathered() -> list[httpx.Response]:
            asked = (self._client.request(how, path, data=form, headers=headers) for how, path, form in requests)
            return await asyncio.gather(*asked)

        return self._loop.run(gathered())

    def run(self, script: Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]) -> None:
        """Run a script of requests."""
        self._loop.run(script(self._client))

    def close(self) -> None:
        """Close it."""
        self._loop.run(self._client.aclose())
        self._loop.close()


def forms(browser: Browser) -> dict[str, str]:
    """Return the header that requests of a session carry which change something."""
    return {FORMS: browser.get("/api/me").json()["forms"]}


def submit(browser: Browser, path: str, **fields: Any) -> Any:
    """Send a form as the page does."""
    return browser.post(path, data=fields, headers=forms(browser))


def made(laboratory: Laboratory, study: Path, name: str, rounds: int = 2) -> Path:
    """Finished results in the laboratory."""
    out = laboratory.place.results / name
    carry_out(Job(find_study(str(study)), SyntheticEngine(rounds), out=out, workers=1))
    return out


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and the address that it says."""
    command = [sys.executable, "-m", "perigee", "serve", str(folder), "--port", str(free_port())]
    with running(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        address = next_line(process.stdout).strip()
        assert address, "the server ended"
        yield process, address


def violations(browser: Chrome | Firefox) -> list[str]:
    """Return the violations that axe-core finds on the page that is shown."""
    run = """axe.run(document, {resultTypes: ["violations"]}).then(
        (found) => found.violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`))"""
    found: list[str]
    # A content policy lets no script in but by the debugger.
    if isinstance(browser, Firefox):
        found = browser.execute_script(f"{AXE.read_text()}; return {run}")
    else:
        browser.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text()})
        found = browser.execute_async_script(f"const done = arguments[0]; {run}.then(done)")
    return found


def there(chrome: Chrome, selector: str, text: str = "") -> WebElement:
    """Wait for an element with a text on the page that is shown."""
    from selenium.common.exceptions import StaleElementReferenceException

    until = time.monotonic() + WAIT_S
    while True:
        # The view may be replaced at any moment.
        with contextlib.suppress(StaleElementReferenceException):
            for found in chrome.find_elements("css selector", selector):
                if text in found.text:
                    return found
        assert time.monotonic() < until, f"no {selector} with {text!r} at {chrome.current_url}"
        time.sleep(0.05)


def go(chrome: Chrome, address: str) -> None:
    """Go to an address of the page that is shown."""
    chrome.execute_script("location.hash = arguments[0]", address)


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


def severe(chrome: Chrome, *but: str) -> list[str]:
    """Return the errors that the browser has logged, but for those with a word."""
    logged: Any = chrome
    said = [entry["message"] for entry in logged.get_log("browser") if entry["level"] == "SEVERE"]
    return [each for each in said if not any(word in each for word in but)]
