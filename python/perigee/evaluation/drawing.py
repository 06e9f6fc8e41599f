# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The picture of a measure: how far each congestion control is from the threshold, in every cell."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from perigee.evaluation.judging import Judged

WIDTH, ROW, TOP, LEFT, RIGHT = 380, 24, 26, 124, 14
LEAST, MOST = 0.1, 10.0
"""Ends of the axis, as multiples of the threshold; dots beyond them stand at the ends."""
TICKS = ((0.1, "a tenth"), (1.0, "threshold"), (10.0, "ten times"))


def strip(judged: Judged, names: Sequence[str]) -> str:
    """Return an SVG element: a row for each congestion control, a dot for each cell, the threshold as a line."""
    height = TOP + ROW * len(names) + 8
    parts = []
    for times, words in TICKS:
        x = _x(times)
        anchor = {0.1: "start", 10.0: "end"}.get(times, "middle")
        line = "limit" if times == 1 else "grid"
        parts.append(f'<line class="{line}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 8}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="14" text-anchor="{anchor}">{words}</text>')
    for row, name in enumerate(names):
        y = TOP + ROW * row + ROW / 2
        parts.append(f'<text x="0" y="{y + 4:.1f}">{html.escape(name[:16])}</text>')
        for cell in judged.cells:
            if name in cell.times_beyond:
                times = cell.times_beyond[name]
                state = "beyond" if times > 1 else "within"
                parts.append(f'<circle class="{state}" cx="{_x(times):.1f}" cy="{y:.1f}" r="4.5"/>')
    label = html.escape(described(judged, names))
    inner = "".join(parts)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'<svg role="img" aria-label="{label}" {size}>{inner}</svg>'


def described(judged: Judged, names: Sequence[str]) -> str:
    """Return the picture in words."""
    cells = len(judged.cells)
    words = []
    for name in names:
        times = [cell.times_beyond[name] for cell in judged.cells if name in cell.times_beyond]
        if times:
            worst = max(times)
            said = f"{worst:.2g} times the threshold" if math.isfinite(worst) else "beyond any multiple of it"
            words.append(f"{name} beyond it in {sum(one > 1 for one in times)} of {cells} cells, at worst {said}")
    return f"{judged.measure.title}, distance from the threshold: {'; '.join(words)}."


def _x(times: float) -> float:
    """Return the place of a multiple of the threshold, on a logarithmic axis."""
    shown = min(max(times, LEAST), MOST)
    share = (math.log10(shown) - math.log10(LEAST)) / (math.log10(MOST) - math.log10(LEAST))
    return LEFT + share * (WIDTH - LEFT - RIGHT)
