# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`manifest.json` of a results folder: what it says, and the checks before any of it is believed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from perigee.errors import InputError
from perigee.files import MIB, read_bounded, write_atomically
from perigee.store.origins import ORIGINS

FOLDER_FORMAT = "perigee-results"
FOLDER_VERSION = 2
"""Version of the manifest and the files beside it. The tables have their own: `tables_version` of the schema."""
LARGEST_BYTES = 16 * MIB

Check = Callable[[object], bool]


class Manifest:
    """The manifest of a folder that is being filled.

    Attributes:
        content: what it says, see `KEYS`.
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
        write_manifest(self._path, self.content)


def write_manifest(path: Path, content: dict[str, Any]) -> None:
    """Write a manifest, with the checksum of itself.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    content["sha256"] = _digest(content)
    write_atomically(path, json.dumps(content, indent=2).encode() + b"\n")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest of a results folder.

    Raises:
        InputError: there is none, it is damaged or was changed, or it is of a format this version does not read.
    """
    path = folder / "manifest.json"
    if not folder.is_dir():
        raise InputError(f"{folder}: no such results folder; `perigee run` makes one and prints its path")
    if not path.is_file():
        raise InputError(f"{folder}: is no results folder (no manifest.json); give one that `perigee run` made")
    try:
        manifest = json.loads(read_bounded(path, LARGEST_BYTES, "a manifest"))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: damaged ({error}); restore it, or run the study again into another folder with --out"
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FOLDER_FORMAT:
        raise InputError(f"{path}: is not a manifest of perigee results; choose another folder")
    version = manifest.get("version")
    if type(version) is not int or version != FOLDER_VERSION:
        raise InputError(
            f"{path}: format version {version!r}, but this perigee reads version {FOLDER_VERSION}; "
            "run the study again, or use the perigee that made it"
        )
    _check(path, manifest)
    return manifest


def _check(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest unless every key that is used anywhere has its type, and it is as it was written."""
    wrong = [key for key, check in KEYS.items() if not check(manifest.get(key))]
    if not wrong and manifest["state"] == "complete":
        wrong = [key for key, check in KEYS_OF_COMPLETE.items() if not check(manifest.get(key))]
    if wrong:
        raise InputError(
            f"{path}: damaged (no usable `{wrong[0]}`); run the study again into another folder with --out"
        )
    if manifest.get("sha256") != _digest(manifest):
        raise InputError(
            f"{path}: changed since it was written; restore it, or run the study again into another folder with --out"
        )


def _digest(manifest: Mapping[str, Any]) -> str:
    """Return the checksum of all that a manifest says besides its checksum."""
    said = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _text(value: object) -> bool:
    # A lone surrogate can be written in JSON, and nowhere else.
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def _instant(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _positive(value: object) -> bool:
    return _count(value) and value != 0


def _sha256(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _one_of(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _table(keys: Mapping[str, Check]) -> Check:
    return lambda value: isinstance(value, dict) and all(check(value.get(key)) for key, check in keys.items())


def _named(name: str, check: Check) -> Check:
    """A table whose keys become names of files, so that none of them may lead out of the folder."""
    is_name = re.compile(name).fullmatch
    return lambda value: isinstance(value, dict) and all(is_name(key) and check(of) for key, of in value.items())


OF_THE_WORK: Mapping[str, Check] = {
    "study": _text,
    "study_file": _optional(_text),
    "engine": _one_of(*ORIGINS),
    "study_hash": _sha256,
    "settings": _list_of(_text),
    "reduced": lambda value: isinstance(value, bool),
    "runs": _positive,
    "rounds": _positive,
    "first_seed": _count,
    "build": _text,
}
"""The keys that say which work a folder is of."""

KEYS: Mapping[str, Check] = {
    "state": _one_of("running", "complete"),
    **OF_THE_WORK,
    "versions": _table({"perigee": _text, "python": _text}),
    "host": _table({"system": _text, "machine": _text, "cores": _optional(_positive)}),
    "started": _instant,
    "study_files": _named(r"[^/\0]+", _sha256),
    "refined_from": _optional(_table(OF_THE_WORK)),
    "faults": _optional(_named("[0-9]+", _text)),
}
"""The keys of every manifest, besides `format`, `version` and `sha256`; some may be left out."""

KEYS_OF_COMPLETE: Mapping[str, Check] = {
    "finished": _instant,
    "tables": _named("[a-z_]+", _table({"rows": _count, "bytes": _count, "sha256": _sha256})),
}
"""The keys that are added when the last run is done."""
