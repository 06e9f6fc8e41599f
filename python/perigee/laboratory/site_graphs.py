# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Graphs over time of a published site: each run a file with its quantities in a fixed number of columns."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from perigee.core import native
from perigee.laboratory.api import graphs
from perigee.laboratory.graphs import MOST_FLOWS, MOST_TRACES, TIME, kind_of, labels_of, part_of, rows_of
from perigee.laboratory.page import deflated
from perigee.laboratory.quantities import Quantity, first

TABLES = ("series", "links", "proxies")
"""Tables that are published over time; logs of packets are taken as files."""
COLUMNS = 4000
"""Columns of a run: four times as many as a screen has, so that one can zoom in."""
MOST_BYTES = 8_000_000
"""Size of the files of one results folder; runs beyond that are left out, the last rounds first."""


def written(folder: Path, write: Callable[[int, dict[str, Any]], int]) -> dict[str, Any] | None:
    """Write the runs of results as far as there is room; return what the site has to draw, none where it has nothing.

    Args:
        folder: the results.
        write: writes the content of a run's file, and returns its size in bytes.

    Returns:
        As `perigee.laboratory.api.graphs.described`, with `left_out`, how many runs are not in the site.

    Raises:
        InputError: a table cannot be read.
    """
    there = [one for several in graphs.quantities_of(folder).values() for one in several if one.table in TABLES]
    if not there:
        return None
    runs, menu, done, size = graphs.runs_of(folder), graphs.described(folder), set(), 0
    for run in runs.by_rounds():
        if size >= MOST_BYTES:
            break
        size += write(run, of_run(folder, run, there, runs.flows(run)[:MOST_FLOWS]))
        done.add(run)
    points = [{**point, "runs": [each for each in point["runs"] if each[1] in done]} for point in menu["points"]]
    keys = {one.key: one for one in there}
    return {
        **menu,
        "points": [point for point in points if point["runs"]],
        "quantities": [one for one in menu["quantities"] if one["key"] in keys],
        "first": {"runs": [run for run in menu["first"]["runs"] if run in done], "what": first(keys)},
        "left_out": sum(len(point["runs"]) for point in menu["points"]) - len(done),
    }


def of_run(folder: Path, run: int, wanted: Sequence[Quantity], flows: Sequence[str]) -> dict[str, Any]:
    """Return the quantities of a run in columns of its time.

    Returns:
        `from, to` (s), `columns`, `what` (the keys of the quantities), `of_flows` (of each, whether it is of flows),
        `left_out` (traces beyond the bound), `traces` (each `what, name, leg, event`), and `values`, in base64: the
        smallest and then the largest values of each trace in all columns, 32-bit numbers, NaN where there is none,
        compressed (deflate).
    """
    by_table: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    for number, one in enumerate(wanted):
        by_table[one.table][one.column, one.name] = number
    traces: list[tuple[dict[str, Any], native.Trace]] = []
    left_out, is_of_flows = 0, {}
    for table, numbers in by_table.items():
        path = folder / f"{table}.parquet"
        is_of_flows[table] = kind_of(path) == "flow"
        found = _traces(path, run, numbers, flows if is_of_flows[table] else None)
        left_out += max(0, len(found) - MOST_TRACES * len(numbers))
        traces += found[: MOST_TRACES * len(numbers)]
    spans = [trace.span_s for _, trace in traces if trace.span_s]
    from_s, to_s = (min(begin for begin, _ in spans), max(end for _, end in spans)) if spans else (0.0, 1.0)
    to_s = to_s if to_s > from_s else from_s + 1.0
    values = [np.frombuffer(trace.envelope(from_s, to_s, COLUMNS)).astype("<f4").tobytes() for _, trace in traces]
    return {
        "from": from_s,
        "to": to_s,
        "columns": COLUMNS,
        "what": [one.key for one in wanted],
        "of_flows": [is_of_flows[one.table] for one in wanted],
        "left_out": left_out,
        "traces": [head for head, _ in traces],
        "values": base64.b64encode(deflated(b"".join(values))).decode(),
    }


def _traces(
    path: Path, run: int, numbers: Mapping[tuple[str, str], int], flows: Sequence[str] | None
) -> list[tuple[dict[str, Any], native.Trace]]:
    """Return the traces of a table: by column and name of the link or proxy, the number of the quantity that it is."""
    by, columns = labels_of(path), list(dict.fromkeys(column for column, _ in numbers))
    rows = rows_of(path, run, [*by, TIME, *columns]).with_columns(pl.col(TIME, *columns).cast(pl.Float64))
    found = []
    for labels, own in sorted(
        rows.partition_by(by, as_dict=True, include_key=False).items(), key=lambda one: str(one[0])
    ):
        part = part_of(by, labels)
        if flows is not None and part.name not in flows:
            continue
        for column in columns:
            number = numbers.get((column, "" if flows is not None else part.name))
            if number is None:
                continue
            trace = native.Trace()
            times, values = (own[name].to_numpy(writable=True) for name in (TIME, column))
            trace.extend(times.data, values.data)
            if len(trace):
                found.append(({"what": number, **part._asdict()}, trace))
    return found
