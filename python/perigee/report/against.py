# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The sentence on one algorithm beside its reference: all headline quantities in each place."""

from __future__ import annotations

from perigee.numbers import number, signed
from perigee.report.context import Context
from perigee.report.family import family
from perigee.report.ranking import ALGORITHM, FLOW, Ranking

MOST_PLACES = 4
"""Settings with a clause each; of more there is no sentence."""
NOUNS = {"goodput_mbps": "throughput", "rtt_mean_ms": "delay", "retransmitted_percent": "retransmissions"}
"""Quantities in as few words as a sentence of several has room for."""


def sentence(context: Context) -> str:
    """Return how the one algorithm beside the reference differs from it; empty of studies that have no such one."""
    rankings = [(asked.noun, one) for asked, found in family(context).found for one in found]
    if not rankings or any(one.against != "reference" or len(one.rivals) != 1 for _, one in rankings):
        return ""
    names = {(one.first.cc, one.rivals[0].group.cc) for _, one in rankings}
    places: dict[str, list[str]] = {}
    for noun, one in rankings:
        places.setdefault(_place(context, one), []).append(_change(NOUNS.get(one.metric.name, noun), one))
    if len(names) != 1 or len(places) > MOST_PLACES:
        return ""
    ((reference, own),) = names
    clauses = (f"{', '.join(said)}{f' over {place}' if place else ''}" for place, said in places.items())
    return f"{context.label(own)} against {context.label(reference)}: {'; '.join(clauses)}."


def _place(context: Context, one: Ranking) -> str:
    factors = one.first.factors
    words = [context.label(factors[FLOW])] if len({group.factors[FLOW] for group in context.groups}) > 1 else []
    words += [context.said(key, value) for key, value in factors.items()
              if key not in (ALGORITHM, FLOW) and len(context.varied.get(key, ())) > 1]  # fmt: skip
    return ", ".join(words)


def _change(noun: str, one: Ranking) -> str:
    """Return the difference from the reference in a few words."""
    rival, digits = one.rivals[0], one.metric.digits
    if not float(f"{rival.mean:.{digits}f}"):
        return f"no {noun}"
    if rival.verdict == "equal" or number(rival.mean, digits) == number(one.mean, digits):
        return f"the same {noun}"
    open_ = " (not significant)" if rival.verdict == "open" else ""
    if one.metric.unit == "%" or not one.mean:
        unit = "pp" if one.metric.unit == "%" else one.metric.unit
        return f"{signed(rival.mean - one.mean, digits)} {unit} {noun}{open_}"
    share = signed(100 * (rival.mean / one.mean - 1), 0)
    return f"the same {noun}" if share == "0" else f"{share} % {noun}{open_}"
