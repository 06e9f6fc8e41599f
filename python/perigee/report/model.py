# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The content of a report in any format: sections of text, tables, figures and listings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perigee.groups.group import Group
from perigee.groups.names import file_names
from perigee.report.style import WIDTH_IN, is_tinted

Drawing = Callable[[float], Figure]
"""Draws a figure of a width in inches."""

MOST_OPEN_ROWS = 16
"""Rows of the longest table that is not folded."""

MOST_PRINTED_ROWS = 60
"""Rows of the longest folded table that is printed."""

OWN_SCALES = "have scales of their own."

Mark = Literal["", "best", "good", "bad"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: its text.
        mark: `best` of its column, `good` or `bad` for a judgement; never by colour alone.
        group: the group that it names; None: no group.
        spoken: what a screen reader adds to the text; empty: nothing.
        anchor: name of the cell's row for links within the page; empty: none.
        shade: depth of the background, 0 to 1; None: no background.
    """

    text: str
    mark: Mark = ""
    spoken: str = ""
    anchor: str = ""
    shade: float | None = None
    group: Group | None = field(default=None, repr=False, compare=False)

    @classmethod
    def naming(cls, group: Group) -> Cell:
        """Return the cell that names a group; the report has what varies as columns in its place."""
        return cls(group.label, group=group)


@dataclass(frozen=True)
class Table:
    """A table for readers, and its plain data.

    Attributes:
        name: basis of file names, see `with_safe_names`.
        caption: its caption.
        head: column headings; the first column names the rows.
        rows: the cells.
        data: the numbers in full, a row per fact, for CSV.
        groups: headings above the headings: text and number of columns; empty: none.
        notes: notes below it.
        words: indices of the columns of words, not numbers; the first always is one.
        folded: whether it is folded even if it is short, as for the numbers of a figure.
        lead: number of columns that name the rows, from the first on.
        across: whether the algorithms are its columns if settings vary too.
    """

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    data: pl.DataFrame
    groups: Sequence[tuple[str, int]] = ()
    notes: Sequence[str] = ()
    words: Sequence[int] = ()
    folded: bool = False
    lead: int = 1
    across: bool = False

    @property
    def is_folded(self) -> bool:
        """True if the page shows it folded."""
        return self.folded or len(self.rows) > MOST_OPEN_ROWS

    @property
    def is_long(self) -> bool:
        """True if it stays folded on paper: the files of `--format csv` and `latex` have it."""
        return len(self.rows) > MOST_PRINTED_ROWS

    def repeats(self, row: int, column: int) -> bool:
        """Return True if a cell says the same as the one above it, and so do those that name the row before it."""
        if row == 0 or column >= self.lead:
            return False
        pairs = zip(self.rows[row], self.rows[row - 1], strict=True)
        return all(one.text == other.text for one, other in list(pairs)[: column + 1])


@dataclass(frozen=True)
class Plot:
    """A figure.

    Attributes:
        name: basis of file names, see `with_safe_names`.
        caption: one or two sentences below it.
        alt: alternative text.
        figure: the drawing.
        half: whether two fit side by side.
        data: numbers of all curves, a row per point, for CSV; None: in a table of the same section.
        draw: draws it in another width; None: fixed width.
        sequence: marks of a time sequence as JSON, from which the page's script draws any interval; empty: none.
        folded: whether the page shows it folded.
        instead: sentence that a report has in its place, since it shows practically equal groups; empty: none.
        beside: the drawing as it stands beside text, narrower; None: it stands below.
    """

    name: str
    caption: str
    alt: str
    figure: Figure
    half: bool = False
    data: pl.DataFrame | None = None
    draw: Drawing | None = None
    sequence: str = ""
    folded: bool = False
    instead: str = ""
    beside: Figure | None = None

    @classmethod
    def of(
        cls,
        name: str,
        caption: str,
        alt: str,
        draw: Drawing,
        *,
        data: pl.DataFrame | None = None,
        half: bool = False,
        sequence: str = "",
        folded: bool = False,
        instead: str = "",
    ) -> Plot:
        """Return a figure at page width that can be drawn in other widths; its caption tells of scales of their own."""
        drawn = draw(WIDTH_IN)
        said = f"{caption} {_own_scales(drawn.axes)}".rstrip()
        return cls(name, said, alt, drawn, half, data, draw, sequence, folded, instead=instead)


def _own_scales(panels: Sequence[Axes]) -> str:
    """Return the sentence on panels beside each other whose scales differ: which panels, and which of their axes."""
    shaded = [axes for axes in panels if is_tinted(axes)]
    if not shaded:
        return ""
    rows: dict[float, list[Axes]] = {}
    for axes in shaded:
        rows.setdefault(round(axes.get_position().y0, 2), []).append(axes)
    across = len({axes.get_xlim() for axes in shaded}) > 1
    up = any(len({axes.get_ylim() for axes in row}) > 1 for row in rows.values())
    which = "All panels" if len(shaded) == len(panels) else "Shaded panels"
    if not across and not up:
        # A line that was broken: each of its parts has one scale.
        up = len({axes.get_ylim() for axes in shaded}) > 1
        which = "The rows of panels"
    if not across and not up:
        return ""
    return f"{which} {OWN_SCALES if across == up else OWN_SCALES.replace('scales', _AXES[across])}"


_AXES = {True: "horizontal scales", False: "vertical scales"}


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Listing:
    """A file, shown folded.

    Attributes:
        title: its name.
        text: its content.
    """

    title: str
    text: str


Block = Table | Plot | Text | Listing


@dataclass(frozen=True)
class Section:
    """A part of the report with a headline.

    Attributes:
        name: for links within the page.
        title: headline.
        blocks: its content.
    """

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Link:
    """A link within the page.

    Attributes:
        text: its text.
        anchor: name of the row that it leads to, see `Cell.anchor`.
    """

    text: str
    anchor: str


@dataclass(frozen=True)
class Short:
    """The content of the first screen.

    Attributes:
        answer: the author's answer to the question; empty: none.
        caveats: what limits it, a line each.
        lines: findings, a sentence each.
        misses: published results that are not met.
        method: how the findings were tested; empty: nothing to say.
        blocks: tables of the findings, and the first figure.
    """

    answer: str = ""
    caveats: Sequence[str] = ()
    lines: Sequence[str] = ()
    misses: Sequence[Link] = ()
    method: str = ""
    blocks: Sequence[Block] = ()

    @property
    def tables(self) -> list[Table]:
        """Tables of the findings."""
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def plots(self) -> list[Plot]:
        """The first figure, or none."""
        return [block for block in self.blocks if isinstance(block, Plot)]


@dataclass(frozen=True)
class Chapter:
    """The part of a report about one experiment of a study.

    Attributes:
        name: for links within the page; begins the names of its sections, figures and tables.
        title: headline.
        question: question of the experiment; empty: none.
        short: what its first screen says.
        notes: notes on all of it.
        sections: its parts.
    """

    name: str
    title: str
    question: str
    short: Short
    notes: Sequence[str]
    sections: Sequence[Section]

    @property
    def answers(self) -> Sequence[str]:
        """Findings, a sentence each."""
        return self.short.lines


@dataclass(frozen=True)
class Fact:
    """A number at the head of the report.

    Attributes:
        value: the number.
        label: its meaning.
    """

    value: str
    label: str


@dataclass(frozen=True)
class Citation:
    """A work to cite.

    Attributes:
        what: reason for citing it, such as "the program".
        text: the reference as one line.
        bibtex: the same for BibTeX.
        url: its address; empty: unknown.
    """

    what: str
    text: str
    bibtex: str
    url: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
        title: headline.
        question: question of the study.
        facts: numbers at the head.
        sections: its parts; empty if it has chapters.
        short: what the first screen says.
        notes: notes on all that follows.
        made: provenance, a name and a text each.
        citations: works to cite.
        chapters: the parts of a study of several experiments.
        banner: what a reader must know before all else; empty: nothing.
        asides: what the command line says and the page does not.
    """

    title: str
    question: str
    facts: Sequence[Fact]
    sections: Sequence[Section]
    short: Short = Short()
    notes: Sequence[str] = ()
    made: Sequence[tuple[str, str]] = ()
    citations: Sequence[Citation] = ()
    chapters: Sequence[Chapter] = ()
    banner: str = ""
    asides: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Make the names of figures and tables safe and unique."""
        parts = [_with_first(self.short, self.sections)]
        parts += [_with_first(chapter.short, chapter.sections, f"{chapter.name}-") for chapter in self.chapters]
        named = iter(with_safe_names([section for part in parts for section in part]))
        object.__setattr__(self, "short", replace(self.short, blocks=next(named).blocks))
        object.__setattr__(self, "sections", [next(named) for _ in self.sections])
        chapters = []
        for chapter in self.chapters:
            short = replace(chapter.short, blocks=next(named).blocks)
            chapters.append(replace(chapter, short=short, sections=[next(named) for _ in chapter.sections]))
        object.__setattr__(self, "chapters", chapters)

    @property
    def answers(self) -> Sequence[str]:
        """Findings, a sentence each."""
        return self.short.lines

    def all_sections(self) -> list[Section]:
        """Return the parts, those of chapters too; what stands on a first screen comes before the parts below it."""
        of_chapters = (_with_first(chapter.short, chapter.sections) for chapter in self.chapters)
        return [section for part in (_with_first(self.short, self.sections), *of_chapters) for section in part]

    def plots(self) -> list[Plot]:
        """Return all figures in order."""
        return [block for section in self.all_sections() for block in section.blocks if isinstance(block, Plot)]

    def tables(self) -> list[Table]:
        """Return all tables in order."""
        return [block for section in self.all_sections() for block in section.blocks if isinstance(block, Table)]

    def number(self, block: Table | Plot) -> str:
        """Return the reference to a figure or table in texts, such as `Table 3`."""
        kind, same = ("Figure", self.plots()) if isinstance(block, Plot) else ("Table", self.tables())
        return f"{kind} {[one.name for one in same].index(block.name) + 1}"


def _with_first(short: Short, sections: Sequence[Section], prefix: str = "") -> list[Section]:
    """Return what stands on a first screen as a section, and the sections below it.

    A prefix comes before the names of sections, figures and tables.
    """

    def named(block: Block) -> Block:
        return replace(block, name=f"{prefix}{block.name}") if isinstance(block, Plot | Table) else block

    return [
        replace(section, name=f"{prefix}{section.name}", blocks=[named(block) for block in section.blocks])
        for section in (Section("short", "In short", short.blocks), *sections)
    ]


def with_safe_names(sections: Sequence[Section]) -> list[Section]:
    """Return sections in which names of figures and tables are unique and safe for files."""
    blocks = [block for section in sections for block in section.blocks]
    names: dict[int, str] = {}
    for kind in (Plot, Table):
        named = [(place, block) for place, block in enumerate(blocks) if isinstance(block, kind)]
        free = file_names([block.name for _, block in named])
        names |= {place: name for (place, _), name in zip(named, free, strict=True)}
    renamed = iter(
        replace(block, name=names[place]) if isinstance(block, Plot | Table) else block
        for place, block in enumerate(blocks)
    )
    return [replace(section, blocks=[next(renamed) for _ in section.blocks]) for section in sections]
