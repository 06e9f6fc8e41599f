# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A file with its local headers in it, each line with the place it comes from."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perigee.cc.fault import near
from perigee.cc.foreign.text import Item, items_of, tokens_of
from perigee.errors import InputError
from perigee.files import TEXT_BYTES, read_bounded

Place = tuple[Path, int] | None
"""A file and a line; none: the import has written it."""
KERNELS = {"vmlinux.h", "bpf_tcp_helpers.h", "bpf_tracing_net.h", "bpf_kfuncs.h", "bpf_misc.h"}
"""Headers for BPF programs that stand for the kernel's own."""

_SPDX = re.compile(r"(?://|/\*|\n[ \t]*\*)[ \t]*SPDX-License-Identifier:[ \t]*([-\w.+() ]+)")
_INCLUDE = re.compile(r'\s*#\s*include\s*(?:<([^>]*)>|"([^"]*)")')


@dataclass
class Source:
    r"""A text and the place of each of its lines.

    Examples:
        >>> source = Source("a\nb\n", [(Path("x.c"), 1), (Path("x.c"), 2)])
        >>> source.edited([(2, 3, "c\nd")])
        Source(text='a\nc\nd\n', places=[(PosixPath('x.c'), 1), (PosixPath('x.c'), 2), (PosixPath('x.c'), 2)])
    """

    text: str
    places: list[Place]

    def at(self, start: int) -> str:
        """Return `FILE:LINE` of an offset."""
        return shown(self.places[self.text.count("\n", 0, start)])

    def spdx(self, path: Path) -> str:
        """Return the SPDX expression of one of its files, of which others may be part; empty: it has none."""
        for match in _SPDX.finditer(self.text):
            place = self.places[self.text.count("\n", 0, match.start())]
            if place and place[0] == path:
                return match[1].strip()
        return ""

    def edited(self, edits: Iterable[tuple[int, int, str]]) -> Source:
        """Return the text with other words at some places, which do not overlap."""
        text: list[str] = []
        places: list[Place] = []
        line = done = 0
        for start, end, new in [*sorted(edits), (len(self.text), len(self.text), "")]:
            kept = self.text[done:start]
            passed = kept.count("\n")
            places += self.places[line : line + passed]
            line += passed
            places += [self.places[min(line, len(self.places) - 1)]] * new.count("\n")
            line += self.text.count("\n", start, end)
            text += [kept, new]
            done = end
        return Source("".join(text), places)


def shown(place: Place) -> str:
    """Return a place as `FILE:LINE`."""
    return f"{near(place[0])}:{place[1]}" if place else "the imported file"


def gather(path: Path) -> Source:
    """Read a file, with the headers beside it that it includes, and what they declare of a file of their name.

    Headers of the kernel are left out.

    Raises:
        InputError: a file cannot be read, is no text, or is written for Perigee already.
    """
    return _gather(path, set())


def _gather(path: Path, seen: set[Path]) -> Source:
    source = _read(path)
    seen.add(path.resolve())
    text: list[str] = []
    places: list[Place] = []
    done = line = 0
    for token in tokens_of(source.text):
        named = _INCLUDE.match(token.text) if token.kind == "directive" else None
        if not named:
            continue
        passed = source.text.count("\n", done, token.start)
        text.append(source.text[done : token.start])
        places += source.places[line : line + passed]
        line += passed
        done = token.end
        local = named.group(2)
        if local is None or Path(local).name in KERNELS or local.startswith(("bpf/", "linux/", "net/")):
            continue
        header = path.parent / local
        if local in ("tcp.h", "kernel.h") and not (path.parent / local).exists():
            raise InputError(
                f"{source.at(token.start)}: the file includes {local}: it is written for Perigee already",
                f"perigee cc check {shlex.quote(str(path))}",
            )
        if not _is_below(header, path.parent):
            raise InputError(
                f'{source.at(token.start)}: "{local}" is neither beside the file nor below it', "copy it there"
            )
        if not header.is_file():
            raise InputError(
                f'{source.at(token.start)}: there is no "{local}" beside the file',
                f"copy it there, and the file `{Path(local).stem}.c` if it declares functions of one",
            )
        if header.resolve() not in seen:
            inner = _gather(header, seen)
            beside = _companion(header, _words(source.text)) if header.with_suffix(".c").resolve() not in seen else []
            for part in (inner, *beside):
                text.append(part.text if part.text.endswith("\n") else part.text + "\n")
                places += part.places
            # The line that the directive was on.
            text[-1] = text[-1].removesuffix("\n")
            places.pop()
    text.append(source.text[done:])
    places += source.places[line:]
    return Source("".join(text), places)


def _is_below(path: Path, folder: Path) -> bool:
    """Whether a file is where compilers may read an author's headers: a text can name any."""
    return path.resolve().is_relative_to(folder.resolve())


def _read(path: Path) -> Source:
    content = read_bounded(path, TEXT_BYTES, "a congestion control")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    if "\0" in text:
        raise InputError(f"{path}: is no text", "name a C file")
    text = text.replace("\r\n", "\n")
    text += "" if text.endswith("\n") else "\n"
    return Source(text, [(path, number + 1) for number in range(text.count("\n"))])


def _words(text: str) -> set[str]:
    return {token.text for token in tokens_of(text) if token.kind == "word"}


def _companion(header: Path, used: set[str]) -> list[Source]:
    """Return the functions that a header declares, that are in use, and what they need, of the file of its name."""
    path = header.with_suffix(".c")
    if not path.is_file() or not _is_below(path, header.parent):
        return []
    source = _read(path)
    items = [item for item in items_of(source.text) if item.names]
    declared = _words(_read(header).text) & used
    wanted = {name for item in items if item.kind == "function" for name in item.names if name in declared}
    taken: list[Item] = []
    while more := [item for item in items if item.kind != "call" and item not in taken and wanted & set(item.names)]:
        taken += more
        wanted |= set(itertools.chain.from_iterable(item.words() for item in more))
    parts = []
    for item in sorted(taken, key=lambda item: item.start):
        text = source.text[item.start : item.end] + "\n"
        first = source.text.count("\n", 0, item.start)
        parts.append(Source(text, source.places[first : first + text.count("\n")]))
    return parts
