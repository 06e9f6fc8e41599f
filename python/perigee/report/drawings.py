# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The figures of a page as SVG, drawn by several processes."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from perigee.report import svg
from perigee.report.model import Plot

Watch = Callable[[float], None]
"""Is given the share of the work that is done, 0 to 1."""

_plots: Sequence[Plot] = ()
"""The figures that forked processes draw: they inherit them, since matplotlib's figures are costly to send."""


def drawings(plots: Sequence[Plot], workers: int | None = None, watch: Watch | None = None) -> dict[str, svg.Drawing]:
    """Return the figures as elements by name, the same for any number of processes.

    Args:
        plots: the figures.
        workers: number of processes; None: as many as cores, and one in a process with other threads of Python.
        watch: is given the share of the figures that are drawn.
    """
    global _plots
    if workers is None:
        workers = (os.cpu_count() or 1) if threading.active_count() == 1 else 1
    workers = min(workers, len(plots))
    found: dict[str, svg.Drawing] = {}
    if workers <= 1:
        for done, plot in enumerate(plots, 1):
            found[plot.name] = svg.draw(plot)
            if watch:
                watch(done / len(plots))
        return found
    _plots = plots
    # A child draws and never frees what it inherits, such as tables whose library has threads.
    gc.freeze()
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
            for done, (plot, drawing) in enumerate(zip(plots, pool.map(_draw, range(len(plots))), strict=True), 1):
                found[plot.name] = drawing
                if watch:
                    watch(done / len(plots))
    finally:
        gc.unfreeze()
        _plots = ()
    return found


def _draw(number: int) -> svg.Drawing:
    return svg.draw(_plots[number])
