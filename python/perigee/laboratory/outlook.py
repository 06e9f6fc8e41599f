# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How many runs a study has and about how long they take: from results of the same study, or from what it carries."""

from __future__ import annotations

import math
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perigee.engines.plan.native import native_plan
from perigee.laboratory.catalogue import Summary
from perigee.places import StudyFile
from perigee.toml import document

SEGMENT_BYTES = 1460
SEGMENTS_PER_S = 1.2e6
"""Segments that a core simulates in a second, about."""
RUN_S = 0.01
"""Time of a run beside its segments."""
START_S = 2.0
"""Time to begin, and to write a report."""
OTHERS_BPS = 2e6
"""Rate of flows whose amount has none."""
UNKNOWN_BPS = 1e8
"""Rate of links that say none."""
MOST_KNOWN = 500
MOST_POINTS = 2_000
"""Points that are laid out to know a study's size."""
PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Outlook:
    """What to expect of a study.

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
    """What a study has to carry.

    Attributes:
        runs: how many runs.
        bytes: of a run, about.
        span_s: length of a run in its own time, about, s.
    """

    runs: int
    bytes: float
    span_s: float


class Outlooks:
    """The sizes of the studies that were asked for last. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[object, ...], Size] = OrderedDict()

    def knows(self, study: StudyFile) -> bool:
        """Whether the study as it stands was laid out already."""
        with self._lock:
            return (study.text, (), False) in self._known

    def of(
        self,
        study: StudyFile,
        results: Iterable[Summary],
        settings: Sequence[str] = (),
        *,
        reduced: bool = False,
        engine: str = "sim",
    ) -> Outlook:
        """Return what to expect of a study with settings.

        Args:
            study: the study.
            results: those there are; the ones of this study say how long a run takes.
            settings: `KEY=VALUE` overrides.
            reduced: take the small size.
            engine: what carries it out.

        Raises:
            InputError: the study or a setting is wrong.
        """
        key = (study.text, tuple(settings), reduced)
        with self._lock:
            size = self._known.get(key)
        if size is None:
            size = measured(study, settings, reduced=reduced)
            with self._lock:
                self._known[key] = size
                if len(self._known) > MOST_KNOWN:
                    self._known.popitem(last=False)
        if engine != "sim":
            return Outlook(size.runs, size.runs * size.span_s if engine == "emu" else None)
        taken = [
            one.took_s / one.runs
            for one in results
            if (one.study, one.engine, one.reduced) == (study.path.parent.name, "sim", reduced)
            and one.took_s
            and (one.settings == tuple(settings) or not one.settings)
        ]
        cores = os.cpu_count() or 1
        a_run = min(taken) if taken else (size.bytes / SEGMENT_BYTES / SEGMENTS_PER_S + RUN_S) / cores
        return Outlook(size.runs, START_S + size.runs * a_run)


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
    laid_out, setup = plan.laid_out(), plan.setup()
    rates = {link["name"]: _bits_per_s(_property(link, "rate")) or UNKNOWN_BPS for link in setup["links"]}
    paths = setup["networks"][0]["paths"] if setup["networks"] else {}
    carried, filled, span_s = 0.0, 0.0, 1.0
    for flow in setup["flows"]:
        path = [rates[name] for name in paths.get(flow["name"], ())]
        bottleneck = min(path or rates.values(), default=UNKNOWN_BPS)
        amount = _property(flow, "amount")
        seconds, size = _seconds(amount), _bytes(amount)
        if size is not None:
            carried += size
            span_s = max(span_s, 8 * size / bottleneck)
        elif amount.startswith("for "):
            # Flows that fill a link share it.
            filled = max(filled, bottleneck / 8 * seconds)
            span_s = max(span_s, seconds)
        else:
            carried += (_bits_per_s(amount) or OTHERS_BPS) / 8 * seconds
            span_s = max(span_s, seconds)
    return Size(runs or len(laid_out["points"]) * laid_out["rounds"], carried + filled, span_s)


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


def _property(of: Mapping[str, Any], name: str) -> str:
    return next((str(value) for key, value in of["properties"] if key == name), "")


def _bits_per_s(words: str) -> float | None:
    """Return the first rate in words; of a channel on demand its largest."""
    at_most = re.search(r"at most ([\d.]+) ([kMG]?)bit/s", words)
    found = at_most or re.search(r"([\d.]+)(?: ([kMG]?)bit/s| and [\d.]+ ([kMG]?)bit/s)", words)
    return float(found[1]) * PREFIXES[found[2] or ""] if found else None


def _bytes(amount: str) -> float | None:
    found = re.match(r"([\d.]+) ([kMG]?)B\b(?! asked| in | each)", amount)
    return float(found[1]) * PREFIXES[found[2]] if found else None


def _seconds(amount: str) -> float:
    found = re.search(r"(?:for |^)([\d.]+) s\b", amount)
    return float(found[1]) if found else 60.0
