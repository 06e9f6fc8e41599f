# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The effect of either reading of an open point of the draft on throughput, round trip and losses.

A reading is a replacement in the algorithm's text, as a mutant is. Each is carried out for 60 s over 20 Mbit/s, on
paths that differ in round trip, queue and random losses, in three rounds. It prints the table of README.md.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER))

from mutants import Mutant, text_of  # noqa: E402

import perigee  # noqa: E402


@dataclass(frozen=True)
class Reading:
    """A reading of the draft that `bbr3.c` does not have.

    Attributes:
        point: the open point, and what this reading is.
        old: the text it replaces.
        new: the text in its place.
    """

    point: str
    old: str
    new: str


READINGS = [
    Reading(
        "2: Drain is bounded by inflight_longterm, too",
        "else if (in_probe_bw(b))\n\t\tmost = b->inflight_longterm;",
        "else if (in_probe_bw(b) || b->state == DRAIN)\n\t\tmost = b->inflight_longterm;",
    ),
    Reading(
        "5: Reno's rounds compare bytes with 63",
        "min32(target_inflight(sk, b), RENO",
        "min32(target_inflight(sk, b) * tcp_sk(sk)->mss_cache, RENO",
    ),
    Reading(
        "8: any round of recovery above 2 % ends Startup",
        "b->loss_events >= STARTUP_LOSS_EVENTS && is_inflight",
        "is_inflight",
    ),
    Reading(
        "10: ProbeRTT's window is the smallest, four packets",
        "max32(bdp(b, model_bw(b), PROBE_RTT_CWND_GAIN), MIN_WINDOW)",
        "MIN_WINDOW",
    ),
    Reading(
        "11: the window is saved before ProbeRTT is entered",
        "b->state = PROBE_RTT;\n\t\tsave_cwnd(sk, b);",
        "save_cwnd(sk, b);\n\t\tb->state = PROBE_RTT;",
    ),
    Reading(
        "13: losses lower inflight_longterm of a limited application, too",
        "if (!s->is_app_limited)\n\t\tb->inflight_longterm",
        "if (1)\n\t\tb->inflight_longterm",
    ),
    Reading("Drain's gain is 0.35, as Google's", "#define DRAIN_GAIN 50", "#define DRAIN_GAIN 35"),
    Reading(
        "beside the draft: the end of ProbeRTT ends a cycle of max_bw",
        'P(probe_rtt_cycle, "switch", 0,',
        'P(probe_rtt_cycle, "switch", 1,',
    ),
]

ROUND_TRIPS = {"20 ms": "10 ms", "100 ms": "50 ms", "600 ms": "300 ms"}
"""Round trips, with the delay of each way."""

PATHS: dict[str, dict[str, object]] = {
    "1 BDP": {"queue": {"bdp": 1.0}},
    "0.2 BDP": {"queue": {"bdp": 0.2}},
    "1 % lost": {"loss": "1 %"},
}
"""A path's property besides its rate: its queue in bandwidth-delay products, or random losses with a queue of 4."""


def study(cc: str, delay: str, path: dict[str, object]) -> perigee.Study:
    """Return a download of 60 s."""
    down = {"rate": "20 Mbit/s", "delay": delay, "queue": {"bdp": 4.0}} | path
    return perigee.Study.from_dict(
        {
            "name": "readings",
            "rounds": 3,
            "time_limit": "61 s",
            "nodes": ["server", "client"],
            "measure": {"series": "off", "steady": "off"},
            "links": [
                {
                    "name": "path",
                    "between": ["server", "client"],
                    "down": down,
                    "up": {"rate": "1 Gbit/s", "delay": delay},
                }
            ],
            "flows": [{"name": "flow", "from": "server", "to": "client", "cc": cc, "duration": "60 s"}],
        }
    )


def figures(cc: str) -> Iterator[tuple[float, float, float]]:
    """Yield goodput (Mbit/s), mean round trip (ms) and share retransmitted (percent) on each path."""
    for path in PATHS.values():
        for delay in ROUND_TRIPS.values():
            with study(cc, delay, path).run(jobs=2) as results:
                flows = results.with_metrics("retransmitted_percent")
                means = flows.select(pl.col("goodput_mbps", "rtt_mean_ms", "retransmitted_percent").mean()).row(0)
            yield means[0], means[1], means[2]


def main() -> None:
    """Print the table: what `bbr3` has, and what each reading changes."""
    columns = [f"{path}, {rtt}" for path in PATHS for rtt in ROUND_TRIPS]
    print("| | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    with tempfile.TemporaryDirectory(prefix="perigee-bbr3-") as name:
        file = Path(name) / "bbr3.c"
        for reading in (None, *READINGS):
            fault = None if reading is None else Mutant(reading.point, reading.old, reading.new, "", "")
            file.write_text(text_of(fault), encoding="utf-8")
            cells = [f"{goodput:.1f}, {rtt:.0f} ms, {lost:.1f} %" for goodput, rtt, lost in figures(str(file))]
            print(f"| {'`bbr3`' if reading is None else reading.point} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
