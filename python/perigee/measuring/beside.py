# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Sparse pings beside a load: the system's `ping`, so that queues per flow or per protocol separate the two."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perigee.core import native
from perigee.errors import InputError, RunError
from perigee.files import storage_errors

INTERVAL_S = 0.2
"""Time between two pings beside a probe, s; chosen: below 4 kbit/s, and five in each second of load."""
IDLE_S = 3.0
"""Time with pings only before each rate, s; chosen: 15 pings, and queues of the rate before it are empty again."""
_TIMEOUT_S = 3.0
_LOOK_S = 0.05
_MARGIN_S = 120.0
"""Pings go on for at most this time after a killed program that could not end them."""
_LINE = re.compile(r"^\[(\d+\.\d+)\] (no answer yet for )?.*?icmp_seq=(\d+)(?:.* time=([\d.]+) ms)?", re.MULTILINE)


class SystemPing:
    """The system's `ping`, which writes into a file from the begin of a `with` block to its end.

    Args:
        host: name or address of the host.
        interval_s: time between two pings, s.
        log: its output: each answer with the time of day; each ping that had none when the next one was sent.
        longest_s: expected length of the block, s.

    Raises:
        InputError: `ping` is not installed.
        StorageError: the file cannot be written.
    """

    def __init__(self, host: str, interval_s: float, log: Path, longest_s: float) -> None:
        self._host = host
        self._log = log
        count = math.ceil((longest_s + _MARGIN_S) / interval_s)
        self._line = ["ping", "-n", "-D", "-O", "-i", f"{interval_s:g}", "-c", str(count), host]

    def __enter__(self) -> Self:
        need_ping()
        with storage_errors(self._log), self._log.open("wb") as file:
            self._process = subprocess.Popen(  # noqa: S603
                self._line,
                stdout=file,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):
            self._process.terminate()
        self._process.communicate()

    def check(self) -> None:
        """Raise what ended it.

        Raises:
            RunError: it has ended.
        """
        if self._process.poll() is not None:
            said = (self._process.stderr.read() if self._process.stderr else b"").decode(errors="replace").strip()
            raise RunError(f"{self._host}: {said or 'ping ended'}")


def need_ping() -> None:
    """Check that `ping` is installed.

    Raises:
        InputError: it is not.
    """
    if shutil.which("ping") is None:
        raise InputError("ping is not installed; install it with: apt install iputils-ping")


class Pings:
    """Pings of a host from the begin of a `with` block to its end, as they come.

    Args:
        host: name or address of the host.
        longest_s: expected length of the block, s.
    """

    def __init__(self, host: str, longest_s: float) -> None:
        self._host = host
        self._folder = tempfile.TemporaryDirectory(prefix=native.scratch_prefix("pings"))
        self._log = Path(self._folder.name) / "pings.txt"
        self._ping = SystemPing(host, INTERVAL_S, self._log, longest_s)

    def __enter__(self) -> Self:
        self._ping.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ping.__exit__(kind, error, trace)
        self._folder.cleanup()

    def check(self, *, answered: bool = False) -> None:
        """Raise what ended the pings.

        Args:
            answered: whether one must have been answered by now.

        Raises:
            RunError: they have ended, or none was answered.
        """
        self._ping.check()
        if answered and all(math.isnan(rtt_ms) for _, rtt_ms in self._seen()):
            raise RunError(f"{self._host}: answers no ping; allow ICMP echo requests there, or leave --in-band out")

    def wait_until(self, sent_s: float, go_on: Callable[[], bool]) -> bool:
        """Wait until the pings sent before an instant of the monotonic clock are answered or lost.

        Args:
            sent_s: the instant, s.
            go_on: called regularly; returns whether to go on waiting.

        Returns:
            False if `go_on` said no.

        Raises:
            RunError: the pings have ended.
        """
        while time.monotonic() < sent_s + _TIMEOUT_S and not self._is_settled(sent_s):
            self.check()
            if not go_on():
                return False
            time.sleep(_LOOK_S)
        return True

    def between(self, begin_s: float, end_s: float, load_s: float) -> dict[str, Any]:
        """Return the pings sent in an interval of the monotonic clock, for a log.

        Args:
            begin_s: begin of the interval, s.
            end_s: its end, s.
            load_s: departure or arrival of the first packet of the load, s: the zero of the times in the log.
        """
        own = [(sent, rtt_ms) for sent, rtt_ms in self._seen() if begin_s <= sent <= end_s]
        return {
            "sent_s": [round(sent - load_s, 4) for sent, _ in own],
            "rtt_ms": [None if math.isnan(rtt_ms) else round(rtt_ms, 3) for _, rtt_ms in own],
        }

    def _is_settled(self, sent_s: float) -> bool:
        seen = self._seen()
        return all(sent >= sent_s or not math.isnan(rtt) for sent, rtt in seen) and bool(seen) and seen[-1][0] >= sent_s

    def _seen(self) -> list[tuple[float, float]]:
        return sent_and_answered(self._log.read_text(errors="replace"), INTERVAL_S, time.monotonic() - time.time())


def sent_and_answered(text: str, interval_s: float, to_clock_s: float = 0.0) -> list[tuple[float, float]]:
    """Return the pings in the output of `SystemPing`, in order.

    Args:
        text: the output, whole or up to now.
        interval_s: time between two pings, s.
        to_clock_s: what another clock shows above the time of day, s.

    Returns:
        When each was sent (s on that clock), and its round trip (ms; NaN: no answer so far).
    """
    seen: dict[int, tuple[float, float]] = {}
    for at_s, unanswered, number, rtt_ms in _LINE.findall(text):
        # `ping` notes an answer when it comes, and the lack of one when the next ping is sent.
        sent_s = float(at_s) + to_clock_s - (float(rtt_ms) / 1000 if rtt_ms else interval_s)
        if rtt_ms:
            seen[int(number)] = (sent_s, float(rtt_ms))
        elif unanswered:
            seen.setdefault(int(number), (sent_s, math.nan))
    return [seen[number] for number in sorted(seen)]
