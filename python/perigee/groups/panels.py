# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Which factor goes where in a figure: on the x axis, in colours, in panels; and which panels of many are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perigee.groups.factors import Factor

if TYPE_CHECKING:
    from perigee.groups.group import Group

FEW_HUES = 7
"""Factors other than algorithms have colours where they have no more values than this."""


@dataclass(frozen=True)
class Roles:
    """The role of each factor in a figure.

    Attributes:
        x: along the x axis; none: nothing that varies is.
        hue: colour, dash and marker.
        facets: panels: the first the columns, the second the rows, others figures of their own.
    """

    x: Factor | None
    hue: Factor | None
    facets: tuple[Factor, ...]


@dataclass(frozen=True)
class Panel:
    """Groups that are drawn in one panel: they differ in the hue only.

    Attributes:
        title: what they have in common and others have not; empty where there is one panel.
        groups: the groups, in the order of the hue.
        labels: what each is called in the panel: its hue; empty where no hue tells them apart.
        levels: the level of each factor but the hue, by the factors' keys.
    """

    title: str
    groups: Sequence[Group]
    labels: Sequence[str]
    levels: Mapping[str, str]

    def labelled(self) -> Iterator[tuple[Group, str]]:
        """Return the groups with their labels for a legend; matplotlib leaves out what begins with an underscore."""
        for group, label in zip(self.groups, self.labels, strict=True):
            yield group, f" {label}" if label.startswith("_") else label


def roles(factors: Sequence[Factor]) -> Roles:
    """Return the place of each factor: x is the number with the most values, colour the algorithm, the rest panels.

    Where no algorithm varies, colour goes to the first of the others with few values.
    """
    hue = next((one for one in factors if one.is_algorithm), None)
    numbers = [one for one in factors if one.is_number]
    x = max(numbers, key=lambda one: len(one.levels), default=None)
    rest = [one for one in factors if one not in (hue, x)]
    if hue is None:
        few = [one for one in rest if len(one.levels) <= FEW_HUES]
        hue = next((one for one in few if not one.is_number), None) or next(iter(few), None)
        rest = [one for one in rest if one is not hue]
    # Words first: they make the columns.
    return Roles(x, hue, tuple(sorted(rest, key=lambda one: one.is_number)))


def hue_of(factors: Sequence[Factor]) -> Factor | None:
    """Return the factor that colours distinguish without an x axis: as in `roles`, else the number varied."""
    found = roles(factors)
    if found.hue is None and found.x is not None and len(found.x.levels) <= FEW_HUES:
        return found.x
    return found.hue


def panels(groups: Sequence[Group], factors: Sequence[Factor], hue: Factor | None) -> list[Panel]:
    """Return the groups in their panels, in the order of the factors' levels."""
    others = [one for one in factors if one is not hue]
    order = {one.key: {level.text: place for place, level in enumerate(one.levels)} for one in factors}
    found: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        found.setdefault(tuple(group.levels.get(one.key, "") for one in others), []).append(group)
    keys = sorted(found, key=lambda key: [order[one.key].get(text, -1) for one, text in zip(others, key, strict=True)])
    made = []
    for key in keys:
        titles = [one.said(text) for one, text in zip(others, key, strict=True) if text]
        levels = {one.key: text for one, text in zip(others, key, strict=True)}
        own = found[key]
        if hue is not None:
            place = order[hue.key]
            own = sorted(own, key=lambda group: place.get(group.levels.get(hue.key, ""), -1))
        texts = [group.levels.get(hue.key, group.label) if hue else "" for group in own]
        if hue is not None:
            texts = [hue.in_legend(text) for text in texts]
        made.append(Panel(", ".join(titles), own, texts, levels))
    return made


def few(found: Sequence[Panel], factors: Sequence[Factor], most: int) -> tuple[list[Panel], str]:
    """Choose panels that stand for all: of the factor with the most values, some are left out until `most` are left.

    Returns:
        The panels, and in words what was left out; empty where nothing was.
    """
    kept = {one.key: [level.text for level in one.levels] for one in factors if found and one.key in found[0].levels}

    def chosen() -> list[Panel]:
        return [one for one in found if all(not text or text in kept[key] for key, text in one.levels.items())]

    while len(shown := chosen()) > most and any(len(texts) > 1 for texts in kept.values()):
        key = max(kept, key=lambda key: len(kept[key]))
        kept[key] = _thinned(kept[key])
    shown = shown[:most]
    if len(shown) == len(found):
        return list(found), ""
    words = {one.key: one for one in factors}
    out = [
        words[key].said(level.text)
        for key, texts in kept.items()
        for level in words[key].levels
        if level.text not in texts
    ]
    without = f" (not {', '.join(out)})" if out else ""
    return shown, f"Shown are {len(shown)} of {len(found)} combinations of what varies{without}; the tables have all."


def _thinned(texts: list[str]) -> list[str]:
    """Return texts without one: the ends stay, and the others evenly between; of two the first.

    Examples:
        >>> _thinned(list("abcde")), _thinned(["a", "b", "c"]), _thinned(["a", "b"])
        (['a', 'b', 'd', 'e'], ['a', 'c'], ['a'])
    """
    if len(texts) <= 3:
        return texts[:: 2 if len(texts) == 3 else 3]
    middle = len(texts) // 2
    return texts[:middle] + texts[middle + 1 :]
