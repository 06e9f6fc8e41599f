# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Recorded links: replayed without end, and in the formats of replay tools."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median

import polars as pl
import pytest

from conftest import Perigee
from perigee.engines.links.sampling import sample_profile
from perigee.places import find_profile
from study_text import flow, link

SLOT_MS = 400


def recording(folder: Path, rates: list[int], delays: list[int]) -> None:
    """A recording with a slot of `SLOT_MS` for each rate (packets per ms) and delay (ms)."""
    folder.mkdir()
    lines = [
        t for n, rate in enumerate(rates) for t in range(n * SLOT_MS + 1, (n + 1) * SLOT_MS + 1) for _ in range(rate)
    ]
    (folder / "bw.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "delay.txt").write_text("".join(f"{delay}\n" * (SLOT_MS // 10) for delay in delays))


def profile(path: Path, replay: str, *folders: str) -> Path:
    traces = {name: [f"{folder}/{name}.txt" for folder in folders] for name in ("bw", "delay")}
    path.write_text(
        f'name = "{path.stem}"\ntitle = "t"\nsource = "chosen"\n[link]\nqueue = "90 kB"\nreplay = {replay}\n'
        f"rate = {{ trace = {traces['bw']} }}\ndelay = {{ trace = {traces['delay']} }}\n"
    )
    return path


def test_drawn_slots_have_the_rate_and_the_delay_of_one_recorded_slot_in_both_directions(tmp_path: Path) -> None:
    recording(tmp_path / "monday", [1, 2, 3], [10, 20, 30])
    recording(tmp_path / "tuesday", [4, 5], [40, 50])
    replay = f'{{ kind = "bootstrap", block = "{SLOT_MS} ms" }}'
    found = find_profile(str(profile(tmp_path / "leo.toml", replay, "monday", "tuesday")))
    samples = sample_profile(found, 60.0, 0.1, seed=4)
    # The first tenth of a slot may have packets that the delay before it holds up.
    inside = samples.filter((pl.col("t_s") * 10).round().cast(pl.Int64) % 4 != 0)
    pairs = inside.select((pl.col("rate_mbps") / 12).round(), (pl.col("delay_ms") / 10).floor())
    assert pairs.filter(pl.col("rate_mbps") != pl.col("delay_ms")).is_empty()
    assert set(pairs["rate_mbps"]) == {1, 2, 3, 4, 5}
    down, up = (samples.filter(pl.col("direction") == name)["rate_mbps"].to_list() for name in ("down", "up"))
    assert down == up
    assert down != sample_profile(found, 60.0, 0.1, seed=5).head(len(down))["rate_mbps"].to_list()


@pytest.mark.parametrize("replay", ['"loop"', '"stop"', '{ kind = "bootstrap", block = "400 ms", run = 2 }'])
def test_a_transfer_over_recordings_is_the_same_on_the_fast_and_on_the_plain_way(
    perigee: Perigee, tmp_path: Path, replay: str
) -> None:
    recording(tmp_path / "monday", [1, 2, 3], [10, 20, 30])
    recording(tmp_path / "tuesday", [4, 5], [40, 50])
    profile(tmp_path / "leo.toml", replay, "monday", "tuesday")
    study = 'name = "replayed"\nnodes = ["a", "b"]\nrounds = 2\ntime_limit = "8 s"\n[measure]\nseries = "500 ms"\n'
    study += link("leo", "a b", profile="./leo.toml") + flow("f", "a b", duration="6 s")
    (tmp_path / "study.toml").write_text(study)
    done = perigee("run", "study.toml", "--verify", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("identical\n")
    links = pl.read_parquet(tmp_path / "out" / "links.parquet").filter(pl.col("link") == "leo.down")
    carried = links.group_by("run").agg(pl.col("delivered_bytes").sum()).sort("run")["delivered_bytes"]
    assert (carried[0] == carried[1]) == ("bootstrap" not in replay)
    # The recordings last 2 s; a link that stops carries nothing after them.
    later = links.filter(pl.col("t_s") > 2.5)["delivered_packets"].sum()
    assert (later == 0) == (replay == '"stop"')


def test_a_profile_that_is_exported_and_replayed_has_the_same_rate_and_delay(perigee: Perigee, tmp_path: Path) -> None:
    done = perigee(
        "traces", "export", "starlink-2022", "--to", "leoreplayer", "--for", "30 s", "--seed", "3", "-o", "s"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["s/delay.txt", "s/down-bw.txt", "s/up-bw.txt"]
    assert "`delay.txt` has the mean of both directions" in done.stderr
    text = 'name = "again"\ntitle = "t"\nsource = "starlink-2022"\n'
    for direction in ("down", "up"):
        text += f'[{direction}]\nrate = {{ trace = "s/{direction}-bw.txt" }}\ndelay = {{ trace = "s/delay.txt" }}\n'
    (tmp_path / "again.toml").write_text(text)
    first, again = (
        sample_profile(find_profile(name), 30.0, 0.5, seed=3)
        for name in ("starlink-2022", str(tmp_path / "again.toml"))
    )
    # The trace ends with its last packet, and begins anew within the last half second.
    first, again = (samples.filter(pl.col("t_s") < 29.5) for samples in (first, again))
    # At most a packet less and one more in half a second.
    rates = zip(first["rate_mbps"], again["rate_mbps"], strict=True)
    assert max(abs(one - other) for one, other in rates) <= 2 * 0.012 / 0.5
    delays = zip(first["delay_ms"], again["delay_ms"], strict=True)
    assert median(abs(one - other) for one, other in delays if one is not None) <= 2.0


def test_recordings_go_through_cellreplays_format_and_back(perigee: Perigee, tmp_path: Path) -> None:
    recording(tmp_path / "monday", [14, 28], [10, 20])
    there = perigee(
        "traces",
        "convert",
        "monday/bw.txt",
        "monday/delay.txt",
        "--from",
        "leoreplayer",
        "--to",
        "cellreplay",
        "-o",
        "c",
    )
    assert there.returncode == 0, there.stderr
    assert "the light PDOs are the first packet of a train alone" in there.stderr
    opportunities = [int(line) for line in (tmp_path / "c" / "pdo").read_text().split()]
    assert len(opportunities) * 1400 == 42 * SLOT_MS * 1500
    assert all(a <= b for a, b in pairwise(opportunities))
    back = perigee(
        "traces", "convert", "c/delay-light-pdo", "c/pdo", "--from", "cellreplay", "--to", "leoreplayer", "-o", "b"
    )
    assert back.returncode == 0, back.stderr
    assert (tmp_path / "b" / "delay.txt").read_text() == (tmp_path / "monday" / "delay.txt").read_text()
    rates = [(tmp_path / folder / "bw.txt").read_text().split() for folder in ("monday", "b")]
    assert rates[0] == rates[1]


def test_each_mistake_names_file_and_line_and_nothing_is_written(perigee: Perigee, tmp_path: Path) -> None:
    recording(tmp_path / "monday", [1], [10])
    (tmp_path / "bad").write_text("0 12 0\n9 x 0\n")
    (tmp_path / "empty").write_text("")
    cases = {
        ("bad", "monday/bw.txt", "cellreplay"): "bad:2: `x` is not a whole number of milliseconds",
        ("monday/bw.txt", "empty", "leoreplayer"): "empty:1: the recording is empty",
        ("monday/bw.txt", "leoreplayer"): "1 files: leoreplayer has 2; name rate, then delay",
        ("nowhere", "mahimahi"): "nowhere: No such file or directory",
        ("monday/bw.txt", "mahimah"): "there is no format `mahimah`; did you mean `mahimahi`?",
    }
    for (*files, source), message in cases.items():
        done = perigee("traces", "convert", *files, "--from", source, "--to", "timeline", "-o", "out")
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    done = perigee("traces", "export", "viasat2", "--set", "link.rate=unlimited", "--to", "mahimahi", "-o", "out")
    assert (done.returncode, "down: the rate is unlimited" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "out").exists()
