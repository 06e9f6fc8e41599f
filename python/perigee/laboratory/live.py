# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The entry that runs, while it does: how far it is, a run that goes on, and what each algorithm has so far."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perigee.engines.plan.native import native_plan
from perigee.errors import InputError
from perigee.laboratory import worker
from perigee.laboratory.entries import Entry
from perigee.store.points import own_keys
from perigee.store.shard_names import runs_of, shards_in
from perigee.store.shards import ShardReader

if TYPE_CHECKING:
    from perigee.laboratory.api.visit import Laboratory

OF_ALGORITHM = "congestion control"
"""The property of a flow in the description of a study."""
VARIED = "varied)"
"""End of a property that is not the same at all points."""
READ_S = 0.05
"""Time for reading runs that are new; the others come with the next state."""
LARGEST_SHARD = 16 << 20
MOST_VALUES = 100
"""Values of a congestion control that are sent; of more runs each is the mean of several."""

Progress = dict[str, Any]


def progress(laboratory: Laboratory, entry: Entry) -> Progress:
    """Return how far an entry is: `done` and `total` runs, seconds `left_s` or none, and what the engine `says`.

    `curve` is that of a run that goes on, see `Curve.drawn`; none where the engine does not know it. `writing`: all
    runs are done, and their report is written.
    """
    nothing = {"done": 0, "total": 0, "left_s": None, "says": "", "curve": None}
    found = {**nothing, **worker.read(laboratory.place.entry(entry.id) / "progress.json")}
    return {**found, "writing": bool(found["total"]) and found["done"] >= found["total"]}


class Live:
    """The state of a laboratory, for all who follow it. Threads may share it.

    Args:
        laboratory: where it goes on.
    """

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._lock = threading.Lock()
        self._known: tuple[int, Panels] | None = None

    def state(self) -> dict[str, Any]:
        """Return the entries that run, each with its progress and `panels`, and how many there are in each state.

        `panels` has for each congestion control its `name`, how many `runs` it has (none: unknown), of how many of them
        the throughput was read (`done`), its `mean` in Mbit/s, and `values`, each the mean of `per` successive runs.
        """
        running = [self._state(entry) for entry in self._laboratory.queue.running()]
        return {"running": running, "count": self._laboratory.queue.count()}

    def _state(self, entry: Entry) -> dict[str, Any]:
        found = progress(self._laboratory, entry)
        with self._lock:
            if self._known is None or self._known[0] != entry.id:
                folder = self._laboratory.place.results / entry.results / "shards"
                self._known = (entry.id, Panels(folder, layout_of(self._laboratory, entry)))
            _, panels = self._known
            panels.read()
            found["curve"] = found["curve"] and panels.layout.of_flow(found["curve"])
            return {"number": entry.id, "study": entry.study, "wish": entry.wish, **found, "panels": panels.all()}


