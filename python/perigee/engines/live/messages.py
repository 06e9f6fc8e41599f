# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The language of a run, the laboratory and its agents: JSON objects, each behind its length in four bytes.

A run asks an agent through the laboratory, which passes on what it is not asked itself. A request is
`{"ask": KIND, "number": N, "agent": NAME, "values": {...}}`, its answer `{"answer": N, ...}`, with `error` where it was
refused. An agent says by itself `{"event": "offer", "offer": {...}}` and `{"event": "ended", "job": J, "code": C}`, the
laboratory `{"event": "lost", "agent": NAME}` to the run that had it, and `{"event": "welcome"}` to each offer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, get_args

from perigee.engines.live.jobs import Capture, Client, Server, Whole, Word

MOST_BYTES = 1 << 20
"""Largest message."""
PIECE_BYTES = 256 << 10
"""Most of a file in an answer."""
LENGTH_BYTES = 4
SOCKET = "laboratory/agents.sock"
"""Where runs find the agents, from the working folder of a laboratory."""
NAME = r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}"
"""What agents may be called."""

OFFERED = ("version", "host", "kernel", "interfaces", "algorithms", "programs", "captures", "settings")
"""What an offer has."""

Number = Annotated[int, Whole(0, 2**53)]
Message = dict[str, Any]


class MessageError(Exception):
    """What came is no message."""


@dataclass(frozen=True)
class Read:
    """Part of what a job wrote.

    Attributes:
        job: its number.
        stream: `output` or `errors`.
        offset: from this byte on.
    """

    name: ClassVar[str] = "read"

    job: Number
    stream: Annotated[str, Word("output|errors")]
    offset: Number


@dataclass(frozen=True)
class Interrupt:
    """Asks a job to end; it writes what it has."""

    name: ClassVar[str] = "interrupt"

    job: Number


@dataclass(frozen=True)
class Forget:
    """Ends a job at once, and forgets what it wrote."""

    name: ClassVar[str] = "forget"

    job: Number


@dataclass(frozen=True)
class Drop:
    """Ends all jobs at once, and forgets what they wrote."""

    name: ClassVar[str] = "drop"


Request = Client | Server | Capture | Read | Interrupt | Forget | Drop
REQUESTS: dict[str, type[Request]] = {kind.name: kind for kind in get_args(Request)}
"""All that an agent may be asked."""


def offer_of(values: Any) -> Message:
    """Check what an agent says that its host has, see `perigee.agents.offer`; return the values that are known.

    Raises:
        MessageError: it is none.
    """
    match values:
        case {
            "version": str(), "host": str(), "kernel": str(), "captures": bool(), "interfaces": list(interfaces),
            "algorithms": list(algorithms), "programs": dict(programs), "settings": dict(settings),
        } if _are_texts(algorithms, programs, programs.values(), settings, settings.values()):  # fmt: skip
            for one in interfaces:
                match one:
                    case {"name": str(), "addresses": list(addresses)} if _are_texts(addresses):
                        continue
                raise MessageError("an offer with an interface that is none")
            return {key: value for key, value in values.items() if key in OFFERED}
    raise MessageError("an offer that is none")


def _are_texts(*lists: Iterable[object]) -> bool:
    return all(isinstance(one, str) for each in lists for one in each)


def packed(message: Message) -> bytes:
    r"""Return a message as it is sent.

    Raises:
        MessageError: it is too large.

    Examples:
        >>> packed({"answer": 1})
        b'\x00\x00\x00\x0c{"answer":1}'
    """
    content = json.dumps(message, separators=(",", ":")).encode()
    if len(content) > MOST_BYTES:
        raise MessageError(f"a message of {len(content)} bytes; {MOST_BYTES} is the most")
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def length_of(head: bytes) -> int:
    """Return the length that a message's first bytes say.

    Raises:
        MessageError: it is too large.
    """
    length = int.from_bytes(head, "big")
    if length > MOST_BYTES:
        raise MessageError(f"a message of {length} bytes; {MOST_BYTES} is the most")
    return length


def unpacked(content: bytes) -> Message:
    """Return a message of its content.

    Raises:
        MessageError: it is no JSON object.
    """
    try:
        message = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MessageError("a message that is no JSON") from error
    if not isinstance(message, dict):
        raise MessageError("a message that is no JSON object")
    return message


async def received(reader: asyncio.StreamReader) -> Message:
    """Return the next message.

    Raises:
        MessageError: it is none, or is too large.
        EOFError, OSError: the connection has ended.
    """
    length = length_of(await reader.readexactly(LENGTH_BYTES))
    return unpacked(await reader.readexactly(length))
