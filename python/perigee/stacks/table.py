# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The QUIC stacks that can be installed, as `stacks.toml` has them, and the commands of their programs."""

from __future__ import annotations

import functools
import string
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from perigee.errors import InputError
from perigee.names import suggestion

Role = Literal["server", "client"]
Kind = Literal["debian", "go", "cargo", "crate"]
"""How a stack is built: packages of Debian unpacked; a program of ours in Go or in Rust, whose lock file pins the stack
and all that it needs; a crate with programs of its own, whose lock file does."""
PLACEHOLDERS = frozenset(
    ("folder", "address", "port", "certificate", "key", "root", "url", "out", "control", "window", "qlog")
)
"""Words in braces of a template: the stack's own folder; the server's address and port; files of the certificate and
its key; the folder that is served; the URL asked for; the folder that gets it; the congestion control; bytes of the
flow-control window of a connection and of its stream; the folder of qlog files."""
TABLE = Path(__file__).with_name("stacks.toml")


@dataclass(frozen=True)
class Command:
    """Templates of the words of a program.

    Attributes:
        words: those that it always has.
        window: those of a tuned window; empty: it has its own windows only.
        qlog: those that have it write qlog files; empty: it cannot.
    """

    words: tuple[str, ...]
    window: tuple[str, ...] = ()
    qlog: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stack:
    """A QUIC stack of a pinned version.

    Attributes:
        name: in commands and results.
        title: for people.
        version: of the stack itself.
        source: the package, crate or module that it comes from.
        licence: SPDX expression.
        kind: how it is built.
        checksum: of its source: SHA-256, of a Go module its `h1:` sum.
        packages: of a stack of Debian, each package with its version and SHA-256.
        programs: files that it consists of once installed, below its folder.
        http3: it speaks HTTP/3; else its client reaches its own server only.
        controls: its congestion controls.
        default: the one that it has when nothing is said.
        best: the one that its authors recommend or developed last.
        server: the command of its server.
        client: the command of its client; the file asked for appears in the folder `out` under its own name.
        mebibytes: that it takes once installed, rounded up.
        notes: what differs from its own defaults, and what it cannot.
    """

    name: str
    title: str
    version: str
    source: str
    licence: str
    kind: Kind
    checksum: str
    programs: tuple[str, ...]
    http3: bool
    controls: tuple[str, ...]
    default: str
    best: str
    server: Command
    client: Command
    mebibytes: int
    notes: str
    packages: tuple[tuple[str, str, str], ...] = ()

    @property
    def place(self) -> str:
        """Name of its folder among installed stacks."""
        return f"{self.name}-{self.version}"


@dataclass(frozen=True)
class Settings:
    """Settings of a server or client.

    Attributes:
        control: its congestion control; None: the stack's default.
        window: bytes of its flow-control windows; None: the stack's own.
        qlog: the folder for qlog files; None: none are written.
    """

    control: str | None = None
    window: int | None = None
    qlog: Path | None = None


DEFAULTS = Settings()


@functools.cache
def stacks() -> tuple[Stack, ...]:
    """Return all stacks, in the order of the table.

    Examples:
        >>> [stack.name for stack in stacks() if stack.http3]
        ['ngtcp2', 'quic-go', 'tquic', 'quiche']
    """
    return read(TABLE.read_text(encoding="utf-8"))


def read(text: str) -> tuple[Stack, ...]:
    """Read a table of stacks."""
    return tuple(_stack(name, table) for name, table in tomllib.loads(text).items())


def find(name: str, known: Sequence[Stack] | None = None) -> Stack:
    """Return the stack of a name, of those that are known: by default the table's.

    Raises:
        InputError: none has that name.
    """
    named = {stack.name: stack for stack in (stacks() if known is None else known)}
    if name not in named:
        raise InputError(f"{name}: no QUIC stack of that name", suggestion(name, named))
    return named[name]


def installed(folder: Path) -> dict[str, Path]:
    """Return the folders of the stacks of this table that are installed in a folder, by their names."""
    return {stack.name: folder / stack.place for stack in stacks() if is_installed(stack, folder)}


def is_installed(stack: Stack, folder: Path) -> bool:
    """Whether all programs of a stack are in a folder."""
    return all((folder / stack.place / program).is_file() for program in stack.programs)


def server_command(
    stack: Stack,
    folder: Path,
    *,
    address: str,
    port: int,
    certificate: Path,
    key: Path,
    root: Path,
    settings: Settings = DEFAULTS,
) -> list[str]:
    """Return the words that start a stack's server.

    Args:
        stack: the stack.
        folder: its own, as `installed` returns it.
        address: where it listens.
        port: likewise.
        certificate: a file, PEM.
        key: likewise.
        root: the folder whose files it serves.
        settings: its own.

    Raises:
        InputError: the stack has no such congestion control, or cannot have its windows set or write qlog files.
    """
    given = {"address": address, "port": port, "certificate": certificate, "key": key, "root": root}
    return _rendered(stack, "server", folder, given, settings)


def client_command(
    stack: Stack,
    folder: Path,
    *,
    address: str,
    port: int,
    path: str,
    certificate: Path,
    out: Path,
    settings: Settings = DEFAULTS,
) -> list[str]:
    """Return the words that have a stack's client fetch a file, which is `out / path` when it ends with 0.

    Args:
        stack: the stack.
        folder: its own, as `installed` returns it.
        address: the server's.
        port: likewise.
        path: the name of the file that is asked for, without folders.
        certificate: the authority of the server's, PEM, for clients that check it.
        out: the folder that gets the file.
        settings: its own.

    Raises:
        InputError: the stack has no such congestion control, or cannot have its windows set or write qlog files.
    """
    url = f"https://{address}:{port}/{path}"
    given = {"address": address, "port": port, "url": url, "certificate": certificate, "out": out}
    return _rendered(stack, "client", folder, given, settings)


def _rendered(stack: Stack, role: Role, folder: Path, given: Mapping[str, object], settings: Settings) -> list[str]:
    control = settings.control or stack.default
    if control not in stack.controls:
        raise InputError(f"{control}: no congestion control of {stack.title}", suggestion(control, stack.controls))
    command = getattr(stack, role)
    words = list(command.words)
    for what, value, more in (("window", settings.window, command.window), ("qlog", settings.qlog, command.qlog)):
        if value is not None and not more:
            raise InputError(f"the {role} of {stack.title} has no option for a {what}", f"leave the {what} out")
        words += more if value is not None else ()
    values = {**given, "folder": folder, **asdict(settings), "control": control}
    return [word.format(**values) for word in words]


def placeholders(word: str) -> set[str]:
    """Return the names in braces of a word of a template.

    Examples:
        >>> sorted(placeholders("{address}:{port}"))
        ['address', 'port']
    """
    return {name for _, name, _, _ in string.Formatter().parse(word) if name is not None}


def _stack(name: str, table: Mapping[str, Any]) -> Stack:
    values = dict(table)
    for role in ("server", "client"):
        values[role] = Command(**{key: tuple(words) for key, words in values[role].items()})
    values["packages"] = tuple(
        (package["name"], package["version"], package["sha256"]) for package in values.get("packages", ())
    )
    for field in fields(Stack):
        if isinstance(values.get(field.name), list):
            values[field.name] = tuple(values[field.name])
    return Stack(name=name, **values)
