# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The style of figures: letters, axes, sizes, and common helpers."""

from __future__ import annotations

import difflib
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter

from perigee.errors import InputError
from perigee.groups.looks import table

WIDTH_IN = 7.2
"""Width of a figure: the text width of an A4 or letter page, both columns of a paper."""

COLUMN_IN = 3.5
"""Width of a figure in one column of a paper."""

NARROWEST_IN, WIDEST_IN = 2.0, 15.0
"""Widths that a figure for a paper may have."""

WHOLE_FROM, WHOLE = 50.0, 102.0
"""Share in percent above which an axis goes to 100, and its end, at which marks at 100 are not cut."""

FONT = "DejaVu Sans"
"""The usual font, which has the letters that another one lacks."""

INK, EDGE, FAINT, TINT = (table().inks[name]["light"] for name in ("ink", "soft", "line", "pale"))
"""Colours of text, axes and grids, and the ground of a panel that has a scale of its own beside others."""

_STYLE: dict[str, Any] = {
    "font.family": [FONT],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": EDGE,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "hatch.linewidth": 0.5,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "svg.fonttype": "path",
    "svg.hashsalt": "perigee",
    "pdf.fonttype": 42,
    "figure.constrained_layout.w_pad": 0.08,
    # Labels are data, so a dollar sign does not begin mathematics.
    "text.parse_math": False,
    "path.simplify": True,
    "path.simplify_threshold": 0.2,
}


@dataclass(frozen=True)
class Form:
    """How the figures of a report are set.

    Attributes:
        font: name of their font; empty: DejaVu Sans.
        width_in: width of the figures for papers, inches; None: page width, and column width beside it.
        labels: what to call algorithms, groups and values, as the labels of `report.toml`, which these replace.

    Raises:
        InputError: this machine has no such font.
    """

    font: str = ""
    width_in: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the font exists."""
        if not self.font:
            return
        try:
            findfont(FontProperties(family=[self.font]), fallback_to_default=False)
        except ValueError as error:
            near = difflib.get_close_matches(self.font, {one.name for one in fontManager.ttflist}, 1)
            said = f"; did you mean {near[0]}?" if near else "; `fc-list : family` lists those of this machine"
            raise InputError(f"--font {self.font}: there is no such font on this machine{said}") from error


def width_of_figures(text: str) -> float:
    """Return a width for papers in inches.

    Raises:
        InputError: it is no width, or no sensible one.

    Examples:
        >>> width_of_figures("252pt"), round(width_of_figures("88 mm"), 2), width_of_figures("3.5in")
        (3.5, 3.46, 3.5)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(pt|mm|cm|in)", text.strip())
    if not found:
        raise InputError(f"--figure-width {text}: is no width; write it with its unit, such as 252pt or 88mm")
    width_in = float(found[1]) / {"pt": 72.0, "mm": 25.4, "cm": 2.54, "in": 1.0}[found[2]]
    if not NARROWEST_IN <= width_in <= WIDEST_IN:
        raise InputError(f"--figure-width {text}: must be from {NARROWEST_IN:g} to {WIDEST_IN:g} inches")
    return width_in


@contextmanager
def styled(font: str = "") -> Iterator[None]:
    """Apply the style to figures within the block, with a font of this machine."""
    context: Any = mpl.rc_context
    fonts = {"font.family": [font, FONT]} if font else {}
    with context(_STYLE | fonts), warnings.catch_warnings():
        # A letter missing in the font is a box in the figure, but correct in the page's text.
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from font", UserWarning)
        yield


_COLUMN_STYLE: dict[str, Any] = {
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.handlelength": 2.2,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
}
"""Settings for a figure at column width; letters of 7 points stay readable."""


@contextmanager
def in_a_column() -> Iterator[None]:
    """Size figures within the block, itself within `styled`, for a column of a paper."""
    context: Any = mpl.rc_context
    with context(_COLUMN_STYLE):
        yield


