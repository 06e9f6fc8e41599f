# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Paths drawn at random: rates, round trips, queues, losses, jitter, policers and slots."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Path:
    """A path to emulate.

    Attributes:
        number: its place in the draw, from 1 on.
        said: what it is, in words.
        profile: the text of its profile.
        down_mbps: mean rate towards the user.
        rtt_ms: mean round trip of an empty path.
    """

    number: int
    said: str
    profile: str
    down_mbps: float
    rtt_ms: float


def drawn(seed: int, number: int) -> Path:
    """Draw a path, whatever others are drawn.

    Examples:
        >>> drawn(1, 3) == drawn(1, 3), drawn(1, 3) == drawn(2, 3)
        (True, False)
    """
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - a draw to repeat, no secret
    down, rtt = _between(chance, *DOWN_MBPS), _between(chance, *RTT_MS)
    up = max(down * _between(chance, *UP_SHARE), LEAST_UP_MBPS)
    bdp_kb = down * rtt / 8
    queue_bdp = _between(chance, *QUEUE_BDP)
    server = chance.choices(("steady", "policer", "slots"), (6, 2, 2))[0]
    losses = chance.choices(("none", "single", "bursts"), (5, 4, 2))[0]
    loss = _between(chance, *LOSS_PERCENT)
    jitter_ms = rtt * chance.uniform(*JITTER) if chance.random() < JITTERY else 0.0
    own: list[str] = []
    said = [f"{down:.3g} Mbit/s down, {up:.3g} up, {rtt:.0f} ms"]
    if server == "policer":
        burst_kb = max(bdp_kb * chance.uniform(*POLICER_BDP), 15)
        own += [f'rate = "{down:.3f} Mbit/s"', f'burst = "{burst_kb:.0f} kB"', f'queue = "{POLICER_QUEUE_KB} kB"']
        said.append(f"policer of {burst_kb:.0f} kB")
    else:
        queue_kb = max(bdp_kb * queue_bdp, LEAST_QUEUE_KB)
        rate = f'"{down:.3f} Mbit/s"'
        if server == "slots":
            sd = down * chance.uniform(*SLOTS_SD)
            least, most = down / 2, down * 3 / 2
            rate = f'{{ kind = "slots", mean = {rate}, sd = "{sd:.3f} Mbit/s", min = "{least:.3f} Mbit/s", '
            rate += f'max = "{most:.3f} Mbit/s" }}'
            said.append(f"slots of 15 s (standard deviation {100 * sd / down:.0f} %)")
        own += [f"rate = {rate}", f'queue = "{queue_kb:.0f} kB"']
        said.append(f"queue of {queue_kb:.0f} kB")
    if losses == "single":
        own.append(f'loss = "{loss:.4f} %"')
        said.append(f"{loss:.2g} % lost")
    elif losses == "bursts":
        own.append(f'loss = {{ kind = "gilbert-elliott", loss = "{loss:.4f} %", burst = 4 }}')
        said.append(f"{loss:.2g} % lost in bursts")
    delay = f'"{rtt / 2:.2f} ms"'
    if jitter_ms:
        body = f'{{ kind = "uniform", width = "{jitter_ms:.2f} ms" }}'
        own.append(f'delay = {{ kind = "jitter", base = {delay}, every = "{JITTER_EVERY_MS} ms", body = {body} }}')
        said.append(f"jitter up to {jitter_ms:.0f} ms")
    else:
        own.append(f"delay = {delay}")
    back = [f'rate = "{up:.3f} Mbit/s"', f"delay = {delay}", f'queue = "{max(up * rtt / 8, LEAST_QUEUE_KB):.0f} kB"']
    head = ['name = "link"', f'title = "path {number}"', f'source = "drawn with seed {seed}"']
    text = "\n".join([*head, "", "[down]", *own, "", "[up]", *back, ""])
    return Path(number, ", ".join(said), text, down, rtt + jitter_ms / 2)


def _between(chance: random.Random, low: float, high: float) -> float:
    """Return a value whose logarithm is uniform."""
    return math.exp(chance.uniform(math.log(low), math.log(high)))


DOWN_MBPS, RTT_MS, UP_SHARE, QUEUE_BDP = (0.5, 100.0), (20.0, 700.0), (0.1, 1.0), (0.25, 4.0)
LEAST_UP_MBPS, LEAST_QUEUE_KB = 0.25, 15.0
LOSS_PERCENT = (0.01, 1.0)
JITTERY, JITTER, JITTER_EVERY_MS = 0.3, (0.03, 0.15), 50
"""Share of the paths whose delay moves, the width of that as a share of the round trip, and how often it does."""
POLICER_BDP, POLICER_QUEUE_KB = (0.3, 1.0), 3
SLOTS_SD = (0.1, 0.3)
