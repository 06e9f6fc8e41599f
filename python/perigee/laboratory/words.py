# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Times, sizes and numbers in words."""

from __future__ import annotations

import math
import time
from datetime import datetime

DAY_S = 86400.0
LONGEST_NUMBER = 12


def is_number(text: str) -> bool:
    """Whether a text of an address is a whole number, in the digits 0 to 9 alone.

    Examples:
        >>> [is_number(text) for text in ("12", "\N{ARABIC-INDIC DIGIT ONE}", "-1", "", "9" * 13)]
        [True, False, False, False, False]
    """
    return text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER


def local_time(unix_s: float | None) -> str:
    """Write a time as this machine's clock shows it.

    Examples:
        >>> local_time(datetime(2026, 3, 1, 12, 5).timestamp()), local_time(None), local_time(1e18)
        ('2026-03-01 12:05:00', '', '1e+18 s')
    """
    return "" if unix_s is None else _written(unix_s, "%Y-%m-%d %H:%M:%S")


def iso_time(unix_s: float) -> str:
    """Write a time for programs, in ISO 8601 with its distance from UTC."""
    try:
        return datetime.fromtimestamp(unix_s).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{unix_s:g} s"


def ago(unix_s: float, now: float | None = None) -> str:
    """Write how long ago a time was; of more than a month its date.

    Examples:
        >>> [ago(1e9 - each, now=1e9) for each in (20, 130, 7300, 90000, 800000)]
        ['just now', '2 min ago', '2 h ago', 'yesterday', '9 days ago']
    """
    seconds = (time.time() if now is None else now) - unix_s
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < DAY_S:
        return f"{seconds // 3600:.0f} h ago"
    if seconds < 2 * DAY_S:
        return "yesterday"
    return f"{seconds // DAY_S:.0f} days ago" if seconds < 31 * DAY_S else day(unix_s)


def day(unix_s: float) -> str:
    """Write the day of a time.

    Examples:
        >>> day(datetime(2026, 3, 1, 12, 5).timestamp())
        '1 Mar 2026'
    """
    return _written(unix_s, "%-d %b %Y")


def _written(unix_s: float, form: str) -> str:
    """Write a time; one that is in no calendar as it is: a page that lists it has others to list."""
    try:
        return format(datetime.fromtimestamp(unix_s), form)
    except (ValueError, OverflowError, OSError):
        return f"{unix_s:g} s"


def size(count: int) -> str:
    """Write a number of bytes.

    Examples:
        >>> size(999), size(12_345_678)
        ('999 B', '12.3 MB')
    """
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def number(value: float) -> str:
    """Write a number with three digits, or all before the point.

    Examples:
        >>> [number(each) for each in (1234.4, 96.93, 9.694, 0.00321)]
        ['1,234', '96.9', '9.69', '0.0032']
    """
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}" if abs(value) >= 1 else f"{value:.2g}"
