# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page of an attack: what a congestion control does worst, beside the references in the same trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import polars as pl
from matplotlib.figure import Figure

from perigee.attack.bench import Result
from perigee.attack.confirm import Confirmation
from perigee.attack.figures import GOALS, Goal
from perigee.attack.finding import Finding
from perigee.attack.running import Order
from perigee.attack.space import WHERE
from perigee.groups.factors import capital
from perigee.groups.looks import name_of
from perigee.numbers import number
from perigee.report import html
from perigee.report.legends import legend_above
from perigee.report.model import Block, Listing, Plot, Report, Section, Short, Table, Text
from perigee.report.pages.parts import dots, table
from perigee.report.style import figure, styled
from perigee.version import __version__

GOAL_IN, ROW_IN = 0.62, 0.2
ROOM = 1.15
"""Length of an axis beyond its largest mark."""


def page(
    order: Order,
    findings: Sequence[Finding],
    folder: Path,
    replayed: Mapping[str, Confirmation] = MappingProxyType({}),
    not_replayed: str = "",
) -> str:
    """Return the page. The same attack gives the same bytes.

    Args:
        order: what was attacked.
        findings: what was found, by goal.
        folder: where the studies of the findings are.
        replayed: what the emulator did, by the name of the search.
        not_replayed: why it was not asked.
    """
    with styled():
        return html.render(_report(order, findings, folder, replayed, not_replayed))


def _report(
    order: Order, findings: Sequence[Finding], folder: Path, replayed: Mapping[str, Confirmation], not_replayed: str
) -> Report:
    name, (least, most) = name_of(order.candidate.name), WHERE[order.where]
    found = [one for one in findings if one.is_one]
    caveats = ["Simulated: a finding says where to look, and no finding does not prove that there is nothing."]
    caveats += [f"Nothing was replayed on the emulator: {not_replayed}."] if not_replayed else []
    missing = [goal for goal in order.goals if goal not in {one.goal.name for one in findings}]
    if missing or not all(one.is_whole for one in findings):
        caveats.append(f"The search was interrupted{': no ' + ', '.join(missing) if missing else ''}.")
    return Report(
        title=f"Where {name} does worst",
        question=(
            f"On which links, and beside which traffic, does {name} do worse than {_compared(order)}? "
            f"{order.candidate.title}. Round trips of {least:g} to {most:g} ms."
        ),
        facts=[],
        short=Short(
            answer=_answer(order, findings),
            caveats=caveats,
            lines=[f"{one.short(name_of)}." for one in _worst_of_goals(found)],
            blocks=_figure(found),
        ),
        sections=[
            *(
                Section(one.name, _title(one), _section(one, one.result, folder, replayed.get(one.name)))
                for one in found
                if one.result
            ),
            *(
                [Section("shared", "Shared with a standard", _shared(findings))]
                if any(one.shared for one in findings)
                else []
            ),
            *([Section("searches", "All searches", [_searches(findings)])] if findings else []),
        ],
        made=[("Program", f"Perigee {__version__}"), ("Seed of the search", str(order.seed))],
    )


def _answer(order: Order, findings: Sequence[Finding]) -> str:
    """Return a sentence on the worst finding of all, in multiples of what is a finding at the least."""
    found = [one for one in findings if one.is_one]
    if not found:
        count, name = len(findings), name_of(order.candidate.name)
        if count == 1:
            return f"In the only search, {name} is not found to be worse than {_compared(order)}."
        return f"In none of {count} searches is {name} found to be worse than {_compared(order)}."
    worst = max(found, key=_severity)
    if worst.result and worst.result.fault:
        return worst.sentence
    where, name = f"{len(found)} of {len(findings)} searches", name_of(order.candidate.name)
    return f"In {where} {name} is worse than {_compared(order)}; most of all, {worst.short(name_of)}."


def _compared(order: Order) -> str:
    """Return what a finding is worse than: all references."""
    *names, last = map(name_of, order.references)
    if not names:
        return last
    return f"{'each of' if len(names) > 1 else 'both'} {', '.join(names)} and {last}"


def _severity(one: Finding) -> float:
    return one.result.excess(one.goal) / one.goal.least if one.result else 0.0


def _worst_of_goals(found: Sequence[Finding]) -> list[Finding]:
    """Return the worse of the findings of each goal."""
    goals = dict.fromkeys(one.goal.name for one in found)
    return [max((one for one in found if one.goal.name == goal), key=_severity) for goal in goals]


def _title(one: Finding) -> str:
    return f"{capital(one.goal.title)}, {_where(one)}"


def _where(one: Finding) -> str:
    return "plain link" if one.is_plain else "with complications"


