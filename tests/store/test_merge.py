# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Shards of a study that ran separately merge into the bytes of one process; other folders are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import SMALL_STUDY, Perigee
from perigee.engines.run.job import Job
from perigee.engines.run.part import Part
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.places import find_study
from perigee.store.manifest import read_manifest
from perigee.store.merging import merge
from perigee.store.results import Results
from synthetic import SyntheticEngine

RUNS = 12


def bytes_of(folder: Path, pattern: str = "*.parquet") -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob(pattern))}


def carried_out(study: Path, out: Path, shard: str | None = None, engine: SyntheticEngine | None = None) -> Path:
    part = Part.read(shard) if shard else None
    carry_out(Job(find_study(str(study)), engine or SyntheticEngine(3), out=out, part=part, workers=2))
    return out


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_merged_shards_are_the_bytes_of_one_process(study: Path, tmp_path: Path, count: int) -> None:
    whole = carried_out(study, tmp_path / "whole")
    shards = [carried_out(study, tmp_path / str(number), f"{number}/{count}") for number in range(1, count + 1)]
    if count == 1:
        # The only shard is the whole study.
        assert bytes_of(shards[0]) == bytes_of(whole)
        return
    done = merge(list(reversed(shards)), tmp_path / "merged")
    assert (done.runs, done.was_there) == (RUNS, False)
    assert bytes_of(done.folder) == bytes_of(whole) != {}
    assert len(read_manifest(done.folder)["parts"]) == count
    assert merge(shards, tmp_path / "merged").was_there
    assert Results(done.folder).table("flows").height == Results(whole).table("flows").height


def test_shards_in_one_folder_one_after_the_other_make_a_whole(study: Path, tmp_path: Path) -> None:
    whole, out = carried_out(study, tmp_path / "whole"), tmp_path / "out"
    for shard in ("2/3", "1/3"):
        carried_out(study, out, shard)
        with pytest.raises(InputError, match="not finished"):
            Results(out)
    carried_out(study, out, "3/3")
    assert bytes_of(out) == bytes_of(whole)


def test_a_missing_or_unfinished_shard_is_named(study: Path, tmp_path: Path) -> None:
    shards = [carried_out(study, tmp_path / str(number), f"{number}/4") for number in (1, 2, 4)]
    with pytest.raises(InputError, match=r"3 of 12 runs are in none of the folders \(run 2, 6, 10\)"):
        merge(shards, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_in_two_folders_is_taken_if_both_are_the_same(study: Path, tmp_path: Path) -> None:
    whole = carried_out(study, tmp_path / "whole")
    # Shard 2 of 4 has the runs of shards 2 and 6 of 8.
    shards = [carried_out(study, tmp_path / f"{n}-of-4", f"{n}/4") for n in (1, 2, 3, 4)]
    again = carried_out(study, tmp_path / "6-of-8", "6/8")
    assert bytes_of(merge([*shards, again], tmp_path / "out").folder) == bytes_of(whole)
    other = carried_out(
        study, tmp_path / "other", "6/8", SyntheticEngine(3, edit=lambda row: row.update(cwnd_mean_bytes=1.0))
    )
    with pytest.raises(InputError, match=r"run 5 differs from that in .*2-of-4; leave one of the folders out"):
        merge([*shards, other], tmp_path / "differing")
    assert not (tmp_path / "differing").exists()


def test_shards_of_other_studies_and_whole_results_are_refused(study: Path, tmp_path: Path) -> None:
    first = carried_out(study, tmp_path / "1", "1/2")
    other = carried_out(study, tmp_path / "2", "2/2", SyntheticEngine(3, first_seed=7))
    with pytest.raises(InputError, match=r"holds other work than .*changed since"):
        merge([first, other], tmp_path / "out")
    whole = carried_out(study, tmp_path / "whole")
    with pytest.raises(InputError, match="has all runs of its study already"):
        merge([first, whole], tmp_path / "out")
    second = carried_out(study, tmp_path / "2b", "2/2")
    built = json.loads((second / "manifest.json").read_text())
    with pytest.raises(InputError, match="give another with --out"):
        merge([first, second], second)
    (second / "manifest.json").write_text(json.dumps({**built, "build": "other"}))
    with pytest.raises(InputError, match="changed since it was written"):
        merge([first, second], tmp_path / "out")
    with pytest.raises(InputError, match="no such results folder"):
        merge([first, tmp_path / "nowhere"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "nowhere").exists()


def test_a_damaged_shard_is_named_and_nothing_is_complete(study: Path, tmp_path: Path) -> None:
    shards = [carried_out(study, tmp_path / str(number), f"{number}/2") for number in (1, 2)]
    damaged = next((shards[1] / "shards").iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(InputError, match=f"{damaged.name}: damaged"):
        merge(shards, tmp_path / "out")
    with pytest.raises(InputError, match="not finished"):
        Results(tmp_path / "out")
    damaged.unlink()
    carried_out(study, shards[1], "2/2")
    assert bytes_of(merge(shards, tmp_path / "out").folder) == bytes_of(carried_out(study, tmp_path / "whole"))


def test_captures_are_merged_too_and_the_command_names_the_next_step(perigee: Perigee, tmp_path: Path) -> None:
    text = SMALL_STUDY.replace("[[links]]", "[measure]\npcap = true\n[[links]]", 1)
    (tmp_path / "small.toml").write_text(text)
    given = ("small.toml", "--set", "rounds=2")
    whole = perigee("run", *given, "--out", "whole")
    assert whole.returncode == 0, whole.stderr
    shards = [perigee("run", *given, "--shard", f"{number}/2") for number in (1, 2)]
    for number, shard in enumerate(shards, 1):
        assert shard.returncode == 0, shard.stderr
        assert "next, when all are there: perigee merge FOLDER..." in shard.stderr
        assert shard.stdout.endswith(f"-{number}-of-2\n")
    done = perigee("merge", *(shard.stdout.strip() for shard in shards))
    assert done.returncode == 0, done.stderr
    merged = tmp_path / done.stdout.strip()
    assert bytes_of(merged) == bytes_of(tmp_path / "whole")
    assert bytes_of(merged, "captures/*") == bytes_of(tmp_path / "whole", "captures/*") != {}
    assert perigee("report", merged).returncode == 0


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", ""])
def test_a_malformed_shard_is_refused(perigee: Perigee, shard: str) -> None:
    done = perigee("run", "claypool-2021", "--shard", shard)
    assert done.returncode == 2
    assert f"--shard {shard}: " in done.stderr
