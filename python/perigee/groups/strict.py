# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""TOML tables that are taken apart key by key, so that an unknown key is an error with its line."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from perigee.errors import InputError
from perigee.groups.keys import Key

LARGEST = 1e15
"""Numbers in these files are no larger."""

LARGEST_MB = 1e9
"""Sizes in these files are no larger, in MB."""

_KIND_WORDS = ((str, "a text"), (list, "a list"), (dict, "a table"), (bool, "true or false"))


class StrictTable:
    """A TOML table that is taken apart key by key as declared; what is left at the end is an unknown key."""

    def __init__(
        self,
        path: Path,
        text: str,
        content: dict[str, Any],
        declared: Sequence[Key],
        where: str = "",
        header: str = "",
        lines: range | None = None,
    ) -> None:
        self._path = path
        self._text = text
        self._header = header
        self._lines = range(1, text.count("\n") + 2) if lines is None else lines
        self._left = dict(content)
        self._declared = [key.name for key in declared]
        self._where = where

    @classmethod
    def parse(
        cls, path: Path, text: str, declared: Sequence[Key], parse_float: Callable[[str], float] = float
    ) -> StrictTable:
        """Parse a file that may have the declared keys.

        Args:
            path: the file.
            text: its content.
            declared: its keys.
            parse_float: what makes a number of its text.

        Raises:
            InputError: it is no TOML.
        """
        try:
            return cls(path, text, tomllib.loads(text, parse_float=parse_float), declared)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: {error}; correct the TOML there") from error

    @property
    def where(self) -> str:
        """The table, as messages name it."""
        return self._where or "the file"

    def has(self, key: str) -> bool:
        """Whether the table has a key that was not taken out yet."""
        return key in self._left

    def take(self, key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        """Take the value of a key out, of this kind; the default where there is none."""
        if key not in self._declared:
            raise KeyError(key)
        if key not in self._left:
            return default
        value = self._left.pop(key)
        # Python takes true for the number 1.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            word = next((word for one, word in _KIND_WORDS if one is kind), "a number")
            raise self.error(key, f"`{key}` must be {word}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Take a text out; without a default it must be there."""
        value = self.take(key, str, default)
        if value is None:
            raise self.error("", f"{self.where} has no `{key}`; add one")
        return str(value)

    def texts(self, key: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        """Take a list of texts out, no two the same."""
        values = self.take(key, list, list(default))
        for place, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(key, f"`{key}` must be a list of texts")
            if value in values[:place]:
                raise self.error(key, f"`{key}` names `{value}` twice; keep one")
        return tuple(values)

    def words(self, key: str) -> dict[str, str]:
        """Take a table of texts out."""
        values = self.take(key, dict, {})
        for name, value in values.items():
            if not isinstance(value, str):
                raise self.error(key, f"`{key}.{name}` must be a text")
        return dict(values)

    def number(self, key: str, default: float | None) -> Any:
        """Take a finite number out."""
        value = self.take(key, (int, float), default)
        return default if value is None else self.finite(key, value)

    def numbers(self, key: str) -> dict[str, float]:
        """Take a table of finite numbers out."""
        return {name: self.finite(f"{key}.{name}", value) for name, value in self.take(key, dict, {}).items()}

    def sizes(self, key: str, default: Sequence[float] = ()) -> tuple[float, ...]:
        """Take a list of sizes in MB out, sorted, each once."""
        sizes = [self.finite(key, size) for size in self.take(key, list, list(default))]
        for size in sizes:
            if not 1e-6 <= size <= LARGEST_MB:
                raise self.error(key, f"`{key}` must be sizes from 1e-6 to {LARGEST_MB:g} MB, not {size:g}")
        return tuple(sorted(set(sizes)))

    def finite(self, key: str, value: object) -> float:
        """Return a value that stands under a key as a number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key.split(".")[0], f"`{key}` must be a number")
        if not abs(value) <= LARGEST:
            raise self.error(key.split(".")[0], f"`{key}` must be a finite number of at most {LARGEST:g}")
        return float(value)

    def tables(self, key: str, declared: Sequence[Key]) -> list[StrictTable]:
        """Take a list of tables out, each with the declared keys."""
        parts = self.take(key, list, [])
        if not all(isinstance(part, dict) for part in parts):
            raise self.error(key, f"`{key}` must be tables, each begun with [[{key}]]")
        header = f"{self._header}.{key}".lstrip(".")
        return [
            StrictTable(self._path, self._text, part, declared, f"{self._where} {key} {number}".strip(), header, lines)
            for number, (part, lines) in enumerate(zip(parts, self._parts(header, len(parts)), strict=True), 1)
        ]

    def table(self, key: str, declared: Sequence[Key]) -> StrictTable | None:
        """Take a table within this one out, with the declared keys; None where there is none."""
        content = self.take(key, dict, None)
        if content is None:
            return None
        where = f"`{key}` of {self.where}"
        return StrictTable(self._path, self._text, content, declared, where, self._header, self._lines)

    def _parts(self, header: str, count: int) -> list[range]:
        """Return the lines of each table of a list; those of this table, where not each has a header of its own."""
        text = self._text.splitlines()
        begins = [number for number in self._lines if text[number - 1 : number] == [f"[[{header}]]"]]
        if not count or len(begins) != count:
            return [self._lines] * count
        return [range(begin, end) for begin, end in zip(begins, [*begins[1:], self._lines.stop], strict=True)]

    def named(self, key: str, declared: Sequence[Key]) -> Iterator[tuple[str, StrictTable]]:
        """Return the tables under a key, each with its name; each must be at its end when the next is asked for."""
        for name, part in self.take(key, dict, {}).items():
            if not isinstance(part, dict):
                raise self.error(key, f"`{key}.{name}` must be a table, begun with [{key}.{name}]")
            table = StrictTable(self._path, self._text, part, declared, f"{key}.{name}")
            yield name, table
            table.end()

    def guard(self, word: str, make: Any) -> Any:
        """Return what `make` makes; an error of it gets the line of a word."""
        try:
            return make()
        except InputError as error:
            raise self.error(word, str(error)) from error

    def end(self) -> None:
        """Refuse what was not taken out."""
        for key in self._left:
            near = difflib.get_close_matches(key, self._declared, 1)
            fix = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(self._declared)}"
            raise self.error(key, f"unknown key `{key}`; {fix}")

    def error(self, word: str, message: str) -> InputError:
        """Return an error with the line of the first place in this table that has a word; else that of its header."""
        text = self._text.splitlines()
        lines = [number for number in self._lines if word and word in "".join(text[number - 1 : number])]
        lines += [self._lines.start] if self._header else []
        return InputError(f"{self._path}:{lines[0]}: {message}" if lines else f"{self._path}: {message}")
