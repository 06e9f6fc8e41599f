# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Summaries of a results folder: findings, first figure, headline numbers, curves of first runs."""

from __future__ import annotations

import html
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from perigee.errors import InputError
from perigee.files import MIB, read_bounded
from perigee.groups.looks import table
from perigee.store.identity import REDUCED
from perigee.store.manifest import read_manifest
from perigee.store.room import MOST_OF_A_PAGE, check_room
from perigee.store.slices import slices

MOST_KNOWN = 2000
"""Folders whose findings stay in memory."""
LARGEST_REPORT = 64 * MIB
MOST_NAMES = 4
"""Congestion controls of which a list shows numbers and curves."""
NUMBERS = 4
"""Columns that are read for both."""
CURVE_POINTS, LEAST_SAMPLES = 48, 5
HEAD = 20_000
"""Letters within which the size of a figure stands."""
TALL = 0.75
LIGHT, DARK = (
    ";".join(("color:" + table().inks["ink"][ground], "--paper:" + table().inks["paper"][ground]))
    for ground in ("light", "dark")
)
"""Ink and paper of figures that stand in a page, in light and dark."""
METHOD = "±"
"""Beginning of the sentence that says how others were tested."""


@dataclass(frozen=True)
class Mean:
    """A congestion control in a list.

    Attributes:
        name: its name.
        mbps: mean throughput of its flows, Mbit/s.
        place: its number among those of the results, which is its colour.
    """

    name: str
    mbps: float
    place: int


@dataclass(frozen=True)
class Findings:
    """The summary of results in a list and at the head of a page.

    Attributes:
        title: headline of the report; empty: there is none.
        sentences: what the report says in short; of the small size of a study only that it is that.
        has_figure: whether the report has a figure that can stand alone.
        is_tall: whether that is higher than wide, so that a thumbnail has its head.
        means: of the first congestion controls.
        more: how many congestion controls there are beyond these.
        curves: throughput over time of the first run of each, as points of a picture of 100 x 24.
    """

    title: str = ""
    sentences: tuple[str, ...] = ()
    has_figure: bool = False
    is_tall: bool = False
    means: tuple[Mean, ...] = ()
    more: int = 0
    curves: tuple[str, ...] = ()


Stamp = tuple[int, ...]


class Known:
    """The findings of the results that were shown last. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[Stamp, Findings]] = OrderedDict()

    def get(self, folder: Path) -> Findings:
        """Return the findings of a folder; its files are read where they have changed since."""
        return self._known(folder) or self._read(folder)

    def several(self, folders: Iterable[Path], for_s: float) -> dict[str, Findings]:
        """Return findings by the folders' names; files are read for a time, and a later call has the others."""
        until = time.monotonic() + for_s
        found = {}
        for folder in folders:
            known = self._known(folder)
            if known is None and time.monotonic() < until:
                known = self._read(folder)
            if known is not None:
                found[folder.name] = known
        return found

    def _known(self, folder: Path) -> Findings | None:
        with self._lock:
            stamp, findings = self._found.get(str(folder), ((), None))
            if findings is None or stamp != _stamp(folder):
                return None
            self._found.move_to_end(str(folder))
            return findings

    def _read(self, folder: Path) -> Findings:
        stamp, findings = _stamp(folder), read_findings(folder)
        with self._lock:
            self._found[str(folder)] = (stamp, findings)
            if len(self._found) > MOST_KNOWN:
                self._found.popitem(last=False)
        return findings


def read_findings(folder: Path) -> Findings:
    """Read the findings of a folder; what has no report or tables has fewer."""
    report = _report(folder)
    means, more, curves = _numbers(folder)
    drawing = _drawing(report)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing[:HEAD])
    return Findings(
        _text(_between(report, "<h1", "</h1>")),
        (f"{REDUCED}.",) if _is_reduced(folder) else sentences_of(report),
        bool(drawing),
        size is not None and float(size[2]) > TALL * float(size[1]),
        means,
        more,
        curves,
    )


def sentences_of(report: str) -> tuple[str, ...]:
    """Return the author's answer and what a report says in short, without how it was tested.

    Examples:
        >>> sentences_of("<h2>In short</h2><ul><li>A &lt; <b>B</b>.</li><li>± is an interval.</li></ul></section>")
        ('A < B.',)
    """
    begin, _, rest = report.partition(">In short</h")
    answers = re.findall(r'<p class="answer">(.*?)</p>', begin, re.DOTALL)
    # Tables and what is not met are for the report itself.
    short = re.sub(r"<(figure|details)\b.*?</\1>", "", rest.partition("</section>")[0], flags=re.DOTALL)
    lines = re.findall(r"<li\b[^>]*>(.*?)</li>", short, re.DOTALL)
    return tuple(text for text in map(_text, [*answers[:1], *lines]) if text and not text.startswith(METHOD))


