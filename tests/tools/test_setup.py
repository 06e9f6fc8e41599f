# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The set-up of a checkout: a line for each step, its output in a log, and what each target of the Makefile needs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import ROOT

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
    command = [STEP, "A step", "bash", "-c", f"echo $$ > {started}.new; mv {started}.new {started}; sleep 600"]
    running = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )  # fmt: skip
    while not started.exists():
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    said, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (130, "")
    assert said.endswith("interrupted; the same command goes on where it stopped\n")
    assert not Path("/proc", started.read_text().strip()).exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_study_needs_four_steps_and_only_tests_need_the_tools_of_developers() -> None:
    def steps(target: str) -> list[str]:
        command = ["make", "--dry-run", "--always-make", target]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return [line.split("'")[1].split(",")[0] for line in done.stdout.splitlines() if "tools/step.sh" in line]

    needed = ["[1/4] Debian packages", "[2/4] Rust", "[3/4] Python libraries", "[4/4] Rust workspace"]
    assert steps("study") == needed
    assert steps("test") == steps("lint") == [*needed, "Tools of tests and linters"]
