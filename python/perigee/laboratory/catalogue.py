# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The results folders of a laboratory: listed, searched, with tags and notes."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perigee.errors import InputError, StorageError
from perigee.store.manifest import read_manifest

NAME = re.compile(r"[\w+][\w+.,=@-]{0,199}", re.ASCII)
"""What a results folder may be called to be shown."""
LONGEST_NOTES = 10_000
MOST_TAGS = 20
TAG = re.compile(r"[\w+.-]{1,40}")


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
    tags: tuple[str, ...] = ()
    notes: str = ""

    @property
    def searched(self) -> str:
        """All its words, in small letters."""
        words = (self.name, self.study, self.engine, self.state, *self.settings, *self.tags, self.notes)
        return " ".join(words).casefold()


class Catalogue:
    """The results folders below a folder. Threads may share it.

    Args:
        folder: the folder of results folders.
        labels: the database of tags and notes; it is made where it is not there.
    """

    def __init__(self, folder: Path, labels: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: dict[str, tuple[tuple[int, int], Summary]] = {}
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
        """Return all results, the newest first. Only manifests that have changed since are read."""
        with self._lock:
            labels = {name: (tags, notes) for name, tags, notes in self._database.execute("SELECT * FROM labels")}
            found = {}
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    known = self._known.get(entry.name)
                    is_named = known is not None or NAME.fullmatch(entry.name)
                    if not is_named or not entry.is_dir(follow_symlinks=False):
                        continue
                    try:
                        about = os.stat(f"{entry.path}/manifest.json")  # noqa: PTH116 - thousands of them
                    except OSError:
                        continue
                    stamp = (about.st_mtime_ns, about.st_size)
                    summary = known[1] if known and known[0] == stamp else _summary(Path(entry.path))
                    found[entry.name] = (stamp, summary)
            self._known = found
            every = [
                _labelled(summary, labels[name]) if name in labels else summary for name, (_, summary) in found.items()
            ]
        return sorted(every, key=lambda one: (one.started, one.name), reverse=True)

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
    return Summary(**{**vars(summary), "tags": tuple(json.loads(labels[0])), "notes": labels[1]})


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
    )
