# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The study that tries the menu, and what each setting gains and costs in it."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from perigee import toml
from perigee.advice.link import Hosts, Link
from perigee.advice.menu import NOW, Setting, sizes, window_bytes
from perigee.api.results import Results
from perigee.api.study import Progress, Study
from perigee.errors import RunError
from perigee.statistics import limits
from perigee.statistics.estimates import CONFIDENCE
from perigee.statistics.metrics import sample
from perigee.statistics.pairing import Corrected, compare_groups, corrected

LEAST_GAIN = 5.0
"""Gain in % from which a setting is worth a line."""


@dataclass(frozen=True)
class Outcome:
    """Gain and cost of a setting, beside today's settings.

    Attributes:
        setting: the setting.
        goodput_mbps: of the download.
        steady_mbps: goodput that three rounds of four reach.
        gain_percent: gain in goodput, the mean over rounds of its ratio.
        interval: its interval in %, corrected for the whole menu; None without a test.
        delay_ms: 95th percentile of the round trips of a ping beside it.
        delay_now_ms: the same today.
        delay_percent: change of that delay, and its interval.
        delay_interval: its interval in %; None without a test.
        lost_percent: share of those pings that were lost.
        lost_now_percent: the same today.
        beside_percent: goodput of a Cubic flow beside it in % of what it has beside today's; None: it was not tried.
    """

    setting: Setting
    goodput_mbps: float
    steady_mbps: float
    gain_percent: float
    interval: tuple[float, float] | None
    delay_ms: float
    delay_now_ms: float
    delay_percent: float
    delay_interval: tuple[float, float] | None
    lost_percent: float
    lost_now_percent: float
    beside_percent: float | None = None

    @property
    def gains(self) -> bool:
        """Whether it gains 5 % goodput beyond chance; a queue also by as much less delay at no less goodput."""
        if self.gain_percent >= LEAST_GAIN and self._lower > 0:
            return True
        shorter = -self.delay_percent >= LEAST_GAIN and (self.delay_interval or (-1, -1))[1] < 0
        return self.setting.is_queue and shorter and self.gain_percent > -LEAST_GAIN

    @property
    def is_open(self) -> bool:
        """Whether chance still decides on which side of 5 % it is."""
        return self.interval is not None and self.interval[0] < LEAST_GAIN < self.interval[1]

    @property
    def _lower(self) -> float:
        return self.gain_percent if self.interval is None else self.interval[0]


@dataclass(frozen=True)
class Tried:
    """Results of the menu.

    Attributes:
        outcomes: of each setting, the most useful first.
        goodput_mbps: today's goodput.
        delay_ms: today's 95th percentile of the round trips of a ping beside it.
        limited: what limits the download today, in the simulation.
        rounds: rounds of the last study.
        downloads: downloads at a time, of which goodput is the mean.
        results: its folder.
        rounds_mbps: today's least and largest goodput of a round.
        measured_mbps: goodput of the download that was measured over the path; None without one.
    """

    outcomes: tuple[Outcome, ...]
    goodput_mbps: float
    delay_ms: float
    limited: str
    rounds: int
    downloads: int
    results: Path
    rounds_mbps: tuple[float, float]
    measured_mbps: float | None = None

    @property
    def is_unlike(self) -> bool:
        """Whether the link does not carry what was measured, so that gains over it tell nothing of the path.

        One transfer was measured, so that it is held against single rounds: losses may give one twice their mean.
        """
        least, most = self.rounds_mbps
        return self.measured_mbps is not None and not least / _ALIKE <= self.measured_mbps <= most * _ALIKE

    @property
    def advised(self) -> list[Outcome]:
        """The settings that gain, at most five; none over a link that does not carry what was measured."""
        if self.is_unlike:
            return []
        return [one for one in self.outcomes if one.gains][:MOST_LINES]

    @property
    def knee(self) -> tuple[Outcome, Outcome] | None:
        """The smallest queue from which on larger ones gain less than 5 % goodput, and the largest that was tried."""
        sizes = [one for one in self.outcomes if one.setting.queue_bytes is not None]
        if len(sizes) < 2 or self.is_unlike:
            return None
        sizes.sort(key=lambda one: one.setting.queue_bytes or 0)
        most = max(one.goodput_mbps for one in sizes)
        return next(one for one in sizes if one.goodput_mbps * (1 + LEAST_GAIN / 100) >= most), sizes[-1]


