# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Numbers as people read them: fixed decimals, thin spaces between thousands, a true minus sign."""

from __future__ import annotations

import math

MOST_FURTHER = 3
"""Decimals that `decimals` adds at the most."""


MOST_FIGURES = 4
"""Significant digits of a mean beside its standard deviation, at the most."""


def significant(value: float, digits: int = 3) -> float:
    """Round to significant digits.

    Examples:
        >>> significant(123456.7), significant(0.012345, 2), significant(math.inf)
        (123000.0, 0.012, inf)
    """
    return float(f"{value:.{digits}g}")


def for_json(value: float | None) -> float | None:
    """Return a number of six digits, which JSON can have; none for none, and for what is not finite.

    Examples:
        >>> for_json(1.23456789), for_json(math.inf), for_json(None)
        (1.23457, None, None)
    """
    return None if value is None or not math.isfinite(value) else significant(value, 6)


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


def decimals(least: int, value: float | None, spread: float | None = None) -> int:
    """Return with how many decimals to write a value, so that small ones do not all become zero.

    They are as many as show the spread, or of a value without one two digits; `least` of them, or up to three more.

    Examples:
        >>> decimals(1, 130.1, 17.2), decimals(1, 0.93512, 0.0075), decimals(1, 0.93512), decimals(0, -0.0689)
        (1, 3, 2, 3)
        >>> decimals(1, 0.0), decimals(1, 1e-12), decimals(2, 4e-5, float("nan"))
        (1, 1, 5)
    """
    has_spread = bool(spread and math.isfinite(spread))
    shown, digits = (spread, 1) if has_spread else (value, 2)
    if not shown or not math.isfinite(shown):
        return least
    wanted = digits - 1 - math.floor(math.log10(abs(shown)))
    most = least + MOST_FURTHER
    is_zero = not has_spread and round(shown, most) == 0
    return least if is_zero else min(max(least, wanted), most)


def three_figures(digits: int, value: float) -> int:
    """Return with how many decimals to write a value: as many as these, or fewer, as show three digits of it.

    Examples:
        >>> three_figures(2, 94.29), three_figures(2, 100.0), three_figures(2, 0.234), three_figures(0, 1284.0)
        (1, 0, 2, 0)
    """
    if not value or not math.isfinite(value):
        return digits
    return max(0, min(digits, 2 - math.floor(math.log10(abs(value)))))


def with_spread(value: float, spread: float | None, least: int = 1) -> str:
    """Write a mean with its standard deviation, where it has one.

    Examples:
        >>> with_spread(0.93012, 0.0076), with_spread(130.12, None), with_spread(42.65912, 0.002)
        ('0.930 ± 0.008', '130.1', '42.66 ± <0.01')
    """
    digits = decimals(least, value, spread)
    if value and math.isfinite(value):
        digits = min(digits, max(least, MOST_FIGURES - 1 - math.floor(math.log10(abs(value)))))
    text = number(value, digits)
    if spread is None:
        return text
    is_small = spread > 0 and float(f"{spread:.{digits}f}") == 0
    return f"{text} ± <{number(10.0**-digits, digits)}" if is_small else f"{text} ± {number(spread, digits)}"


def probability(p: float | None) -> str:
    """Write the result of a test; a dash where there is none.

    Examples:
        >>> probability(0.0004), probability(0.0451), probability(None)
        ('< 0.001', '0.045', '–')
    """
    return "< 0.001" if p is not None and p < 0.001 else number(p, 3)


def counted(count: int, noun: str) -> str:
    """Write how many there are of something.

    Args:
        count: how many.
        noun: its name, as of a single one; its plural ends in s.

    Examples:
        >>> counted(1, "run"), counted(12, "run"), counted(0, "flow")
        ('1 run', '12 runs', '0 flows')
    """
    return f"{count} {plural(count, noun)}"


def plural(count: int, noun: str) -> str:
    """Return a noun as it follows a number.

    Examples:
        >>> plural(1, "run"), plural(2, "run")
        ('run', 'runs')
    """
    return noun if count == 1 else f"{noun}s"


def signed(value: float | None, digits: int = 1) -> str:
    """Write a difference with its sign, which a zero has not.

    Examples:
        >>> signed(3.14159), signed(-2.0, 0), signed(-0.04)
        ('+3.1', '−2', '0.0')
    """
    text = number(value, digits)
    is_positive = value is not None and float(f"{value:.{digits}f}") > 0
    return "+" + text if is_positive else text


def between(ends: tuple[float, float] | None, digits: int = 1) -> str:
    """Write an interval; a dash where there is none.

    Examples:
        >>> between((17.84, 19.6)), between((-0.04, 2.0), 2), between(None)
        ('[+17.8, +19.6]', '[−0.04, +2.00]', '–')
    """
    return "–" if ends is None else f"[{signed(ends[0], digits)}, {signed(ends[1], digits)}]"


def with_interval(mean: float, half_width: float, digits: int = 1) -> str:
    """Write a mean with its confidence interval, where it has one.

    Examples:
        >>> with_interval(10.0, 2.48), with_interval(10.0, float("nan"))
        ('10.0 [7.5, 12.5]', '10.0')
    """
    if half_width != half_width:
        return number(mean, digits)
    return f"{number(mean, digits)} [{number(mean - half_width, digits)}, {number(mean + half_width, digits)}]"


def span(seconds: float) -> str:
    """Write a length of time, with two units at the most.

    Examples:
        >>> span(4.2), span(100), span(3600), span(90_061)
        ('5 s', '1 min 40 s', '1 h', '1 d 1 h')
    """
    left = int(-(-seconds // 1))
    units = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)]
    parts = []
    for name, length in units:
        count, left = divmod(left, length)
        parts.append((count, name))
    first = next((place for place, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {name}" for count, name in parts[first : first + 2] if count) or "0 s"
