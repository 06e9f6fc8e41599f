# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A results folder is checked before it is used, and holds no unneeded files."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, environment
from perigee.comparison.cells import compare
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.files import atomic_file
from perigee.places import find_study
from perigee.report.writer import write_report
from perigee.store.manifest import read_manifest, write_manifest
from perigee.store.results import Results
from synthetic import SyntheticEngine

EDITS = 200


def job(study: Path, out: Path, **more: Any) -> Job:
    return Job(find_study(str(study)), SyntheticEngine(3), out=out, **more)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_kill_while_tables_are_written_leaves_no_unfinished_file(study: Path, tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from perigee.files import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as file:\n"
        "    file.write(bytes(1 << 20)); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "flows.parquet")], env=environment(), check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["invented"]


def test_a_file_is_whole_where_the_file_system_has_no_files_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = os.open

    def without(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return really_open(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", without)
    with atomic_file(tmp_path / "a") as file:
        file.write(b"one")
        assert [path.suffix for path in tmp_path.iterdir()] == [".tmp"]
    with pytest.raises(ZeroDivisionError), atomic_file(tmp_path / "a") as file:
        file.write(bytes(1 // 0))
    assert everything(tmp_path) == {"a": b"one"}


@pytest.mark.parametrize("fresh", [False, True])
def test_what_killed_processes_left_is_removed(results: Path, study: Path, fresh: bool) -> None:
    before = everything(results)
    for folder in ("shards", "captures", "raw"):
        (results / folder).mkdir()
    left = [".events.parquet.1a2b3c4d.tmp", ".manifest.json.x.tmp", "study/.setup.json.y.tmp"]
    left += ["captures/.run-000001-client.pcapng.tmp", "raw/.run-000001-a.json.z.tmp", "shards/run-000000.shard"]
    for name in left:
        (results / name).write_bytes(b"unfinished")
    carry_out(job(study, results, fresh=fresh))
    there = everything(results)
    assert there.keys() == before.keys()
    assert fresh or there == before
    assert not (results / "shards").exists()


def test_what_killed_runs_left_is_removed_when_they_are_resumed(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, str(ROOT / "tests" / "synthetic.py"), "run", str(study), "--out", str(out), "-j", "2"]
    with subprocess.Popen(command, env={**environment(), "PAUSE_S": "0.3"}, stderr=subprocess.DEVNULL) as process:
        while len(list(out.glob("shards/*.shard"))) < 2 and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    (out / "shards" / ".run-000011.shard.1a2b3c4d.tmp").write_bytes(b"unfinished")
    carry_out(job(study, out))
    carry_out(job(study, tmp_path / "at-once"))
    assert everything(out).keys() == everything(tmp_path / "at-once").keys()


def test_fresh_removes_the_reports_of_the_results_it_replaces_and_nobodys_else(results: Path, study: Path) -> None:
    write_report(results, formats=["html", "csv"])
    (results / "notes.txt").write_text("mine")
    carry_out(job(study, results, fresh=True))
    assert not (results / "report.html").exists()
    assert not (results / "report-files").exists()
    assert (results / "notes.txt").read_text() == "mine"


def link(at: Path, to: Path) -> None:
    at.symlink_to(to)


def pipe(at: Path, _to: Path) -> None:
    os.mkfifo(at)


def written(at: Path, _to: Path) -> None:
    at.write_text("mine")


@pytest.mark.parametrize("make", [link, pipe, written, lambda at, _to: at.mkdir()])
def test_a_lock_that_is_not_ours_is_refused_and_nothing_is_truncated(
    study: Path, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    precious, out = tmp_path / "precious", tmp_path / "out"
    precious.write_text("mine")
    out.mkdir()
    make(out / ".lock", precious)
    with pytest.raises(InputError, match=r"\.lock: is no lock that perigee made; remove it"):
        carry_out(job(study, out))
    assert precious.read_text() == "mine"
    assert [path.name for path in out.iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["shards", "study", "captures", "raw"])
@pytest.mark.parametrize("fresh", [False, True])
def test_nothing_is_written_or_removed_through_a_symbolic_link(
    results: Path, study: Path, tmp_path: Path, name: str, fresh: bool
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "run-000000.shard").write_text("mine")
    if (results / name).exists():
        (results / name).rename(results / f"{name}-before")
    (results / name).symlink_to(elsewhere)
    with pytest.raises(InputError, match=f"{name}: is a symbolic link, and nothing is written or removed through one"):
        carry_out(job(study, results, fresh=fresh))
    assert everything(elsewhere) == {"run-000000.shard": b"mine"}


def test_a_file_of_results_that_is_a_symbolic_link_is_replaced_and_not_written_through(
    results: Path, study: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("study/study.toml", "flows.parquet", ".manifest.json.a.tmp"):
        (results / name).unlink(missing_ok=True)
        (results / name).symlink_to(precious)
    carry_out(job(study, results, fresh=True))
    assert precious.read_text() == "mine"
    assert not (results / "study" / "study.toml").is_symlink()
    Results(results)


def values(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a document, without the document itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, below in inner for found in [(*path, key), *values(below, (*path, key))]]


def edit(manifest: dict[str, Any], draws: random.Random) -> str:
    """Change one value of a manifest; return the manifest and a description of the change."""
    others = [None, True, -1, 0, 3, 10**30, 1.5, "", "x", "../x", "\ud800", [], [1], ["x"], {}, {"x": 1}]
    path = draws.choice(values(manifest))
    inner: Any = manifest
    for key in path[:-1]:
        inner = inner[key]
    if draws.random() < 0.3:
        del inner[path[-1]]
        return f"without {path}"
    inner[path[-1]] = draws.choice(others)
    return f"{path} = {inner[path[-1]]!r}"


def test_every_edit_of_a_manifest_is_worked_with_or_refused(results: Path, study: Path, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    draws = random.Random(seed)  # noqa: S311 - for edits, not for secrets
    original = json.loads((results / "manifest.json").read_text())
    refused = 0
    for _ in range(EDITS):
        manifest = json.loads(json.dumps(original))
        said = edit(manifest, draws)
        # Half of the edits update the checksum as well.
        if draws.random() < 0.5:
            write_manifest(results / "manifest.json", manifest)
        else:
            (results / "manifest.json").write_text(json.dumps(manifest))
        for attempt in (lambda: foot_of(results), lambda: carry_out(job(study, results))):
            try:
                attempt()
            except InputError as error:
                refused += 1
                assert "; " in str(error), said
            except Exception as error:
                raise AssertionError(f"{said}: {error!r}") from error
    assert refused > EDITS
    (results / "manifest.json").write_text(json.dumps(original))
    Results(results)


def foot_of(results: Path) -> None:
    """Read everything that a report and a comparison take from a manifest."""
    found = Results(results)
    said = found.manifest
    assert said["runs"] + said["rounds"] + said["first_seed"] > 0
    assert ", ".join([*said["settings"], said["study"], said["versions"]["perigee"], said["study_hash"][:16]])
    found.setup()
    compare(found, found)


@pytest.mark.parametrize("name", ["study.toml", "setup.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b'{"links": 3}', b"{}"])
def test_every_edit_of_what_is_kept_of_a_study_is_noticed(results: Path, name: str, content: bytes) -> None:
    path = results / "study" / name
    if path.read_bytes() == content:
        content = b"{ }"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{name}: damaged or changed since it was written; run the study again"):
        write_report(results)


def test_a_missing_file_of_a_study_is_noticed_and_a_foreign_one_is_not_shown(results: Path) -> None:
    (results / "study" / "foreign.c").write_text("int main;")
    assert Results(results).authored() == []
    (results / "study" / "setup.json").unlink()
    with pytest.raises(InputError, match=r"setup.json: cannot be read: No such file"):
        Results(results)


def test_what_says_how_results_are_shown_may_be_added_and_changed(results: Path) -> None:
    path = results / "study" / "report.toml"
    path.write_text("title = 'Another'\n")
    assert Results(results).file("report.toml") == (path, "title = 'Another'\n")
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"report.toml: not a text file \(byte 0 is no UTF-8\); save it as UTF-8"):
        Results(results).file("report.toml")


def test_a_manifest_that_is_no_text_in_json_is_refused(results: Path) -> None:
    for content in (b"[" * 100_000, b'{"runs": 1' + b"0" * 10_000 + b"}", b"{" + b" " * (17 << 20)):
        (results / "manifest.json").write_bytes(content)
        with pytest.raises(InputError, match=r"manifest\.json: .*; "):
            read_manifest(results)
