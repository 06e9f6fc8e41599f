# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Holds the preset `ns-2` against ns-2: scripted transfers in both, and a table of what each did."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import polars as pl
from compare import HERE, MISSING, PAGE, ROOT

from perigee.core import native
from perigee.store.results import Results

BEGIN, END = "<!-- transfers -->", "<!-- end -->"
DELAY_S, SEGMENTS = 0.02, 200
HEADER = 40
"""Bytes of IP and TCP header without options."""


@dataclass(frozen=True)
class Sent:
    """A segment that the sender hands to its link.

    Attributes:
        at_s: when, from its first packet of the connection.
        number: the segment's, from 1: packet 0 of ns-2 stands for the SYN-ACK.
        payload: bytes without the header of 40.
        window: congestion window after it was sent, segments.
    """

    at_s: float
    number: int
    payload: int
    window: int


@dataclass(frozen=True)
class Transfer:
    """The course of a sender.

    Attributes:
        sent: its segments with data, in order.
        awaited: of each acknowledgement that arrived, the number of the segment that it awaits.
    """

    sent: Sequence[Sent]
    awaited: Sequence[int]

    def again(self) -> list[Sent]:
        """Return the retransmissions."""
        seen: set[int] = set()
        found = []
        for one in self.sent:
            if one.number in seen:
                found.append(one)
            seen.add(one.number)
        return found


Value = float | str
Read = Callable[[Transfer], Value]


@dataclass(frozen=True)
class Quantity:
    """A quantity that is compared.

    Attributes:
        name: in the table.
        read: its value; a text is equal or not.
        within: difference that is none, in its unit.
        why: the reason of a larger difference, where there is one.
    """

    name: str
    read: Read
    within: float = 0.0
    why: str = ""

    def agrees(self, theirs: Value, ours: Value) -> bool:
        """Return whether two values are the same within the tolerance."""
        if isinstance(theirs, str) or isinstance(ours, str):
            return theirs == ours
        return abs(theirs - ours) <= self.within


@dataclass(frozen=True)
class Scenario:
    """A transfer by a script.

    Attributes:
        name: of its files.
        about: what happens, for the table.
        quantities: what is compared.
        lost: packets lost on their way to the receiver, in the order in which they enter the link, from 0.
        syns: how often the first packet is lost; here that is the SYN, which ns-2 does not have.
        rate_bps: of the link.
        step: when the delay towards the receiver rises (s, of the sender's clock), and to what.
        delayed: whether the receiver delays acknowledgements; those of ns-2's plain sinks do not.
        sack: whether both ends have SACK; without, ns-2's sender is `TCP/Newreno`.
        segments: size of the transfer.
    """

    name: str
    about: str
    quantities: Sequence[Quantity]
    lost: Sequence[int] = ()
    syns: int = 0
    step: tuple[float, float] | None = None
    rate_bps: int = 10_000_000
    delayed: bool = False
    sack: bool = True
    segments: int = SEGMENTS

    @property
    def agents(self) -> tuple[str, str]:
        """Sender and receiver of ns-2, as classes of its agents."""
        sender, sink = ("TCP/Sack1", "TCPSink/Sack1") if self.sack else ("TCP/Newreno", "TCPSink")
        return sender, f"{sink}/DelAck" if self.delayed else sink


Row = tuple[Scenario, Quantity, Value, Value]


def main() -> int:
    """Write the tables into the page; 1 where a difference has no reason, or a setting shows nowhere."""
    if shutil.which("ns") is None:
        print(MISSING)
        return 0
    with tempfile.TemporaryDirectory() as own:
        rows = compared(Path(own))
        shown = held(rows, Path(own))
    before, mark, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise SystemExit(f"{PAGE}: has no place for the tables, `{BEGIN}` and `{END}`")
    PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{held_table(shown)}{END}{after}", encoding="utf-8")
    wrong = [*unexplained(rows), *(f"{name}: its default shows nowhere" for name, found in shown.items() if not found)]
    print(*wrong, f"{PAGE.relative_to(ROOT)}: the scripted transfers are written", sep="\n")
    return 1 if wrong else 0


