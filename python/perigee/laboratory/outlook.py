# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How many runs a study has and about how long they take, by the estimate of the command line."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perigee.engines.plan.forecast import elapsed_seconds, processor_seconds, real_seconds
from perigee.engines.plan.native import FREE, native_plan
from perigee.places import StudyFile
from perigee.toml import document

MOST_KNOWN = 500
MOST_POINTS = 2_000
"""Points that are laid out to know a study's size."""


@dataclass(frozen=True)
class Outlook:
    """The expected time and size of a study.

    Attributes:
        runs: how many it has.
        seconds: about how long they take on this machine; none: nobody knows, as of live runs.
    """

    runs: int
    seconds: float | None

    @property
    def words(self) -> str:
        """Both, for a button.

        Examples:
            >>> Outlook(320, 33.0).words, Outlook(1, None).words
            ('320 runs, about 35 s', '1 run')
        """
        runs = "1 run" if self.runs == 1 else f"{self.runs:,} runs"
        return runs if self.seconds is None else f"{runs}, about {duration(self.seconds)}"


@dataclass(frozen=True)
class Size:
    """The load of a study.

    Attributes:
        runs: how many runs.
        processor_s: processor time of the simulator, about, s.
        real_s: their time one after the other, at least, s.
    """

    runs: int
    processor_s: float
    real_s: float


class Outlooks:
    """The sizes of the studies that were asked for last. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[object, ...], Size] = OrderedDict()

    def of(
        self,
        study: StudyFile,
        settings: Sequence[str] = (),
        *,
        reduced: bool = False,
        engine: str = "sim",
    ) -> Outlook:
        """Return what to expect of a study with settings.

        Args:
            study: the study.
            settings: `KEY=VALUE` overrides.
            reduced: take the small size.
            engine: what carries it out.

        Raises:
            InputError: the study or a setting is wrong.
        """
        if found := self.known(study, settings, reduced=reduced, engine=engine):
            return found
        size = measured(study, settings, reduced=reduced)
        with self._lock:
            self._known[study.text, tuple(settings), reduced] = size
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return _outlook(size, engine)

    def known(
        self, study: StudyFile, settings: Sequence[str] = (), *, reduced: bool = False, engine: str = "sim"
    ) -> Outlook | None:
        """Return what `of` does if it was laid out already."""
        with self._lock:
            size = self._known.get((study.text, tuple(settings), reduced))
        return None if size is None else _outlook(size, engine)


def _outlook(size: Size, engine: str) -> Outlook:
    if engine == "live":
        return Outlook(size.runs, None)
    return Outlook(size.runs, size.real_s if engine == "emu" else elapsed_seconds(size.processor_s, size.runs))


def measured(study: StudyFile, settings: Sequence[str], *, reduced: bool) -> Size:
    """Return the size of a study.

    Raises:
        InputError: the study or a setting is wrong.
    """
    runs = None if settings or reduced else _many(study)
    if runs:
        # Reading each point takes seconds; the runs of the first values stand for all.
        first = {axis: values[:1] for axis, values in study.content["vary"].items()}
        content = {key: value for key, value in study.content.items() if key != "reduced"}
        study = replace(study, text=document({**content, "vary": first}))
    plan = native_plan(study, settings, reduced, foreign="settings")
    outlook = plan.outlook_emulated(FREE)
    laid_out = len(outlook.runs) * outlook.rounds
    scale = (runs or laid_out) / laid_out
    return Size(runs or laid_out, scale * processor_seconds(outlook, plan.rooms()), scale * real_seconds(outlook))


def _many(study: StudyFile) -> int | None:
    """Return the number of runs of a study with one sweep, if they are very many."""
    axes, rounds = study.content.get("vary"), study.content.get("rounds", 1)
    if not isinstance(axes, Mapping) or "experiments" in study.content or not isinstance(rounds, int):
        return None
    lengths = [len(values) if isinstance(values, list) else 0 for values in axes.values()]
    points = math.prod(lengths)
    return points * rounds if points > MOST_POINTS else None


def duration(seconds: float) -> str:
    """Write about how long something takes.

    Examples:
        >>> [duration(each) for each in (0.4, 7.2, 33, 87, 400, 5000, 100000)]
        ['1 s', '7 s', '35 s', '85 s', '7 min', '85 min', '28 h']
    """
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 100:
        return f"{5 * round(seconds / 5)} s"
    if seconds < 600:
        return f"{round(seconds / 60)} min"
    if seconds < 2 * 3600:
        return f"{5 * round(seconds / 300)} min"
    return f"{round(seconds / 3600)} h"
