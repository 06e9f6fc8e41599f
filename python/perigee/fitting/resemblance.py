# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A slotted link beside the recording that it was made from: round trips and rates of both, from the link model.

Both links are idle but for a packet of 40 bytes every 10 ms. A recording has one direction, so a round trip is twice
the delay of the downlink, in whole milliseconds as a recording has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from perigee.engines.links.sampling import sample_profile
from perigee.fitting.check import Row
from perigee.fitting.recording import DELAY_MS, Floats, Recording, autocorrelation
from perigee.fitting.slots import Slotted
from perigee.places import ProfileFile, find_profile

if TYPE_CHECKING:
    import polars as pl

EVERY_S = DELAY_MS / 1000
RUNS = 10
"""Seeds over which a profile is sampled, for `LENGTH_S` each."""
LENGTH_S = 600.0
WITHOUT_WAITS = ("link.rate", "10 Gbit/s")
"""A rate at which nothing waits, so that only the delays are left."""
WITHOUT_LOSSES = (("link.loss", "0 %"), ("link.queue", "1 GB"))
NOON_S = 43_212.0
"""A time of day at which a slot begins, outside of busy hours."""
LAGS_S = (14.0, 15.0, 30.0)
SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)

Settings = Sequence[tuple[str, str]]


def replayed(recording: Recording, *settings: tuple[str, str]) -> pl.DataFrame:
    """Return what a recording does over its length, as the profile `starlink-replay` replays it."""
    traces = (
        ("link.rate.trace", str(recording.bw.resolve())),
        ("link.delay.trace", str(recording.delay.resolve())),
    )
    changed = dict((*WITHOUT_LOSSES, *traces, *settings))
    if "link.rate" in changed:
        del changed["link.rate.trace"]
    return sample_profile(find_profile("starlink-replay"), recording.seconds, EVERY_S, settings=tuple(changed.items()))


def sampled(profile: ProfileFile, settings: Settings) -> list[pl.DataFrame]:
    """Return what a profile does in each of the runs."""
    return [sample_profile(profile, LENGTH_S, EVERY_S, seed, settings) for seed in range(1, RUNS + 1)]


def as_recorded(slotted: Slotted) -> tuple[tuple[str, str], ...]:
    """Return settings of a profile whose slots begin where they do on a recording, and that loses nothing."""
    return ("link.time_of_day", f"{NOON_S - slotted.first_ms / 1000:.3f} s"), *WITHOUT_LOSSES


def round_trips(sample: pl.DataFrame) -> Floats:
    """Return twice the downlink's delays, in whole ms."""
    import polars as pl

    return 2 * sample.filter(pl.col("direction") == "down")["delay_ms"].round(0).to_numpy()


def sums(sample: pl.DataFrame) -> Floats:
    """Return the sums of both directions' delays at one instant, each in whole ms."""
    import polars as pl

    down, up = (sample.filter(pl.col("direction") == way)["delay_ms"].round(0) for way in ("down", "up"))
    return (down + up).to_numpy()


def relative_rates(samples: Sequence[pl.DataFrame]) -> Floats:
    """Return the downlink's rates over 20 ms, divided by their mean."""
    import polars as pl

    every = [sample.filter(pl.col("direction") == "down")["rate_mbps"].to_numpy() for sample in samples]
    rates = np.concatenate([rates[: len(rates) // 2 * 2].reshape(-1, 2).mean(axis=1) for rates in every])
    return np.asarray(rates / rates.mean())


def distance(one: Floats, other: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of two distributions."""
    places = np.concatenate([one, other])
    shares = (np.searchsorted(np.sort(values), places, "right") / len(values) for values in (one, other))
    return float(np.abs(np.subtract(*shares)).max())


def repeats(runs: Sequence[Floats], lag_s: float) -> float:
    """Return the autocorrelation of the round trips after a time, as the mean over runs."""
    return float(np.mean([autocorrelation(run, round(lag_s / EVERY_S)) for run in runs]))


def resemblance(recording: Recording, slotted: Slotted, profile: ProfileFile) -> list[Row]:
    """Return the figures of a recording beside those of a profile.

    Raises:
        InputError: the profile, or a file of the recording, is wrong.
    """
    model = sampled(profile, as_recorded(slotted))
    replay = replayed(recording)
    recorded, modelled = round_trips(replay), [round_trips(sample) for sample in model]
    everything = np.concatenate(modelled)
    rows = [
        Row(f"round trip: {100 * share:g} %", "ms", float(np.quantile(recorded, share)), _quantile(everything, share))
        for share in SHARES
    ]
    rows.append(Row("round trip: mean", "ms", float(recorded.mean()), float(everything.mean())))
    rows.append(Row("round trip: Kolmogorov-Smirnov distance", "", float("nan"), distance(recorded, everything)))
    rows += [
        Row(f"round trip: autocorrelation after {lag:g} s", "", repeats([recorded], lag), repeats(modelled, lag))
        for lag in LAGS_S
    ]
    of_recording, of_model = relative_rates([replay]), relative_rates(model)
    rows += [
        Row(
            f"rate over 20 ms: {100 * share:g} %, of the mean",
            "",
            _quantile(of_recording, share),
            _quantile(of_model, share),
        )
        for share in (0.05, 0.95)
    ]
    return rows


def _quantile(values: Floats, share: float) -> float:
    return float(np.quantile(values, share))
