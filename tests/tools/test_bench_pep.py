# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The benchmark of the proxy, at its smallest."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import ROOT, environment, next_line, pep_program, running

BENCH = [sys.executable, str(ROOT / "benches" / "pep.py")]


@pytest.fixture
def program() -> dict[str, str]:
    """The environment in which the benchmark finds the service that was built last."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    needed = "unshare --net --mount true && nft -v && ip -V && setpriv --version && prlimit --version && taskset -V"
    tried = subprocess.run(["sh", "-c", needed], capture_output=True, text=True, check=False)  # noqa: S607
    if tried.returncode:
        pytest.skip(f"it needs namespaces, nft, ip, setpriv, prlimit and taskset: {tried.stderr.strip()}")
    return {**environment(), "PERIGEE_PEP": str(pep_program())}


def test_the_benchmark_of_the_proxy_prints_its_tables(program: dict[str, str]) -> None:
    small = "--only figures cases --kinds direct perigee --rounds 1 --seconds 0.05 --idle 20 --active 2 --cases reply"
    done = subprocess.run([*BENCH, *small.split()], env=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| perigee-pep")]
    speed, memory = ([cell.strip() for cell in row] for row in rows)
    assert float(speed[1]) > 0
    assert memory[2] == "20"
    assert "4 cases; nothing lost: direct 4 of 4, perigee-pep 4 of 4" in done.stdout


def test_a_soak_of_seconds_finds_memory_flat_and_no_socket_left(program: dict[str, str]) -> None:
    command = [sys.executable, str(ROOT / "benches" / "pep_soak.py"), "--minutes", "0"]
    done = subprocess.run(command, env=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "memory is flat, and no socket is left" in done.stdout
    assert done.stdout.count("\n| ") == 4


def test_a_hostile_operator_hurts_only_what_a_kill_may_hurt_and_leaves_nothing(program: dict[str, str]) -> None:
    command = [sys.executable, str(ROOT / "benches" / "pep_hostile.py"), "--minutes", "0", "--seed", "1"]
    done = subprocess.run([*command, "--only", "kill"], env=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    row = next(line for line in done.stdout.splitlines() if line.startswith("| kill -9"))
    _, times, is_open, _, resets, lost = (cell.strip() for cell in row.split("|")[1:-1])
    assert times == "1"
    assert int(resets) > 0 and int(is_open) > 0
    assert lost == "0"
    assert done.stdout.endswith("nothing is lost\n")


def test_a_killed_benchmark_leaves_no_process(program: dict[str, str]) -> None:
    command = [*BENCH, "--only", "figures", "--kinds", "perigee", "--seconds", "600"]
    with running(command, env=program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as bench:
        assert "Linux" in next_line(bench.stdout)
        started: list[int] = []
        deadline = time.monotonic() + 120
        # The service, and the two ends of a download.
        while len(started) < 3 and time.monotonic() < deadline:
            started = _children(bench.pid)
            time.sleep(0.01)
        assert len(started) >= 3
        bench.kill()
        bench.wait()
        while any(_runs(process) for process in started):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def _children(process: int) -> list[int]:
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [number for number in numbers if (state := _state(number)) and state[1] == str(process)]


def _runs(process: int) -> bool:
    state = _state(process)
    return state is not None and state[0] != "Z"


def _state(process: int) -> list[str] | None:
    """State, parent and more of a process, as the kernel has them after its name."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
