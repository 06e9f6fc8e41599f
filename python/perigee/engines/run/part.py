# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A part of a study's runs, for one of several machines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from perigee.errors import InputError

MOST = 1_000_000


@dataclass(frozen=True)
class Part:
    """The runs of one machine out of several: every `of`th run, which balances the load.

    Attributes:
        number: number of the part, from 1.
        of: number of parts.

    Examples:
        >>> [Part(number, 3).select(range(8)) for number in (1, 2, 3)]
        [[0, 3, 6], [1, 4, 7], [2, 5]]
    """

    number: int
    of: int

    @classmethod
    def read(cls, text: str) -> Part:
        """Parse the value of `--shard`.

        Raises:
            InputError: the text is not a part.

        Examples:
            >>> Part.read("2/8")
            Part(number=2, of=8)
            >>> Part.read("9/8")
            Traceback (most recent call last):
            ...
            perigee.errors.InputError: --shard 9/8: no such shard of 8; the first is 1/8, the last 8/8
        """
        found = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text)
        if found is None:
            raise InputError(f"--shard {text}: not a shard; write 1/8 for the first of eight")
        number, of = int(found[1]), int(found[2])
        if not 1 <= of <= MOST:
            raise InputError(f"--shard {text}: {of} shards; there may be 1 to {MOST}")
        if not 1 <= number <= of:
            raise InputError(f"--shard {text}: no such shard of {of}; the first is 1/{of}, the last {of}/{of}")
        return cls(number, of)

    def select(self, runs: Iterable[int]) -> list[int]:
        """Return the runs that belong to this part."""
        return [run for run in runs if run % self.of == self.number - 1]

    def of_all(self, runs: int) -> range:
        """Return the runs of this part out of `runs`.

        Examples:
            >>> list(Part(2, 3).of_all(8))
            [1, 4, 7]
        """
        return range(self.number - 1, runs, self.of)
