# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A campaign made into a results folder like a study's: read in parallel, resumable, held against its manifest.

The folder first has what was measured of each run's files, as shards. What the manifest calls them is put to it at the
end, so that a corrected manifest does not need the files again.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from perigee import interrupts
from perigee.campaigns.contradictions import algorithm, check
from perigee.campaigns.manifest import NAME, Manifest
from perigee.campaigns.plan import Plan, Recording
from perigee.campaigns.reading import SEEN, Seen, by_name, read_run
from perigee.core import core_fingerprint
from perigee.errors import InputError, InterruptedRunError
from perigee.files import TEXT_BYTES, read_bounded
from perigee.numbers import counted
from perigee.places import COMPANIONS
from perigee.store.folder import ResultsFolder
from perigee.store.identity import Identity
from perigee.store.manifest import Manifest as FolderManifest
from perigee.store.shards import read_shard
from perigee.store.streams import stream_of

ENGINE = "campaign"
"""Value of the column `engine`."""

TRANSFERS = ("capture", "iperf3")
"""Kinds of files that have transfers, with a congestion control."""

Watch = Callable[[float], None]


@dataclass(frozen=True)
class Done:
    """A campaign that was read.

    Attributes:
        folder: its results.
        runs: number of runs.
        notes: notes for people.
    """

    folder: Path
    runs: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Run:
    """A run under its number in the results."""

    number: int
    round: int
    seed: int
    point: str
    files: Sequence[Recording]
    seen: Sequence[Seen]
    shard: Path


def make(plan: Plan, out: Path, jobs: int, watch: Watch = lambda _share: None, *, fresh: bool = False) -> Done:
    """Read a campaign into a results folder.

    Args:
        plan: the files.
        out: the folder; what an interrupted command has read is taken up.
        jobs: runs that are read at a time.
        watch: called with the share done.
        fresh: replace results that are there.

    Raises:
        InputError: files cannot be read, contradict the manifest, or the folder holds other results.
        InterruptedRunError: the user stopped it.
        StorageError: the folder cannot be written.
    """
    folder = ResultsFolder(out)
    manifest = plan.manifest
    identity = Identity(
        study=manifest.name, engine=ENGINE, plan=plan.fingerprint, build=core_fingerprint(), settings=(), reduced=False,
        runs=len(plan.runs), rounds=1, first_seed=0, study_file=str(manifest.path),
    )  # fmt: skip
    files = {NAME: manifest.text.encode(), **_companions(manifest)}
    _refuse_another_manifest(out, files, fresh=fresh)
    with folder.open(identity, files, fresh=fresh) as content:
        if not content.is_complete:
            _read(plan, folder, jobs, watch)
            _finish(plan, folder, content, files)
        return Done(out, len(plan.runs), tuple(content.content.get("notes", ())))


def _companions(manifest: Manifest) -> dict[str, bytes]:
    found = {name: manifest.path.parent / name for name in COMPANIONS}
    return {name: read_bounded(path, TEXT_BYTES, name) for name, path in found.items() if path.is_file()}


def _refuse_another_manifest(out: Path, files: Mapping[str, bytes], *, fresh: bool) -> None:
    """Refuse to take finished results by another manifest for those of this one."""
    kept = out / "study" / NAME
    if fresh or not kept.is_file() or ResultsFolder(out).rounds_of_complete() is None:
        return
    if kept.read_bytes() != files[NAME]:
        raise InputError(
            f"{out}: holds the campaign as another manifest has it; choose another folder with --out, or give --fresh "
            "to read it again"
        )


def _read(plan: Plan, folder: ResultsFolder, jobs: int, watch: Watch) -> None:
    """Read what is missing, several runs at a time; what cannot be read is reported when all else is there."""
    sizes = [sum(one.stat.st_size for one in run) for run in plan.runs]
    missing = folder.missing(len(plan.runs))
    done = dict.fromkeys(missing, 0.0)
    total = max(sum(sizes[index] for index in missing), 1)
    stop = threading.Event()

    def read(index: int) -> None:
        def go_on(share: float) -> bool:
            done[index] = share * sizes[index]
            return not stop.is_set()

        tables = read_run(plan.runs[index], plan.manifest, go_on)
        if tables is not None:
            folder.keep(index, tables, {})
            done[index] = float(sizes[index])

    wrong: list[str] = []
    with interrupts.held_back() as answer, ThreadPoolExecutor(jobs) as pool:
        # The largest first, so that none is alone at the end.
        missing.sort(key=lambda index: -sizes[index])
        waiting: set[Future[None]] = {pool.submit(read, index) for index in missing}
        try:
            while waiting:
                ended, waiting = wait(waiting, _EVERY_S, FIRST_COMPLETED)
                wrong += [_message(one) for one in ended if one.exception() is not None]
                watch(sum(done.values()) / total)
                answer()
        except BaseException as error:
            stop.set()
            pool.shutdown(cancel_futures=True)
            if not isinstance(error, KeyboardInterrupt):
                raise
            there = len(plan.runs) - len(folder.missing(len(plan.runs)))
            raise InterruptedRunError(f"{folder.path}: {there} of {len(plan.runs)} runs are read") from None
    if wrong:
        fix = "repair or leave them out with `except` of their [[recordings]]; what was read is kept"
        raise InputError(
            f"{plan.manifest.path}: {counted(len(wrong), 'file')} cannot be read; {fix}:\n" + "\n".join(sorted(wrong))
        )


