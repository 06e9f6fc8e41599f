# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What pages have in common: the laboratory behind them, who asks for what, and how an answer is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, RedirectResponse, Response

from perigee import __version__
from perigee.laboratory.access import Access, Person
from perigee.laboratory.agents import Hub
from perigee.laboratory.catalogue import Catalogue
from perigee.laboratory.doors import Guests
from perigee.laboratory.entries import Entry, Queue
from perigee.laboratory.graphs import Graphs
from perigee.laboratory.lanes import Commands, Lane
from perigee.laboratory.own_studies import Studies
from perigee.laboratory.place import Place

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
        hub: the agents, where they may connect.
        guests: the connections of the page.
        commands: carries out what changes something.
        drawings: carries out what who may only look can ask for.
        reading: for pages that read much.
        hashing: for passwords, each of which takes 32 MiB.
    """

    place: Place
    queue: Queue
    catalogue: Catalogue
    studies: Studies
    access: Access
    graphs: Graphs = field(default_factory=Graphs)
    hub: Hub | None = None
    guests: Guests = field(default_factory=Guests)
    commands: Commands = field(init=False)
    drawings: Commands = field(init=False)
    reading: Lane = field(default_factory=lambda: Lane(8, 64))
    hashing: Lane = field(default_factory=lambda: Lane(1, 16))

    def __post_init__(self) -> None:
        """Make what carries commands out: two at once of who may run studies, and one of who may only look."""
        self.commands = Commands(self.place.root, 2, 4)
        self.drawings = Commands(self.place.root, 1, 32)

    def label(self, entry: Entry, results: str) -> None:
        """Give results the tags and notes of their entry."""
        if entry.tags or entry.notes:
            self.catalogue.label(results, entry.tags, entry.notes)


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


def local_time(unix_s: float | None) -> str:
    """Write a time as this machine's clock shows it.

    Examples:
        >>> local_time(datetime(2026, 3, 1, 12, 5).timestamp()), local_time(None)
        ('2026-03-01 12:05:00', '')
    """
    return "" if unix_s is None else f"{datetime.fromtimestamp(unix_s):%Y-%m-%d %H:%M:%S}"


def size(count: int) -> str:
    """Write a number of bytes.

    Examples:
        >>> size(999), size(12_345_678)
        ('999 B', '12.3 MB')
    """
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def left(seconds: float) -> str:
    """Write a time that is left.

    Examples:
        >>> left(3 * 3600 + 125)
        '3:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


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
    environment.filters.update(local_time=local_time, size=size, left=left, coded=coded)
    environment.globals.update(version=__version__)
    return environment
