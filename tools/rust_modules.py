# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reads which module of a Rust crate uses which other one, and finds circles among them.

A module is a file; modules inside a file belong to it. A module uses another one if it names an item of it by a path
(`crate::`, `super::`, `self::`, or the name of a child module). A name that a module re-exports belongs to the module
that defines it, so that declaring and re-exporting children is no use of them. Comments, strings and items under
`#[cfg(test)]` do not count.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

Graph = dict[str, set[str]]
"""The modules that each module uses, by path within the crate (`run::flows`; the root is `crate`)."""

NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|' + r"b?'(?:\\[^\n']+|[^\\'\n])'", re.DOTALL
)
TEST = re.compile(r"#\[cfg\((?:test|all\(test[^\]]*)\)\]")
MODULE = re.compile(r"\bmod\s+(\w+)\s*;")
USE = re.compile(r"(\bpub\s*(?:\([^)]*\)\s*)?)?\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])(?:\$?crate|self|super|[a-z]\w*)(?:\s*::\s*\w+)+")


@dataclasses.dataclass
class Module:
    """A file of a crate."""

    code: str
    """Its text without comments, strings and tests."""
    children: set[str]
    imports: list[tuple[list[str], str]] = dataclasses.field(default_factory=list)
    """Its own imports: the path, and the name it takes here."""
    exports: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """Each name that it re-exports, with its path; a name that ends in `*` stands for all of a module."""


def circles(graph: Graph) -> Iterator[list[str]]:
    """The modules of each circle, sorted: those that reach each other."""
    reached = {name: reachable(graph, name) for name in graph}
    seen: set[str] = set()
    for name in sorted(graph):
        circle = sorted(other for other in reached[name] if name in reached.get(other, ()))
        if circle and name not in seen:
            seen.update(circle)
            yield circle


def reachable(graph: Graph, start: str) -> set[str]:
    """Every module that `start` uses, by whatever way; itself only if a circle leads back to it."""
    found: set[str] = set()
    pending = [start]
    while pending:
        for other in graph.get(pending.pop(), set()) - found:
            found.add(other)
            pending.append(other)
    return found


def graph_of(source: Path) -> Graph:
    """The graph of the crate whose root is `lib.rs` (or `main.rs`) in the folder `source`."""
    root = next(file for file in (source / "lib.rs", source / "main.rs") if file.is_file())
    modules = dict(read(root, source, ()))
    return {"::".join(name) or "crate": set(uses(name, modules)) for name in modules}


def read(file: Path, folder: Path, name: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Module]]:
    """A module and those that it declares, by path; `folder` is where its children are."""
    code = without_tests(NOT_CODE.sub(" ", file.read_text(encoding="utf-8")))
    module = Module(code, set(MODULE.findall(code)))
    for public, tree in USE.findall(code):
        for path, known_as in leaves(tree.strip()):
            if public:
                module.exports[known_as] = path
            else:
                module.imports.append((path, known_as))
    yield name, module
    for child in sorted(module.children):
        below = folder / child
        single = folder / f"{child}.rs"
        yield from read(single if single.is_file() else below / "mod.rs", below, (*name, child))


def without_tests(code: str) -> str:
    """The code without the items under `#[cfg(test)]`; comments and strings are gone already."""
    while mark := TEST.search(code):
        depth, end = 0, mark.end()
        for end in range(mark.end(), len(code)):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            if depth == 0 and code[end] in ";}":
                break
        code = code[: mark.start()] + code[end + 1 :]
    return code


def leaves(tree: str) -> Iterator[tuple[list[str], str]]:
    """The paths of a `use` tree, each with the name that it takes."""
    head, brace, rest = tree.partition("{")
    if brace:
        prefix = [part.strip() for part in head.split("::") if part.strip()]
        for branch in branches(rest[: rest.rindex("}")]):
            for path, known_as in leaves(branch):
                own = path == ["self"]
                yield (prefix if own else prefix + path), (prefix[-1] if own and known_as == "self" else known_as)
        return
    path_text, _, known_as = tree.partition(" as ")
    path = [part.strip() for part in path_text.split("::")]
    yield path, known_as.strip() or path[-1]


def branches(text: str) -> Iterator[str]:
    """The parts of a `use` group, split at the commas outside of inner groups."""
    depth, start = 0, 0
    for at, sign in enumerate(text + ","):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            if part := text[start:at].strip():
                yield part
            start = at + 1


def uses(name: tuple[str, ...], modules: dict[tuple[str, ...], Module]) -> Iterator[str]:
    """The other modules whose items a module names."""
    module = modules[name]
    body = USE.sub(" ", module.code)
    paths = [path for path, _ in module.imports]
    paths += [[part.strip() for part in path.split("::")] for path in PATH.findall(body)]
    paths += [path for known_as, path in module.exports.items() if re.search(rf"\b{re.escape(known_as)}\b", body)]
    for path in paths:
        other = defined_in(name, path, modules)
        if other is not None and other != name:
            yield "::".join(other) or "crate"


def defined_in(
    name: tuple[str, ...], path: list[str], modules: dict[tuple[str, ...], Module], depth: int = 0
) -> tuple[str, ...] | None:
    """The module that defines what `path` means in module `name`; none if it is not of this crate."""
    at = absolute(name, path, modules)
    if at is None or depth > 16:
        return None
    prefix = max((at[:end] for end in range(len(at) + 1) if at[:end] in modules), key=len)
    rest = at[len(prefix) :]
    if not rest:
        return prefix
    exports = modules[prefix].exports
    if rest[0] in exports:
        further = defined_in(prefix, [*exports[rest[0]], *rest[1:]], modules, depth + 1)
        return prefix if further is None else further
    return prefix


def absolute(name: tuple[str, ...], path: list[str], modules: dict[tuple[str, ...], Module]) -> tuple[str, ...] | None:
    """A path from the crate's root on; none if it starts with another crate's name."""
    head, rest = path[0].removeprefix("$"), path[1:]
    if head == "crate":
        return tuple(rest)
    if head in ("self", "super"):
        base = name if head == "self" else name[:-1]
        while rest and rest[0] == "super":
            base, rest = base[:-1], rest[1:]
        return (*base, *rest)
    return (*name, *path) if head in modules[name].children else None
