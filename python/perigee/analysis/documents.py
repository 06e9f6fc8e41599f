# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""JSON as it is found: several documents, text around them, cut off, `-nan`; nothing is left out without a word."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Documents:
    """The objects of a text.

    Attributes:
        found: JSON objects in order; those of an array on their own.
        beside: lines that stand around them.
        damage: where the text is cut off or damaged: a sentence each without its full stop.
    """

    found: list[dict[str, Any]] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the text, for people."""
        if not self.beside:
            return tuple(self.damage)
        more = f" (and {len(self.beside) - 1} lines more)" if len(self.beside) > 1 else ""
        return (*self.damage, f"beside the JSON stands: {self.beside[0][:_MOST_SHOWN]}{more}")


def documents(text: str) -> Documents:
    r"""Return the objects of a text; of one that is cut off, the elements that are whole.

    Examples:
        >>> found = documents('warning: x\n{"a": [1, 2, 3')
        >>> found.found, found.notes
        ([{'a': [1, 2]}], ('cut off at line 2; what stands before was read', 'beside the JSON stands: warning: x'))
        >>> documents('[{"a": -nan}, {"a": 2}]').found
        [{'a': None}, {'a': 2}]
    """
    if _NO_NUMBER.search(text):
        text = _NO_NUMBER.sub(r"\1null", text)
    made, at = Documents(), 0
    while at < len(text):
        begin = _BEGIN.search(text, at)
        made.beside += [line for line in text[at : begin.start() if begin else len(text)].split("\n") if line.strip()]
        if begin is None:
            break
        at = _read(text, begin.start(), made)
    return made


def _read(text: str, at: int, made: Documents) -> int:
    """Read what begins at a bracket; return where it ends."""
    twice: list[str] = []

    def one(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        whole = dict(pairs)
        if len(whole) < len(pairs):
            names = [name for name, _ in pairs]
            twice.extend(f"`{name}` stands twice in an object, so that the file is damaged; the last one was read"
                         for name in _SINGLE if names.count(name) > 1)  # fmt: skip
        return whole

    decoder = json.JSONDecoder(object_pairs_hook=one, parse_constant=lambda _name: None)
    try:
        value, end = decoder.raw_decode(text, at)
    except json.JSONDecodeError as error:
        value = _salvaged(text[at : error.pos], decoder)
        again = _NEXT.search(text, max(error.pos, at + 1))
        end = again.start() if again else len(text)
        if _objects(value):
            is_cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
            how = "cut off" if is_cut else "damaged"
            made.damage.append(f"{how} at line {text.count(chr(10), 0, error.pos) + 1}; what stands before was read")
    except RecursionError:
        value, end = None, len(text)
    objects = _objects(value)
    if not objects:
        made.beside += [line for line in text[at:end].split("\n") if line.strip()]
    made.found += objects
    made.damage += [said for said in dict.fromkeys(twice) if said not in made.damage]
    return end


def _objects(value: object) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [value] if value else []
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return value
    return []


def _salvaged(text: str, decoder: json.JSONDecoder) -> object:
    """Return what is whole of a text that ends too early; none where nothing is.

    It is cut behind the last whole element of an array, or the last whole value of objects around which there is no
    array: half an element would be read as one that lacks something.
    """
    opened: list[str] = []
    best: tuple[int, str] | None = None
    for token in _TOKEN.finditer(text):
        said = token[0]
        if said in "{[":
            opened.append(said)
            continue
        if said in "}]":
            if not opened:
                break
            opened.pop()
        elif said != ",":
            continue
        if opened and (opened[-1] == "[" or "[" not in opened):
            best = (token.start() if said == "," else token.end(), "".join(opened))
    if best is None:
        return None
    end, around = best
    closed = "".join("}" if bracket == "{" else "]" for bracket in reversed(around))
    try:
        return decoder.decode(text[:end] + closed)
    except (ValueError, RecursionError):
        return None


def table(value: object) -> dict[str, Any]:
    """Return an object; an empty one where the value is none."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return an array; an empty one where the value is none."""
    return value if isinstance(value, list) else []


def amount(value: object) -> float | None:
    """Return a number that can be one of a measurement: not below 0, and not beyond `LARGEST`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < LARGEST else None


def whole(value: object) -> int | None:
    """Return such a number without its fraction."""
    number = amount(value)
    return None if number is None else int(number)


LARGEST = 1e18
"""No number of a measurement is larger; JSON has integers of any size, and infinity."""
_SINGLE = ("bytes", "seconds", "socket", "bits_per_second", "retransmits", "snd_cwnd", "seqno", "rtt")
"""Names of measured values: iperf3 writes others, those of its buffers, once for each stream."""
_MOST_SHOWN = 120
_BEGIN = re.compile(r"^[ \t]*(?=[\[{]\s*[\[{\"}\]])", re.MULTILINE)
"""Where a document begins: text of iperf3 has brackets with numbers."""
_NEXT = re.compile(r"^[\[{]", re.MULTILINE)
_NO_NUMBER = re.compile(r"([:\[,]\s*)[+-]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]')
