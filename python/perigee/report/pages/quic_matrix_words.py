# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The sentences of the page of the matrix of QUIC stacks."""

from __future__ import annotations

from collections.abc import Sequence

from perigee.matrix.cells import TUNED
from perigee.matrix.figures import GEO, LATE_US, WITHIN, Rank, Record, alike, figures, is_busy, is_full, order
from perigee.matrix.parties import BESIDE, parties
from perigee.matrix.running import WINDOW
from perigee.numbers import counted, number, signed

LONG = 1.8
"""Handshake beyond which a client takes another round trip, as a multiple of the fastest one's."""
SHARE = f"{100 * WITHIN:.0f} %"
NAMES = {one.name: one.title for one in parties()}


def answer(ranks: Sequence[Rank]) -> str:
    """Return which stack and control is the fastest over GEO, of how many, and on which machine.

    Args:
        ranks: of stacks, as `compared` returns them.
    """
    if not ranks:
        return "No stack of others has a number over a geostationary satellite yet."
    best, servers = ranks[0], {rank.cells[0]["server"] for rank in ranks}
    cells = [one for rank in ranks for one in rank.cells]
    busy = sum(map(is_busy, cells))
    on = f" Measured on a busy machine: {busy} of {counted(len(cells), 'cell')}." if busy else ""
    if len(servers) < 2:
        return f"1 stack measured over a geostationary satellite: no comparison. {_outcome(best)}.{on}"
    all_of = len(NAMES) - len(BESIDE)
    among = f"all {all_of} stacks" if len(servers) == all_of else f"the {len(servers)} stacks measured (of {all_of})"
    if best.cuts == len(best.cells):
        said = f"none of {among} had {size(cells[0])} {within(cells[0])}. Most arrived of {_outcome(best)}"
    elif len(tied := alike(ranks)) > 1:
        said = f"the fastest of {among} are a tie within {SHARE}: {'; '.join(map(_outcome, tied))}"
    else:
        both = " over both downloads" if len(best.cells) > 1 else ""
        said = f"the fastest of {among}{both} is {_outcome(best)}"
    return f"Over a geostationary satellite, {said}.{on}"


def _outcome(rank: Rank) -> str:
    return f"{who(rank.cells[0])}: {size(rank.cells[0])} {_times(rank)}"


def _times(rank: Rank) -> str:
    said = [in_time(rank.clean)] if rank.clean else []
    return ", ".join([*said, *([f"{in_time(rank.lossy)} with 1 % loss"] if rank.lossy else [])])


def near(ranks: Sequence[Rank]) -> list[str]:
    """Return which one is the fastest without loss, and which one is the slowest."""
    if len(ranks) < 2:
        return []
    tied, said = alike(ranks), []
    clean = [rank for rank in ranks if rank.clean]
    first = min(clean, key=lambda rank: order(rank.clean or {}), default=None)
    if first is not None and first not in tied:
        said.append(f"Fastest without loss alone: {who(first.cells[0])}, {in_time(first.cells[0])}.")
    last = ranks[-1]
    return [*said, *([f"Slowest: {_outcome(last)}."] if last not in tied else [])]


def beside(ranks: Sequence[Rank]) -> list[str]:
    """Return what TCP and our own QUIC do over the same links, a sentence each."""
    said = []
    for one in BESIDE:
        own = [rank for rank in ranks if rank.cells[0]["server"] == one.name]
        clauses = [f"{rank.cells[0]['control']} {_times(rank)}" for rank in own]
        said += [f"{one.title}: {'; '.join(clauses)}."] if clauses else []
    return said


def windows(records: Sequence[Record]) -> list[str]:
    """Return what a larger window of the client changes, where one download or both finished."""
    plain = {one["cell"]: one for one in records if not one["is_tuned"]}
    said, tried = [], 0
    for one in (record for record in records if record["is_tuned"]):
        same = plain.get(one["cell"].removesuffix(TUNED))
        if same is None or one["fault"] or same["fault"]:
            continue
        new, old = figures(one).completion_s, figures(same).completion_s
        tried += new is not None or old is not None
        if new and old and abs(new / old - 1) > WITHIN:
            said.append(f"{who(one)} {signed(100 * (new / old - 1), 0)} %")
        elif (new is None) != (old is None):
            said.append(f"{who(one)} ({in_time(one)}, {in_time(same)} without)")
    if not tried:
        return []
    found = "; ".join(said) or f"no stack's by more than {SHARE}"
    return [f"A window of {number(WINDOW / 1e6, 0)} MB at the client changes the time of: {found}."]


def handshakes(records: Sequence[Record]) -> list[str]:
    """Return clients whose handshake over GEO takes round trips more than that of others, whatever the server."""
    of: dict[str, list[float]] = {}
    for one in records:
        took_ms = figures(one).handshake_ms
        if one["link"] == GEO[0] and took_ms is not None:
            of.setdefault(one["client"], []).append(took_ms)
    least = min((min(several) for several in of.values()), default=0.0)
    return [
        f"The handshake of {title(client)}'s client takes {number(min(several), 0)} ms over GEO, with every server "
        f"tried; the fastest one here takes {number(least, 0)} ms."
        for client, several in of.items()
        if min(several) > LONG * least
    ]


def caveats(records: Sequence[Record], done: int, of: int) -> list[str]:
    """Return what limits the answer, a line each."""
    rounds = {len(one["rounds"]) for one in records if not one["fault"]}
    late = sum(figures(one).is_late for one in records)
    loaded = sum(any(each["load_before"] > one["cores"] for each in one["rounds"]) for one in records)
    dates = sorted(one["date"][:10] for one in records)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    said = [
        f"Measured {when}, with the versions below; another version may do otherwise.",
        "Each download was alone on its link: what it does to others there is not measured.",
    ]
    if rounds == {1}:
        said.append(
            "One download each, which may not repeat: measure the matrix into another folder, and compare both."
        )
    if done < of:
        said.append(f"Not whole: {of - done} of {counted(of, 'cell')} are missing.")
    if loaded:
        said.append(
            f"Other programs took time of this machine: its load was above its cores before {counted(loaded, 'cell')}."
        )
    full = sum(map(is_full, records))
    if full:
        said.append(f"The client's socket was full in {counted(full, 'cell')}: it lost packets that had arrived.")
    if late:
        busy = f"{number(LATE_US / 1000, 0)} ms"
        said.append(f"This machine was busy: in {counted(late, 'cell')} one packet in 100 left {busy} late or more.")
    return said


def title(name: str) -> str:
    """Return the title of a server or client."""
    return NAMES.get(name, name)


def who(record: Record) -> str:
    """Return a server with its control, and its client where that is of another stack."""
    server, client = title(record["server"]), title(record["client"])
    return f"{server} with {record['control']}{'' if server == client else f', to the client of {client}'}"


def in_time(record: Record) -> str:
    """Return in which time it came, or that it did not."""
    if record["fault"]:
        return "a fault"
    found = figures(record)
    return f"not {within(record)}" if found.completion_s is None else f"in {number(found.completion_s, 1)} s"


def within(record: Record) -> str:
    """Return the limit of a download."""
    return f"within {record['limit_s']:g} s"


def size(record: Record) -> str:
    """Return the size of a download."""
    return f"{number(record['size_bytes'] / 1e6, 0)} MB"
