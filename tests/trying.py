# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page that simulates in its own tab, for tests with a browser; its fixtures are in `conftest.py`."""

from __future__ import annotations

import base64
import time
import zlib
from typing import TYPE_CHECKING, Any

from study_text import flow, link

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from firefox import Firefox

WIDE = {"width": 1300, "height": 900, "deviceScaleFactor": 1, "mobile": False}
WAIT_S = 60.0
READY = "return document.querySelector('main .take button:not(:disabled)') !== null"
SAID = "return document.querySelector('main').innerText.slice(0, 500)"
PRESS = "[...document.querySelectorAll('main button')].find((one) => one.textContent === %s).click()"


def until(browser: Chrome | Firefox, script: str) -> Any:
    """Wait until a script answers with something true; return that."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if found := browser.execute_script(script):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{script}: not within {WAIT_S:g} s; the page has {browser.execute_script(SAID)}")


def study(duration: str, vary: str = "") -> str:
    """A study of one download."""
    lines = 'name = "small"\nnodes = ["server", "terminal"]\n' + link(
        "satellite", "server terminal", rate="5 Mbit/s", delay="20 ms", queue="50 kB"
    )
    return lines + flow("download", "server terminal", duration=duration) + (f"[vary]\n{vary}\n" if vary else "")


def text_in_the_address(browser: Chrome | Firefox) -> str:
    """The study that the page shows."""
    code: str = until(browser, "return new URLSearchParams(location.hash.slice(1)).get('study')")
    return zlib.decompress(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)), -15).decode()
