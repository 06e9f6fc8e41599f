# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A results folder: `manifest.json`, one Parquet file per table, and what the report needs of the study.

While a study runs, each finished run is a shard in `shards/`; when all are there they are merged and the manifest says
`complete`. A sweep that refines its points does so in stages: each is such a folder in `stages/` until all are there.
Everything that depends on the time or the host is in the manifest, nothing of it in a table.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from perigee.errors import InputError
from perigee.files import sha256_of, storage_errors, write_atomically
from perigee.store import shards
from perigee.store.identity import Identity
from perigee.store.manifest import FOLDER_FORMAT, FOLDER_VERSION, Manifest, read_manifest, write_manifest
from perigee.store.shard_names import shard_name, shards_in
from perigee.store.streams import Streams

FOLDERS = ("shards", "stages", "study", "captures", "raw")
"""The folders that runs write to."""
OF_REPORTS = ("report.html", "report-files")
"""Outputs of `perigee report` unless another place is given."""


class ResultsFolder:
    """A folder of results that is being filled.

    Args:
        path: the folder; it need not exist.

    Attributes:
        captures: the folder in it for packet captures.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shards = path / "shards"
        self._stages = path / "stages"
        self.captures = path / "captures"

    @contextlib.contextmanager
    def open(self, identity: Identity, files: Mapping[str, bytes], *, fresh: bool = False) -> Iterator[Manifest]:
        """Create the folder, or take up the one that is there, and hold it against a second writer.

        Args:
            identity: the work to be done.
            files: what the report needs of the study, by file name; kept in `study/`.
            fresh: begin anew where results are there already.

        Raises:
            InputError: the folder is not perigee's, is damaged, holds other work, or is being written by another.
            StorageError: it cannot be written.
        """
        with storage_errors(self.path), self.held():
            self._refuse_links()
            manifest = self._take_up(identity, fresh=fresh)
            self._sweep()
            self.keep_study(manifest, files)
            yield manifest

    def keep_study(self, manifest: Manifest, files: Mapping[str, bytes]) -> None:
        """Keep what the report needs of the study, by file name.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        if manifest.content["study_files"] != sums:
            manifest.update(study_files=sums)
        study = self.path / "study"
        study.mkdir(exist_ok=True)
        for name, content in files.items():
            write_atomically(study / name, content)

    def _take_up(self, identity: Identity, *, fresh: bool) -> Manifest:
        manifest = read_manifest(self.path) if self._is_begun() else None
        if manifest is not None and fresh:
            self._clear()
            manifest = None
        if manifest is None:
            manifest = _new_manifest(identity)
            write_manifest(self.path / "manifest.json", manifest)
        elif differences := identity.differences(manifest):
            raise InputError(
                f"{self.path}: holds other results ({'; '.join(differences)}); choose another folder with --out, "
                "or give --fresh to replace them"
            )
        elif manifest["build"] != identity.build:
            raise InputError(
                f"{self.path}: holds results of another build of the engine, which are not taken for this one's; "
                "choose another folder with --out, or give --fresh to replace them"
            )
        taken_up = Manifest(self.path / "manifest.json", manifest)
        if taken_up.is_complete:
            # A kill right after the manifest said so has left them.
            _remove(self._shards)
        else:
            self._shards.mkdir(exist_ok=True)
        return taken_up

    def _clear(self) -> None:
        """Remove all that perigee makes in a results folder; the manifest goes first, the user's own files stay."""
        _remove(self.path / "manifest.json")
        for name in (*FOLDERS, *OF_REPORTS):
            _remove(self.path / name)
        for table in [*self.path.glob("*.parquet"), *self.path.glob(".*.tmp")]:
            _remove(table)

    def _sweep(self) -> None:
        """Remove the unfinished files of processes that were killed: while we hold the lock, nobody writes one."""
        ours = [f".{name}.*.tmp" for name in ("manifest.json", "*.parquet")]
        left = [path for pattern in ours for path in self.path.glob(pattern)]
        left += [path for name in FOLDERS for path in (self.path / name).glob(".*.tmp")]
        for path in left:
            _remove(path)

    def _refuse_links(self) -> None:
        """Refuse symbolic links where runs write and remove: what they lead to is not ours."""
        stages = self._stages.glob("*") if not self._stages.is_symlink() else ()
        for path in (*(self.path / name for name in ("manifest.json", *FOLDERS)), *stages):
            if path.is_symlink():
                raise InputError(
                    f"{path}: is a symbolic link, and nothing is written or removed through one; "
                    "remove it, or choose another folder with --out"
                )

    def _is_begun(self) -> bool:
        """Whether there is a manifest; a folder with anything else in it is foreign."""
        if (self.path / "manifest.json").exists():
            return True
        strangers = sorted(entry.name for entry in self.path.iterdir() if entry.name != ".lock")
        if strangers:
            raise InputError(
                f"{self.path}: is no results folder (it holds {strangers[0]} but no manifest.json), so nothing is "
                "written there; choose another folder with --out"
            )
        return False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder, which is made where it is not there, against every other process that writes to it.

        Raises:
            InputError: another process holds it, or it is no results folder.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file, not a folder; choose another name with --out")
        self.path.mkdir(parents=True, exist_ok=True)
        lock = self.path / ".lock"
        if not os.path.lexists(lock):
            self._is_begun()
        descriptor = _open_lock(lock)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise InputError(
                f"{self.path}: another perigee is writing there; wait for it, or choose another folder with --out"
            ) from None
        try:
            yield
        finally:
            os.close(descriptor)

    def missing(self, runs: int) -> list[int]:
        """Return the runs that are still to be done, in order."""
        there = self.shards()
        return [index for index in range(runs) if index not in there]

    def shards(self) -> dict[int, Path]:
        """Return where the tables of each run that is done are kept, until all runs are there."""
        return shards_in(self._shards)

    def stage(self, number: int) -> ResultsFolder:
        """Return the folder of a stage of a sweep that refines its points, until all stages are there."""
        return ResultsFolder(self._stages / f"{number:03d}")

    def runs_refined_from(self, begun: Identity) -> int | None:
        """Return how many runs the results have of a refined sweep that was begun as this work; none: not there.

        Raises:
            InputError: the manifest is damaged, or another process writes to the folder.
        """
        if not (self.path / "manifest.json").is_file():
            return None
        with storage_errors(self.path), self.held():
            self._refuse_links()
            manifest = read_manifest(self.path)
            then = manifest.get("refined_from")
            if manifest["state"] != "complete" or not then or begun.differences(then) or then["build"] != begun.build:
                return None
            # A kill right after the manifest said so has left them.
            _remove(self._stages)
            return int(manifest["runs"])

    def rounds_of_complete(self) -> int | None:
        """Return the rounds of the results that are there, if they are complete.

        Raises:
            InputError: the manifest is damaged.
        """
        if not (self.path / "manifest.json").is_file():
            return None
        manifest = read_manifest(self.path)
        return int(manifest["rounds"]) if manifest["state"] == "complete" else None

    def keep_several(self, runs: range, tables: Streams) -> None:
        """Keep the tables of runs, with their rows in rising order of the runs.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        shards.write_shard(self._shards / shard_name(runs), tables)

    def keep(
        self,
        index: int,
        tables: Streams,
        captures: Mapping[str, bytes],
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Keep the results of one run, and further files by their path in the folder.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        self.keep_captures([index], captures)
        for name, content in (files or {}).items():
            (self.path / name).parent.mkdir(exist_ok=True)
            write_atomically(self.path / name, content)
        self.keep_several(range(index, index + 1), tables)

    def keep_captures(self, runs: Iterable[int], captures: Mapping[str, bytes]) -> None:
        """Keep captures and qlogs, by file name, for each of these runs, which have them in common.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        for run in runs if captures else ():
            self.captures.mkdir(exist_ok=True)
            for name, content in captures.items():
                write_atomically(self.captures / f"run-{run:06d}-{name}", content)

    def take_captures(self, kept: Sequence[Path], numbers: Sequence[int]) -> None:
        """Move the captures of stages here, under the numbers that their runs have among those of all stages.

        Args:
            kept: the shard of each run, in the folder of its stage.
            numbers: the number that each run has in its stage.

        Raises:
            StorageError: the folder cannot be written.
        """
        ours = {(path.parent, number): run for run, (path, number) in enumerate(zip(kept, numbers, strict=True))}
        for stage in sorted(self._stages.iterdir()):
            for capture in sorted((stage / "captures").glob("run-*-*")):
                _, number, name = capture.name.split("-", 2)
                self.captures.mkdir(exist_ok=True)
                capture.replace(self.captures / f"run-{ours[stage / 'shards', int(number)]:06d}-{name}")

    def finish(
        self,
        manifest: Manifest,
        kept: Sequence[Path] | None = None,
        numbers: Sequence[int] | None = None,
        *,
        ended: Identity | None = None,
        refined_from: Identity | None = None,
        faults: Mapping[int, str] | None = None,
    ) -> None:
        """Merge the shards into the tables and mark the folder complete.

        Args:
            manifest: the folder's.
            kept: the shard of each run, in their order, where they are in other folders.
            numbers: the number that each run has in its shard; none: its own.
            ended: the work that was done, where it is not the work that the folder was begun with.
            refined_from: the work that a refined sweep was begun with.
            faults: what was wrong with each run that has no results; its tables are empty. Without any other run the
                folder stays unfinished.

        Raises:
            InputError: a shard is damaged.
            StorageError: the disk is full, or the folder cannot be written.
        """
        if faults and not self._keep_empty(manifest, faults):
            return
        runs = ended.runs if ended else manifest.content["runs"]
        if kept is None:
            there = self.shards()
            kept = [there[index] for index in range(runs)]
        rows = shards.merge_shards(kept, self.path, numbers)
        tables = {}
        for name, count in rows.items():
            path = self.path / f"{name}.parquet"
            tables[name] = {"rows": count, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
        if ended:
            manifest.content.update(_said_of(ended))
        if refined_from:
            manifest.content["refined_from"] = _said_of(refined_from)
        manifest.update(state="complete", finished=_now(), tables=tables)
        _remove(self._shards)
        _remove(self._stages)

    def _keep_empty(self, manifest: Manifest, faults: Mapping[int, str]) -> bool:
        """Keep tables without rows for runs without results, and why; return False if no run has any."""
        there = self.shards()
        if not there:
            return False
        # First, so that a kill leaves no run without a row and without a word.
        manifest.update(faults={str(run): fault for run, fault in sorted(faults.items())})
        for run in faults:
            self.keep_several(range(run, run + 1), {})
        return True


def _new_manifest(identity: Identity) -> dict[str, Any]:
    from perigee.version import __version__

    return {
        "format": FOLDER_FORMAT,
        "version": FOLDER_VERSION,
        "state": "running",
        **_said_of(identity),
        "versions": {"perigee": __version__, "python": platform.python_version(), "polars": pl.__version__},
        "host": {
            "system": f"{platform.system()} {platform.release()}",
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        },
        "started": _now(),
        "study_files": {},
    }


def _said_of(identity: Identity) -> dict[str, Any]:
    """Return what a manifest says of the work."""
    return {
        "study": identity.study,
        "study_file": identity.study_file or identity.study,
        "engine": identity.engine,
        "study_hash": identity.plan,
        "settings": list(identity.settings),
        "reduced": identity.reduced,
        "runs": identity.runs,
        "rounds": identity.rounds,
        "first_seed": identity.first_seed,
        "build": identity.build,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _open_lock(path: Path) -> int:
    """Open the lock of a folder, which is an empty file of ours: nothing that it leads to or holds is changed.

    Raises:
        InputError: something else is there.
    """
    foreign = InputError(f"{path}: is no lock that perigee made; remove it, or choose another folder with --out")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise foreign from error
        raise
    about = os.fstat(descriptor)
    owners = (os.geteuid(), path.parent.stat().st_uid)
    if not stat.S_ISREG(about.st_mode) or about.st_size or about.st_uid not in owners:
        os.close(descriptor)
        raise foreign
    return descriptor


def _remove(path: Path) -> None:
    """Remove a file or a folder, where it is there; of a symbolic link only itself."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
