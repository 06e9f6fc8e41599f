# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Lines of a probe's log, made of the arrivals of its packets, and queues of known kinds."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from conftest import needs_tun
from perigee.fitting.loss import runs_of
from perigee.measuring.probe_steps import Step

PERIGEE = shlex.join([sys.executable, "-m", "perigee"])
PACKET = 1500
MBPS = 20
QUEUE = 50
"""Packets of 1500 bytes: 75 kB, 30 ms at 20 Mbit/s."""
Floats = npt.NDArray[np.float64]
Arrivals = Callable[[Floats, Callable[[float], float], int], Floats]
"""Instants (s) at which packets leave a queue (NaN: dropped), of their arrivals, the rate (bit/s) and its packets."""


def drop_tail(sent_at: Floats, rate: Callable[[float], float], packets: int) -> Floats:
    """A queue that drops arrivals; the packet in service counts."""
    leaves: deque[float] = deque()
    left = np.full(len(sent_at), np.nan)
    for at, now in enumerate(sent_at):
        while leaves and leaves[0] <= now:
            leaves.popleft()
        if len(leaves) < packets:
            left[at] = (leaves[-1] if leaves else now) + PACKET * 8 / rate(now)
            leaves.append(left[at])
    return left


def drop_front(sent_at: Floats, rate: Callable[[float], float], packets: int) -> Floats:
    """A queue that drops the packet at its head; the one in service counts, and is not dropped."""
    waiting: deque[int] = deque()
    left = np.full(len(sent_at), np.nan)
    free = -np.inf

    def serve(until: float) -> None:
        nonlocal free
        while waiting and free <= until:
            at = waiting.popleft()
            free = max(free, sent_at[at])
            free += PACKET * 8 / rate(free)
            left[at] = free

    for at, now in enumerate(sent_at):
        serve(now)
        if len(waiting) + (free > now) >= packets:
            waiting.popleft()
        waiting.append(at)
        serve(now)
    serve(np.inf)
    return left


def too_late_at_the_head(sent_at: Floats, rate: Callable[[float], float], packets: int) -> Floats:
    """A queue that drops a packet at its head if it has waited longer than for as many packets."""
    left = np.full(len(sent_at), np.nan)
    free = -np.inf
    for at, now in enumerate(sent_at):
        begin = max(free, now)
        if begin - now <= (packets - 1) * PACKET * 8 / rate(begin):
            free = left[at] = begin + PACKET * 8 / rate(begin)
    return left


def line(
    sent_at: Floats, arrived: Floats, offered_bps: float, direction: str = "down", block_s: float = 0.1
) -> dict[str, Any]:
    """A line of a log.

    Args:
        sent_at: departures, s.
        arrived: arrivals, s; NaN: lost.
        offered_bps: rate of the departures.
        direction: of the data.
        block_s: length of its blocks of time, s.
    """
    per_block = max(1, round(block_s * offered_bps / PACKET / 8))
    came = np.isfinite(arrived)
    delay = (arrived - sent_at) * 1e6
    blocks: dict[str, list[Any]] = {"received": [], "least_us": [], "mean_us": [], "most_us": []}
    for start in range(0, len(sent_at), per_block):
        own = delay[start : start + per_block]
        own = own[np.isfinite(own)]
        blocks["received"].append(len(own))
        for name, value in (("least_us", np.min), ("mean_us", np.mean), ("most_us", np.max)):
            blocks[name].append(round(float(value(own))) if len(own) else None)
    first, last = np.nanmin(arrived), np.nanmax(arrived)
    bins = ((arrived[came] - first) / (per_block * PACKET * 8 / offered_bps)).astype(int)
    return {
        "direction": direction, "offered_bps": round(offered_bps), "began_unix_s": 1.7e9, "rtt_s": 0.6,
        "sent": {
            "packets": len(sent_at), "first_ns": 0, "last_ns": round(sent_at[-1] * 1e9), "refused": 0, "slips": 0,
            "slipped_ns": 0, "late_max_ns": 0,
        },
        "report": {
            "received": int(came.sum()), "lost": int((~came).sum()), "duplicates": 0, "reordered": 0,
            "reordered_by": 0, "first_ns": round(first * 1e9), "last_ns": round(last * 1e9), "delay_ns": 0,
            "per_block": per_block, "runs": [list(run) for run in runs_of(~came).lengths], "blocks": blocks,
            "arrivals": np.bincount(bins).tolist(),
        },
    }  # fmt: skip


def step(
    queue: Arrivals,
    load: float,
    packets: int = QUEUE,
    time_s: float = 4.0,
    mbps: float = MBPS,
    loss: float = 0.0,
    swing: float = 0.0,
    seed: int = 1,
    pings_ms: Floats | None = None,
) -> Step:
    """A rate over a queue.

    Args:
        queue: its kind.
        load: rate sent over the link's.
        packets: its length.
        time_s: length of the rate.
        mbps: mean rate of the link.
        loss: share lost behind the queue.
        swing: standard deviation of the link's rate, drawn each 20 ms, over its mean.
        seed: of the losses and the swings.
        pings_ms: round trips (NaN: lost) of pings sent each 0.1 s from 1 s before the rate.
    """
    rng = np.random.default_rng(seed)
    offered_bps = load * mbps * 1e6
    sent_at = np.arange(round(time_s * offered_bps / PACKET / 8)) * PACKET * 8 / offered_bps
    drawn = mbps * 1e6 * np.clip(rng.normal(1, swing, 1000), 0.3, 3) if swing else np.full(1000, mbps * 1e6)
    arrived = 0.02 + queue(sent_at, lambda now: float(drawn[int(max(now, 0) / 0.02)]), packets)
    arrived[rng.random(len(arrived)) < loss] = np.nan
    record = line(sent_at, arrived, offered_bps, block_s=0.001)
    if pings_ms is not None:
        sent_s = np.arange(len(pings_ms)) * 0.1 - 1
        record["pings"] = {
            "sent_s": [round(at, 4) for at in sent_s.tolist()],
            "rtt_ms": [None if np.isnan(rtt) else rtt for rtt in pings_ms.tolist()],
        }
    return Step(record, PACKET)


def behind(link: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script behind a link, on a separate host that runs the server."""
    needs_tun()
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:  # noqa: S607
        pytest.skip("emulated links need network namespaces")
    whole = (
        f"ip link set lo up; {PERIGEE} probe --serve 2>serving & server=$!\n"
        "for _ in $(seq 300); do grep -q listening serving && break; sleep 0.1; done\n"
        f"{PERIGEE} exec {link} -- sh -c {shlex.quote(script)}; code=$?; kill $server; wait $server; exit $code"
    )
    return subprocess.run(
        ["unshare", "--net", "sh", "-c", whole],  # noqa: S607
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=os.environ["PERIGEE_TEST_FOLDER"],
        env={**os.environ, "PERIGEE_TOKEN": "correct-horse"},
    )
