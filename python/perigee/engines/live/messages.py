# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Protocol between runs, the laboratory and agents: JSON objects, each preceded by its length in four bytes.

A run sends requests to an agent through the laboratory, which forwards those for agents. A request is
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
"""Maximum size of a message, bytes."""
PIECE_BYTES = 256 << 10
"""Maximum part of a file in an answer, bytes."""
LENGTH_BYTES = 4
SOCKET = "laboratory/agents.sock"
"""Socket for runs, relative to the working folder of a laboratory."""
NAME = r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}"
"""Valid names of agents."""

OFFERED = ("version", "host", "kernel", "interfaces", "algorithms", "programs", "captures", "settings")
"""Keys of an offer."""

Number = Annotated[int, Whole(0, 2**53)]
Message = dict[str, Any]


class MessageError(Exception):
    """The received bytes are not a valid message."""


@dataclass(frozen=True)
class Read:
    """Requests part of a job's output.

    Attributes:
        job: its number.
        stream: `output` or `errors`.
        offset: first byte.
    """

    name: ClassVar[str] = "read"

    job: Number
    stream: Annotated[str, Word("output|errors")]
    offset: Number


@dataclass(frozen=True)
class Interrupt:
    """Interrupts a job; it still writes its results."""

    name: ClassVar[str] = "interrupt"

    job: Number


@dataclass(frozen=True)
class Forget:
    """Kills a job and discards its output."""

    name: ClassVar[str] = "forget"

    job: Number


@dataclass(frozen=True)
class Drop:
    """Kills all jobs and discards their output."""

    name: ClassVar[str] = "drop"


Request = Client | Server | Capture | Read | Interrupt | Forget | Drop
REQUESTS: dict[str, type[Request]] = {kind.name: kind for kind in get_args(Request)}
"""All requests that an agent accepts."""


def offer_of(values: Any) -> Message:
    """Check the offer of an agent, see `perigee.agents.offer`; return its known values.

    Raises:
        MessageError: it is not valid.
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
    r"""Return the encoded form of a message.

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
    """Return the length of a message from its first bytes.

    Raises:
        MessageError: it is too large.
    """
    length = int.from_bytes(head, "big")
    if length > MOST_BYTES:
        raise MessageError(f"a message of {length} bytes; {MOST_BYTES} is the most")
    return length


def unpacked(content: bytes) -> Message:
    """Decode a message.

    Raises:
        MessageError: it is not a JSON object.
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
        MessageError: it is not valid, or too large.
        EOFError, OSError: the connection has ended.
    """
    length = length_of(await reader.readexactly(LENGTH_BYTES))
    return unpacked(await reader.readexactly(length))
