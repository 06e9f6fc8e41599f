# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files of a results folder as they are taken from it: report, tables, archives; and figures without scripts."""

from __future__ import annotations

import io
import itertools
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from perigee.errors import InputError
from perigee.store.manifest import read_manifest
from perigee.store.slices import readable, slices

FIGURES = "report-files"
CHUNK = 1 << 18
POLICY_OF_REPORTS = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)
FRAMED = Path(__file__).parent / "static" / "framed.js"
SVG = "http://www.w3.org/2000/svg"
DRAWN = frozenset(
    f"{{{SVG}}}{name}"
    for name in (
        *("svg", "g", "defs", "symbol", "use", "style", "title", "desc", "metadata"),
        *("path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan", "image"),
        *("clipPath", "mask", "marker", "pattern", "linearGradient", "radialGradient", "stop"),
    )
)
"""Elements of figures that draw, and run nothing."""
ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")


def report_of(folder: Path) -> Iterator[bytes]:
    """Return the report in parts, with a policy by which it loads nothing, and what tells a page around it its height.

    Browsers put what comes first into the head, whatever follows.

    Raises:
        InputError: there is none.
    """
    path = folder / "report.html"
    if not is_file(path):
        raise InputError("there is no report; make it on the page of the results")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY_OF_REPORTS}">'
    head = f"<!doctype html>{policy}<script>{FRAMED.read_text(encoding='utf-8')}</script>\n"
    return itertools.chain([head.encode()], _read(path))


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def table_of(folder: Path, name: str) -> Path:
    """Return the file of a table.

    Raises:
        InputError: there is no such table, or its file is gone.
    """
    if not re.fullmatch("[a-z_]+", name) or name not in read_manifest(folder).get("tables", {}):
        raise InputError(f"{name[:80]}: no such table")
    path = folder / f"{name}.parquet"
    if not is_file(path):
        raise InputError(f"{folder.name}/{path.name}: is gone; run the study again")
    return path


def csv_of(path: Path) -> Iterator[bytes]:
    """Return a Parquet file as CSV, some rows at a time.

    Raises:
        InputError: it is damaged; damage beyond its first rows ends the download.
    """
    parts = (part.write_csv(include_header=number == 0).encode() for number, part in enumerate(slices(path)))
    with readable(path):
        first = next(parts)
    return itertools.chain([first], parts)


def archived(folder: Path, what: str) -> tuple[str, Iterator[bytes]]:
    """Return captures, or the figures and tables of the report, as a zip file: its name, and its bytes.

    Raises:
        InputError: these results have none.
    """
    inside = {"captures": "captures", "figures": FIGURES}.get(what)
    below = folder / inside if inside else None
    if below is None or below.is_symlink() or not below.is_dir():
        raise InputError(f"{what[:80]}: there is no such thing in these results")
    name = f"{folder.name}-{what}"
    files = sorted(path for path in below.rglob("*") if is_file(path))
    return f"{name}.zip", zipped([(f"{name}/{path.relative_to(below)}", path) for path in files])


def zipped(files: Sequence[tuple[str, Path]]) -> Iterator[bytes]:
    """Yield a zip file of files by their names in it, without a copy of it in memory or on the disk.

    Examples:
        >>> whole = b"".join(zipped([("a/licence", Path(__file__))]))
        >>> zipfile.ZipFile(io.BytesIO(whole)).read("a/licence") == Path(__file__).read_bytes()
        True
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in files:
            with archive.open(name, "w", force_zip64=True) as target:
                for chunk in _read(path):
                    target.write(chunk)
                    yield sink.taken()
            yield sink.taken()
    yield sink.taken()


def without_scripts(figure: bytes) -> bytes | None:
    """Return an SVG file with what draws only: no scripts, handlers of events, animations, links; none if it is no SVG.

    Examples:
        >>> without_scripts(b'<svg xmlns="http://www.w3.org/2000/svg" onload="a()"><script>b()</script><g/></svg>')
        b'<svg xmlns="http://www.w3.org/2000/svg"><g /></svg>'
        >>> without_scripts(b"<svg><script>b()</script>")
    """
    try:
        root = ElementTree.fromstring(figure)  # noqa: S314 - expat bounds what entities become
        if root.tag != f"{{{SVG}}}svg":
            return None
        for each in list(root.iter()):
            for child in list(each):
                if child.tag not in DRAWN:
                    each.remove(child)
            for name, value in list(each.items()):
                local = name.rpartition("}")[2].lower()
                if local.startswith("on") or (local == "href" and not value.startswith(("#", "data:image/"))):
                    del each.attrib[name]
        return ElementTree.tostring(root)
    except (ElementTree.ParseError, RecursionError):
        return None


def is_file(path: Path) -> bool:
    """Whether a path is a file itself, and leads nowhere else."""
    return path.is_file() and not path.is_symlink()


class _Sink(io.RawIOBase):
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def taken(self) -> bytes:
        """Return what was written since, and forget it."""
        parts, self._parts = self._parts, []
        return b"".join(parts)
