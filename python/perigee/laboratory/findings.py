# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Summaries of a results folder: findings, first figure, headline numbers, curves of first runs."""

from __future__ import annotations

import html
import logging
import math
import re
import threading
import time
import tomllib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
import polars as pl

from perigee.errors import InputError
from perigee.files import MIB, read_bounded
from perigee.groups.factors import ALGORITHM, FLOW, Factor, lowered
from perigee.groups.group import Group
from perigee.groups.looks import table
from perigee.groups.names import without_number
from perigee.groups.panels import hue_of
from perigee.report.context import Context
from perigee.report.headline import headlines
from perigee.statistics.metrics import Metric
from perigee.store.manifest import read_manifest
from perigee.store.results import Results
from perigee.store.room import MOST_OF_A_PAGE, check_room
from perigee.store.slices import slices

LOG = logging.getLogger("perigee.laboratory")

MOST_KNOWN = 2000
"""Folders whose findings stay in memory."""
BEGINNING = 2 * MIB
"""Bytes of a report within which its title, sentences and first figure stand: some 200 kB."""
MOST_LEVELS = 4
"""Levels of what varies of which a list shows numbers and curves."""
MOST_GROUPS = 500
"""Groups of flows of results of which a list says numbers: each takes a millisecond."""
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
class Level:
    """A level of what varies, with what a list shows of it.

    Attributes:
        label: what people call it.
        look: number of the look of its algorithm, its colour; none where it has no algorithm, or several.
        least: the smallest mean of its groups of flows.
        most: the largest one.
    """

    label: str
    look: int | None
    least: float
    most: float


@dataclass(frozen=True)
class Quantity:
    """The quantity that answers a study's question, of its main flow.

    Attributes:
        noun: what it is, in a sentence.
        unit: its unit.
        digits: its decimals that mean something.
        levels: its means by what colours tell apart in the report: the algorithm, where that varies.
        more: how many levels there are beyond these.
        over: what else varies, over which each level has its smallest and its largest mean.
    """

    noun: str
    unit: str
    digits: int
    levels: tuple[Level, ...]
    more: int
    over: tuple[str, ...]


@dataclass(frozen=True)
class Course:
    """Throughput over time of a run, for a picture of a line of text.

    Attributes:
        look: number of the look of its algorithm; none where it has no algorithm, or several.
        points: share of the time and of the largest throughput, each of 0 to 1.
    """

    look: int | None
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Paper:
    """The publication that results stand beside.

    Attributes:
        words: authors, venue and year.
        url: its address.
    """

    words: str
    url: str


@dataclass(frozen=True)
class Findings:
    """The summary of results in a list and at the head of a page.

    Attributes:
        title: headline of the report; empty: there is none.
        sentences: what the report says in short; nothing of the small size of a study, from which nothing follows.
        has_figure: whether the report has a figure that can stand alone.
        is_tall: whether that is higher than wide, so that a thumbnail has its head.
        headline: the quantity that the report is about; none where it cannot be said.
        courses: throughput over time of the first run of each of its levels.
        paper: the publication that its study names.
    """

    title: str = ""
    sentences: tuple[str, ...] = ()
    has_figure: bool = False
    is_tall: bool = False
    headline: Quantity | None = None
    courses: tuple[Course, ...] = ()
    paper: Paper | None = None


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
        stamp = _stamp(folder)
        try:
            findings = read_findings(folder)
        except (Exception, pl.exceptions.PanicException) as error:
            # Files of a folder may be damaged in any way; a list shows the others.
            LOG.warning("%s: nothing can be said of these results: %r", folder, error)
            findings = Findings()
        with self._lock:
            self._found[str(folder)] = (stamp, findings)
            if len(self._found) > MOST_KNOWN:
                self._found.popitem(last=False)
        return findings


