# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Latency under load of a real path: pings before, beside and after transfers of iperf3 in one or both directions.

The load is that of the test "real-time response under load" (RRUL) of D. Taht and T. Hoiland-Jorgensen's Flent: several
TCP transfers in each direction at once. The pings are those of the system's `ping`.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perigee.analysis import iperf3, logs
from perigee.analysis.log import Flow
from perigee.engines.live.client import Local, end
from perigee.errors import InputError, RunError
from perigee.files import read_bounded, storage_errors
from perigee.measuring.beside import SystemPing, need_ping
from perigee.measuring.in_band import Difference, difference

SYSTEM_PINGS, TRANSFERS, PLAN = "pings.txt", "iperf3.json", "plan.json"
"""Files of a measurement."""
OWN_PINGS = "pings.csv"
"""Pings of a measurement of version 0.1, which had them from a server of its own."""
DIRECTIONS = ("both", "down", "up")
MOST_STREAMS = 32
REPORT_S = 0.2
"""Time between two counts of the transfers, s."""
BIN_S = 1.0
"""Bins of the throughput, s: a server of iperf3 counts once a second by default."""
PATIENCE_S = 60.0
"""Time beyond the planned one after which the transfers are ended, s."""
_LOOK_S = 0.1
_MOST_BYTES = 1 << 28

GoOn = Callable[[str, float], bool]
"""Called ten times a second with the current activity and its share of the whole; returns whether to go on."""
Series = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LoadPlan:
    """Settings of a measurement.

    Attributes:
        host: the server's name or address.
        port: TCP port of its iperf3.
        direction: of the load, seen from this host: `both`, `down` or `up`.
        streams: TCP transfers in each direction.
        time_s: length of the load, whole seconds.
        idle_s: time without load before and after it, s.
        interval_s: between two pings, s.
        cc: congestion control at both ends; none: that of the hosts.
    """

    host: str
    port: int = 5201
    direction: str = "both"
    streams: int = 4
    time_s: int = 30
    idle_s: float = 5.0
    interval_s: float = 0.2
    cc: str | None = None

    @property
    def transfers(self) -> int:
        """TCP transfers in all directions."""
        return self.streams * (2 if self.direction == "both" else 1)

    @property
    def whole_s(self) -> float:
        """Length of the measurement without what iperf3 needs to begin and to end."""
        return self.time_s + 2 * self.idle_s


@dataclass(frozen=True)
class _Load:
    """A client of iperf3 with transfers in one direction or both."""

    plan: LoadPlan

    def line(self) -> list[str]:
        """Return the command line."""
        plan = self.plan
        line = ["iperf3", "--client", plan.host, "--port", str(plan.port), "--json", "--get-server-output"]
        line += ["--interval", f"{REPORT_S:g}", "--parallel", str(plan.streams), "--time", str(plan.time_s)]
        line += {"both": ["--bidir"], "down": ["--reverse"], "up": []}[plan.direction]
        return line + (["--congestion", plan.cc] if plan.cc else [])


@dataclass(frozen=True)
class Pings:
    """Pings of a part of a measurement.

    Attributes:
        rtt_ms: the round trip of each, ms; NaN: no answer came.

    Examples:
        >>> pings = Pings(np.array([0.02, 0.04, math.nan, 0.03]))
        >>> pings.sent, pings.loss, pings.quantile_ms(0.5), Pings(pings.rtt_ms[2:3]).quantile_ms(0.5)
        (4, 0.25, 0.03, nan)
    """

    rtt_ms: Series

    @property
    def answered_ms(self) -> Series:
        """The round trips of those that were answered."""
        return self.rtt_ms[np.isfinite(self.rtt_ms)]

    @property
    def sent(self) -> int:
        """How many were sent."""
        return len(self.rtt_ms)

    @property
    def loss(self) -> float:
        """Share without an answer; 0 without pings."""
        return 1 - len(self.answered_ms) / self.sent if self.sent else 0.0

    def quantile_ms(self, share: float) -> float:
        """Return the round trip that a share of the answered ones does not exceed, ms; NaN: none was answered."""
        return float(np.quantile(self.answered_ms, share)) if len(self.answered_ms) else math.nan


