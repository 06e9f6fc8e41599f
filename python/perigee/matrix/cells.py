# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The cells of the matrix: server, client, link and congestion control, and which of them there are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from perigee.errors import InputError
from perigee.matrix.links import BY_NAME, FIRST, LINKS, Link
from perigee.matrix.parties import Party, parties
from perigee.names import suggestion

TUNED = "+window"
"""Ends the congestion control of a cell whose client has a larger flow-control window."""


@dataclass(frozen=True)
class Cell:
    """One download, repeated.

    Attributes:
        server: who sends.
        client: who receives.
        link: over what.
        control: the server's congestion control.
        is_tuned: whether the client's window is `WINDOW` of `running.py`.
    """

    server: Party
    client: Party
    link: Link
    control: str
    is_tuned: bool = False

    @property
    def name(self) -> str:
        """Its name for commands."""
        return f"{self.server.name}/{self.client.name}/{self.link.name}/{self.control}{TUNED if self.is_tuned else ''}"

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name.replace('/', '--')}.json"


def small(known: Sequence[Party] | None = None) -> list[Cell]:
    """Return the small matrix: each with its own client over four links; other clients, and windows, over GEO."""
    known = parties() if known is None else known
    pairs = [(one, cc) for one in known for cc in dict.fromkeys((one.default, one.best))]
    cells = [Cell(one, one, link, cc) for link in FIRST for one, cc in pairs]
    cells += [cell for cell in _crossed(known, FIRST[:1]) if cell.control == cell.server.default]
    return cells + _tuned(known)


def whole(known: Sequence[Party] | None = None) -> list[Cell]:
    """Return all cells, those of the small matrix first."""
    known = parties() if known is None else known
    own = [Cell(one, one, link, cc) for link in LINKS for one in known for cc in one.controls]
    return list(dict.fromkeys([*small(known), *own, *_crossed(known, LINKS)]))


def _crossed(known: Sequence[Party], links: Sequence[Link]) -> Iterator[Cell]:
    """Yield the cells of servers with the clients of others."""
    return (
        Cell(server, client, link, cc)
        for link in links
        for server in known
        for client in known
        if server is not client and server.speaks == client.speaks
        for cc in server.controls
    )


def _tuned(known: Sequence[Party]) -> list[Cell]:
    return [Cell(one, one, FIRST[0], one.best, is_tuned=True) for one in known if one.has_windows]


def only(cells: Sequence[Cell], names: Collection[str]) -> list[Cell]:
    """Return the cells whose server and client have these names; none: all cells.

    Raises:
        InputError: nobody has such a name.
    """
    known = [one.name for one in parties()]
    for name in names:
        if name not in known:
            raise InputError(f"--only {name}: no stack of that name", suggestion(name, known))
    return [cell for cell in cells if not names or {cell.server.name, cell.client.name} <= set(names)]


def called(name: str) -> Cell:
    """Return the cell of a name, which need not be one of the matrix.

    Raises:
        InputError: there can be no such cell.

    Examples:
        >>> called("ngtcp2/quic-go/geo/bbr2").control
        'bbr2'
        >>> called("tcp/tcp/geo/bbr9")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --cell tcp/tcp/geo/bbr9: TCP has no control bbr9; did you mean `bbr`?
    """
    parts = name.split("/")
    if len(parts) != 4:
        raise InputError(f"--cell {name}: it takes four names; give SERVER/CLIENT/LINK/CONTROL")
    known = {one.name: one for one in parties()}
    for part, those, what in (
        (parts[0], known, "no stack of that name"),
        (parts[1], known, "no stack of that name"),
        (parts[2], BY_NAME, "no link of that name"),
    ):
        if part not in those:
            raise InputError(f"--cell {name}: {part}: {what}", suggestion(part, those))
    server, client, control = known[parts[0]], known[parts[1]], parts[3].removesuffix(TUNED)
    if server.speaks != client.speaks:
        raise InputError(f"--cell {name}: the client of {client.title} does not speak with {server.title}")
    if control not in server.controls:
        raise InputError(
            f"--cell {name}: {server.title} has no control {control}", suggestion(control, server.controls)
        )
    is_tuned = parts[3].endswith(TUNED)
    if is_tuned and not client.has_windows:
        raise InputError(f"--cell {name}: the windows of {client.title} cannot be set")
    return Cell(server, client, BY_NAME[parts[2]], control, is_tuned)
