# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The results folders of a laboratory: listed, searched, with tags and notes."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from perigee.errors import InputError, StorageError
from perigee.store.manifest import read_manifest

NAME = re.compile(r"[\w+][\w+.,=@-]{0,199}", re.ASCII)
"""Names of results folders that are shown."""
LONGEST_NOTES = 10_000
MOST_TAGS = 20
TAG = re.compile(r"[\w+.-]{1,40}")
LOOKED_THROUGH_S = 2.0
"""How long a folder that is complete may have changed before it is seen."""


@dataclass(frozen=True)
class Summary:
    """A results folder in a list.

    Attributes:
        name: the folder's.
        study: what was run.
        engine: `sim`, `emu`, `live` or `capture`.
        state: `complete` or `running`; `damaged` where the manifest cannot be read.
        runs: how many it has.
        reduced: whether it is of the small size.
        started: when it was begun, in ISO 8601.
        finished: when it was complete; empty: it is not.
        settings: what was changed in the study.
        tags: words to find it by.
        notes: what people say about it.
    """

    name: str
    study: str
    engine: str
    state: str
    runs: int
    reduced: bool
    started: str
    settings: tuple[str, ...]
    finished: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""

    @property
    def at(self) -> float:
        """When it was complete or else begun, as Unix time; 0 where nothing says so."""
        text = self.finished or self.started
        return datetime.fromisoformat(text).timestamp() if text else 0.0

    @cached_property
    def searched(self) -> str:
        """All its words, in small letters."""
        words = (self.name, self.study, self.engine, self.state, *self.settings, *self.tags, self.notes)
        return " ".join(words).casefold()


@dataclass(frozen=True)
class _Known:
    """A cached manifest with its time stamp; none before the first."""

    stamp: tuple[int, int] | None
    summary: Summary | None

    @property
    def is_complete(self) -> bool:
        return self.summary is not None and self.summary.state == "complete"


@dataclass
class _Seen:
    """When the folder of folders was written, when it was looked through, and the version of the labels."""

    written: int = -1
    looked_through: float = 0.0
    labels: tuple[int, ...] = ()


