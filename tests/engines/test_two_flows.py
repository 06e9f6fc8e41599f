# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Three laws of two flows through one dish, behind a shared queue and behind a queue per flow (docs/models/leo.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import perigee
from study_text import flow, link

MBPS = 50.0
DROP_TAIL = {"bytes": "250 kB"}
DROP_FRONT = {"bytes": "250 kB", "kind": "drop-front"}
PER_FLOW = {"bytes": "250 kB", "aqm": {"kind": "fq-codel"}}

Carried = Callable[..., pl.DataFrame]


@pytest.fixture
def carried(tmp_path: Path) -> Carried:
    """Function that runs flows over one link of 50 Mbit/s and 20 ms there and back, and returns their rows."""

    def run(queue: dict[str, object], *flows: str) -> pl.DataFrame:
        number = len(list(tmp_path.iterdir()))
        path = tmp_path / f"{number}.toml"
        text = link("dish", "a b", rate=f"{MBPS:g} Mbit/s", delay="10 ms", down={"queue": queue}) + "".join(flows)
        path.write_text(f'name = "two"\nnodes = ["a", "b"]\n{text}')
        results = perigee.Study.load(path).run(out=tmp_path / f"results-{number}")
        windows = results["series"].group_by("flow").agg(pl.col("inflight_packets").mean())
        return results["flows"].join(windows, on="flow", maintain_order="left")

    return run


def datagrams(name: str, mbps: float) -> str:
    """Datagrams at a constant rate."""
    return flow(name, "a b", kind="udp", rate=f"{mbps:g} Mbit/s", packet="1500 B", duration="20 s")


def transfer(name: str, cc: str) -> str:
    """A transfer that always has data."""
    return flow(name, "a b", cc=cc, duration="25 s")


def share(rows: pl.DataFrame) -> float:
    """The first flow's share of what both carry."""
    first, second = rows["goodput_mbps"]
    return float(first / (first + second))


@pytest.mark.parametrize("queue", [DROP_TAIL, DROP_FRONT])
def test_a_shared_queue_gives_each_flow_its_share_of_the_arrivals_and_a_queue_per_flow_an_equal_one(
    carried: Carried, queue: dict[str, object]
) -> None:
    flows = datagrams("many", 71.0), datagrams("few", 29.0)
    assert share(carried(queue, *flows)) == pytest.approx(0.71, abs=0.02)
    assert share(carried(PER_FLOW, *flows)) == pytest.approx(0.5, abs=0.02)
    # A flow below its equal share has what it sends, behind a queue per flow.
    modest = carried(PER_FLOW, datagrams("many", 71.0), datagrams("few", 12.0))
    assert modest["goodput_mbps"][1] == pytest.approx(12.0 * 1472 / 1500, rel=0.01)


@pytest.mark.parametrize("cc", ["cubic", "bbr"])
def test_datagrams_keep_their_rate_in_a_shared_queue_and_have_an_equal_share_in_a_queue_per_flow(
    carried: Carried, cc: str
) -> None:
    flows = transfer("transfer", cc), datagrams("datagrams", 0.8 * MBPS).replace("20 s", "25 s")
    shared, apart = carried(DROP_FRONT, *flows), carried(PER_FLOW, *flows)
    sent = 0.8 * MBPS * 1472 / 1500
    assert shared["goodput_mbps"][1] == pytest.approx(sent, rel=0.05)
    assert shared["goodput_mbps"][0] < 0.25 * MBPS
    assert apart["goodput_mbps"][0] == pytest.approx(0.5 * MBPS, rel=0.12)


@pytest.mark.parametrize("pair", [("cubic", "cubic"), ("cubic", "bbr"), ("vegas", "cubic")])
def test_in_a_shared_queue_rates_are_as_windows_and_in_a_queue_per_flow_equal(
    carried: Carried, pair: tuple[str, str]
) -> None:
    flows = transfer("one", pair[0]), transfer("other", pair[1])
    rows = carried(DROP_FRONT, *flows)
    # Both wait in the same queue and have the same round trip: rates are as what is in flight (Little's law).
    one, other = rows["inflight_packets"]
    assert share(rows) == pytest.approx(one / (one + other), abs=0.03)
    # An algorithm that keeps the queue short has little of one that the other fills.
    assert (share(rows) < 0.2) == (pair[0] == "vegas")
    assert share(carried(PER_FLOW, *flows)) == pytest.approx(0.5, abs=0.05)
