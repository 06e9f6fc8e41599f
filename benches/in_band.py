#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How often a probe in band finds which packets a full queue drops: queues of known kinds, for several seeds.

    .venv/bin/python benches/in_band.py [--seeds N]

Prints the table of docs/models/probe.md. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from perigee.measuring.in_band import fit_kind  # noqa: E402
from probed import MBPS, PACKET, drop_front, drop_tail, step  # noqa: E402

KINDS = {"drop-tail": drop_tail, "drop-front": drop_front}
QUEUES_MS = (10, 30, 100)
LOADS = ((1.05,), (1.25,), (1.25, 2.0), (3.0,))
BELOW = 0.7
TIME_S = 10.0
SWING, LOSS = 0.2, 0.01


def verdict(kind: str, queue_ms: int, loads: tuple[float, ...], swing: float, loss: float, seed: int) -> str:
    """Verdict of the probe: `right`, `wrong` or `open`."""
    packets = round(queue_ms * MBPS * 1e3 / 8 / PACKET)
    steps = [
        step(KINDS[kind], load, packets, TIME_S, loss=loss, swing=swing, seed=100 * seed + place)
        for place, load in enumerate((BELOW, *loads))
    ]
    found = fit_kind(steps, "down").name
    return "open" if found is None else "right" if found == kind else "wrong"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    print("| queue | | rates over the link's | constant: right, open, wrong | swings and losses: right, open, wrong |")
    print("|---|---:|---|---:|---:|")
    for kind in KINDS:
        for queue_ms in QUEUES_MS:
            for loads in LOADS:
                cells = []
                # Without swings and losses all seeds are the same.
                for swing, loss, tries in ((0.0, 0.0, 1), (SWING, LOSS, seeds)):
                    said = Counter(verdict(kind, queue_ms, loads, swing, loss, seed) for seed in range(tries))
                    cells.append(", ".join(str(said[word]) for word in ("right", "open", "wrong")))
                print(f"| {kind} | {queue_ms} ms | {', '.join(map(str, loads))} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
