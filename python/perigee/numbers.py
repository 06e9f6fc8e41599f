# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Numbers as people read them: fixed decimals, thin spaces between thousands, a true minus sign."""

from __future__ import annotations


def number(value: float | None, digits: int = 1) -> str:
    """Write a number for a table; a dash where there is none.

    Examples:
        >>> number(3.14159, 2), number(float("nan")), number(-0.04)
        ('3.14', '–', '0.0')
    """
    if value is None or value != value:
        return "–"
    text = f"{value:,.{digits}f}".replace(",", "\u202f")
    return text.removeprefix("-") if float(f"{value:.{digits}f}") == 0 else text.replace("-", "−")


def probability(p: float | None) -> str:
    """Write the result of a test; a dash where there is none.

    Examples:
        >>> probability(0.0004), probability(0.0451), probability(None)
        ('< 0.001', '0.045', '–')
    """
    return "< 0.001" if p is not None and p < 0.001 else number(p, 3)


def signed(value: float | None, digits: int = 1) -> str:
    """Write a difference with its sign.

    Examples:
        >>> signed(3.14159), signed(-2.0, 0)
        ('+3.1', '−2')
    """
    text = number(value, digits)
    return text if value is None or value != value or text.startswith("−") else "+" + text
