# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Heat map of a quantity over two factors with its numbers; a panel per algorithm."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from perigee.groups.factors import Factor
from perigee.numbers import decimals, number, three_figures
from perigee.report.charts.grid import grid
from perigee.report.charts.sample import Sample, by_levels, texts
from perigee.report.charts.scales import LOG_VALUES_FROM, at_least, slant, with_direction
from perigee.report.legends import POINTS_PER_IN, size_of, width_of
from perigee.report.style import grow, plain_numbers
from perigee.statistics.estimates import Array
from perigee.statistics.metrics import Metric


@dataclass(frozen=True)
class Palette:
    """Colours of a map.

    Attributes:
        colors: the colours of the ends, and of what lies between.
    """

    colors: Sequence[str]

    @property
    def map(self) -> Colormap:
        """The colours as matplotlib takes them, so few that each stays a shape of its own in a page."""
        return LinearSegmentedColormap.from_list("perigee", list(self.colors), N=SHADES)

    def reversed(self) -> Palette:
        """Return the colours from the other end."""
        return Palette(self.colors[::-1])

    def ink_at(self, place: float) -> str:
        """Return the colour of letters on that of a place, 0 to 1: the one of more contrast."""
        return "white" if _luminance(self.map(place)[:3]) < DARK_BELOW else ON_BRIGHT


SHADES = 41
"""Number of colours of a map."""

AMOUNTS = Palette(("#eef4fa", "#0b5cad"))
"""For quantities: the accent of the pages, light to dark; readable in grey, and with colour blindness."""

RATIOS = Palette(("#67001f", "#d6604d", "#f7f7f7", "#4393c3", "#053061"))
"""For ratios: white at 1, red below, blue above."""

ON_BRIGHT = "#101418"
"""Colour of numbers on bright cells, on a page of any ground."""

ALIKE = 0.5
"""Ratio of the least to the largest value above which the scale of colours does not begin at zero."""

DARK_BELOW = 0.18
"""Luminance below which white has more contrast than black (WCAG)."""

LETTERS = 6.5
"""Size of the numbers in the cells, in points."""


def heat(sample_: Sample, metric: Metric, axes: tuple[Factor, Factor], panel: Factor | None, width_in: float) -> Figure:
    """Draw a metric over two factors.

    Args:
        sample_: the flows.
        metric: the quantity.
        axes: factor of the horizontal axis, and of the vertical one.
        panel: factor of the panels.
        width_in: width of the figure.
    """
    maps = {text: table(sample_, metric, axes, panel, text) for text in texts(panel)}
    return maps_figure(maps, metric, axes, panel, width_in)


def maps_figure(
    maps: Mapping[str, Array],
    metric: Metric,
    axes: tuple[Factor, Factor],
    panel: Factor | None,
    width_in: float,
    *,
    is_ratio: bool = False,
) -> Figure:
    """Draw maps with one scale of colours, a panel each.

    Args:
        maps: by level of `panel`, the values, shape (levels of the vertical factor, of the horizontal one).
        metric: the quantity.
        axes: factor of the horizontal axis, and of the vertical one.
        panel: factor of the panels.
        width_in: width of the figure.
        is_ratio: whether the values are ratios, of which 1 is in the middle of the colours.
    """
    x, y = axes
    palette = RATIOS if is_ratio else AMOUNTS
    # The dark end is the better one.
    is_turned = metric.higher_is_better is False
    palette = palette.reversed() if is_turned else palette
    there = {column: found for column, found in enumerate(maps.values()) if np.isfinite(found).any()}
    values = np.concatenate([found[np.isfinite(found)] for found in there.values()])
    norm = around_one(values) if is_ratio else norm_of(values, metric)
    laid = grid(
        0.9 * width_in,
        1,
        [panel.said(text) if panel else "" for text in maps],
        [(0, column) for column in there],
        height_in=0.6 + 0.28 * max(3, len(y.levels)),
        narrowest_in=max(1.6, 0.8 + 0.36 * len(x.levels)),
        share_x=False,
        share_y=False,
    )
    laid.figure.set_figwidth(width_in)
    wide = 0.85 * width_in / max(1, min(len(there), int(width_in / 1.6))) / len(x.levels)
    slanted_in = 0.0
    for (_, column), one in laid.panels.items():
        slanted_in = draw(one, there[column], (x, y), norm, metric, room_in=wide, palette=palette)
    grow(laid.figure, slanted_in * laid.labelled_lines)
    laid.label(x.heading, [y.heading])
    bar = laid.figure.colorbar(
        ScalarMappable(norm, palette.map),
        ax=list(laid.panels.values()),
        label=with_direction(textwrap.fill(metric.heading, 30), metric.higher_is_better, is_reversed=is_turned),
        pad=0.02,
        aspect=30,
    )
    plain_numbers(bar.ax.yaxis)
    if is_turned:
        bar.ax.invert_yaxis()
    bar.outline.set_visible(False)
    # Shapes of the bar would have bright seams.
    bar.solids.set_edgecolor("face")  # type: ignore[union-attr]
    return laid.figure