def read_findings(folder: Path) -> Findings:
    """Read the findings of a folder; what has no report or tables has fewer."""
    report = _report(folder)
    headline, courses = _numbers(folder)
    drawing = _drawing(report)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing[:HEAD])
    return Findings(
        _text(_between(report, "<h1", "</h1>")),
        () if _is_reduced(folder) else sentences_of(report),
        bool(drawing),
        size is not None and float(size[2]) > TALL * float(size[1]),
        headline,
        courses,
        paper_of(folder),
    )


def paper_of(folder: Path) -> Paper | None:
    """Return the publication of results, as `published.toml` of their study names it; none where it names no DOI."""
    path = folder / "study" / "published.toml"
    try:
        text = (
            read_bounded(path, MIB, "a file of published results").decode()
            if path.is_file() and not path.is_symlink()
            else ""
        )
        content = tomllib.loads(text)
    except (InputError, ValueError, RecursionError):
        return None
    doi, authors = content.get("doi"), content.get("authors")
    if not isinstance(doi, str) or not isinstance(authors, list):
        return None
    first = str(authors[0]).rpartition(" ")[2] if authors else ""
    by = f"{first} et al." if len(authors) > 1 else first
    return Paper(", ".join(filter(None, (by, str(content.get("venue", ""))))), f"https://doi.org/{quote(doi)}")


def sentences_of(report: str) -> tuple[str, ...]:
    """Return the author's answer and what a report says in short, without how it was tested.

    Examples:
        >>> sentences_of("<h2>In short</h2><ul><li>A &lt; <b>B</b>.</li><li>± is an interval.</li></ul></section>")
        ('A < B.',)
    """
    begin, _, rest = report.partition(">In short</h")
    answer, end, _ = begin.partition('<p class="answer">')[2].partition("</p>")
    # Tables and what is not met are for the report itself.
    short = _without("figure|details", rest.partition("</section>")[0])
    lines = [short[tag.end() : close] for tag, close in _elements("li", short)]
    return tuple(text for text in map(_text, [answer if end else "", *lines]) if text and not text.startswith(METHOD))


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
    """Return the beginning of a report; nothing where there is none."""
    path = folder / "report.html"
    if not path.is_file() or path.is_symlink():
        return ""
    try:
        with path.open("rb") as file:
            return file.read(BEGINNING).decode(errors="replace")
    except OSError:
        return ""


def _drawing(report: str) -> str:
    """Return the SVG element of the first figure; nothing where there is none, or it would run a script."""
    tags = re.finditer(r"<figure\b[^<>]*>", report)
    figure = next((tag for tag in tags if re.search(r'class="[^"]*\bplot\b', tag[0])), None)
    begin = report.find("<svg", figure.end()) if figure else -1
    end = report.find("</svg>", begin)
    if begin < 0 or end < 0:
        return ""
    return report[begin : end + len("</svg>")]


def _numbers(folder: Path) -> tuple[Quantity | None, tuple[Course, ...]]:
    """Return the quantity that the report is about, of its main flow, and the course of a run of each of its levels."""
    try:
        check_room(folder / "flows.parquet", most=MOST_OF_A_PAGE)
        if _groups_of(folder / "flows.parquet") > MOST_GROUPS:
            return None, ()
        context = Context(Results(folder, check=False))
        found = headlines(context)
        if not found:
            return None, ()
        main = without_number(found[0].groups[0].factors[FLOW])
        groups = [group for group in found[0].groups if without_number(group.factors[FLOW]) == main]
        factors = context.factors(groups)
        hue = hue_of(factors)
        by_level: dict[str, list[Group]] = {}
        for group in groups:
            by_level.setdefault(group.levels.get(hue.key, "") if hue else "", []).append(group)
        levels = [_level(context, found[0].metric, hue, label, several) for label, several in by_level.items()]
        known = [one for one in levels if math.isfinite(one.least) and math.isfinite(one.most)]
        shown = Quantity(
            found[0].noun, found[0].metric.unit, found[0].metric.digits, tuple(known[:MOST_LEVELS]),
            len(known) - len(known[:MOST_LEVELS]),
            tuple(lowered(one.title) for one in factors if one is not hue and one.key != FLOW),
        )  # fmt: skip
        return shown, _courses(folder / "series.parquet", _firsts(levels[:MOST_LEVELS], list(by_level.values())))
    except (InputError, OSError, pl.exceptions.PolarsError):
        return None, ()


