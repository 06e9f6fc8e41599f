# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The criteria of RFC 9743 (BCP 133, March 2025): what each asks, how it is measured, and by which threshold.

RFC 9743 sets no numbers. A threshold names its owner: a document, or `ours`, a choice of this project
(`docs/decisions/064-verdicts-by-rfc-9743.md` has the reasons).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import polars as pl

from perigee.evaluation import paths, safety, sharing
from perigee.evaluation.rules import Rule, Verdict
from perigee.evaluation.tables import Tables

DOUBLING = "RFC 6298, which doubles; 1.5: ours"
FIFO = ("5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2", "5.2.1")
OTHER = "other"
HUMAN = "A reader judges this by the author's text, see below."

WAIT = Rule("at most 1.25 times CUBIC's, or 5 ms", at_most=True, limit=5, of_cubic=1.25, missed=Verdict.DOCUMENT)


@dataclass(frozen=True)
class Measure:
    """One figure of a criterion.

    Attributes:
        title: what is measured, for readers.
        unit: its unit; empty of ratios.
        figure: the function that takes it from a study's tables: a row per cell, congestion control and round.
        rule: the threshold; none: the figure is printed and not judged.
        compares: the key whose values one figure compares, so that runs over all of them belong to one cell; `OTHER`:
            it compares with the run in which both flows are of the other's kind.
        experiment: the experiment of the study that it is about, without which there is no figure; empty: all.
    """

    title: str
    unit: str
    figure: Callable[[Tables], pl.DataFrame]
    rule: Rule | None = None
    compares: str = ""
    experiment: str = ""


@dataclass(frozen=True)
class Criterion:
    """One criterion.

    Attributes:
        id: section of RFC 9743.
        title: its subject.
        level: how strongly the RFC asks for it.
        asks: what it asks.
        study: file in `studies/rfc9743` without its ending; empty: there is none.
        measures: the figures, from the tables of the study.
        reason: why it is not measured, or what is not; empty: nothing is left out.
        follows: criteria whose worst verdict is the one on this; none: it has its own.
        scalable: the experiment of the study that only scalable congestion controls are run in; empty: there is none.
    """

    id: str
    title: str
    level: str
    asks: str
    study: str = ""
    measures: tuple[Measure, ...] = ()
    reason: str = ""
    follows: tuple[str, ...] = ()
    scalable: str = ""


