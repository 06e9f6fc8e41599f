# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The queue: entries of studies to be run, in a SQLite database that a crash at any instant leaves whole."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from perigee.errors import InputError, StorageError
from perigee.store.origins import ENGINES

STATES = ("waiting", "running", "paused", "stopped", "done", "failed", "daily")
ENDED = ("stopped", "done", "failed")
OPEN = "state IN ('waiting', 'running', 'paused')"
LONGEST_WAIT_S = 30.0
"""For the lock of the database."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    study TEXT NOT NULL,
    text TEXT,
    engine TEXT NOT NULL,
    settings TEXT NOT NULL,
    reduced INTEGER NOT NULL,
    due REAL NOT NULL,
    daily TEXT,
    state TEXT NOT NULL,
    wish TEXT,
    owner TEXT NOT NULL,
    tags TEXT NOT NULL,
    notes TEXT NOT NULL,
    results TEXT NOT NULL,
    began REAL,
    ended REAL,
    message TEXT NOT NULL,
    starts INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    parent INTEGER
);
CREATE INDEX IF NOT EXISTS entries_by_state ON entries (state, due, id);
CREATE INDEX IF NOT EXISTS entries_by_owner ON entries (owner, began);
"""
VERSION = 1


@dataclass(frozen=True)
class Entry:
    """A study in the queue.

    Attributes:
        study: its name.
        engine: of `ENGINES`.
        due: when it may begin, seconds of Unix time.
        text: the study file as it was when the entry was made; none: the study that comes with perigee.
        settings: `KEY=VALUE` overrides.
        reduced: take the small size that the study declares.
        daily: at this time of day (`HH:MM`, of this machine) another entry is made of it, every day.
        state: one of `STATES`; `daily` never runs itself.
        wish: what was asked of a running entry: `pause` or `stop`.
        owner: who made it.
        tags: words to find it by.
        notes: what the owner says about it.
        results: name of its results folder, given when it begins first.
        began: when its process was started last, seconds of Unix time.
        ended: when it was done, stopped or failed.
        message: why it failed.
        starts: how often a process was started for it.
        crashes: how often in a row its process ended without a word.
        parent: the daily entry that it was made of.
        id: its number.
    """

    study: str
    engine: str
    due: float
    text: str | None = None
    settings: tuple[str, ...] = ()
    reduced: bool = False
    daily: str | None = None
    state: str = "waiting"
    wish: str | None = None
    owner: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""
    results: str = ""
    began: float | None = None
    ended: float | None = None
    message: str = ""
    starts: int = 0
    crashes: int = 0
    parent: int | None = None
    id: int = field(default=0)


COLUMNS = tuple(one.name for one in fields(Entry))


