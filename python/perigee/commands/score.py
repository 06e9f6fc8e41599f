# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee score`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perigee.commands import options
from perigee.console import out_console, say
from perigee.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from perigee.scoring.study import ScoredStudy

FORMATS = ("text", "csv", "json")
MET = ("within", "hit")
ROUNDS = 20
"""Rounds of a prediction where none are asked for."""
_OF_STUDIES, _OF_MODELS = ("results", "misses"), ("rounds", "settings", "simulated", "prediction", "fresh")


@dataclass(frozen=True)
class ScoreOptions:
    """Options and arguments of `perigee score`."""

    subject: Annotated[
        str,
        typer.Argument(metavar="STUDY|PROFILE", help="A study; or, before a campaign, a link profile."),
    ]
    campaign: Annotated[
        Path | None, typer.Argument(metavar="CAMPAIGN", help="Results of `perigee campaign`, to score a link model on.")
    ] = None
    results: Annotated[
        Path | None,
        typer.Option(help="Results folder to score. \\[default: results/STUDY, if it is there]", metavar="DIR"),
    ] = None
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            "-f",
            metavar="text|csv|json",
            help="Output formats, separated by commas; repeatable. \\[default: text]",
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Folder for the files of csv and json. \\[default: working directory]"
        ),
    ] = None
    misses: Annotated[bool, typer.Option("--misses", help="Leave out numbers and claims that are met.")] = False
    rounds: Annotated[
        str | None,
        typer.Option(metavar="ROUNDS", help="Rounds of the campaign to score on, such as 41..80. \\[default: all]"),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change the simulated study, as hosts.like=linux-4.15; repeatable."
        ),
    ] = None
    simulated: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            help=f"Rounds that are simulated over the model. \\[default: {ROUNDS}]",
            show_default=False,
        ),
    ] = None
    prediction: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Results folder of the prediction. \\[default: results/CAMPAIGN-by-MODEL]"),
    ] = None
    fresh: options.Fresh = False


def command(given: ScoreOptions) -> None:
    """Hold a study against what was published, or a link model against a campaign.

    What was published stands in published.toml beside the study. Two sides are held against it: registered is what was
    predicted before that was compared (registered.toml beside the study, which never changes), and today is a results
    folder. A number is met within the bound that the file gives, 15 % where it gives none, from the nearest number that
    the printed one may stand for. A claim is a hit if all checks of its tests hold fully, a miss if none holds at all,
    and a part otherwise. What a side does not have is not predicted, and neither. Numbers that a link was fitted to
    count apart.

    A model, which is a link profile, predicts the transfers of a campaign: they are simulated over it, with the
    campaign's congestion controls. Shown are errors by algorithm and quantity, the orderings that the campaign has with
    significance, and whether the model's intervals hold as often as they say. Score it on rounds that it was not fitted
    to.

    The format csv writes STUDY-numbers.csv and STUDY-claims.csv, json writes STUDY-score.json, all with the versions
    that made each side; of a model they write CAMPAIGN-by-MODEL.csv and .json.

    [bold]Examples[/bold]

      perigee score claypool-2021                              registered, and results/claypool-2021
      perigee score claypool-2021 --misses                     without what is met
      perigee score claypool-2021 --results results/variant    another results folder
      perigee score claypool-2021 --format csv,json --out scores
      perigee score ./rooftop.toml results/rooftop-may --rounds 41..80
    """
    wanted = [name.strip() for text in given.formats or ["text"] for name in text.split(",") if name.strip()]
    for name in wanted:
        if name not in FORMATS:
            raise InputError(f"--format {name}: there is no such format; the formats are: {', '.join(FORMATS)}")
    if not wanted:
        raise InputError(f"--format: names no format; the formats are: {', '.join(FORMATS)}")
    if given.campaign is None:
        _refuse(given, _OF_MODELS, "a model's, before a campaign; leave it out, or give the campaign's results")
        _score_study(given, wanted)
        return
    from perigee.commands.score_model import ModelOptions, score_model

    _refuse(given, _OF_STUDIES, "a study's, and a model is scored on a campaign; leave it out")
    of_model = ModelOptions(
        rounds=given.rounds,
        settings=tuple(given.settings or ()),
        simulated=ROUNDS if given.simulated is None else given.simulated,
        prediction=given.prediction,
        formats=tuple(wanted),
        out=given.out or Path(),
        fresh=given.fresh,
    )
    score_model(given.subject, given.campaign, of_model)


