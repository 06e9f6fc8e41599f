# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""In what groups of flows differ: algorithm, flow, and the keys that a study varies, numbers with their units."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

ALGORITHM = "cc"
"""The factor of a flow's own congestion control."""

FLOW = "flow"
"""The factor of a flow's name."""

FEWEST_POINTS = 8
"""Points of a design, at the least."""

_UNITS = {
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")),
    "ms": ((1e4, "s"),),
    "Mbit/s": ((1e4, "Gbit/s"),),
}
"""For each unit: the largest value from which another is used, and that."""

_TABLES = ("flow", "flows", "link", "links", "hosts")
"""How key paths begin whose beginning says nothing to a reader."""

_PREPOSITIONS = {"cc": "by", "to": "to", "from": "from"}
"""Keys whose values are said with another word."""

_TELLING = ("profile", "algorithm")
"""Keys whose values are names that need no further word."""

_SWITCH = re.compile(r"(?:with )?([\w.-]+) = (true|false)\b")
_FACTORS = {"GB": 1e9, "MB": 1e6, "kB": 1e3, "s": 1e3, "Gbit/s": 1e3}


@dataclass(frozen=True)
class Level:
    """One value of a factor.

    Attributes:
        text: as the study writes it.
        number: in the unit of the factor; none where the factor's values are no numbers.
    """

    text: str
    number: float | None = None


@dataclass(frozen=True)
class Factor:
    """Something in which groups differ.

    Attributes:
        name: `cc`, `flow`, or a column of what varies, as `point.loss`.
        key: key of it in `Group.factors`: `cc`, `flow`, or the study's key path.
        title: what it is, for people, with a capital.
        word: what stands before a value in a title; empty where the value says it.
        unit: of the numbers of the levels; empty for words and plain numbers.
        levels: its values, numbers in rising order, words in the order of the study.
        sets_cc: whether they are variants that set congestion controls.
        phrases: of levels that are not said by `word` and text, the words, by text.
    """

    name: str
    key: str
    title: str
    word: str
    unit: str
    levels: tuple[Level, ...]
    sets_cc: bool = False
    phrases: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)

    @property
    def is_number(self) -> bool:
        """Whether its levels are numbers."""
        return all(level.number is not None for level in self.levels)

    @property
    def is_algorithm(self) -> bool:
        """Whether its levels are congestion controls: of the flow itself, or of another, or variants of them."""
        return self.key == ALGORITHM or self.key.endswith(".cc") or self.sets_cc

    @property
    def numbers(self) -> list[float]:
        """The numbers of the levels."""
        return [level.number for level in self.levels if level.number is not None]

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def said(self, text: str) -> str:
        """Return a level in words.

        Examples:
            >>> Factor("point.loss", "links.sat.loss", "Loss of sat", "sat loss", "%", ()).said("0.1 %")
            'sat loss 0.1 %'
        """
        return self.phrases.get(text) or (f"{self.word} {text}" if self.word else text)

    def in_legend(self, text: str) -> str:
        """Return a level as a legend has it: with what varies, which the name of an algorithm does not need.

        Examples:
            >>> Factor("cc", "flows.a.cc", "Congestion control of a", "a by", "", ()).in_legend("bbr")
            'bbr'
            >>> Factor("point.loss", "links.sat.loss", "Loss of sat", "sat loss", "%", ()).in_legend("0 %")
            'sat loss 0 %'
        """
        return text if self.is_algorithm else self.said(text)


def factor(name: str, key: str, levels: Sequence[Level], unit: str = "") -> Factor:
    """Return a factor with its words; numbers are sorted, and given in a unit that suits their size.

    Examples:
        >>> found = factor("point.queue", "links.sat.queue", [Level("3 MB", 3e6), Level("0.3 MB", 3e5)], "B")
        >>> found.heading, [level.number for level in found.levels]
        ('Queue of sat (MB)', [0.3, 3.0])
        >>> factor("point.size", "flow.size", [Level("a"), Level("b")]).title
        'Size'
        >>> factor("point.bdp", "links.sat.down.queue.bdp", [Level("0.2", 0.2), Level("1", 1.0)]).heading
        'Queue of sat, downlink (BDP)'
    """
    ordered = tuple(levels)
    numbers = [level.number for level in ordered]
    if all(number is not None and math.isfinite(number) for number in numbers):
        ordered = tuple(sorted(ordered, key=lambda level: level.number or 0.0))
        largest = max(abs(level.number or 0.0) for level in ordered)
        unit, per = next(
            ((other, _FACTORS[other]) for bound, other in _UNITS.get(unit, ()) if largest >= bound), (unit, 1)
        )
        ordered = tuple(replace(level, number=(level.number or 0.0) / per) for level in ordered)
    else:
        ordered, unit = tuple(Level(level.text) for level in ordered), ""
    is_share_of_bdp = key.endswith(".bdp") and all(level.number is not None for level in ordered)
    title, word = _words(key.removesuffix(".bdp") if is_share_of_bdp else key)
    return Factor(name, key, title, word, "BDP" if is_share_of_bdp else unit, ordered)