def first_figure(folder: Path) -> bytes:
    """Return the first figure of the report as an SVG file that follows the reader's light or dark.

    Raises:
        InputError: there is none.
    """
    report = _report(folder)
    drawing = _drawing(report)
    if not drawing:
        raise InputError("there is no figure; make the report on the page of the results")
    head, _, rest = drawing.partition(">")
    spaces = (
        "" if "xmlns=" in head else ' xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    )
    # The colours of the report's page, light and dark; figures that take none of them are for white paper.
    light, dark = (*re.findall(r":root\s*\{([^{}]*)\}", report)[:2], "", "")[:2]
    style = f":root{{{light};{LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{dark};{DARK}}}}}"
    paper = "" if "var(--" in rest else '<rect width="100%" height="100%" fill="#fff"/>'
    return f"{head}{spaces}><style>{style}</style>{paper}{rest}".encode()


def _is_reduced(folder: Path) -> bool:
    try:
        return bool(read_manifest(folder)["reduced"])
    except InputError:
        return False


def _report(folder: Path) -> str:
    path = folder / "report.html"
    if not path.is_file() or path.is_symlink():
        return ""
    try:
        return read_bounded(path, LARGEST_REPORT, "a report").decode(errors="replace")
    except InputError:
        return ""


def _drawing(report: str) -> str:
    """Return the SVG element of the first figure; nothing where there is none, or it would run a script."""
    figure = re.search(r'<figure\b[^>]*class="[^"]*\bplot\b', report)
    begin = report.find("<svg", figure.end()) if figure else -1
    end = report.find("</svg>", begin)
    if begin < 0 or end < 0:
        return ""
    return report[begin : end + len("</svg>")]


def _numbers(folder: Path) -> tuple[tuple[Mean, ...], int, tuple[str, ...]]:
    """Return the means of the first congestion controls, how many others there are, and curves of their first runs."""
    try:
        check_room(folder / "flows.parquet", NUMBERS, MOST_OF_A_PAGE)
        flows = pl.concat(slices(folder / "flows.parquet", ["run", "flow", "cc", "goodput_mbps"]))
        flows = flows.drop_nulls("goodput_mbps").filter(pl.col("cc") != "")
        known = flows.group_by("cc", maintain_order=True).agg(
            pl.col("run", "flow").first(), pl.col("goodput_mbps").mean()
        )
        shown = known.head(MOST_NAMES)
        means = tuple(
            Mean(name, mbps, place) for place, (name, mbps) in enumerate(shown.select("cc", "goodput_mbps").iter_rows())
        )
        curves = list(shown.select("run", "flow").iter_rows())
        return means, known.height - len(means), _curves(folder / "series.parquet", curves)
    except (InputError, OSError, pl.exceptions.PolarsError):
        return (), 0, ()


def _curves(path: Path, wanted: list[tuple[int, str]]) -> tuple[str, ...]:
    """Return throughput over time of flows, as points of a picture; of runs beyond the first rows nothing."""
    if not wanted or not path.is_file():
        return ()
    try:
        table = next(slices(path, ["run", "flow", "t_s", "goodput_mbps"]))
    except pl.exceptions.ColumnNotFoundError:
        return ()
    lines = []
    for run, flow in wanted:
        mine = table.filter((pl.col("run") == run) & (pl.col("flow") == flow))
        lines.append((mine["t_s"].to_numpy(), np.nan_to_num(mine["goodput_mbps"].to_numpy())))
    most_s = max((times[-1] for times, _ in lines if len(times)), default=0.0)
    most = max((values.max() for _, values in lines if len(values)), default=0.0)
    if not (most_s > 0 and most > 0) or max(len(times) for times, _ in lines) < LEAST_SAMPLES:
        return ()
    return tuple(_points(times / most_s, values / most) for times, values in lines)


def _points(times: np.ndarray, values: np.ndarray) -> str:
    """Return a curve of shares as points, each the mean of its part of the time."""
    if len(times) == 0:
        return ""
    columns = np.minimum((times * CURVE_POINTS).astype(int), CURVE_POINTS - 1)
    counts = np.bincount(columns, minlength=CURVE_POINTS)
    there = np.flatnonzero(counts)
    means = np.bincount(columns, values, CURVE_POINTS)[there] / counts[there]
    return " ".join(
        f"{(x + 0.5) * 100 / CURVE_POINTS:.1f},{23 - 22 * y:.1f}" for x, y in zip(there, means, strict=True)
    )


def _stamp(folder: Path) -> Stamp:
    found: list[int] = []
    for name in ("manifest.json", "report.html"):
        try:
            about = (folder / name).stat()
        except OSError:
            continue
        found += (about.st_mtime_ns, about.st_size)
    return tuple(found)


def _between(text: str, begin: str, end: str) -> str:
    return text.partition(begin)[2].partition(">")[2].partition(end)[0]


def _text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", markup)).split())
