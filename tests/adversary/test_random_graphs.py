# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""On every graph, every packet is delivered, dropped or on its way, and the same study gives the same bytes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import polars as pl

from adversary.conftest import Attempts, damaged
from adversary.studies import study
from perigee.engines.choice import engine
from perigee.engines.plan.native import native_plan
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError, PerigeeError
from perigee.places import find_study
from perigee.store.results import Results

OUTCOMES = {"completed", "time_limit", "unconnected", "stalled", "reset", "refused", "timed_out"}


def decides_on_arrival(text: str) -> set[str]:
    """The directions of links that know what becomes of a packet when it arrives."""
    found = set()
    for link in tomllib.loads(text)["links"]:
        for direction in ("down", "up"):
            rate, queue = (link[direction].get(key, {}) for key in ("rate", "queue"))
            queue = queue if isinstance(queue, dict) else {}
            aqm, kind = queue.get("aqm", {}).get("kind"), queue.get("kind")
            is_tdma = isinstance(rate, dict) and rate["kind"] == "tdma"
            if not is_tdma and aqm not in ("codel", "fq-codel", "dualpi2") and kind not in ("drop-front", "priority"):
                found.add(f"{link['name']}.{direction}")
    return found


def hold(results: Results, text: str) -> None:
    """Assert what holds on every graph."""
    links, flows = results.table("links"), results.table("flows")
    reasons = ("dropped_queue_full_packets", "dropped_aqm_packets", "lost_packets")
    on_arrival = decides_on_arrival(text)
    waiting: dict[str, int] = {}
    waiting_bytes: dict[str, int] = {}
    for row in links.iter_rows(named=True):
        link = row["link"]
        waiting[link] = (
            waiting.get(link, 0) + row["offered_packets"] - row["delivered_packets"] - row["dropped_packets"]
        )
        assert waiting[link] >= 0, row
        assert waiting[link] == 0 or link not in on_arrival, row
        assert row["dropped_packets"] == sum(row[reason] for reason in reasons), row
        waiting_bytes[link] = waiting_bytes.get(link, 0) + row["offered_bytes"] - row["delivered_bytes"]
        assert waiting_bytes[link] >= 0, row
    for row in flows.iter_rows(named=True):
        assert row["outcome"] in OUTCOMES, row
        assert row["completed"] == (row["outcome"] == "completed"), row
        assert row["duration_s"] >= 0, row
        # A flow that takes no time has none.
        assert row["goodput_mbps"] is None or 0 <= row["goodput_mbps"] < 1e6, row
        if row["sent_packets"] is not None and row["kind"] in ("udp", "ping"):
            assert 0 <= row["lost_packets"] <= row["sent_packets"], row
        if row["kind"] == "bulk":
            assert (row["retransmitted_packets"] or 0) <= (row["sent_packets"] or 0), row
    assert links.filter(pl.col("rate_mbps") < 0).is_empty()


def test_packets_are_conserved_and_the_same_study_gives_the_same_bytes(attempts: Attempts, tmp_path: Path) -> None:
    for number, chance in enumerate(attempts):
        path = tmp_path / f"{number}.toml"
        print(text := study(chance))
        path.write_text(text)
        try:
            native_plan(find_study(str(path)), (), False)
        except InputError:
            continue
        tables = []
        for workers in (1, 2):
            out = tmp_path / f"{number}-{workers}"
            carry_out(Job(find_study(str(path)), engine("sim"), out=out, workers=workers))
            hold(Results(out), text)
            tables.append({file.name: file.read_bytes() for file in sorted(out.glob("*.parquet"))})
        assert tables[0] == tables[1]


def test_studies_with_mistakes_are_answered_in_a_line_each(attempts: Attempts, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    for chance in attempts:
        path.write_bytes(damaged(study(chance).encode(), chance))
        try:
            native_plan(find_study(str(path)), (), False)
        except PerigeeError as error:
            assert all(line.startswith(f"{path}:") for line in str(error).rstrip().split("\n")[1:]), error
