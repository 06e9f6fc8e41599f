# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A fitted profile, simulated, beside the measurement."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perigee.analysis.log import BIN_MS
from perigee.core import native
from perigee.engines.plan.contract import Output
from perigee.engines.sim.engine import Simulator
from perigee.fitting.fit import Measured
from perigee.fitting.profile import Fitted, quoted
from perigee.fitting.series import Pings
from perigee.headers import IPV4, UDP
from perigee.measuring.probe_steps import Step
from perigee.places import StudyFile

Floats = npt.NDArray[np.float64]

MOST_PINGS = 1_000_000
MOST_PROBE_S = 30.0
UDP_HEADERS = IPV4 + UDP


@dataclass(frozen=True)
class Row:
    """A figure of both.

    Attributes:
        what: which.
        unit: its unit.
        measured: on the real path.
        fitted: in the simulator, on the profile; one realisation of its random processes.
    """

    what: str
    unit: str
    measured: float
    fitted: float


def check(fitted: Fitted, measured: Measured) -> list[Row]:
    """Simulate pings and probes as they were measured, over the fitted profile.

    Raises:
        RunError: the simulation failed.
    """
    rows: list[Row] = []
    if measured.pings is not None:
        rows += _pings(fitted, measured.pings)
    for step in measured.steps:
        rows += _step(fitted, step)
    return rows


def _pings(fitted: Fitted, pings: Pings) -> Iterator[Row]:
    count = min(len(pings.rtt_ms), MOST_PINGS)
    simulated = simulate_pings(fitted.text, pings.interval_s, pings.size, count)
    real, model = _described(pings.rtt_ms), _described(simulated)
    for what, unit in _FIGURES.items():
        yield Row(f"ping: {what}", unit, real[what], model[what])


def _described(rtt_ms: Floats) -> dict[str, float]:
    lost = np.isnan(rtt_ms)
    known = rtt_ms[~lost]
    answered = native.Histogram(round(BIN_MS * 1e6))
    for rtt in known.tolist():
        answered.add(round(rtt * 1e6))
    sd = float(known.std(ddof=1)) if len(known) > 1 else (0.0 if len(known) else math.nan)
    quantiles = [answered.quantile_ms(share) for share in _SHARES]
    values = [
        math.nan if value is None else value
        for value in (answered.min_ms, answered.mean_ms, sd, *quantiles, answered.max_ms)
    ]
    in_a_row = np.diff(np.flatnonzero(np.diff(lost, prepend=False, append=False)))[::2]
    losses = [100 * float(lost.mean()), int(lost.sum()) / max(len(in_a_row), 1), float(max(in_a_row, default=0))]
    return dict(zip(_FIGURES, [*values, *losses], strict=True))


def simulate_pings(profile: str, interval_s: float, size: int, count: int, seed: int = 1) -> Floats:
    """Return the round trips (ms; NaN: lost) of pings over a profile, in the simulator."""
    flow = (
        f'from = "near"\nto = "far"\nkind = "ping"\npacket = "{size + UDP_HEADERS} B"\n'
        f'interval = "{round(interval_s * 1e6)} us"\nrepeat = {count}\n'
    )
    exchanges = _run(profile, flow, seed).table("exchanges")
    return np.asarray(exchanges["duration_ms"].to_numpy(), float)


def _step(fitted: Fitted, step: Step) -> Iterator[Row]:
    length_s = min(step.record["sent"]["packets"] * step.packet * 8 / step.offered_bps, MOST_PROBE_S)
    ends = ("far", "near") if step.direction == "down" else ("near", "far")
    flow = (
        f'from = "{ends[0]}"\nto = "{ends[1]}"\nkind = "udp"\npacket = "{step.packet} B"\n'
        f'rate = "{round(step.sent_bps)} bit/s"\nduration = "{round(length_s * 1000)} ms"\n'
    )
    flows = _run(fitted.text, flow, 1).table("flows").row(0, named=True)
    title = f"probe {step.direction} {step.offered_bps / 1e6:g} Mbit/s"
    headers = step.packet / (step.packet - UDP_HEADERS)
    yield Row(
        f"{title}: received", "Mbit/s", step.received_bps / 1e6, headers * (flows["goodput_p50_mbps"] or math.nan)
    )
    lost = flows["lost_packets"] / max(flows["sent_packets"], 1)
    yield Row(f"{title}: lost", "%", 100 * step.loss, 100 * lost)


def _run(profile: str, flow: str, seed: int) -> Output:
    """Carry one flow out over a profile, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=native.scratch_prefix("fit")) as folder:
        path = Path(folder) / "fitted.toml"
        path.write_text(profile, encoding="utf-8")
        text = (
            f'name = "fit"\ntitle = "fit"\nseed = {seed}\nnodes = ["far", "near"]\ntime_limit = "720 h"\n'
            '[measure]\nseries = "1 s"\n'
            f'[[links]]\nname = "path"\nbetween = ["far", "near"]\nprofile = {quoted(str(path))}\n'
            f'[[flows]]\nname = "measured"\n{flow}'
        )
        if 'kind = "ping"' in flow:
            text = text.replace('series = "1 s"', 'series = "1 h"')
        plan = Simulator(StudyFile(path.with_name("study.toml"), text, (path.parent,)), [], False)
        output = plan.execute(0, lambda *_: True, Path(folder))
    if output is None:
        raise AssertionError("nobody stopped it")
    return output


_SHARES = (0.5, 0.95, 0.99, 0.999)
_FIGURES = {
    "least": "ms",
    "mean": "ms",
    "standard deviation": "ms",
    "median": "ms",
    "95th percentile": "ms",
    "99th percentile": "ms",
    "99.9th percentile": "ms",
    "largest": "ms",
    "lost": "%",
    "lost in a row, mean": "packets",
    "lost in a row, longest": "packets",
}
