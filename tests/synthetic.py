# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An engine that draws plausible results at once, for tests of the steps after a run; it validates no model."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from perigee.cc.limits import DEFAULT_LIMITS, CodeLimits
from perigee.engines.plan.contract import Engine, Output, Plan, Progress
from perigee.engines.plan.runs import Run, Runs
from perigee.places import StudyFile
from perigee.store.streams import stream_of

ALGORITHMS = {"bbr": (96.0, 23.0, 827.0, 2.0), "cubic": (91.0, 16.6, 806.0, 1.5)}
ALGORITHMS |= {"hybla": (112.0, 40.8, 906.0, 0.4), "vivace": (92.0, 20.3, 722.0, 0.6)}
"""For each algorithm: overall and start-up goodput in Mbit/s, round trip in ms, retransmitted share in %."""


Edit = Callable[[dict[str, Any]], None]
"""Changes a row of `flows`."""


@dataclass(frozen=True)
class Variant:
    """How the results of one engine differ from those of another.

    Attributes:
        pairs: whether the algorithms run in pairs too.
        pause_s: how long a run takes.
        first_seed: seed of the first round.
        edit: changes each row of `flows`.
        build: fingerprint of the engine.
    """

    pairs: bool
    pause_s: float
    first_seed: int
    edit: Edit
    build: str


class SyntheticEngine:
    """Draws each run's tables from distributions seeded by the run's seed and algorithm."""

    def __init__(
        self,
        rounds: int = 3,
        *,
        pairs: bool = False,
        pause_s: float = 0.0,
        first_seed: int = 1000,
        edit: Edit = lambda _row: None,
        build: str = "synthetic",
    ) -> None:
        self._rounds = rounds
        self._variant = Variant(pairs, pause_s, first_seed, edit, build)

    def __call__(self, study: StudyFile, settings: Sequence[str], reduced: bool) -> SyntheticPlan:
        """Plan the runs; `rounds` is the only setting."""
        rounds = 1 if reduced else self._rounds
        for setting in settings:
            key, _, value = setting.partition("=")
            if key == "rounds":
                rounds = int(value)
        return SyntheticPlan(study.path.parent.name, rounds, self._variant)


class SyntheticPlan(Plan):
    """Four algorithms, interlaced."""

    engine = "sim"

    def __init__(self, study: str, rounds: int, variant: Variant) -> None:
        self.study = study
        self._variant = variant
        self.setup: dict[str, Any] = {}
        names = list(ALGORITHMS)
        points = [{"flow.cc": name} for name in names]
        if variant.pairs:
            points += [{"flows.a.cc": a, "flows.b.cc": b} for i, a in enumerate(names) for b in names[i + 1 :]]
        self.runs = Runs([{"point": point} for point in points], rounds, lambda number: variant.first_seed + number)

    @property
    def build(self) -> str:
        """The build of its engine."""
        return self._variant.build

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Draw one run's tables."""
        run = self.runs[index]
        for step in range(10):
            time.sleep(self._variant.pause_s / 10)
            if not progress(step / 10):
                return None
        flows, series, rtt, milestones = [], [], [], []
        names = list(run["point"].values())
        for number, cc in enumerate(names):
            flow = "download" if len(names) == 1 else "ab"[number]
            drawn = _Flow(run, cc, flow, share=1 / len(names))
            row = drawn.row()
            self._variant.edit(row)
            flows.append(row)
            series += drawn.series()
            rtt += drawn.rtt()
            milestones += drawn.milestones()
        tables = {"flows": flows, "series": series, "rtt": rtt, "milestones": milestones}
        tables["links"] = _links(run, series)
        return Output({name: stream_of(pl.DataFrame(rows, infer_schema_length=None)) for name, rows in tables.items()})


