# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The runs of a plan: every point in every round, made on demand, so that a million runs need no memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

Run = Mapping[str, Any]
"""A run: `index`, `round`, `seed`, and of its point `point` (varied keys), `flows`, `links`."""


class Runs(Sequence[Run]):
    """All points of round 0, then all of round 1, and so on.

    Args:
        points: content of each point of the study, the same in every round.
        rounds: number of runs of each point.
        seed_of: returns the seed of a round.

    Attributes:
        points: as given.
        rounds: as given.

    Examples:
        >>> runs = Runs([{"point": {"x": 1}}, {"point": {"x": 2}}], 500_000, lambda number: 7 + number)
        >>> len(runs), runs[999_999]
        (1000000, {'index': 999999, 'round': 499999, 'seed': 500006, 'point': {'x': 2}})
    """

    def __init__(self, points: Sequence[Run], rounds: int, seed_of: Callable[[int], int]) -> None:
        self.points = points
        self.rounds = rounds
        self._seed_of = seed_of

    def __len__(self) -> int:
        """The number of runs."""
        return len(self.points) * self.rounds

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> list[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | list[Run]:
        """Return the run of this index, or the runs of a slice."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no run {index}")
        index %= len(self)
        round_ = self.round_of(index)
        return {
            "index": index, "round": round_, "seed": self.seed_of(round_), **self.points[index % len(self.points)],
        }  # fmt: skip

    def round_of(self, index: int) -> int:
        """Return the round of a run."""
        return index // len(self.points)

    def seed_of(self, round_: int) -> int:
        """Return the seed that all runs of a round share."""
        return self._seed_of(round_)

    @property
    def digest(self) -> str:
        """SHA-256 of all runs; the seeds of the rounds follow from the first.

        Examples:
            >>> Runs([{"point": {}}], 1, lambda _round: 7).digest[:12]
            '79c95e764b14'
        """
        plan = {"points": list(self.points), "rounds": self.rounds, "first_seed": self.seed_of(0)}
        return hashlib.sha256(json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def describe(run: Mapping[str, Any]) -> str:
    """Describe a run in a few words.

    Examples:
        >>> describe({"round": 3, "point": {"flow.cc": "cubic"}})
        'round 3, flow.cc = cubic'
    """
    point = run.get("point") or {}
    if isinstance(point, str):
        point = json.loads(point)
    # The name of a variant suffices.
    said = {
        key: value["name"] if "." not in key and isinstance(value, Mapping) else in_words(value)
        for key, value in point.items()
    }
    words = [f"round {run.get('round', 0)}", *(f"{key} = {value}" for key, value in said.items())]
    return ", ".join(words)


def in_words(value: object) -> str:
    """Return a value of a varied key as people write it.

    Examples:
        >>> in_words("cubic"), in_words({"name": "bbr", "extra_acked": False}), in_words({"bytes": "3 MB"}), in_words(3)
        ('cubic', 'bbr (extra_acked = False)', 'bytes = 3 MB', '3')
    """
    if not isinstance(value, Mapping):
        return str(value)
    settings = ", ".join(f"{key} = {in_words(each)}" for key, each in value.items() if key != "name")
    if "name" not in value:
        return settings
    return f"{value['name']} ({settings})" if settings else str(value["name"])
