# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Commands that the laboratory runs: what they make, and how many run and wait."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import httpx

from browsing import Browser, forms, made, submit
from perigee.errors import InputError
from perigee.laboratory.api.visit import Laboratory
from perigee.laboratory.lanes import Commands


def test_reports_and_comparisons_are_made_by_commands(
    browser: Browser, laboratory: Laboratory, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(laboratory, study, "one")
    made(laboratory, study, "two", rounds=3)
    given: list[tuple[str, ...]] = []

    async def run(_commands: Commands, *arguments: str, who: str) -> None:
        assert who
        given.append(arguments)
        if "--json" in arguments:
            Path(arguments[-1]).write_bytes(b"{}")

    monkeypatch.setattr(Commands, "run", run)
    submit(browser, "/api/results/one/report")
    submit(browser, "/api/results/one/report", figures="1")
    first = submit(browser, "/api/compare", result=["one", "two"])
    assert first.status_code == 200
    assert submit(browser, "/api/compare", result=["one", "two"]).json() == first.json()
    assert browser.get(f"/api/compared/{first.json()['key']}").json() == {}
    words = [arguments[:2] for arguments in given]
    assert words == [("report", str(folder)), ("report", str(folder)), ("compare", str(folder))]


def test_a_command_that_fails_says_why(laboratory: Laboratory) -> None:
    with pytest.raises(InputError, match="no such study file"):
        asyncio.run(laboratory.commands.run("run", "nowhere"))


@dataclass
class Gate:
    """A program in the place of perigee's that fails once it is let through."""

    folder: Path

    def __post_init__(self) -> None:
        os.mkfifo(self.folder / "gate")
        self._gate = os.open(self.folder / "gate", os.O_RDWR)
        program = self.folder / "program"
        program.write_text(
            f"#!/bin/sh\necho \"$$ $*\" >> '{self.folder}/begun'\nread line < '{self.folder}/gate'\nexit 1\n"
        )
        program.chmod(0o700)
        self.program = str(program)

    @property
    def begun(self) -> list[str]:
        """The commands that were begun, each after the number of its process."""
        path = self.folder / "begun"
        return path.read_text().splitlines() if path.is_file() else []

    def open(self) -> None:
        """Let all through, those that come later too."""
        os.write(self._gate, b"\n" * 100)

    def close(self) -> None:
        """Take the gate away."""
        os.close(self._gate)


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Commands of the laboratory wait at a gate."""
    folder = tmp_path / "program"
    folder.mkdir()
    with contextlib.closing(Gate(folder)) as found:
        monkeypatch.setattr(sys, "executable", found.program)
        yield found
        found.open()


def test_the_queue_answers_while_commands_take_their_time(
    browser: Browser, laboratory: Laboratory, study: Path, gate: Gate
) -> None:
    made(laboratory, study, "one")
    code = forms(browser)

    async def script(client: httpx.AsyncClient) -> None:
        slow = asyncio.create_task(client.post("/api/results/one/report", headers=code))
        try:
            while not gate.begun:
                await asyncio.sleep(0.01)
            assert (await asyncio.wait_for(client.get("/api/queue"), 300)).status_code == 200
        finally:
            gate.open()
        assert (await slow).status_code == 422

    browser.run(script)


def test_a_few_commands_wait_and_more_are_told_that_the_laboratory_is_busy(
    browser: Browser, laboratory: Laboratory, study: Path, gate: Gate
) -> None:
    for name in ("one", "two", "three", "four"):
        made(laboratory, study, name)
    ways = [{}, {"figures": "1"}]
    code = forms(browser)

    async def script(client: httpx.AsyncClient) -> None:
        asked = [
            asyncio.create_task(client.post(f"/api/results/{name}/report", data=way, headers=code))
            for name in ("one", "two", "three", "four")
            for way in ways
        ]
        # Nothing else ends as long as the gate is closed; one that was asked for later would find room after that.
        refused: set[asyncio.Task[httpx.Response]] = set()
        while len(refused) < 2:
            refused, _ = await asyncio.wait(asked, timeout=0.01)
        said = {(task.result().status_code, task.result().headers.get("retry-after")) for task in refused}
        assert said == {(503, "60")}
        gate.open()
        assert sorted([answer.status_code for answer in await asyncio.gather(*asked)]) == [422] * 6 + [503] * 2

    browser.run(script)
    assert len(gate.begun) == 6


def test_commands_end_with_the_server(browser: Browser, laboratory: Laboratory, study: Path, gate: Gate) -> None:
    made(laboratory, study, "one")
    code = forms(browser)

    async def script(client: httpx.AsyncClient) -> None:
        asked = asyncio.create_task(client.post("/api/results/one/report", headers=code))
        # asyncio's own task that connects the pipes is not the server's to cancel.
        while not gate.begun or any("connect_pipes" in str(task) for task in asyncio.all_tasks()):
            await asyncio.sleep(0.01)
        others = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others)
        assert asked.cancelled()

    browser.run(script)
    with pytest.raises(ProcessLookupError):
        os.kill(int(gate.begun[0].split()[0]), 0)