@dataclass(frozen=True)
class UnderLoad:
    """A measurement.

    Attributes:
        plan: its settings.
        sent_s: when each ping was sent, s since the first one.
        rtt_ms: its round trip, ms; NaN: no answer came.
        load_s: when the transfers began and ended, s.
        rates: by direction, throughput of all its transfers in each bin of `BIN_S` from the begin of the load,
            Mbit/s.
        retransmitted: by direction, packets that were retransmitted; none: its sender did not say.
        flow_rtt_ms: by direction, smoothed round trips of its transfers in the second half of the load, ms, of the
            kernel's TCP_INFO; empty: its sender did not say.
        notes: what the files do not say, for people.
    """

    plan: LoadPlan
    sent_s: Series
    rtt_ms: Series
    load_s: tuple[float, float]
    rates: dict[str, Series]
    retransmitted: dict[str, int | None]
    flow_rtt_ms: dict[str, Series]
    notes: tuple[str, ...]

    def pings(self, *, loaded: bool) -> Pings:
        """Return the pings without load, or beside it; those right after it still wait in its queues."""
        begin, last = self.load_s
        before, beside = self.sent_s < begin, (self.sent_s >= begin) & (self.sent_s <= last)
        return Pings(self.rtt_ms[beside if loaded else before])

    def difference(self, direction: str) -> Difference | None:
        """Compare the transfers of a direction with the pings in the second half of the load; none: not known."""
        flow_ms, (begin, last) = self.flow_rtt_ms[direction], self.load_s
        if not len(flow_ms):
            return None
        idle_ms = self.pings(loaded=False).quantile_ms(0.5)
        late = (self.sent_s >= (begin + last) / 2) & (self.sent_s <= last)
        return difference(max(float(np.median(flow_ms)) - idle_ms, 0.0), self.rtt_ms[late], idle_ms)

    def flow_quantiles_ms(self, direction: str, shares: tuple[float, ...]) -> list[float]:
        """Return the round trips that these shares of `flow_rtt_ms` do not exceed, ms; empty: not known."""
        values = self.flow_rtt_ms[direction]
        return [float(value) for value in np.quantile(values, shares)] if len(values) else []

    def mean_mbps(self, direction: str) -> float:
        """Return the mean throughput of a direction, Mbit/s."""
        return float(self.rates[direction].mean())