class Drawing(Figure):
    """A figure that displays itself in a notebook without the notebook's own plotting mode."""

    def draw(self, renderer: RendererBase) -> None:
        """Draw the figure; in matplotlib's draw without output before saving, only lay it out."""
        layout = self.get_layout_engine()
        with _ticks_kept(self):
            if self.canvas.is_saving() and isinstance(layout, ConstrainedLayoutEngine):
                # During saving itself, matplotlib has another layout engine in place.
                layout.execute(self)
            else:
                super().draw(renderer)

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        with styled():
            self.savefig(content, format="png", dpi=100)
        return content.getvalue()


_PLACE: ContextVar[Axes | None] = ContextVar("place", default=None)
"""Axes of another figure in whose place the next figure is drawn."""


@contextmanager
def in_place_of(axes: Axes | None) -> Iterator[Figure | None]:
    """Draw the first figure within the block in the place of axes of another figure, if any, which it yields.

    Raises:
        InputError: the axes were not made by `subplots`.
    """
    if axes is not None and axes.get_subplotspec() is None:
        raise InputError("ax: these axes have no place in a grid; make them with subplots()")
    token = _PLACE.set(axes)
    try:
        whole: Any = axes.get_figure() if axes is not None else None
        yield whole
    finally:
        _PLACE.reset(token)


def figure(height_in: float, width_in: float = WIDTH_IN) -> Drawing:
    """Return an empty figure, laid out without overlaps, or the part of one that `in_place_of` gave it."""
    if (axes := _PLACE.get()) is None:
        return Drawing(figsize=(width_in, height_in), layout="constrained")
    _PLACE.set(None)
    whole, spec = axes.get_figure(), axes.get_subplotspec()
    axes.remove()
    part: Any = whole.add_subfigure(spec)  # type: ignore[union-attr, arg-type]
    # A part has what a figure has but for its size.
    part.get_figwidth = lambda: part.bbox.width / part.dpi
    part.get_figheight = lambda: part.bbox.height / part.dpi
    drawing: Drawing = part
    return drawing


@contextmanager
def _ticks_kept(drawing: Figure) -> Iterator[None]:
    """Keep the ticks of each axis within the block until its limits, its length or the resolution change.

    matplotlib computes them some eight times per layout: for their own extent, and for those of the label, the title
    and each spine. That takes a third of the time of a figure.
    """
    axes: list[Any] = [axis for one in drawing.axes for axis in (one.xaxis, one.yaxis)]
    for axis in axes:
        axis._update_ticks = _Ticks(axis)
    try:
        yield
    finally:
        for axis in axes:
            del axis._update_ticks


class _Ticks:
    """Return the ticks of an axis like matplotlib's `Axis._update_ticks`, recomputed if they may have changed."""

    def __init__(self, axis: Any) -> None:
        self._axis = axis
        self._compute: Callable[[], list[Any]] = axis._update_ticks
        self._depend_on: tuple[Any, ...] = ()
        self._ticks: list[Any] = []

    def __call__(self) -> list[Any]:
        axis = self._axis
        depend_on = (*axis.get_view_interval(), *axis.axes.bbox.bounds, axis.get_figure().dpi)
        if depend_on != self._depend_on:
            self._ticks, self._depend_on = self._compute(), depend_on
        return self._ticks


def plain_numbers(axis: Axis) -> None:
    """Format the numbers of a logarithmic axis without powers, which would need mathematics in labels."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def from_zero(axes: Sequence[Axes], unit: str = "") -> None:
    """Begin the vertical axes at zero; of large shares in percent they end at 100."""
    for one in axes:
        one.set_ylim(bottom=0)
        if unit == "%" and one.get_ylim()[1] > WHOLE_FROM:
            one.set_ylim(top=WHOLE)


def grow(drawing: Figure, height_in: float) -> None:
    """Make a figure higher, but for one that `in_place_of` has given a place."""
    if isinstance(drawing, Figure):
        drawing.set_figheight(drawing.get_figheight() + height_in)


def tint(axes: Axes) -> None:
    """Shade the ground of a panel that has a scale of its own beside others."""
    axes.add_patch(Rectangle((0, 0), 1, 1, transform=axes.transAxes, facecolor=TINT, lw=0, zorder=-1, label=_OWN))


def is_tinted(axes: Axes) -> bool:
    """Return True if `tint` has shaded a panel."""
    return any(patch.get_label() == _OWN for patch in axes.patches)


_OWN = "_own scale"
