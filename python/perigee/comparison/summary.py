# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A comparison in one sentence, and as data for programs and pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from perigee.comparison.cells import Difference, remarks
from perigee.comparison.changes import changes, in_words, letters
from perigee.groups.names import without_number
from perigee.numbers import between, counted, number, probability, signed
from perigee.statistics.estimates import percent
from perigee.store.results import Results

FEW = 4
"""How many things that differ are named."""
MAIN = "goodput_mbps"
"""The quantity whose differences are named before those of others."""
OF_VERSIONS = ("perigee", "build of the program")


def as_json(results: Sequence[Results], cells: Sequence[Difference]) -> dict[str, Any]:
    """Return a comparison as data.

    Returns:
        `said`, sentences; `results`, each with `letter, name, study, made`; `changes`, each with `what` and `values` in
        the order of the results; `cells`, each with the columns of `as_frame` that are numbers, and `words`, the same
        for people; `remarks`, sentences; `confidence`, of the intervals, in words.
    """
    names = letters(len(results))
    return {
        "said": said(results, cells),
        "results": [
            {"letter": letter, "name": one.path.name, "study": one.study, "made": in_words(one)}
            for letter, one in zip(names, results, strict=True)
        ],
        "changes": [{"what": one.what, "values": list(one.values)} for one in changes(results)],
        "cells": [_cell(one) for one in cells],
        "remarks": remarks(results, cells),
        "confidence": percent(cells[0].confidence) if cells else "",
    }


def said(results: Sequence[Results], cells: Sequence[Difference]) -> list[str]:
    """Return what a comparison comes to: what differs in how results were made, and in what came out, for each other.

    Of sizes that differ nothing that came out is said: runs of a reduced study are no estimate of the whole.
    """
    found = []
    for place, letter in enumerate(letters(len(results))[1:], 1):
        pair = [results[0], results[place]]
        own = [cell for cell in cells if cell.other == place]
        sizes = [bool(one.manifest["reduced"]) for one in pair]
        if sizes[0] == sizes[1]:
            found.append(f"A and {letter} {_made(pair)}; {_came_out(own, letter)}.")
            continue
        whole, reduced = ("A", letter) if sizes[1] else (letter, "A")
        found += [
            f"A and {letter} {_made(pair)}.",
            f"{whole} is the whole study and {reduced} its reduced size, which is for trying the set-up: "
            "a difference between the two is no finding.",
        ]
    return found


def is_clear(cell: Difference) -> bool:
    """Whether a difference is more than chance would make, among all that are tested."""
    return cell.p is not None and cell.p < 1 - cell.confidence


def _made(pair: Sequence[Results]) -> str:
    what = [one.what for one in changes(pair)]
    named = list(dict.fromkeys("version" if one in OF_VERSIONS else one for one in what))
    if not named:
        return "were made alike"
    shown = named[:FEW] + ([f"{len(named) - FEW} more"] if len(named) > FEW else [])
    return f"differ in {', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else f"differ in {shown[0]}"


def _came_out(cells: Sequence[Difference], letter: str) -> str:
    """Return the largest difference of a comparison in words, and how many there are."""
    differ = [cell for cell in cells if not cell.is_same and not math.isnan(cell.percent)]
    if not differ:
        return f"all {len(cells)} means are the same"
    is_tested = any(cell.comparison.contrast for cell in differ)
    clear = [cell for cell in differ if is_clear(cell)] if is_tested else differ
    if not clear:
        return f"none of {counted(len(cells), 'difference')} is more than chance would make"
    main = [cell for cell in clear if cell.metric.name == MAIN] or clear
    largest = max(main, key=lambda cell: abs(cell.percent))
    words = f"{largest.metric.title[0].lower()}{largest.metric.title[1:]} of {_named(largest)}"
    how = "higher" if largest.percent > 0 else "lower"
    change = (
        f"{number(abs(largest.percent), 0)} % {how} in {letter} ({' to '.join(largest.means)} {largest.metric.unit}"
    )
    others = (
        "" if len(cells) == 1 else f"; {len(clear)} of {len(cells)} means {'differ' if is_tested else 'are others'}"
    )
    return f"{words} is {change.rstrip()}){others}{'' if is_tested else ', which one sample each cannot test'}"


def _named(cell: Difference) -> str:
    """Return the label of a cell; one of several flows of a name is said with its number, not as results write it."""
    flow = cell.groups[0].factors.get("flow", "")
    name = without_number(flow)
    return cell.label.replace(flow, f"{name} no. {flow[len(name) + 1 :]}", 1) if name != flow else cell.label


def _cell(one: Difference) -> dict[str, Any]:
    return {
        "group": one.groups[0].name,
        "quantity": one.metric.name,
        "unit": one.metric.unit,
        "other": one.letter,
        "a": one.a,
        "b": one.b,
        "difference": one.difference,
        "difference_percent": None if math.isnan(one.percent) else one.percent,
        "half_width": None if math.isnan(one.half_width) else one.half_width,
        "p_holm": one.p,
        "is_same": one.is_same,
        "is_clear": is_clear(one),
        "words": {
            "group": one.label,
            "quantity": one.metric.heading,
            "a": one.means[0],
            "b": one.means[1],
            "difference": one.difference_in_words,
            "interval": between(one.comparison.interval, one.digits) if one.comparison.interval else "",
            "percent": signed(one.percent),
            "p": one.comparison.reason or probability(one.p),
            "size": one.size,
        },
    }
