# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures the path to a named host for an advice: by ping, and by iperf3 or a probe where the host serves one.

All of it is bounded in time and bytes, and can be told before the first byte.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perigee.engines.live.client import Local, end
from perigee.errors import InputError, InterruptedRunError, RunError
from perigee.files import storage_errors
from perigee.measuring.beside import IDLE_S
from perigee.measuring.probe import ProbePlan, probe

GoOn = Callable[[str, float], bool]
"""Called with the current activity and its share; returns whether to go on."""

_HOST = re.compile(r"(?!-)[A-Za-z0-9._:%-]{1,253}(?<!-)")


@dataclass(frozen=True)
class Survey:
    """A measurement of the path to a host.

    Attributes:
        host: its name or address.
        most_bytes: bound of the payload of all transfers.
        iperf3_port: TCP and UDP port of its `iperf3 --server`; None: it has none.
        probe_port: UDP port of its `perigee probe --serve`.
        token: the secret of that; None: it has none.
    """

    host: str
    most_bytes: int
    iperf3_port: int | None = None
    probe_port: int = 0
    token: bytes | None = None

    def __post_init__(self) -> None:
        """Refuse what is no name of a host."""
        if not _HOST.fullmatch(self.host):
            raise InputError(f"{self.host}: is no file, and no name or address of a host")

    @property
    def told(self) -> Iterator[str]:
        """Its parts, a sentence each, with time and bytes."""
        yield f"ping (ICMP): {_PINGS} echo requests of 84 bytes each way in {_PINGS * _PING_EVERY_S:.0f} s"
        if self.iperf3_port is not None:
            port, most = self.iperf3_port, self._most_bps / 1e6
            yield (
                f"iperf3 (TCP, port {port}): {_DOWN_S} s down and {_UP_S} s up, at most {most:.0f} Mbit/s each, then "
                f"{_FLOOD_S} s down by UDP at {_FASTER} times what TCP had, at most {most:.0f} Mbit/s: it fills the "
                "path for its other users"
            )
        if self.token is not None:
            yield (
                f"perigee probe (UDP, port {self.probe_port}): rates from 1 Mbit/s up to {self._probe_bps / 1e6:.0f} "
                f"Mbit/s in both directions, {_STEP_S:.0f} s each: it fills the path for its other users"
            )
        size = f"{self.bytes_ / 1e6:.3g} MB"
        yield f"in all at most {self.most_s:.0f} s and {size} of payload, to {self.host} and nowhere else"

    @property
    def programs(self) -> list[str]:
        """The programs of others that it needs."""
        return ["ping", *(["iperf3"] if self.iperf3_port is not None else [])]

    @property
    def bytes_(self) -> int:
        """Most bytes of payload."""
        return _PINGS * 2 * 84 + (0 if self.iperf3_port is None and self.token is None else self.most_bytes)

    @property
    def most_s(self) -> float:
        """Longest time, s."""
        transfers = (_DOWN_S, _UP_S, *_FLOODS * [_FLOOD_S]) if self.iperf3_port is not None else ()
        steps = 2 * (math.ceil(math.log2(max(self._probe_bps / _FIRST_BPS, 1))) + _REFINED) if self.token else 0
        return (
            _PINGS * _PING_EVERY_S
            + _LATE_S
            + sum(one + _LATE_S for one in transfers)
            + steps * (_STEP_S + IDLE_S + 1)
            + _LATE_S
        )

    @property
    def _share_bytes(self) -> float:
        """Bound for each of iperf3 and the probe."""
        return self.most_bytes / max((self.iperf3_port is not None) + (self.token is not None), 1)

    @property
    def _most_bps(self) -> float:
        return self._share_bytes * 8 / (_DOWN_S + _UP_S + _FLOODS * _FLOOD_S)

    @property
    def _probe_bps(self) -> float:
        return max(self._share_bytes * 8 / (2 * _RATES * _STEP_S), _FIRST_BPS)

    def measure(self, folder: Path, go_on: GoOn) -> list[Path]:
        """Measure into a folder, and return the logs.

        Raises:
            InputError: a program is missing.
            RunError: the host does not answer, or a transfer failed.
        """
        for program in self.programs:
            if shutil.which(program) is None:
                raise InputError(f"{program} is not installed; install it with your package manager")
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)
        logs: list[Path] = []
        if self.iperf3_port is not None:
            logs += self._by_iperf3(folder, go_on)
        if self.token is not None:
            plan = ProbePlan(
                self.host, self.token, (_FIRST_BPS,), port=self.probe_port, directions=("down", "up"), time_s=_STEP_S,
                interval_s=_PROBE_EVERY_S, find=True, in_band=True, most_bps=round(self._probe_bps),
            )  # fmt: skip
            logs.append(folder / "probe.jsonl")
            probe(plan, logs[-1], go_on)
        # The pings are those of an idle path: its queues are empty again.
        time.sleep(_DRAIN_S)
        words = ["ping", "-n", "-D", "-i", f"{_PING_EVERY_S:g}", "-c", str(_PINGS), self.host]
        pings = folder / "ping.txt"
        said = _carried(words, pings, _PINGS * _PING_EVERY_S, "ping", go_on)
        if b"time=" not in pings.read_bytes():
            raise RunError(f"{self.host}: no ping was answered{f' ({said})' if said else ''}")
        return [*logs, pings]

    def _by_iperf3(self, folder: Path, go_on: GoOn) -> Iterator[Path]:
        """Carry the transfers one after the other, and yield their logs."""
        most = f"{self._most_bps:.0f}"
        client = [
            "iperf3",
            "--client",
            self.host,
            "--port",
            str(self.iperf3_port),
            "--json",
            "--connect-timeout",
            "5000",
        ]
        tcp = [*client, "--get-server-output", "--bitrate", most]
        down = folder / "down.json"
        self._transfer([*tcp, "--reverse", "--time", str(_DOWN_S)], down, _DOWN_S, go_on)
        yield down
        self._transfer([*tcp, "--time", str(_UP_S)], folder / "up.json", _UP_S, go_on)
        yield folder / "up.json"
        had = json.loads(down.read_bytes())["end"]["sum_received"]["bits_per_second"]
        rate = f"{min(self._most_bps, max(_FASTER * had, _FIRST_BPS)):.0f}"
        udp = [*client, "--udp", "--reverse", "--bitrate", rate, "--time", str(_FLOOD_S)]
        # iperf3 gives up where the first datagram of its connection is lost; without it TCP's rate is a lower bound.
        for _ in range(_FLOODS):
            with suppress(RunError):
                self._transfer(udp, folder / "udp.json", _FLOOD_S, go_on)
                yield folder / "udp.json"
                return
            time.sleep(_DRAIN_S)

    def _transfer(self, words: Sequence[str], log: Path, length_s: float, go_on: GoOn) -> None:
        said = _carried(words, log, length_s, log.stem, go_on)
        try:
            found = json.loads(log.read_bytes())
            why = found.get("error") or (
                "" if "sum_received" in found["end"] or "sum" in found["end"] else "it carried nothing"
            )
        except (ValueError, KeyError, AttributeError):
            why = said or "it wrote nothing that can be read"
        if why:
            raise RunError(f"{self.host}, port {self.iperf3_port}: iperf3: {why}; there: iperf3 --server --json")


