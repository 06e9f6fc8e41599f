# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries the cells of a score out for one congestion control, authors' in a confined process of bounded means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from perigee.cc.child import LostError
from perigee.cc.fault import Library, line_of, near
from perigee.cc.limits import CodeLimits
from perigee.errors import InputError, RunError
from perigee.fitness.cells import ROUNDS, Cell
from perigee.fitness.figures import NAMES
from perigee.keeper.runs import Runs

LIMITS = CodeLimits(stall_s=2.0, memory_bytes=1 << 30, processor_s=20)

Figures = Mapping[str, Sequence[float]]
"""Figures of a cell by name, one per round."""


class EndedError(Exception):
    """The candidate's code did not get through a cell.

    Attributes:
        status: `crashed`, `hung` or `out of time`.
        said: what happened, and where.
        place: `FILE:LINE`; empty where that is not known.
    """

    def __init__(self, status: str, said: str, place: str = "") -> None:
        super().__init__(said)
        self.status = status
        self.said = said
        self.place = place


class Trying(Runs):
    """Carries cells out for one congestion control; used with `with`.

    Args:
        algorithm: its name, or the path of its file.
        library: that file, compiled; none: it is built in.
        limits: what it may take.
        goes_on: asked a few times a second whether to go on.
    """

    def __init__(
        self,
        algorithm: str,
        library: Library | None = None,
        limits: CodeLimits = LIMITS,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__([library] if library else [], limits, goes_on)
        self._algorithm = algorithm

    def figures(self, cell: Cell, length_s: float, rounds: int = ROUNDS) -> Figures:
        """Return the figures of a cell of a length.

        Raises:
            EndedError: the code crashed, hung, or took too long.
            StoppedError: nobody waits for it any more.
        """
        study = cell.study([self._algorithm], length_s=length_s, rounds=rounds)
        found: dict[str, list[float]] = {mark.name: [] for mark in cell.marks}
        try:
            for tables in self.tables(study, rounds, NAMES):
                for mark in cell.marks:
                    found[mark.name].append(mark.figure(tables, length_s))
        except LostError as lost:
            place = line_of(lost.fault, self._libraries) or ""
            said = f"{place or near(self._algorithm)}: cell {cell.name}: {lost.sentence}"
            status = "hung" if lost.stalled else "out of time" if lost.spent else "crashed"
            raise EndedError(status, said, place) from None
        except (ValueError, KeyError, InputError, RunError) as error:
            raise EndedError("crashed", f"cell {cell.name}: no figures came back: {error}") from None
        return found
