# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The comparison with a browser: its server, its page of results, and its message where no browser is installed."""

from __future__ import annotations

import http.client
import sys
from types import ModuleType

import pytest

from conftest import ROOT, program


@pytest.fixture(scope="module")
def loads() -> ModuleType:
    return program(ROOT / "validation" / "browser" / "loads.py")


def test_the_server_sends_the_bytes_of_the_page_on_connections_that_stay(loads: ModuleType) -> None:
    sizes = (5_000, 700, 20_000)
    with loads.server({"own": sizes}) as port:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        for number, size in enumerate(sizes):
            client.request("GET", "/own" + (f"/{number}" if number else ""))
            answer = client.getresponse()
            body = answer.read()
            headers = sum(len(name) + len(value) + 4 for name, value in answer.getheaders()) + len(
                "HTTP/1.1 200 OK\r\n\r\n"
            )
            assert abs(len(body) + headers - size) < 10, "headers count"
            assert (b'<img src="/own/2">' in body) == (number == 0)
        for missing in ("/other", "/own/3", "/own/x"):
            client.request("GET", missing)
            answer = client.getresponse()
            answer.read()
            assert answer.status == 404
        client.close()


def test_the_page_has_a_row_per_link_and_page_with_the_error_of_the_model(loads: ModuleType) -> None:
    cells = [loads.Cell("geo", "small", [4000.0, 4200.0, 4100.0], 3690.0)]
    page = loads.written(cells, "Chromium 140")
    assert ": Chromium 140, Linux" in page
    assert "| geo | small | 4100 | 4000 to 4200 | 3690 | -10.0 % |" in page


def test_without_a_browser_the_tool_says_so_and_writes_nothing(
    loads: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loads.shutil, "which", lambda _name: None)
    monkeypatch.setattr(sys, "argv", ["loads.py"])
    assert loads.main() == 0
    assert "skipped: there is no `chromium` here" in capsys.readouterr().out


def test_the_model_loads_the_page_in_its_round_trips(loads: ModuleType) -> None:
    # A handshake and a document of ten segments in one window; the rate and the server add some milliseconds.
    took = loads.model_ms(("100 Mbit/s", "50 ms", "1 MB"), (10_000,))
    assert 200 < took < 205
