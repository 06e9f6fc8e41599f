# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Common parts of all routes: the laboratory behind them, and who asks for what."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import QueryParams
from starlette.responses import Response

from perigee.errors import PerigeeError
from perigee.laboratory.access import Access, Person
from perigee.laboratory.agents import Hub
from perigee.laboratory.catalogue import Catalogue
from perigee.laboratory.doors import Guests
from perigee.laboratory.entries import Entry, Queue
from perigee.laboratory.findings import Known
from perigee.laboratory.graphs import Graphs
from perigee.laboratory.lanes import Commands, Lane
from perigee.laboratory.link_samples import Glances
from perigee.laboratory.outlook import Outlooks
from perigee.laboratory.own_module import Modules
from perigee.laboratory.own_studies import Studies
from perigee.laboratory.place import Place
from perigee.laboratory.shelf import Shelf
from perigee.places import find_profile, profiles

LONGEST_NUMBER = 12
MOST_WARM = 200
"""Results that are read before anybody asks for them."""


@dataclass
class Laboratory:
    """All that pages show and change.

    Attributes:
        place: its folders.
        queue: the entries.
        catalogue: the results.
        studies: the studies.
        access: who may do what.
        graphs: the graphs over time that were asked for last.
        findings: what results say at a glance.
        outlooks: how many runs studies have, and how long they take.
        shelf: the studies as the list shows them.
        glances: link profiles at a glance.
        hub: the agents, where they may connect.
        guests: the connections of the page.
        modules: authors' algorithms that were compiled last.
        commands: carries out what changes something.
        reading: for pages that read much.
        planning: for studies and settings that are given, whose reading takes as long as their author wants.
        compiling: for authors' algorithms, each of which takes a core for a second or two.
        downloads: for each part of tables and archives that are made as they are sent; each connection may wait.
    """

    place: Place
    queue: Queue
    catalogue: Catalogue
    studies: Studies
    access: Access
    graphs: Graphs = field(default_factory=Graphs)
    findings: Known = field(default_factory=Known)
    outlooks: Outlooks = field(default_factory=Outlooks)
    glances: Glances = field(default_factory=Glances)
    hub: Hub | None = None
    guests: Guests = field(default_factory=Guests)
    modules: Modules = field(default_factory=Modules)
    shelf: Shelf = field(init=False)
    commands: Commands = field(init=False)
    reading: Lane = field(default_factory=lambda: Lane(8, 64))
    planning: Lane = field(default_factory=lambda: Lane(2, 32))
    compiling: Lane = field(default_factory=lambda: Lane(2, 64))
    downloads: Lane = field(default_factory=lambda: Lane(2, 1024))

    def __post_init__(self) -> None:
        """Make what carries commands out, two at once."""
        self.shelf = Shelf(self.studies)
        self.commands = Commands(self.place.root, 2, 4)

    def label(self, entry: Entry, results: str) -> None:
        """Give results the tags and notes of their entry."""
        if entry.tags or entry.notes:
            self.catalogue.label(results, entry.tags, entry.notes)

    def warm(self, is_ending: Callable[[], bool]) -> None:
        """Read what the lists show, so that their first visitor does not wait: thousands of manifests take seconds.

        Args:
            is_ending: asked between two files whether to leave the others.
        """
        every = self.catalogue.all()
        readers: list[Callable[[], object]] = [functools.partial(self._outlook, name) for name in self.studies.names()]
        readers += [
            functools.partial(self.findings.get, self.place.results / one.name)
            for one in every[:MOST_WARM]
            if one.state == "complete"
        ]
        readers += [functools.partial(self._glance, name) for name in profiles()]
        for read in readers:
            if is_ending():
                return
            with contextlib.suppress(PerigeeError):
                read()

    def _glance(self, name: str) -> None:
        self.glances.of(find_profile(name))

    def _outlook(self, name: str) -> None:
        self.outlooks.of(self.shelf.get(name))


@dataclass
class Visit:
    """A request of somebody who may make it.

    Attributes:
        laboratory: what it is about.
        person: who asks.
        path: the variable parts of the address.
        query: what follows `?`.
        form: what was filled in.
    """

    laboratory: Laboratory
    person: Person
    path: Mapping[str, str] = field(default_factory=dict)
    query: QueryParams = field(default_factory=QueryParams)
    form: Mapping[str, list[str]] = field(default_factory=dict)

    def given(self, name: str, otherwise: str = "") -> str:
        """Return a field of the form, the first of its name."""
        return self.form.get(name, [otherwise])[0]


@dataclass(frozen=True)
class Awaited:
    """An answer that a command comes before, which no thread waits for.

    Attributes:
        by: what carries the command out.
        arguments: those of `perigee`.
        then: returns the answer.
    """

    by: Commands
    arguments: tuple[str, ...]
    then: Callable[[], Answer]


Answer = Response | dict[str, Any] | list[Any]
"""A file or bytes, or what is sent as JSON."""
Handler = Callable[[Visit], Answer | Awaited]


def is_number(text: str) -> bool:
    """Whether a text of an address is a whole number, in the digits 0 to 9 alone.

    Examples:
        >>> [is_number(text) for text in ("12", "\N{ARABIC-INDIC DIGIT ONE}", "-1", "", "9" * 13)]
        [True, False, False, False, False]
    """
    return text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER
