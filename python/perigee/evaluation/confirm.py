# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Repeats the worst cells of an evaluation on the emulator: the running kernel's TCP, in real time."""

from __future__ import annotations

import math
import platform
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perigee.engines.emu.engine import Emulator
from perigee.engines.run.job import Job
from perigee.errors import InputError, RunError
from perigee.evaluation.cells import settings_of, slug
from perigee.evaluation.criterion import Criterion
from perigee.evaluation.judging import Cell, Finding, Judged, judge_measure
from perigee.evaluation.studies import Candidate, Order, study_of
from perigee.evaluation.tables import Tables
from perigee.keeper.kept import Bar, Say, results_folder, results_of
from perigee.numbers import number

CELLS = 3
"""Number of cells that are repeated."""
NEAR = 0.1
"""Share of the threshold, or of the larger distance, by which both engines may differ."""
FAULT_LETTERS = 240
"""Length of what the page says of a run that failed."""


@dataclass(frozen=True)
class Repeated:
    """A cell on the emulator.

    Attributes:
        criterion: what it belongs to.
        judged: the measure, as simulated.
        simulated: the cell, as simulated.
        emulated: the same cell on the emulator; none: a run failed.
        kernel: release of the kernel.
        fault: why a run failed; empty: none did.
    """

    criterion: Criterion
    judged: Judged
    simulated: Cell
    emulated: Cell | None
    kernel: str
    fault: str = ""

    @property
    def agrees(self) -> bool:
        """Whether both figures are as far from their thresholds, within a tenth of the threshold or the distance."""
        if self.emulated is None:
            return False
        simulated, emulated = self._times(self.simulated), self._times(self.emulated)
        return emulated == simulated or abs(emulated - simulated) <= NEAR * max(1.0, simulated)

    @property
    def sentence(self) -> str:
        """Return `agrees`, or by how much they differ."""
        if self.emulated is None:
            return f"no figure: {self.fault}"
        if self.agrees:
            return "agrees"
        simulated, emulated = self._times(self.simulated), self._times(self.emulated)
        flips = ", and would have another verdict" if (simulated > 1) != (emulated > 1) else ""
        return f"differs: {_times(emulated)} the threshold in the place of {_times(simulated)}{flips}"

    def _times(self, cell: Cell) -> float:
        return cell.times_beyond.get(self.judged.subject, math.nan)


def confirm(order: Order, findings: Sequence[Finding], bar: Bar, say: Say) -> list[Repeated]:
    """Repeat the cells that are furthest beyond their thresholds, or nearest to them; one round of each.

    Args:
        order: what was evaluated, and how.
        findings: its findings.
        bar: shows the progress of one cell, whose title it is given.
        say: prints a note.

    Raises:
        InputError: a folder of kept results has something else in it.
        StorageError: the results cannot be written.
        InterruptedRunError: the user stopped it.
    """
    found: list[Repeated] = []
    with results_folder(order.keep) as folder:
        for criterion, judged, cell in worst_cells(findings):
            settings = [*settings_of(order, criterion, cell, judged.measure), "rounds=1"]
            try:
                Emulator(study_of(criterion), settings, order.quick).prepare()
            except InputError as error:
                say(f"{criterion.id}, {cell.words}: not on the emulator: {error}")
                continue
            out = folder / "emulated" / slug(criterion, cell)
            job = Job(study_of(criterion), Emulator, settings, order.quick, out, fresh=order.fresh)
            emulated, fault = None, ""
            with bar(f"{criterion.id} on the emulator") as watch:
                try:
                    tables = Tables(results_of(job, watch, say), {order.candidate.value: judged.subject})
                    emulated = _cell(tables, judged, cell)
                except RunError as error:
                    say(f"{criterion.id}, {cell.words}: not on the emulator: {error}")
                    fault = shortened(str(error), order.candidate)
            found.append(Repeated(criterion, judged, cell, emulated, platform.release(), fault))
            if len(found) == CELLS:
                break
    return found


def shortened(fault: str, candidate: Candidate) -> str:
    """Return why a run failed in one short line without a path, whatever a compiler or the kernel's verifier said.

    Examples:
        >>> shortened("cc = /home/me/a.c: refused:   0: R1=ctx()", Candidate("a", "A test", "/home/me/a.c"))
        'cc = a: refused: 0: R1=ctx()'
    """
    return textwrap.shorten(fault.replace(candidate.value, candidate.name), FAULT_LETTERS, placeholder=" ...")


def worst_cells(findings: Sequence[Finding]) -> Iterator[tuple[Criterion, Judged, Cell]]:
    """Return the cells with thresholds, the worst first, each once, with the measure that is worst there."""
    measured = (
        (found.criterion, judged, cell)
        for found in findings
        for judged in found.measures
        for cell in judged.cells
        if judged.subject in cell.times_beyond
    )
    seen = set()
    for criterion, judged, cell in sorted(measured, key=lambda each: -each[2].times_beyond[each[1].subject]):
        if (criterion.id, cell.words) not in seen:
            seen.add((criterion.id, cell.words))
            yield criterion, judged, cell


def _cell(tables: Tables, judged: Judged, cell: Cell) -> Cell:
    """Return the cell that a measure finds on the emulator."""
    repeated = judge_measure(judged.measure, judged.measure.figure(tables), judged.subject)
    return next(one for one in repeated.cells if one.words == cell.words)


def _times(value: float) -> str:
    return f"{number(value, 2)} times" if math.isfinite(value) else "beyond any multiple of"
