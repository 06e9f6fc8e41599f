# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The part of `perigee score` that holds a link model against a campaign."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perigee.console import error_console, out_console, say
from perigee.errors import InputError
from perigee.numbers import number, signed, with_interval

if TYPE_CHECKING:
    from rich.table import Table

    from perigee.campaigns.model_score import Cell, Score
    from perigee.places import ProfileFile
    from perigee.store.results import Results


@dataclass(frozen=True)
class ModelOptions:
    """The options of a model's score.

    Attributes:
        rounds: rounds of the campaign; none: all.
        settings: `key=value` of the simulated study.
        simulated: rounds that are simulated.
        prediction: results folder of the prediction; none: `results/CAMPAIGN-by-MODEL`.
        formats: `text`, `csv`, `json`.
        out: folder for the files of the latter.
        fresh: replace a prediction that is there.
    """

    rounds: str | None
    settings: tuple[str, ...]
    simulated: int
    prediction: Path | None
    formats: tuple[str, ...]
    out: Path
    fresh: bool = False


def score_model(model: str, campaign: Path, given: ModelOptions) -> None:
    """Predict a campaign by a link model, and print how far off it is.

    Raises:
        InputError: the model or the campaign is none, or nothing of it can be predicted.
    """
    from perigee.campaigns.model_score import score
    from perigee.campaigns.part import rounds_of
    from perigee.campaigns.prediction import predict, transfers
    from perigee.commands import progress
    from perigee.files import write_atomically
    from perigee.places import find_profile
    from perigee.report.csv_text import csv_text
    from perigee.store.results import Results

    if given.out.exists() and not given.out.is_dir():
        raise InputError(f"--out {given.out}: is no folder; give one, or take the file away")
    link, results = find_profile(model), Results(campaign)
    wanted, notes = transfers(results, rounds_of(given.rounds))
    name = f"{results.study}-by-{link.path.stem}"
    out = given.prediction or Path("results") / name
    with progress.bar(error_console, "predict") as watch:
        predicted = predict(
            link, results, wanted, out, given.simulated, given.settings, watch, fresh=given.fresh
        )  # fmt: skip
    found = score(results, wanted, predicted, notes)
    if "text" in given.formats:
        for table in _tables(found):
            out_console.print(table)
        for sentence in _sentences(found):
            out_console.print(sentence, highlight=False, soft_wrap=True, markup=False)
    given.out.mkdir(parents=True, exist_ok=True)
    if "csv" in given.formats:
        write_atomically(given.out / f"{name}.csv", csv_text(found.frame()).encode())
    if "json" in given.formats:
        write_atomically(given.out / f"{name}.json", json.dumps(_document(found, results, link), indent=1).encode())
    for kind in ("csv", "json"):
        if kind in given.formats:
            say(str(given.out / f"{name}.{kind}"))
    say(f"next: perigee compare {shlex.quote(str(campaign))} {shlex.quote(str(out))}")


def _sentences(found: Score) -> Iterator[str]:
    hits, means = found.counts["means"]
    from perigee.statistics.metrics import metric

    right, orders = found.counts["orderings"]
    yield f"{hits} of {means} means are within 15 % or the measured interval; {right} of {orders} orderings are right."
    yield f"{found.coverage.count}."
    if found.coverage_by_metric:
        yield "Quantities of one run depend on each other; so each is tested by itself, corrected for their number:"
        yield from (f"{metric(name).title}: {one.sentence}" for name, one in found.coverage_by_metric.items())
    yield from (f"note: {note}" for note in found.notes)


def _document(found: Score, campaign: Results, link: ProfileFile) -> dict[str, Any]:
    """Return a score with what made its sides."""
    from perigee.version import __version__

    return {
        "campaign": campaign.study,
        "campaign_sha256": campaign.manifest["sha256"],
        "model": link.path.name,
        "model_sha256": hashlib.sha256(link.text.encode()).hexdigest(),
        "version": __version__,
        "cells": found.frame().to_dicts(),
        "orderings": [
            {"quantity": one.metric.name, "higher": one.higher, "lower": one.lower, "is_predicted": one.is_predicted}
            for one in found.orders
        ],
        "counts": found.counts,
        "coverage": {"inside": found.coverage.inside, "of": found.coverage.runs, "level": found.level},
        "notes": found.notes,
    }


def _error(cell: Cell) -> str:
    """The error of a mean, relative, or of shares in percentage points; a cross where it is not met."""
    mark = "" if cell.is_met else " ✗"
    if cell.metric.unit == "%":
        return f"{signed(cell.predicted - cell.measured, cell.metric.digits)} pp{mark}"
    return "" if cell.error is None else f"{signed(100 * cell.error, 0)} %{mark}"


def _tables(found: Score) -> Iterator[Table]:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    heads = ("", "Quantity", "Measured", "Predicted", "Error", f"{100 * found.level:g} % of runs", "Runs within")
    for head in heads:
        table.add_column(head, justify="left" if head in heads[:2] else "right")
    last = ""
    for cell in found.cells:
        digits = cell.metric.digits
        interval = f"{number(cell.low, digits)} to {number(cell.high, digits)}" if cell.varies else ""
        table.add_row(
            "" if cell.label == last else cell.label,
            cell.metric.heading,
            with_interval(cell.measured, cell.measured_half, digits),
            number(cell.predicted, digits),
            _error(cell),
            interval,
            f"{cell.inside} of {cell.runs}" if cell.varies else "",
        )
        last = cell.label
    yield table
    if found.orders:
        orders = Table(box=box.SIMPLE_HEAD)
        for head in ("Ordering that was measured", "Quantity", "Predicted"):
            orders.add_column(head)
        for order in found.orders:
            orders.add_row(
                f"{order.higher} above {order.lower}", order.metric.title, "yes" if order.is_predicted else "no ✗"
            )
        yield orders
