# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A view of graphs over time: curves (runs and their flows) and quantities, as the address of a page names them.

A curve is `RUN`, `RUN:FLOW`, or `RESULTS/RUN:FLOW` of other results; a quantity is `TABLE.COLUMN`, or
`TABLE.COLUMN:NAME` of one link or proxy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from perigee.errors import InputError
from perigee.laboratory.graphs import Asked, Graph, Graphs, Part, empty_columns, kind_of, names_in, packed, quantities
from perigee.laboratory.runs import Runs, told_apart
from perigee.store.schema import is_table

MOST_CURVES = 24
MOST_QUANTITIES = 8
MOST_FLOWS = 8
"""Flows of a run that are drawn where none is named."""
FIRST_RUNS = 6
FIRST = ("series.goodput_mbps", "series.rtt_mean_ms", "series.cwnd_packets")
"""The quantities drawn first where none is named; else the first one that the results have."""
DASHES: tuple[tuple[int, ...], ...] = ((), (7, 4), (2, 3), (9, 3, 2, 3), (5, 2))

TITLES = {
    "series.goodput_mbps": "Throughput",
    "series.acked_bytes": "Acknowledged since the beginning",
    "series.cwnd_packets": "Congestion window",
    "series.ssthresh_packets": "Slow start threshold",
    "series.srtt_ms": "Smoothed round-trip time",
    "series.rtt_mean_ms": "Round-trip time",
    "series.inflight_packets": "In flight",
    "series.sent_packets": "Sent in an interval",
    "series.retransmitted_packets": "Retransmitted in an interval",
    "series.pacing_mbps": "Pacing rate",
    "links.offered_packets": "Arriving in an interval",
    "links.offered_bytes": "Arriving in an interval",
    "links.delivered_packets": "Delivered in an interval",
    "links.delivered_bytes": "Delivered in an interval",
    "links.dropped_packets": "Dropped or lost in an interval",
    "links.dropped_queue_full_packets": "Dropped by a full queue",
    "links.dropped_aqm_packets": "Dropped by queue management",
    "links.lost_packets": "Lost on the air",
    "links.queue_bytes": "Queue",
    "links.rate_mbps": "Service rate",
    "proxies.connections": "Open connections",
    "proxies.unread_bytes": "Unread in receive buffers",
    "proxies.held_bytes": "Held",
    "proxies.held_max_bytes": "Largest amount held so far",
    "milestones.bytes": "Delivered",
    "events.sequence": "Sequence",
    "events.segment_bytes": "Size of segments",
    "events.cwnd_packets": "Congestion window",
    "events.ssthresh_packets": "Slow start threshold",
    "events.inflight_packets": "In flight",
    "events.sacked_packets": "Selectively acknowledged",
    "events.lost_packets": "Marked lost",
    "events.clamp_packets": "Bound of the congestion window",
    "events.snd_nxt_bytes": "Next byte to send",
    "events.rtt_ms": "Round-trip time",
    "events.srtt_ms": "Smoothed round-trip time",
    "events.rttvar_ms": "Mean deviation of the round-trip time",
    "events.rto_ms": "Retransmission timeout",
    "events.receive_window_bytes": "Receive window",
    "events.pacing_mbps": "Pacing rate",
    "losses.packets": "Lost in a row",
    "losses.since_packets": "Sent since the loss before",
    "losses.offset_bytes": "First byte lost",
    "segments.sequence": "Sequence",
    "segments.segment_bytes": "Size of segments",
    "segments.receive_window_bytes": "Receive window",
}
"""Names of quantities; others are named by the words of their column."""
UNITS = {"mbps": "Mbit/s", "bytes": "B", "sequence": "B", "ms": "ms", "us": "µs", "s": "s", "percent": "%"}
"""The unit by the last word of a column; packets have their name."""
TABLES = {
    "series": "Flows",
    "events": "TCP log",
    "segments": "Time sequence of captures",
    "losses": "Losses of captures",
    "milestones": "Milestones",
}
"""Names of the tables of flows in the menu, in its order; tables of links and proxies by these."""
SCALES = {
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")),
    "Mbit/s": ((1e3, "Gbit/s"), (1.0, "Mbit/s"), (1e-3, "kbit/s")),
    "µs": ((1e6, "s"), (1e3, "ms")),
}
"""For each unit: the largest value from which another is used, and that."""