def _message(failed: Future[None]) -> str:
    try:
        failed.result()
    except InputError as error:
        return str(error)
    return ""


def _finish(plan: Plan, folder: ResultsFolder, content: FolderManifest, files: Mapping[str, bytes]) -> None:
    """Hold the files against the manifest, call everything as it says, and merge the tables."""
    shards = folder.shards()
    said = [_said(read_shard(shards[index])[SEEN]) for index in range(len(plan.runs))]
    check(plan.manifest, list(zip(plan.runs, said, strict=True)))
    runs = _numbered(plan, said, [shards[index] for index in range(len(plan.runs))])
    flows = sorted({one.flow for one in plan.recordings if one.kind in TRANSFERS})
    called = folder.stage(0)
    called.path.mkdir(parents=True, exist_ok=True)
    (called.path / "shards").mkdir(exist_ok=True)
    kept: list[Path] = []
    for run in runs:
        called.keep_several(range(run.number, run.number + 1), _called(run, flows))
        kept.append(called.shards()[run.number])
    notes = [*_notes(plan, runs)]
    about = json.dumps([_about(run, seen) for run in runs for seen in run.seen], indent=1).encode()
    folder.keep_study(content, {**files, "files.json": about})
    content.update(
        rounds=max(len({run.round for run in runs}), 1), notes=notes, recordings=str(plan.folder.absolute()),
        left_out=plan.left_out,
    )  # fmt: skip
    folder.finish(content, kept)


def _said(table: pl.DataFrame) -> list[Seen]:
    return [Seen.of_text(text) for text in table["said"]]


def _numbered(plan: Plan, said: Sequence[Sequence[Seen]], shards: Sequence[Path]) -> list[_Run]:
    """Number runs by rounds and, within one, by time; without rounds those of equal settings are rounds, by time."""
    settings = _settings_of_all(plan, said)
    varied = _varied(plan, settings)
    began = [min((seen.began_unix_s for seen in own if seen.began_unix_s is not None), default=0.0) for own in said]
    in_time = sorted(range(len(plan.runs)), key=lambda index: (began[index], plan.runs[index][0].name))
    counts: dict[str, int] = {}
    made: list[tuple[int, int, int, str]] = []
    for order, index in enumerate(in_time):
        point = {key: settings[index][key] for key in varied if settings[index].get(key)}
        text = json.dumps(point, ensure_ascii=False, separators=(",", ":"))
        own = plan.runs[index][0].said.get("round")
        kind = f"{text} {plan.runs[index][0].flow}"
        number = counts.get(kind, 0) if own is None else int(own)
        counts[kind] = counts.get(kind, 0) + 1
        # Rounds that only the order in time makes did not meet the same link: equal seeds would pair them.
        made.append((number, index, number if own is not None else _UNPAIRED + order, text))
    made.sort(key=lambda one: (one[0], in_time.index(one[1])))
    return [
        _Run(number, round_, seed, point, plan.runs[index], said[index], shards[index])
        for number, (round_, index, seed, point) in enumerate(made)
    ]


def _settings_of_all(plan: Plan, said: Sequence[Sequence[Seen]]) -> list[dict[str, str]]:
    transfers = {one.flow for one in plan.recordings if one.kind in TRANSFERS}
    beside = {one.flow for run in plan.runs if any(each.flow in transfers for each in run) for one in run}
    # As a study has it: of one flow `flow.cc`, of one among several its own key.
    keys = {flow: "flow.cc" if len(beside) == 1 else f"flows.{flow}.cc" for flow in transfers}
    return [_settings(run, seen, plan.manifest, keys) for run, seen in zip(plan.runs, said, strict=True)]


