# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The cells of a score: small fixed studies, each about a criterion of RFC 9743, and the figures taken of them.

Thresholds are those of `perigee cc evaluate`, or nearest to them where a cell is shorter than its study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import Template
from typing import Any

from perigee.evaluation.criterion import WAIT
from perigee.evaluation.rules import RATES_OF_CUBIC, TIMES_OF_CUBIC, Rule, Verdict
from perigee.fitness import figures
from perigee.fitness.figures import Figure
from perigee.keeper.studies import CANDIDATE, CANDIDATE_KEY, ENDS, OTHER, small_study

ROUNDS = 6
"""Runs of each cell, of different seeds."""
SERIES_MS = 200
DOCUMENT = Verdict.DOCUMENT
JITTER_S = 0.2
JITTER = {"start_jitter": f"{1e3 * JITTER_S:g} ms"}
LONG = {**ENDS, "duration": "$sent s", **JITTER}
FLOW = {"name": CANDIDATE, **LONG}
SIX, FOUR = ({"name": CANDIDATE, "count": count, **LONG} for count in (6, 4))
CUBIC, RENO = ({"name": OTHER, "cc": cc, **LONG} for cc in ("cubic", "reno"))
LATE = {"name": "late", **ENDS, "start": "$third s", "duration": "$rest s", **JITTER}
TRANSFER = {"name": CANDIDATE, **ENDS, "size": "10 MB", **JITTER}
RESPONSES = {
    "name": CANDIDATE, **ENDS, "kind": "request", "request": "100 B", "response": "20 kB", "think": "50 ms",
    "repeat": "$requests", **JITTER,
}  # fmt: skip
SHORT = {
    "name": OTHER, **ENDS, "kind": "transactions", "cc": "cubic", "start": "2 s", "duration": "$less s",
    "interval": "100 ms", "request": "400 B", "responses": ["30 kB"],
}  # fmt: skip
KEEPS = Rule("at least 0.8 times what it has beside CUBIC or Reno", of_cubic=0.8, or_reno=True)
SHORT_TIMES = Rule("at most 1.25 times that beside CUBIC or Reno", of_cubic=1.25, or_reno=True)


@dataclass(frozen=True)
class Mark:
    """A figure of a cell.

    Attributes:
        name: its name for programs.
        title: what is measured.
        unit: its unit; empty of ratios.
        figure: takes it from the tables of a run.
        rule: the threshold.
        floor: differences below this are none, in its unit; it is added to both sides of a ratio.
    """

    name: str
    title: str
    unit: str
    figure: Figure
    rule: Rule
    floor: float


@dataclass(frozen=True)
class Cell:
    """A small study.

    Attributes:
        name: its name.
        criterion: id of the criterion of `perigee cc evaluate`.
        link: keys of its link.
        flows: the flows; `$sent`, `$half`, `$third`, `$rest`, `$less` in them and in the link are times, `$requests` is
            a number of requests.
        marks: the figures.
        lengths_s: its length, and the shorter ones at which harm may show.
        ecn: whether all flows use ECN.
        key: the key that puts the candidate in.
    """

    name: str
    criterion: str
    link: Mapping[str, Any]
    flows: Sequence[Mapping[str, Any]]
    marks: Sequence[Mark]
    lengths_s: Sequence[float] = (30.0, 15.0, 8.0)
    ecn: bool = False
    key: str = CANDIDATE_KEY

    def study(
        self, algorithms: Sequence[str], *, length_s: float = 0.0, name: str = "", title: str = "", rounds: int = ROUNDS
    ) -> str:
        """Return its study as text of at most ten lines.

        Args:
            algorithms: names of congestion controls, or paths of files.
            length_s: its length; 0: the first of `lengths_s`.
            name: name of the study.
            title: its title.
            rounds: number of runs of each.
        """
        length = length_s or self.lengths_s[0]
        # Flows end within the time limit, also those that begin last: else none of them would be completed.
        sent = length - JITTER_S
        times = {"sent": sent, "half": length / 2, "third": length / 3, "rest": sent - length / 3, "less": length - 2}
        # Each takes 108 ms: a round trip, a pause, and the response at the link's rate.
        words = {word: f"{time:.6g}" for word, time in times.items()} | {"requests": f"{8 * length:.0f}"}
        link, flows = _filled(self.link, words), [_filled(one, words) for one in self.flows]
        head = {"name": name or self.name, "title": title, "rounds": rounds, "time_limit": f"{length:.6g} s"}
        return small_study(head, algorithms, link, flows, SERIES_MS, key=self.key, ecn=self.ecn)


