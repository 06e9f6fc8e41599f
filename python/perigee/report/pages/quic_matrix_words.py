# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The sentences of the page of the matrix of QUIC stacks."""

from __future__ import annotations

from collections.abc import Sequence

from perigee.matrix.cells import TUNED
from perigee.matrix.figures import LATE_US, WITHIN, Rank, Record, download_s, figures, ranked
from perigee.matrix.parties import BESIDE, parties
from perigee.matrix.running import WINDOW
from perigee.numbers import counted, number, signed

SHARE = f"{100 * WITHIN:.0f} %"
NAMES = {one.name: one.title for one in parties()}


def answer(ranks: Sequence[Rank]) -> str:
    """Return which stack and control to take over GEO."""
    if not ranks:
        return "Nothing was measured over a geostationary satellite yet."
    best = ranks[0]
    said = f"Over a geostationary satellite take {who(best.clean)}: {size(best.clean)} {in_time(best.clean)}"
    return f"{said}{f', and {in_time(best.lossy)} with 1 % loss' if best.lossy else ''}."


def near(ranks: Sequence[Rank]) -> list[str]:
    """Return which others are about as good, which one is faster without loss, and which one is the slowest."""
    if len(ranks) < 2:
        return []
    best, *rest = ranks
    alike = [rank for rank in rest if rank.total_s <= (1 + WITHIN) * best.total_s]
    said = [f"About as good, within {SHARE}: {'; '.join(who(rank.clean) for rank in alike)}."] if alike else []
    first = min(ranks, key=lambda rank: download_s(rank.clean) or 0)
    if first not in (best, *alike):
        said.append(f"Fastest without loss alone: {who(first.clean)}, {in_time(first.clean)}.")
    last = rest[-1]
    if last not in alike:
        lossy = f", and {in_time(last.lossy)} with 1 % loss" if last.lossy else ""
        said.append(f"Slowest: {who(last.clean)}: {in_time(last.clean)}{lossy}.")
    return said


def beside(records: Sequence[Record]) -> list[str]:
    """Return what TCP and our own QUIC do over the same links, a sentence each."""
    said = []
    for one in BESIDE:
        own = [rank for rank in ranked(records) if rank.clean["server"] == one.name]
        clauses = [
            f"{rank.clean['control']} {in_time(rank.clean)}{f', {in_time(rank.lossy)} with loss' if rank.lossy else ''}"
            for rank in own
        ]
        said += [f"{one.title}: {'; '.join(clauses)}."] if clauses else []
    return said


def windows(records: Sequence[Record]) -> list[str]:
    """Return what a larger window of the client changes."""
    plain = {one["cell"]: one for one in records if not one["is_tuned"]}
    changed: dict[str, float] = {}
    for one in records:
        same = plain.get(one["cell"].removesuffix(TUNED))
        times = download_s(one), download_s(same) if same else None
        if one["is_tuned"] and times[0] and times[1]:
            changed[who(one)] = times[0] / times[1] - 1
    if not changed:
        return []
    said = [f"{who} {signed(100 * share, 0)} %" for who, share in changed.items() if abs(share) > WITHIN]
    found = "; ".join(said) or f"no stack's by more than {SHARE}"
    return [f"A window of {number(WINDOW / 1e6, 0)} MB at the client changes the time of: {found}."]


def caveats(records: Sequence[Record], done: int, of: int) -> list[str]:
    """Return what limits the answer, a line each."""
    rounds = {len(one["rounds"]) for one in records if not one["fault"]}
    late = sum(figures(one).is_late for one in records)
    loaded = sum(any(each["load_before"] > one["cores"] for each in one["rounds"]) for one in records)
    dates = sorted(one["date"][:10] for one in records)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    said = [f"Measured {when}, with the versions below; another version may do otherwise."]
    if rounds == {1}:
        said.append("One download each: repeat the matrix into another folder, and compare both.")
    if done < of:
        said.append(f"Not whole: {of - done} of {counted(of, 'cell')} are missing.")
    if loaded:
        said.append(
            f"Other programs took time of this machine: its load was above its cores before {counted(loaded, 'cell')}."
        )
    full = sum(any(each.get("socket_drops") for each in one["rounds"]) for one in records)
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
    found = figures(record)
    if found.completion_s is not None:
        return f"in {number(found.completion_s, 1)} s"
    return f"not within {record['limit_s']:g} s"


def size(record: Record) -> str:
    """Return the size of a download."""
    return f"{number(record['size_bytes'] / 1e6, 0)} MB"
