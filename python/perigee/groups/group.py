# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A group of flows, and what tells it apart from others: its point, its flow and its algorithm."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from perigee.groups.factors import in_words, of_group
from perigee.groups.looks import Look
from perigee.groups.names import distinct
from perigee.store.outcomes import has_failed
from perigee.store.points import as_text, named, own_keys, variants_of

FILE = "file"
"""Where results were measured from several files, this is what varies."""


@dataclass(frozen=True)
class Group:
    """Flows that are shown together, one per round: those of one name at one point of a study, or one flow of a file.

    Attributes:
        number: which it is; unique in a `Context`.
        name: what `report.toml` and the data files call it; no other group that is shown has the same.
        label: what people call it.
        cc: its congestion control, empty without TCP.
        factors: what varies between groups, and its value here; `cc` and `flow` are among them.
        rows: its rows of `flows`.
        look: how it is drawn: as all groups of its algorithm, where several algorithms are shown.
        levels: of each factor in which the groups that are shown differ, the text of its level here.
    """

    number: int
    name: str
    label: str
    cc: str
    factors: Mapping[str, str]
    rows: pl.DataFrame
    look: Look
    levels: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def flows(self) -> pl.DataFrame:
        """The flows that means are taken over: all but the failed ones."""
        return self.rows.filter(~has_failed())

    @property
    def legend(self) -> str:
        """The label for a legend: matplotlib leaves out what begins with an underscore."""
        return f" {self.label}" if self.label.startswith("_") else self.label

    @property
    def size(self) -> str:
        """How many flows means are taken over, in words."""
        if self.flows.height == self.rows.height:
            return str(self.rows.height)
        return f"{self.flows.height} of {self.rows.height}"


def factors_of(row: Mapping[str, Any]) -> dict[str, str]:
    """Return what a flow's group differs in from others: what varied, and its flow and congestion control."""
    own = {"flow": str(row["flow"]), "cc": f"{row['cc']} {row['cc_params']}"}
    return own | {key: as_text(value) for key, value in varied_of(row)}


def varied_of(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return what the point of a flow varies beside the flow's own congestion control."""
    own = (*own_keys(row["flow"]), *_own_variants(row["point"], row["flow"]))
    point: dict[str, Any] = json.loads(row["point"]) if row["point"] else {}
    return ((key, value) for key, value in named(point).items() if key not in own)


def varied_in_words(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the point of a flow varies beside the flow's own congestion control: key and text of the value."""
    return [(key, of_group(key, as_text(value))) for key, value in varied_of(row)]


def with_variants(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows of `flows` where the name of a variant of a flow's own congestion control stands for it."""
    if "point" not in rows.columns:
        return rows
    pairs = rows.select("point", "flow").unique()
    names = [", ".join(_own_variants(point, flow).values()) or None for point, flow in pairs.iter_rows()]
    if not any(names):
        return rows
    known = pairs.with_columns(variant=pl.Series(names, dtype=pl.String))
    rows = rows.join(known, on=["point", "flow"], how="left", maintain_order="left")
    has = pl.col("variant").is_not_null()
    return rows.with_columns(
        cc=pl.coalesce("variant", "cc"), cc_params=pl.when(has).then(pl.lit("{}")).otherwise("cc_params")
    ).drop("variant")


def names_of(rows: Sequence[Mapping[str, Any]], *, in_full: bool) -> list[str]:
    """Name groups, of each of which a row of `flows` is given: by the algorithm where that tells them apart.

    Otherwise (or `in_full`) by what varies too; groups that have the same words all the same are numbered.
    """
    algorithms = [str(row["cc"]) for row in rows]
    if not in_full and all(algorithms) and len(set(algorithms)) == len(rows):
        return algorithms
    has_flow, has_algorithm = parts_of_names(rows, in_full=in_full)
    names: list[str] = []
    for row in rows:
        varied = [
            as_text(value) if key == FILE else f"{in_words(key)} = {as_text(value)}" for key, value in varied_of(row)
        ]
        words = [str(row["flow"])] if has_flow or not row["cc"] else []
        if row["cc"] and (has_algorithm or not varied):
            set_values = {} if row["cc_params"] in ("", "{}") else json.loads(row["cc_params"])
            words += [str(row["cc"]), *(f"{key} = {as_text(value)}" for key, value in set_values.items())]
        names.append(", ".join([*words, *varied]))
    return distinct(names, lambda name, copy: f"{name} ({copy})")


def parts_of_names(rows: Sequence[Mapping[str, Any]], *, in_full: bool) -> tuple[bool, bool]:
    """Return whether the names of groups need the flow, and whether they need the algorithm."""
    several = {(row["cc"], row["cc_params"]) for row in rows}
    return in_full or len({row["flow"] for row in rows}) > 1, in_full or len(several) > 1 or len(rows) == 1


def _own_variants(point: str, flow: str) -> dict[str, str]:
    """Return the variants of a point that set a flow's own congestion control: by the key that varies, the name."""
    own = own_keys(flow)
    return {key: name for key, (name, paths) in variants_of(point).items() if not paths.isdisjoint(own)}
