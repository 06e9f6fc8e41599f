# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Link profiles over time, from the link model without study and traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perigee.core import native
from perigee.errors import InputError
from perigee.places import ProfileFile

if TYPE_CHECKING:
    import polars as pl

MOST_SAMPLES = 10_000_000
"""Maximum number of samples per direction (200 MB)."""


def sample_profile(
    profile: ProfileFile,
    seconds: float,
    every_s: float,
    seed: int = 1,
    settings: Sequence[tuple[str, str]] = (),
) -> pl.DataFrame:
    """Return rate, delay and loss of an idle link over time.

    Args:
        profile: its profile.
        seconds: length of time.
        every_s: sampling interval, s; at least a microsecond.
        seed: seed of its random processes.
        settings: keys of the profile with their values as text, such as `("down.rate", "50 Mbit/s")`.

    Returns:
        A row per direction and sample: `direction` (`down`: towards the user, `up`), `t_s` (when, from 0), `rate_mbps`
        (mean rate until the next sample; infinite without a limit), `delay_ms` (one way, of a packet of 40 bytes; null:
        it was lost) and `lost`.

    Raises:
        InputError: a number is out of range, or the profile is wrong.

    Examples:
        >>> from perigee.places import find_profile
        >>> found = sample_profile(find_profile("geo"), seconds=2.0, every_s=1.0)
        >>> found.select("direction", "t_s", "rate_mbps", "lost").rows()[:2]
        [('down', 0.0, 100.0, False), ('down', 1.0, 100.0, False)]
        >>> found["delay_ms"].round(2).unique().to_list()
        [300.0]
    """
    import polars as pl

    if not every_s >= 1e-6:
        raise InputError(f"every = {every_s:g} s: too often; give at least a microsecond")
    count = round(seconds / every_s) if 0 < seconds < MOST_SAMPLES * every_s + 1 else 0
    if not 0 < count <= MOST_SAMPLES:
        raise InputError(f"{seconds:g} s every {every_s:g} s: give from 1 to {MOST_SAMPLES} samples")
    if not 0 <= seed < 1 << 64:
        raise InputError(f"seed = {seed}: out of range; give one from 0 to 2^64 - 1")
    search = [str(folder) for folder in profile.search]
    source = (profile.text, str(profile.path))
    every_ns = round(every_s * 1e9)
    both = native.sample_profile(source, list(settings), search, seed, every_ns, count)
    times = [number * every_ns / 1e9 for number in range(count)]
    parts = [
        pl.DataFrame({"t_s": times, "rate_mbps": rates, "delay_ms": pl.Series(delays, dtype=pl.Float64)}).select(
            pl.lit(name).alias("direction"), pl.all(), pl.col("delay_ms").is_null().alias("lost")
        )
        for name, (rates, delays) in zip(("down", "up"), both, strict=True)
    ]
    return pl.concat(parts)