def of_group(key: str, text: str) -> str:
    """Return the value of a factor as a level: of an author's file only its name.

    Examples:
        >>> of_group("flows.web.cc", "./mine/astra.c"), of_group("links.sat.loss", "0 %")
        ('astra', '0 %')
    """
    return PurePosixPath(text).stem if key.endswith(".cc") and text.endswith(".c") else text


def independent(factors: Sequence[Factor], cells: Sequence[Mapping[str, str]]) -> list[Factor]:
    """Return the factors without those that say the same as another: keys that a study varies together.

    Args:
        factors: the factors.
        cells: of each group, the text of its level by the factors' keys.

    Examples:
        >>> two = [factor(f"point.{k}", f"links.l.{k}", [Level("1"), Level("2")]) for k in ("rate", "queue")]
        >>> [one.key for one in independent(two, [{"links.l.rate": t, "links.l.queue": t} for t in "12"])]
        ['links.l.rate']
    """
    kept: list[Factor] = []
    for one in sorted(factors, key=lambda one: (not one.is_algorithm, not one.is_number)):
        pairs = ({(cell.get(one.key), cell.get(other.key)) for cell in cells} for other in kept)
        if not any(len({a for a, _ in both}) == len(both) == len({b for _, b in both}) for both in pairs):
            kept.append(one)
    return [one for one in factors if one in kept]


def of_design(factors: Sequence[Factor], cells: Sequence[Mapping[str, str]]) -> list[Factor]:
    """Return the numbers whose combinations fill ranges without being a grid, as those of a Latin hypercube do.

    None where fewer than two do: numbers that rise together are not of a design, nor are a few combinations of many.

    Args:
        factors: the factors.
        cells: of each group, the text of its level by the factors' keys.

    Examples:
        >>> two = [factor(f"point.{k}", f"links.l.{k}", [Level(str(n), n) for n in range(8)]) for k in ("rate", "loss")]
        >>> drawn = [{"links.l.rate": str(n), "links.l.loss": str(3 * n % 8)} for n in range(8)]
        >>> [one.key for one in of_design(two, drawn)]
        ['links.l.rate', 'links.l.loss']
        >>> of_design(two, [{"links.l.rate": str(n), "links.l.loss": str(n)} for n in range(8)])
        []
    """
    kept: list[Factor] = []
    for one in (one for one in factors if one.is_number):
        if not any(_rise_together(one, other, cells) for other in kept):
            kept.append(one)
    points = {tuple(cell.get(one.key) for one in kept) for cell in cells}
    is_grid = 2 * len(points) > math.prod(len(one.levels) for one in kept)
    return [] if len(kept) < 2 or is_grid or len(points) < FEWEST_POINTS else kept


def _rise_together(one: Factor, other: Factor, cells: Sequence[Mapping[str, str]]) -> bool:
    first, second = ({level.text: number for number, level in enumerate(each.levels)} for each in (one, other))
    pairs = sorted(
        {(first[cell[one.key]], second[cell[other.key]]) for cell in cells if {one.key, other.key} <= set(cell)}
    )
    along = [b for _, b in pairs]
    return along in (sorted(along), sorted(along, reverse=True))


