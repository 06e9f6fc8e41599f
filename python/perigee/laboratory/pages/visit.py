# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Common parts of pages: the laboratory behind them, who asks for what, and how an answer is made."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, RedirectResponse, Response

from perigee.errors import PerigeeError
from perigee.laboratory import tab
from perigee.laboratory.access import Access, Person, title_of
from perigee.laboratory.agents import Hub
from perigee.laboratory.catalogue import Catalogue
from perigee.laboratory.doors import Guests
from perigee.laboratory.entries import Entry, Queue
from perigee.laboratory.findings import Known
from perigee.laboratory.graphs import Graphs
from perigee.laboratory.lanes import Commands, Lane
from perigee.laboratory.link_pictures import Pictures
from perigee.laboratory.outlook import Outlooks, duration
from perigee.laboratory.own_studies import Studies
from perigee.laboratory.place import Place
from perigee.laboratory.shelf import Shelf
from perigee.laboratory.window_curves import window_curves
from perigee.laboratory.words import ago, day, iso_time, local_time, number, size
from perigee.places import find_profile, profiles
from perigee.version import __version__

MOST_WARM = 200
"""Results that are read before anybody asks for them."""
TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


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
        pictures: link profiles at a glance.
        windows: the congestion window of each algorithm, see `window_curves`; empty until they are simulated.
        hub: the agents, where they may connect.
        guests: the connections of the page.
        commands: carries out what changes something.
        drawings: carries out what who may only look can ask for.
        reading: for pages that read much.
        planning: for studies and settings that are given, whose reading takes as long as their author wants.
        compiling: for authors' algorithms, each of which takes a core for a second or two.
        hashing: for passwords, each of which takes 32 MiB.
    """

    place: Place
    queue: Queue
    catalogue: Catalogue
    studies: Studies
    access: Access
    graphs: Graphs = field(default_factory=Graphs)
    findings: Known = field(default_factory=Known)
    outlooks: Outlooks = field(default_factory=Outlooks)
    pictures: Pictures = field(default_factory=Pictures)
    windows: dict[str, str] = field(default_factory=dict)
    hub: Hub | None = None
    guests: Guests = field(default_factory=Guests)
    shelf: Shelf = field(init=False)
    commands: Commands = field(init=False)
    drawings: Commands = field(init=False)
    reading: Lane = field(default_factory=lambda: Lane(8, 64))
    planning: Lane = field(default_factory=lambda: Lane(2, 32))
    compiling: Lane = field(default_factory=lambda: Lane(2, 16))
    hashing: Lane = field(default_factory=lambda: Lane(1, 16))

    def __post_init__(self) -> None:
        """Make what carries commands out: two at once of who may run studies, and one of who may only look."""
        self.shelf = Shelf(self.studies)
        self.commands = Commands(self.place.root, 2, 4)
        self.drawings = Commands(self.place.root, 1, 32)

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
        readers += [functools.partial(self._picture, name) for name in profiles()]
        readers.append(lambda: self.windows.update(window_curves(self.place.private / "drawn", is_ending)))
        for read in readers:
            if is_ending():
                return
            with contextlib.suppress(PerigeeError):
                read()

    def _picture(self, name: str) -> None:
        self.pictures.of(find_profile(name))

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

    def page(self, template: str, status: int = 200, **content: Any) -> Response:
        """Return a page."""
        said = {"visit": self, "person": self.person, "at": at, "said": self.query.get("said", ""), **content}
        return HTMLResponse(render(template, **said), status)

    def go(self, path: str, said: str = "") -> Response:
        """Send the browser on to a page, with a sentence to show there."""
        return RedirectResponse(at(path, said=said), 303)


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
    then: Callable[[], Response]


Handler = Callable[[Visit], Response | Awaited]


def render(template: str, **content: Any) -> str:
    """Return a template filled in."""
    return _environment().get_template(template).render(**content)


def at(path: str = "", **query: object) -> str:
    """Return the address of a page.

    Examples:
        >>> at("results/a b", page=2, q=""), at()
        ('/results/a%20b?page=2', '/')
    """
    given = {name: value for name, value in query.items() if value not in ("", None)}
    return f"/{quote(path)}{'?' if given else ''}{urlencode(given)}"


def coded(text: str) -> Markup:
    """Return a text for a page, what stands between backticks as code.

    Examples:
        >>> coded("unknown key `<b>`")
        Markup('unknown key <code>&lt;b&gt;</code>')
    """
    parts = (
        Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(text.split("`"))
    )
    return Markup("").join(parts)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        local_time=local_time,
        iso_time=iso_time,
        ago=ago,
        day=day,
        size=size,
        duration=duration,
        number=number,
        person=title_of,
        coded=coded,
    )
    environment.globals.update(version=__version__, tab=tab)
    return environment
