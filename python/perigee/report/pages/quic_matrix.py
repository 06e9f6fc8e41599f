# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page of the matrix of QUIC stacks: which stack and which control over GEO, then every cell and every fault."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import polars as pl
from matplotlib.figure import Figure

from perigee.groups.looks import other
from perigee.matrix.cells import TUNED
from perigee.matrix.figures import Rank, Record, compared, figures, order, ranked
from perigee.matrix.links import LINKS
from perigee.matrix.parties import BESIDE
from perigee.numbers import counted, number
from perigee.report import html
from perigee.report.csv_text import csv_text
from perigee.report.legends import legend_above
from perigee.report.markdown import markdown
from perigee.report.model import Listing, Plot, Report, Section, Short, Table, Text
from perigee.report.pages import quic_matrix_words as words
from perigee.report.pages.parts import table
from perigee.report.style import figure, styled

TITLES = {link.name: link.title for link in LINKS}
APART = {one.name for one in BESIDE}
HEAD = (
    "Server", "Client", "Control", "Done in (s)", "Goodput (Mbit/s)", "Until the cut (Mbit/s)", "Handshake (ms)",
    "Retransmitted (%)", "Dropped (%)",
)  # fmt: skip
UNTIL = HEAD.index("Until the cut (Mbit/s)")
CUT = ">: cut at this limit; how long it would take is not known."
CUT_MARK = ">"
ROW_IN = 0.19
HOW = (
    "Each cell is a download of one file whose bytes are compared. Server and client are programs of their stack, "
    "in a network of their own; packets cross the emulated link in real time, and the clock begins with the client's "
    "first packet. Goodput is bytes of the file per time, of a download that finished. One that was cut has instead "
    "what arrived per time until then: of programs payload of UDP, headers of QUIC and repetitions included, of TCP "
    "and Perigee's QUIC bytes of the file. Cut ones stand after those that finished, ordered by this rate. The "
    "handshake lasts until the client's first packet after the server's answer. From outside nobody can tell which "
    "packets of an encrypted connection are sent again: that column is empty there. Dropped are packets towards the "
    "client, by the queue and the link."
)
TCP = (
    "TCP and Perigee's own QUIC are flows of the emulator over the same link. TCP carries no TLS here: over a "
    "connection of HTTPS its handshake is a round trip longer. The proxy has its client's connection at the gateway, "
    "and sends over the satellite with the control that is named."
)


def written(records: Sequence[Record], done: int, of: int, command: str) -> dict[str, str]:
    """Return the files of the results, by their names.

    Args:
        records: all that was measured.
        done: how many cells of those asked for have a result.
        of: how many were asked for.
        command: the last one; earlier ones may have measured cells, too.
    """
    with styled():
        made = report(records, done, of, command)
        page = html.render(made)
    whole = {"last_command": command, "cells": records}
    return {
        "matrix.json": json.dumps(whole, indent=1, ensure_ascii=False),
        "matrix.csv": csv_text(_data(records)),
        "report.md": markdown(made),
        "report.html": page,
    }


def report(records: Sequence[Record], done: int, of: int, command: str) -> Report:
    """Return the content of the page, see `written`."""
    faults = [one for one in records if one["fault"]]
    several = [(link, [one for one in records if one["link"] == link.name]) for link in LINKS]
    sections = [
        Section(link.name, link.title, [_table(link.name, f"A download of {words.size(cells[0])}, all servers", cells)])
        for link, cells in several
        if cells
    ]
    if faults:
        sections.insert(0, Section("faults", f"Faults of stacks: {len(faults)}", _faults(faults)))
    sections.append(Section("reading", "How to read this", [Text(HOW), Text(TCP)]))
    ranks, stacks = ranked(records), _of_stacks(records)
    return Report(
        title="QUIC stacks over satellite links",
        question="Which QUIC stack, and which congestion control, to take over a geostationary satellite?",
        facts=[],
        short=Short(
            answer=headline(records),
            caveats=words.caveats(records, done, of),
            lines=[*words.near(stacks), *words.beside(ranks), *words.windows(records), *words.handshakes(records)],
            blocks=[*_figure(ranks), *_short_table(ranks)],
        ),
        sections=sections,
        made=_made(records, command),
    )


def headline(records: Sequence[Record]) -> str:
    """Return the answer of the page, a sentence or two."""
    return words.answer(_of_stacks(records))


def _of_stacks(records: Sequence[Record]) -> list[Rank]:
    """Return the stacks of others that can be compared, best first."""
    return compared([rank for rank in ranked(records) if rank.cells[0]["server"] not in APART])


def _own(ranks: Sequence[Rank]) -> list[Rank]:
    """Return those with their own client."""
    return [rank for rank in ranks if rank.cells[0]["server"] == rank.cells[0]["client"]]


def _made(records: Sequence[Record], command: str) -> list[tuple[str, str]]:
    versions: dict[str, set[str]] = {}
    for one in records:
        for name, version in one["versions"].items():
            versions.setdefault(name, set()).add(version)
    own = {"perigee": "Perigee", "kernel": "Linux"}
    said = [(own.get(name) or words.title(name), ", ".join(sorted(several))) for name, several in versions.items()]
    of = f"of one command or several; `again` in matrix.csv repeats each of these {len(records)}"
    return [
        ("Last command", command),
        ("Cells", of),
        ("Cores", ", ".join(sorted({str(one["cores"]) for one in records}))),
        *said,
    ]


