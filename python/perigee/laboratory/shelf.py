# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The studies of a laboratory as a list shows them; each is read again only where its file has changed."""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perigee.errors import InputError
from perigee.files import MIB, read_bounded
from perigee.laboratory.catalogue import Summary
from perigee.laboratory.outlook import Outlook, Outlooks
from perigee.laboratory.own_studies import Studies
from perigee.laboratory.topology import links_of, network, orbits_of
from perigee.places import StudyFile

TAGS = ("GEO", "MEO", "LEO", "proxy", "paper", "own")
"""Tags that narrow the list of studies."""


OF_A_PAPER = re.compile(r"[a-z]+-(19|20)\d\d")
"""Names of studies after publications: an author and the year."""


@dataclass(frozen=True)
class Card:
    """A study in the list.

    Attributes:
        name: its name.
        title: its headline; of one that cannot be read what is wrong.
        question: the first sentence of what it asks.
        tags: of `TAGS`.
        network: its nodes and links, see `topology.network`.
        outlook: runs and time; none: it cannot be read, or was not read yet.
        last: the newest complete results.
    """

    name: str
    title: str
    question: str
    tags: tuple[str, ...] = ()
    network: Mapping[str, Any] = field(default_factory=dict)
    outlook: Outlook | None = None
    last: Summary | None = None


class Shelf:
    """The studies that were read. Threads may share it.

    Args:
        studies: where they are.
    """

    def __init__(self, studies: Studies) -> None:
        self._studies = studies
        self._lock = threading.Lock()
        self._known: dict[str, tuple[tuple[int, int, str], StudyFile, Card]] = {}

    def get(self, name: str) -> StudyFile:
        """Return a study by its name.

        Raises:
            InputError: there is none of that name, or it cannot be read.
        """
        path = self._studies.files().get(name)
        return self._studies.get(name) if path is None else self._read(name, path)[0]

    def cards(self, outlooks: Outlooks, results: Sequence[Summary], for_s: float = math.inf) -> list[Card]:
        """Return the studies: those with the newest results first, then by name.

        Args:
            outlooks: of studies.
            results: all, the newest first.
            for_s: time for laying studies out; the others have no outlook until a later call.
        """
        of_study: dict[str, list[Summary]] = defaultdict(list)
        for one in results:
            if one.state == "complete":
                of_study[one.study].append(one)
        until = time.monotonic() + for_s
        found = []
        for name, path in self._studies.files().items():
            last = of_study[name][0] if of_study[name] else None
            try:
                study, card = self._read(name, path)
            except InputError as error:
                found.append(Card(name, str(error), "", ("own",), last=last))
                continue
            outlook = None
            with contextlib.suppress(InputError):
                if outlooks.known(study) or time.monotonic() < until:
                    outlook = outlooks.of(study)
            found.append(replace(card, outlook=outlook, last=last))
        return sorted(found, key=lambda card: (-(card.last.at if card.last else 0.0), card.name))

    def _read(self, name: str, path: Path) -> tuple[StudyFile, Card]:
        try:
            about = path.stat()
        except OSError:
            return self._new(name)
        stamp = (about.st_mtime_ns, about.st_size, str(path))
        with self._lock:
            known = self._known.get(name)
        if known is None or known[0] != stamp:
            known = (stamp, *self._new(name))
            with self._lock:
                self._known[name] = known
        return known[1:]

    def _new(self, name: str) -> tuple[StudyFile, Card]:
        study = self._studies.get(name)
        content = study.content
        question = asked(study).partition("? ")
        return study, Card(
            name,
            str(content.get("title", "") or name),
            question[0] + question[1].strip(),
            tags_of(study, is_own=self._studies.is_own(name)),
            network(content),
        )


def tags_of(study: StudyFile, *, is_own: bool) -> tuple[str, ...]:
    """Return the tags of a study: the orbits of its links, whether it has proxies, and where it comes from."""
    found = set(orbits_of(links_of(study.content)))
    if study.content.get("proxies"):
        found.add("proxy")
    if is_own:
        found.add("own")
    elif OF_A_PAPER.fullmatch(study.path.parent.name):
        found.add("paper")
    return tuple(tag for tag in TAGS if tag in found)


def asked(study: StudyFile) -> str:
    """Return what a study asks, in one line: its `about`, or the question of the report that it describes."""
    about = study.content.get("about")
    if about is None:
        with contextlib.suppress(InputError, ValueError, RecursionError):
            report = tomllib.loads(read_bounded(study.path.parent / "report.toml", 16 * MIB, "a report").decode())
            about = report.get("question")
    return " ".join(about.split()) if isinstance(about, str) else ""