Open = Callable[[str], Path]
"""Returns the folder of results by their name."""


@dataclass(frozen=True)
class Quantity:
    """A quantity over time, one panel of a view.

    Attributes:
        table: its table.
        column: its column.
        name: the link or proxy; empty: the flows of the curves, or all links or proxies.
    """

    table: str
    column: str
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity of an address.

        Raises:
            InputError: it is none.
        """
        found = re.fullmatch(r"([a-z_]+)\.([a-z0-9_]+)(?::(.+))?", text)
        if found is None:
            raise InputError(f"{text[:80]}: no quantity over time")
        return cls(found[1], found[2], found[3] or "")

    @property
    def key(self) -> str:
        """As an address has it."""
        return f"{self.table}.{self.column}" + (f":{self.name}" if self.name else "")

    @property
    def title(self) -> str:
        """The title, without its unit.

        Examples:
            >>> Quantity("links", "queue_bytes", "satellite.down").title, Quantity("series", "new_thing_ms").title
            ('Queue of satellite.down', 'New thing')
        """
        words = self.column.split("_")
        plain = " ".join(words[:-1] if self.unit and len(words) > 1 else words).capitalize()
        return TITLES.get(f"{self.table}.{self.column}", plain) + (f" of {self.name}" if self.name else "")

    @property
    def unit(self) -> str:
        """The unit of its values; empty for plain numbers."""
        last = self.column.rpartition("_")[2]
        return last if last == "packets" else UNITS.get(last, "")

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def scaled(self, largest: float) -> tuple[str, float]:
        """Return the unit that suits values up to a largest one, and how much of the column's unit it is.

        Examples:
            >>> Quantity("links", "queue_bytes").scaled(2.5e6), Quantity("series", "cwnd_packets").scaled(9e4)
            (('MB', 1000000.0), ('packets', 1.0))
        """
        for bound, unit in SCALES.get(self.unit, ()):
            if largest >= bound:
                return unit, bound
        return self.unit, 1.0


@dataclass(frozen=True)
class Curve:
    """A run, or a flow of it.

    Attributes:
        results: their name.
        run: number of the run.
        flow: the flow; empty: all, up to `MOST_FLOWS`.
        leg: its leg, where a proxy splits it; 0: from end to end.
    """

    results: str
    run: int
    flow: str = ""
    leg: int = 0

    @classmethod
    def parse(cls, text: str, here: str) -> Curve:
        """Read a curve of an address, where results are named unless they are those of the page.

        Raises:
            InputError: it is none.

        Examples:
            >>> Curve.parse("12", "one"), Curve.parse("two/3:main~2", "one").key("one")
            (Curve(results='one', run=12, flow='', leg=0), 'two/3:main~2')
        """
        place, _, flow = text.partition(":")
        results, _, run = place.rpartition("/")
        if not re.fullmatch("[0-9]{1,9}", run):
            raise InputError(f"{text[:80]}: no number of a run")
        split = re.fullmatch(r"(.+)~([1-9][0-9]{0,2})", flow)
        return cls(results or here, int(run), split[1] if split else flow, int(split[2]) if split else 0)

    def key(self, here: str) -> str:
        """Return it as an address has it."""
        flow = f"{self.flow}~{self.leg}" if self.leg else self.flow
        return "".join([f"{self.results}/" if self.results != here else "", str(self.run), f":{flow}" if flow else ""])


@dataclass(frozen=True)
class View:
    """The content of a page.

    Attributes:
        here: the results of the page.
        curves: what is drawn.
        quantities: in which panels.
        span: the times between which, in seconds; none: whole runs.
    """

    here: str
    curves: tuple[Curve, ...]
    quantities: tuple[Quantity, ...]
    span: tuple[float, float] | None = None

    def query(self) -> list[tuple[str, str]]:
        """Return the view as an address has it behind `?`."""
        curves = [("run", curve.key(self.here)) for curve in self.curves]
        return curves + [("what", quantity.key) for quantity in self.quantities]

    def without(self, one: Curve | Quantity) -> View:
        """Return the view without a curve or a quantity."""
        return View(
            self.here,
            tuple(curve for curve in self.curves if curve != one),
            tuple(quantity for quantity in self.quantities if quantity != one),
            self.span,
        )


@dataclass
class Line:
    """A line with one look in all panels, and one row of the table of values.

    Attributes:
        label: what it is.
        curve: number of the curve of the view that it belongs to.
        algorithm: its congestion control; empty where it has none, or several.
        look: number of its colour, see `perigee.groups.looks.look`; none: the colour of the text.
        dash: lengths of strokes and gaps, in pixels; empty: no gaps.
    """

    label: str
    curve: int
    algorithm: str
    look: int | None = None
    dash: tuple[int, ...] = ()


@dataclass
class Panel:
    """A quantity with its traces.

    Attributes:
        quantity: the quantity.
        is_dotted: whether samples are events of their own, which no line connects.
        traces: of each its line, its graph and its part there.
    """

    quantity: Quantity
    is_dotted: bool = False
    traces: list[tuple[Line, Graph, Part]] = field(default_factory=list)


class Shown:
    """A view with its samples, as far as they are read.

    Args:
        view: what is shown.
        runs: the runs of all results of the view.
        open_results: returns the folder of results.
        graphs: the graphs in memory.
        for_s: how long to read.

    Raises:
        InputError: there is no such run, flow or quantity, or it cannot be read.
    """

    def __init__(self, view: View, runs: Mapping[str, Runs], open_results: Open, graphs: Graphs, for_s: float) -> None:
        self._view, self._runs = view, runs
        self._lines: dict[str, Line] = {}
        self.panels = [Panel(quantity) for quantity in view.quantities]
        whole = [len(runs[curve.results].flows(curve.run)) for curve in view.curves if not curve.flow]
        self.left_out = sum(max(0, count - MOST_FLOWS) for count in whole)
        asked = {
            (panel, one): wanted
            for panel, quantity in enumerate(view.quantities)
            for one in dict.fromkeys((curve.results, curve.run) for curve in view.curves)
            if (wanted := self._asked(open_results(one[0]), quantity, one)) is not None
        }
        # Two panels may show links of one name and the same quantity.
        distinct = list(dict.fromkeys(asked.values()))
        found = dict(zip(distinct, graphs.get(distinct, for_s), strict=True))
        self._graphs = list(found.values())
        for (panel, one), which in asked.items():
            self._add(self.panels[panel], one, found[which])
        self._give_looks()

    @property
    def lines(self) -> list[Line]:
        """Return the curves drawn, one after another."""
        return sorted(self._lines.values(), key=lambda line: line.curve)

    @property
    def share_read(self) -> float:
        """The share of the tables that is read, 0 to 1."""
        return sum(graph.share_read for graph in self._graphs) / max(len(self._graphs), 1)

    @property
    def samples(self) -> int:
        """The number of samples."""
        return sum(graph.samples for graph in self._graphs)

    @property
    def span_s(self) -> tuple[float, float]:
        """The times of the first and the last sample of all runs."""
        spans = [graph.span_s for graph in self._graphs if graph.samples or graph.share_read < 1]
        return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else (0.0, 1.0)

    def envelopes(self, from_s: float, to_s: float, columns: int) -> Iterator[tuple[Panel, list[bytes]]]:
        """Yield each panel with the envelopes of its traces."""
        of_graph = {id(graph): graph.envelopes(from_s, to_s, columns) for graph in self._graphs}
        for panel in self.panels:
            yield panel, [of_graph[id(graph)][part] for _, graph, part in panel.traces]

    def packed(self, from_s: float, to_s: float, columns: int) -> bytes:
        """Return the view for a browser, see `perigee.laboratory.graphs.packed`."""
        share_read, (first, last), lines = self.share_read, self.span_s, self.lines
        panels, envelopes = [], []
        for panel, traces in self.envelopes(from_s, to_s, columns):
            unit, scale = panel.quantity.scaled(largest(traces))
            panels.append(
                {
                    "unit": unit,
                    "scale": scale,
                    "dotted": panel.is_dotted,
                    "traces": [lines.index(line) for line, _, _ in panel.traces],
                }
            )
            envelopes += traces
        head = {
            "from": from_s,
            "to": to_s,
            "first": first,
            "last": last,
            "columns": columns,
            "samples": self.samples,
            "read": share_read,
            "left_out": self.left_out,
            "lines": [
                {"label": line.label, "curve": line.curve, "look": line.look, "dash": line.dash} for line in lines
            ],
            "panels": panels,
        }
        return packed(head, envelopes)

    def _asked(self, folder: Path, quantity: Quantity, one: tuple[str, int]) -> Asked | None:
        """Return what to read of a run; nothing where its results have no rows in the table."""
        path = folder / f"{quantity.table}.parquet"
        if is_table(quantity.table) and not os.path.lexists(path):
            return None
        if not path.is_file() or path.is_symlink():
            raise InputError(f"{quantity.table[:80]}: no such table")
        if kind_of(path) != "flow":
            return Asked(path, one[1], quantity.column, (quantity.name,) if quantity.name else ())
        if quantity.name:
            raise InputError(f"{quantity.key[:80]}: no quantity of a link")
        return Asked(path, one[1], quantity.column, tuple(sorted(self._flows(one))))

    def _flows(self, one: tuple[str, int]) -> set[str]:
        """Return the names of the flows of a run that are drawn."""
        there = self._runs[one[0]].flows(one[1])
        names: set[str] = set()
        for curve in self._curves(one):
            if curve.flow and curve.flow not in there:
                raise InputError(f"{curve.flow[:80]}: no flow of that run")
            names |= {curve.flow} if curve.flow else set(there[:MOST_FLOWS])
        return names

    def _curves(self, one: tuple[str, int]) -> list[Curve]:
        return [curve for curve in self._view.curves if (curve.results, curve.run) == one]

    def _add(self, panel: Panel, one: tuple[str, int], graph: Graph) -> None:
        """Add the traces of a run to a panel."""
        panel.is_dotted = graph.is_dotted
        self.left_out += graph.left_out
        parts = [part for part in graph.parts if graph.has_samples(part)]
        runs, run = self._runs[one[0]], one[1]
        suffix = f", {one[0]}" if len(self._runs) > 1 else ""
        if not graph.is_of_flows:
            place = self._view.curves.index(self._curves(one)[0])
            for part in parts:
                words = [] if panel.quantity.name else [part.name]
                # The links of a run with one flow have the look of that flow.
                only = runs.label_of(run, Part(runs.flows(run)[0])) if runs.flows(run) else ""
                algorithm = runs.algorithm(run)
                label = only if not words and len(runs.flows(run)) == 1 else told_apart(runs.label(run), words)
                panel.traces.append((self._line(label + suffix, place, algorithm), graph, part))
            return
        taken: set[Part] = set()
        for curve in self._curves(one):
            place = self._view.curves.index(curve)
            for part in self._of_curve(curve, parts):
                if part not in taken:
                    taken.add(part)
                    label = runs.label_of(run, part) + suffix
                    panel.traces.append((self._line(label, place, runs.algorithm(run, part)), graph, part))

    def _of_curve(self, curve: Curve, parts: Sequence[Part]) -> list[Part]:
        """Return the parts of a curve: where a flow has no samples from end to end, those of its legs."""
        if curve.leg:
            return [part for part in parts if (part.name, part.leg) == (curve.flow, curve.leg)]
        names = [curve.flow] if curve.flow else self._runs[curve.results].flows(curve.run)[:MOST_FLOWS]
        found = []
        for name in names:
            own = [part for part in parts if part.name == name]
            found += [part for part in own if not part.leg] or own
        return found

    def _line(self, label: str, curve: int, algorithm: str) -> Line:
        return self._lines.setdefault(label, Line(label, curve, algorithm))

    def _give_looks(self) -> None:
        """Give lines the colours of reports: by algorithm; where all have the same one, each a colour of its own."""
        lines = self.lines
        places = self._places(list(dict.fromkeys(line.algorithm for line in lines if line.algorithm)))
        count: dict[int | None, int] = {}
        for number, line in enumerate(lines):
            line.look = places.get(line.algorithm) if len(places) > 1 or len(lines) == 1 else number
            again = count[line.look] = count.get(line.look, -1) + 1
            line.dash = DASHES[again % len(DASHES)]

    def _places(self, algorithms: Sequence[str]) -> dict[str, int]:
        """Return the place of each algorithm in the palette: as in the report of the results of the page."""
        return {algorithm: self._runs[self._view.here].place_of(algorithm) for algorithm in algorithms}


def largest(envelopes: Sequence[bytes]) -> float:
    """Return the largest value of envelopes; 0 without any."""
    most = 0.0
    for envelope in envelopes:
        values = np.frombuffer(envelope)
        values = values[~np.isnan(values)]
        most = max(most, float(np.abs(values).max())) if values.size else most
    return most


def offered(folder: Path, tables: Mapping[str, Any]) -> dict[str, list[Quantity]]:
    """Return the quantities over time of results by the table, link or proxy that they are of, as a menu has them."""
    found: dict[str, list[Quantity]] = {}
    order = {name: place for place, name in enumerate(TABLES)}
    for table in sorted(tables, key=lambda name: (order.get(name, len(order)), name)):
        path = folder / f"{table}.parquet"
        if not path.is_file() or path.is_symlink() or not tables[table]["rows"]:
            continue
        empty = empty_columns(path)
        columns = [column for column in quantities(path) if column not in empty]
        kind = kind_of(path)
        if columns and kind == "flow":
            found[TABLES.get(table, table.capitalize())] = [Quantity(table, column) for column in columns]
        elif columns and kind is not None:
            for name in names_in(path):
                found[f"{kind.capitalize()} {name}"] = [Quantity(table, column, name) for column in columns]
    return found


def first_view(here: str, runs: Runs, there: Sequence[Quantity]) -> View:
    """Return what is shown where an address names nothing."""
    keys = {quantity.key: quantity for quantity in there}
    chosen = tuple(keys[key] for key in FIRST if key in keys) or tuple(there[:1])
    return View(here, tuple(Curve(here, run) for run in runs.first(FIRST_RUNS)), chosen)


def checked(view: View, runs: Mapping[str, Runs]) -> View:
    """Return a view.

    Raises:
        InputError: it has too many curves or quantities, or a run that is not in its results.
    """
    if len(view.curves) > MOST_CURVES:
        raise InputError(f"{len(view.curves)} runs and flows: at most {MOST_CURVES} in one graph; take some away")
    if len(view.quantities) > MOST_QUANTITIES:
        raise InputError(f"{len(view.quantities)} quantities: at most {MOST_QUANTITIES} at once; take some away")
    if wrong := [curve.run for curve in view.curves if curve.run not in runs[curve.results]]:
        raise InputError(f"run {wrong[0]}: not in these results; choose one from the list")
    return view
