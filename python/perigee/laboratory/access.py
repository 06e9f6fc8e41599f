# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Who may look at a laboratory, and who may run something: tokens of links, and sessions of browsers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perigee.errors import InputError
from perigee.files import KIB, MIB, read_bounded, storage_errors, write_atomically
from perigee.measuring.tokens import made

ROLES = ("look", "run")
"""Each may do what those before it may."""
SESSION_S = 12 * 3600
"""Lifetime of a session, during which a browser needs no link."""
LONGEST_NAME = 64
MOST_ENDED = 8192
"""Sessions that were left before their time, of which a list is kept."""


@dataclass(frozen=True)
class Person:
    """Who asks.

    Attributes:
        name: of a personal link; `token` of who has one of the laboratory's own.
        role: `look` or `run`.
        forms: what the forms of this session carry; empty where the request carries the token itself.
        quota: how many entries this person may have in the queue at once, and change; none: any, and all.
    """

    name: str
    role: str
    forms: str = ""
    quota: int | None = None

    def may(self, role: str) -> bool:
        """Whether this person has at least this role.

        Examples:
            >>> Person("a", "run").may("look"), Person("b", "look").may("run")
            (True, False)
        """
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def by_link(self) -> bool:
        """Whether a link of the laboratory's own signed this person in, which several may have."""
        return self.name == "token"

    @property
    def title(self) -> str:
        """The name of this person on the page.

        Examples:
            >>> Person("ada", "run").title, Person("token", "run").title, Person("token", "look").title
            ('ada', 'owner', 'guest')
        """
        return title_of(self.name) if self.role == "run" else "guest"


def title_of(name: str) -> str:
    """Return what the page calls who has a name.

    Examples:
        >>> title_of("ada"), title_of("token")
        ('ada', 'owner')
    """
    return "owner" if name == "token" else name


class Access:
    """The tokens of a laboratory.

    Args:
        folder: the laboratory's own folder, with its key and personal links.
        tokens: the role of each of its own tokens.
    """

    def __init__(self, folder: Path, tokens: Mapping[str, str]) -> None:
        self._folder = folder
        self._tokens = {_digest(token): role for token, role in tokens.items()}
        self._key = bytes.fromhex(kept_secret(folder / "key", secrets.token_hex(32)))
        self._ending = threading.Lock()
        self._ended = self._read("ended.json", "sessions that were left go on then")

    def with_token(self, token: str) -> Person | None:
        """Return who has this token."""
        return self._holder(_digest(token))

    def _holder(self, digest: str) -> Person | None:
        """Return who has the token of this digest."""
        if role := self._tokens.get(digest):
            return Person("token", role)
        for name, link in self._links().items():
            if hmac.compare_digest(link["digest"], digest):
                return Person(name, "run", quota=int(link["quota"]))
        return None

    def session(self, person: Person, secret: str) -> str:
        """Return the cookie of a session that begins now."""
        # The last part tells sessions that begin at once from each other.
        content = json.dumps(
            [person.name, _digest(secret), int(time.time()) + SESSION_S, secrets.token_hex(8)]
        ).encode()
        return f"{base64.urlsafe_b64encode(content).decode()}.{self._sign('session', content)}"

    def of_session(self, cookie: str) -> Person | None:
        """Return whose session a cookie is; nobody's if it has ended, or its token is gone."""
        encoded, _, signature = cookie.partition(".")
        try:
            content = base64.urlsafe_b64decode(encoded)
        except ValueError:
            return None
        if not hmac.compare_digest(signature.encode(), self._sign("session", content).encode()):
            return None
        if signature in self._ended:
            return None
        name, proof, until, *_ = json.loads(content)
        person = self._holder(proof)
        if until < time.time() or person is None or person.name != name:
            return None
        return replace(person, forms=self._sign("forms", content))

    def end(self, cookie: str) -> None:
        """End a session before its time, for other servers of this folder too that start later."""
        if self.of_session(cookie) is None:
            return
        encoded, _, signature = cookie.partition(".")
        until = json.loads(base64.urlsafe_b64decode(encoded))[2]
        with self._ending:
            now = time.time()
            kept = sorted((each for each in self._ended.items() if each[1] > now), key=lambda each: -each[1])
            # Where there are too many, those that end by themselves soonest go on until then.
            self._ended = dict([(signature, until), *kept][:MOST_ENDED])
            self._write("ended.json", self._ended)

    def _links(self) -> dict[str, dict[str, Any]]:
        """Return the digest and quota of each personal link by its name."""
        return self._read("links.json", "add the links again then")

    def _read(self, name: str, then: str) -> dict[str, Any]:
        path = self._folder / name
        try:
            found: dict[str, Any] = json.loads(read_bounded(path, MIB, "a list")) if path.is_file() else {}
        except ValueError as error:
            raise InputError(f"{path}: damaged ({error}); remove it; {then}") from error
        return found

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        path = self._folder / name
        write_atomically(path, json.dumps(content, indent=1).encode())
        path.chmod(0o600)

    def add_links(self, names: Sequence[str], quota: int) -> dict[str, str]:
        """Make a personal link for each name, in the place of one that it had; return their tokens by name.

        Args:
            names: of those who get one.
            quota: how many entries each may have in the queue at once.

        Raises:
            InputError: a name cannot be taken.
        """
        for name in names:
            _check_name(name)
        tokens = {name: made() for name in names}
        new = {name: {"digest": _digest(token), "quota": quota} for name, token in tokens.items()}
        self._write("links.json", {**self._links(), **new})
        return tokens

    def remove_links(self, names: Sequence[str]) -> None:
        """Take personal links away; sessions that began with one end with it.

        Raises:
            InputError: nobody of a name has one.
        """
        links = self._links()
        if unknown := [name for name in names if name not in links]:
            there = f"there are {', '.join(links)}" if links else "there is none"
            raise InputError(f"{unknown[0]}: has no personal link; {there}")
        self._write("links.json", {name: link for name, link in links.items() if name not in names})

    def _sign(self, purpose: str, content: bytes) -> str:
        return hmac.new(self._key, purpose.encode() + b"\0" + content, hashlib.sha256).hexdigest()


def kept_secret(path: Path, otherwise: str | None = None) -> str:
    """Return the secret in a file that only this user can read; a new one is written where there is none.

    Raises:
        InputError: the file cannot be read, or others may read it.
    """
    if not os.path.lexists(path):
        with storage_errors(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{otherwise or made()}\n")
    text = read_bounded(path, KIB, "a secret").decode(errors="replace").strip()
    if path.stat().st_mode & 0o077:
        raise InputError(f"{path}: other users of this machine can read it; take that right away: chmod 600 {path}")
    return text


def check_no_users(folder: Path) -> None:
    """Refuse the folder of a laboratory of an earlier version whose users have passwords.

    Raises:
        InputError: as said, with their names and what to do.
    """
    path = folder / "users.json"
    if not path.is_file():
        return
    try:
        users = json.loads(read_bounded(path, MIB, "a list of users"))
    except (ValueError, RecursionError):
        users = None
    names = ", ".join(users) if users and isinstance(users, dict) else "its users"
    raise InputError(
        f"{path}: passwords are gone, and {names} could not sign in",
        "make a personal link for each with perigee serve --add-links FILE (a name a line: their entries stay theirs), "
        f"then remove {path}",
    )


def _check_name(name: str) -> None:
    if not name.isidentifier() or len(name) > LONGEST_NAME or name in ("token", "owner", "guest"):
        raise InputError(f"{name}: no name for a link; take letters and digits, at most {LONGEST_NAME}")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
