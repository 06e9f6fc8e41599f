# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An evaluation as one self-contained HTML page, without a script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files

import jinja2
from markupsafe import Markup

from perigee.evaluation import drawing
from perigee.evaluation.confirm import Repeated
from perigee.evaluation.form import answered
from perigee.evaluation.judging import Cell, Figure, Finding, Judged
from perigee.evaluation.rules import Verdict
from perigee.evaluation.running import Candidate
from perigee.evaluation.summary import summarize
from perigee.numbers import with_spread
from perigee.version import __version__

CLASSES = {Verdict.PASS: "pass", Verdict.FAIL: "fail", Verdict.DOCUMENT: "document", Verdict.UNKNOWN: "unknown"}


def page(
    candidate: Candidate,
    findings: Sequence[Finding],
    answers: Mapping[str, str],
    *,
    quick: bool,
    repeated: Sequence[Repeated] = (),
) -> str:
    """Return the page. The same evaluation gives the same bytes."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("perigee.evaluation", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["figure"] = figure
    environment.filters["times"] = times
    environment.filters["look"] = lambda verdict: CLASSES[verdict]
    style = files("perigee.evaluation").joinpath("page.css").read_text("utf-8")
    return environment.get_template("page.html").render(
        candidate=candidate,
        findings=findings,
        verdicts=[(verdict, sum(one.verdict is verdict for one in findings)) for verdict in Verdict],
        summary=summarize(candidate, findings),
        answers=answered(answers),
        quick=quick,
        repeated=repeated,
        names=names,
        drawn=lambda judged: Markup(drawing.strip(judged, names(judged, judged.cells))),  # noqa: S704 - drawn here
        key_figure=key_figure,
        pairs=pairs,
        behind=any(one.behind for one in findings),
        version=__version__,
        style=Markup(style),  # noqa: S704 - ours
    )


def names(judged: Judged, cells: Sequence[Cell]) -> list[str]:
    """Return the congestion controls of some cells: the candidate, then the references in the order of the study."""
    found = dict.fromkeys(name for cell in cells for name in cell.figures)
    return [judged.subject, *(name for name in found if name != judged.subject)]


def pairs(found: Finding) -> list[tuple[Judged, Judged]]:
    """Return each measure that has a threshold, direct and behind a proxy."""
    behind = found.behind.measures if found.behind else ()
    return [(one, other) for one, other in zip(found.measures, behind, strict=True) if one.worst and other.worst]


def key_figure(found: Finding) -> str:
    """Return the figure that the verdict rests on, with its threshold: of the measure furthest beyond it."""
    judged = [one for one in found.measures if one.worst is not None]
    if not judged:
        return found.reason
    worst = max(judged, key=lambda one: (one.verdict is found.verdict, one.worst.times_beyond[one.subject]))  # type: ignore[union-attr]
    if worst.worst is None or worst.measure.rule is None:
        return ""
    unit = f" {worst.measure.unit}" if worst.measure.unit else ""
    return f"{worst.measure.title}: {figure(worst.worst.figures[worst.subject])}{unit} ({worst.measure.rule.words})"


def figure(value: Figure) -> str:
    """Return a mean with its interval.

    Examples:
        >>> figure(Figure(12.345, 0.1, 3)), figure(Figure(0.0, None, 1))
        ('12.3 ± 0.1', '0.0')
    """
    return with_spread(value.mean, value.half_width) if math.isfinite(value.mean) else "-"


def times(value: float) -> str:
    """Return a multiple of the threshold.

    Examples:
        >>> times(0.5), times(math.inf)
        ('0.5', 'over any')
    """
    return f"{value:.2g}" if math.isfinite(value) else "over any"
