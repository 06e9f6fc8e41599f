# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A Firefox without a window, driven by WebDriver BiDi as it listens itself: Debian has no geckodriver."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIREFOX = Path(shutil.which("firefox-esr") or shutil.which("firefox") or "/usr/bin/firefox-esr")
START_S, ANSWER_S = 60.0, 60.0


class Firefox:
    """A page of a Firefox.

    Args:
        address: of its WebDriver BiDi, `ws://...`.
    """

    def __init__(self, address: str) -> None:
        import websocket

        self._socket = websocket.create_connection(f"{address}/session", timeout=ANSWER_S, suppress_origin=True)
        self._number = 0
        self.log: list[str] = []
        self._ask("session.new", capabilities={})
        self._ask("session.subscribe", events=["log.entryAdded"])
        self._context = self._ask("browsingContext.getTree")["contexts"][0]["context"]

    def get(self, url: str) -> None:
        """Load a page."""
        self._ask("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def resize(self, width: int, height: int) -> None:
        """Set the size of what is seen of the page."""
        self._ask("browsingContext.setViewport", context=self._context, viewport={"width": width, "height": height})

    def execute_script(self, body: str) -> Any:
        """Return what the body of a function returns, as of JSON."""
        answer = self._ask(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await (async () => {{{body}}})() ?? null))()",
            target={"context": self._context},
            awaitPromise=True,
        )
        if answer["type"] != "success":
            raise AssertionError(answer["exceptionDetails"]["text"])
        return json.loads(answer["result"]["value"])

    def screenshot(self) -> str:
        """Return what is seen of the page, PNG in base64."""
        data: str = self._ask("browsingContext.captureScreenshot", context=self._context)["data"]
        return data

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _ask(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("method") == "log.entryAdded":
                self.log.append(f"{answer['params']['level']}: {answer['params']['text']}")
            if answer.get("id") != self._number:
                continue
            if answer["type"] == "error":
                raise AssertionError(f"{method}: {answer['message']}")
            return answer["result"]


@contextlib.contextmanager
def started(profile: Path) -> Iterator[Firefox]:
    """Start a Firefox with a new profile, and end it.

    Raises:
        RuntimeError: it does not listen within a minute.
    """
    command = [str(FIREFOX), "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    said = profile / "stderr"
    with said.open("wb") as errors, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors) as process:
        try:
            with contextlib.closing(Firefox(_address(said, process))) as browser:
                yield browser
        finally:
            process.terminate()


def _address(said: Path, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        found = re.search(r"WebDriver BiDi listening on (ws://\S+)", said.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"Firefox does not listen: {said.read_text(errors='replace')[-2000:]}")
