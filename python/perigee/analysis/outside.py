# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""QUIC as a capture shows it from outside, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perigee.numbers import number

_SPIN_BITS = {
    "spins": "its spin bit spins",
    "constant": "its spin bit stands still",
    "drawn": "its spin bit is drawn for each datagram",
}


def version_of(name: str) -> str:
    """Return QUIC and its version.

    Examples:
        >>> version_of("version 1"), version_of("a draft")
        ('QUIC version 1', 'a draft of QUIC')
    """
    return f"{name} of QUIC" if name.startswith("a ") else f"QUIC {name}"


def sentence(seen: Mapping[str, Any]) -> str:
    """Return what is known of a flow without its keys.

    Args:
        seen: its row of the table `quic`.

    Examples:
        >>> sentence({"version": "version 1", "handshake_from_ms": 1.0, "handshake_to_ms": 40.0, "has_retry": True,
        ...           "spin_bit": "constant", "longest_pause_s": 0.4})
        'QUIC version 1, handshake 41.0 ms after a Retry, its spin bit stands still, longest pause 0.40 s'
        >>> sentence({"version": "a draft"})
        'a draft of QUIC'
    """
    said = [version_of(str(seen["version"]))]
    parts_ms = [seen.get("handshake_from_ms"), seen.get("handshake_to_ms")]
    known_ms = [float(part) for part in parts_ms if part is not None]
    retry = " after a Retry" if seen.get("has_retry") else ""
    if len(known_ms) == len(parts_ms):
        said.append(f"handshake {number(sum(known_ms), 1)} ms{retry}")
    elif retry:
        said.append("a Retry")
    if spin := _SPIN_BITS.get(str(seen.get("spin_bit"))):
        turns = seen.get("spin_turns")
        said.append(f"{spin} ({number(turns, 0)} turns)" if turns else spin)
    if (pause_s := seen.get("longest_pause_s")) is not None:
        begin_s = seen.get("longest_pause_from_s")
        begin = "" if begin_s is None else f" from {number(begin_s, 2)} s on"
        said.append(f"longest pause {number(pause_s, 2)} s{begin}")
    return ", ".join(said)