def table(
    sample_: Sample, metric: Metric, axes: tuple[Factor, Factor], panel: Factor | None = None, text: str = ""
) -> Array:
    """Return the means, shape (levels of the vertical factor, of the horizontal one); NaN: no flow."""
    x, y = axes
    found = np.full((len(y.levels), len(x.levels)), np.nan)
    means = by_levels(sample_.of(sample_.part({panel: text})), metric, [y, x])
    for row, vertical in enumerate(texts(y)):
        for column, horizontal in enumerate(texts(x)):
            if (vertical, horizontal) in means:
                found[row, column] = means[vertical, horizontal].mean
    return found


def norm_of(values: Array, metric: Metric) -> Normalize:
    """Return the scale of the colours, the same in all panels: logarithmic where the values span decades.

    It begins at zero only if the values then still differ in colour; a time never is near zero.
    """
    low, high = float(values.min()), float(values.max())
    if low > 0 and high >= LOG_VALUES_FROM * low:
        return LogNorm(low, high)
    if low > ALIKE * high > 0 or (low > 0 and metric.unit in ("ms", "s")):
        return Normalize(*at_least(low, high))
    return Normalize(min(low, 0.0), high if high > low else low + 1.0)


def around_one(values: Array) -> Normalize:
    """Return the logarithmic scale of ratios, with 1 in its middle."""
    most = max(float(np.abs(np.log(values[values > 0])).max(initial=0.0)), np.log(2.0))
    return LogNorm(float(np.exp(-most)), float(np.exp(most)))


def draw(
    axes: Axes,
    means: Array,
    factors: tuple[Factor, Factor],
    norm: Normalize,
    metric: Metric,
    *,
    room_in: float = 0.5,
    palette: Palette = AMOUNTS,
) -> float:
    """Draw a map into axes, with numbers if they fit into a cell, `room_in` wide; return how high slanted words are."""
    x, y = factors
    axes.pcolormesh(np.ma.masked_invalid(means), norm=norm, cmap=palette.map, edgecolors="white", lw=0.6)
    axes.grid(visible=False)
    for axis, factor in ((axes.xaxis, x), (axes.yaxis, y)):
        ticks = [f"{level.number:g}" if level.number is not None else level.text for level in factor.levels]
        axis.set_ticks([place + 0.5 for place in range(len(ticks))], ticks)
        axis.set_minor_locator(NullLocator())
    words, slanted_in = [level.text for level in x.levels], 0.0
    if not x.is_number and max(width_of(word, size_of("xtick.labelsize")) for word in words) > room_in * POINTS_PER_IN:
        slanted_in = slant(axes, [place + 0.5 for place in range(len(words))], words)
    if not y.is_number:
        # Words stand in their order from above, as in a legend.
        axes.invert_yaxis()
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    written = {place: number(value, _digits(metric, value)) for place, value in np.ndenumerate(means)}
    if max(width_of(text, LETTERS) for text in written.values()) > 0.95 * room_in * POINTS_PER_IN:
        return slanted_in
    for (row, column), text in written.items():
        value = means[row, column]
        if np.isfinite(value):
            ink = palette.ink_at(float(norm(value)))
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=LETTERS, color=ink)
    return slanted_in


def _luminance(color: Sequence[float]) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def _digits(metric: Metric, value: float) -> int:
    return three_figures(min(decimals(metric.digits, value), 2), value)


def caption(metric: Metric, axes: Sequence[Factor]) -> str:
    """Return the data of the map."""
    dark = "" if metric.higher_is_better is None else ", the darker the better"
    return f"{metric.title} over {axes[0].title.lower()} and {axes[1].title.lower()}: means{dark}."
