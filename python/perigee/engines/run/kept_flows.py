# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Input of stop rules: rows of the table `flows` of the runs stored so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.errors import InputError
from perigee.names import suggestion

if TYPE_CHECKING:
    import polars as pl

GROUP = ["point", "flow"]
"""Columns that identify a flow across rounds."""
METRIC = "goodput_mbps"
"""Default column of rules."""


class KeptFlows:
    """Rows of the table `flows` of the runs stored so far; each shard is read once.

    Args:
        option: the option that needs the columns, for messages.
        shards: returns the shard of each stored run.
        metrics: required columns.
    """

    def __init__(self, option: str, shards: Callable[[], Mapping[int, Path]], metrics: Sequence[str]) -> None:
        self._option = option
        self._shards = shards
        self._metrics = list(dict.fromkeys(metrics))
        self._parts: dict[Path, pl.DataFrame] = {}

    def rows(self, runs: int) -> pl.DataFrame:
        """Return the rows of the first runs: `run`, `point`, `flow` and the required columns.

        Raises:
            InputError: a column is missing or not numeric, or a shard is damaged.
        """
        import polars as pl

        from perigee.store.shards import read_shard

        for path in dict.fromkeys(path for run, path in self._shards().items() if run < runs):
            if path in self._parts:
                continue
            table = read_shard(path).get("flows")
            if table is None:
                continue
            if "leg" in table.columns:
                table = table.filter(pl.col("leg").is_null())
            for metric in self._metrics:
                if metric not in (known := _numbers(table)):
                    raise _no_column(self._option, metric, known)
            self._parts[path] = table.select("run", *GROUP, *self._metrics)
        # A shard may include later rounds from an earlier command.
        return pl.concat(self._parts.values()).filter(pl.col("run") < runs).sort("run", maintain_order=True)


def check_column(option: str, metric: str) -> None:
    """Refuse a column that is not a numeric one of a run's table `flows`.

    Raises:
        InputError: it is not; the message names the option.

    Examples:
        >>> check_column("--until", "rtt_mean_ms")
    """
    from perigee.store.schema import empty_table

    if metric not in (known := _numbers(empty_table("flows"))):
        raise _no_column(option, metric, known)


def _numbers(flows: pl.DataFrame) -> list[str]:
    return [name for name, kind in flows.schema.items() if kind.is_numeric()]


def _no_column(option: str, metric: str, known: Sequence[str]) -> InputError:
    fix = suggestion(metric, known)
    if not fix.startswith("did you mean"):
        fix = f"use one of {', '.join(name for name in known if name.endswith(('_mbps', '_ms')))}"
    return InputError(f"{option} {metric}: no column of numbers of the table flows; {fix}")
