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

from browsing import WAIT_S, go, press, serving, severe, there, violations
from conftest import NARROW, SMALL_STUDY, Perigee
from perigee.errors import InputError
from perigee.laboratory import server
from perigee.laboratory.entries import Entry, Queue
from perigee.laboratory.place import Place
from perigee.laboratory.scheduler import only_one

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


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
    assert "no server runs on this folder" in done.stderr
    with only_one(Place(tmp_path / "lab"), "https://lab.example.org:8443/"):
        done = perigee("serve", tmp_path / "lab", "--add-links", tmp_path / "class.txt")
    assert re.match(r"eve https://lab\.example\.org:8443/enter\?token=", done.stdout), done.stderr
    assert "note:" not in done.stderr
    done = perigee("serve", tmp_path / "lab", "--remove-link", "eve")
    assert done.stdout == "eve: the personal link opens nothing any more, and its sessions are over\n"
    (tmp_path / "class.txt").write_text("no-name\n")
    done = perigee("serve", tmp_path / "lab", "--add-links", tmp_path / "class.txt")
    assert (done.returncode, "no-name: no name for a link" in done.stderr) == (2, True), done.stderr
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


def test_a_stranger_signs_in_with_a_link_and_finds_the_way_by_the_keyboard(chrome: Chrome, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    with serving(tmp_path) as (_, address):
        root, _, _ = address.partition("enter?")
        chrome.get(f"{root}#/links/geo")
        there(chrome, "h1", "Your link")
        open_to_all = [link.text for link in chrome.find_elements("css selector", "#pages a")]
        assert open_to_all == ["Lessons", "Try", "Algorithms"]
        chrome.switch_to.active_element.send_keys("wrong", Keys.ENTER)
        there(chrome, "main [role=alert]", "No link of this laboratory has that token.")
        field = chrome.switch_to.active_element
        field.clear()
        field.send_keys(address, Keys.ENTER)
        there(chrome, "h1", "geo")
        there(chrome, ".panel h2", "One-way delay")
        for name in ("Studies", "Queue", "Results", "Links", "Algorithms", "Machines"):
            press(chrome, name)
            there(chrome, "h1", name)
            there(chrome, "#pages a[aria-current]", name)
        chrome.back()
        there(chrome, "h1", "Algorithms")
        chrome.get(f"{root}#/nowhere")
        there(chrome, "h1", "No such page")
        go(chrome, "#/links/nowhere")
        there(chrome, "#said.error", "nowhere: no profile of that name")
        press(chrome, "You")
        there(chrome, "#menu", "owner · may run")
        press(chrome, "Sign out")
        there(chrome, "h1", "Your link")
        assert severe(chrome, "status of 422", "status of 404") == []


def test_a_link_that_another_site_opened_asks_before_it_signs_in(chrome: Chrome, tmp_path: Path) -> None:
    with serving(tmp_path) as (_, address):
        root, _, token = address.partition("enter?token=")
        chrome.get(f"{root}#/enter?why=site&token={token}")
        there(chrome, "main [role=alert]", "A page opened this link")
        there(chrome, "#account button", "Sign in")
        there(chrome, "main button.main", "Sign in").click()
        there(chrome, "h2", "Running")
        assert token not in chrome.current_url


def test_a_session_that_has_ended_asks_for_the_link(chrome: Chrome, tmp_path: Path) -> None:
    with serving(tmp_path) as (_, address):
        chrome.get(address)
        there(chrome, "h2", "Running")
        chrome.delete_all_cookies()
        go(chrome, "#/machines")
        there(chrome, "h1", "Your link")
        assert chrome.current_url.endswith("#/machines")


LOOKS = ((400, "light"), (1300, "dark"))
"""Widths of the window, and colour schemes."""
VIEWS = ("#/", "#/links", "#/links/starlink", "#/algorithms", "#/algorithms/hybla", "#/machines", "#/try", "#/enter")


def test_views_are_accessible_wide_and_narrow_in_light_and_dark(chrome: Chrome, tmp_path: Path) -> None:
    chrome.set_script_timeout(WAIT_S)
    with serving(tmp_path) as (_, address):
        chrome.get(address)
        for width, scheme in LOOKS:
            size = {**NARROW, "width": width, "mobile": width == LOOKS[0][0]}
            chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            for view in VIEWS:
                go(chrome, view)
                there(chrome, "h1")
                assert violations(chrome) == [], f"{view}, {width} px, {scheme}"
                wide = chrome.execute_script("return document.documentElement.scrollWidth")
                assert wide <= width, f"{view}: {wide} px wide"
        assert severe(chrome) == []