def _refuse(given: ScoreOptions, others: Sequence[str], why: str) -> None:
    """Refuse options of the other subject."""
    for name in others:
        if getattr(given, name) not in (None, False, []):
            option = {"settings": "set"}.get(name, name)
            raise InputError(f"--{option}: is {why}")


def _score_study(given: ScoreOptions, wanted: list[str]) -> None:
    from perigee.report.scored_study import scored_study
    from perigee.scoring.study import counted

    scored = scored_study(given.subject, given.results)
    for warning in scored.warnings:
        say(f"warning: {warning}")
    if "text" in wanted:
        for side, counts in scored.counts().items():
            made = scored.about[side]
            of = ", with ".join([str(made["version"]), *made.get("settings", ())])
            out_console.print(f"{side} ({of}):", highlight=False, soft_wrap=True, markup=False)
            for line in counted(counts):
                out_console.print(f"  {line}", highlight=False, soft_wrap=True, markup=False)
        for shown in _tables(scored, only_misses=given.misses):
            out_console.print(shown)
        for table in scored.published.tables:
            if not table.values:
                line = f"{table.place}, {table.caption}: not measured. {table.not_measured}"
                out_console.print(line, highlight=False, soft_wrap=True, markup=False)
    for path in _written(scored, wanted, given.out or Path()):
        say(str(path))


def _tables(scored: ScoredStudy, *, only_misses: bool) -> Iterator[Table]:
    """Yield the numbers and the claims for people."""
    sides = list(scored.scores)
    numbers = [row for row in scored.numbers() if not only_misses or _is_missed(row, sides)]
    if numbers:
        heads = [head for side in sides for head in (side, "error", "")]
        yield _table(
            scored.study, ["Place", "Number", "Cell", "Published", *heads], [_number(row, sides) for row in numbers]
        )
    claims = [row for row in scored.claims() if not only_misses or _is_missed(row, sides)]
    if claims:
        heads = [head for side in sides for head in (side, "")]
        yield _table("", ["Place", "Claim", "Test", *heads], [_claim(row, sides) for row in claims])


def _is_missed(row: Mapping[str, Any], sides: list[str]) -> bool:
    return row["role"] != "input" and any(row[f"{side}_result"] not in MET for side in sides)


def _number(row: Mapping[str, Any], sides: list[str]) -> list[str]:
    from perigee.numbers import signed
    from perigee.scoring.study import shown

    spread = f" ± {shown(row['sd'], 1)}" if row["sd"] is not None else ""
    cells = [row["place"], row["what"], row["cell"], f"{shown(row['published'], 1)}{spread}"]
    for side in sides:
        error = row[f"{side}_error_percent"]
        cells += [shown(row[side], 1), "" if error is None else f"{signed(error)} %", _marked(row, side)]
    return cells


def _claim(row: Mapping[str, Any], sides: list[str]) -> list[str]:
    cells = [row["place"], row["claim"], f"{row['quantity']}: {row['stated']}".strip(": ")]
    for side in sides:
        cells += [row[f"{side}_seen"] or "", _marked(row, side)]
    return cells


def _marked(row: Mapping[str, Any], side: str) -> str:
    if row["role"] == "input":
        return "input"
    state = row[f"{side}_result"]
    mark = {"within": "✓ ", "hit": "✓ ", "outside": "✗ ", "miss": "✗ "}.get(state, "")
    of = f" {row[f'{side}_holding']} of {row[f'{side}_checks']}" if state == "part" else ""
    return f"{mark}{state}{of}"


def _table(title: str, heads: list[str], rows: list[list[str]]) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for head in heads:
        made.add_column(head, justify="right" if head in ("Published", "registered", "today", "error") else "left")
    if "Claim" in heads:
        for column in made.columns:
            column.justify = "left"
    for row in rows:
        made.add_row(*map(escape, row))
    return made


def _written(scored: ScoredStudy, formats: list[str], folder: Path) -> Iterator[Path]:
    """Write the files, and yield their names."""
    from perigee.files import write_atomically
    from perigee.report.csv_text import csv_text
    from perigee.scoring.study import as_frame, json_text
    from perigee.version import __version__

    contents = {}
    if "csv" in formats:
        for kind, frame in zip(("numbers", "claims"), as_frame([scored], __version__), strict=True):
            contents[f"{scored.study}-{kind}.csv"] = csv_text(frame)
    if "json" in formats:
        contents[f"{scored.study}-score.json"] = json_text(scored.as_json(__version__))
    if contents:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InputError(f"{folder}: is a file, or in one; choose a folder with --out") from error
    for name, text in contents.items():
        write_atomically(folder / name, text.encode())
        yield folder / name