def _faults(faults: Sequence[Record]) -> list[Table | Listing]:
    rows = [[one["cell"], one["fault"]["fault"], f"`{one['again']}`"] for one in faults]
    found: list[Table | Listing] = [
        table("faults", "Programs that failed, without a number", ["Cell", "What", "Again"], rows, words=(1, 2))
    ]
    found += [Listing(f"{one['cell']}: last words", one["fault"]["said"]) for one in faults if one["fault"]["said"]]
    return found


def _short_table(ranks: Sequence[Rank]) -> list[Table]:
    """Return the table of the first screen: who downloads over GEO in which time."""
    own = _own(ranks)
    if not own:
        return []
    rows = [
        [
            words.title(rank.cells[0]["server"]), rank.cells[0]["control"], _cell_s(rank.clean), _cell_s(rank.lossy),
            number(figures(rank.cells[0]).handshake_ms, 0),
        ]
        for rank in own
    ]  # fmt: skip
    head = ["Stack, with its own client", "Control", "No loss (s)", "1 % loss (s)", "Handshake (ms)"]
    notes = [CUT] if any(rank.cuts for rank in own) else []
    caption = f"A download of {words.size(own[0].cells[0])} over GEO"
    return [table("geo-short", caption, head, rows, words=(1,), lead=2, notes=notes)]


def _table(name: str, caption: str, records: Sequence[Record]) -> Table:
    """Return all cells of a link, the fastest first."""
    ordered = sorted(records, key=order)
    rows = []
    for one in ordered:
        found = figures(one)
        control = one["control"] + (TUNED if one["is_tuned"] else "")
        until = None if found.completed else found.throughput_mbps
        rates = (found.goodput_mbps, 2), (until, 2), (found.handshake_ms, 0)
        shares = (found.retransmitted_percent, 2), (found.lost_percent, 2)
        ends = [words.title(one["server"]), words.title(one["client"]), control, _cell_s(one, 2)]
        rows.append([*ends, *(number(value, digits) for value, digits in (*rates, *shares))])
    head, notes = list(HEAD), [CUT]
    if all(order(one)[0] != 1 for one in records):
        notes = []
        for row in (head, *rows):
            del row[UNTIL]
    return table(f"cells-{name}", caption, head, rows, words=(1, 2), lead=3, data=_data(ordered), notes=notes)


def _data(records: Sequence[Record]) -> pl.DataFrame:
    """Return a row for each download, with what makes it citable."""
    keys = ("cell", "server", "client", "link", "control", "is_tuned", "size_bytes", "limit_s", "date", "again")
    rows = [
        {key: one[key] for key in keys}
        | {
            "server_version": one["versions"].get(one["server"]),
            "client_version": one["versions"].get(one["client"]),
            "kernel": one["versions"]["kernel"],
            "perigee": one["versions"]["perigee"],
            "fault": one["fault"]["fault"] if one["fault"] else None,
        }
        | each
        for one in records
        for each in (one["rounds"] or [{}])
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _figure(ranks: Sequence[Rank]) -> list[Plot]:
    """Return the figure of the first screen: times over GEO without and with loss."""
    own = [rank for rank in _own(ranks) if not rank.has_fault]
    if not own:
        return []
    rows = [
        {
            "stack": words.title(each["server"]),
            "control": each["control"],
            "link": each["link"],
            "completion_s": figures(each).completion_s,
            "cut_at_s": each["limit_s"] if figures(each).completion_s is None else None,
        }
        for rank in own
        for each in rank.cells
    ]
    return [
        Plot.of(
            "geo",
            f"Time of a download of {words.size(own[0].cells[0])} over GEO, with each stack's own client; an arrow "
            "stands at the limit of one that was cut.",
            f"{counted(len(own), 'stack and control')}, the fastest first",
            partial(_draw, own),
            data=pl.DataFrame(rows, infer_schema_length=None),
        )
    ]


def _draw(ranks: Sequence[Rank], width_in: float) -> Figure:
    drawing = figure(0.8 + ROW_IN * len(ranks), width_in)
    axes = drawing.subplots()
    over: dict[str, list[Record | None]] = {
        "without loss": [rank.clean for rank in ranks],
        "1 % loss": [rank.lossy for rank in ranks],
    }
    for place, (label, cells) in enumerate(over.items()):
        look = other(place)
        times = [(figures(one).completion_s, row) for row, one in enumerate(cells) if one]
        done = [time for time in times if time[0] is not None]
        cut = [(one["limit_s"], row) for row, one in enumerate(cells) if one and figures(one).completion_s is None]
        # Both arrows of a row stand at the same limit: the second one is larger.
        for points, marker, face, size, said in (
            (done, look.marker, look.color, 6, label),
            (cut, CUT_MARK, "none", 5 + 4 * place, f"{label}, cut"),
        ):
            if points:
                values, rows = zip(*points, strict=True)
                axes.plot(values, rows, ls="", marker=marker, color=look.color, mfc=face, label=said, ms=size, zorder=3)
    axes.set_xlim(left=0)
    axes.set_xlabel("Time of the download (s)  ← better")
    names = [f"{words.title(one.cells[0]['server'])}, {one.cells[0]['control']}" for one in ranks]
    axes.set_yticks(range(len(ranks)), names)
    axes.set_ylim(len(ranks) - 0.5, -0.5)
    legend_above(drawing, axes)
    return drawing


def _cell_s(record: Record | None, digits: int = 1) -> str:
    """Return the time of a download; of one that was cut, the bound that was measured."""
    if record is None:
        return number(None)
    if record["fault"]:
        return "fault"
    found = figures(record)
    return number(found.completion_s, digits) if found.completed else f"> {record['limit_s']:g}"
