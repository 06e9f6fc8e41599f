# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""On every graph, every packet is delivered, dropped or on its way, and the same study gives the same bytes."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl

from adversary.conftest import Attempts, damaged
from perigee.engines.choice import engine
from perigee.engines.job import Job
from perigee.engines.native import native_plan
from perigee.engines.runner import carry_out
from perigee.errors import PerigeeError
from perigee.places import find_study
from perigee.store.results import Results

OUTCOMES = {"completed", "time_limit", "unconnected", "stalled", "reset", "refused", "timed_out"}


def number(chance: random.Random, least: float, most: float) -> float:
    """A number between two others, uniform in its logarithm."""
    return float(least * (most / least) ** chance.random())


def link(chance: random.Random, name: str, ends: tuple[str, str]) -> str:
    """A link with processes of all kinds."""
    lines = [f'[[links]]\nname = "{name}"\nbetween = ["{ends[0]}", "{ends[1]}"]']
    lines.append(f'rate = "{number(chance, 2e4, 2e8):.0f} bit/s"' if chance.random() < 0.9 else 'rate = "unlimited"')
    delay = f'"{number(chance, 0.01, 700):.3f} ms"'
    jitter = (
        '{ kind = "jitter", base = "20 ms", every = "5 ms", body = { kind = "normal", sd = "3 ms" }, max = "90 ms" }'
    )
    lines.append(f"delay = {jitter if chance.random() < 0.2 else delay}")
    queue = f"{number(chance, 100, 3e6):.0f}"
    aqm = '{ kind = "red", min = "3 kB", max = "20 kB", max_probability = "20 %", weight = "1 %" }'
    lines.append(chance.choice([
        f'queue = "{queue} B"', f"queue = {{ packets = {chance.randint(1, 300)} }}",
        f'queue = {{ time = "{chance.randint(1, 900)} ms" }}',
        f'queue = {{ bytes = "90 kB", aqm = {aqm} }}', "",
    ]))  # fmt: skip
    lines.append(chance.choice([
        "", "", f'loss = "{chance.choice((0.01, 0.5, 5, 40, 100))} %"',
        'loss = { kind = "gilbert-elliott", loss = "2 %", burst = 8 }',
        'loss = { kind = "outages", gap = "3 s", length = "700 ms", loss = "100 %" }',
        f'loss = {{ kind = "periodic", period = "{chance.randint(2, 30)} s", length = "{chance.randint(1, 900)} ms" }}',
    ]))  # fmt: skip
    if chance.random() < 0.2:
        lines.append(f'overhead = "{chance.randint(1, 200)} B"')
    if chance.random() < 0.2:
        lines.append(f'mtu = "{chance.randint(576, 9000)} B"')
    return "\n".join(lines)


def flow(chance: random.Random, name: str, nodes: list[str]) -> str:
    """A flow of any kind."""
    ends = chance.sample(nodes, 2)
    lines = [
        f'[[flows]]\nname = "{name}"\nfrom = "{ends[0]}"\nto = "{ends[1]}"\nstart = "{number(chance, 1, 5000):.0f} ms"'
    ]
    lines.append(chance.choice([
        f'size = "{number(chance, 1, 3e6):.0f} B"', f'duration = "{chance.randint(1, 9000)} ms"',
        f'kind = "request"\nrequest = "{chance.randint(1, 3000)} B"\nresponse = "{number(chance, 1, 1e5):.0f} B"\n'
        f'repeat = {chance.randint(1, 9)}\nthink = "{chance.randint(0, 900)} ms"',
        f'kind = "udp"\nrate = "{number(chance, 1e3, 3e6):.0f} bit/s"\nduration = "5 s"\n'
        f'packet = "{chance.randint(28, 576)} B"',
        f'kind = "ping"\ninterval = "{chance.randint(1, 900)} ms"\nrepeat = {chance.randint(1, 60)}\n'
        f'packet = "{chance.randint(28, 576)} B"',
    ]))  # fmt: skip
    if "kind" not in lines[-1] or "request" in lines[-1]:
        algorithms = ("reno", "cubic", "bbr", "hybla", "vivace", "vegas", "compound", "westwood", "bic", "htcp", "sicc")
        lines.append(f'cc = "{chance.choice(algorithms)}"')
    return "\n".join(lines)


def study(chance: random.Random) -> str:
    """A study: a tree of nodes with some more links, and a few flows."""
    nodes = [f"n{number}" for number in range(chance.randint(2, 6))]
    ends = [(nodes[chance.randrange(place)], node) for place, node in enumerate(nodes) if place]
    ends += [(first, second) for first, second in (chance.sample(nodes, 2) for _ in range(chance.randint(0, 2)))]
    hosts = chance.choice(
        ["", "ecn = true", "sack = false", "rack = false", "syn_retries = 2\nretries2 = 3", "pacing = true"]
    )
    parts = [
        f'name = "random"\nnodes = {nodes}\nseed = {chance.randrange(1000)}\ntime_limit = "{chance.randint(2, 40)} s"',
        f"[hosts]\n{hosts}", f'[measure]\nseries = "{chance.choice((100, 1000, 7000))} ms"',
    ]  # fmt: skip
    parts += [link(chance, f"l{number}", pair) for number, pair in enumerate(ends)]
    parts += [flow(chance, f"f{number}", nodes) for number in range(chance.randint(1, 5))]
    return "\n".join(parts).replace("'", '"')


def hold(results: Results) -> None:
    """Assert what holds on every graph."""
    links, flows = results.table("links"), results.table("flows")
    reasons = ("dropped_queue_full_packets", "dropped_aqm_packets", "lost_packets")
    for row in links.iter_rows(named=True):
        assert row["offered_packets"] == row["delivered_packets"] + row["dropped_packets"], row
        assert row["dropped_packets"] == sum(row[reason] for reason in reasons), row
        assert row["offered_bytes"] >= row["delivered_bytes"], row
    for row in flows.iter_rows(named=True):
        assert row["outcome"] in OUTCOMES, row
        assert row["completed"] == (row["outcome"] == "completed"), row
        assert row["duration_s"] >= 0, row
        assert 0 <= row["goodput_mbps"] < 1e6, row
        if row["sent_packets"] is not None and row["kind"] in ("udp", "ping"):
            assert 0 <= row["lost_packets"] <= row["sent_packets"], row
        if row["kind"] == "bulk":
            assert (row["retransmitted_packets"] or 0) <= (row["sent_packets"] or 0), row
    assert links.filter(pl.col("rate_mbps") < 0).is_empty()


def test_packets_are_conserved_and_the_same_study_gives_the_same_bytes(attempts: Attempts, tmp_path: Path) -> None:
    for number, chance in enumerate(attempts):
        path = tmp_path / f"{number}.toml"
        path.write_text(text := study(chance))
        print(text)
        tables = []
        for workers in (1, 2):
            out = tmp_path / f"{number}-{workers}"
            carry_out(Job(find_study(str(path)), engine("sim"), out=out, workers=workers))
            hold(Results(out))
            tables.append({file.name: file.read_bytes() for file in sorted(out.glob("*.parquet"))})
        assert tables[0] == tables[1]


def test_studies_with_a_mistake_are_answered_in_a_line(attempts: Attempts, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    for chance in attempts:
        path.write_bytes(damaged(study(chance).encode(), chance))
        try:
            native_plan(find_study(str(path)), (), False)
        except PerigeeError as error:
            assert "\n" not in str(error).rstrip(), error
