# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The standing as a Markdown annex for a draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perigee.evaluation.rules import Verdict
from perigee.numbers import with_spread

LETTERS = {
    Verdict.PASS: "+",
    Verdict.FAIL: "**F**",
    Verdict.DOCUMENT: "d",
    Verdict.UNDECIDED: "?",
    Verdict.UNKNOWN: "",
}
UNITS = {"goodput_mbps": "Mbit/s", "rtt_ms": "ms", "retransmitted_percent": "% sent again"}


def annex(standing: Mapping[str, Any]) -> str:
    """Return the tables of a standing: verdicts, the kernel, satellite links, and how each was made."""
    rows: Sequence[Mapping[str, Any]] = standing["algorithms"]
    names = [str(one["name"]) for one in rows]
    lines = [
        "# Standing of congestion controls by RFC 9743",
        "",
        f"Perigee {standing['version']}, criteria and thresholds version {standing['criteria_version']}, "
        f"{standing['size']} size. Again: `{standing['command']}`. Simulated; the RFC sets no thresholds.",
        "",
        "## Verdicts",
        "",
        "`+` pass, **F** fail, `d` not met and to be documented, `?` undecided, empty: not measured.",
        "",
        *_table(
            ["Criterion", *names],
            [
                [f"{one['id']} {one['title']}", *(_letter(row, one["id"]) for row in rows)]
                for one in standing["criteria"]
            ],
        ),
        "",
        "## What fails, and by how much",
        "",
    ]
    failing = [
        f"- {row['name']}, {one['id']}: {one['figure']}"
        for row in rows
        for one in row["verdicts"]
        if one["verdict"] == Verdict.FAIL
    ]
    lines += [*(failing or ["Nothing."]), "", "## Kernel and date", ""]
    lines += _table(
        ["Algorithm", "Title", "Loads into the kernel", "Measured"],
        [[row["name"], row["title"], _kernel(row["kernel"]), row["date"]] for row in rows],
    )
    lines += [
        "",
        "## Satellite links",
        "",
        "A download of 60 s, mean of the rounds with the 95 % interval of the mean.",
        "",
    ]
    lines += _table(
        ["Link", "Algorithm", *UNITS.values()],
        [
            [each["profile"], row["name"], *(_with_interval(each[key]) for key in UNITS)]
            for place in range(len(standing["satellites"]))
            for row in rows
            for each in row["satellites"][place : place + 1]
        ],
    )
    return "\n".join(lines) + "\n"


def _letter(row: Mapping[str, Any], criterion: str) -> str:
    found = next((one["verdict"] for one in row["verdicts"] if one["id"] == criterion), Verdict.UNKNOWN)
    return LETTERS[Verdict(found)]


def _kernel(said: Mapping[str, Any] | None) -> str:
    if said is None:
        return ""
    return f"yes, {said['release']}" if said["loads"] else f"no, {said['release']}: {said['said']}"


def _with_interval(figure: Mapping[str, float | None]) -> str:
    if figure["mean"] is None:
        return ""
    return with_spread(figure["mean"], figure["half_width"], 2)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    r"""Return a Markdown table.

    Examples:
        >>> _table(["a"], [["x|y"]])
        ['| a |', '|---|', '| x\\|y |']
    """

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    return [line(heads), f"|{'---|' * len(heads)}", *map(line, rows)]
