# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page of an evaluation by RFC 9743: fails first, and how far each criterion is from its threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import polars as pl
from matplotlib.figure import Figure

from perigee.evaluation.confirm import Repeated
from perigee.evaluation.form import answered
from perigee.evaluation.judging import Cell as Case
from perigee.evaluation.judging import Finding, Judged
from perigee.evaluation.rules import Verdict
from perigee.evaluation.running import ALONE
from perigee.evaluation.studies import Candidate
from perigee.evaluation.summary import (
    THRESHOLDS,
    alike,
    allowed,
    beyond_of,
    by_construction,
    decided_by,
    figure_of,
    foremost,
    key_figure,
    not_shown,
    scope,
    summarize,
    times,
)
from perigee.groups.looks import name_of
from perigee.numbers import counted
from perigee.report import html
from perigee.report.legends import legend_above
from perigee.report.model import Block, Cell, Link, Plot, Report, Section, Short, Table, Text
from perigee.report.pages.parts import Row, dots, table
from perigee.report.style import FAINT, INK, figure, styled
from perigee.version import __version__

LEAST, MOST = 0.1, 10.0
"""Ends of the figure's axis, as multiples of the threshold; marks beyond them stand at the ends."""
ROW_IN = 0.21
HOW = (
    f"{THRESHOLDS} Its MUST and SHOULD ask for evaluations and name no figure: “fails” is this tool's word. A "
    "criterion fails if the figure of any case lies surely beyond a threshold of safety; “not met, document it” is "
    "beyond another one. Near a threshold rounds are added, up to 24; what is open then is undecided. Reno, CUBIC and "
    "BBR run in the same cases with the same seeds."
)
DECIDED = (
    "A verdict rests on the distance of the figure from its threshold, paired by round since seeds are shared, and on "
    "one-sided tests of it (Student's t), not on the interval that is printed: ± is the 95 % confidence interval of "
    "each mean by itself; in its place stands the range of the rounds where it would reach below 0. P is the "
    "probability of a distance as large by chance, corrected for all cases of the criterion (Holm), and 1 at the most. "
    "A fail has P below 0.01 and six rounds at least, or rounds that are all alike, as where nothing is random. It is "
    "tested after 6, 12 and 24 rounds: a criterion whose figures all lie at their thresholds fails by chance in 3 % of "
    "evaluations at most, which is not corrected for the number of criteria. The worst case has the largest mean as a "
    "multiple of its threshold; the deciding one is the surest."
)
OPEN = (
    "“By mean only”: the mean is beyond, and that is not decided. Rounds are added only where they could change the "
    "verdict on the criterion, and only up to a number of runs: once one case decides it, others stay open. A quick "
    "evaluation has all cases of most criteria; of the others it may find a fail, and leaves a pass open."
)
BEHIND = (
    "A splitting proxy stands in front of the bottleneck and sends with the candidate, as do its references with "
    "themselves; figures are those of its leg. This verdict is printed beside the direct one, and is no part of it."
)
REPEATED = (
    "The worst cases that the emulator can carry, one round each, on the kernel's own TCP in real time. They agree if "
    "both figures are as far from their thresholds, within a tenth. The verdicts are those of the simulation."
)


def page(
    candidate: Candidate,
    findings: Sequence[Finding],
    answers: Mapping[str, str],
    *,
    quick: bool,
    repeated: Sequence[Repeated] = (),
) -> str:
    """Return the page. The same evaluation gives the same bytes."""
    with styled():
        return html.render(report(candidate, findings, answers, quick=quick, repeated=repeated))


