# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Contradictions between what the manifest says of the files and what they say themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from perigee.campaigns.manifest import Manifest
from perigee.campaigns.plan import Recording
from perigee.campaigns.reading import Seen, shortfall
from perigee.errors import InputError
from perigee.numbers import counted, number

ALIKE = 0.02
"""Two recordings of one transfer differ by less than this share of its payload."""
CLEARLY_LESS = 0.1
"""A transfer that is not taken carried less than this share of the smallest that is."""
MOST_SHOWN = 50


def check(manifest: Manifest, runs: Sequence[tuple[Sequence[Recording], Sequence[Seen]]]) -> None:
    """Refuse a manifest that the files contradict.

    Args:
        manifest: the manifest.
        runs: of each run its files, and what those say that stand for themselves (the first of a capture in parts).

    Raises:
        InputError: with all contradictions, each with its file and its fix.
    """
    found: list[str] = []
    transfers: dict[str, str] = {}
    for files, said in runs:
        by_name = {one.name: one for one in files}
        for seen in said:
            found += _of_file(by_name[seen.name], seen, manifest)
            other = transfers.setdefault(seen.identity, seen.name) if seen.identity else seen.name
            if other != seen.name:
                is_capture = by_name[seen.name].kind == "capture"
                what, how = ("transfer", "ends and instants") if is_capture else ("content", "bytes")
                found.append(
                    f"{seen.name}: has the same {what} as {other} (the same {how}), and stands for another recording; "
                    "leave one of the files out with `except`"
                )
        found += _of_run(said)
    if found:
        more = f"\n... and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
        head = f"{manifest.path}: the files contradict it, or each other, {counted(len(found), 'time')}"
        kept = "what was read is kept, so that the same command takes seconds once it is corrected"
        raise InputError("\n".join([f"{head}; {kept}:", *found[:MOST_SHOWN]]) + more)


def algorithm(one: Recording, seen: Sequence[Seen]) -> str:
    """Return the congestion control of a flow: as the manifest has it, or else a file that names it; empty: unknown."""
    return one.said.get("cc") or next((cc for own in seen if own.flow == one.flow for cc in own.cc), "")


def _of_file(one: Recording, seen: Seen, manifest: Manifest) -> Iterator[str]:
    for fault in seen.faults:
        yield f"{one.name}: {fault}, and its transfer did not end; leave it out with `except` of {one.where}"
    for word, known, how in (
        ("cc", seen.cc, "iperf3 says"),
        ("direction", seen.directions, "its data go" if one.kind == "capture" else "iperf3 says"),
        ("place", (seen.place,) if seen.place else (), "it was captured at the"),
    ):
        said = one.said.get(word)
        if said and known and (said,) != tuple(known) and not (word == "place" and said == "between"):
            yield f"{one.name}: `{word}` is {said}, but {how} {' and '.join(known)}; {_fix(one, word, known[0])}"
    if one.began_unix_s is not None and seen.began_unix_s is not None:
        late_s = seen.began_unix_s - one.began_unix_s
        if abs(late_s) > manifest.time_within_s:
            yield (
                f"{one.name}: its name says {_stamp(one.began_unix_s)}, but its first packet is of "
                f"{_stamp(seen.began_unix_s)}, {_apart(late_s)} {'later' if late_s > 0 else 'earlier'}; correct "
                f"`zone`, `time` of {one.where}, or `time_within`"
            )
    if seen.largest_left > CLEARLY_LESS * seen.smallest_taken:
        yield (
            f"{one.name}: another transfer carried {number(seen.largest_left / 1e6, 2)} MB, the one that is taken "
            f"{number(seen.smallest_taken / 1e6, 2)} MB; give `port` of {one.where}, or a larger `count`"
        )


def _of_run(said: Sequence[Seen]) -> Iterator[str]:
    """Yield what recordings of one flow from two places contradict each other in."""
    first: dict[str, Seen] = {}
    for seen in said:
        if not seen.received_bytes:
            continue
        other = first.setdefault(seen.flow, seen)
        most = max(other.received_bytes, seen.received_bytes)
        if most - min(other.received_bytes, seen.received_bytes) > ALIKE * most:
            yield (
                f"{seen.name}: carried {shortfall(seen.received_bytes, other.received_bytes)} in it and in "
                f"{other.name}, which are one transfer by the manifest; correct the names, or give the two a `flow` "
                "each"
            )


def _fix(one: Recording, word: str, known: str) -> str:
    names: Mapping[str, str] = one.of.names.get(word, {})
    if word in one.of.said:
        return f'write `{word} = "{known}"` in {one.where}, or leave the file out with `except`'
    if names:
        return f"correct `names.{word}` of {one.where}, or the file's name"
    return f"correct the file's name, or say what it stands for with `names.{word}` of {one.where}"


def _stamp(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _apart(seconds: float) -> str:
    seconds = abs(seconds)
    return f"{number(seconds / 3600, 2)} h" if seconds >= _IN_HOURS_S else f"{number(seconds / 60, 1)} min"


_IN_HOURS_S = 3600