def phrase(key: str, text: str) -> str:
    """Return a value of a key path in words, where there are better ones than the key's and the value's; else nothing.

    Examples:
        >>> phrase("proxy.enabled", "false"), phrase("proxies.gateway.enabled", "true"), phrase("hosts.sack", "false")
        ('without proxy', 'with proxy gateway', 'sack off')
        >>> phrase("flows.download.cc", "cubic"), phrase("flow.to", "home"), phrase("links.sat.loss", "1 %")
        ('download by cubic', 'to home', '')
        >>> phrase("flows.download.count", "4"), phrase("flows.download.count", "0"), phrase("links.sat.profile", "geo")
        ('4 downloads', 'no download', 'geo')
    """
    parts = key.replace("_", " ").split(".")
    parts = parts[1:] if parts[0] in _TABLES and len(parts) > 1 else parts
    if text in ("true", "false") and parts[-1] == "enabled" and len(parts) > 1:
        what = f"proxy {parts[-2]}" if key.startswith("proxies.") else " ".join(parts[:-1])
        return f"{'with' if text == 'true' else 'without'} {what}"
    if text in ("true", "false"):
        return f"{' '.join(parts)} {'on' if text == 'true' else 'off'}"
    if parts[-1] in _PREPOSITIONS:
        return " ".join([*parts[:-1], _PREPOSITIONS[parts[-1]], text])
    if parts[-1] == "count" and text.isdecimal():
        what = parts[-2] if len(parts) > 1 else "flow"
        return f"{text if text != '0' else 'no'} {what if text in ('0', '1') else f'{what}s'}"
    return text if parts[-1] in _TELLING else ""


def switches_in_words(text: str) -> str:
    """Return a text in which switches that are on or off have words.

    Examples:
        >>> switches_in_words("Throughput, more than with proxy.enabled = false"), switches_in_words("cc = bbr")
        ('Throughput, more than without proxy', 'cc = bbr')
    """
    return _SWITCH.sub(lambda found: phrase(found[1], found[2]), text)


def in_short(key: str, keys: Iterable[str]) -> str:
    """Return a key path as few words: without its link where no other of `keys` ends alike.

    Examples:
        >>> in_short("links.sat.down.queue", ["flow.cc"]), in_short("links.sat.down.queue.bdp", [])
        ('queue', 'queue')
        >>> in_short("links.sat.loss", ["links.wire.loss"]), in_short("flows.video.algorithm", [])
        ('sat loss', 'video algorithm')
    """
    found = _own_words(key)
    is_clear = key.startswith("links.") and all(_own_words(other) != found for other in keys if other != key)
    return found if is_clear else in_words(key.removesuffix(".bdp"))


def _own_words(key: str) -> str:
    """Return the end of a key path in words, without the name and the direction of its link."""
    parts = key.removesuffix(".bdp").replace("_", " ").split(".")
    own = parts[2:] if parts[0] == "links" and len(parts) > 2 else parts[-1:]
    return " ".join(own[1:] if own[0] in ("down", "up") and len(own) > 1 else own)


def in_words(key: str) -> str:
    """Return a key path of a study as words.

    Examples:
        >>> in_words("links.satellite.queue"), in_words("flow.size"), in_words("flows.web.start_jitter")
        ('satellite queue', 'size', 'web start jitter')
    """
    parts = key.replace("_", " ").split(".")
    return " ".join(parts[1:] if parts[0] in _TABLES and len(parts) > 1 else parts)


def capital(text: str) -> str:
    """Return a text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def lowered(text: str) -> str:
    """Return a text with a small letter at its beginning, unless more of its first word is capital."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _words(key: str) -> tuple[str, str]:
    """Return what a key path is called on an axis, and before a value."""
    if key in (ALGORITHM, FLOW):
        return {"cc": "Congestion control", "flow": "Flow"}[key], ""
    parts = key.replace("_", " ").split(".")
    last = parts[-1]
    if last == "cc" and len(parts) == 3:
        return f"Congestion control of {parts[1]}", f"{parts[1]} by"
    if last == "profile" and len(parts) == 3:
        return f"Profile of {parts[1]}", ""
    if parts[0] == "links" and len(parts) > 3 and parts[2] in ("down", "up"):
        process = " ".join(parts[3:])
        return f"{capital(process)} of {parts[1]}, {parts[2]}link", f"{parts[1]} {parts[2]}link {process}"
    if parts[0] in ("links", "flows") and len(parts) == 3:
        return f"{capital(last)} of {parts[1]}", f"{parts[1]} {last}"
    return capital(in_words(key)), in_words(key)