def report(
    candidate: Candidate,
    findings: Sequence[Finding],
    answers: Mapping[str, str],
    *,
    quick: bool,
    repeated: Sequence[Repeated] = (),
) -> Report:
    """Return the content of the page, see `page`."""
    candidate = replace(candidate, name=name_of(candidate.name))
    of = {verdict: [one for one in findings if one.verdict is verdict] for verdict in Verdict}
    fails, documented = of[Verdict.FAIL], of[Verdict.DOCUMENT]
    said = summarize(candidate, findings)
    sections = [_failed(one) for one in fails]
    if documented:
        blocks = [_worst("documented", documented), *(block for one in documented for block in _details(one))]
        sections.append(Section("documented", f"Not met, to be documented: {len(documented)}", blocks))
    if repeated:
        sections.append(Section("emulated", f"Repeated on Linux {repeated[0].kernel}", _repeated(repeated)))
    if of[Verdict.UNDECIDED]:
        undecided = of[Verdict.UNDECIDED]
        rows = [[_name(one), f"{key_figure(one)}. {_again(one)}".rstrip()] for one in undecided]
        head = ["Criterion", "Deciding figure"]
        near = table("near", "Criteria without a decision", head, rows, words=(1,))
        blocks = [near, *(block for one in undecided for block in _details(one))]
        sections.append(Section("undecided", f"Undecided: {len(undecided)}", blocks))
    if of[Verdict.PASS]:
        sections.append(Section("passed", f"Passed: {len(of[Verdict.PASS])}", _passed(of[Verdict.PASS])))
    if without := [*of[Verdict.NOT_JUDGED], *of[Verdict.UNKNOWN]]:
        rows = [[_name(one), str(one.verdict), one.reason] for one in without]
        head = ["Criterion", "", "Reason"]
        reasons = table("not-measured", "Without a verdict, and why", head, rows, words=(1, 2))
        printed = [block for one in without for block in _details(one)]
        sections.append(Section("not-measured", f"Without a verdict: {len(rows)}", [reasons, *printed]))
    rows = [[f"{one.section} {one.text}", text or "Not answered."] for one, text in answered(answers)]
    form = table("form", "Questions to the author", ["RFC 9743 asks", "Answer"], rows, words=(1,))
    sections += [
        Section("form", "What a reader judges", [form]),
        Section("reading", "How to read this", [Text(HOW), Text(DECIDED), Text(OPEN)]),
    ]
    size = "Quick evaluation: some criteria have a part of their cells." if quick else "Whole studies."
    if any(ALONE in one.reason for one in findings):
        size = "One cell."
    made = [
        ("Program", f"Perigee {__version__}"),
        ("Runs", f"Simulated. {size}"),
        ("Transport", f"{candidate.transport.upper()}{'; flows beside it use TCP' if candidate.over_quic else ''}"),
    ]
    made.append(("ECN", "Needed, and negotiated" if candidate.scalable else "Negotiated in 6.2, 7.1 and 7.6 alone"))
    return Report(
        title=f"{candidate.called} by RFC 9743",
        question=f"What of RFC 9743 does it miss, by how much, and how sure is that? {candidate.title}. {size}",
        facts=[],
        sections=sections,
        short=Short(
            answer=said.answer,
            caveats=[scope(findings), THRESHOLDS],
            lines=[
                *(
                    f"{_name(one)}, {one.verdict}: {key_figure(one, is_brief=True)}. {_again(one)}".rstrip()
                    for one in foremost(findings)
                ),
                *filter(
                    None,
                    (
                        not_shown(findings),
                        said.where,
                        said.missing,
                        alike(candidate, findings),
                        by_construction(candidate, findings),
                    ),
                ),
            ],
            misses=[
                Link(_name(one), one.criterion.id if one in fails else "documented") for one in (*fails, *documented)
            ],
            blocks=_distances(findings, candidate),
        ),
        made=[*made, ("SHA-256 of the C file", candidate.sha256)] if candidate.sha256 else made,
    )


def _again(found: Finding) -> str:
    """Return how to measure the cell that decides again; empty where nothing is to be looked at."""
    return f"That cell again: `{found.again}`" if found.again else ""


def _name(found: Finding) -> str:
    return f"{found.criterion.id} {found.criterion.title}"


def _distances(findings: Sequence[Finding], candidate: Candidate) -> list[Plot]:
    """Return the figure of all criteria: how far their worst cases are from the threshold."""
    worst = [(_name(one), judged) for one in findings if (judged := one.nearest) is not None]
    if not worst:
        return []
    worst.sort(key=lambda pair: -pair[1].times)
    rows = [{"criterion": name, **_times(judged)} for name, judged in worst]
    beyond = sum(judged.times > 1 for _, judged in worst)
    return [
        Plot.of(
            "distances",
            "Worst case of each criterion as a multiple of its threshold; right of the line is beyond it. Other "
            "congestion controls: in the same case. Marks at the ends of the axis are as far or farther.",
            f"{candidate.name} is beyond the threshold of {beyond} of {len(worst)} criteria: "
            + "; ".join(f"{name} {times(judged.times)} times" for name, judged in worst),
            partial(_draw, worst),
            data=pl.DataFrame(rows, infer_schema_length=None),
        )
    ]


