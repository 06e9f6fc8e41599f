# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A criterion of RFC 9743 (BCP 133, March 2025): its question, its measures, and their thresholds.

RFC 9743 sets no numbers. A threshold names its owner: a document, or `ours`, a choice of this project
(`docs/decisions/064-verdicts-by-rfc-9743.md` has the reasons).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from perigee.evaluation.rules import Rule, Verdict
from perigee.evaluation.tables import Tables

OTHER = "other"
ECN_OF_TCP = "Its study is about ECN as TCP negotiates it."
OWN_CONNECTIONS = "Its study has short connections, which flows over QUIC here do not open one by one."
TCP_ALONE = "Its study is about parts of TCP."
HUMAN = "A reader judges this by the author's answers: “What a reader judges” on the page, filled in by --answers FILE."

WAIT = Rule("at most 1.25 times CUBIC's, or 5 ms", limit=5, of_cubic=1.25, missed=Verdict.DOCUMENT)


@dataclass(frozen=True)
class Measure:
    """One figure of a criterion.

    Attributes:
        title: what is measured, for readers.
        unit: its unit; empty of ratios.
        figure: the function that takes it from a study's tables: a row per cell, congestion control and round.
        rule: the threshold; none: the figure is printed and not judged.
        compares: the key whose values one figure compares, so that runs over all of them belong to one cell; `OTHER`:
            it compares with the run in which both flows are of the other's kind.
        experiment: the experiment of the study that it is about, without which there is no figure; empty: all.
        own: whether it is about what the candidate itself gets, which a scavenger gives up on purpose.
        scavenger: whether it is judged of scavengers only.
        without_ecn: whether it compares with runs without ECN, which a congestion control that needs it does not have.
    """

    title: str
    unit: str
    figure: Callable[[Tables], pl.DataFrame]
    rule: Rule | None = None
    compares: str = ""
    experiment: str = ""
    own: bool = False
    scavenger: bool = False
    without_ecn: bool = False


@dataclass(frozen=True)
class Criterion:
    """One criterion.

    Attributes:
        id: section of RFC 9743, or a word for what it has no section for.
        title: its subject.
        level: how strongly the RFC asks for it, in its words; capitals are those of BCP 14.
        asks: what it asks.
        study: file in `studies/rfc9743` without its ending; empty: there is none.
        measures: the figures, from the tables of the study.
        reason: why it is not measured, or what is not; empty: nothing is left out.
        follows: criteria whose worst verdict is the one on this; none: it has its own.
        scalable: the experiment of the study that only scalable congestion controls are run in; empty: there is none.
        only_tcp: why it is not measured over QUIC; empty: it is.
    """

    id: str
    title: str
    level: str
    asks: str
    study: str = ""
    measures: tuple[Measure, ...] = ()
    reason: str = ""
    follows: tuple[str, ...] = ()
    scalable: str = ""
    only_tcp: str = ""

    @property
    def is_further(self) -> bool:
        """Whether RFC 9743 has no section for it."""
        return not self.id[0].isdigit()
