# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Common parts of the comparisons with this machine's kernel: runs, tolerances, and the reasons of what misses."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

ROOT = Path(__file__).resolve().parent.parent

Run = Callable[[Sequence[str]], None]
"""Carries out `perigee` with these arguments, or raises."""


QUANTITIES = ("throughput", "round trip", "retransmissions")


@dataclass(frozen=True)
class Tolerance:
    """How far the kernel may be from the simulator.

    Attributes:
        goodput: of the throughput, as a share of the simulated one.
        rtt: of the mean round trip, likewise.
        retransmitted: factor between the shares of retransmitted packets, unless they differ by 0.1 percentage points
            or less.
    """

    goodput: float
    rtt: float
    retransmitted: float

    def misses(self, sim: Sequence[float], emu: Sequence[float]) -> list[str]:
        """Return which of throughput, mean round trip and retransmitted share (per cent) differ by more than that."""
        found = [
            name
            for name, here, there, allowed in zip(QUANTITIES, sim, emu, (self.goodput, self.rtt), strict=False)
            if abs(there / here - 1) > allowed
        ]
        least, most = sorted((sim[2], emu[2]))
        if most - least > 0.1 and most > self.retransmitted * least:
            found.append(QUANTITIES[2])
        return found


def perigee(arguments: Sequence[str]) -> None:
    """Carry out `perigee` with these arguments; where it fails, exit with what it said."""
    done = subprocess.run([sys.executable, "-m", "perigee", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{sys.argv[0]}: perigee {' '.join(arguments)} failed:\n{done.stderr.decode()}")


def retransmitted() -> pl.Expr:
    """Return the share of packets sent again, per cent, as an expression over the table of flows."""
    return 100 * pl.col("retransmitted_packets") / pl.col("sent_packets")


def differences(path: Path) -> dict[str, str]:
    """Return why the kernel differs, by the label of a cell, as `differences.toml` has it."""
    return {cell["cell"]: cell["why"] for cell in toml(path)["differences"]}


def reasons(missed: Sequence[str], why: dict[str, str]) -> Iterator[str]:
    """Yield a page's section about the cells that miss, by their labels."""
    yield "\n## What misses, and why\n\n"
    labels: dict[str, list[str]] = {}
    for label in missed:
        labels.setdefault(why.get(label, "Not looked into yet."), []).append(label)
    for reason, those in labels.items():
        yield f"- **{'; '.join(those)}.** {reason}\n"
    if not missed:
        yield "Nothing misses.\n"
    for label in [label for label in why if label not in missed]:
        yield f"- **{label}** missed in other runs, not in this one. {why[label]}\n"


def toml(path: Path) -> dict[str, Any]:
    """Return a TOML file's contents."""
    return tomllib.loads(path.read_text(encoding="utf-8"))