def _carried(words: Sequence[str], log: Path, length_s: float, what: str, go_on: GoOn) -> str:
    """Run a program into a log for as long as it may take; return what it complained of.

    Raises:
        InterruptedRunError: `go_on` said no.
    """
    process = Local(_Line(words))
    begun = time.monotonic()
    try:
        while process.poll() is None and time.monotonic() - begun < length_s + _LATE_S:
            if not go_on(what, min((time.monotonic() - begun) / length_s, 1.0)):
                raise InterruptedRunError("stopped; nothing is advised")
            time.sleep(_LOOK_S)
        end(process)
        with storage_errors(log):
            log.write_bytes(b"".join(process.read("output")))
        return b"".join(process.read("errors")).decode(errors="replace").strip()
    finally:
        process.forget()


@dataclass(frozen=True)
class _Line:
    words: Sequence[str]

    def line(self) -> list[str]:
        """Return the command line."""
        return list(self.words)


MOST_BYTES = 500_000_000
_PINGS, _PING_EVERY_S = 300, 0.2
"""As many as tell how a delay varies, at the pace that `ping` grants any user."""
_DOWN_S, _UP_S, _FLOOD_S, _FLOODS = 20, 10, 10, 2
_FASTER = 10
"""Rate of the datagrams in rates of TCP, which losses may have held."""
_FIRST_BPS = 1_000_000
_STEP_S, _PROBE_EVERY_S = 5.0, 0.001
_RATES, _REFINED = 7, 5
"""Bytes of a direction in those of its largest rate (doubled up to it, then four around), and rates beyond doubling."""
_LATE_S, _LOOK_S, _DRAIN_S = 15.0, 0.1, 2.0
"""Time beyond the planned one after which a program is ended; between two looks at it; for queues to drain."""
