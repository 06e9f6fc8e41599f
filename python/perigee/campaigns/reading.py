# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reads the files of one run: its flows as tables, and what the files say of themselves."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from perigee.analysis import log, logs, probe_logs
from perigee.analysis.log import Log
from perigee.analysis.recordings import GoOn, Options, Run, capture_runs
from perigee.campaigns.manifest import Manifest
from perigee.campaigns.plan import Recording
from perigee.errors import InputError
from perigee.numbers import number
from perigee.store.schema import empty_table
from perigee.store.streams import frames_of, stream_of

Tables = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Seen:
    """Statements of a file about itself.

    Attributes:
        name: the file; of a capture in parts the first.
        flow: the flow that it is of.
        began_unix_s: when its first transfer began; none: it does not say.
        cc: the congestion controls that it names.
        directions: the directions of its transfers, where they are known.
        place: where it was captured; empty: it does not say.
        received_bytes: payload of its transfers.
        identity: what no other file has: of a capture, of its transfer; otherwise SHA-256 of its bytes.
        largest_left: payload of the largest transfer that was not taken.
        smallest_taken: payload of the smallest one that was.
        faults: what forbids to take its numbers.
        notes: notes on it for people.
    """

    name: str
    flow: str
    began_unix_s: float | None = None
    cc: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    place: str = ""
    received_bytes: int = 0
    identity: str = ""
    largest_left: int = 0
    smallest_taken: int = 0
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of_text(cls, text: str) -> Seen:
        """Return what `text` has written."""
        kept = json.loads(text)
        lists: dict[str, Any] = {key: tuple(value) for key, value in kept.items() if isinstance(value, list)}
        return cls(**{**kept, **lists})

    @property
    def text(self) -> str:
        """All of it as one text."""
        return json.dumps(vars(self))


SEEN = "seen"
"""The table of a shard that holds what its files say of themselves; it is in no results."""


def read_run(files: Sequence[Recording], manifest: Manifest, go_on: GoOn) -> dict[str, bytes] | None:
    """Read the files of a run; captures of it are also held against each other.

    Args:
        files: the files.
        manifest: the manifest.
        go_on: called with the share done; returns whether to go on.

    Returns:
        The tables of each file, whose `run` is its place among them by name, and `SEEN`; none where `go_on` said no.

    Raises:
        InputError: a file cannot be read, or holds nothing to measure.
    """
    files = by_name(files)
    captures = [one for one in files if one.kind == "capture"]
    made: dict[str, tuple[Tables, Seen]] = {}
    if captures:
        found = _captures(captures, manifest, go_on)
        if found is None:
            return None
        made |= found
    for one in files:
        if one.kind != "capture":
            made[one.name] = _other(one, manifest)
    tables: dict[str, list[pl.DataFrame]] = {}
    for place, one in enumerate(files):
        for name, table in made[one.name][0].items() if one.name in made else ():
            tables.setdefault(name, []).append(table.with_columns(run=pl.lit(place, pl.UInt32)))
    seen = [made[one.name][1].text for one in files if one.name in made]
    joined = {name: pl.concat(parts) for name, parts in tables.items()}
    joined[SEEN] = pl.DataFrame({"run": [0] * len(seen), "said": seen}, schema={"run": pl.UInt32, "said": pl.String})
    return {name: stream_of(table) for name, table in joined.items() if table.height}


def by_name(files: Sequence[Recording]) -> list[Recording]:
    """Return the files of a run in the order of their names."""
    return sorted(files, key=lambda one: one.name)


def _captures(files: Sequence[Recording], manifest: Manifest, go_on: GoOn) -> dict[str, tuple[Tables, Seen]] | None:
    """Read captures of one run: those of one connection from two places are also held against each other."""
    sources: dict[tuple[str, str], list[Recording]] = {}
    for one in files:
        sources.setdefault((one.flow, one.said.get("place", "")), []).append(one)
    parts = [sorted(own, key=lambda one: int(one.said.get("part") or 0)) for own in sources.values()]
    options = Options(manifest.series, manifest.startup, manifest.steady, most=_MOST, sequences=0)
    read = capture_runs([(own[0].name, [one.path for one in own]) for own in parts], manifest.name, options, go_on)
    if read is None:
        return None
    return {own[0].name: _captured(own[0], run, manifest) for own, run in zip(parts, read, strict=True)}


def _captured(one: Recording, run: Run, manifest: Manifest) -> tuple[Tables, Seen]:
    tables = run.tables
    connections = tables.get("connections", empty_table("connections"))
    flows = tables["flows"].join(
        connections.select("flow", "began_unix_s", "side", "opened_by"), on="flow", how="left", maintain_order="left"
    )
    if one.of.port is not None:
        flows = flows.filter(pl.any_horizontal(pl.col("flow").str.split(" > ").list.eval(
            pl.element().str.contains(rf":{one.of.port}(?: \(\d+\))?$")).list.any()))  # fmt: skip
    if flows.is_empty():
        port = "" if one.of.port is None else f" to or from port {one.of.port}"
        raise InputError(
            f"{one.path}: no transfer{port} is in it; correct `port` of {one.where}, or leave the file out"
        )
    largest = flows.sort("received_bytes", descending=True, maintain_order=True)
    taken, left = largest.head(one.of.count).sort("start_s", maintain_order=True), largest.slice(one.of.count)
    directions = tuple(_direction(row, manifest) for row in taken.iter_rows(named=True))
    seen = Seen(
        name=one.name,
        flow=one.flow,
        began_unix_s=taken["began_unix_s"].drop_nulls().min(),  # type: ignore[arg-type]
        directions=tuple(dict.fromkeys(filter(None, directions))),
        place=_place(taken["side"][0] or "", directions[0]),
        received_bytes=int(taken["received_bytes"].sum()),
        identity=json.dumps(taken.select("flow", "began_unix_s", "received_bytes").rows()),
        largest_left=int(left["received_bytes"].max() or 0),  # type: ignore[arg-type]
        smallest_taken=int(taken["received_bytes"].min() or 0),  # type: ignore[arg-type]
        faults=() if bool(taken["completed"].all()) else run.damage,
        notes=run.notes,
    )
    ends = [_ends(row, direction) for row, direction in zip(taken.iter_rows(named=True), directions, strict=True)]
    return _only(tables, one, taken["flow"].to_list(), ends), seen


