# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Requirements of mycc, in simulated runs. Start it with `python test_mycc.py`, or with pytest."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import perigee

HERE = Path(__file__).resolve().parent
# Alone on the satellite link, 20 Mbit/s and 600 ms, with a log of every event of the sender.
ALONE = perigee.Study.load(HERE).set("flow.cc", HERE / "mycc.c").set("flows.wire.count", 0).set("measure.events", True)
ALONE = ALONE.set("rounds", 1).set("links.satellite.loss", "0 %")


def run(study: perigee.Study, table: str) -> pl.DataFrame:
    """Simulate a study, and return a table of its results."""
    with study.run() as results:
        return results.table(table)


def first_loss(events: pl.DataFrame) -> tuple[int, int]:
    """Return the window before the first loss, and the threshold after it."""
    state = events["ca_state"].to_list()
    at = next(n for n, now in enumerate(state) if now in ("recovery", "loss"))
    return events["cwnd_packets"][at - 1], events["ssthresh_packets"][at]


def test_slow_start_doubles_the_window_in_each_round_trip() -> None:
    """From 10 packets: 20 after a round trip of 600 ms, 40 after two."""
    events = run(ALONE.set("flow.duration", "3 s"), "events")
    rounds = [events.filter(pl.col("t_s") < end)["cwnd_packets"].max() for end in (1.1, 1.7, 2.3)]
    assert rounds == [10, 20, 40], rounds


def test_a_loss_takes_the_share_that_is_set() -> None:
    """The loss takes `decrease` of 1024 parts."""
    for share, parts in (("30 %", 307), ("50 %", 512)):
        before, after = first_loss(run(ALONE.set("flow.cc.decrease", share).set("flow.duration", "20 s"), "events"))
        assert after == before - before * parts // 1024, (share, before, after)


def test_it_grows_by_one_packet_in_each_round_trip_after_a_loss() -> None:
    """Where the queue is empty a round trip is 600 ms, so in 30 s it grows by 50 packets."""
    study = ALONE.set("links.satellite.loss", "0.01 %").set("flow.duration", "40 s").set("measure.series", "100 ms")
    series = run(study, "series")
    window = series["cwnd_packets"].to_list()
    threshold = series["ssthresh_packets"].to_list()
    open_again = [n for n, (w, t) in enumerate(zip(window, threshold, strict=True)) if w and t and w > t]
    steps = [window[b] - window[a] for a, b in zip(open_again, open_again[6:], strict=False) if b - a == 6]
    grown = sorted(steps)[len(steps) // 2]
    assert grown == 1, f"{grown} packets in 600 ms"


def test_it_fills_the_link() -> None:
    """A bottleneck with a queue of one bandwidth-delay product is used to nine tenths in the second half."""
    flows = run(ALONE.set("flow.duration", "120 s"), "flows")
    assert flows["steady_goodput_mbps"][0] > 0.9 * 20 * 1448 / 1500, flows["steady_goodput_mbps"][0]


def main() -> int:
    """Run every test, also after one that fails; return the exit code."""
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    failed = 0
    for number, (name, test) in enumerate(tests.items(), 1):
        print(f"{number}/{len(tests)} {name.removeprefix('test_').replace('_', ' ')}: ", end="", flush=True)
        try:
            test()
        except Exception as error:  # the next test runs all the same
            failed += 1
            print(f"FAILED: {type(error).__name__}: {error}")
        else:
            print("ok")
    print(f"{len(tests) - failed} of {len(tests)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
