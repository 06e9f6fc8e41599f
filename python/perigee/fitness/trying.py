# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries the cells of a score out for one congestion control, in a confined process of bounded time and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from perigee.cc.child import Child, LostError
from perigee.cc.fault import Library, line_of, near
from perigee.cc.limits import CodeLimits
from perigee.errors import InputError, RunError
from perigee.fitness.cells import ROUNDS, Cell
from perigee.fitness.figures import NAMES, Tables
from perigee.places import headers
from perigee.store.schema import empty_table
from perigee.store.streams import checked_frame

PATH = "score.toml"
"""Name of a cell's study in errors; it is never a file."""
LIMITS = CodeLimits(stall_s=2.0, memory_bytes=1 << 30, processor_s=20)

Figures = Mapping[str, tuple[float, ...]]
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


class Trying:
    """A process that carries cells out for one congestion control; used with `with`.

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
        self._algorithm = algorithm
        self._libraries = [library] if library else []
        self._goes_on = goes_on
        self._child = Child(limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._child.close()

    def figures(self, cell: Cell, length_s: float, rounds: int = ROUNDS) -> Figures:
        """Return the figures of a cell of a length.

        Raises:
            EndedError: the code crashed, hung, or took too long.
            StoppedError: nobody waits for it any more.
        """
        text = cell.study([self._algorithm], length_s=length_s, rounds=rounds)
        arguments = [text, PATH, [], False, [], str(headers())]
        paths = [str(path) for path, _, _ in self._libraries]
        blobs = [blob for _, source, library in self._libraries for blob in (source, library)]
        found: dict[str, list[float]] = {mark.name: [] for mark in cell.marks}
        try:
            self._child.ask({"do": "plan", "arguments": arguments, "paths": paths}, blobs, watch=self._watch)
            for index in range(rounds):
                answer, parts = self._child.ask({"do": "run", "index": index}, watch=self._watch)
                tables = _tables(dict(zip(answer["tables"], map(bytes, parts), strict=False)))
                for mark in cell.marks:
                    found[mark.name].append(mark.figure(tables, length_s))
        except LostError as lost:
            raise self._ended(cell, lost) from None
        except (ValueError, KeyError, InputError, RunError) as error:
            raise EndedError("crashed", f"cell {cell.name}: no figures came back: {error}") from None
        return {name: tuple(values) for name, values in found.items()}

    def _watch(self, _share: float) -> bool:
        return self._goes_on()

    def _ended(self, cell: Cell, lost: LostError) -> EndedError:
        place = line_of(lost.fault, self._libraries) or ""
        callback = f"`{lost.noted.callback}` at {lost.noted.time_s:.6f} s" if lost.noted.callback else "the code"
        where = place or str(near(self._algorithm))
        status = "hung" if lost.stalled else "out of time" if lost.spent else "crashed"
        return EndedError(status, f"{where}: cell {cell.name}: {callback} {lost.how}", place)


def _tables(streams: Mapping[str, bytes]) -> Tables:
    return {name: checked_frame(name, streams[name]) if name in streams else empty_table(name) for name in NAMES}
