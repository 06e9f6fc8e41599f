# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results of one study that several machines have carried out in parts, put together into one folder."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perigee.errors import InputError
from perigee.files import read_bounded, storage_errors
from perigee.store import shards
from perigee.store.folder import ResultsFolder
from perigee.store.identity import Identity, default_folder
from perigee.store.manifest import LARGEST_BYTES, read_manifest
from perigee.store.shard_names import shards_in

BESIDE = ("captures", "raw")
"""Folders with files of single runs, which are linked where the file system can, otherwise copied."""
NAMED = 6
"""Maximum ranges of missing runs that are named."""


@dataclass(frozen=True)
class Merged:
    """Outcome of putting results together.

    Attributes:
        folder: the results folder.
        runs: the number of runs in it.
        was_there: whether it had been put together before.
    """

    folder: Path
    runs: int
    was_there: bool


@dataclass(frozen=True)
class _Source:
    path: Path
    manifest: Mapping[str, Any]


def merge(folders: Sequence[Path], out: Path | None = None, *, fresh: bool = False) -> Merged:
    """Put the runs of unfinished results folders together: the tables have the values that one machine would give.

    Args:
        folders: results folders that `perigee run --shard` has left; they are not changed.
        out: the folder for the whole; none: that of `perigee run` without `--shard`.
        fresh: replace results that are there already.

    Raises:
        InputError: a folder is no such folder, is damaged or being written, the folders are not of the same work, a
            run is in none of them, or is in two of them and differs. Nothing was written.
        StorageError: the disk is full, or a folder cannot be written.
    """
    paths = list({folder.resolve(): folder for folder in folders}.values())
    for path in paths:
        # A folder that is not there would be made by holding it.
        read_manifest(path)
    with contextlib.ExitStack() as held:
        for path in paths:
            held.enter_context(storage_errors(path))
            held.enter_context(ResultsFolder(path).held())
        sources = [_Source(path, read_manifest(path)) for path in paths]
        identity = _same_work(sources)
        kept = _shards_of_all_runs(sources, identity.runs)
        target = out or default_folder(identity.study, identity.engine, reduced=identity.reduced)
        if target.resolve() in {path.resolve() for path in paths}:
            raise InputError(f"{target}: is one of the folders to put together; give another with --out")
        return _write(target, identity, sources, kept, fresh=fresh)


def _same_work(sources: Sequence[_Source]) -> Identity:
    first = sources[0]
    identity = Identity.of(first.manifest)
    for source in sources:
        if source.manifest["state"] == "complete":
            raise InputError(f"{source.path}: has all runs of its study already; leave it out, or report on it")
        differences = identity.differences(source.manifest)
        if not differences and source.manifest["build"] != identity.build:
            differences = ["they were made by different builds of the engine"]
        if not differences and source.manifest["study_files"] != first.manifest["study_files"]:
            differences = ["files beside the study differ"]
        if differences:
            # "there" is the source, "here" the first folder.
            raise InputError(
                f"{source.path}: holds other work than {first.path} ({'; '.join(differences)}); "
                "put parts of one study together, made by one version with the same settings"
            )
    # The user may name the file of a study differently on each machine.
    names = {source.manifest.get("study_file") for source in sources}
    return identity if len(names) == 1 else replace(identity, study_file="")


def _shards_of_all_runs(sources: Sequence[_Source], runs: int) -> list[Path]:
    found: dict[int, Path] = {}
    reader = shards.ShardReader()
    for source in sources:
        for run, path in sorted(shards_in(source.path / "shards").items()):
            other = found.setdefault(run, path)
            if other is not path and not shards.same_run(reader, other, path, run):
                folder = other.parent.parent
                raise InputError(f"{path}: run {run} differs from that in {folder}; leave one of the folders out")
    missing = [run for run in range(runs) if run not in found]
    if missing:
        of = "the only run" if runs == 1 else f"{len(missing)} of {runs} runs"
        raise InputError(
            f"{of} {'are' if len(missing) > 1 else 'is'} in none of the folders (run {ranges(missing)}); "
            "carry out the shards that are missing, and give their folders too"
        )
    return [found[run] for run in range(runs)]


def ranges(runs: Iterable[int]) -> str:
    """Return rising numbers in a few words.

    Examples:
        >>> ranges([0, 1, 2, 7, 9, 10])
        '0 to 2, 7, 9 to 10'
        >>> ranges(range(0, 40, 2))
        '0, 2, 4, 6, 8, 10, ...'
    """
    found: list[list[int]] = []
    for run in runs:
        if found and run == found[-1][-1] + 1:
            found[-1] = [found[-1][0], run]
        else:
            found.append([run])
    words = [" to ".join(map(str, each)) for each in found[:NAMED]]
    return ", ".join([*words, *(["..."] if len(found) > NAMED else [])])


def _write(
    target: Path, identity: Identity, sources: Sequence[_Source], kept: Sequence[Path], *, fresh: bool
) -> Merged:
    folder = ResultsFolder(target)
    study = sources[0].path / "study"
    files = {name: read_bounded(study / name, LARGEST_BYTES, "a file") for name in sources[0].manifest["study_files"]}
    with folder.open(identity, files, fresh=fresh) as manifest:
        if manifest.is_complete:
            return Merged(target, identity.runs, was_there=True)
        manifest.update(
            started=min(source.manifest["started"] for source in sources),
            parts=[{"host": source.manifest["host"], "versions": source.manifest["versions"]} for source in sources],
        )
        for source in sources:
            for name in BESIDE:
                _add_files(source.path / name, target / name)
        folder.finish(manifest, kept)
        return Merged(target, identity.runs, was_there=False)


def _add_files(source: Path, target: Path) -> None:
    """Add the files of a folder to another, as links where both are on one file system."""
    if not source.is_dir():
        return
    target.mkdir(exist_ok=True)
    for path in sorted(source.iterdir()):
        added = target / path.name
        added.unlink(missing_ok=True)
        try:
            os.link(path, added, follow_symlinks=False)
        except OSError:
            shutil.copyfile(path, added)
