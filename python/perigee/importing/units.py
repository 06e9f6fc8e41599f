# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Quantities as other tools write them, and as a profile has them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBER = re.compile(r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-z/%]*)", re.IGNORECASE)

_SI, _IEC = (
    {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12},
    {"": 1.0, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40},
)
TC_RATES = {f"{prefix}bit": scale for prefix, scale in _SI.items()} | {f"{p}bps": 8 * s for p, s in _SI.items()}
TC_RATES |= {f"{prefix}ibit": scale for prefix, scale in _IEC.items() if prefix}
TC_RATES |= {f"{prefix}ibps": 8 * scale for prefix, scale in _IEC.items() if prefix}
TC_RATES |= {"": 1.0} | {prefix: scale for prefix, scale in _SI.items() if prefix}
"""Rates of tc(8) in bit/s: `bps` is bytes per second, a bare number bits per second."""
TC_TIMES = dict.fromkeys(("", "us", "usec", "usecs"), 1e-6)
TC_TIMES |= dict.fromkeys(("ms", "msec", "msecs"), 1e-3) | dict.fromkeys(("s", "sec", "secs"), 1.0)
"""Times of tc(8) in s: a bare number is microseconds."""
TC_SIZES = {f"{prefix}{end}": scale for prefix, scale in _IEC.items() for end in ("b", "")}
TC_SIZES |= {f"{prefix}bit": scale / 8 for prefix, scale in _IEC.items() if prefix}
"""Sizes of tc(8) in bytes: `k` is 1024."""
SHARES = {"%": 0.01, "": 0.01}
"""Shares of tc(8): a bare number is in per cent, too."""
NS3_TIMES = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12, "min": 60.0, "h": 3600.0}
"""Times of ns-3 in s: a bare number is seconds."""


def quantity(text: str, units: Mapping[str, float]) -> float | None:
    """Return a quantity in the unit that has the value 1, or `None` if the text is none.

    Examples:
        >>> quantity("10mbit", TC_RATES), quantity("128kbps", TC_RATES), quantity("100", TC_TIMES)
        (10000000.0, 1024000.0, 0.0001)
        >>> quantity("32kb", TC_SIZES), quantity("0.5%", SHARES), quantity("fast", TC_RATES)
        (32768.0, 0.005, None)
    """
    match = _NUMBER.fullmatch(text.strip())
    scale = None if match is None else units.get(match[2].lower())
    return None if match is None or scale is None else float(f"{float(match[1]) * scale:.12g}")


def ns3_rate(text: str) -> float | None:
    """Return a rate of ns-3's `DataRate` in bit/s: `B` is bytes, `b` is bits.

    Examples:
        >>> ns3_rate("5Mbps"), ns3_rate("1MB/s"), ns3_rate("64Kib/s"), ns3_rate("32768")
        (5000000.0, 8000000.0, 65536.0, 32768.0)
    """
    match = re.fullmatch(r"([0-9.]+)\s*([kKMGT]?)(i?)(?:([bB])(?:ps|/s))?", text.strip())
    if match is None or match[1].count(".") > 1:
        return None
    scale = (_IEC if match[3] else _SI)[match[2].lower()]
    return float(match[1]) * scale * (8 if match[4] == "B" else 1)


def rate(bps: float) -> str:
    """Return a rate as a profile has it.

    Examples:
        >>> rate(10e6), rate(128_000), rate(1.5)
        ('10 Mbit/s', '128 kbit/s', '1.5 bit/s')
    """
    return _in(bps, (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1)))


def time(seconds: float) -> str:
    """Return a time as a profile has it.

    Examples:
        >>> time(0.3), time(0), time(0.0001), time(2)
        ('300 ms', '0 s', '100 us', '2 s')
    """
    return _in(seconds, (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))) if seconds else "0 s"


def size(count: float) -> str:
    """Return a size as a profile has it, in bytes where it is no round number of kB.

    Examples:
        >>> size(32_768), size(3e6)
        ('32768 B', '3 MB')
    """
    for unit, scale in (("MB", 1_000_000), ("kB", 1000)):
        if count >= scale and count % (scale / 10) == 0:
            return f"{_plain(count / scale)} {unit}"
    return f"{round(count)} B"


def share(value: float) -> str:
    """Return a share as a profile has it.

    Examples:
        >>> share(0.01), share(1e-5)
        ('1 %', '0.001 %')
    """
    return f"{_plain(100 * value)} %"


def _in(value: float, units: tuple[tuple[str, float], ...]) -> str:
    unit, scale = next((pair for pair in units if value >= pair[1]), units[-1])
    return f"{_plain(value / scale)} {unit}"


def _plain(value: float) -> str:
    return f"{float(f'{value:.9g}'):.12f}".rstrip("0").rstrip(".")