class _Flow:
    def __init__(self, run: Run, cc: str, flow: str, share: float) -> None:
        self.run, self.cc, self.flow = run, cc, flow
        self.random = np.random.default_rng([run["seed"], list(ALGORITHMS).index(cc), len(flow)])
        overall, startup, rtt, loss = ALGORITHMS[cc]
        mood = self.random.normal(1, 0.08)
        self.startup = startup * share * self.random.normal(1, 0.05)
        self.steady = overall * 1.2 * share * mood
        self.rtt_ms = rtt * self.random.normal(1, 0.1)
        self.loss = max(0.0, loss / 100 * self.random.normal(1, 0.8))
        t = np.arange(1, 101.0)
        shape = 1 - np.exp(-t * self.startup / self.steady / 10)
        self.rate = np.maximum(0.1, self.steady * shape * self.random.normal(1, 0.05, len(t)))
        self.t = t
        self.acked = np.cumsum(self.rate) * 1e6 / 8

    def row(self) -> dict[str, Any]:
        run, sent = self.run, int(self.acked[-1] / 1448)
        lost = int(sent * self.loss)
        p10, p50, p90 = (float(v) for v in np.percentile(self.rate, [10, 50, 90]))
        return {
            "study": "synthetic", "engine": "sim", "run": run["index"], "round": run["round"], "seed": run["seed"],
            "point": json.dumps(run["point"]), "flow": self.flow, "kind": "bulk", "from_node": "server",
            "to_node": "client", "cc": self.cc, "cc_params": "{}", "bytes": int(self.acked[-1]),
            "received_bytes": int(self.acked[-1]), "start_s": 0.0, "duration_s": 100.0, "completed": True,
            "outcome": "completed",
            "handshake_ms": 600.0, "goodput_mbps": float(self.rate.mean()), "goodput_p10_mbps": p10,
            "goodput_p50_mbps": p50, "goodput_p90_mbps": p90, "steady_goodput_mbps": float(self.rate[50:].mean()),
            "startup_goodput_mbps": self.startup, "rtt_min_ms": 580.0, "rtt_mean_ms": self.rtt_ms,
            "rtt_p50_ms": self.rtt_ms * 0.98, "rtt_p95_ms": self.rtt_ms * 1.3, "rtt_p99_ms": self.rtt_ms * 1.5,
            "steady_rtt_mean_ms": self.rtt_ms * 1.01, "startup_rtt_mean_ms": self.rtt_ms * 0.97,
            "sent_packets": sent, "retransmitted_packets": lost, "rto_count": 0, "startup_s": 10.0,
            "leg": None, "busy_s": 100.0, "rwnd_limited_s": 0.0, "sndbuf_limited_s": 0.0, "app_limited_s": 0.0,
            "startup_sent_packets": 34000, "startup_retransmitted_packets": lost // 10, "steady_s": 50.0,
            "steady_sent_packets": sent // 2, "steady_retransmitted_packets": lost // 2 if lost > 2000 else 0,
            "capture_frames": sent, "capture_repeated_frames": lost, "capture_rtt_mean_ms": self.rtt_ms,
            "capture_steady_frames": sent // 2, "capture_steady_repeated_frames": lost // 2 if lost > 2000 else 0,
            "capture_steady_rtt_mean_ms": self.rtt_ms * 1.01, "capture_startup_rtt_mean_ms": self.rtt_ms * 0.97,
            "capture_goodput_mbps": float(self.rate.mean()), "capture_goodput_p10_mbps": p10,
            "capture_goodput_p50_mbps": p50, "capture_goodput_p90_mbps": p90,
            "capture_steady_goodput_mbps": float(self.rate[50:].mean()), "capture_startup_goodput_mbps": self.startup,
        }  # fmt: skip

    def series(self) -> list[dict[str, Any]]:
        noise = self.random.normal(1, 0.1, len(self.t))
        return [
            {
                "run": self.run["index"], "flow": self.flow, "t_s": float(t), "goodput_mbps": float(rate),
                "acked_bytes": int(acked), "cwnd_packets": int(rate * 60), "ssthresh_packets": None,
                "srtt_ms": self.rtt_ms * float(n), "rtt_mean_ms": self.rtt_ms * float(n),
                "inflight_packets": int(rate * 55), "sent_packets": int(rate * 87),
                "retransmitted_packets": int(rate * 87 * self.loss) if t > 50 else 0, "pacing_mbps": None,
            }
            for t, rate, acked, n in zip(self.t, self.rate, self.acked, noise, strict=True)
        ]  # fmt: skip

    def rtt(self) -> list[dict[str, Any]]:
        rows = []
        for phase, size in (("all", 4000), ("startup", 500), ("steady", 2000)):
            samples = self.rtt_ms * self.random.gamma(60, 1 / 60, size)
            bins, counts = np.unique(np.floor(samples), return_counts=True)
            rows += [
                {"run": self.run["index"], "flow": self.flow, "phase": phase, "rtt_ms": float(b), "count": int(c)}
                for b, c in zip(bins, counts, strict=True)
            ]
        return rows

    def milestones(self) -> list[dict[str, Any]]:
        sizes = [m * 1_000_000 for m in range(1, 51)]
        times = 0.6 + np.interp(sizes, np.concatenate([[0], self.acked]), np.concatenate([[0], self.t]))
        return [
            {"run": self.run["index"], "flow": self.flow, "bytes": size, "t_s": float(t)}
            for size, t in zip(sizes, times, strict=True)
        ]


def _links(run: Run, series: list[dict[str, Any]]) -> list[dict[str, Any]]:
    random = np.random.default_rng(run["seed"])
    rows = []
    for row in series[:100]:
        rate = 140 + 4 * float(random.normal())
        offered = int(min(rate, row["goodput_mbps"] * 1.04) * 1e6 / 8)
        for link, part in (("satellite.down", 1.0), ("satellite.up", 0.02)):
            dropped = row["retransmitted_packets"] if part == 1.0 else 0
            rows.append({
                "run": run["index"], "link": link, "t_s": row["t_s"], "offered_packets": int(offered * part / 1400),
                "offered_bytes": int(offered * part), "delivered_packets": int(offered * part / 1400) - dropped,
                "delivered_bytes": int(offered * part), "dropped_packets": dropped,
                "drop_reason": "aqm" if dropped else "", "dropped_queue_full_packets": 0,
                "dropped_aqm_packets": dropped, "lost_packets": 0,
                "queue_bytes": int(max(0, (row["rtt_mean_ms"] - 600) * 17000)) if part == 1.0 else 0,
                "rate_mbps": rate if part == 1.0 else 10.0,
            })  # fmt: skip
    return rows


def main() -> None:
    """Run the command line with this engine in the simulator's place; `PAUSE_S` says how long a run takes."""
    import math
    import os

    from perigee import __main__ as command
    from perigee.engines import choice

    def engine(
        name: str,
        say: Callable[[str], None] = lambda _text: None,
        *,
        force: bool = False,
        late_s: float = math.inf,
        limits: CodeLimits = DEFAULT_LIMITS,
    ) -> Engine:
        assert name == "sim"
        return SyntheticEngine(pause_s=float(os.environ.get("PAUSE_S", "0")))

    choice.engine = engine
    command.main()


if __name__ == "__main__":
    main()
