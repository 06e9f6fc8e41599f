# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The overhead of a study grows with the number of its runs, and no faster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import SMALL_STUDY, Perigee
from perigee.engines.run import crew
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.places import find_study
from perigee.store import shards
from perigee.store.shard_names import shard_name
from perigee.store.shards import merge_shards, write_shard
from perigee.store.streams import stream_of
from synthetic import SyntheticEngine


def test_at_most_two_runs_per_worker_are_submitted(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []

    def watched(waiting: set[Any], **more: Any) -> Any:
        looked_at.append(len(waiting))
        return wait(waiting, **more)

    monkeypatch.setattr(crew, "wait", watched)
    done = carry_out(Job(find_study(str(study)), SyntheticEngine(10), out=tmp_path / "out", workers=3))
    assert done.runs == 40
    assert max(looked_at) == 6


@pytest.mark.parametrize("rows", [[3] * 100, [1] * 500, [40, 0, 1, 25, 0], [16], [16, 16, 1]])
def test_tables_are_joined_once_and_cut_into_row_groups_of_one_size(
    rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = [0]
    concat: Callable[..., pl.DataFrame] = pl.concat

    def counted(tables: list[pl.DataFrame]) -> pl.DataFrame:
        joined[0] += sum(table.height for table in tables)
        return concat(tables)

    monkeypatch.setattr(shards, "ROW_GROUP_ROWS", 16)
    monkeypatch.setattr(shards, "PARTS", 4)
    monkeypatch.setattr(pl, "concat", counted)
    begins = [sum(rows[:number]) for number in range(len(rows))]
    for number, (begin, count) in enumerate(zip(begins, rows, strict=True)):
        numbers = pl.DataFrame({"n": pl.Series(range(begin, begin + count), dtype=pl.UInt64)})
        stream = {"numbers": stream_of(numbers)} if count else {}
        write_shard(tmp_path / shard_name(range(number, number + 1)), stream)
    assert merge_shards(
        [tmp_path / shard_name(range(number, number + 1)) for number in range(len(rows))], tmp_path
    ) == {"numbers": sum(rows)}
    merged = (tmp_path / "numbers.parquet").read_bytes()
    whole = pl.read_parquet(tmp_path / "numbers.parquet")
    assert whole["n"].to_list() == list(range(sum(rows)))
    whole.write_parquet(tmp_path / "at-once.parquet", compression="zstd", compression_level=3, row_group_size=16)
    assert merged == (tmp_path / "at-once.parquet").read_bytes(), "groups of one size, whatever the shards"
    assert joined[0] <= sum(rows), "rows are copied once"


def test_a_table_without_rows_is_not_written(tmp_path: Path) -> None:
    shard = tmp_path / shard_name(range(1))
    write_shard(shard, {})
    assert merge_shards([shard], tmp_path) == {}
    assert [path.name for path in tmp_path.iterdir()] == [shard.name]


def test_a_million_runs_are_listed_by_their_number(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text(SMALL_STUDY)
    answer = perigee("run", "many.toml", "--set", "rounds=1000000", "--dry-run")
    assert answer.returncode == 0, answer.stderr
    assert "1000000 runs: 1 point in 1000000 rounds" in answer.stderr
    assert len(answer.stdout.splitlines()) < 30
    assert "round 9 " in answer.stdout
    assert "round 999999 " in answer.stdout


def test_more_than_a_million_runs_are_refused(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text(SMALL_STUDY + '[vary]\n"flow.size" = ["10 kB", "20 kB"]\n')
    answer = perigee("run", "many.toml", "--set", "rounds=500001", "--dry-run")
    assert answer.returncode == 2
    assert "500001 rounds of 2 points are too many runs; lower `rounds`, down to 1000000 runs" in answer.stderr
