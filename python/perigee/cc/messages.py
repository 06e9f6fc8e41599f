# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Messages between a process and the one that runs authors' code for it, through pipes."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

LENGTH = struct.Struct("<Q")

Message = tuple[dict[str, Any], list[bytes]]


def write_message(stream: BinaryIO, head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Write a message: the length of a JSON object, the object, and blobs of the lengths that are its `sizes`."""
    text = json.dumps({**head, "sizes": [len(blob) for blob in blobs]}).encode()
    stream.write(LENGTH.pack(len(text)) + text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def read_message(stream: BinaryIO) -> Message | None:
    """Read a message of `write_message`; none: there are no more."""
    length = stream.read(LENGTH.size)
    if len(length) < LENGTH.size:
        return None
    head = json.loads(stream.read(*LENGTH.unpack(length)))
    return head, [stream.read(size) for size in head["sizes"]]
