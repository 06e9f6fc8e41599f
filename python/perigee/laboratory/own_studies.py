# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The studies of a laboratory: those that come with perigee, and the user's own, which the page may change.

A study that the page gives is data of somebody else: it may name profiles and congestion controls that are there, but
no files, which could be any of this machine, and no C code, which would be executed.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perigee.core import native
from perigee.engines.plan.native import native_plan
from perigee.errors import InputError
from perigee.files import MIB, read_bounded, write_atomically
from perigee.laboratory.place import Place
from perigee.places import StudyFile, data_roots, find_study, studies

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
LARGEST_BYTES = MIB // 2
MOST_NESTED = 3
"""Tables in tables whose keys are listed."""


@dataclass(frozen=True)
class Fault:
    """An error in a study.

    Attributes:
        message: what, with its fix.
        line: where, from 1; none: nowhere in the file.
    """

    message: str
    line: int | None


class Studies:
    """The studies that can be looked at and run.

    Args:
        place: the laboratory.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._writing = threading.Lock()

    def names(self) -> dict[str, bool]:
        """Return the names of all studies, and of each whether it is the user's own."""
        own = self._own()
        return {name: name in own for name in sorted(self.files())}

    def files(self) -> dict[str, Path]:
        """Return the files of all studies by name; folders whose names cannot be taken here are left out."""
        return {name: path for name, path in {**studies(), **self._own()}.items() if NAME.fullmatch(name)}

    def _own(self) -> dict[str, Path]:
        return {path.parent.name: path for path in self._place.studies.glob("*/study.toml")}

    def get(self, name: str) -> StudyFile:
        """Return a study by its name.

        Raises:
            InputError: there is none of that name.
        """
        if name not in self.names():
            raise InputError(f"{name}: no study of that name")
        own = self._place.studies / name
        return find_study(str(own) if (own / "study.toml").is_file() else name)

    def is_own(self, name: str) -> bool:
        """Whether a study is the user's own, which may be changed."""
        return bool(NAME.fullmatch(name)) and (self._place.studies / name / "study.toml").is_file()

    def given(self, name: str, text: str) -> StudyFile:
        """Return a study of this text as it is read under a name."""
        folder = self._place.studies / name
        return StudyFile(folder / "study.toml", text, tuple(dict.fromkeys((folder, *data_roots()))))

    def save(self, name: str, text: str, before: str | None) -> None:
        """Write one of the user's own studies.

        Args:
            name: of the study.
            text: its file.
            before: the `stamp` of what was changed; none: the study is a new one.

        Raises:
            InputError: the name cannot be taken, the study is wrong, or it was changed by somebody else meanwhile.
            StorageError: it cannot be written.
        """
        if not NAME.fullmatch(name):
            raise InputError(f"{name}: no name of a study; take letters, digits, - and _, at most 64")
        if fault := self.fault(name, text):
            raise InputError(fault.message if fault.line is None else f"line {fault.line}: {fault.message}")
        # If several users save at once, the others see the text of the first.
        with self._writing:
            is_own = self.is_own(name)
            if before is None and name in self.names():
                raise InputError(f"{name}: there is a study of that name; take another")
            if before is not None and not (is_own and stamp(self.get(name).text) == before):
                raise InputError(f"{name}: was changed by somebody else meanwhile; copy your text, and open it again")
            folder = self._place.studies / name
            folder.mkdir(exist_ok=True)
            write_atomically(folder / "study.toml", text.encode())

    def fault(self, name: str, text: str) -> Fault | None:
        """Return what is wrong with a study that was given, in the reader's own words; nothing where all is right."""
        if len(text.encode(errors="replace")) > LARGEST_BYTES:
            return Fault(f"larger than {LARGEST_BYTES // 1024} KiB, the most that is taken of a study", None)
        study = self.given(name, text)
        try:
            native_plan(study, (), reduced=False, foreign="study")
            # A value of the small size may be read nowhere else. What the reader has taken is not nested deeply.
            if "reduced" in study.content:
                native_plan(study, (), reduced=True, foreign="study")
        except InputError as error:
            return fault_of(str(error), str(study.path))
        return None


