# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The words and the JSON of `perigee advise`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from perigee.advice.link import Hosts, Link
from perigee.advice.trial import LEAST_GAIN, Outcome, Tried
from perigee.numbers import between, number, signed, three_figures


def lines(link: Link, hosts: Hosts, found: Tried) -> Iterator[str]:
    """Yield what the command prints: the answer, its commands with those that undo them, and what is not known."""
    yield from short(link, hosts, found)
    for place, one in enumerate(found.advised, 1):
        yield f"\n{place}. {one.setting.name}: set it"
        yield from (f"   {text}" for text in one.setting.commands)
        yield "   undo it"
        yield from (f"   {text}" for text in one.setting.undo)
        if one.setting.file:
            yield "   pep.toml:"
            yield from (f"     {text}".rstrip() for text in one.setting.file.splitlines())
    if sure := list(unsure(link)):
        yield "\nKnown and assumed"
        yield from (f"- {text}" for text in sure)


def short(link: Link, hosts: Hosts, found: Tried) -> Iterator[str]:
    """Yield the answer: the path, what limits it now, and at most five lines of advice."""
    if link.is_split:
        yield (
            "A proxy already splits this path: settings of the server and the client end at it, and what follows "
            "holds for the part behind it only."
        )
    who = "A download" if found.downloads == 1 else f"Each of {found.downloads} downloads"
    trip = number(link.rtt_ms, three_figures(1, link.rtt_ms))
    guess = ", over a rate that is a guess" if link.is_guess else ""
    yield (
        f"{link.name}: {number(link.rate_mbps, 1)} Mbit/s, {trip} ms. {who} with {hosts.cc} has "
        f"{number(found.goodput_mbps, 1)} Mbit/s in the simulation{guess}. {_limited(link, found)}"
    ).rstrip()
    if unlike := _unlike(found):
        yield unlike
        return
    if not found.advised:
        yield _nothing(found)
    for place, one in enumerate(found.advised, 1):
        yield f"{place}. {_line(one, _confidence(link, found))}"
    if found.knee is not None:
        yield _NO_KNEE if _is_held_elsewhere(link, found) else _at_the_knee(*found.knee)


def unsure(link: Link) -> Iterator[str]:
    """Yield what is known of the path, and what is assumed."""
    yield from link.known
    yield from link.assumed
    yield "all of the path's delay is taken for that of the link, and its ends for Linux 6.18 where nothing says more"


def as_dict(link: Link, hosts: Hosts, found: Tried) -> dict[str, Any]:
    """Return the same for programs: all that was tried, the advised settings first."""
    advised = {one.setting.name for one in found.advised}
    return {
        "link": {"name": link.name, "rate_mbps": link.rate_mbps, "rtt_ms": link.rtt_ms, "is_split": link.is_split,
                 "carried_mbps": link.carried_mbps},
        "now": {
            **dataclasses.asdict(hosts), "goodput_mbps": found.goodput_mbps, "delay_p95_ms": found.delay_ms,
            "limited_by": link.limited or found.limited,
        },
        "rounds": found.rounds,
        "downloads": found.downloads,
        "confidence": _confidence(link, found),
        "unexplained": _unlike(found) or None,
        "tried": [
            {
                "name": one.setting.name, "is_advised": one.setting.name in advised, "does": one.setting.does,
                "goodput_mbps": one.goodput_mbps, "gain_percent": one.gain_percent, "interval_percent": one.interval,
                "delay_p95_ms": one.delay_ms, "delay_percent": one.delay_percent, "lost_percent": one.lost_percent,
                "cubic_beside_percent": one.beside_percent, "commands": one.setting.commands, "undo": one.setting.undo,
                "steps": [dataclasses.asdict(step) for step in one.setting.steps], "pep_toml": one.setting.file or None,
            }
            for one in found.outcomes
        ],
        "knee": None if found.knee is None or _is_held_elsewhere(link, found) else
        {"name": found.knee[0].setting.name, "queue_bytes": found.knee[0].setting.queue_bytes},
        "assumed": list(unsure(link)),
    }  # fmt: skip