def compared(folder: Path) -> list[Row]:
    """Carry all scenarios out in both, and return the values of each, ns-2's first."""
    found: list[Row] = []
    for scenario in SCENARIOS:
        theirs, ours = ns2(scenario, folder), simulated(scenario, folder)
        found += [(scenario, one, one.read(theirs), one.read(ours)) for one in scenario.quantities]
    return found


def ns2(scenario: Scenario, folder: Path) -> Transfer:
    """Carry a scenario out in ns-2."""
    trace = folder / f"{scenario.name}.tr"
    at_s, delay_s = scenario.step or (UNTIL_S, DELAY_S)
    numbers = [
        scenario.rate_bps,
        DELAY_S,
        scenario.segments,
        UNTIL_S,
        at_s,
        delay_s,
        *scenario.lost,
        *range(scenario.syns),
    ]
    command = ["ns", str(HERE / "transfer.tcl"), str(trace), *scenario.agents, *map(str, numbers)]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    return read_ns2(trace.read_text(encoding="utf-8").splitlines())


def read_ns2(lines: Iterable[str]) -> Transfer:
    """Return a transfer from the trace of `transfer.tcl`.

    Examples:
        >>> lines = ["0.00000  0  0  1  0  cwnd_ 1.000 ", "+ 0 0 1 tcp 40 ------- 0 0.0 1.0 0 0",
        ...          "r 0.04 1 0 ack 40 ------- 0 1.0 0.0 0 1", "+ 0.04 0 1 tcp 1500 ------- 0 0.0 1.0 1 2",
        ...          "0.04000  0  0  1  0  cwnd_ 2.500 ", "r 0.08 1 0 ack 40 ------- 0 1.0 0.0 1 3"]
        >>> read_ns2(lines)
        Transfer(sent=[Sent(at_s=0.04, number=1, payload=1460, window=2)], awaited=[2])
    """
    sent: list[tuple[float, int, int]] = []
    awaited: list[int] = []
    windows: list[tuple[float, float]] = []
    for words in (line.split() for line in lines):
        if words[5:6] == ["cwnd_"]:
            windows.append((float(words[0]), float(words[6])))
        elif words[0] == "+" and words[4] == "tcp" and words[10] != "0":
            sent.append((float(words[1]), int(words[10]), int(words[5]) - HEADER))
        elif words[0] == "r" and words[4] == "ack" and words[10] != "0":
            awaited.append(int(words[10]) + 1)
    return Transfer([Sent(at, number, size, _window(windows, at)) for at, number, size in sent], awaited)


def _window(windows: Sequence[tuple[float, float]], at_s: float) -> int:
    """Return the whole segments of the window after what happened at an instant; the trace has it to 10 us."""
    return int(next(value for at, value in reversed(windows) if at <= at_s + 1e-5))


