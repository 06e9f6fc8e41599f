# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What rules see of a study that goes on: the rows of the table `flows` of the runs that are kept so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.errors import InputError
from perigee.names import suggestion

if TYPE_CHECKING:
    import polars as pl

GROUP = ["point", "flow"]
"""The columns whose rows differ by their round only."""
METRIC = "goodput_mbps"
"""The column that rules look at unless another is given."""


class KeptFlows:
    """The rows of the table `flows` of the runs that are kept so far; each shard is read once.

    Args:
        option: what asked for the columns, for messages.
        shards: returns the shard of each run that is kept.
        metrics: the columns that are needed.
    """

    def __init__(self, option: str, shards: Callable[[], Mapping[int, Path]], metrics: Sequence[str]) -> None:
        self._option = option
        self._shards = shards
        self._metrics = list(dict.fromkeys(metrics))
        self._parts: dict[Path, pl.DataFrame] = {}

    def rows(self, runs: int) -> pl.DataFrame:
        """Return the rows of the first runs: `run`, `point`, `flow` and the columns that are needed.

        Raises:
            InputError: there is no such column of numbers, or a shard is damaged.
        """
        import polars as pl

        from perigee.store.shards import read_shard

        for path in dict.fromkeys(path for run, path in self._shards().items() if run < runs):
            if path in self._parts:
                continue
            table = pl.DataFrame(read_shard(path)["flows"])
            if "leg" in table.columns:
                table = table.filter(pl.col("leg").is_null())
            for metric in self._metrics:
                if metric not in (known := _numbers(table)):
                    raise _no_column(self._option, metric, known)
            self._parts[path] = table.select("run", *GROUP, *self._metrics)
        # A shard may have runs of later rounds too, which another run of the command left there.
        return pl.concat(self._parts.values()).filter(pl.col("run") < runs).sort("run", maintain_order=True)


def check_column(option: str, metric: str) -> None:
    """Refuse what is no column of numbers that a run's table `flows` has.

    Raises:
        InputError: it is none; the message names the option.

    Examples:
        >>> check_column("--until", "rtt_mean_ms")
    """
    import polars as pl

    from perigee.core import native
    from perigee.store.arrow import arrow_table

    if metric not in (known := _numbers(pl.DataFrame(arrow_table(*native.observed([])["flows"])))):
        raise _no_column(option, metric, known)


def _numbers(flows: pl.DataFrame) -> list[str]:
    return [name for name, kind in flows.schema.items() if kind.is_numeric()]


def _no_column(option: str, metric: str, known: Sequence[str]) -> InputError:
    fix = suggestion(metric, known)
    if not fix.startswith("did you mean"):
        fix = f"use one of {', '.join(name for name in known if name.endswith(('_mbps', '_ms')))}"
    return InputError(f"{option} {metric}: no column of numbers of the table flows; {fix}")
