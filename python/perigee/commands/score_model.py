# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The part of `perigee score` that holds a link model against a campaign."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.console import error_console, out_console, result, say
from perigee.numbers import number, signed, with_interval

if TYPE_CHECKING:
    from rich.table import Table

    from perigee.campaigns.model_score import Cell, Score


@dataclass(frozen=True)
class ModelOptions:
    """What a model is scored on.

    Attributes:
        rounds: rounds of the campaign; none: all.
        settings: `key=value` of the simulated study.
        simulated: rounds that are simulated.
        out: folder of the prediction; none: `results/CAMPAIGN-by-MODEL`.
        csv: file for the cells; none: not written.
        fresh: replace a prediction that is there.
    """

    rounds: str | None = None
    settings: tuple[str, ...] = ()
    simulated: int = 20
    out: Path | None = None
    csv: Path | None = None
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

    link, results = find_profile(model), Results(campaign)
    wanted, notes = transfers(results, rounds_of(given.rounds))
    out = given.out or Path("results") / f"{results.study}-by-{link.path.stem}"
    with progress.bar(error_console, "predict") as watch:
        predicted = predict(
            link, results, wanted, out, given.simulated, given.settings, watch, fresh=given.fresh
        )  # fmt: skip
    found = score(results, wanted, predicted, notes)
    for table in _tables(found):
        out_console.print(table)
    hits, all_ = found.counts["means"]
    right, orders = found.counts["orderings"]
    say(f"{hits} of {all_} means are within 15 % or the measured interval; {right} of {orders} orderings are right")
    say(found.coverage.sentence)
    for note in found.notes:
        say(f"note: {note}")
    if given.csv:
        write_atomically(given.csv, csv_text(found.frame()).encode())
    result(str(out))


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
