# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Programs of others, held by the kernel."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perigee.core import native
from perigee.stacks.confined import BOUNDS, Bounds, confined

pytestmark = pytest.mark.skipif(not native.compilers_are_confined(), reason="this kernel has no Landlock")


def run(script: str, folder: Path, bounds: Bounds = BOUNDS) -> subprocess.CompletedProcess[str]:
    """Run a script of Python, which may read `given` of a folder and write `written`."""
    words = confined(
        ["python3", "-I", "-S", "-c", script], readable=[folder / "given"], writable=[folder / "written"], bounds=bounds
    )
    return subprocess.run(words, capture_output=True, text=True, cwd="/", check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("given", "written", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    return tmp_path


def test_a_program_reads_and_writes_what_it_is_given_and_has_sockets_and_threads(folder: Path) -> None:
    script = f"""
import socket, threading
assert open("{folder}/given/file").read() == "text"
open("{folder}/written/new", "w").write("made")
thread = threading.Thread(target=lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.0.0.1", 0)))
thread.start()
thread.join()
print("done")
"""
    done = run(script, folder)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
    assert (folder / "written/new").read_text() == "made"


@pytest.mark.parametrize(
    "script",
    [
        "open('{folder}/secret/file')",
        "import os; os.listdir('/root')",
        "open('/etc/passwd')",
        "open('/proc/self/environ')",
        "open('{folder}/given/file', 'w')",
        "open('{folder}/new', 'w')",
        "import os; os.fork()",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.kill(os.getppid(), 0)",
        "import os; os.setsid()",
        "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "bytearray(1 << 30)",
    ],
)
def test_a_program_reaches_nothing_else(script: str, folder: Path) -> None:
    done = run(script.format(folder=folder), folder, Bounds(memory_bytes=1 << 30))
    assert done.returncode == 1
    assert any(word in done.stderr for word in ("PermissionError", "BlockingIOError", "MemoryError")), done.stderr


def test_its_exit_code_and_its_signals_are_its_own(folder: Path) -> None:
    assert run("raise SystemExit(7)", folder).returncode == 7
    words = confined(["sleep", "60"], readable=[], writable=[])
    with subprocess.Popen(words) as process:
        until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        process.terminate()
        assert process.wait() == -signal.SIGTERM


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    script = f"""
import subprocess, time
from perigee.stacks.confined import confined
process = subprocess.Popen(confined(["sleep", "60"], readable=[], writable=[]))
open("{tmp_path}/number", "w").write(str(process.pid))
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script]) as starter:
        number = tmp_path / "number"
        until(lambda: number.is_file() and number.read_text() != "")
        pid = int(number.read_text())
        until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
        starter.kill()
    until(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, for half a minute."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
