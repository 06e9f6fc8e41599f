# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The criteria of RFC 9743, section 5: an algorithm alone, beside others, and its deployment."""

from __future__ import annotations

from perigee.evaluation import paths, safety, sharing
from perigee.evaluation.criterion import HUMAN, OTHER, OWN_CONNECTIONS, TCP_ALONE, WAIT, Criterion, Measure
from perigee.evaluation.rules import RATES_OF_CUBIC, TIMES_OF_CUBIC, Rule, Verdict

DOCUMENT = Verdict.DOCUMENT
DOUBLING = "RFC 6298, which doubles; 1.5: ours"

BEHAVIOUR = (
    Criterion("5.1.1", "Congestion collapse", "should do one of both",
        "Stops sending above some loss rate, or backs off fully: to one packet per round trip, then exponentially.",
        "5.1.1-collapse",
        (
            Measure("Packets sent per round trip at losses of 30 % and more, median of a run's stretches of 5 s",
                "packets", safety.packets_per_round_trip,
                Rule("at most 1, after 30 s", limit=1, owner="RFC 3714, as NeST reads it; 30 s: ours"),
                experiment="loss"),
            Measure("Growth of the gaps between retransmissions while nothing comes back", "", safety.growth_of_gaps,
                Rule("each at least 1.5 times the one before", limit=1.5, owner=DOUBLING), experiment="silence"),
            Measure("Arriving bytes that had arrived before, at losses of up to 30 %", "%", safety.duplicates,
                Rule("at most 50 %", limit=50), experiment="loss"),
        ),
        "RFC 9743 leaves it to the algorithm at which loss it backs off; 30 %, in each direction, is the choice of the "
        "NeST test suite after RFC 3714.",
        only_tcp=TCP_ALONE,
    ),
    Criterion("5.1.2", "Bufferbloat", "ought to try",
        "Avoids standing queues. Reno and CUBIC fill a FIFO by design, so the threshold is relative.",
        "5.1.2-bufferbloat",
        (
            Measure("Mean wait in a FIFO", "ms", safety.queueing_delay, WAIT),
            Measure("95th percentile of the wait in a FIFO", "ms", safety.high_queueing_delay, WAIT),
            Measure("Shortest wait in the last ten round trips", "ms", safety.standing_queue),
        ),
    ),
    Criterion("5.1.3", "High packet loss", "needs to avoid",
        "Does not itself cause high loss, and reduces its rate when it meets it.", "5.1.3-high-loss",
        (
            Measure("Packets that the bottleneck drops", "%", safety.bottleneck_loss,
                Rule("at most 2 %, or twice CUBIC's", limit=2, of_cubic=2)),
        ),
    ),
    Criterion("5.1.4", "Fairness within", "should be explored",
        "Flows of the same kind share a bottleneck, over equal and unequal round trips.", "5.1.4-fairness",
        (
            Measure("Jain's index of flows over one round trip", "", safety.fairness,
                Rule("at least 0.9, or 0.9 times CUBIC's", limit=0.9, of_cubic=0.9, missed=DOCUMENT),
                experiment="equal"),
            Measure("Goodput of a flow that comes 30 s late, over its fair share", "", safety.late_comer,
                Rule("at least 0.5, or 0.8 times CUBIC's", limit=0.5, of_cubic=0.8, missed=DOCUMENT),
                experiment="late"),
            Measure("Goodput over 160 ms, over that of a flow over another round trip", "",
                safety.ratio_of_round_trips, experiment="unequal"),
        ),
    ),
    Criterion("5.1.5", "Short flows", "MUST be considered",
        "Short flows and long ones of the same kind leave each other room.", "5.1.5-short-flows",
        (
            Measure("Median time of 10 kB beside a long transfer", "ms", sharing.short_median, TIMES_OF_CUBIC),
            Measure("Mean time of the slowest tenth of 10 kB beside a long transfer", "ms", sharing.slowest,
                TIMES_OF_CUBIC),
            Measure("Goodput of the long transfer", "Mbit/s", paths.utilisation, RATES_OF_CUBIC, own=True),
        ),
        only_tcp=OWN_CONNECTIONS,
    ),
    Criterion("5.2", "Mixed traffic", "starvation MUST be assessed",
        "Harms others no more than they harm each other; starves nobody, and is not starved.", "5.2-mixed",
        (
            Measure("Least share of its fair share that another flow has in 30 round trips", "",
                sharing.starvation_of_others,
                Rule("at least 0.05, or half as much as beside CUBIC or Reno", limit=0.05, of_cubic=0.5, or_reno=True)),
            Measure("Packets of others that are sent again", "%", sharing.loss_of_others,
                Rule("at most 2 %, or twice as many as beside CUBIC", limit=2, of_cubic=2)),
            Measure("Least share of its fair share that the candidate has in 30 round trips", "",
                sharing.starvation_of_itself, Rule("at least 0.05", limit=0.05, missed=DOCUMENT), own=True),
            Measure("Mean wait of the packets of others", "ms", sharing.wait_of_others, WAIT),
            Measure("Least share of its fair share that Vegas has in 30 round trips", "", sharing.starvation_of_vegas),
        ),
    ),
    Criterion("5.2.1", "Beside existing congestion controls", "MUST be evaluated",
        "Reno, CUBIC and others in wide use keep their throughput beside it; strict friendliness is not asked for.",
        "5.2.1-existing",
        (
            Measure("What the other flow keeps of its goodput", "", sharing.share_kept,
                Rule("at least 0.8, or 0.8 times as much as beside CUBIC or Reno", limit=0.8, of_cubic=0.8,
                    or_reno=True),
                compares=OTHER),
            Measure("What the other flow keeps beside a scavenger", "", sharing.share_kept,
                Rule("at least 0.9", limit=0.9, owner="RFC 6297, which asks for less than best effort; 0.9: ours"),
                compares=OTHER, scavenger=True),
        ),
        "`reno` stands for the congestion control of QUIC (RFC 9002), over TCP. Both flows have the same round trip."),
    Criterion("5.2.2", "Beside real-time traffic", "SHOULD be considered",
        "Calls and other media keep their rate and delay beside it.", "5.2.2-real-time",
        (
            Measure("Frames of a call that arrive in time", "%", sharing.frames_in_time,
                Rule("at least 95 %, or 0.8 times as many as beside CUBIC", limit=95, of_cubic=0.8, missed=DOCUMENT)),
        ),
        "Calls that adapt their rate are not measured."),
    Criterion("5.2.3", "Short and long flows of different kinds", "MUST be evaluated",
        "Short flows of other congestion controls beside a long one of the candidate, and the reverse.",
        "5.2.3-short-and-long",
        (
            Measure("Median time of 10 kB by CUBIC beside a long transfer", "ms", sharing.short_median_of_others,
                Rule("at most 1.25 times that beside CUBIC or Reno", of_cubic=1.25, or_reno=True)),
            Measure("Mean time of the slowest tenth of 10 kB by CUBIC beside a long transfer", "ms",
                sharing.slowest_of_others,
                Rule("at most 1.25 times that beside CUBIC or Reno", of_cubic=1.25, or_reno=True)),
            Measure("Median time of 10 kB by the candidate beside a long transfer of CUBIC", "ms",
                sharing.short_median_of_its_own, TIMES_OF_CUBIC,
                own=True),
            Measure("Mean time of the slowest tenth of 10 kB by the candidate beside a long transfer of CUBIC", "ms",
                sharing.slowest_of_its_own, TIMES_OF_CUBIC,
                own=True),
        ),
        only_tcp=OWN_CONNECTIONS,
    ),
    Criterion("5.3.1", "Principles", "MUST be explained",
        "Deviations from the principles of RFC 2914 and RFC 7141 are explained.",
        reason=HUMAN),
    Criterion("5.3.2", "Incremental deployment", "MUST be discussed",
        "One side, some hosts, behind middleboxes: what happens while only some use it.", "5.3.2-deployment",
        (
            Measure("Time of 20 MB behind a splitting proxy that uses CUBIC, over that of the direct download", "",
                paths.time_behind_a_proxy,
                Rule("at most 1.25, or 1.25 times CUBIC's", limit=1.25, of_cubic=1.25, missed=DOCUMENT),
                compares="way"),
        ),
        "Beside other hosts, see 5.2.1. The figure is large, too, where the direct download is faster than CUBIC's: it "
        "then says what a host loses behind such a proxy, and is no fault of the sender. The discussion that the RFC "
        "asks for is the author's.",
        only_tcp=TCP_ALONE),
)  # fmt: skip
