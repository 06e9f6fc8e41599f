# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Figures as SVG elements of a page, with alternative text and data for the page's script.

The script hides what belongs to an entry of a legend, or to a name at the end of a line, and shows the values under the
pointer. For that each name has a number, which the drawn parts of the same label, or of the same colour and dash, have
too, and the figure has the scales of its axes. Bars and bands of uncertainty are apart from the values they belong to.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import Collection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter
from PIL import Image

from perigee.groups.looks import table
from perigee.report.charts.ends import ends_of
from perigee.report.charts.scales import without_direction
from perigee.report.legends import with_microseconds
from perigee.report.model import Plot
from perigee.report.style import EDGE, FAINT, INK, TINT

VARIABLES = {
    INK.lower(): "--ink", FAINT.lower(): "--line", EDGE.lower(): "--soft", TINT.lower(): "--pale",
    **{row.light: f"--c{number}" for number, row in enumerate(table().rows)},
}  # fmt: skip
"""Variables of the page's style for colours of figures."""

_COLOR = re.compile("|".join(VARIABLES), re.IGNORECASE)

POINTS_PER_INCH = 72
"""Unit of matplotlib's SVG, points."""
NEAR = 0.01
"""Share of a figure by which the corners of panels in one line differ at most."""
SCALES = ("linear", "log")
"""Scales that the script supports."""


@dataclass(frozen=True)
class Drawing:
    """A figure for the page.

    Attributes:
        element: the SVG element.
        scales: JSON for the script: `names` of the legend's entries, and of each `axes` its place and scales.
    """

    element: Markup
    scales: str


def draw(plot: Plot) -> Drawing:
    """Return a figure as an element with ids unique in the page."""
    names = _number_entries(plot.figure)
    buffer = io.StringIO()
    plot.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r'<g id="(entry|series|interval|cap)-(\d+)"', r'<g class="\1" data-entry="\2"', drawing)
    # Ids are per page, so those of two figures must differ.
    prefix = f"svg-{plot.name}-"
    drawing = re.sub(r'\bid="', f'id="{prefix}', drawing)
    drawing = re.sub(r'href="#', f'href="#{prefix}', drawing)
    drawing = re.sub(r"url\(#", f"url(#{prefix}", drawing)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = with_microseconds(re.sub(r"\n\s*", "\n", drawing))
    # A tenth of a point is a seventh of a pixel.
    drawing = re.sub(r'(?<= d=")[^"]+', lambda path: re.sub(r"\d+\.\d+", _tenths, path[0]), drawing)
    drawing = re.sub(r"(?<=data:image/png;base64,)[^\"]+", lambda image: _with_palette(image[0]), drawing)
    drawing = re.sub(r'(?<= style=")[^"]+', lambda style: themed(style[0]), drawing)
    alt = Markup.escape(plot.alt)
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{alt}" ', 1)
    scales = {"names": names, "axes": [_scales(axes) for axes in plot.figure.axes if axes.get_visible()]}
    return Drawing(Markup(drawing), json.dumps(scales))  # noqa: S704 - drawn here


def themed(text: str) -> str:
    """Return a text in which the colours of figures are variables, which the page sets for a light or dark ground.

    Examples:
        >>> themed("fill: #0d6abb; stroke: #ffffff")
        'fill: var(--c0); stroke: #ffffff'
    """
    return _COLOR.sub(lambda color: f"var({VARIABLES[color[0].lower()]})", text)


def _tenths(coordinate: re.Match[str]) -> str:
    """Return a coordinate rounded to a tenth, without a zero behind the point."""
    return f"{float(coordinate[0]):.1f}".removesuffix(".0")


def _with_palette(image: str) -> str:
    """Return a PNG in base64 with at most 256 colours, a third of its size; curves in flat colours have fewer."""
    smaller = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(image))) as drawn:
        drawn.quantize(method=Image.Quantize.FASTOCTREE).save(smaller, format="png", optimize=True)
    return base64.b64encode(smaller.getvalue()).decode()


def _number_entries(figure: Figure) -> list[str]:
    """Number the entries of all legends and their parts of equal label or look; return the entries' texts."""
    looks: dict[tuple[str, str], int] = {}
    names: list[str] = []
    for handle, text in (*_entries(figure), *ends_of(figure)):
        look = _look(handle)
        if look is None:
            continue
        number = looks.setdefault(look, len(names))
        if number == len(names):
            names.append(text.get_text().strip())
        for part in (handle, text):
            part.set_gid(f"entry-{number}")
    colors: dict[str, list[int]] = {}
    for (color, _), number in looks.items():
        colors.setdefault(color, []).append(number)
    lines = [_in_a_line(name) for name in names]
    for axes in figure.axes:
        kinds = _kinds(axes)
        for part in _parts(axes):
            look = _look(part)
            label = _in_a_line(str(part.get_label())).removeprefix("_")
            kind = kinds.get(part, "series")
            if label in lines:
                part.set_gid(f"{kind}-{lines.index(label)}")
                continue
            of_color = colors.get(look[0], []) if look else []
            found = looks.get(look) if look else None
            if found is None and len(of_color) == 1:
                # A shaded interval or a marker has the colour of its line but no dash.
                found = of_color[0]
            if found is not None:
                part.set_gid(f"{kind}-{found}")
    return names


