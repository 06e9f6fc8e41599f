# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A declared part of a campaign: its pings, datagrams and transfers in some rounds, for a fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perigee.errors import InputError
from perigee.files import printable
from perigee.fitting.captured import ceilings
from perigee.fitting.fit import Measured
from perigee.fitting.series import joined, read_pings
from perigee.measuring.probe import read_log
from perigee.names import suggestion
from perigee.store.results import Results

KINDS = {"pings": "ping", "udp": "probe", "transfers": "capture"}
"""The words of `--use`, and the kind of files that each is of."""


@dataclass(frozen=True)
class Part:
    """A part of a campaign.

    Attributes:
        measured: what a fit takes.
        rounds: rounds that it is of; none: all.
        said: what it is, in words.
    """

    measured: Measured
    rounds: tuple[range, ...]
    said: str


def part_of(results: Results, use: str, rounds: str | None) -> Part:
    """Read the files of a part of a campaign.

    Args:
        results: the campaign.
        use: words of `KINDS`, between commas.
        rounds: as `1..40`, several between commas; none: all.

    Raises:
        InputError: the results are no campaign's, a word is none, files are gone, or there are none in these rounds.
    """
    if results.manifest["engine"] != "campaign":
        raise InputError(f"{results.path}: is no campaign; `perigee campaign` makes one of recordings")
    words = [word.strip() for word in use.split(",")]
    for word in words:
        if word not in KINDS:
            raise InputError(f"--use {word}: is nothing that a link is fitted to; {suggestion(word, KINDS)}")
    spans = rounds_of(rounds)
    files = [one for one in results.files() if is_within(one["round"], spans)]
    found = {word: [one for one in files if one["kind"] == KINDS[word]] for word in words}
    if empty := [word for word, own in found.items() if not own]:
        where = f" in rounds {rounds}" if rounds else ""
        raise InputError(f"{results.path}: there are no {empty[0]}{where}; leave it out of --use, or take other rounds")
    folder = Path(results.manifest["recordings"])
    pings = [read_pings(path) for path in _paths(folder, found.get("pings", ()))]
    steps = []
    for path in _paths(folder, found.get("udp", ())):
        own = read_log(path)
        for step in own:
            # The names of files alone may be the same in each round.
            step.log = printable(path.relative_to(folder))
        steps += own
    captures = _paths(folder, found.get("transfers", ()))
    measured = Measured(
        pings=joined(pings) if pings else None, steps=steps, captured=ceilings(captures) if captures else []
    )
    counts = ", ".join(f"{len(own)} files of {word}" for word, own in found.items())
    said = f"{results.study}, {'rounds ' + rounds if rounds else 'all rounds'}: {counts}"
    return Part(measured, spans, said)


def rounds_of(text: str | None) -> tuple[range, ...]:
    """Read rounds, as `1..40` or `1..10,21`; none are none.

    Raises:
        InputError: they are not written so.

    Examples:
        >>> rounds_of("1..40"), rounds_of("1..10, 21"), rounds_of(None)
        ((range(1, 41),), (range(1, 11), range(21, 22)), ())
    """
    spans = []
    for word in text.split(",") if text is not None else ():
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:\.\.([0-9]{1,9}))?\s*", word)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise InputError(f"--rounds {text}: is no list of rounds; write it as 1..40, or 1..10,21..30")
        spans.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(spans)


def is_within(number: int, spans: Sequence[range]) -> bool:
    """Whether a round is among those asked for; without any, all are."""
    return not spans or any(number in span for span in spans)


def _paths(folder: Path, files: Sequence[dict[str, Any]]) -> list[Path]:
    paths = [folder / name for one in files for name in one["parts"]]
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: is not there any more; put it back, or read the campaign anew")
    return paths
