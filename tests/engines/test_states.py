# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The table of states: its columns come from the congestion controls of all runs, however runs are kept."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import perigee
from conftest import Perigee
from perigee.engines.run.job import Job
from perigee.engines.run.part import Part
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import find_study
from perigee.store.merging import merge
from perigee.store.shard_names import shard_name
from perigee.store.shards import merge_shards, write_shard
from perigee.store.streams import stream_of
from study_text import flow, link

STUDY = (
    'name = "states"\nnodes = ["a", "b"]\n[measure]\nstates = "changes"\n'
    + link("l", "a b", rate="10 Mbit/s", delay="10 ms")
    + flow("f", "a b", size="300 kB")
    + '[vary]\n"flow.cc" = ["reno", "bbr3"]\n'
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "states.toml"
    path.write_text(STUDY)
    return path


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def test_a_run_has_empty_cells_where_its_algorithm_has_no_such_value(study: Path) -> None:
    states = perigee.Study.load(study).run().states
    assert "state" in states.columns and "max_bw_bps" in states.columns
    reno, bbr3 = (states.filter(pl.col("point.cc") == name) for name in ("reno", "bbr3"))
    assert reno["state"].null_count() == reno.height > 0
    assert bbr3["state"].to_list()[:2] == ["startup", "drain"]
    assert bbr3["round_count"].null_count() == 0


def test_the_columns_do_not_depend_on_which_runs_are_kept_together(study: Path, tmp_path: Path) -> None:
    found = find_study(str(study))
    together = carry_out(Job(found, Simulator, out=tmp_path / "together"))
    alone = Job(found, Simulator, out=tmp_path / "alone")
    alone.plan.most_together = 1
    carry_out(alone)
    assert tables(tmp_path / "alone") == tables(tmp_path / "together"), together
    parts = [tmp_path / "first", tmp_path / "second"]
    for number, out in enumerate(parts, 1):
        carry_out(Job(found, Simulator, out=out, part=Part(number, len(parts))))
    merge(parts, tmp_path / "merged")
    assert tables(tmp_path / "merged") == tables(tmp_path / "together")


def test_a_value_that_is_a_number_in_one_run_and_a_name_in_another_is_text(tmp_path: Path) -> None:
    def shard(run: int, values: pl.Series) -> Path:
        path = tmp_path / shard_name(range(run, run + 1))
        rows = pl.DataFrame({"run": pl.repeat(run, len(values), dtype=pl.UInt32, eager=True), "x": values})
        write_shard(path, {"states": stream_of(rows)})
        return path

    kept = [shard(0, pl.Series([1, None], dtype=pl.UInt64)), shard(1, pl.Series(["up"]))]
    merge_shards(kept, tmp_path)
    assert pl.read_parquet(tmp_path / "states.parquet")["x"].to_list() == ["1", None, "up"]


def test_emulated_runs_say_that_the_kernel_shows_no_states(study: Path, perigee: Perigee) -> None:
    done = perigee("run", study, "--engine", "emu", "--set", "flow.cc=cubic")
    assert done.returncode == 2
    assert "`measure.states`: the kernel does not show what a congestion control knows" in done.stderr
    assert "leave it out, or use --engine sim" in " ".join(done.stderr.split())


def test_cc_show_lists_the_watched_values_with_their_units(perigee: Perigee) -> None:
    shown = perigee("cc", "show", "bbr3").stdout
    assert "inflight_longterm_packets" in shown and "BBR.min_rtt" in shown
    assert "Watched value" not in perigee("cc", "show", "reno").stdout
