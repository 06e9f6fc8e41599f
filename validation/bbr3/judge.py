# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Judges a log by the checks of a case: which hold, which do not and where, and which the log cannot decide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from case import Case, Cell
from states import CODES, Log
from words import NotInLog, Span, Visit, WordsError, find_visit, instant, visits

_SPAN = re.compile(r"^(each )?([a-z_]+)(?:#(-?[0-9]+))?(?: after (.+))?$")


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check.

    Attributes:
        says: the sentence of the check.
        outcome: `met`, `missed` or `not judged`.
        detail: what it came to, where, or why it was not judged.
    """

    says: str
    outcome: str
    detail: str

    def __str__(self) -> str:
        """A line."""
        return f"{self.outcome}: {self.says}" + (f" ({self.detail})" if self.detail else "")


def judge(case: Case, cell: Cell, log: Log) -> list[Verdict]:
    """Return the verdict of each check."""
    return [judged(check, cell, log) for check in case.checks]


def judged(check: Mapping[str, Any], cell: Cell, log: Log) -> Verdict:
    """Return the verdict of a check.

    Raises:
        WordsError: the check is not understood.
    """
    try:
        return _verdict(check, cell, log)
    except NotInLog as absent:
        if "has no column" in str(absent):
            return Verdict(check["says"], "not judged", str(absent))
        return Verdict(check["says"], "met" if check.get("missing") == "met" else "missed", str(absent))


def _verdict(check: Mapping[str, Any], cell: Cell, log: Log) -> Verdict:
    constants = cell.constants | {name.upper(): float(code) for name, code in CODES.items()}
    constants |= {f"AT_{name.upper().replace('-', '_')}": time for name, time in log.events.items()}
    spans = list(_spans(check, cell, log))
    if not spans:
        raise NotInLog(f"no {check.get('in', 'row')}")
    shown: dict[str, float] = {}
    for first, end in spans:
        span = Span(log, first, end, constants)
        if "where" in check:
            span.rows = np.broadcast_to(span.evaluate(check["where"]), end - first)
            if not span.rows.any():
                raise NotInLog(f"no row where {check['where']}")
        value = span.evaluate(check["holds"])
        if np.ndim(value) != 0:
            raise WordsError(f"`{check['holds']}` has a value per row; write all(...) or any(...)")
        shown = span.shown
        if not value:
            return Verdict(check["says"], "missed", _where(span, check["holds"]))
    return Verdict(check["says"], "met", _numbers(shown))


def by_state(cell: Cell, log: Log, since_s: float) -> Iterator[str]:
    """Yield a line per state from an instant on: time, rate, medians of the model, losses; visits that begin later."""
    times, lost, delivered = log["t"], log["lost"], log["delivered"]
    all_lost = lost[-1] - lost[int(np.searchsorted(times, since_s))]
    for state in CODES:
        spans = [(v.first, min(v.end, len(times) - 1)) for v in visits(log) if v.state == state]
        spans = [(first, end) for first, end in spans if times[first] >= since_s and end > first]
        if not spans:
            continue
        time, gone, come = (sum(float(x[end] - x[first]) for first, end in spans) for x in (times, lost, delivered))
        share, of_all = 100 * gone / max(gone + come, 1), 100 * gone / max(all_lost, 1)
        bw, bound = (
            float(np.median(np.concatenate([log[name][first:end] for first, end in spans])))
            for name in ("max_bw", "inflight_longterm")
        )
        yield (
            f"{state:9} {len(spans):4} visits, {time:7.3f} s: {come / time / cell.payload:.2f} of the rate, "
            f"max_bw {bw / cell.payload:.2f} of it, inflight_longterm {bound / cell.bdp_bytes:.2f} of the BDP; "
            f"{share:.1f} % lost, {of_all:.0f} % of all losses"
        )


def _spans(check: Mapping[str, Any], cell: Cell, log: Log) -> Iterator[tuple[int, int]]:
    """Yield the first row and the row after the last of each span."""
    times = log["t"]
    begin = instant(check["from"], log, cell.units) if "from" in check else 0.0
    end = instant(check["to"], log, cell.units) if "to" in check else float("inf")
    bounds = int(np.searchsorted(times, begin - 1e-9)), int(np.searchsorted(times, end - 1e-9))
    if "in" not in check:
        if bounds[0] < bounds[1]:
            yield bounds
        return
    for visit in _visits(check["in"], cell, log):
        first, last = max(visit.first, bounds[0]), min(visit.end, bounds[1])
        if first < last:
            yield first, last


def _visits(text: str, cell: Cell, log: Log) -> list[Visit]:
    """Return the visits that a text names; of `each STATE` those that end within the log."""
    found = _SPAN.match(text)
    if not found or found[2] not in CODES:
        raise WordsError(f"`{text}` is no visit; write STATE, STATE#2, `STATE after INSTANT`, `each STATE`")
    after = instant(found[4], log, cell.units) if found[4] else None
    if found[1] == "each ":
        of_state = [v for v in visits(log) if v.state == found[2] and v.end < len(log["t"])]
        return [v for v in of_state if after is None or log["t"][v.first] >= after - 1e-9]
    return [find_visit(log, found[2], int(found[3] or 1), after)]


def _where(span: Span, text: str) -> str:
    """Say what an expression came to, and in which row its conditions fail first."""
    parts = [_numbers(span.shown)] if span.shown else []
    for found in re.finditer(r"all\(", text):
        inner = _inside(text, found.end())
        wrong = np.logical_not(np.broadcast_to(span.evaluate(inner), span.end - span.first))
        wrong = np.flatnonzero(wrong if span.rows is None else wrong & span.rows)
        if len(wrong):
            row = span.first + int(wrong[0])
            names = sorted(set(re.findall(r"\b[a-z_][a-z_0-9]*\b(?!\()", inner)) - {"and", "or", "not", "in"})
            values_there = ", ".join(f"{n} = {span.log[n][row]:.6g}" for n in names if n not in span.constants)
            parts.append(
                f"{len(wrong)} rows of {span.end - span.first}, first at {span.log['t'][row]:.6f} s: {values_there}"
            )
    begin, last = span.log["t"][span.first], span.log["t"][span.end - 1]
    return "; ".join([*parts, f"{begin:.3f} to {last:.3f} s"])


def _inside(text: str, begin: int) -> str:
    """Return what is between the bracket that opened before `begin` and the one that closes it."""
    depth = 1
    for place in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin:place]
    return text[begin:]


def _numbers(shown: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in shown.items())
