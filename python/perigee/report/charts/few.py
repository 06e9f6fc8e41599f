# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The few of many groups that a figure tells apart: those at both ends; the others are grey."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from perigee.groups.looks import Look
from perigee.groups.panels import Panel

MOST_MARKED = 8
"""Most colours, marks and names that a reader tells apart in a figure."""

UNMARKED = Look(color="#aab2bb", dash="-", marker=".", hatch="")
"""How the other groups of a figure are drawn."""


def unmarked(typical: Mapping[str, float], kept: Collection[str] = ()) -> list[str]:
    """Return the groups that are grey, in their order: all but the highest and the lowest, `MOST_MARKED` together.

    Args:
        typical: a value of each group, by its name; NaN: none.
        kept: names that are never grey, such as that of the reference.

    Examples:
        >>> unmarked({name: float(place) for place, name in enumerate("abcdefghij")}, kept="f")
        ['d', 'e']
        >>> unmarked({"a": 1.0, "b": 2.0})
        []
    """
    ordered = sorted((name for name in typical if name not in kept), key=lambda name: _last_if_none(typical[name]))
    free = MOST_MARKED - (len(typical) - len(ordered))
    if len(ordered) <= free:
        return []
    known = [name for name in ordered if typical[name] == typical[name]]
    lowest = free // 2
    marked = {*known[:lowest], *known[len(known) - (free - lowest) :]}
    return [name for name in typical if name in ordered and name not in marked]


def said(grey: Sequence[str]) -> str:
    """Return which groups are grey, for the caption; empty: none.

    Examples:
        >>> said(["Reno", "BIC", "Vegas"]), said([])
        ('Grey: Reno, BIC and Vegas.', '')
        >>> said(["Cubic", "Cubic, HyStart off"])
        'Grey: Cubic; Cubic, HyStart off.'
    """
    if not grey:
        return ""
    if any("," in name for name in grey):
        return f"Grey: {'; '.join(grey)}."
    return f"Grey: {', '.join(grey[:-1])}{' and ' if len(grey) > 1 else ''}{grey[-1]}."


class Named(Protocol):
    """A group in a panel: a dataclass with a name and a look."""

    @property
    def label(self) -> str:
        """Its name in the legend; empty: none."""

    @property
    def look(self) -> Look:
        """How it is drawn."""


Entry = TypeVar("Entry", bound=Named)


def greyed(
    panels: Sequence[Sequence[Entry]], typical: Callable[[Entry], float], kept: Collection[str] = ()
) -> tuple[list[list[Entry]], str]:
    """Return the entries of panels, grey and without a name those that a reader cannot tell apart, and which they are.

    Args:
        panels: the entries of each panel.
        typical: gives the value by which the ends are found.
        kept: names that are never grey.
    """
    grey = unmarked(typical_of((one.label, typical(one)) for panel in panels for one in panel if one.label), kept)
    made: list[list[Entry]] = []
    for panel in panels:
        changed: list[Any] = [replace(one, label="", look=UNMARKED) if one.label in grey else one for one in panel]  # type: ignore[type-var]
        made.append(changed)
    return made, said(grey)


def typical_of(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean of the known values of each name, in the order in which the names come."""
    found: dict[str, list[float]] = {}
    for name, value in values:
        found.setdefault(name, []).extend([value] if value == value else [])
    return {name: sum(several) / len(several) if several else float("nan") for name, several in found.items()}


def with_few(
    panels: Sequence[Panel], typical: Mapping[int, float], kept: Collection[str] = ()
) -> tuple[list[Panel], str]:
    """Return panels in which the groups that a reader cannot tell apart are grey, and which they are, for the caption.

    Args:
        panels: the panels.
        typical: a value of each group, by its number.
        kept: labels that are never grey.
    """
    named = [(text, group) for panel in panels for group, text in zip(panel.groups, panel.labels, strict=True) if text]
    grey = unmarked(typical_of((text, typical.get(group.number, float("nan"))) for text, group in named), kept)
    made = []
    for panel in panels:
        pairs = list(zip(panel.groups, panel.labels, strict=True))
        faint = [(replace(group, look=UNMARKED), "") for group, text in pairs if text in grey]
        pairs = faint + [pair for pair in pairs if pair[1] not in grey]
        made.append(replace(panel, groups=[group for group, _ in pairs], labels=[text for _, text in pairs]))
    return made, said(grey)


def _last_if_none(value: float) -> float:
    return value if value == value else float("inf")
