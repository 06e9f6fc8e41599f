# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Names that a file defines itself and the headers have as well: the file's own stand in its text, and only there."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from perigee.cc.foreign.refused import RefusedError
from perigee.cc.foreign.text import Item, items_of, prototype
from perigee.places import headers

_HEADERS = ("tcp.h", "kernel.h", "fixed_point.h", "windowed_max.h", "host/native.h", "host/bpf.h")
_NEEDED = {"divide", "random_u32", "jiffies_ms", "leave_to_reno", "param", "OP", "PARAMETERS"}
"""Names of this project that macros of `kernel.h` or the end of the file use: another's would be used instead."""
_CONSTANT = re.compile(r"[{,]\s*([A-Za-z_]\w*)")


@dataclass
class Own:
    """Names of a file that the headers have too.

    Attributes:
        macros: those that are macros in the headers.
        functions: those that are functions there.
        renamed: those of `functions` that are functions in the file.
        types: the file's declarations of types that the headers have, which are left out.
    """

    macros: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    types: list[Item] = field(default_factory=list)

    def before(self) -> str:
        """Return the lines between the headers and the file's text."""
        lines = [f"#undef {name}" for name in self.macros]
        return "\n".join([*lines, *(f"#define {name} own_{name}" for name in self.renamed), ""]) if self.names() else ""

    def behind(self) -> str:
        """Return the lines behind the file's text, where the functions are the headers' again."""
        return "".join(f"#undef {name}\n" for name in self.functions)

    def names(self) -> list[str]:
        """Return all of them but the types."""
        return sorted({*self.macros, *self.functions})


def own_of(items: list[Item]) -> Own:
    """Return what a file's top level defines that the headers define too.

    Raises:
        RefusedError: a function has a name that the headers' macros need.
    """
    macros, functions, types, constants = _of_headers()
    own = Own()
    for item in items:
        if _defines_type(item) and (set(item.names) & types or _all_known(item, constants)):
            own.types.append(item)
        if item.kind not in ("directive", "function") or not item.names:
            continue
        name = item.names[0]
        if name in _NEEDED:
            raise RefusedError(item.start, f"`{name}` is a name that kernel.h needs itself", "rename it")
        for known, among in ((macros, own.macros), (functions, own.functions)):
            if name in known and name not in among:
                among.append(name)
        if item.kind == "function" and name in functions and name not in own.renamed:
            own.renamed.append(name)
    return own


def _defines_type(item: Item) -> bool:
    return item.kind == "type" and item.tokens[0].text != "typedef" and item.has("{")


def _all_known(item: Item, constants: frozenset[str]) -> bool:
    """Whether a declaration is an enum of which the headers have each constant."""
    named = _constants(item)
    return bool(named) and set(named) <= constants


def _constants(item: Item) -> list[str]:
    texts = [token.text for token in item.tokens]
    if texts[0] != "enum" or "{" not in texts:
        return []
    return _CONSTANT.findall(" ".join(texts[texts.index("{") : texts.index("}")]))


@functools.cache
def _of_headers() -> tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]:
    """Return the macros, functions, types and constants that the headers define, on either host."""
    macros: set[str] = set()
    functions: set[str] = set()
    types: set[str] = set()
    constants: set[str] = set()
    for header in _HEADERS:
        for item in items_of((headers() / header).read_text(encoding="utf-8")):
            if item.kind == "directive":
                macros |= set(item.names)
            elif item.kind == "function":
                functions |= set(item.names)
            elif name := prototype(item):
                functions.add(name)
            elif _defines_type(item):
                types |= set(item.names)
                constants |= set(_constants(item))
    return frozenset(macros), frozenset(functions), frozenset(types), frozenset(constants)
