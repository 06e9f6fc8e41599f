# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A study killed at random instants has the same tables and files as one that was not."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from adversary.conftest import Attempts
from conftest import environment

STUDY = """
name = "killed"
nodes = ["a", "b"]
rounds = 40
measure.pcap = true
measure.events = true
[[links]]
name = "l"
between = ["a", "b"]
rate = "5 Mbit/s"
delay = "10 ms"
queue = "30 kB"
loss = "1 %"
[[flows]]
name = "f"
from = "a"
to = "b"
size = "200 kB"
"""


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def run(folder: Path, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "perigee", "run", "killed.toml", "--out", name]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def killed(folder: Path, chance: random.Random) -> None:
    """Start the study and kill it, repeatedly, until it completes."""
    for _ in range(4):
        process = run(folder, "killed")
        try:
            process.communicate(timeout=chance.uniform(0.3, 3.0))
        except subprocess.TimeoutExpired:
            process.send_signal(chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)))
            process.communicate(timeout=300)
    process = run(folder, "killed")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said


def test_kills_change_no_byte_and_leave_no_file(attempts: Attempts, tmp_path: Path) -> None:
    (tmp_path / "killed.toml").write_text(STUDY)
    process = run(tmp_path, "whole")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    for chance in attempts:
        killed(tmp_path, chance)
        assert files(tmp_path / "killed") == files(tmp_path / "whole")
        here, there = (
            {str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*")}
            for name in ("killed", "whole")
        )
        assert here == there
        shutil.rmtree(tmp_path / "killed")