def _figure(found: Sequence[Finding]) -> list[Plot]:
    """Return the figure of all findings: the candidate beside the references, in the unit of each goal."""
    drawn = [one for one in found if one.result and not one.result.fault]
    if not drawn:
        return []
    rows = [
        {"search": one.name, "cc": name, "figure": one.goal.label, "value": value}
        for one in drawn
        for name, value in _values(one, one.goal).items()
    ]
    return [
        Plot.of(
            "findings",
            "Means over the rounds, the candidate beside the references in the same trials. Plain link: a drop-tail "
            "queue and nothing else, but for other flows where it is about them.",
            "; ".join(f"{_title(one)}: {one.short(name_of)}" for one in drawn),
            partial(_draw, drawn),
            data=pl.DataFrame(rows),
        )
    ]


def _values(one: Finding, goal: Goal) -> dict[str, float]:
    """Return what is shown of a goal in the trial of a finding: of the candidate, and of the references."""
    if one.result is None:
        return {}
    return {
        name or one.candidate.label: goal.shown(one.result.mean(goal, name)) for name in (None, *one.result.references)
    }


def _draw(drawn: Sequence[Finding], width_in: float) -> Figure:
    goals = list({one.goal.name: one.goal for one in drawn}.values())
    of = {goal.name: [one for one in drawn if one.goal is goal] for goal in goals}
    heights = [GOAL_IN + ROW_IN * len(of[goal.name]) for goal in goals]
    drawing = figure(0.35 + sum(heights), width_in)
    panels = drawing.subplots(len(goals), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, goal in zip(panels, goals, strict=True):
        rows = [_values(one, goal) for one in of[goal.name]]
        dots(axes, [_where(one) for one in of[goal.name]], rows)
        most = 100.0 if goal.is_better_high else ROOM * max(value for row in rows for value in row.values())
        axes.set_xlim(0, most)
        axes.set_xlabel(f"{goal.label}, {'better →' if goal.is_better_high else '← better'}")
    legend_above(drawing, panels[0])
    return drawing


def _section(one: Finding, result: Result, folder: Path, replayed: Confirmation | None) -> list[Block]:
    said = [one.sentence if result.fault else f"{one.short(name_of)}: {result.trial.words}."]
    if one.before and one.before.trial != result.trial:
        said.append(f"Found with: {one.before.trial.words}.")
    said += [each.sentence for each in (one.around, one.edges) if each]
    said += [capital(replayed.sentence(name_of(one.candidate.name), one.goal))] if replayed else []
    figures = [] if result.fault else [_figures(one, result)]
    study = Listing(f"{one.file}, for perigee run", one.study(folder).rstrip())
    return [*(Text(text) for text in said), *figures, study]


def _figures(one: Finding, result: Result) -> Table:
    """Return the figures of a finding: all goals, in the meaning and the unit that stand above them."""
    goals = [goal for goal in GOALS.values() if result.trial.others or not goal.needs_others]
    rows = []
    for name, figures in {one.candidate.label: result.candidate, **result.references}.items():
        goodput_mbps = sum(each.goodput_mbps for each in figures) / len(figures)
        values = [goodput_mbps, *(_values(one, goal)[name] for goal in goals)]
        rows.append([name_of(name), *(number(value, 2) for value in values)])
    head = ["", "Throughput (Mbit/s)", *(goal.label for goal in goals)]
    return table(f"figures-{one.name}", "Means over the rounds", head, rows)


def _searches(findings: Sequence[Finding]) -> Table:
    rows = [
        [_title(one), number(one.trials, 0), one.short(name_of) if one.is_one else _nothing(one)] for one in findings
    ]
    return table("searches", "Searches, and what they found", ["Search", "Trials", "Finding"], rows, words=(2,))


def _shared(findings: Sequence[Finding]) -> list[Block]:
    """Return what the candidate does badly as a standard does, which is no finding."""
    rows = [[_title(one), one.shared_words(name_of), one.shared.trial.words] for one in findings if one.shared]
    said = (
        "Here it is worse than one reference, and as bad as another, so that it does no more harm than that does. "
        "These trials differ most from the better reference; those under “All searches” from the worse one: a search "
        "may have other figures there."
    )
    return [Text(said), table("shared", "No findings", ["Search", "Figures", "Trial"], rows, words=(1, 2))]


def _nothing(one: Finding) -> str:
    if one.result is None or one.result.fault:
        return "nothing found: nothing was tried"
    is_chance = one.is_whole and one.result.excess(one.goal) >= one.goal.least
    nearby = ", which links like it do not repeat" if is_chance else ""
    return f"nothing found: nearest to it, {one.short(name_of)}{nearby}"