def measure(plan: LoadPlan, folder: Path, go_on: GoOn = lambda _what, _share: True) -> bool:
    """Measure, and write a new folder with the pings, what iperf3 wrote, and the plan.

    Args:
        plan: the settings.
        folder: a folder that does not exist yet.
        go_on: called regularly.

    Returns:
        True once the folder is complete; False if `go_on` said no, and nothing was written.

    Raises:
        InputError: the folder exists, or a program is missing.
        RunError: the path or its server failed.
        StorageError: the folder cannot be written.
    """
    _check(folder)
    with storage_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent)
    try:
        made = Path(place)
        made.chmod(0o755)
        if not _carry_out(plan, made, go_on):
            return False
        with storage_errors(folder):
            made.rename(folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return True


def _check(folder: Path) -> None:
    if folder.exists():
        raise InputError(f"{folder}: exists already; give another folder with --out")
    if shutil.which("iperf3") is None:
        raise InputError("iperf3 is not installed; install it with: apt install iperf3")
    need_ping()


def _carry_out(plan: LoadPlan, folder: Path, go_on: GoOn) -> bool:
    with _Schedule(plan, go_on).begun() as schedule:
        with SystemPing(plan.host, plan.interval_s, folder / SYSTEM_PINGS, plan.whole_s) as pings:
            while schedule.step():
                pings.check()
                time.sleep(_LOOK_S)
        if schedule.load is None:
            return False
        begun_s, output = schedule.load
    with storage_errors(folder):
        (folder / TRANSFERS).write_bytes(output)
        (folder / PLAN).write_text(json.dumps({**asdict(plan), "load_began_unix_s": round(begun_s, 3)}, indent=1))
    return True


class _Schedule:
    """Start and end the transfers between pings; its `step` is called regularly."""

    def __init__(self, plan: LoadPlan, go_on: GoOn) -> None:
        self._plan = plan
        self._go_on = go_on
        self._begun: float | None = None
        self._process: Local | None = None
        self._started = self._ended = math.inf
        self._started_unix_s = 0.0
        self._output = b""
        self._is_complete = False

    @contextmanager
    def begun(self) -> Iterator[_Schedule]:
        """End the transfers in any case."""
        try:
            yield self
        finally:
            if self._process is not None:
                end(self._process)
                self._process.forget()

    @property
    def load(self) -> tuple[float, bytes] | None:
        """When iperf3 was started, s since 1970, and its output; None until all is done."""
        return (self._started_unix_s, self._output) if self._is_complete else None

    def step(self) -> bool:
        """Do what is due; return whether to send further pings.

        Raises:
            RunError: the transfers failed.
        """
        now, plan = time.monotonic(), self._plan
        self._begun = now if self._begun is None else self._begun
        share = min((now - self._begun) / plan.whole_s, 0.99)
        if self._process is None and self._ended == math.inf:
            what = "idle before the load"
            if now - self._begun >= plan.idle_s:
                self._started, self._started_unix_s = now, time.time()
                self._process = Local(_Load(plan))
        elif self._process is not None:
            what = "under load"
            self._follow(self._process, now)
        else:
            what = "idle after the load"
            if now - self._ended >= plan.idle_s:
                self._is_complete = True
                return False
        return self._go_on(what, share)

    def _follow(self, process: Local, now: float) -> None:
        if process.poll() is None:
            if now - self._started > self._plan.time_s + PATIENCE_S:
                raise RunError(f"{self._where}: iperf3 did not end {PATIENCE_S:g} s after its time; is the path cut?")
            return
        self._output = b"".join(process.read("output"))
        complaint = b"".join(process.read("errors")).decode(errors="replace").strip()
        process.forget()
        self._process, self._ended = None, now
        try:
            (test,) = iperf3.read(self._output, "iperf3", is_whole=True)
        except (InputError, ValueError) as error:
            raise RunError(f"{self._where}: {complaint or error}; there: iperf3 --server --json") from error
        if test.error:
            raise RunError(f"{self._where}: {test.error}")

    @property
    def _where(self) -> str:
        return f"{self._plan.host}, TCP port {self._plan.port}"


def read(folder: Path) -> UnderLoad:
    """Read a measurement.

    Raises:
        InputError: the folder has none, or a file is damaged.
    """
    plan, begun_unix_s = _plan_of(folder)
    log = folder / (OWN_PINGS if (folder / OWN_PINGS).is_file() else SYSTEM_PINGS)
    if not log.is_file():
        raise InputError(f"{folder}: {log.name} is missing; give a folder that `perigee rrul` wrote")
    pings = list(logs.entries_of(log))
    sent_unix_s = np.array([at for at, _ in pings], dtype=np.float64)
    rtt_ms = np.array([math.nan if one is None else one for _, one in pings], dtype=np.float64)
    if log.name == SYSTEM_PINGS:
        # The system's `ping` prints when an answer came.
        sent_unix_s -= np.nan_to_num(rtt_ms) / 1000
    text = read_bounded(folder / TRANSFERS, _MOST_BYTES, "output of iperf3")
    (test,) = iperf3.read(text, str(folder / TRANSFERS))
    idle_ms = rtt_ms[(sent_unix_s < begun_unix_s) & np.isfinite(rtt_ms)]
    if not len(idle_ms):
        raise InputError(f"{log}: no ping was answered before the load; give a longer --idle")
    began = begun_unix_s - sent_unix_s[0] + _round_trips_to_begin(plan) * float(np.median(idle_ms)) / 1000
    flows = {way: [flow for flow in test.flows if flow.upload == (way == "up")] for way in ("down", "up")}
    flows = {way: some for way, some in flows.items() if some}
    lasted = max(flow.seen.arrivals[-1][0] for some in flows.values() for flow in some) / 1e9
    return UnderLoad(
        plan, sent_unix_s - sent_unix_s[0], rtt_ms, (began, began + lasted),
        {way: _rate(some) for way, some in flows.items()},
        {way: _retransmitted(some) for way, some in flows.items()},
        {way: _round_trips(some, lasted / 2) for way, some in flows.items()}, test.notes,
    )  # fmt: skip


def _round_trips_to_begin(plan: LoadPlan) -> int:
    """Return the round trips from the start of iperf3's client to its first data.

    Four for its control connection and the parameters, and one for each transfer, since it opens them one by one
    (iperf3 3.12, captured over a link of 600 ms: 12 with eight transfers).
    """
    return 4 + plan.transfers


def _plan_of(folder: Path) -> tuple[LoadPlan, float]:
    """Read the plan, and when iperf3 was started."""
    path = folder / PLAN
    try:
        values = json.loads(read_bounded(path, 1 << 16, "plan"))
        begun_unix_s = float(values.pop("load_began_unix_s"))
        values.pop("ping_port", None)
        plan = LoadPlan(**values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: damaged; give a folder that `perigee rrul` wrote") from error
    return plan, begun_unix_s


def _rate(flows: Sequence[Flow]) -> Series:
    """Return the throughput of transfers together in each bin, Mbit/s; the last bin is a whole one."""
    last = max(flow.seen.arrivals[-1][0] for flow in flows) / 1e9
    edges = np.arange(0, max(math.floor(last / BIN_S), 1) + 1) * BIN_S
    total = np.zeros(len(edges))
    for flow in flows:
        at, count = np.array([(0, 0), *flow.seen.arrivals], dtype=np.float64).T
        total += np.interp(edges, at / 1e9, count)
    rates: Series = np.diff(total) * 8 / BIN_S / 1e6
    return rates


def _round_trips(flows: Sequence[Flow], from_s: float) -> Series:
    """Return the round trips of transfers that their senders saw from a time of the load on, ms."""
    samples = [sample for flow in flows for sample in flow.seen.samples]
    return np.array(
        [rtt / 1e6 for at, _, _, rtt in samples if rtt is not None and at >= from_s * 1e9], dtype=np.float64
    )


def _retransmitted(flows: Sequence[Flow]) -> int | None:
    counts = [flow.seen.retransmitted_packets for flow in flows]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
