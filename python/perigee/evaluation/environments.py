# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The criteria of RFC 9743, sections 6 to 8: queues, paths, hosts and security."""

from __future__ import annotations

from functools import partial

from perigee.evaluation import nodes, paths, safety, sharing
from perigee.evaluation.criterion import HUMAN, Criterion, Measure
from perigee.evaluation.rules import RATES_OF_CUBIC, TIMES_OF_CUBIC, Rule, Verdict

FIFO = ("5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2", "5.2.1")

ENVIRONMENTS = (
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
        "Holds where tunnels hide, lose or clear ECN marks, or refuse what uses ECN.",
        "6.2-tunnels",
        (
            Measure(
                "Goodput with ECN through a tunnel, over that without ECN",
                "",
                nodes.of_that_without_ecn,
                Rule("at least 0.8, or CUBIC's", at_most=False, limit=0.8, of_cubic=1, missed=Verdict.DOCUMENT),
                compares="tunnel",
                experiment="alone",
            ),
            Measure(
                "Packets sent again in the steady phase",
                "%",
                nodes.sent_again,
                Rule("at most 2 %, or twice CUBIC's or Reno's", at_most=True, limit=2, of_cubic=2, or_reno=True),
                experiment="alone",
            ),
            Measure(
                "Goodput of a flow of CUBIC without ECN beside it, over that beside the candidate without ECN",
                "",
                nodes.of_others_without_ecn,
                Rule(
                    "at least 0.8, or half of that beside CUBIC or Reno",
                    at_most=False,
                    limit=0.8,
                    of_cubic=0.5,
                    or_reno=True,
                ),
                compares="tunnel",
                experiment="beside",
            ),
        ),
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
            Measure("Goodput", "Mbit/s", paths.utilisation, RATES_OF_CUBIC),
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
                RATES_OF_CUBIC,
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
                partial(sharing.share_of_other, experiment="scalable"),
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
            Measure("Goodput", "Mbit/s", paths.utilisation, RATES_OF_CUBIC),
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
            Measure("Time of 100 MB", "s", paths.time_of_100_mb, TIMES_OF_CUBIC),
            Measure("Time of 10 MB", "s", paths.time_of_10_mb),
            Measure("Time of 1 MB", "s", paths.time_of_1_mb),
        ),
    ),
    Criterion(
        "7.6",
        "Misbehaving nodes",
        "should be explored",
        "Receivers that split, invent or hide acknowledgements, and middleboxes that police.",
        "7.6-misbehaving",
        (
            Measure(
                "Share that a receiver takes by cheating from a flow of CUBIC, beyond the fair one",
                "%",
                nodes.gain_of_a_cheat,
                Rule(
                    "at most 10 %, or 1.25 times what CUBIC or Reno gives it",
                    at_most=True,
                    limit=10,
                    of_cubic=1.25,
                    or_reno=True,
                ),
                compares="receiver",
                experiment="receivers",
            ),
            Measure(
                "Share of its fair share that the flow of CUBIC has",
                "",
                partial(sharing.share_of_other, experiment="receivers"),
                experiment="receivers",
            ),
            Measure(
                "Packets that a policer drops",
                "%",
                nodes.loss_at_a_policer,
                Rule(
                    "at most 5 %, or twice CUBIC's",
                    at_most=True,
                    limit=5,
                    of_cubic=2,
                    missed=Verdict.DOCUMENT,
                ),
                experiment="policer",
            ),
            Measure(
                "Goodput through a policer",
                "Mbit/s",
                partial(paths.utilisation, experiment="policer"),
                RATES_OF_CUBIC,
                experiment="policer",
            ),
        ),
        "No sender can tell a false acknowledgement from a true one: what CUBIC and Reno give as well is no fault.",
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
            Measure("Goodput", "Mbit/s", paths.utilisation, RATES_OF_CUBIC),
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
            Measure("Goodput", "Mbit/s", paths.utilisation, RATES_OF_CUBIC),
        ),
        "The use of several paths at once is not measured: no transport here does it.",
    ),
    Criterion(
        "7.11",
        "Data centres",
        "should state its scope",
        "Delays below 2 ms, and incast.",
        "7.11-data-centre",
        (Measure("Time of the slowest of several transfers that begin at once", "s", paths.slowest, TIMES_OF_CUBIC),),
    ),
    Criterion(
        "8",
        "Security",
        "must be examined",
        "What an attacker gains by it; `perigee cc attack` searches for what it does worst.",
        reason=HUMAN,
    ),
)
