# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee studies`: lists and shows the studies that can be run by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from perigee.commands.application import Application
from perigee.commands.name_list import show_names
from perigee.commands.setup_table import show_setup
from perigee.console import out_console, result, say
from perigee.errors import InputError
from perigee.numbers import counted
from perigee.places import StudyFile, collections, find_study, studies

if TYPE_CHECKING:
    from perigee.engines.plan.contract import Plan

app = Application("List studies, and show what each asks.", lists=True, implied="show")


@app.command("list")
def list_all() -> None:
    """List the studies that can be run by name: those in studies/ of this folder, and those shipped with perigee.

    [bold]Examples[/bold]

      perigee studies list
      perigee studies             the same
    """
    found = studies()
    show_names(found, lambda name: find_study(str(found[name])).head("title"))
    for folder in collections():
        result(f"smaller studies, by their path: {folder}/NAME.toml")


@app.command()
def show(study: Annotated[str, typer.Argument(metavar="STUDY", help="Name, folder or file of a study.")]) -> None:
    """Show the question of a study, what it varies, its number of runs, and its links and flows.

    [bold]Examples[/bold]

      perigee studies show claypool-2021
      perigee studies claypool-2021           the same
      perigee studies show ./my-study.toml
    """
    found = find_study(study)
    out_console.print(f"[bold]{escape(found.head('name') or study)}[/bold]: {escape(found.head('title'))}")
    if about := " ".join(found.head("about").split()):
        result(about)
    result(f"\nfile: {found.path}")
    inputs = declared if isinstance(declared := found.content.get("inputs"), dict) else {}
    for name, what in inputs.items():
        result(f"needs: --set inputs.{name}=PATH ({what})")
    try:
        plan = _plan(found, reduced=False)
    except InputError as error:
        if not inputs:
            raise
        say(f"the runs are not shown: {error}")
        return
    _show_plan(plan)
    if "reduced" in found.content:
        result(f"reduced: {_counted(_plan(found, reduced=True))} (--reduced)")
    show_setup(plan.setup, ("links", "flows"))
    for remark in plan.remarks:
        say(remark)


def _show_plan(plan: Plan) -> None:
    from perigee.engines.plan.runs import in_words

    result(f"runs: {_counted(plan)}")
    varied = {key for point in plan.runs.points for key in point["point"]}
    for key in sorted(varied):
        values = list(dict.fromkeys(in_words(point["point"].get(key)) for point in plan.runs.points))
        result(f"varies: {key} = {', '.join(values)}")


def _counted(plan: Plan) -> str:
    points, rounds = len(plan.runs.points), plan.runs.rounds
    return f"{len(plan.runs)}: {counted(points, 'point')} in {counted(rounds, 'round')}"


def _plan(study: StudyFile, *, reduced: bool) -> Plan:
    from perigee.engines import choice

    return choice.engine("sim")(study, (), reduced)
