# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Numbers in words, and of addresses."""

from __future__ import annotations

import math

DAY_S = 86400.0
LONGEST_NUMBER = 12


def is_number(text: str) -> bool:
    """Whether a text of an address is a whole number, in the digits 0 to 9 alone.

    Examples:
        >>> [is_number(text) for text in ("12", "\N{ARABIC-INDIC DIGIT ONE}", "-1", "", "9" * 13)]
        [True, False, False, False, False]
    """
    return text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER


def number(value: float) -> str:
    """Write a number with three digits, or all before the point.

    Examples:
        >>> [number(each) for each in (1234.4, 96.93, 9.694, 0.00321)]
        ['1,234', '96.9', '9.69', '0.0032']
    """
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}" if abs(value) >= 1 else f"{value:.2g}"
