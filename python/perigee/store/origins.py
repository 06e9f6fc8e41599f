# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Where results come from: the one list of engines, and the files of others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """An engine, or another origin of results.

    Attributes:
        numbers: what reports call its numbers.
        carries: how the engine carries a study out; empty: it is no engine.
        draws_by_seed: whether links take their draws from the seed of the round.
    """

    numbers: str
    carries: str = ""
    draws_by_seed: bool = False


ORIGINS = {
    "sim": Origin("simulated", "simulation in virtual time", draws_by_seed=True),
    "emu": Origin("emulated", "real TCP over emulated links, in real time, as root", draws_by_seed=True),
    "live": Origin("measured", "real hosts, through their iperf3 servers"),
    "capture": Origin("captured"),
    "campaign": Origin("measured"),
}
"""The origins, by their names in results."""

ENGINES = {name: one.carries for name, one in ORIGINS.items() if one.carries}
"""The engines as `--engine` takes them, and how each carries a study out."""
