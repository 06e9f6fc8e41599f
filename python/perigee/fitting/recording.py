# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A recorded link: when it could send, and its one-way delay, in the formats of mahimahi and LeoReplayer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perigee.errors import InputError

Floats = npt.NDArray[np.float64]

SLOT_MS = 15_000
"""Length of a slot of Starlink (Tanveer et al., CoNEXT Companion 2023)."""
STEP_MS = 20
DELAY_MS = 10
"""Length of time that a line of the delays stands for."""
OPPORTUNITY_KBIT = 12
"""1500 bytes, what a line of the rates can send."""
LEAST_SLOTS = 4
"""Fewer slots say nothing of how slots differ."""
RAISED_AFTER_STEPS = 3
"""Steps from a slot's begin to the highest rise of its delay."""


@dataclass(frozen=True)
class Recording:
    """A recorded link, from its first whole step to its last.

    Attributes:
        bw: file of the rates: a line per opportunity to send 1500 bytes, the millisecond at which it ends.
        delay: file of the delays: a line per 10 ms, whole ms.
        opportunities: number of opportunities in each millisecond.
        delay_ms: one-way delay of each 10 ms.
    """

    bw: Path
    delay: Path
    opportunities: npt.NDArray[np.int64]
    delay_ms: Floats

    @property
    def steps_mbps(self) -> Floats:
        """The rate of each step."""
        return np.asarray(self.opportunities.reshape(-1, STEP_MS).sum(axis=1) * (OPPORTUNITY_KBIT / STEP_MS), float)

    @property
    def steps_delay_ms(self) -> Floats:
        """The mean delay of each step."""
        return np.asarray(self.delay_ms.reshape(-1, STEP_MS // DELAY_MS).mean(axis=1), float)

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.opportunities) / 1000

    @property
    def first_step(self) -> int:
        """The step in which its first slot begins: some steps before the folded delay rises most."""
        per_slot = SLOT_MS // STEP_MS
        folded = [self.steps_delay_ms[start::per_slot].mean() for start in range(per_slot)]
        return max(range(per_slot), key=lambda start: folded[start] - folded[start - 2]) - RAISED_AFTER_STEPS


def read_recording(bw: Path, delay: Path) -> Recording:
    """Read a recording; what only one of the files has at the end is left out.

    Raises:
        InputError: a file cannot be read, a line of it is wrong, or it is too short.
    """
    instants, delays = _whole_numbers(bw), _whole_numbers(delay)
    back = np.flatnonzero(np.diff(instants) < 0)
    if len(back):
        line = int(back[0]) + 2
        raise InputError(f"{bw}:{line}: {instants[line - 1]} ms comes after {instants[line - 2]} ms; sort the lines")
    steps = min(int(instants[-1]), len(delays) * DELAY_MS) // STEP_MS
    if steps * STEP_MS < LEAST_SLOTS * SLOT_MS:
        raise InputError(
            f"{bw}, {delay}: {steps * STEP_MS / 1000:g} s are in both; record {LEAST_SLOTS * SLOT_MS // 1000} s or "
            f"more, since slots last {SLOT_MS // 1000} s"
        )
    # Opportunity t belongs to the millisecond that ends at t.
    slots = np.maximum(instants - 1, 0)
    counts = np.bincount(slots[slots < steps * STEP_MS], minlength=steps * STEP_MS)
    return Recording(bw, delay, counts, delays[: steps * STEP_MS // DELAY_MS].astype(float))


def autocorrelation(values: Sequence[float] | Floats, lag: int) -> float:
    """Return the autocorrelation of equidistant values after `lag` of them; zero if they do not vary.

    Examples:
        >>> autocorrelation([1, 3, 1, 3, 1, 3, 1, 3], 2)
        1.0
    """
    off = np.asarray(values, float) - np.mean(values)
    variance = float((off**2).mean())
    return float((off[:-lag] * off[lag:]).mean()) / variance if variance else 0.0


def _whole_numbers(file: Path) -> npt.NDArray[np.int64]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error
    if not lines:
        raise InputError(f"{file}: empty; it has a line per opportunity, or per 10 ms")
    numbers = np.empty(len(lines), np.int64)
    for i, line in enumerate(lines):
        text = line.strip()
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise InputError(f"{file}:{i + 1}: {text[:40]!r} is not a number of milliseconds; write one such as 12")
        numbers[i] = int(text)
    return numbers


_MOST_DIGITS = 9
