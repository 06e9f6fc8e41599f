# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The table of QUIC stacks: complete, consistent with the lock files, and rendered as commands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from perigee.errors import InputError
from perigee.stacks.builders import PROGRAMS
from perigee.stacks.table import PLACEHOLDERS, Settings, Stack, client_command, placeholders, server_command, stacks

FOLDER, FILE = Path("/stacks/one"), Path("/made/certificate.pem")
STACKS = pytest.mark.parametrize("stack", stacks(), ids=lambda stack: stack.name)


@STACKS
def test_each_stack_is_described_and_pinned(stack: Stack) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", stack.version)
    assert re.fullmatch(r"h1:[A-Za-z0-9+/]{43}=" if stack.kind == "go" else r"[0-9a-f]{64}", stack.checksum)
    assert {stack.default, stack.best} <= set(stack.controls)
    assert len(set(stack.controls)) == len(stack.controls)
    assert stack.title
    assert stack.source
    assert stack.licence
    assert stack.mebibytes > 0
    assert bool(stack.packages) == (stack.kind == "debian")
    assert all(version and re.fullmatch(r"[0-9a-f]{64}", sha256) for _, version, sha256 in stack.packages)


@STACKS
def test_commands_have_known_placeholders_and_each_that_a_measurement_needs(stack: Stack) -> None:
    for command, needed in (
        (stack.server, {"folder", "address", "port", "certificate", "key", "root"}),
        (stack.client, {"folder", "url", "out"}),
    ):
        used = set().union(*map(placeholders, command.words))
        assert needed <= used <= PLACEHOLDERS - {"window", "qlog"}
        assert ("control" in used) == (len(stack.controls) > 1)
        assert all(placeholders(word) <= {"window"} for word in command.window)
        assert all(placeholders(word) <= {"qlog"} for word in command.qlog)
    for program in stack.programs:
        words = " ".join((*stack.server.words, *stack.client.words))
        assert f"{{folder}}/{program}" in words, "each program is used"


@STACKS
def test_commands_render_with_each_control(stack: Stack) -> None:
    window = 4_000_000 if stack.server.window else None
    for control in (None, *stack.controls):
        server = server_command(
            stack,
            FOLDER,
            address="10.0.0.1",
            port=4433,
            certificate=FILE,
            key=FILE,
            root=Path("/root/of/it"),
            settings=Settings(control, window),
        )
        client = client_command(
            stack,
            FOLDER,
            address="10.0.0.1",
            port=4433,
            path="10m.bin",
            certificate=FILE,
            out=Path("/out"),
            settings=Settings(control, window),
        )
        for words in (server, client):
            assert not set("{}") & set("".join(words))
            assert "None" not in "".join(words)
            assert any(word.startswith(str(FOLDER)) for word in words)
            assert (window is None) == (not any("4000000" in word for word in words))
            assert len(stack.controls) == 1 or any((control or stack.default) in word for word in words)
        assert any("https://10.0.0.1:4433/10m.bin" in word for word in client)


def test_what_a_stack_cannot_is_refused_with_what_it_can() -> None:
    tquic = next(stack for stack in stacks() if stack.name == "tquic")
    given = {"address": "10.0.0.1", "port": 1, "certificate": FILE, "path": "x", "out": FOLDER}
    with pytest.raises(InputError, match="no congestion control of TQUIC; did you mean `BBR`"):
        client_command(tquic, FOLDER, settings=Settings("BBR2"), **given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no option for a window; leave the window out"):
        client_command(tquic, FOLDER, settings=Settings(window=1), **given)  # type: ignore[arg-type]


def test_versions_and_sums_are_those_of_the_lock_files() -> None:
    lock = tomllib.loads((PROGRAMS / "rust/Cargo.lock").read_text())
    locked = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    for stack in stacks():
        if stack.kind == "cargo":
            assert locked[(stack.name, stack.version)] == stack.checksum
            # Whose programs are those of its folder.
            assert (PROGRAMS / "rust" / stack.name / "src/main.rs").is_file()
        if stack.kind == "go":
            module = stack.source.removeprefix("Go module: ")
            assert f"{module} v{stack.version} {stack.checksum}\n" in (PROGRAMS / stack.name / "go.sum").read_text()