def check_settings(study: StudyFile, engine: str, settings: Sequence[str], *, reduced: bool) -> native.Plan:
    """Read a study with settings that the page gives; return its plan.

    Raises:
        InputError: one of them is wrong, or names a file.
    """
    return native_plan(study, settings, reduced, real=engine == "live", foreign="settings")


def fault_of(message: str, path: str) -> Fault:
    """Split an error of the reader into line and message.

    Examples:
        >>> fault_of("a/study.toml:3: unknown key `rond`", "a/study.toml")
        Fault(message='unknown key `rond`', line=3)
        >>> fault_of("--set round=2: `round` cannot be set", "a/study.toml")
        Fault(message='--set round=2: `round` cannot be set', line=None)
    """
    found = re.fullmatch(rf"{re.escape(path)}:(\d+): (.*)", message, re.DOTALL)
    return Fault(found[2], int(found[1])) if found else Fault(message, None)


def stamp(text: str) -> str:
    """Return what tells one text from another."""
    return hashlib.sha256(text.encode()).hexdigest()


def schema() -> str:
    """Return the JSON schema of studies, as text."""
    path = Path(__file__).resolve().parent.parent / "data" / "schema" / "study.json"
    return read_bounded(path, 16 * MIB, "a schema").decode()


@cache
def keys() -> dict[str, list[dict[str, Any]]]:
    """Return what can stand in a study, see `keys_of`; nobody changes it."""
    return keys_of(json.loads(schema()))


def keys_of(whole: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return what can stand in a study, out of its schema.

    By the name of each table, that of the file being empty, its keys: `key`, `default`, `text` (their meaning),
    `values`, the words that they can be, and `is_word`: they can be nothing else.

    Examples:
        >>> rate = {"anyOf": [{"type": "string"}, {"properties": {"kind": {"enum": ["tdma"]}}}], "description": "Rate."}
        >>> found = keys_of({"properties": {"rate": {"$ref": "#/$defs/rate"}}, "$defs": {"rate": rate}})
        >>> found[""], found["rate"][0]["values"]
        ([{'key': 'rate', 'default': '', 'text': 'Rate.', 'values': [], 'is_word': False}], ['tdma'])
    """

    def alternatives(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        yield node
        if "$ref" in node:
            yield from alternatives(whole["$defs"][node["$ref"].rpartition("/")[2]])
        for each in (*node.get("anyOf", ()), *node.get("oneOf", ()), *([node["items"]] if "items" in node else ())):
            yield from alternatives(each)

    found: dict[str, list[dict[str, Any]]] = {}

    def read(path: str, nodes: Sequence[Mapping[str, Any]], depth: int) -> None:
        several: dict[str, list[Mapping[str, Any]]] = {}
        for node in nodes:
            for each in alternatives(node):
                for key, of in each.get("properties", {}).items():
                    several.setdefault(key, []).append(of)
        if several:
            found[path] = [
                _key(key, of, [one for each in of for one in alternatives(each)]) for key, of in several.items()
            ]
        if depth < MOST_NESTED:
            for key, of in several.items():
                read(f"{path}.{key}" if path else key, of, depth + 1)

    read("", [whole], 0)
    return found


def _key(name: str, defined: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a key is: as it is defined, in one or several kinds of its table, and what these refer to."""
    # A default that only one kind has counts as none.
    defaults = {json.dumps(node["default"], ensure_ascii=False) if "default" in node else "" for node in defined}
    given = [(*node.get("enum", ()), *([node["const"]] if "const" in node else ())) for node in nodes]
    # A node that refers to others, or lists them, is no value itself.
    plain = [of for node, of in zip(nodes, given, strict=True) if not node.keys() & {"anyOf", "oneOf", "$ref"}]
    return {
        "key": name,
        "default": defaults.pop() if len(defaults) == 1 else "",
        "text": next((node["description"] for node in nodes if "description" in node), ""),
        "values": list(dict.fromkeys(value for of in given for value in of if isinstance(value, str))),
        "is_word": bool(plain) and all(of and all(isinstance(value, str) for value in of) for of in plain),
    }