def _times(judged: Judged) -> Mapping[str, float]:
    return judged.worst.times_beyond if judged.worst else {}


def _draw(worst: Sequence[tuple[str, Judged]], width_in: float) -> Figure:
    drawing = figure(0.9 + ROW_IN * len(worst), width_in)
    axes = drawing.subplots()
    shown = [
        {
            name: min(max(_times(judged)[name], LEAST), MOST)
            for name in _names(judged, [judged.worst])
            if name in _times(judged)
        }
        for _, judged in worst
    ]
    dots(axes, [name for name, _ in worst], shown)
    axes.axvspan(1, MOST, color=FAINT, alpha=0.5, lw=0, zorder=0)
    axes.axvline(1, color=INK, lw=1)
    axes.set_xscale("log")
    axes.set_xlim(LEAST, MOST)
    axes.set_xticks([LEAST, 1, MOST], ["a tenth", "threshold", "ten times"])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("Worst case, of its threshold (← better)")
    legend_above(drawing, axes)
    return drawing


def _failed(found: Finding) -> Section:
    """Return the section of a criterion that fails: its worst cases, and all cases."""
    worst = [_worst(f"worst-{found.criterion.id}", [found])] if found.measures else [Text(found.reason)]
    said = filter(None, (_asks(found), found.reason if found.measures else "", _again(found)))
    blocks: list[Block] = [*map(Text, said), *worst, *_details(found)]
    return Section(found.criterion.id, f"{_name(found)}: fails", blocks)


def _asks(found: Finding) -> str:
    one = found.criterion
    return f"{one.asks} {f'It is {one.level}' if one.is_further else f'RFC 9743, {one.id}: “{one.level}”'}."


def _worst(name: str, findings: Sequence[Finding]) -> Table:
    """Return a table of the worst case of each figure; with several criteria, of the figures that are beyond only."""
    is_one = len(findings) == 1
    shown = [
        (found, one, case, rule)
        for found in findings
        for one in found.measures
        if (case := one.worst) and (rule := one.measure.rule) and (is_one or one.beyond or one.beyond_by_mean)
    ]
    subject = shown[0][1].subject if shown else ""
    names = list(dict.fromkeys(name for _, one, case, _ in shown for name in _names(one, [case])))
    rows: list[Row] = [
        [
            *([] if is_one else [_name(found)]),
            _titled(one),
            _figure(case, subject),
            allowed(one, case),
            *(_figure(case, each) for each in names[1:]),
            case.words,
            decided_by(one),
            beyond_of(one),
            f"{rule.words} ({rule.owner})",
        ]
        for found, one, case, rule in shown
    ]
    called = list(map(name_of, names[1:]))
    head = ["Figure", name_of(subject), "Allowed", *called, "Worst case", "Decided by", "Beyond", "Threshold (of whom)"]
    head = head if is_one else ["Criterion", *head]
    lead, last = (1 if is_one else 2), len(head) - 1
    notes = [OPEN] if any(one.beyond_by_mean for _, one, _, _ in shown) else []
    return table(name, "Worst cases", head, rows, words=(lead + 1, *range(last - 3, last + 1)), lead=lead, notes=notes)


def _passed(passed: Sequence[Finding]) -> list[Block]:
    has_proxy = any(one.behind for one in passed)
    rows = [[_name(one), key_figure(one), str(one.behind.verdict) if one.behind else ""] for one in passed]
    head = ["Criterion", "Deciding figure, or reason", "Behind a proxy"]
    used = len(head) if has_proxy else len(head) - 1
    met = table("passed", "Criteria that are met", head[:used], [row[:used] for row in rows], words=range(1, used))
    return [met, *(block for one in passed for block in _details(one))]