class Catalogue:
    """The results folders below a folder. Threads may share it.

    Args:
        folder: the folder of results folders.
        labels: the database of tags and notes; it is made where it is not there.
    """

    def __init__(self, folder: Path, labels: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._labels: dict[str, tuple[str, str]] = {}
        self._listed: list[Summary] = []
        self._seen = _Seen()
        try:
            self._database = sqlite3.connect(labels, timeout=30.0, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS labels (name TEXT PRIMARY KEY, tags TEXT NOT NULL, notes TEXT NOT NULL)"
            )
        except sqlite3.DatabaseError as error:
            raise StorageError(f"{labels}: tags and notes cannot be read: {error}") from error

    def close(self) -> None:
        """Close the database of tags and notes."""
        with self._lock:
            self._database.close()

    def all(self) -> list[Summary]:
        """Return all results, the newest first.

        Only manifests that have changed since are read. Which have is asked each time of folders that are not complete,
        and of all where one has come or gone, and every `LOOKED_THROUGH_S`.
        """
        with self._lock:
            changed = self._look()
            if self._labels_changed() or changed:
                every = [
                    _labelled(known.summary, self._labels[name]) if name in self._labels else known.summary
                    for name, known in self._known.items()
                    if known.summary is not None
                ]
                self._listed = sorted(every, key=lambda one: (one.started, one.name), reverse=True)
            return list(self._listed)

    def _look(self) -> bool:
        """Bring what is known of the folders up to date; whether it changed."""
        now, written = time.monotonic(), self._folder.stat().st_mtime_ns
        if written == self._seen.written and now < self._seen.looked_through + LOOKED_THROUGH_S:
            not_complete = [name for name, known in self._known.items() if not known.is_complete]
            return bool([name for name in not_complete if self._look_at(name)])
        self._seen.written, self._seen.looked_through = written, now
        with os.scandir(self._folder) as entries:
            there = {
                entry.name
                for entry in entries
                if (entry.name in self._known or NAME.fullmatch(entry.name)) and entry.is_dir(follow_symlinks=False)
            }
        gone = self._known.keys() - there
        for name in gone:
            del self._known[name]
        changed = [name for name in there if self._look_at(name)]
        return bool(gone or changed)

    def _look_at(self, name: str) -> bool:
        """Read the manifest of a folder where it has changed; whether it has."""
        path, known = f"{self._folder}/{name}", self._known.get(name)
        try:
            about = os.stat(f"{path}/manifest.json")  # noqa: PTH116 - thousands of them
        except OSError:
            self._known[name] = _Known(None, None)
            return known is not None and known.summary is not None
        stamp = (about.st_mtime_ns, about.st_size)
        if known is not None and known.stamp == stamp:
            return False
        self._known[name] = _Known(stamp, _summary(Path(path)))
        return True

    def _labels_changed(self) -> bool:
        """Read tags and notes where somebody has written some since; whether that is so."""
        # Changes by other connections, and by this one.
        version = (*self._database.execute("PRAGMA data_version").fetchone(), self._database.total_changes)
        if version == self._seen.labels:
            return False
        self._seen.labels = version
        self._labels = {name: (tags, notes) for name, tags, notes in self._database.execute("SELECT * FROM labels")}
        return True

    def search(self, words: str) -> list[Summary]:
        """Return the results that have each of some words in their name, study, settings, tags or notes."""
        wanted = words.casefold().split()
        return self.all() if not wanted else [one for one in self.all() if all(word in one.searched for word in wanted)]

    def path(self, name: str) -> Path:
        """Return the folder of results.

        Raises:
            InputError: there is no such folder.
        """
        path = self._folder / name
        if not NAME.fullmatch(name) or path.is_symlink() or not (path / "manifest.json").is_file():
            raise InputError(f"{name}: no results of that name")
        return path

    def summary(self, name: str) -> Summary:
        """Return one of the results.

        Raises:
            InputError: there is no such folder.
        """
        path = self.path(name)
        with self._lock:
            row = self._database.execute("SELECT tags, notes FROM labels WHERE name = ?", (name,)).fetchone()
        return _labelled(_summary(path), row)

    def label(self, name: str, tags: Iterable[str], notes: str) -> None:
        """Give results tags and notes, in the place of those they had.

        Raises:
            InputError: a tag is none, or the notes are too long.
        """
        words = tuple(dict.fromkeys(tags))
        check_labels(words, notes)
        with self._lock:
            self._database.execute(
                "INSERT INTO labels VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET tags = ?2, notes = ?3",
                (name, json.dumps(words), notes),
            )


def check_labels(tags: tuple[str, ...], notes: str) -> None:
    """Refuse tags that are none, and notes that are too long.

    Raises:
        InputError: as said.
    """
    if wrong := [tag for tag in tags if not TAG.fullmatch(tag)]:
        raise InputError(f"{wrong[0]}: no tag; take letters, digits and - . + _, at most 40")
    if len(tags) > MOST_TAGS:
        raise InputError(f"{len(tags)} tags: at most {MOST_TAGS}")
    if len(notes) > LONGEST_NOTES:
        raise InputError(f"the notes have {len(notes)} letters; at most {LONGEST_NOTES}")


def _labelled(summary: Summary, labels: tuple[str, str] | None) -> Summary:
    if labels is None:
        return summary
    return replace(summary, tags=tuple(json.loads(labels[0])), notes=labels[1])


def _summary(path: Path) -> Summary:
    try:
        manifest = read_manifest(path)
    except InputError:
        return Summary(path.name, "", "", "damaged", 0, reduced=False, started="", settings=())
    return Summary(
        name=path.name,
        study=manifest["study"],
        engine=manifest["engine"],
        state=manifest["state"],
        runs=manifest["runs"],
        reduced=manifest["reduced"],
        started=manifest["started"],
        settings=tuple(manifest["settings"]),
        finished=manifest.get("finished", ""),
    )