class Queue:
    """The entries on the disk. Threads may share it.

    Args:
        path: the database; it is made where it is not there.

    Raises:
        InputError: the file is no queue of this version.
        StorageError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._path = path
        try:
            self._database = sqlite3.connect(
                path, timeout=LONGEST_WAIT_S, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            # An entry that was accepted is there after a power failure too.
            self._database.execute("PRAGMA synchronous = FULL")
            version = self._database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise InputError(f"{path}: version {version} of the queue, but this perigee reads version {VERSION}")
            self._database.executescript(f"BEGIN IMMEDIATE;{SCHEMA}PRAGMA user_version = {VERSION};COMMIT;")
        except sqlite3.DatabaseError as error:
            raise _storage_error(path, error) from error

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def add(self, entry: Entry, quota: int | None = None) -> int:
        """Add an entry; return its number when it is safe on the disk.

        Args:
            entry: what to add.
            quota: how many open entries its owner may have with this one, see `_open_of`; none: any number.

        Raises:
            InputError: the engine, the state or the time of day is none, or the owner has as many entries already.
            StorageError: the database cannot be written.
        """
        if entry.engine not in ENGINES:
            raise InputError(f"engine {entry.engine}: there is none; the engines are: {', '.join(ENGINES)}")
        if entry.state not in STATES:
            raise InputError(f"state {entry.state}: there is none")
        if entry.daily is not None:
            next_time_of_day(entry.daily, entry.due)
        with self._transaction() as database:
            there = _open_of(database, entry.owner)
            if quota is not None and there >= quota:
                raise _exceeded(there, quota)
            return _insert(database, entry)

    def get(self, number: int) -> Entry:
        """Return an entry.

        Raises:
            InputError: there is none of this number.
        """
        found = self._select("WHERE id = ?", number)
        if not found:
            raise InputError(f"entry {number}: not in the queue")
        return found[0]

    def running(self) -> list[Entry]:
        """Return the entries that were begun and have not ended."""
        return self._select("WHERE state = 'running' ORDER BY id")

    def next(self, now: float) -> Entry | None:
        """Return the entry that begins next, if one is due."""
        found = self.order(now)
        return self.get(found[0]) if found else None

    def order(self, now: float) -> list[int]:
        """Return the numbers of the entries that are due, in the order in which they begin.

        Those that were interrupted go on first. Then people take turns: whose last entry began longest ago is next.
        """
        with self._reading() as database:
            due = database.execute(
                "SELECT id, owner, began FROM entries WHERE state = 'waiting' AND due <= ? ORDER BY due, id", (now,)
            ).fetchall()
            last = dict(database.execute("SELECT owner, max(began) FROM entries GROUP BY owner"))
        queues: dict[str, list[int]] = {}
        for number, owner, began in due:
            if began is None:
                queues.setdefault(owner, []).append(number)
        turns = sorted(queues, key=lambda owner: last[owner] or 0.0)
        in_turns = itertools.chain.from_iterable(itertools.zip_longest(*(queues[owner] for owner in turns)))
        return [number for number, _, began in due if began is not None] + [each for each in in_turns if each]

    def page(self, states: Sequence[str], first: int = 0, most: int = 100, *, newest: bool = False) -> list[Entry]:
        """Return a page of the entries in some states, in their order or the newest first."""
        marks = ", ".join("?" * len(states))
        order = "ORDER BY id DESC" if newest else "ORDER BY due, id"
        return self._select(f"WHERE state IN ({marks}) {order} LIMIT ? OFFSET ?", *states, most, first)

    def count(self) -> dict[str, int]:
        """Return the number of entries in each state that has one."""
        with self._reading() as database:
            return dict(database.execute("SELECT state, count(*) FROM entries GROUP BY state"))

    def of_results(self, name: str) -> Entry | None:
        """Return the entry whose results are in a folder of this name."""
        found = self._select("WHERE results = ? ORDER BY id DESC LIMIT 1", name)
        return found[0] if found else None

    def with_results(self) -> dict[str, Entry]:
        """Return the entries that were begun, by the names of their results folders."""
        return {one.results: one for one in self._select("WHERE results <> '' ORDER BY id")}

    def change(self, number: int, states: Sequence[str], quota: int | None = None, **values: Any) -> bool:
        """Change an entry that is in one of these states; return whether it was.

        Args:
            number: of the entry.
            states: one of which it has to be in.
            quota: how many open entries its owner may have where this change makes one more; none: any number.
            values: what is changed, by the names of attributes.

        Raises:
            InputError: its owner would have more open entries than the quota.
            StorageError: the database cannot be written.
        """
        marks = ", ".join("?" * len(states))
        encoded = _encoded(values)
        names = ", ".join(f"{name} = ?" for name in encoded)
        with self._transaction() as database:
            before = 0 if quota is None else _open_with(database, number)
            done = database.execute(
                f"UPDATE entries SET {names} WHERE id = ? AND state IN ({marks})",  # noqa: S608 - columns, not values
                (*encoded.values(), number, *states),
            )
            if quota is not None and _open_with(database, number) > max(before, quota):
                raise _exceeded(before, quota)
            return done.rowcount == 1

    def remove(self, number: int) -> bool:
        """Remove an entry that does not run; return whether there was one."""
        with self._transaction() as database:
            return database.execute("DELETE FROM entries WHERE id = ? AND state <> 'running'", (number,)).rowcount == 1

    def make_daily(self, now: float) -> list[int]:
        """Make an entry of each daily one that is due, once however many days were missed; return their numbers.

        None is made where the one before is still open: the message of the daily entry says so.
        """
        made = []
        with self._transaction() as database:
            due = database.execute(
                f"SELECT {', '.join(COLUMNS)} FROM entries WHERE state = 'daily' AND due <= ? ORDER BY due, id",  # noqa: S608
                (now,),
            ).fetchall()
            for entry in map(_entry, due):
                before = database.execute(f"SELECT id FROM entries WHERE parent = ? AND {OPEN}", (entry.id,)).fetchone()  # noqa: S608
                message = f"none was made of it, since entry {before[0]} has not ended" if before else ""
                if before is None:
                    copied = {name: getattr(entry, name) for name in COLUMNS if name not in ("id", "daily")}
                    copied |= {"state": "waiting", "message": "", "parent": entry.id}
                    made.append(_insert(database, Entry(**copied)))
                database.execute(
                    "UPDATE entries SET due = ?, message = ? WHERE id = ?",
                    (next_time_of_day(entry.daily or "", now), message, entry.id),
                )
        return made

    def _select(self, rest: str, *values: object) -> list[Entry]:
        with self._reading() as database:
            found = database.execute(f"SELECT {', '.join(COLUMNS)} FROM entries {rest}", values)  # noqa: S608
            return [_entry(row) for row in found]

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                yield self._database
        except sqlite3.DatabaseError as error:
            raise _storage_error(self._path, error) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")


def next_time_of_day(daily: str, after: float) -> float:
    """Return when it is next this time of day on this machine's clock, as Unix time.

    Raises:
        InputError: it is no time of day.

    Examples:
        >>> noon = datetime(2026, 3, 1, 12, 0).timestamp()
        >>> [datetime.fromtimestamp(next_time_of_day(each, noon)).isoformat() for each in ("11:59", "12:01")]
        ['2026-03-02T11:59:00', '2026-03-01T12:01:00']
        >>> next_time_of_day("noon", 0.0)
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: noon: no time of day; write HH:MM, as 03:30
    """
    try:
        # ASCII: other digits than 0 to 9 would be taken, too.
        at = datetime.strptime(daily if daily.isascii() else "", "%H:%M").time()
    except ValueError:
        raise InputError(f"{daily}: no time of day; write HH:MM, as 03:30") from None
    day = datetime.fromtimestamp(after).date()
    while (due := datetime.combine(day, at).timestamp()) <= after:
        day += timedelta(days=1)
    return due


def _open_of(database: sqlite3.Connection, owner: str) -> int:
    """Return how many entries of an owner are open: those that wait, run or are paused, and daily ones.

    A daily entry and what was made of it today are one, so that nobody exceeds a quota at a time of day.
    """
    found = database.execute(
        f"SELECT count(*) FROM entries AS one WHERE owner = ? AND ({OPEN} OR state = 'daily' AND NOT EXISTS"  # noqa: S608
        f" (SELECT 1 FROM entries WHERE parent = one.id AND {OPEN}))",
        (owner,),
    )
    return int(found.fetchone()[0])


def _open_with(database: sqlite3.Connection, number: int) -> int:
    """Return how many entries the owner of this one has open."""
    found = database.execute("SELECT owner FROM entries WHERE id = ?", (number,)).fetchone()
    return _open_of(database, found[0]) if found else 0


def _exceeded(there: int, quota: int) -> InputError:
    return InputError(f"you have {there} entries in the queue, and may have {quota}; wait, or remove one")


def _insert(database: sqlite3.Connection, entry: Entry) -> int:
    values = _encoded({name: getattr(entry, name) for name in COLUMNS if name != "id"})
    marks = ", ".join("?" * len(values))
    done = database.execute(
        f"INSERT INTO entries ({', '.join(values)}) VALUES ({marks})",  # noqa: S608 - columns, not values
        tuple(values.values()),
    )
    return int(done.lastrowid or 0)


def _encoded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json.dumps(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _entry(row: Sequence[Any]) -> Entry:
    values = dict(zip(COLUMNS, row, strict=True))
    values["settings"], values["tags"] = tuple(json.loads(values["settings"])), tuple(json.loads(values["tags"]))
    values["reduced"] = bool(values["reduced"])
    return Entry(**values)


def _storage_error(path: Path, error: sqlite3.DatabaseError) -> StorageError:
    return StorageError(f"{path}: the queue cannot be read or written: {error}")