def _line(one: Outcome, confidence: str) -> str:
    ends = f" {between(one.interval, 0)}" if one.interval else " in all rounds"
    harm = [f"95 % of round trips within {number(one.delay_ms, 0)} ms ({signed(one.delay_percent, 0)} %)"]
    if one.lost_percent - one.lost_now_percent >= _LEAST_LOSS:
        harm.append(f"{number(one.lost_percent, 2)} % of pings lost ({number(one.lost_now_percent, 2)} % today)")
    if one.beside_percent is not None:
        kept = "all" if one.beside_percent >= _ALL else f"{number(one.beside_percent, 0)} %"
        harm.append(f"a Cubic flow beside it keeps {kept} of its goodput")
    does = one.setting.does[0].upper() + one.setting.does[1:]
    gain = f"{number(one.goodput_mbps, 1)} Mbit/s, {signed(one.gain_percent, 0)} %{ends}"
    return f"{does}: {gain}; {'; '.join(harm)}; confidence {confidence}."


def _limited(link: Link, found: Tried) -> str:
    """Return what limits the download: as it was measured, with the goodput that it had, or else as simulated."""
    if not link.limited:
        return found.limited
    had = "" if link.carried_mbps is None else f"Measured were {number(link.carried_mbps, 1)} Mbit/s. "
    return f"{had}{link.limited}"


def _unlike(found: Tried) -> str:
    """Return a sentence where the fitted link does not carry what was measured; otherwise nothing."""
    if not found.is_unlike or found.measured_mbps is None:
        return ""
    return (
        f"The link that these files tell does not explain the {number(found.measured_mbps, 1)} Mbit/s that were "
        "measured: it lacks what they do not show, such as a policer, losses or a sender that paused. Nothing is "
        "advised; add a log of `perigee probe`, a UDP flood (`iperf3 --udp --json`), or pings of some minutes."
    )


def _nothing(found: Tried) -> str:
    best = max(found.outcomes, key=lambda one: one.gain_percent)
    ends = f" {between(best.interval, 0)}" if best.interval else ""
    said = f"the most is {signed(best.gain_percent, 1)} %{ends}, {best.setting.does}"
    if best.is_open:
        return f"Nothing gains {LEAST_GAIN:.0f} % beyond chance: {said}; --budget gives it more rounds."
    return f"Nothing gains {LEAST_GAIN:.0f} %: {said}."


def _is_held_elsewhere(link: Link, found: Tried) -> bool:
    """Whether downloads leave the link unfilled and are alike with all sizes of its queue: these do not hold them."""
    rates = [one.goodput_mbps for one in found.outcomes if one.setting.queue_bytes is not None]
    is_alike = max(rates) <= min(rates) * (1 + LEAST_GAIN / 100)
    return is_alike and found.downloads * max(rates) < _FILLED * link.rate_mbps


def _at_the_knee(knee: Outcome, largest: Outcome) -> str:
    """Return a sentence on the size of a queue beyond which goodput hardly grows."""
    size = number((knee.setting.queue_bytes or 0) / 1000, 0)
    begin = f"The knee of sizes is {knee.setting.name.removeprefix('Queue of ')} ({size} kB)"
    if knee is largest:
        return f"{begin}, the largest that was tried: a larger one may gain more."
    gain = max(100 * (largest.goodput_mbps / knee.goodput_mbps - 1), 0)
    return (
        f"{begin}: 95 % of round trips are within {number(knee.delay_ms, 0)} ms; "
        f"{largest.setting.name.removeprefix('Queue of ')} gives {signed(gain, 0)} % goodput, and "
        f"{number(largest.delay_ms, 0)} ms."
    )


def _confidence(link: Link, found: Tried) -> str:
    """Return how far the path is known, and its rounds are enough: high, medium or low."""
    if link.is_guess or link.is_split or found.is_unlike:
        return "low"
    return "high" if found.rounds >= _MANY and not link.assumed else "medium"


_LEAST_LOSS = 0.1
"""Losses of pings in percentage points from which they are named."""
_ALL = 95.0
"""Share in % of its goodput from which a flow beside keeps all of it, but for chance."""
_MANY = 9
_FILLED = 0.75
"""Share of the link's rate from which downloads together fill it, but for headers and losses; chosen."""
_NO_KNEE = (
    "The downloads are held elsewhere, and leave the link unfilled with all sizes of its queue: no knee of these can "
    "be told."
)
