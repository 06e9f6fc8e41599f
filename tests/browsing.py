# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A browser of the laboratory's pages without a network, and their server, for tests; fixtures are in `conftest.py`."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from conftest import ROOT, environment, free_port, next_line, running
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.laboratory import server, tab
from perigee.laboratory.guard import Limits
from perigee.laboratory.pages.visit import Laboratory
from perigee.laboratory.site import Site
from perigee.places import find_study
from synthetic import SyntheticEngine

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

URL = "http://127.0.0.1:8700"
SCRIPT = "<script>alert(1)</script>"
"""A text that must be shown, and not carried out."""
AXE = Path(__file__).resolve().parent / "axe-core" / "axe.min.js"


def page_in_a_tab() -> Path:
    """Return the laboratory in a tab; skip the test where it is not built from the sources that are here."""
    path = tab.built()
    if path is None:
        pytest.skip("the page is not built; make web")
    # Its module is compiled for these headers, and refuses files that were compiled with others.
    headers = (ROOT / "algorithms").glob("*.h")
    sources = [*(ROOT / "web").rglob("*.[chj]*"), ROOT / "tools" / "web_page.py", *headers]
    if path.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        pytest.skip("the page is older than its sources; make web")
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

        async def gathered() -> list[httpx.Response]:
            return await asyncio.gather(*(self._client.request(how, path, data=form) for how, path, form in requests))

        return self._loop.run(gathered())

    def run(self, script: Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]) -> None:
        """Run a script of requests."""
        self._loop.run(script(self._client))

    def close(self) -> None:
        """Close it."""
        self._loop.run(self._client.aclose())
        self._loop.close()


def forms(browser: Browser) -> str:
    """Return the token of a session's forms."""
    found = re.search(r'name="forms" value="(\w+)"', browser.get("/studies/gallery").text)
    assert found
    return found[1]


def submit(browser: Browser, path: str, **fields: Any) -> Any:
    return browser.post(path, data={"forms": forms(browser), **fields})


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


def violations(chrome: Chrome) -> list[str]:
    """Return the violations that axe-core finds on the page that is shown."""
    # A content policy lets no script in but by the debugger.
    chrome.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text()})
    run = """
        const done = arguments[0];
        axe.run(document, {resultTypes: ["violations"]}).then(
            (found) => done(found.violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`)));
    """
    found: list[str] = chrome.execute_async_script(run)
    return found
