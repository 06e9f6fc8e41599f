# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Fixtures of the adversary's tests: time and seeds, a command under limits, and random changes of a file."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import environment

CHEAP_S = 1.0
"""Seconds that a test of this folder takes without `--torture`."""
PARTS = 4
"""Parts of a test in `make torture`, which run side by side; other runs have the first."""
APART = 10_000_000
"""Seeds between the first ones of two parts of a test."""
MEMORY = 3 << 30
"""Address space of a command under test, bytes."""

Limited = Callable[..., subprocess.CompletedProcess[str]]


class Attempts:
    """Seeds to try within the time; each is printed, so that a failure shows its seed.

    Args:
        seconds: the time there is; one attempt is made in any case. None: no more than are asked for.
        first: the first seed.
        only: the only seed, where one is to be repeated.
    """

    def __init__(self, seconds: float | None, first: int, only: int | None) -> None:
        self._seconds = seconds
        self._first = first
        self._only = only

    def __iter__(self) -> Iterator[random.Random]:
        """Yield a source of random numbers for each attempt."""
        return self._from(self._first, 0, CHEAP_S)

    def part(self, number: int, count: int) -> Iterator[random.Random]:
        """Yield the generators of one of several parallel tests: `count` without `--torture`, on any machine."""
        return self._from(self._first + number * APART, count, 0)

    def _from(self, seed: int, least: int, cheap_s: float) -> Iterator[random.Random]:
        seconds = cheap_s if self._seconds is None else self._seconds
        until = time.monotonic() + seconds
        if self._only is not None:
            seed, least, until = self._only, 0, 0
        done = 0
        while True:
            print(f"seed {seed}; to repeat it: --torture-seed {seed}")
            yield random.Random(seed)  # noqa: S311 - no secret is made of it
            seed, done = seed + 1, done + 1
            if done >= least and time.monotonic() >= until:
                return


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that has parts one of them, and with `--torture` all."""
    if "part" in metafunc.fixturenames:
        metafunc.parametrize("part", range(PARTS if metafunc.config.getoption("--torture") else 1))


@pytest.fixture
def attempts(request: pytest.FixtureRequest) -> Attempts:
    """The attempts of this test."""
    minutes = float(request.config.getoption("--torture"))
    only = request.config.getoption("--torture-seed")
    if minutes == 0:
        return Attempts(None, 1, only)
    tests = max(request.session.testscollected, 1)
    return Attempts(minutes * 60 / tests, int(time.time()) % 10**9 * 1000, only)


@pytest.fixture
def limited(tmp_path: Path) -> Limited:
    """The command `perigee` with little memory and little time; a run that is not done by then is interrupted.

    Time is that of a machine with a core to spare: on a busy one it gets longer.
    """

    def start(*arguments: object, seconds: float = 20, memory: int = MEMORY) -> subprocess.CompletedProcess[str]:
        # No `preexec_fn`: after the fork it could wait forever for a lock of another thread.
        command = ["prlimit", f"--as={memory}", sys.executable, "-m", "perigee", *map(str, arguments)]
        slowness = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment() | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="surrogateescape",
        ) as process:  # fmt: skip
            try:
                out, error = process.communicate(timeout=seconds * slowness)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                try:
                    out, error = process.communicate(timeout=20 * slowness)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate(timeout=20)
                    raise
        return subprocess.CompletedProcess(command, process.returncode, out, error)

    return start


def answered(done: subprocess.CompletedProcess[str]) -> str:
    """Assert that a command ended with a documented code and without a traceback; return its error stream."""
    # A shell says 130 too of a command that the interrupt met while the interpreter was ending.
    codes = (0, 1, 2, 130, -signal.SIGINT)
    assert done.returncode in codes, (done.args, done.returncode, done.stderr[-2000:])
    assert "Traceback" not in done.stderr, (done.args, done.stderr[-4000:])
    assert "MemoryError" not in done.stderr, (done.args, done.stderr[-2000:])
    if done.returncode in (1, 2):
        assert "error: " in done.stderr or "Usage: " in done.stderr, (done.args, done.stderr[-2000:])
    return done.stderr


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return a file's content with random damage: flipped bits, cuts, repeats, other numbers, other text."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        span = chance.randint(0, min(40, len(data) - at))
        piece = chance.choice(PIECES) if chance.random() < 0.5 else chance.randbytes(span)
        match chance.randrange(5):
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << chance.randrange(8)
            case 1:
                del data[at:]
            case 2:
                data[at : at + span] = piece
            case 3:
                data[at:at] = data[at : at + span] * chance.randint(1, 30)
            case _:
                data[at:at] = piece
    return bytes(data)


PIECES = [
    b"0", b"-1", b"9" * 400, b"1e999", b"nan", b"null", b"true", b'""', b"[]", b"{}", b"[" * 2000, b"\0", b"\xff\xfe",
    b"\n", b'"', b"\xf0\x9f\x9b\xb0", b"../../x", b"$", b"%s", b"<script>", b"=1+1", b"18446744073709551616", b"-0.0",
    b"\xff" * 8, b"\0" * 16,
]  # fmt: skip