Watch = Callable[[str], Progress]
"""Given what is being run, returns what is called with the runs done and the number of all."""


def tried(
    link: Link,
    hosts: Hosts,
    menu: Sequence[Setting],
    folder: Path,
    watch: Watch,
    budget_s: float,
    *,
    downloads: int = 1,
) -> Tried:
    """Simulate the menu, with more rounds while a setting is close to 5 % and time is left.

    Args:
        link: the link; a fitted one stands in the folder.
        hosts: today's settings.
        menu: the settings.
        folder: an empty folder for `study.toml` and results.
        watch: shows progress.
        budget_s: bound of the time, s.
        downloads: downloads at a time.
    """
    began = time.monotonic()
    found: list[Outcome] = []
    out, rounds = folder / "results", _FIRST_ROUNDS
    while True:
        study = folder / "study.toml"
        study.write_text(toml.document(_content(link, hosts, menu, rounds, downloads=downloads)), encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        started = time.monotonic()
        with Study.load(study).run(out=out, progress=watch(f"{len(menu) + 1} settings, {rounds} rounds")) as results:
            found = _judged(results, menu)
            now = _of(results, NOW, "download")
            limited = limits.sentence(_limits_of(results))
        a_round_s = (time.monotonic() - started) / rounds
        left = _SHARE * budget_s - (time.monotonic() - began)
        more = min(_GROWTH * rounds, _MOST_ROUNDS, int(left / a_round_s))
        if more <= rounds or not _is_open(found, rounds):
            break
        rounds = more
    delay = found[0].delay_now_ms if found else 0.0
    result = Tried(
        outcomes=tuple(_by_use(found)),
        goodput_mbps=_mean(now),
        delay_ms=delay,
        limited=limited,
        rounds=rounds,
        downloads=downloads,
        results=out,
        rounds_mbps=_range(now),
        measured_mbps=link.carried_mbps,
    )
    left = budget_s - (time.monotonic() - began)
    # A round beside another flow has fewer settings, and twice the packets at the most.
    beside = min(rounds, _MOST_BESIDE, int(left / a_round_s))
    if beside and left > _LEAST_LEFT * budget_s and not result.is_unlike:
        outcomes = _with_fairness(result.outcomes, link, hosts, folder, watch, beside)
        result = replace(result, outcomes=tuple(outcomes))
    return result


def _content(
    link: Link, hosts: Hosts, menu: Sequence[Setting], rounds: int, *, downloads: int = 1, beside: bool = False
) -> dict[str, Any]:
    """Return the study: a download and a ping over the link, with room for a proxy at either side of it."""
    seconds = round(min(max(_MOST_BITS / (link.rate_mbps * 1e6), _LEAST_S), _LENGTH_S))
    bulk = {"from": "server", "to": "client", "duration": f"{seconds} s", "cc": hosts.cc}
    ping = {"from": "server", "to": "client", "kind": "ping", "packet": "84 B", "interval": "50 ms"}
    window = max(window_bytes(link), 1 << 20)
    side = {
        "cc": "cubic",
        "tcp": {table: [f"{one} B" for one in sizes(table, window)] for table in ("rmem", "wmem")},
    }
    buffer = f"{window} B"
    flows: list[dict[str, Any]] = [{"name": "download", **bulk, "count": downloads, "start_jitter": "100 ms"}]
    if beside:
        flows.append({"name": "other", **bulk, "cc": "cubic", "start_jitter": "100 ms"})
    # A variant that sets the congestion control stands for it in reports, so that all settings are rows of one figure.
    today = {"flows.download.cc": hosts.cc}
    wire = {"rate": "10 Gbit/s", "delay": "0 ms"}
    return {
        "name": "advice",
        "title": f"Which settings gain over {link.name}",
        "rounds": rounds,
        "nodes": ["server", "gateway", "terminal", "client"],
        "hosts": {
            "server": {"wmem": [f"{one} B" for one in sizes("wmem", hosts.send_bytes)]},
            "client": {"rmem": [f"{one} B" for one in sizes("rmem", hosts.receive_bytes)]},
        },
        "measure": {"series": "1 s"},
        "links": [
            {"name": "wire", "between": ["server", "gateway"], **wire},
            {"name": "path", "between": ["gateway", "terminal"], "profile": link.profile},
            {"name": "lan", "between": ["terminal", "client"], **wire},
        ],
        "flows": [*flows, {"name": "ping", **ping, "repeat": 20 * seconds}],
        "proxies": [
            {"name": "gateway", "node": "gateway", "enabled": False, "buffer": buffer,
             "sides": {"wire": side, "path": side}},
            {"name": "terminal", "node": "terminal", "enabled": False, "buffer": buffer,
             "sides": {"path": side, "lan": side}},
        ],
        "vary": {"setting": [{"name": NOW, **today}, *({"name": one.name, **today, **one.keys} for one in menu)]},
    }  # fmt: skip


def _is_open(found: Sequence[Outcome], rounds: int) -> bool:
    """Return whether more rounds would tell more: not where all rounds are equal."""
    is_varied = any(one.interval is not None for one in found)
    return is_varied and (rounds < _LEAST_ROUNDS or any(one.is_open for one in found))


def _judged(results: Results, menu: Sequence[Setting]) -> list[Outcome]:
    gains, delays = (_compared(results, menu, *what) for what in (("download", "goodput_mbps"), ("ping", _DELAY)))
    lost_now = _lost_percent(_of(results, NOW, "ping"))
    goodput_now, delay_now = _mean(_of(results, NOW, "download")), _mean(_of(results, NOW, "ping"), _DELAY)
    found = []
    for setting, gain, delay in zip(menu, gains, delays, strict=True):
        own, pings = (_of(results, setting.name, flow) for flow in ("download", "ping"))
        gain_percent, interval = _in_percent(gain, _mean(own) / goodput_now)
        delay_percent, delay_interval = _in_percent(delay, _mean(pings, _DELAY) / delay_now)
        found.append(
            Outcome(
                setting=setting,
                goodput_mbps=_mean(own),
                steady_mbps=_in_most_rounds(own),
                gain_percent=gain_percent,
                interval=interval,
                delay_ms=_mean(pings, _DELAY),
                delay_now_ms=delay_now,
                delay_percent=delay_percent,
                delay_interval=delay_interval,
                lost_percent=_lost_percent(pings),
                lost_now_percent=lost_now,
            )
        )
    return found


def _compared(results: Results, menu: Sequence[Setting], flow: str, quantity: str) -> list[Corrected]:
    """Compare the logarithms, whose differences are gains in per cent."""

    def logarithms(name: str) -> pl.DataFrame:
        known = pl.col(quantity).clip(lower_bound=_LEAST_VALUE)
        return _of(results, name, flow).group_by("round", "seed", maintain_order=True).agg(known.mean().log())

    now = logarithms(NOW)
    made = [compare_groups(logarithms(setting.name), now, quantity, shared_draws=True) for setting in menu]
    if None in made:
        raise RunError(
            f"{menu[made.index(None)].name}: no {quantity} in the simulation; give a profile that carries it"
        )
    return corrected([one for one in made if one is not None], CONFIDENCE)


def _in_percent(one: Corrected, ratio: float) -> tuple[float, tuple[float, float] | None]:
    """Return the mean gain over rounds, and its interval; without a test the gain that `ratio` is."""
    ends = one.comparison.interval
    if ends is None:
        return 100 * (ratio - 1), None
    low, mean, high = (100 * math.expm1(min(end, _MOST_LOG)) for end in (ends[0], one.comparison.difference, ends[1]))
    return mean, (low, high)


def _of(results: Results, name: str, flow: str) -> pl.DataFrame:
    return results.flows.filter((pl.col("point.setting") == name) & (_whole() == flow))


def _whole() -> pl.Expr:
    """Return the name of a flow as the study has it: one of several has its number behind it."""
    return pl.col("flow").str.replace(r"\.\d+$", "")


def _mean(flows: pl.DataFrame, quantity: str = "goodput_mbps") -> float:
    return float(sample(flows, quantity).mean())


def _lost_percent(pings: pl.DataFrame) -> float:
    return 100 * float(pings["lost_packets"].sum()) / max(float(pings["sent_packets"].sum()), 1.0)


def _limits_of(results: Results) -> dict[str, float]:
    """Return the mean shares of what limits today's download."""
    runs = _of(results, NOW, "download").select("run")
    own = results.limits.filter((_whole() == "download") & pl.col("leg").is_null()).join(runs, on="run", how="semi")
    sums = own.group_by("cause").agg(pl.col("share").sum() / runs.height)
    return dict(sums.iter_rows())


def _by_use(found: Sequence[Outcome]) -> list[Outcome]:
    """Order what gains by goodput in steps below the best; within one by delay, then by effort.

    How far one is below the best is the larger of two shares, of the mean and of what most rounds have: a setting whose
    goodput hangs on which packets are lost is worth less to one who has one path than its mean says.
    """
    mean = max((one.goodput_mbps for one in found if one.gains), default=1.0)
    steady = max((one.steady_mbps for one in found if one.gains), default=1.0)
    shortest: dict[tuple[bool, int], float] = {}

    def place(one: Outcome) -> tuple[bool, int]:
        below = max(1 - one.goodput_mbps / mean, 1 - one.steady_mbps / steady)
        return not one.gains, int(below / _STEP)

    for one in found:
        shortest[place(one)] = min(one.delay_ms, shortest.get(place(one), math.inf))

    def key(one: Outcome) -> tuple[bool, int, int, int, float]:
        longer = one.delay_ms / shortest[place(one)] - 1
        return *place(one), int(longer / _LONGER), one.setting.effort, -one.steady_mbps

    return sorted(found, key=key)


def _in_most_rounds(flows: pl.DataFrame) -> float:
    """Return the mean goodput of a round's flows that three rounds of four reach."""
    return float(_by_round(flows).quantile(0.25, "linear") or 0.0)


def _range(flows: pl.DataFrame) -> tuple[float, float]:
    rounds = _by_round(flows).to_list()
    return min(rounds), max(rounds)


def _by_round(flows: pl.DataFrame) -> pl.Series:
    return flows.group_by("round").agg(pl.col("goodput_mbps").mean())["goodput_mbps"]


def _with_fairness(
    outcomes: Sequence[Outcome], link: Link, hosts: Hosts, folder: Path, watch: Watch, rounds: int
) -> list[Outcome]:
    """Add what a Cubic flow keeps beside each advised congestion control."""
    chosen = [one.setting for one in outcomes if one.gains and one.setting.cc][:MOST_LINES]
    if not chosen:
        return list(outcomes)
    own = folder / "beside"
    own.mkdir(exist_ok=True)
    if link.fitted:
        (own / "link.toml").write_text(link.fitted, encoding="utf-8")
    study = own / "study.toml"
    study.write_text(toml.document(_content(link, hosts, chosen, rounds, beside=True)), encoding="utf-8")
    out = own / "results"
    shutil.rmtree(out, ignore_errors=True)
    with Study.load(study).run(out=out, progress=watch("beside a Cubic flow")) as results:
        other = {name: _mean(_of(results, name, "other"))
                 for name in (NOW, *(one.name for one in chosen))}  # fmt: skip
    kept = {name: 100 * value / other[NOW] for name, value in other.items() if other[NOW]}
    return [replace(one, beside_percent=kept.get(one.setting.name)) for one in outcomes]


MOST_LINES = 5
_ALIKE = 2.0
"""Ratio of simulated and measured goodput up to which the link explains what was measured; chosen."""
_FIRST_ROUNDS, _LEAST_ROUNDS, _MOST_ROUNDS, _GROWTH = 2, 5, 30, 8
"""Rounds at first, which say how long one takes; where rounds differ at least; at most; times as many at a time."""
_DELAY = "rtt_p95_ms"
_LEAST_VALUE = 1e-3
_MOST_LOG = 10.0
"""Least value, in the unit of the quantity, and largest logarithm of a ratio: beyond them there is no percentage."""
_LENGTH_S, _LEAST_S, _MOST_BITS = 20.0, 5.0, 5e9
"""Length of the download: less above 250 Mbit/s, so that a round takes seconds."""
_SHARE = 0.8
"""Share of the time after which no further rounds begin: a fair share of what is left is for the flow beside."""
_LEAST_LEFT = 0.1
_STEP = 0.03
"""Share of the best goodput within which the shorter delay comes first."""
_LONGER = 0.05
"""Share of the shortest delay from which another is longer."""
_MOST_BESIDE = 9