def simulated(scenario: Scenario, folder: Path, *but: str) -> Transfer:
    """Carry a scenario out in the simulator, with the preset `ns-2` `but` for other values, as `--set` takes them."""
    out = folder / f"{scenario.name}.results"
    shutil.rmtree(out, ignore_errors=True)
    steps = ["time_s, delay_ms", f"0, {1000 * DELAY_S:g}"]
    if scenario.step:
        steps.append(f"{scenario.step[0] + DELAY_S:g}, {1000 * scenario.step[1]:g}")
    given = ["hosts.delayed_acks=true"] if scenario.delayed else []
    given += [] if scenario.sack else ["hosts.sack=false"]
    given += [
        *but,
        f"flows.transfer.size={1460 * scenario.segments} B",
        f"links.link.rate={scenario.rate_bps} bit/s",
        f"links.link.down.timeline={json.dumps(steps)}",
    ]
    for direction, lost in (("down", scenario.lost), ("up", range(scenario.syns))):
        if lost:
            drops = ", ".join(f"{{ packet = {number + 1} }}" for number in lost)
            given.append(f'links.link.{direction}.loss={{ kind = "counted", drops = [{drops}] }}')
    command = [sys.executable, "-m", "perigee", "run", str(HERE / "transfer.toml"), "--out", str(out)]
    command += [word for one in given for word in ("--set", one)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return read_events(Results(out).table("events"))


def read_events(events: pl.DataFrame) -> Transfer:
    """Return a transfer from the table `events`. The sender's first packet, its SYN-ACK, follows the client's SYN."""
    sent = events.filter(pl.col("event").is_in(["sent", "retransmitted"]))
    acks = events.filter(pl.col("event") == "ack")
    columns = ("t_s", "sequence", "segment_bytes", "cwnd_packets")
    return Transfer(
        [
            Sent(at - DELAY_S, start // 1460 + 1, size, window)
            for at, start, size, window in sent.select(columns).rows()
        ],
        [start // 1460 + 1 for start in acks["sequence"]],
    )


def held(rows: Sequence[Row], folder: Path) -> dict[str, str]:
    """Return for each setting of the preset where its default would show: what agrees, and would not."""
    return {name: _shows(f"hosts.{name}={value}", rows, folder) for name, value in defaults().items()}


def _shows(setting: str, rows: Sequence[Row], folder: Path) -> str:
    for scenario in SCENARIOS:
        other = simulated(scenario, folder, setting)
        for _, one, theirs, ours in (row for row in rows if row[0] is scenario):
            if one.agrees(theirs, ours) and not one.agrees(theirs, one.read(other)):
                return f"{scenario.about}: {one.name} {_shown(one.read(other))}"
    return ""


def defaults() -> dict[str, str]:
    """Return the default of each setting that the preset has another value of, as a study would write it."""
    systems = {system.name: system.settings for system in native.host_systems()}
    usual = {name: value for name, value, _ in systems["linux-6.18"]}
    changed = [name for name, _, source in systems["ns-2"] if source]
    return {name: {"on": "true", "off": "false"}.get(usual[name], usual[name]) for name in changed}


def table(rows: Sequence[Row]) -> str:
    """Return the table of the page."""
    text = "| transfer | quantity | ns-2 | here | |\n|---|---|---:|---:|---|\n"
    before = None
    for scenario, quantity, theirs, ours in rows:
        name = "" if scenario is before else scenario.about
        verdict = "agrees" if quantity.agrees(theirs, ours) else quantity.why or "differs"
        text += f"| {name} | {quantity.name} | {_shown(theirs)} | {_shown(ours)} | {verdict} |\n"
        before = scenario
    return text


def held_table(found: Mapping[str, str]) -> str:
    """Return the table of the preset's settings, each with what its default would do."""
    usual = defaults()
    rows = (f"| `{name}` | {usual[name]} | {shows or 'nothing: not held'} |\n" for name, shows in found.items())
    return "| setting | default | what differs from ns-2 with the default |\n|---|---|---|\n" + "".join(rows)


def _shown(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:.3f}" if isinstance(value, float) else str(value)


def unexplained(rows: Sequence[Row]) -> list[str]:
    """Return what differs without a reason, and each reason whose difference is gone."""
    found = []
    for scenario, quantity, theirs, ours in rows:
        agrees = quantity.agrees(theirs, ours)
        if agrees == bool(quantity.why):
            said = "agrees, but has a reason for differing" if agrees else "differs without a reason"
            found.append(f"{scenario.name}: {quantity.name}: ns-2 {_shown(theirs)}, here {_shown(ours)}: {said}")
    return found


def _flights(transfer: Transfer) -> Value:
    """The first round trips: how many segments leave in each."""
    sizes = [1]
    for one, other in pairwise(transfer.sent):
        if other.at_s - one.at_s > DELAY_S:
            sizes.append(0)
        sizes[-1] += 1
    return ", ".join(map(str, sizes[:6]))


def _sent_s(number: int) -> Read:
    return lambda transfer: next(one.at_s for one in transfer.sent if one.number == number)


def _retransmissions(transfer: Transfer) -> Value:
    return len(transfer.again())


def _again_s(place: int) -> Read:
    """When a retransmission leaves, by its place among them."""
    return lambda transfer: transfer.again()[place].at_s if len(transfer.again()) > place else "none"


def _resent_s(number: int) -> Read:
    """When a segment is sent again."""
    return lambda transfer: next((one.at_s for one in transfer.again() if one.number == number), "never")


def _window_after(transfer: Transfer) -> Value:
    """The window when a segment leaves after the first retransmission, or that one where none does."""
    if not transfer.again():
        return "none"
    place = transfer.sent.index(transfer.again()[0])
    return transfer.sent[place : place + 2][-1].window


def _slow_start_s(transfer: Transfer) -> Value:
    """When the first segment leaves with a window of one."""
    return next((one.at_s for one in transfer.sent[1:] if one.window == 1), "never")


def _window_with(number: int) -> Read:
    """The window when a segment leaves for the first time."""
    return lambda transfer: next(one.window for one in transfer.sent if one.number == number)


def _awaiting(number: int) -> Read:
    """How many acknowledgements await a segment."""
    return lambda transfer: transfer.awaited.count(number)


def _acks(transfer: Transfer) -> Value:
    """How many acknowledgements of data arrived but for the last, of all, which may come with a FIN's."""
    return len([number for number in transfer.awaited if 1 < number <= SEGMENTS])


def _end_s(transfer: Transfer) -> Value:
    return transfer.sent[-1].at_s


def _waits_s(transfer: Transfer) -> list[float]:
    """Return the times between the retransmissions of the segment that times out last."""
    pairs = list(pairwise(transfer.again()))
    return [after.at_s - one.at_s for one, after in pairs if one.number == after.number == pairs[-1][1].number]


def _factors(transfer: Transfer) -> Value:
    return ", ".join(f"{after / one:.2f}" for one, after in pairwise(_waits_s(transfer)))


def _longest_s(transfer: Transfer) -> Value:
    return max(_waits_s(transfer), default="none")


UNTIL_S = 400
PACKET_S, TICKS_S = 0.002, 0.03
"""A packet's time on the link and more; three ticks of ns-2's clock, by which it measures round trips and timeouts."""
COUNTS_LOST = "ns-2 takes lost segments for ones on their way until they are sent again; RFC 6675 does not"
GROWTH = (
    "follows; and in congestion avoidance ns-2 adds 1/window with each ACK, to a window that grows meanwhile; "
    "here a whole segment after a window of ACKs"
)
NO_SLOW_START = (
    "a timeout of packet 0 halves ns-2's ssthresh, to 2: no slow start follows. "
    "Of a lost SYN-ACK RFC 5681 (3.1) says one segment, and nothing of ssthresh"
)
"""Reasons, each traced in the sends, the windows and the acknowledgements of both."""

RETRANSMISSIONS = Quantity("retransmissions", _retransmissions)
FIRST = Quantity("the first leaves, s", _again_s(0), PACKET_S)
SECOND = Quantity("the second leaves, s", _again_s(1), PACKET_S)
WINDOW = Quantity("window after it, segments", _window_after)
LAST = Quantity("segment 200 leaves, s", _sent_s(200), PACKET_S)
"""Quantities of several scenarios."""

SCENARIOS: Sequence[Scenario] = (
    Scenario(
        "clean",
        "nothing is lost",
        (
            Quantity("segments in the first round trips", _flights),
            Quantity("payload of a segment, bytes", lambda transfer: transfer.sent[0].payload),
            Quantity("acknowledgements before the last", _acks),
            *(Quantity(f"segment {number} leaves, s", _sent_s(number), PACKET_S) for number in (1, 20, 60, 200)),
        ),
    ),
    Scenario(
        "delayed",
        "nothing is lost, and acknowledgements are delayed",
        (
            Quantity("segments in the first round trips", _flights),
            Quantity("acknowledgements before the last", _acks),
            *(Quantity(f"segment {number} leaves, s", _sent_s(number), PACKET_S) for number in (1, 20, 60, 200)),
        ),
        delayed=True,
    ),
    Scenario(
        "first",
        "the SYN-ACK is lost",
        (
            Quantity("segment 1 leaves, s", _sent_s(1), PACKET_S),
            Quantity("segment 2 leaves, s", _sent_s(2), PACKET_S),
            Quantity("segments in the first round trips", _flights, why=NO_SLOW_START),
            Quantity("segment 200 leaves, s", _sent_s(200), PACKET_S, why=NO_SLOW_START),
        ),
        lost=(0,),
    ),
    Scenario(
        "twice",
        "the first packet is lost twice (here the SYN)",
        (Quantity("segment 1 leaves, s", _sent_s(1), PACKET_S),),
        syns=2,
    ),
    Scenario(
        "one",
        "segment 20 is lost",
        (
            RETRANSMISSIONS,
            FIRST,
            WINDOW,
            Quantity("acknowledgements that await segment 20", _awaiting(20)),
            LAST,
        ),
        lost=(20,),
    ),
    Scenario(
        "two",
        "segments 20 and 21 are lost",
        (
            RETRANSMISSIONS,
            FIRST,
            SECOND,
            WINDOW,
            Quantity("acknowledgements that await segment 20", _awaiting(20)),
            LAST,
        ),
        lost=(20, 21),
    ),
    Scenario(
        "fast",
        "segment 60 is lost, at 100 Mbit/s, and acknowledgements are delayed",
        (
            RETRANSMISSIONS,
            Quantity("acknowledgements that await segment 60", _awaiting(60)),
        ),
        lost=(60,),
        rate_bps=100_000_000,
        delayed=True,
    ),
    Scenario(
        "burst",
        "13 segments are lost",
        (
            RETRANSMISSIONS,
            FIRST,
            Quantity("the second leaves, s", _again_s(1), PACKET_S, why=COUNTS_LOST),
            Quantity("window after the first, segments", _window_after),
            Quantity("the last segment leaves, s", _end_s, PACKET_S, why=GROWTH),
        ),
        lost=tuple(range(60, 73)),
    ),
    Scenario(
        "newreno",
        "13 segments are lost, and there is no SACK",
        (
            RETRANSMISSIONS,
            FIRST,
            SECOND,
            Quantity("segment 62 is sent again, s", _resent_s(62), PACKET_S),
            Quantity("the first after the timeout leaves, s", _slow_start_s, PACKET_S),
            Quantity("window with segment 300, segments", _window_with(300), 1),
        ),
        lost=tuple(range(60, 73)),
        sack=False,
        segments=400,
    ),
    Scenario(
        "tail",
        "the last segment is lost",
        (
            RETRANSMISSIONS,
            Quantity("it leaves, s", _again_s(0), TICKS_S),
            WINDOW,
        ),
        lost=(200,),
    ),
    Scenario(
        "again",
        "segment 20 and its retransmission are lost",
        (
            RETRANSMISSIONS,
            Quantity("the second leaves, s", _again_s(1), TICKS_S),
            Quantity("window after the first, segments", _window_after),
        ),
        lost=(20, 38),
    ),
    Scenario(
        "step",
        "the delay rises by 500 ms",
        (
            RETRANSMISSIONS,
            Quantity("the first leaves, s", _again_s(0), TICKS_S),
            WINDOW,
            Quantity("segment 200 leaves, s", _sent_s(200), TICKS_S),
        ),
        step=(0.2, 0.52),
    ),
    Scenario(
        "outage",
        "nothing arrives any more",
        (
            Quantity("the first timeout, s", _again_s(0), TICKS_S),
            Quantity("each wait for the next over that before", _factors),
            Quantity("the longest, s", _longest_s, PACKET_S),
        ),
        lost=tuple(range(60, 200)),
    ),
)


if __name__ == "__main__":
    sys.exit(main())
