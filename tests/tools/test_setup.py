# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The set-up of a checkout: a line for each step, its output in a log, and what each target of the Makefile needs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import ROOT
from perigee.engines.proxy.program import BUILD

STEP = str(ROOT / "tools/step.sh")


def step(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    command = [STEP, "[1/1] A step, half a minute", "bash", "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_step_is_one_line_and_its_output_goes_to_the_log(tmp_path: Path) -> None:
    done = step(tmp_path, "echo much; echo more >&2")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\[1/1\] A step, half a minute \.\.\. \d+ s\n", done.stdout)
    step(tmp_path, "echo another")
    log = (tmp_path / ".make/setup.log").read_text().splitlines()
    assert [line for line in log if not line.startswith("== [1/1] A step")] == ["much", "more", "another"]


def test_a_step_that_fails_shows_the_end_of_the_log_and_has_the_exit_code_of_its_command(tmp_path: Path) -> None:
    done = step(tmp_path, "seq 1000; echo no space left >&2; exit 7")
    assert done.returncode == 7
    assert re.search(r" failed after \d+ s; the end of \.make/setup\.log:\n$", done.stdout)
    shown = done.stderr.splitlines()
    assert (len(shown), shown[-1]) == (30, "no space left")


def test_ctrl_c_ends_a_step_and_its_command_without_the_log(tmp_path: Path) -> None:
    started = tmp_path / "started"
    # No program before `sleep`: a shell goes on after a signal that came while it waited for one that succeeded.
    command = [STEP, "A step", "bash", "-c", f"echo $$ > {started}; sleep 600"]
    running = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )  # fmt: skip
    while not (started.exists() and started.read_text().strip()):
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    said, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (130, "")
    assert said.endswith("interrupted; the same command goes on where it stopped\n")
    assert not Path("/proc", started.read_text().strip()).exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_study_needs_two_steps_and_only_tests_need_the_tools_of_developers() -> None:
    def steps(target: str) -> list[str]:
        command = ["make", "--dry-run", "--always-make", target]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return [line.split("'")[1].split(",")[0] for line in done.stdout.splitlines() if "tools/step.sh" in line]

    needed = ["[1/2] Debian packages beside Rust", "[2/2] Rust workspace beside Python libraries"]
    assert steps("study") == needed
    assert steps("test") == steps("lint") == [*needed, "Tools of tests and linters"]
    assert steps("bench") == [needed[0], "Rust workspace as it is released"]


def with_scripts(folder: Path, command: str, scripts: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command of tools/ in a folder that has these scripts in the place of other programs."""
    for path, script in scripts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"#!/bin/bash\n{script}\n")
        (folder / path).chmod(0o755)
    (folder / ".make").mkdir()
    env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    words = [str(ROOT / "tools" / command.split()[0]), *command.split()[1:]]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


def build(folder: Path, cargo: str, libraries: str) -> subprocess.CompletedProcess[str]:
    """Run tools/build.sh with these scripts in the place of Cargo and tools/python.sh, and a maturin that says so."""
    scripts = {"bin/cargo": f"echo cargo $*\n{cargo}", "tools/python.sh": libraries}
    return with_scripts(folder, "build.sh local python3", scripts | {".venv/bin/maturin": "echo maturin $*"})


MEET = "touch {}; for _ in {{1..600}}; do [[ -e {} ]] && exit 0; sleep 0.1; done; exit 9"
"""A script that ends when the other one has begun."""


def test_rust_is_installed_beside_the_packages_after_those_that_fetch_it(tmp_path: Path) -> None:
    installs = "echo packages $*; [[ $1 == ca-certificates ]] || { " + MEET.format("packages", "rust") + "; }"
    scripts = {"tools/packages.sh": installs, "tools/rust.sh": "echo rust $*; " + MEET.format("rust", "packages")}
    done = with_scripts(tmp_path, "ground.sh 1.88 clang gcc", scripts)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["packages ca-certificates curl", "packages clang gcc", "rust 1.88"]


def test_libraries_are_installed_beside_the_first_compilation_and_before_the_module(tmp_path: Path) -> None:
    installs = "echo installed $*; " + MEET.format("installed", "compiled")
    done = build(tmp_path, MEET.format("compiled", "installed"), installs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "cargo build --profile local --workspace --bin perigee-pep",
        "installed python3 serve",
        "maturin develop --profile local",
    ]


def test_libraries_that_fail_end_the_build_with_their_output_last(tmp_path: Path) -> None:
    done = build(tmp_path, "echo compiled", "echo no route to pypi.org >&2; exit 5")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (5, ["compiled", "no route to pypi.org"])


def test_a_compilation_that_fails_leaves_no_installation_behind(tmp_path: Path) -> None:
    waits = "while [[ ! -s pid ]]; do sleep 0.01; done; echo no such crate >&2; exit 101"
    done = build(tmp_path, waits, "sleep 600 & echo $! > pid; wait")
    assert (done.returncode, done.stderr) == (101, "no such crate\n")
    child = Path("/proc", (tmp_path / "pid").read_text().strip())
    patience = time.monotonic() + 60
    while child.exists() and time.monotonic() < patience:
        time.sleep(0.01)
    assert not child.exists()


def test_the_program_of_the_proxy_is_built_from_crates_that_the_module_has() -> None:
    def units(command: str) -> set[tuple[str, ...]]:
        """Packages that Cargo would compile, with their targets and features."""
        graph = [*command.split(), "--offline", "-Z", "unstable-options", "--unit-graph"]
        environment = {**os.environ, "RUSTC_BOOTSTRAP": "1"}
        done = subprocess.run(graph, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)["units"]
        return {(unit["pkg_id"], unit["target"]["name"], unit["mode"], *unit["features"]) for unit in found}

    script = (ROOT / "tools/build.sh").read_text(encoding="utf-8").replace('"$profile"', "local")
    assert f"\n{BUILD}\n" in script
    alone = units(BUILD) - units("cargo rustc --profile local --package perigee-py --lib")
    assert [target for _, target, *_ in alone] == ["perigee-pep"]
