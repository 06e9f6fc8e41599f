# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tables of groups with what varies as columns, instead of a name of all settings in each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perigee.groups.factors import ALGORITHM, FLOW, Factor, capital, phrase
from perigee.groups.group import Group
from perigee.report.context import Context
from perigee.report.model import Block, Cell, Section, Table

ACROSS = range(2, 7)
"""Numbers of algorithms that stand as columns, if a table asks for it."""


def laid_out(section: Section, context: Context) -> Section:
    """Return a section whose tables of groups have a column per factor, see `in_columns`."""

    def made(block: Block) -> Block:
        return in_columns(block, context) if isinstance(block, Table) else block

    return replace(section, blocks=[made(block) for block in section.blocks])


def in_columns(table: Table, context: Context) -> Table:
    """Return a table whose cells of groups are replaced by the levels of what varies, a column each.

    Columns with the same number in all rows become a note. A table of quantities of algorithms under several settings
    has a column per algorithm instead. Rows are in the order of the levels.

    Args:
        table: the table; one without cells of groups keeps its names.
        context: the results.
    """
    found = _place(table)
    if found is None:
        return _without_constants(table) if table.lead > 1 else table
    place, groups = found
    names = _Names.of(groups, context)
    many = len(names.heads)
    firsts = [list(dict.fromkeys(row[column].text for row in table.rows)) for column in range(place)]

    def key(row: Sequence[Cell]) -> tuple[int, ...]:
        before = (texts.index(row[column].text) for column, texts in enumerate(firsts))
        return (*before, *names.order(row[place].group))

    rows = [
        [*row[:place], *(Cell(text) for text in names.texts(row[place].group)), *row[place + 1 :]]
        for row in sorted(table.rows, key=key)
    ]

    def moved(column: int) -> int:
        return column if column <= place else column + many - 1

    above = table.groups
    if above:
        (text, span), *rest = above
        above = [(text, span + many - 1), *rest]
    made = replace(
        table,
        head=[*table.head[:place], *names.heads, *table.head[place + 1 :]],
        rows=rows,
        groups=above,
        words=tuple(sorted({*map(moved, table.words), *range(1, place + many)})),
        lead=place + many,
    )
    made = _without_constants(made)
    if table.across and place == 0 and names.algorithm is not None and many > 1 and not made.groups:
        return _across(made, names.algorithm)
    return made


def _place(table: Table) -> tuple[int, list[Group]] | None:
    """Return the column of a table whose cells name groups, and these groups; None without one."""
    columns = range(len(table.head))
    place = next((at for at in columns if any(row[at].group is not None for row in table.rows)), None)
    if place is None:
        return None
    named = [group for row in table.rows if (group := row[place].group) is not None]
    return (place, list({group.number: group for group in named}.values())) if len(named) == len(table.rows) else None


@dataclass(frozen=True)
class _Names:
    """The names of groups as columns.

    Attributes:
        heads: headings of the columns.
        by_number: the texts of each group, by its number.
        levels: the texts of each column in order.
        algorithm: index of the column of algorithms; None: it has none.
    """

    heads: list[str]
    by_number: dict[int, list[str]]
    levels: list[list[str]]
    algorithm: int | None

    @classmethod
    def of(cls, groups: Sequence[Group], context: Context) -> _Names:
        """Return the columns that tell groups apart, those of the algorithm last; else one of their labels."""
        own = {group.number for group in context.groups}
        related = context.pooled(context.groups) if all(group.number in own for group in groups) else groups
        factors = [] if context.results.is_analysis else context.factors(related)
        factors = sorted(factors, key=lambda one: (one.key == ALGORITHM, one.key == FLOW))
        texts = {group.number: [_cell(context, one, group) for one in factors] for group in groups}
        if len({tuple(cells) for cells in texts.values()}) < len(groups) or not factors:
            labels = [group.label for group in groups]
            are_algorithms = all(group.cc and group.label == context.label(group.cc) for group in groups)
            head = "Algorithm" if are_algorithms else "Flow"
            return cls([head], {group.number: [group.label] for group in groups}, [labels], None)
        levels = [[_text(context, one, level.text) for level in one.levels] for one in factors]
        algorithm = len(factors) - 1 if factors[-1].key == ALGORITHM else None
        return cls([_head(context, one) for one in factors], texts, levels, algorithm)

    def texts(self, group: Group | None) -> list[str]:
        """Return the texts of a group."""
        return self.by_number[group.number] if group else [""] * len(self.heads)

    def order(self, group: Group | None) -> tuple[int, ...]:
        """Return the place of a group among the others."""
        pairs = zip(self.texts(group), self.levels, strict=True)
        return tuple(known.index(text) if text in known else -1 for text, known in pairs)


def _head(context: Context, one: Factor) -> str:
    if one.key in (ALGORITHM, FLOW):
        return {ALGORITHM: "Algorithm", FLOW: "Flow"}[one.key]
    parts = one.key.split(".")
    if parts[-1] == "cc" and len(parts) == 3:
        return f"Algorithm of {parts[1]}"
    return capital(context.short(one.key))


def _cell(context: Context, one: Factor, group: Group) -> str:
    return _text(context, one, group.levels[one.key]) if one.key in group.levels else "–"


def _text(context: Context, one: Factor, text: str) -> str:
    """Return a level under the heading of its factor; by its label, else a switch in words."""
    own = context.settings.labels.get(f"{one.key} = {text}")
    if own is None and text in ("true", "false"):
        return phrase(one.key, text) or text
    return own or text


def _without_constants(table: Table) -> Table:
    """Return a table whose columns with the same text in all of several rows are a note."""
    if len(table.rows) < 2 or table.groups:
        return table
    columns = range(table.lead, len(table.head))
    fixed = [at for at in columns if table.rows[0][at].text and len({row[at].text for row in table.rows}) == 1]
    if not fixed or len(fixed) == len(columns):
        return table
    kept = [at for at in range(len(table.head)) if at not in fixed]
    said = "; ".join(f"{table.head[at]}: {table.rows[0][at].text}" for at in fixed)
    return replace(
        table,
        head=[table.head[at] for at in kept],
        rows=[[row[at] for at in kept] for row in table.rows],
        words=tuple(kept.index(at) for at in table.words if at in kept),
        notes=[*table.notes, f"The same in all rows: {said}."],
    )


def _across(table: Table, column: int) -> Table:
    """Return a table with a row per quantity and setting, and a column per algorithm, given the column of these."""
    algorithms = list(dict.fromkeys(row[column].text for row in table.rows))
    settings = [at for at in range(table.lead) if at != column]
    if len(algorithms) not in ACROSS:
        return table
    quantities = range(table.lead, len(table.head))
    keys = list(dict.fromkeys(tuple(row[at].text for at in settings) for row in table.rows))
    cells = {
        (quantity, tuple(row[at].text for at in settings), row[column].text): row[quantity]
        for row in table.rows
        for quantity in quantities
    }
    named = len(quantities) > 1
    rows = [
        [
            *([Cell(table.head[quantity])] if named else []),
            *(Cell(text) for text in key),
            *(cells.get((quantity, key, name), Cell("–")) for name in algorithms),
        ]
        for quantity in quantities
        for key in keys
    ]
    lead = len(settings) + named
    said = "" if named else f"{table.head[table.lead]}: "
    return replace(
        table,
        caption=said + (table.caption[:1].lower() + table.caption[1:] if said else table.caption),
        head=[*(["Quantity"] if named else []), *(table.head[at] for at in settings), *algorithms],
        rows=rows,
        words=tuple(range(1, lead)),
        lead=lead,
    )
