# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The standing as a Markdown annex for a draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perigee.evaluation.rules import Verdict
from perigee.evaluation.summary import P_IS, THRESHOLDS
from perigee.numbers import with_spread

LETTERS: Mapping[str, str] = {
    Verdict.PASS: "+",
    Verdict.FAIL: "**F**",
    Verdict.DOCUMENT: "d",
    Verdict.UNDECIDED: "?",
    Verdict.NOT_JUDGED: "n",
    Verdict.UNKNOWN: "",
}
"""The mark of each verdict in a table."""
LEGEND = (
    "`+` pass, **F** fail, `d` not met and to be documented, `?` undecided, `n` measured and not judged (a scavenger "
    "is meant to yield what is asked for there), empty: not measured."
)
HEADS = {
    "goodput_mbps": "Goodput, Mbit/s",
    "rtt_ms": "Mean round trip, ms",
    "retransmitted_percent": "Packets sent again, %",
}


def annex(standing: Mapping[str, Any]) -> str:
    """Return the tables of a standing: verdicts, the kernel, satellite links, and how each was made."""
    rows: Sequence[Mapping[str, Any]] = standing["algorithms"]
    names = [str(one["name"]) for one in rows]
    lines = [
        "# Standing of congestion controls by RFC 9743",
        "",
        f"Perigee {standing['version']}, criteria and thresholds version {standing['criteria_version']}, "
        f"{standing['size']} size. Again: `{standing['command']}`. Simulated: no evidence from the Internet.",
        "",
        f"{THRESHOLDS} The second column has its words, which ask for an evaluation and name no figure.",
        "",
        "## Verdicts",
        "",
        LEGEND,
        "",
        *table(
            ["Criterion", "RFC 9743", *names],
            [
                [f"{one['id']} {one['title']}", one["level"], *(_letter(row, one["id"]) for row in rows)]
                for one in standing["criteria"]
            ],
        ),
        *_left_open(rows),
        "",
        "## What fails, and by how much",
        "",
        f"± is the 95 % interval of a mean. {P_IS} The command measures that cell again.",
        "",
        *_figures(rows, Verdict.FAIL),
        "",
        "## What is not met and to be documented, and by how much",
        "",
        *_figures(rows, Verdict.DOCUMENT),
        "",
        "## Kernel and date",
        "",
    ]
    lines += table(
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
    lines += table(
        ["Link", "Algorithm", *HEADS.values()],
        [
            [each["profile"], row["name"], *(_with_interval(each[key]) for key in HEADS)]
            for place in range(len(standing["satellites"]))
            for row in rows
            for each in row["satellites"][place : place + 1]
        ],
    )
    return "\n".join(lines) + "\n"


def _letter(row: Mapping[str, Any], criterion: str) -> str:
    """Return the mark of a verdict.

    Examples:
        >>> _letter({"verdicts": [{"id": "6.4", "verdict": "not judged"}]}, "6.4"), _letter({"verdicts": []}, "6.4")
        ('n', '')
    """
    found = next((one["verdict"] for one in row["verdicts"] if one["id"] == criterion), Verdict.UNKNOWN)
    return LETTERS[found]


def _left_open(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what closes the verdicts that the quick size leaves open; nothing where it leaves none."""
    left = dict.fromkeys(one["id"] for row in rows for one in row["verdicts"] if one["left_open"])
    if not left:
        return []
    size = "the quick size has a part of the cells, and leaves a pass on those open; `--whole` has all."
    return ["", f"`?` of {', '.join(left)}: {size}"]


def _figures(rows: Sequence[Mapping[str, Any]], verdict: Verdict) -> list[str]:
    """Return a line for each criterion with a verdict: the figure that it rests on, and how to measure it again."""
    found = [
        f"- {row['name']}, {one['id']}: {one['figure']}{f'. `{again}`' if (again := one.get('again')) else ''}"
        for row in rows
        for one in row["verdicts"]
        if one["verdict"] == verdict
    ]
    return found or ["Nothing."]


def _kernel(said: Mapping[str, Any] | None) -> str:
    if said is None:
        return ""
    return f"yes, {said['release']}" if said["loads"] else f"no, {said['release']}: {said['said']}"


def _with_interval(figure: Mapping[str, float | None]) -> str:
    if figure["mean"] is None:
        return ""
    return with_spread(figure["mean"], figure["half_width"], 2)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    r"""Return a Markdown table.

    Examples:
        >>> table(["a"], [["x|y"]])
        ['| a |', '|---|', '| x\\|y |']
    """

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    return [line(heads), f"|{'---|' * len(heads)}", *map(line, rows)]