def _filled(keys: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    """Return keys with the times and numbers in their texts, also those of lists."""

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(one) for one in value]
        text = Template(value).substitute(words) if isinstance(value, str) else value
        return int(text) if isinstance(text, str) and text.isdecimal() else text

    return {key: filled(value) for key, value in keys.items()}


def _link(rate_mbps: int, rtt_ms: int, bdp: float, **rest: Any) -> dict[str, Any]:
    return {"rate": f"{rate_mbps} Mbit/s", "delay": f"{rtt_ms // 2} ms", "queue": {"bdp": bdp}, **rest}


def _outages(every: str, first: str, length: str, **rest: str) -> dict[str, str]:
    return {"kind": "periodic", "period": every, "phase": first, "length": length, **rest}


GOODPUT = Mark("goodput", "Goodput", "Mbit/s", figures.goodput, RATES_OF_CUBIC, 0.01)
KEPT = Mark("others_goodput", "Goodput of the flow beside it", "Mbit/s", figures.goodput_of_other, KEEPS, 0.01)
OWN = Mark("own_goodput", "Goodput beside another flow", "Mbit/s", figures.goodput,
    Rule("at least half of CUBIC's", of_cubic=0.5, missed=DOCUMENT), 0.01)  # fmt: skip
MARKING = {
    "rate": "20 Mbit/s",
    "delay": "25 ms",
    "down": {"queue": {"bytes": "1 MB", "aqm": {"kind": "codel", "ecn": True}}},
}

