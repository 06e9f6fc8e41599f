# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Criteria beside those of RFC 9743: applications that limit their sender, two bottlenecks, high rates, long runs."""

from __future__ import annotations

from functools import partial

from perigee.evaluation import limited, paths, sharing
from perigee.evaluation.criterion import OTHER, Criterion, Measure
from perigee.evaluation.rules import Rule, Verdict

DOCUMENT = Verdict.DOCUMENT
KEEPS = Rule("at least 0.8 times as much as beside CUBIC or Reno", of_cubic=0.8, or_reno=True)
HORIZON = "horizon"
"""Id of the criterion that runs for as long as is asked for."""

FURTHER = (
    Criterion("limited", "Applications that limit their sender", "not in RFC 9743; RFC 7661",
        "A window that is not used does not grow without end; a sender that begins to send all floods no path.",
        "limited-applications",
        (
            Measure("Largest window, over what the application has in flight", "", limited.unused_window,
                Rule("at most 5, or 1.25 times CUBIC's or Reno's", limit=5, of_cubic=1.25, or_reno=True,
                    owner="draft-ietf-ccwg-ratelimited-increase-11: 2; 5: ours"),
                experiment="responses"),
            Measure("Packets sent again by a sender of 2 Mbit/s that then sends all it can", "%",
                partial(paths.sent_again, experiment="offered"),
                Rule("at most 5 %, or 1.25 times CUBIC's or Reno's", limit=5, of_cubic=1.25, or_reno=True,
                    missed=DOCUMENT),
                experiment="offered"),
            Measure("Bytes of a video whose player chooses its quality", "MB", limited.video_megabytes,
                Rule("at least 0.8 times CUBIC's", of_cubic=0.8, missed=DOCUMENT), experiment="video", own=True),
        ),
    ),
    Criterion("paths", "Two bottlenecks, and 1 Gbit/s", "not in RFC 9743",
        "Flows of CUBIC that share one of two bottlenecks with it, or a fast path, keep their throughput.",
        "further-paths",
        (
            Measure("Goodput of flows of CUBIC on either of two bottlenecks, beside one that crosses both", "Mbit/s",
                partial(sharing.goodput_of_others, experiment="parking-lot"), KEEPS, experiment="parking-lot"),
            Measure("Goodput of a flow of CUBIC beside it over 1 Gbit/s", "Mbit/s",
                partial(sharing.goodput_of_others, experiment="fast"), KEEPS, experiment="fast"),
            Measure("Goodput over both bottlenecks", "Mbit/s", partial(paths.utilisation, experiment="parking-lot"),
                experiment="parking-lot"),
            Measure("Goodput over 1 Gbit/s", "Mbit/s", partial(paths.utilisation, experiment="fast"),
                experiment="fast"),
        ),
    ),
    Criterion(HORIZON, "A long run", "not in RFC 9743",
        "Goes on as it began: others keep their share in the last quarter of a long run.", "long-horizon",
        (
            Measure("What the other flow keeps of its goodput", "", sharing.share_kept,
                Rule("at least 0.8, or 0.8 times as much as beside CUBIC or Reno", limit=0.8, of_cubic=0.8,
                    or_reno=True),
                compares=OTHER),
        ),
        "It is run with --horizon, or where it is chosen."),
)  # fmt: skip