def _varied(plan: Plan, settings: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the keys that have several values among runs of one kind: logs of pings say nothing of a proxy."""
    values: dict[str, dict[str, set[str]]] = {}
    every = dict.fromkeys(key for one in settings for key in one)
    for run, own in zip(plan.runs, settings, strict=True):
        for key in every:
            values.setdefault(key, {}).setdefault(run[0].flow, set()).add(own.get(key, ""))
    return [key for key, of in values.items() if any(len(one) > 1 for one in of.values())]


def _settings(
    run: Sequence[Recording], seen: Sequence[Seen], manifest: Manifest, keys: Mapping[str, str]
) -> dict[str, str]:
    """Return what may vary of a run, by key path: the words of the manifest, direction, and congestion controls."""
    found = {word: next((one.said[word] for one in run if word in one.said), "") for word in manifest.words}
    found["direction"] = next((way for one in run for way in (one.said.get("direction"), *_ways(one, seen)) if way), "")
    for one in run:
        if one.flow in keys:
            found[keys[one.flow]] = algorithm(one, seen)
    return found


def _ways(one: Recording, seen: Sequence[Seen]) -> tuple[str, ...]:
    return next((own.directions for own in seen if own.name == one.name), ())


def _called(run: _Run, flows: Sequence[str]) -> dict[str, bytes]:
    """Return the tables of a run as the manifest calls it."""
    names = [one.name for one in by_name(run.files)]
    first_of: dict[str, int] = {}
    for one in run.files:
        # The first part of a capture stands for all.
        if one.name in {seen.name for seen in run.seen}:
            first_of.setdefault(one.flow, names.index(one.name))
    stand = pl.col("run").is_in(list(first_of.values()))
    tables = {name: table.filter(stand) for name, table in read_shard(run.shard).items() if name != SEEN}
    stands = {names[place] for place in first_of.values()}
    begins = {
        seen.flow: seen.began_unix_s for seen in run.seen if seen.name in stands and seen.began_unix_s is not None
    }
    first = min(begins.values(), default=0.0)
    cc = {one.flow: algorithm(one, run.seen) for one in reversed(run.files) if one.flow in flows}
    base = pl.col("flow").str.replace(r"\.\d+$", "")
    made = {}
    for name, table in tables.items():
        shift = base.replace_strict({flow: began - first for flow, began in begins.items()}, default=0.0)
        columns: dict[str, Any] = {"run": pl.lit(run.number, pl.UInt32)}
        if len(begins) > 1:
            columns |= {column: pl.col(column) + shift for column in ("t_s", "start_s") if column in table.columns}
        if name == "flows":
            columns |= {
                "engine": pl.lit(ENGINE), "round": pl.lit(run.round, table.schema["round"]),
                "seed": pl.lit(run.seed, table.schema["seed"]), "point": pl.lit(run.point),
                "cc": base.replace_strict(cc, default=""),
                # The end of a capture is not always that of the connection, and its figures hold all the same.
                "outcome": pl.when(pl.col("outcome").is_in(["reset"])).then(pl.lit("stopped")).otherwise("outcome"),
            }  # fmt: skip
        made[name] = stream_of(table.with_columns(**columns))
    return made


def _about(run: _Run, seen: Seen) -> dict[str, Any]:
    one = next(one for one in run.files if one.name == seen.name)
    return {
        "name": seen.name, "kind": one.kind, "notes": list(seen.notes), "run": run.number, "round": run.round,
        "flow": one.flow, "began_unix_s": seen.began_unix_s,
        "parts": [part.name for part in run.files if part.flow == one.flow and part.kind == one.kind
                  and part.said.get("place") == one.said.get("place")],
    }  # fmt: skip


def _notes(plan: Plan, runs: Sequence[_Run]) -> list[str]:
    found = []
    if plan.strangers:
        named = ", ".join(plan.strangers[:_NAMED]) + (", ..." if len(plan.strangers) > _NAMED else "")
        found.append(f"{counted(len(plan.strangers), 'file')} fit no pattern and are in no figure: {named}")
    if plan.left_out:
        found.append(f"{counted(plan.left_out, 'file')} are left out by the manifest")
    transfers = [run for run in runs if run.files[0].kind in TRANSFERS]
    there = {(run.round, run.point, run.files[0].flow) for run in transfers}
    rounds, points = {one[0] for one in there}, {one[1:] for one in there}
    if missing := len(rounds) * len(points) - len(there):
        round_, (point, flow) = next((r, p) for r in sorted(rounds) for p in sorted(points) if (r, *p) not in there)
        found.append(
            f"{missing} of {len(rounds) * len(points)} combinations of round and setting are missing, the first: "
            f"{flow} {point} of round {round_}"
        )
    alike: dict[str, list[tuple[str, str]]] = {}
    for run in runs:
        for seen in run.seen:
            for note in seen.notes:
                alike.setdefault(re.sub(r"[0-9.]+", "0", note), []).append((seen.name, note))
    common = sorted(alike.values(), key=len, reverse=True)
    for (name, note), *others in common[:_NOTES]:
        found.append(f"{name}: {note}" + (f" (alike of {counted(len(others), 'more file')})" if others else ""))
    if len(common) > _NOTES:
        found.append("more notes on single files are in study/files.json")
    return found


_EVERY_S = 0.2
_UNPAIRED = 1 << 32
_NAMED = 3
_NOTES = 5