@dataclass(frozen=True)
class Layout:
    """The runs of an entry, as they are called.

    Attributes:
        points: what each point is called.
        algorithms: the congestion control of the flow that is shown at each point; empty: none, or it is not known.
        rounds: how often each point is run.
        flows: the flow whose throughput is shown at each point; empty: it is not known.
    """

    points: Sequence[str] = ()
    algorithms: Sequence[str] = ()
    rounds: int = 0
    flows: Sequence[str] = ()

    def name(self, run: int) -> str:
        """Return what a run is, as "loss 0.1 %, round 2"; of an entry that cannot be read only its number."""
        if not self.points:
            return f"run {run}"
        turn, place = divmod(run, len(self.points))
        return ", ".join(each for each in (self.points[place], f"round {turn + 1}") if each)

    def algorithm(self, run: int) -> str:
        """Return the congestion control of a run; empty where it has none, or it is not known."""
        return self.algorithms[run % len(self.algorithms)] if self.algorithms else ""

    def shows(self, run: int, flow: str) -> bool:
        """Return whether the throughput of a flow of a run is shown; of several (`count`) that of each is."""
        return not self.flows or self.flows[run % len(self.flows)] in ("", _base(flow))

    def of_flow(self, curve: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `Curve.drawn` has of the flow that is shown, with the name of the run and its `algorithm`."""
        own = [at for at, name in enumerate(curve["flows"]) if self.shows(curve["run"], name)]
        of = {key: [curve[key][at] for at in own] for key in ("flows", "mbps")}
        return {**curve, **of, "name": self.name(curve["run"]), "algorithm": self.algorithm(curve["run"])}

    def runs(self, algorithm: str) -> int | None:
        """Return how many runs a congestion control has; none where that is not known."""
        return self.rounds * self.algorithms.count(algorithm) if self.algorithms and all(self.algorithms) else None


def layout_of(laboratory: Laboratory, entry: Entry) -> Layout:
    """Return how the runs of an entry are called; of one that cannot be read nothing is known."""
    studies = laboratory.studies
    try:
        study = studies.get(entry.study) if entry.text is None else studies.given(entry.study, entry.text)
        plan = native_plan(study, entry.settings, entry.reduced)
    except InputError:
        return Layout()
    laid_out, flows = plan.laid_out(), plan.setup()["flows"]
    controls = {_base(flow["name"]): text for flow in flows for key, text in flow["properties"] if key == OF_ALGORITHM}
    shown = [_shown(one["point"], [_base(name) for name in one["flows"]], controls) for one in laid_out["points"]]
    points = [
        ", ".join(_value(key, value) for key, value in one["point"].items() if key not in own_keys(flow))
        for one, (flow, _) in zip(laid_out["points"], shown, strict=True)
    ]
    return Layout(points, [each for _, each in shown], laid_out["rounds"], [flow for flow, _ in shown])


def _shown(point: Mapping[str, Any], flows: Sequence[str], controls: Mapping[str, str]) -> tuple[str, str]:
    """Return the flow of a point that is shown, the first whose congestion control varies, and that.

    Without one the first that has a congestion control, by `controls` in words; empty where several points differ.
    """
    settings = _settings(point)
    with_control = [flow for flow in dict.fromkeys(flows) if flow in controls]
    for flow in with_control:
        own = [_name(value) for key, value in settings if key in own_keys(flow)]
        if own:
            return flow, own[-1]
    first = next(iter(with_control), "")
    words = controls.get(first, "")
    return first, "" if words.endswith(VARIED) else words.partition(" ")[0]


def _settings(point: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the keys and values of a point, those of variants among them."""
    found: list[tuple[str, Any]] = []
    for key, value in point.items():
        is_variant = isinstance(value, dict) and "." not in key
        found += value.items() if is_variant else [(key, value)]
    return found


def _base(flow: str) -> str:
    """Return the name of a flow in its study: one of several alike is `NAME.1`."""
    return flow.partition(".")[0]


def _name(value: object) -> str:
    return str(value.get("name", "")) if isinstance(value, dict) else str(value)


def _value(key: str, value: object) -> str:
    """Return the value of a key that varies; a number has the end of its key before it."""
    if isinstance(value, dict):
        return _name(value)
    return f"{key.rpartition('.')[2]} {value}" if isinstance(value, int | float) else str(value)


@dataclass
class Panels:
    """The throughput of the flow that is shown in the runs that are done, by its congestion control.

    Attributes:
        folder: where the runs are.
        layout: what they are; of several flows alike (`count`) the mean counts.
        values: of each congestion control the throughput of its runs by their numbers, Mbit/s.
    """

    folder: Path
    layout: Layout
    values: dict[str, dict[int, float]] = field(default_factory=dict)
    _known: set[Path] = field(default_factory=set)

    def read(self) -> None:
        """Read shards that are new, for a while."""
        until = time.monotonic() + READ_S
        reader = ShardReader()
        for path in dict.fromkeys(shards_in(self.folder).values()):
            if path in self._known:
                continue
            if time.monotonic() > until:
                return
            # The runs may have been merged meanwhile.
            with contextlib.suppress(OSError, InputError):
                self._add(reader, path)
            self._known.add(path)

    def _add(self, reader: ShardReader, path: Path) -> None:
        if path.stat().st_size > LARGEST_SHARD:
            return
        flows = reader.tables(path, runs_of(path.name)).get("flows")
        if flows is None:
            return
        sums: dict[tuple[str, int], list[float]] = {}
        for run, flow, algorithm, mbps in flows.select("run", "flow", "cc", "goodput_mbps").iter_rows():
            if mbps is not None and algorithm and self.layout.shows(run, flow):
                sums.setdefault((self.layout.algorithm(run) or algorithm, run), []).append(mbps)
        for (algorithm, run), each in sums.items():
            self.values.setdefault(algorithm, {})[run] = sum(each) / len(each)

    def all(self) -> list[dict[str, Any]]:
        """Return the panels, see `Live.state`; those that have no run yet too, where they are known."""
        known = self.layout.algorithms if all(self.layout.algorithms) else ()
        return [self._panel(name, self.layout.runs(name)) for name in dict.fromkeys((*known, *sorted(self.values)))]

    def _panel(self, name: str, runs: int | None) -> dict[str, Any]:
        own = self.values.get(name, {})
        values = [own[run] for run in sorted(own)]
        per = max(1, math.ceil((runs or len(values)) / MOST_VALUES))
        parts = [values[at : at + per] for at in range(0, len(values), per)]
        return {
            "name": name,
            "runs": runs,
            "done": len(values),
            "mean": round(sum(values) / len(values), 3) if values else None,
            "per": per,
            "values": [round(sum(part) / len(part), 3) for part in parts],
        }