def _direction(row: Mapping[str, Any], manifest: Manifest) -> str:
    """Return where the data of a captured flow go: to the user's side, or away from it; empty where nobody knows."""
    if manifest.user:
        ours = [any(ipaddress.ip_address(row[end]) in net for net in manifest.user) for end in ("from_node", "to_node")]
        return {(True, False): "up", (False, True): "down"}.get((ours[0], ours[1]), "")
    return {"to": "down", "from": "up"}.get(row["opened_by"] or "", "")


def _place(side: str, direction: str) -> str:
    ends = {"down": ("server", "client"), "up": ("client", "server")}.get(direction)
    return "" if ends is None or side not in _SIDES else ends[_SIDES.index(side)]


def _ends(row: Mapping[str, Any], direction: str) -> tuple[str, str]:
    known = {"down": ("server", "client"), "up": ("client", "server")}
    return known.get(direction, (row["from_node"], row["to_node"]))


def _other(one: Recording, manifest: Manifest) -> tuple[Tables, Seen]:
    if one.kind == "iperf3":
        return _iperf3(one, manifest)
    if one.kind == "ping":
        found, pings = logs.pings_of(one.path)
        # Delays of each direction have no place in a campaign yet.
        tables, more = log.tables(Log(found.system, pings=pings), manifest.name, one.name)
        notes = (*found.notes, *more)
    else:
        made, notes = probe_logs.tables(one.path, manifest.name)
        tables = frames_of(made)
    flows = tables["flows"]
    names, ends = flows["flow"].to_list(), list(flows.select("from_node", "to_node").iter_rows())
    kept = _only(tables, one, names, ends, own_names=one.kind == "probe")
    return kept, Seen(one.name, one.flow, _began(one), identity=_sha256(one), notes=notes)


def _began(one: Recording) -> float | None:
    """Return the time of the first entry of a log; none where it has times from its own beginning only."""
    if one.kind == "probe":
        from perigee.measuring.probe import read_log

        return min((float(step.record["began_unix_s"]) for step in read_log(one.path)), default=None)
    first = next((at for at, _ in logs.entries_of(one.path)), None)
    return first if first is not None and first > _EPOCH_S else None


def _sha256(one: Recording) -> str:
    try:
        with one.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{one.path}: cannot be read: {error.strerror}; check its permissions") from error


def _iperf3(one: Recording, manifest: Manifest) -> tuple[Tables, Seen]:
    tests = logs.read(one.path)
    if len(tests) > 1:
        raise InputError(
            f"{one.path}: holds {len(tests)} tests, and a file of a campaign is one; write one file a test"
        )
    test = tests[0]
    largest = sorted(test.flows, key=lambda flow: -flow.seen.arrivals[-1][1])
    taken = [flow for flow in test.flows if flow in largest[: one.of.count]]
    left = largest[one.of.count :]
    tables, _ = log.tables(replace(test, flows=tuple(taken)), manifest.name, one.name)
    carried = [flow.seen.arrivals[-1][1] for flow in taken]
    seen = Seen(
        name=one.name,
        flow=one.flow,
        began_unix_s=test.began_s,
        cc=tuple(dict.fromkeys(flow.cc for flow in taken if flow.cc)),
        directions=tuple(dict.fromkeys("up" if flow.upload else "down" for flow in taken)),
        received_bytes=sum(carried),
        identity=_sha256(one),
        largest_left=max((flow.seen.arrivals[-1][1] for flow in left), default=0),
        smallest_taken=min(carried),
        faults=(*test.damage, *([] if test.error is None else [f"iperf3 ended with an error: {test.error}"])),
        notes=test.notes,
    )
    flows = tables["flows"]
    ends = list(flows.select("from_node", "to_node").iter_rows())
    return _only(tables, one, flows["flow"].to_list(), ends), seen


def _only(
    tables: Tables, one: Recording, flows: Sequence[str], ends: Sequence[tuple[str, str]], *, own_names: bool = False
) -> dict[str, pl.DataFrame]:
    """Return the rows of these flows, under the name that they have in the campaign."""
    names = [one.flow] if len(flows) == 1 else [f"{one.flow}.{place}" for place in range(1, len(flows) + 1)]
    called = pl.DataFrame(
        {"flow": flows, "called": flows if own_names else names, "from": [end[0] for end in ends],
         "to": [end[1] for end in ends]},
        schema_overrides={"flow": pl.String},
    )  # fmt: skip
    kept = {}
    for name, table in tables.items():
        columns = table.columns
        own = table.join(called, on="flow", how="inner", maintain_order="left").with_columns(flow="called")
        if name == "flows":
            own = own.with_columns(from_node="from", to_node="to")
        kept[name] = own.select(columns)
    return kept


def shortfall(carried: int, other: int) -> str:
    """Say how two amounts of payload differ."""
    return f"{number(carried / 1e6, 2)} and {number(other / 1e6, 2)} MB"


_MOST = 20
"""Connections that are measured of each capture: the transfers, and what tells them from others."""
_SIDES = ("sender", "receiver")
_EPOCH_S = 1e8
"""Times below are counted from the beginning of a log."""
