# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Sparse pings beside a probe, on a socket of their own, so that queues per flow or per protocol separate the two."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from perigee.measuring.ping import PingPlan, ping
from perigee.measuring.round_trips import LIMITED, Outcome, RoundTrips

INTERVAL_S = 0.2
"""Time between two pings beside a probe, s; chosen: below 2 kbit/s, and five in each second of load."""
IDLE_S = 3.0
"""Time with pings only before each rate, s; chosen: 15 pings, and queues of the rate before it are empty again."""
_TIMEOUT_S = 3.0
_LOOK_S = 0.05


class Pings:
    """A thread with pings, from the begin of a `with` block to its end.

    Args:
        host: name or address of the server.
        token: the secret of both ends.
        port: UDP port of the server.
    """

    def __init__(self, host: str, token: bytes, port: int) -> None:
        self._plan = PingPlan(host, token, port=port, interval_s=INTERVAL_S, timeout_s=_TIMEOUT_S)
        self._seen: list[tuple[float, Outcome]] = []
        self._is_over = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="pings", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def check(self) -> None:
        """Raise what ended the thread.

        Raises:
            RunError: the server does not answer pings.
        """
        if self._error is not None:
            raise self._error

    def wait_until(self, sent_s: float, go_on: Callable[[], bool]) -> bool:
        """Wait until the pings sent before an instant of the monotonic clock are answered or lost.

        Args:
            sent_s: the instant, s.
            go_on: called regularly; returns whether to go on waiting.

        Returns:
            False if `go_on` said no.

        Raises:
            RunError: the server does not answer pings.
        """
        while time.monotonic() < sent_s + _TIMEOUT_S + 1 and not (self._seen and self._seen[-1][0] >= sent_s):
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
        own = [(sent, outcome) for sent, outcome in self._seen if begin_s <= sent <= end_s and outcome != LIMITED]
        return {
            "sent_s": [round(sent - load_s, 4) for sent, _ in own],
            "rtt_ms": [round(outcome, 3) if isinstance(outcome, float) else None for _, outcome in own],
        }

    def _run(self) -> None:
        def go_on(_counted: RoundTrips) -> bool:
            return not self._is_over.is_set()

        try:
            ping(self._plan, go_on=go_on, each=lambda sent, outcome: self._seen.append((sent, outcome)))
        except Exception as error:
            self._error = error