def _kinds(axes: Axes) -> dict[Artist, str]:
    """Return the parts that are no values, but their uncertainty: bars and bands, and the caps of bars."""
    bars = [one.lines for one in axes.containers if isinstance(one, ErrorbarContainer)]
    caps = {cap: "cap" for _, of_bar, _ in bars for cap in of_bar}
    stems = {stem: "interval" for _, _, of_bar in bars for stem in of_bar}
    bands: dict[Artist, str] = {part: "interval" for part in axes.collections if isinstance(part, PolyCollection)}
    return bands | stems | caps


def _in_a_line(text: str) -> str:
    return " ".join(text.split())


def _entries(figure: Figure) -> Iterator[tuple[Artist, Text]]:
    """Return the entries of all legends."""
    own = [axes.get_legend() for axes in figure.axes]
    for legend in (*figure.legends, *(one for one in own if one is not None)):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=False):
            if handle is not None:
                yield handle, text


def _parts(axes: Axes) -> Iterator[Artist]:
    yield from axes.lines
    yield from axes.collections
    yield from axes.patches


def _look(artist: Any) -> tuple[str, str] | None:
    """Return colour and dash of a part; None if it has no colour of its own."""
    if isinstance(artist, Line2D):
        return _hex(artist.get_color()), repr(artist.get_linestyle())
    if isinstance(artist, Patch):
        return _hex(artist.get_facecolor()), "fill"
    if isinstance(artist, Collection):
        faces, edges = artist.get_facecolor(), artist.get_edgecolor()
        for colors in (faces, edges):
            if len(colors):
                return _hex(colors[0]), "fill"
    return None


def _hex(color: Any) -> str:
    return str(to_hex(color))


def _scales(axes: Axes) -> dict[str, Any]:
    """Return the position of axes in units of the SVG, and their scales."""
    figure: Any = axes.figure
    width, height = (POINTS_PER_INCH * side for side in figure.get_size_inches())
    box = axes.get_position()
    return {
        "x": {"from": round(box.x0 * width, 2), "to": round(box.x1 * width, 2), **_values(axes.xaxis)},
        "y": {"from": round((1 - box.y0) * height, 2), "to": round((1 - box.y1) * height, 2), **_values(axes.yaxis)},
    }


def _values(axis: Axis) -> dict[str, Any]:
    """Return the scale of an axis: its limits, or the words at its ticks by their share of its length."""
    axes: Any = axis.axes
    name: str = axis.axis_name  # type: ignore[attr-defined]
    low, high = (float(end) for end in (axes.get_xlim() if name == "x" else axes.get_ylim()))
    formatter: Any = axis.get_major_formatter()
    said = {"label": _label(axis), "low": low, "high": high, "scale": axis.get_scale()}
    if isinstance(formatter, FixedFormatter):
        places = [float(place) for place in axis.get_majorticklocs()]
        scale = axis.get_transform()
        begin, end = scale.transform([low, high])
        shares = [round(float((at - begin) / (end - begin)), 4) for at in scale.transform(places)]
        said["words"] = list(zip(shares, _at_ticks(places, formatter.seq), strict=False))
    elif axis.get_scale() not in SCALES:
        said["scale"] = ""
    return said


def _at_ticks(places: Sequence[float], texts: Sequence[str]) -> list[str]:
    r"""Return what ticks mean; a number whose label had no room beside others is written out.

    Examples:
        >>> _at_ticks([1, 2, 10], ["1", "", "10"]), _at_ticks([0, 1], ["first\nflow", ""])
        (['1', '2', '10'], ['first flow', ''])
    """
    are_numbers = all(re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", text) for text in texts if text)
    written = [f"{place:g}" if are_numbers and not text else text for place, text in zip(places, texts, strict=False)]
    return [text.replace("\n", " ") for text in written]


def _label(axis: Axis) -> str:
    """Return the label of an axis; of one in a grid of panels, that of the panels that share its scale."""
    axes: Any = axis.axes
    is_x = axis.axis_name == "x"  # type: ignore[attr-defined]
    shared = axes.get_shared_x_axes() if is_x else axes.get_shared_y_axes()
    row_or_column = [other for other in axes.figure.axes if _is_in_line(other, axes, is_x=is_x)]
    for other in (axes, *shared.get_siblings(axes), *row_or_column):
        text: str = (other.xaxis if is_x else other.yaxis).get_label_text()
        if text:
            return without_direction(text)
    return ""


def _is_in_line(other: Any, axes: Any, *, is_x: bool) -> bool:
    """Return True if axes stand in one column (for horizontal axes) or row (for vertical ones)."""
    here, there = axes.get_position(), other.get_position()
    return bool(abs(here.x0 - there.x0) < NEAR if is_x else abs(here.y0 - there.y0) < NEAR)