def _details(found: Finding) -> list[Block]:
    """Return a folded table of all cases of a criterion, and what a proxy changes."""
    names = list(dict.fromkeys(name for one in found.measures for name in _names(one, one.cells)))
    rows: list[Row] = []
    data = []
    differ = len({one.rounds for each in found.measures for case in each.cells for one in case.figures.values()}) > 1
    for one in found.measures:
        for case in one.cells:
            cells = [_figure(case, name) for name in names]
            rounds = [_rounds(case, names)] if differ else []
            rows.append([_titled(one), case.words, *cells, allowed(one, case), *rounds])
            for name in (name for name in names if name in case.figures):
                mean, multiple = case.figures[name].mean, case.times_beyond.get(name)
                data.append(
                    {"figure": one.measure.title, "unit": one.measure.unit, "case": case.words, "cc": name,
                     "mean": mean if math.isfinite(mean) else None, "times_threshold": multiple,
                     "rounds": case.figures[name].rounds}
                )  # fmt: skip
    if not rows:
        return _behind(found)
    head = ["Figure", "Case", *map(name_of, names), "Allowed", *(["Rounds"] if differ else [])]
    rules = [(one.measure.title, one.measure.rule) for one in found.measures if one.measure.rule]
    left = (f"{one.measure.title}: {one.reason}" for one in found.measures if one.reason)
    notes = [
        _asks(found),
        found.reason,
        _again(found),
        *left,
        *(f"{title}: {rule.words} ({rule.owner})." for title, rule in rules),
    ]
    cases = table(
        f"cases-{found.criterion.id}", f"{_name(found)}: all cases", head, rows,
        words=(1, *range(len(names) + 2, len(head))), lead=2,
        folded=True, data=pl.DataFrame(data, infer_schema_length=None), notes=[note for note in notes if note],
    )  # fmt: skip
    return [cases, *_behind(found)]


def _rounds(case: Case, names: Sequence[str]) -> str:
    """Return the rounds of a case: one number, or the candidate's and that of each reference where they differ."""
    of = {name: case.figures[name].rounds for name in names if name in case.figures}
    if len(set(of.values())) <= 1:
        return str(next(iter(of.values()), ""))
    return ", ".join(f"{name_of(name)} {rounds}" for name, rounds in of.items())


def _behind(found: Finding) -> list[Block]:
    if found.behind is None:
        return []
    said = f"{_name(found)} behind a proxy: {found.behind.verdict}. {found.behind.reason or BEHIND}"
    pairs = zip(found.measures, found.behind.measures, strict=False)
    rows: list[Row] = [
        [_titled(one), _figure(first, one.subject), allowed(one, first), _figure(second, other.subject),
         allowed(other, second)]
        for one, other in pairs
        if (first := one.worst) and (second := other.worst)
    ]  # fmt: skip
    if not rows:
        return [Text(said)]
    head = ["Figure in its worst case", "Direct", "Allowed", "Behind a proxy", "Allowed there"]
    caption = f"{_name(found)}, direct and behind a proxy"
    return [Text(said), table(f"behind-{found.criterion.id}", caption, head, rows, words=(2, 4))]


def _repeated(repeated: Sequence[Repeated]) -> list[Block]:
    rows: list[Row] = []
    for one in repeated:
        emulated = _figure(one.emulated, one.judged.subject) if one.emulated else Cell("–")
        rows.append(
            [f"{one.criterion.id} {one.simulated.words}", _titled(one.judged),
             _figure(one.simulated, one.judged.subject), emulated, one.sentence]
        )  # fmt: skip
    head = ["Case", "Figure", "Simulated", "Emulated", "Result"]
    return [Text(REPEATED), table("emulated", counted(len(rows), "case"), head, rows, words=(1, 4))]


def _names(judged: Judged, cases: Sequence[Case | None]) -> list[str]:
    """Return the congestion controls of some cases: the candidate, then the references in the order of the study."""
    found = dict.fromkeys(name for case in cases if case for name in case.figures)
    return [judged.subject, *(name for name in found if name != judged.subject)]


def _titled(judged: Judged) -> str:
    unit = judged.measure.unit
    return f"{judged.measure.title} ({unit})" if unit else judged.measure.title


def _figure(case: Case, name: str) -> Cell:
    if name not in case.figures:
        return Cell("–")
    # Also where it is not decided: the table counts those apart.
    is_beyond = case.times_beyond.get(name, 0) > 1
    return Cell(
        figure_of(case.figures[name]),
        "bad" if is_beyond else "",
        "its mean is beyond the threshold" if is_beyond else "",
    )