def _groups_of(path: Path) -> int:
    with path.open("rb") as file:
        return pl.scan_parquet(file).select(pl.struct("point", "flow", "cc").n_unique()).collect().item()  # type: ignore[no-any-return]


def _level(context: Context, metric: Metric, hue: Factor | None, label: str, groups: Sequence[Group]) -> Level:
    values = [context.value(group, metric) for group in groups]
    there = [value for value in values if not math.isnan(value)] or [math.nan]
    # As in figures: variants have the look of what they set.
    algorithms = {label if hue and hue.is_algorithm else group.levels[ALGORITHM] for group in groups}
    only = algorithms.pop() if len(algorithms) == 1 else ""
    look = context.number_of_look(only) if only else None
    words = hue.in_legend(label) if hue and label else groups[0].label
    return Level(words, look, min(there), max(there))


def _firsts(levels: Sequence[Level], groups: Sequence[Sequence[Group]]) -> list[tuple[int | None, int, str]]:
    """Return look, run and flow of the first flow of each level."""
    firsts = [(level.look, own[0].rows.row(0, named=True)) for level, own in zip(levels, groups, strict=False)]
    return [(look, row["run"], row["flow"]) for look, row in firsts]


def _courses(path: Path, wanted: list[tuple[int | None, int, str]]) -> tuple[Course, ...]:
    """Return throughput over time of flows; of runs beyond the first rows nothing."""
    if not wanted or not path.is_file():
        return ()
    try:
        table = next(slices(path, ["run", "flow", "t_s", "goodput_mbps"]))
    except pl.exceptions.ColumnNotFoundError:
        return ()
    lines = []
    for look, run, flow in wanted:
        mine = table.filter((pl.col("run") == run) & (pl.col("flow") == flow) & pl.col("t_s").is_finite())
        lines.append((look, mine["t_s"].to_numpy(), np.nan_to_num(mine["goodput_mbps"].to_numpy())))
    most_s = max((times[-1] for _, times, _ in lines if len(times)), default=0.0)
    most = max((values.max() for _, _, values in lines if len(values)), default=0.0)
    if not (most_s > 0 and most > 0) or max(len(times) for _, times, _ in lines) < LEAST_SAMPLES:
        return ()
    return tuple(Course(look, _points(times / most_s, values / most)) for look, times, values in lines)


def _points(times: np.ndarray, values: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Return a curve of shares as points, each the mean of its part of the time."""
    if len(times) == 0:
        return ()
    columns = np.minimum((times * CURVE_POINTS).astype(int), CURVE_POINTS - 1)
    counts = np.bincount(columns, minlength=CURVE_POINTS)
    there = np.flatnonzero(counts)
    means = np.bincount(columns, values, CURVE_POINTS)[there] / counts[there]
    return tuple(
        (round((x + 0.5) / CURVE_POINTS, 4), round(float(y), 4)) for x, y in zip(there.tolist(), means, strict=True)
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


def _elements(names: str, markup: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield the tag of each element that is in no other of these, and where it ends; all in one pass.

    An element that does not end is the last that is looked at: a pattern over a whole element would read the rest
    once more for each, and the report may be anybody's.
    """
    end = 0
    for tag in re.finditer(rf"<({names})\b[^<>]*>", markup):
        if tag.start() < end:
            continue
        end = markup.find(f"</{tag[1]}>", tag.end())
        if end < 0:
            return
        yield tag, end


def _without(names: str, markup: str) -> str:
    """Return markup without elements of these names, of which the closing tags stay."""
    kept, at = [], 0
    for tag, end in _elements(names, markup):
        kept.append(markup[at : tag.start()])
        at = end
    return "".join((*kept, markup[at:]))


def _between(text: str, begin: str, end: str) -> str:
    return text.partition(begin)[2].partition(">")[2].partition(end)[0]


def _text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^<>]*>", "", markup)).split())