CRITERIA = (
    Criterion(
        "5.1.1",
        "Congestion collapse",
        "considered",
        "Stops sending above some loss rate, or backs off fully: to one packet per round trip, then exponentially.",
        "5.1.1-collapse",
        (
            Measure(
                "Packets sent per round trip at losses of 30 % and more",
                "packets",
                safety.packets_per_round_trip,
                Rule("at most 1, after 30 s", at_most=True, limit=1, owner="RFC 3714, as NeST reads it; 30 s: ours"),
            ),
            Measure(
                "Growth of the gaps between retransmissions while nothing comes back",
                "",
                safety.growth_of_gaps,
                Rule(
                    "each at least 1.5 times the one before",
                    at_most=False,
                    limit=1.5,
                    owner=DOUBLING,
                ),
            ),
            Measure(
                "Arriving bytes that had arrived before, at losses of up to 30 %",
                "%",
                safety.duplicates,
                Rule("at most 50 %", at_most=True, limit=50),
            ),
        ),
    ),
    Criterion(
        "5.1.2",
        "Bufferbloat",
        "considered",
        "Avoids standing queues. Reno and CUBIC fill a FIFO by design, so the threshold is relative.",
        "5.1.2-bufferbloat",
        (
            Measure(
                "Mean wait in a FIFO",
                "ms",
                safety.queueing_delay,
                WAIT,
            ),
            Measure(
                "95th percentile of the wait in a FIFO",
                "ms",
                safety.high_queueing_delay,
                WAIT,
            ),
            Measure("Shortest wait in the last ten round trips", "ms", safety.standing_queue),
        ),
    ),
    Criterion(
        "5.1.3",
        "High packet loss",
        "considered",
        "Does not itself cause high loss, and reduces its rate when it meets it.",
        "5.1.3-high-loss",
        (
            Measure(
                "Packets that the bottleneck drops",
                "%",
                safety.bottleneck_loss,
                Rule("at most 2 %, or twice CUBIC's", at_most=True, limit=2, of_cubic=2),
            ),
        ),
    ),
    Criterion(
        "5.1.4",
        "Fairness within",
        "considered",
        "Flows of the same kind share a bottleneck, over equal and unequal round trips.",
        "5.1.4-fairness",
        (
            Measure(
                "Jain's index of flows over one round trip",
                "",
                safety.fairness,
                Rule("at least 0.9, or CUBIC's", at_most=False, limit=0.9, of_cubic=1, missed=Verdict.DOCUMENT),
            ),
            Measure(
                "Goodput of a flow that comes 30 s late, over its fair share",
                "",
                safety.late_comer,
                Rule(
                    "at least 0.5, or 0.8 times CUBIC's",
                    at_most=False,
                    limit=0.5,
                    of_cubic=0.8,
                    missed=Verdict.DOCUMENT,
                ),
            ),
            Measure(
                "Goodput over 160 ms, over that of a flow over another round trip", "", safety.ratio_of_round_trips
            ),
        ),
    ),
    Criterion(
        "5.1.5",
        "Short flows",
        "must be considered",
        "Short flows and long ones of the same kind leave each other room.",
        "5.1.5-short-flows",
        (
            Measure(
                "Median time of 10 kB beside a long transfer",
                "ms",
                sharing.short_median,
                Rule("at most 1.25 times CUBIC's", at_most=True, of_cubic=1.25, missed=Verdict.DOCUMENT),
            ),
            Measure(
                "95th percentile of that time",
                "ms",
                sharing.short_high,
                Rule("at most 1.25 times CUBIC's", at_most=True, of_cubic=1.25, missed=Verdict.DOCUMENT),
            ),
            Measure(
                "Goodput of the long transfer",
                "Mbit/s",
                paths.utilisation,
                Rule("at least 0.8 times CUBIC's", at_most=False, of_cubic=0.8, missed=Verdict.DOCUMENT),
            ),
        ),
    ),
    Criterion(
        "5.2",
        "Mixed traffic",
        "must be considered",
        "Harms others no more than they harm each other; starves nobody, and is not starved.",
        "5.2-mixed",
        (
            Measure(
                "Least share of its fair share that another flow has in 30 round trips",
                "",
                sharing.starvation_of_others,
                Rule(
                    "at least 0.05, or as much as beside CUBIC or Reno",
                    at_most=False,
                    limit=0.05,
                    of_cubic=1,
                    or_reno=True,
                ),
            ),
            Measure(
                "Packets of others that are sent again",
                "%",
                sharing.loss_of_others,
                Rule("at most 2 %, or twice as many as beside CUBIC", at_most=True, limit=2, of_cubic=2),
            ),
            Measure(
                "Least share of its fair share that the candidate has in 30 round trips",
                "",
                sharing.starvation_of_itself,
                Rule("at least 0.05", at_most=False, limit=0.05, missed=Verdict.DOCUMENT),
            ),
            Measure("Mean wait of the packets of others", "ms", sharing.wait_of_others, WAIT),
        ),
    ),
    Criterion(
        "5.2.1",
        "Beside existing congestion controls",
        "must be evaluated",
        "Reno, CUBIC and others in wide use keep their throughput beside it; strict friendliness is not asked for.",
        "5.2.1-existing",
        (
            Measure(
                "What the other flow keeps of its goodput",
                "",
                sharing.share_kept,
                Rule(
                    "at least 0.8, or as much as beside CUBIC or Reno",
                    at_most=False,
                    limit=0.8,
                    of_cubic=1,
                    or_reno=True,
                ),
                compares=OTHER,
            ),
        ),
        "`reno` stands for the congestion control of QUIC (RFC 9002); QUIC's packets are not simulated.",
    ),
    Criterion(
        "5.2.2",
        "Beside real-time traffic",
        "should be considered",
        "Calls and other media keep their rate and delay beside it.",
        "5.2.2-real-time",
        (
            Measure(
                "Frames of a call that arrive in time",
                "%",
                sharing.frames_in_time,
                Rule(
                    "at least 95 %, or 0.8 times as many as beside CUBIC",
                    at_most=False,
                    limit=95,
                    of_cubic=0.8,
                    missed=Verdict.DOCUMENT,
                ),
            ),
        ),
        "Calls that adapt their rate are not measured.",
    ),
    Criterion(
        "5.2.3",
        "Short and long flows of different kinds",
        "must be evaluated",
        "Short flows of other congestion controls beside a long one of the candidate, and the reverse.",
        "5.2.3-short-and-long",
        (
            Measure(
                "Median time of 10 kB by CUBIC beside a long transfer",
                "ms",
                sharing.short_median_of_others,
                Rule("at most 1.25 times that beside CUBIC or Reno", at_most=True, of_cubic=1.25, or_reno=True),
            ),
            Measure(
                "95th percentile of that time",
                "ms",
                sharing.short_high_of_others,
                Rule("at most 1.25 times that beside CUBIC or Reno", at_most=True, of_cubic=1.25, or_reno=True),
            ),
            Measure(
                "Median time of 10 kB by the candidate beside a long transfer of CUBIC",
                "ms",
                sharing.short_median_of_its_own,
                Rule("at most 1.25 times CUBIC's", at_most=True, of_cubic=1.25, missed=Verdict.DOCUMENT),
            ),
            Measure(
                "95th percentile of the candidate's time",
                "ms",
                sharing.short_high_of_its_own,
                Rule("at most 1.25 times CUBIC's", at_most=True, of_cubic=1.25, missed=Verdict.DOCUMENT),
            ),
        ),
    ),
    Criterion(
        "5.3.1",
        "Principles",
        "must be explained",
        "Deviations from the principles of RFC 2914 and RFC 7141 are explained.",
        reason=HUMAN,
    ),
    Criterion(
        "5.3.2",
        "Incremental deployment",
        "must be discussed",
        "One side, some hosts, behind middleboxes: what happens while only some use it.",
        "5.3.2-deployment",
        (
            Measure(
                "Time of 20 MB behind a splitting proxy that uses CUBIC, over that of the direct download",
                "",
                paths.time_behind_a_proxy,
                Rule("at most 1.25, or CUBIC's", at_most=True, limit=1.25, of_cubic=1, missed=Verdict.DOCUMENT),
                compares="way",
            ),
        ),
        "Beside other hosts, see 5.2.1. The discussion that the RFC asks for is the author's.",
    ),
    Criterion(
        "6.1",
        "Drop-tail",
        "must be evaluated",
        "Holds over FIFO queues.",
        reason="It follows from 5.1.1 to 5.2.1, whose studies have FIFO queues.",
        follows=FIFO,
    ),
    Criterion(
        "6.2",
        "Tunnels",
        "must be considered with explicit signals",
        "Holds where tunnels drop, bleach or delay ECN marks.",
        reason="No link of the simulator clears or delays marks.",
    ),
    Criterion(
        "6.3",
        "Wired paths",
        "base case",
        "Uses a fixed rate without noise.",
        "6.3-wired",
        (
            Measure(
                "Goodput",
                "Mbit/s",
                paths.utilisation,
                Rule("at least 0.9 times CUBIC's", at_most=False, of_cubic=0.9, missed=Verdict.DOCUMENT),
            ),
        ),
    ),
    Criterion(
        "6.4",
        "Wireless paths",
        "should be evaluated",
        "Radio loss, varying capacity, delay by retransmission on the link.",
        "6.4-wireless",
        (
            Measure(
                "Goodput",
                "Mbit/s",
                paths.utilisation,
                Rule("at least 0.8 times CUBIC's", at_most=False, of_cubic=0.8, missed=Verdict.DOCUMENT),
            ),
            Measure("95th percentile of round trips", "ms", paths.high_round_trip),
        ),
        "The delay of retransmissions on the link, and losses in bursts, are not measured.",
    ),
    Criterion(
        "7.1",
        "Active queue management",
        "should be evaluated",
        "Several disciplines, with and without ECN; the reaction to a mark fits the codepoint sent.",
        "7.1-aqm",
        (
            Measure(
                "Mean wait in a queue that marks, over that in the same queue that drops",
                "",
                paths.wait_by_marks,
                Rule(
                    "at most 2",
                    at_most=True,
                    limit=2,
                    owner="RFC 3168, 5: react to a mark as to a loss; 2: ours",
                ),
                compares="ecn",
                experiment="queues",
            ),
            Measure(
                "Mean wait",
                "ms",
                partial(paths.wait, experiment="queues"),
                Rule("at most 20 ms, or twice CUBIC's", at_most=True, limit=20, of_cubic=2, missed=Verdict.DOCUMENT),
                experiment="queues",
            ),
            Measure(
                "Goodput",
                "Mbit/s",
                partial(paths.utilisation, experiment="queues"),
                Rule("at least 0.8 times CUBIC's", at_most=False, of_cubic=0.8, missed=Verdict.DOCUMENT),
                experiment="queues",
            ),
            Measure(
                "With ECT(1): mean wait alone in a queue that marks from 1 ms on",
                "ms",
                paths.wait_alone,
                Rule("at most 5 ms", at_most=True, limit=5, owner="RFC 9331, 4.3; 5 ms: ours"),
                experiment="scalable",
            ),
            Measure(
                "With ECT(1): goodput alone",
                "Mbit/s",
                paths.goodput_alone,
                Rule("at least 10 Mbit/s, half of the rate", at_most=False, limit=10, missed=Verdict.DOCUMENT),
                experiment="scalable",
            ),
            Measure(
                "With ECT(1): share of its fair share that a flow of CUBIC beside it has",
                "",
                sharing.share_beside_scalable,
                Rule("at least 0.5", at_most=False, limit=0.5),
                experiment="scalable",
            ),
        ),
        "ECT(1), which only scalable congestion controls may send, is measured of those that need ECN.",
        scalable="scalable",
    ),
    Criterion(
        "7.2",
        "Circuit breakers",
        "must be considered",
        "Stays inside the envelope of a circuit breaker (RFC 8084).",
        "7.2-circuit-breaker",
        (
            Measure(
                "Intervals of 5 s in a row with 10 % of loss or more",
                "",
                safety.bad_intervals,
                Rule("at most 2, or CUBIC's", at_most=True, limit=2, of_cubic=1),
            ),
        ),
    ),
    Criterion(
        "7.3",
        "Varying delay",
        "should be evaluated",
        "Robust to large changes of the smallest round trip.",
        "7.3-varying-delay",
        (
            Measure(
                "Throughput in 18 s after the delay changed, over that before",
                "",
                paths.after_over_before,
                Rule("at least 0.8, or CUBIC's", at_most=False, limit=0.8, of_cubic=1, missed=Verdict.DOCUMENT),
            ),
        ),
    ),
    Criterion(
        "7.4",
        "Constrained devices",
        "should be evaluated",
        "Works over links of 64 to 250 kbit/s with windows of four packets.",
        "7.4-constrained",
        (
            Measure(
                "Goodput",
                "Mbit/s",
                paths.utilisation,
                Rule("at least 0.8 times CUBIC's", at_most=False, of_cubic=0.8, missed=Verdict.DOCUMENT),
            ),
            Measure(
                "Retransmission timeouts in 5 minutes",
                "",
                paths.timeouts,
                Rule("at most 1, or CUBIC's", at_most=True, limit=1, of_cubic=1, missed=Verdict.DOCUMENT),
            ),
        ),
        "Timeouts are not told apart by whether they were spurious.",
    ),
    Criterion(
        "7.5",
        "High delay",
        "should be evaluated",
        "Does not presume a low delay; satellites are named.",
        "7.5-high-delay",
        (
            Measure(
                "Time of 100 MB over that of an ideal sender",
                "",
                paths.against_ideal,
                Rule("at most 2", at_most=True, limit=2, missed=Verdict.DOCUMENT),
            ),
            Measure(
                "Time of 100 MB",
                "s",
                paths.time_of_100_mb,
                Rule("at most 1.25 times CUBIC's", at_most=True, of_cubic=1.25, missed=Verdict.DOCUMENT),
            ),
            Measure("Time of 10 MB", "s", paths.time_of_10_mb),
            Measure("Time of 1 MB", "s", paths.time_of_1_mb),
        ),
    ),
    Criterion(
        "7.6",
        "Misbehaving nodes",
        "should be explored",
        "Receivers that split, invent or hide acknowledgements, and middleboxes that police.",
        reason="The simulator's receivers do not cheat.",
    ),
    Criterion(
        "7.7",
        "Reordering",
        "should be evaluated",
        "Robust to packets that arrive late.",
        "7.7-reordering",
        (
            Measure(
                "Goodput over two paths in turn, of which one is longer, over that over equal ones",
                "",
                paths.of_that_in_order,
                Rule("at least 0.8, or CUBIC's", at_most=False, limit=0.8, of_cubic=1, missed=Verdict.DOCUMENT),
                compares="late",
            ),
            Measure("Packets sent again", "%", paths.sent_again),
        ),
        "Packets that come late one by one are not measured: a link keeps its order.",
    ),
    Criterion(
        "7.8",
        "Transient events",
        "should be evaluated",
        "The onset of congestion, routing changes, mobility.",
        "7.8-transient",
        (
            Measure(
                "Time to 80 % of the rate once a stream of three quarters has ended",
                "s",
                paths.time_to_fill,
                Rule(
                    "at most 1.25 times CUBIC's or Reno's",
                    at_most=True,
                    of_cubic=1.25,
                    or_reno=True,
                    missed=Verdict.DOCUMENT,
                ),
            ),
            Measure(
                "Packets that a stream of three quarters loses which begins beside it",
                "%",
                paths.loss_of_a_stream,
                Rule(
                    "at most 1 %, or twice CUBIC's or Reno's",
                    at_most=True,
                    limit=1,
                    of_cubic=2,
                    or_reno=True,
                    missed=Verdict.DOCUMENT,
                ),
            ),
        ),
        "Routing changes are in 7.9, a change of the orbit in 7.10.",
    ),
    Criterion(
        "7.9",
        "Path changes",
        "must be evaluated",
        "Robust to changes of the path at the intervals of common re-routing.",
        "7.9-path-change",
        (
            Measure(
                "Longest time in which nothing arrives",
                "s",
                paths.longest_stall,
                Rule("at most 3 s, or CUBIC's", at_most=True, limit=3, of_cubic=1),
            ),
            Measure(
                "Goodput",
                "Mbit/s",
                paths.utilisation,
                Rule("at least 0.8 times CUBIC's", at_most=False, of_cubic=0.8, missed=Verdict.DOCUMENT),
            ),
        ),
    ),
    Criterion(
        "7.10",
        "Multipath",
        "must be evaluated where used",
        "A failover starves nobody; concurrent use harms nobody at a shared bottleneck.",
        "7.10-multipath",
        (
            Measure(
                "Longest time in which nothing arrives, the path's failure included",
                "s",
                paths.longest_stall,
                Rule("at most 10 s, or CUBIC's", at_most=True, limit=10, of_cubic=1),
            ),
            Measure(
                "Goodput in 10 s after the failure was noticed",
                "Mbit/s",
                paths.goodput_after_failover,
                Rule("at least half of CUBIC's", at_most=False, of_cubic=0.5, missed=Verdict.DOCUMENT),
            ),
            Measure(
                "Goodput",
                "Mbit/s",
                paths.utilisation,
                Rule("at least 0.8 times CUBIC's", at_most=False, of_cubic=0.8, missed=Verdict.DOCUMENT),
            ),
        ),
        "The use of several paths at once is not measured: no transport here does it.",
    ),
    Criterion(
        "7.11",
        "Data centres",
        "should state its scope",
        "Delays below 2 ms, and incast.",
        "7.11-data-centre",
        (
            Measure(
                "Time of the slowest of several transfers that begin at once",
                "s",
                paths.slowest,
                Rule("at most 1.25 times CUBIC's", at_most=True, of_cubic=1.25, missed=Verdict.DOCUMENT),
            ),
        ),
    ),
    Criterion(
        "8",
        "Security",
        "must be examined",
        "What an attacker gains by it; `perigee cc attack` searches for what it does worst.",
        reason=HUMAN,
    ),
)
"""All criteria, in the order of the RFC."""
