# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How groups are drawn: a palette that colour-blind readers and grey printers can tell apart, line styles, markers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Look:
    """How one group is drawn, the same in every figure.

    Attributes:
        color: of line and fill.
        dash: line style.
        marker: of points.
        hatch: of boxes.
    """

    color: str
    dash: Any
    marker: str
    hatch: str


# Okabe and Ito (2008), "Color Universal Design"; the yellow left out, which is too light on white.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4D4D4D")
# Darker, for the eighth algorithm and those after it; a crimson instead of another blue, a violet instead of
# another grey.
_SHADES = ("#00446B", "#7F3800", "#005C43", "#7A4763", "#A6192E", "#8A6000", "#5E3C99")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "////", "----", "xxxx", "\\\\\\\\", "++++")


PALETTE = (*_COLORS, *_SHADES)
"""All colours of groups."""

ON_DARK = (
    "#4AA3E0", "#FF8A3D", "#2CC79A", "#E39BC4", "#8FD0F5", "#F5BE45", "#B5BBC2",
    "#7FA8D9", "#C98655", "#63B39A", "#BE8FAA", "#F0728A", "#C7A24A", "#A78BDA",
)  # fmt: skip
"""The colours of `PALETTE`, in its order, for a dark ground."""


def look(number: int) -> Look:
    """Return how the group of that number is drawn.

    From the 15th group on the colours begin anew, with other dashes, markers and hatches: lines stay distinct up to 70
    groups, points up to 98, boxes up to 42.

    Examples:
        >>> looks = [look(n) for n in range(98)]
        >>> len({one.color for one in looks}), len({(one.color, one.marker) for one in looks})
        (14, 98)
        >>> len({(one.color, one.dash) for one in looks[:70]}), len({(one.color, one.hatch) for one in looks[:42]})
        (70, 42)
    """
    again = number // len(_COLORS)
    return Look(
        (_COLORS + _SHADES)[number % (len(_COLORS) + len(_SHADES))],
        _DASHES[number % len(_DASHES)],
        _MARKERS[(number + again) % len(_MARKERS)],
        _HATCHES[(number + again) % len(_HATCHES)],
    )
