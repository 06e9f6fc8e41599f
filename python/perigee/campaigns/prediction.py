# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The prediction of a campaign by a link model: its transfers, simulated over it with the same algorithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from perigee.campaigns.manifest import NAME, Manifest, read_manifest
from perigee.campaigns.part import is_within
from perigee.cc.catalog import algorithms
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.groups.group import Group
from perigee.groups.groups import Groups
from perigee.numbers import counted
from perigee.places import ProfileFile, StudyFile
from perigee.store.results import Results
from perigee.toml import document

ROUNDS = 20
"""Rounds of a prediction: what its intervals are made of."""
ALIKE = 0.05
"""Transfers whose sizes, or durations, differ by less than this share of their median were to be the same."""

POINT = "transfer"
"""The key that varies in a prediction: the number of the transfer."""

Watch = Callable[..., None]


@dataclass(frozen=True)
class Transfer:
    """The transfers of a campaign that one simulated flow stands for.

    Attributes:
        group: the group of the campaign.
        rows: its rows of `flows` in the rounds that are predicted.
        algorithm: congestion control, as the simulator calls it.
        direction: `down` or `up`.
        amount: key and value of the study: how much, or for how long.
    """

    group: Group
    rows: pl.DataFrame
    algorithm: str
    direction: str
    amount: tuple[str, str]


def transfers(results: Results, rounds: Sequence[range]) -> tuple[list[Transfer], list[str]]:
    """Return the transfers of a campaign in some rounds, and notes on those that no model can predict.

    Raises:
        InputError: the results are no campaign's, or there is none left.
    """
    if results.manifest["engine"] != "campaign":
        raise InputError(f"{results.path}: is no campaign; `perigee campaign` makes one of recordings")
    known = {one.name for one in algorithms()}
    found, notes = [], []
    beside = _beside_others(results.table("flows"))
    for group in Groups(results).all_groups:
        own = group.flows.filter(pl.col("round").map_elements(lambda one: is_within(one, rounds), pl.Boolean))
        if own.is_empty() or own["kind"][0] != "bulk":
            continue
        alone = own.join(beside, on=["run", "flow"], how="anti", maintain_order="left")
        if left := own.height - alone.height:
            notes.append(
                f"{group.label}: {counted(left, 'transfer')} of {own.height} ran beside others of its run, and are "
                "left out: one is simulated alone"
            )
        if alone.is_empty():
            continue
        own = alone
        direction = _DIRECTIONS.get((str(own["from_node"][0]), str(own["to_node"][0])))
        amount = _amount(own)
        if group.cc not in known:
            what = (
                f"its congestion control, {group.cc}, is not in the simulator"
                if group.cc
                else "its congestion control is not known"
            )
            notes.append(f"{group.label}: {what}; name it in the manifest, with `cc` or `names.cc`")
        elif direction is None:
            notes.append(f"{group.label}: its direction is not known; give `direction` or `user` in the manifest")
        elif amount is None:
            notes.append(
                f"{group.label}: its transfers are neither of one size nor of one duration, so none is simulated"
            )
        else:
            found.append(Transfer(group, own, group.cc, direction, amount))
    if not found:
        said = "; ".join(notes) or "there is no transfer in these rounds"
        raise InputError(f"{results.path}: nothing can be predicted: {said}")
    return found, notes


def predict(
    model: ProfileFile, results: Results, wanted: Sequence[Transfer], out: Path, rounds: int = ROUNDS,
    settings: Sequence[str] = (), watch: Watch = lambda *_, **__: None, *, fresh: bool = False,
) -> Results:  # fmt: skip
    """Simulate transfers over a model, a results folder of a study.

    Args:
        model: the link.
        results: the campaign, whose way of measuring is taken.
        wanted: the transfers; each is a point of the study.
        out: the folder.
        rounds: rounds that are simulated.
        settings: `key=value` of the study, such as `hosts.like=linux-4.15`.
        watch: called with the progress.
        fresh: replace results that are there.

    Raises:
        InputError: a setting is wrong, or the folder holds other results.
        RunError: a run failed.
    """
    manifest = read_manifest(results.path / "study" / NAME)
    text = _study(model, manifest, wanted, rounds)
    study = StudyFile(out / "study.toml", text, (model.path.parent, *model.search))
    carry_out(Job(study, Simulator, settings=settings, out=out, fresh=fresh), watch)
    return Results(out)


def _study(model: ProfileFile, manifest: Manifest, wanted: Sequence[Transfer], rounds: int) -> str:
    measure = {"series": manifest.series, "startup": manifest.startup, "steady": manifest.steady}
    points = [
        {
            "name": str(number), "flow.cc": one.algorithm, f"flow.{one.amount[0]}": one.amount[1],
            "flow.from": _ENDS[one.direction][0], "flow.to": _ENDS[one.direction][1],
        }
        for number, one in enumerate(wanted)
    ]  # fmt: skip
    key, value = wanted[0].amount
    begin, end = _ENDS[wanted[0].direction]
    return document(
        {
            "name": f"{manifest.name}-predicted",
            "title": f"{manifest.name}, predicted by a model",
            "rounds": rounds,
            "nodes": ["server", "client"],
            "measure": {key: value for key, value in measure.items() if value != "off"},
            "links": [{"name": "path", "between": ["server", "client"], "profile": str(model.path.resolve())}],
            "flows": [{"name": "transfer", "from": begin, "to": end, key: value}],
            "vary": {POINT: points},
        }
    )


def _beside_others(flows: pl.DataFrame) -> pl.DataFrame:
    """Return run and flow of those that ran at the same time as another one of their run; pings load no link."""
    known = flows.filter(pl.col("kind") != "ping").select(
        "run", "flow", begin="start_s", end=pl.col("start_s") + pl.col("duration_s")
    )
    pairs = known.join(known, on="run", suffix="_other").filter(
        (pl.col("flow") != pl.col("flow_other"))
        & (pl.col("begin") < pl.col("end_other"))
        & (pl.col("begin_other") < pl.col("end"))
    )
    return pairs.select("run", "flow").unique()


def _amount(rows: pl.DataFrame) -> tuple[str, str] | None:
    """Return what transfers had in common: their size, or else their duration."""
    sizes, lengths = rows["received_bytes"].to_numpy(), rows["duration_s"].to_numpy()
    for key, values in (("size", sizes), ("duration", lengths)):
        middle = float(np.median(values))
        if middle and float(np.mean(np.abs(values - middle) <= ALIKE * middle)) >= _MOST:
            return key, f"{round(middle)} B" if key == "size" else f"{round(1000 * middle)} ms"
    return None


_ENDS = {"down": ("server", "client"), "up": ("client", "server")}
_DIRECTIONS = {ends: direction for direction, ends in _ENDS.items()}
_MOST = 0.8
"""Share of the transfers that are alike where all were to be; others were cut off."""