CELLS = (
    Cell("collapse", "5.1.1",
        _link(10, 100, 1, loss=_outages("1000 s", "5 s", "900 s", loss="30 %")), (FLOW,),
        (Mark("packets_per_round_trip", "Packets sent per round trip 30 s after 30 % of loss began", "packets",
            figures.packets_per_round_trip(100),
            Rule("at most 1", limit=1, owner="RFC 3714, as NeST reads it; 30 s: ours"), 0.01),),
        (65.0,)),
    Cell("deep-queue", "5.1.2", _link(10, 50, 4), (FLOW,),
        (Mark("wait", "Mean wait in a FIFO of four bandwidth-delay products", "ms", figures.waiting(50), WAIT, 1),)),
    Cell("shallow-queue", "5.1.3", _link(20, 40, 0.25), (SIX,),
        (Mark("drops", "Packets that a queue of a quarter of the bandwidth-delay product drops", "%", figures.drops,
            Rule("at most 2 %, or twice CUBIC's", limit=2, of_cubic=2), 0.1),), (20.0, 10.0, 5.0)),
    Cell("equal-flows", "5.1.4", _link(20, 40, 1), (FOUR,),
        (Mark("jain", "Jain's index of four flows", "", figures.jain,
            Rule("at least 0.9, or 0.9 times CUBIC's", limit=0.9, of_cubic=0.9, missed=DOCUMENT), 0.01),)),
    Cell("late-flow", "5.1.4", _link(20, 40, 1), (FLOW, LATE),
        (Mark("late_share", "Goodput of a flow that comes late, over its fair share", "", figures.late_share,
            Rule("at least 0.5, or 0.8 times CUBIC's", limit=0.5, of_cubic=0.8, missed=DOCUMENT), 0.01),),
        (45.0, 30.0), key="flow.cc"),
    Cell("beside-cubic", "5.2.1", _link(10, 50, 1), (FLOW, CUBIC), (KEPT, OWN), (40.0, 20.0, 10.0)),
    Cell("beside-reno", "5.2.1", _link(20, 100, 1), (FLOW, RENO), (KEPT, OWN), (60.0, 30.0, 15.0)),
    Cell("beside-cubic-shallow", "5.2.1", _link(20, 100, 0.25), (FLOW, CUBIC), (KEPT,), (40.0, 20.0, 10.0)),
    Cell("short-transfers", "5.2.3", _link(10, 50, 1), (FLOW, SHORT),
        (
            Mark("short_median", "Median time of 30 kB by CUBIC beside it", "ms", figures.short_time("p50_ms"),
                SHORT_TIMES, 1),
            Mark("short_p95", "95th percentile of that time", "ms", figures.short_time("p95_ms"), SHORT_TIMES, 1),
        )),
    Cell("wired", "6.3", _link(50, 30, 1), (FLOW,),
        (replace(GOODPUT, rule=Rule("at least 0.9 times CUBIC's", of_cubic=0.9, missed=DOCUMENT)),), (15.0,)),
    Cell("random-loss", "6.4", _link(20, 40, 1, down={"loss": "0.1 %"}), (FLOW,), (GOODPUT,)),
    Cell("marking-queue", "7.1", MARKING, (FLOW,),
        (
            GOODPUT,
            Mark("wait", "Mean wait in a queue with CoDel", "ms", figures.waiting(50),
                Rule("at most 20 ms, or twice CUBIC's", limit=20, of_cubic=2, missed=DOCUMENT), 1),
        ), ecn=True),
    Cell("beside-cubic-marked", "7.1", MARKING, (FLOW, CUBIC), (KEPT,), (40.0, 20.0, 10.0), ecn=True),
    Cell("longer-path", "7.3",
        {"rate": "20 Mbit/s", "queue": {"bytes": "250 kB"}, "timeline": ["time_s, delay_ms", "0, 15", "$half, 150"]},
        (FLOW,),
        (Mark("after_over_before", "Goodput after the round trip grew from 30 to 300 ms, over that before", "",
            figures.after_over_before,
            Rule("at least 0.8, or 0.8 times CUBIC's", limit=0.8, of_cubic=0.8, missed=DOCUMENT), 0.01),)),
    Cell("geostationary", "7.5", _link(20, 600, 1), (TRANSFER,),
        (Mark("time", "Time of 10 MB over 600 ms", "s", figures.time_of_transfer, TIMES_OF_CUBIC, 0.01),), (120.0,)),
    Cell("geostationary-loss", "7.5", _link(10, 600, 1, down={"loss": "0.1 %"}), (FLOW,), (GOODPUT,), (90.0,)),
    Cell("handovers", "7.9",
        {"rate": "20 Mbit/s", "delay": "20 ms", "queue": {"bytes": "200 kB"},
            "loss": _outages("15 s", "5 s", "100 ms")}, (FLOW,),
        (
            GOODPUT,
            Mark("silence", "Longest time in which nothing arrives", "s", figures.longest_silence,
                Rule("at most 3 s, or 1.25 times CUBIC's", limit=3, of_cubic=1.25), 0.1),
        ), (40.0, 20.0)),
    Cell("limited-sender", "limited", _link(20, 50, 1), (RESPONSES,),
        (Mark("unused_window", "Largest window, over what the application has in flight", "", figures.unused_window,
            Rule("at most 5, or 1.25 times CUBIC's or Reno's", limit=5, of_cubic=1.25, or_reno=True,
                owner="draft-ietf-ccwg-ratelimited-increase-11: 2; 5: ours"), 0.1),)),
)  # fmt: skip
"""In the order of RFC 9743, which is the order in which the first harm is named."""
