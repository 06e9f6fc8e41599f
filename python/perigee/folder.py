# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A results folder: `manifest.json`, one Parquet file per table, and what the report needs of the study.

While a study runs, each finished run is a shard in `shards/`; when all are there they are merged and the manifest says
`complete`. Everything that depends on the time or the host is in the manifest, nothing of it in a table.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from perigee import shards
from perigee.errors import InputError
from perigee.files import storage_errors, write_atomically

FORMAT = "perigee-results"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Identity:
    """What makes two results folders the same work, so that one may be resumed as the other.

    Attributes:
        study: the study's name.
        engine: `sim`, `emu` or `live`.
        plan: SHA-256 of the plan: every run with every setting resolved.
        build: SHA-256 of the engine's binary.
        settings: the `--set` overrides, for messages.
        reduced: whether the small size was asked for.
        runs: the number of runs.
        seeds: the seed of each round.
    """

    study: str
    engine: str
    plan: str
    build: str
    settings: tuple[str, ...]
    reduced: bool
    runs: int
    seeds: tuple[int, ...]

    def differences(self, manifest: Mapping[str, Any]) -> list[str]:
        """Say what differs from the work a folder was begun with."""
        mine = {
            "study": self.study,
            "engine": self.engine,
            "settings": list(self.settings),
            "reduced": self.reduced,
            "runs": self.runs,
        }
        found = [
            f"{key} {_say(manifest.get(key))} there, {_say(value)} here"
            for key, value in mine.items()
            if manifest.get(key) != value
        ]
        if not found and manifest.get("study_hash") != self.plan:
            found.append("the study, a profile, a trace or an algorithm was changed since")
        return found


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
        with storage_errors(self.path), self._lock():
            manifest = self._take_up(identity, fresh=fresh)
            study = self.path / "study"
            study.mkdir(exist_ok=True)
            for name, content in files.items():
                write_atomically(study / name, content)
            yield manifest

    def _take_up(self, identity: Identity, *, fresh: bool) -> Manifest:
        manifest = read_manifest(self.path) if self._is_begun() else None
        if manifest is not None and fresh:
            (self.path / "manifest.json").unlink()
            for old in [self._shards, *(self.path / name for name in ("study", "captures", "raw"))]:
                shutil.rmtree(old, ignore_errors=True)
            for table in self.path.glob("*.parquet"):
                table.unlink()
            manifest = None
        if manifest is None:
            manifest = _new_manifest(identity)
            _write_json(self.path / "manifest.json", manifest)
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
        if manifest["state"] != "complete":
            self._shards.mkdir(exist_ok=True)
        return Manifest(self.path / "manifest.json", manifest)

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
    def _lock(self) -> Iterator[None]:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file, not a folder; choose another name with --out")
        self.path.mkdir(parents=True, exist_ok=True)
        lock = self.path / ".lock"
        if not lock.exists():
            self._is_begun()
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self.path}: another perigee is writing there; wait for it, or choose another folder with --out"
                ) from None
            yield

    def missing(self, runs: int) -> list[int]:
        """Return the runs that are still to be done, in order."""
        return [index for index in range(runs) if not shards.shard_path(self._shards, index).exists()]

    def keep(
        self,
        index: int,
        tables: Mapping[str, pa.Table],
        captures: Mapping[str, bytes],
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Keep the results of one run, and further files by their path in the folder.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        for node, content in captures.items():
            self.captures.mkdir(exist_ok=True)
            write_atomically(self.captures / f"run-{index:06d}-{node}.pcapng", content)
        for name, content in (files or {}).items():
            (self.path / name).parent.mkdir(exist_ok=True)
            write_atomically(self.path / name, content)
        shards.write_shard(shards.shard_path(self._shards, index), tables)

    def finish(self, manifest: Manifest) -> None:
        """Merge the shards into the tables and mark the folder complete.

        Raises:
            InputError: a shard is damaged.
            StorageError: the disk is full, or the folder cannot be written.
        """
        paths = [shards.shard_path(self._shards, index) for index in range(manifest.content["runs"])]
        rows = shards.merge_shards(paths, self.path)
        tables = {}
        for name, count in rows.items():
            content = (self.path / f"{name}.parquet").read_bytes()
            tables[name] = {"rows": count, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        manifest.update(state="complete", finished=_now(), tables=tables)
        shutil.rmtree(self._shards, ignore_errors=True)


class Manifest:
    """The manifest of a folder that is being filled.

    Attributes:
        content: what it says.
    """

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self._path = path
        self.content = content

    @property
    def is_complete(self) -> bool:
        """Whether all runs are done and merged."""
        return bool(self.content["state"] == "complete")

    def update(self, **values: object) -> None:
        """Change entries and write it."""
        self.content.update(values)
        _write_json(self._path, self.content)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest of a results folder.

    Raises:
        InputError: there is none, it is damaged, or it is of a format this version does not read.
    """
    path = folder / "manifest.json"
    if not folder.is_dir():
        raise InputError(f"{folder}: no such results folder; `perigee run` makes one and prints its path")
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"{folder}: is no results folder (no manifest.json); give one that `perigee run` made"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(
            f"{path}: damaged ({error}); restore it, or run the study again into another folder with --out"
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path}: is not a manifest of perigee results; choose another folder")
    if manifest.get("version") != FORMAT_VERSION:
        raise InputError(
            f"{path}: format version {manifest.get('version')!r}, but this perigee reads version {FORMAT_VERSION}; "
            "run the study again, or use the perigee that made it"
        )
    wanted: Sequence[tuple[str, type]] = (("study", str), ("state", str), ("runs", int), ("build", str))
    for key, kind in wanted:
        if not isinstance(manifest.get(key), kind):
            raise InputError(f"{path}: damaged (no usable `{key}`); run the study again into another folder with --out")
    return manifest


def plan_hash(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the SHA-256 of a plan.

    Examples:
        >>> plan_hash([{"index": 0}])[:12]
        'cb03dfa19122'
    """
    return hashlib.sha256(json.dumps(list(runs), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _new_manifest(identity: Identity) -> dict[str, Any]:
    from perigee import __version__

    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "state": "running",
        "study": identity.study,
        "engine": identity.engine,
        "study_hash": identity.plan,
        "settings": list(identity.settings),
        "reduced": identity.reduced,
        "runs": identity.runs,
        "seeds": list(identity.seeds),
        "build": identity.build,
        "versions": {"perigee": __version__, "python": platform.python_version(), "pyarrow": pa.__version__},
        "host": {
            "system": f"{platform.system()} {platform.release()}",
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        },
        "started": _now(),
    }


def _say(value: object) -> str:
    return json.dumps(value) if value not in ([], None) else "none"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=2).encode() + b"\n")
