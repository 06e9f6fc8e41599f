# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The words of a command line, taken one after the other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from perigee.errors import InputError
from perigee.importing.link import Place
from perigee.importing.units import quantity
from perigee.names import suggestion


@dataclass
class Words:
    """The rest of a command, and where it stands.

    Attributes:
        place: its line.
        left: its words from here on.
        kind: the queue whose options they are; empty before that is known.
    """

    place: Place
    left: list[str]
    kind: str = ""

    def take(self, after: str) -> str:
        """Take the next word.

        Raises:
            InputError: none is left.
        """
        if not self.left:
            raise self.place.error(f"`{after}` ends without its value", f"write the value behind `{after}`")
        return self.left.pop(0)

    def quantity(self, after: str, units: Mapping[str, float], like: str) -> float:
        """Take a quantity with a unit; `like` is an example of one.

        Raises:
            InputError: the next word is none.
        """
        word = self.take(after)
        value = quantity(word, units)
        if value is None:
            raise self.place.error(f"`{after} {word}`: not a value with a unit that it takes", f"write it as `{like}`")
        return value

    def more(self) -> bool:
        """Whether the next word begins with a digit: a value that may be left out."""
        return bool(self.left) and self.left[0][0] in "0123456789."

    def count(self, after: str) -> int:
        """Take a whole number.

        Raises:
            InputError: the next word is none.
        """
        word = self.take(after)
        match = re.fullmatch(r"([0-9]+)p?", word)
        if match is None:
            raise self.place.error(f"`{after} {word}`: not a whole number", f"write it as `{after} 1000`")
        return int(match[1])

    def optional(self, units: Mapping[str, float], after: str, like: str) -> float | None:
        """Take a quantity where one follows."""
        return self.quantity(after, units, like) if self.more() else None

    def unknown(self, word: str, kind: str, known: Iterable[str]) -> InputError:
        """Return the error of a word that is no option."""
        return self.place.error(f"`{word}` is no option of {kind} that is read", suggestion(word, known))


def commands(text: str, file: str) -> Iterator[Words]:
    r"""Yield the commands of a shell script, with `sudo`, comments, continued lines and `&&`.

    Raises:
        InputError: a quote is not closed.

    Examples:
        >>> [(words.place.line, words.left) for words in commands("sudo tc a \\\n b && tc c  # d\n", "f")]
        [(1, ['tc', 'a', 'b']), (1, ['tc', 'c'])]
    """
    held, begin = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        begin = begin if held else number
        held += line.strip()
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        place = Place(file, begin)
        try:
            split = shlex.shlex(held, posix=True, punctuation_chars=";&|")
            split.whitespace_split = True
            tokens = list(split)
        except ValueError:
            raise place.error("a quote is not closed", "close it") from None
        held = ""
        command: list[str] = []
        for token in [*tokens, ";"]:
            if not set(token) <= set(";&|"):
                command.append(token)
                continue
            while command and command[0] in ("sudo", "$", "#", "exec", "do", "then", "else", "!"):
                command.pop(0)
            if command:
                yield Words(place, command)
            command = []
