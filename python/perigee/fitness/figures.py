# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Figures of a run of a cell, from its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from perigee.evaluation.limited import IN_FLIGHT
from perigee.evaluation.tables import of_flow
from perigee.keeper.runs import Tables

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

NAMES = ("flows", "series", "links", "responses")
Figure = Callable[[Tables, float], float]
"""Takes a figure from the tables of a run that was given a length, s."""
BACKED_OFF_S = 35.0
"""From here on a sender has to have backed off, 30 s after the loss has begun, s."""


def goodput(tables: Tables, _length_s: float) -> float:
    """Return the goodput of all flows `candidate` in the second half, Mbit/s."""
    return float(_goodputs(tables, "candidate").sum())


def goodput_of_other(tables: Tables, _length_s: float) -> float:
    """Return the goodput of the flow `other` in the second half, Mbit/s."""
    return float(_goodputs(tables, "other").sum())


def jain(tables: Tables, _length_s: float) -> float:
    """Return Jain's index of the flows `candidate` in the second half; 1: all have the same goodput."""
    shares = _goodputs(tables, "candidate")
    squares = float((shares**2).sum())
    return float(shares.sum()) ** 2 / (len(shares) * squares) if squares else 0.0


def late_share(tables: Tables, _length_s: float) -> float:
    """Return the goodput of a flow `late`, over half of what it and `candidate` have in the second half."""
    late, both = (float(_goodputs(tables, *names).sum()) for names in (("late",), ("late", "candidate")))
    return 2 * late / both if both else 0.0


def waiting(rtt_ms: float) -> Figure:
    """Return the figure: the mean wait in queues in the second half, ms, beyond a round trip."""

    def figure(tables: Tables, _length_s: float) -> float:
        rtts = _of(_late(tables["series"]), "candidate")["rtt_mean_ms"].drop_nulls().to_numpy()
        return max(float(rtts.mean()) - rtt_ms, 0.0) if len(rtts) else 0.0

    return figure


def drops(tables: Tables, _length_s: float) -> float:
    """Return the share of packets that the bottleneck drops in the second half, %."""
    table = _late(tables["links"])
    down = table.filter(table["link"] == "path.down")
    return 100 * float(down["dropped_packets"].sum()) / max(float(down["offered_packets"].sum()), 1.0)


def packets_per_round_trip(rtt_ms: float) -> Figure:
    """Return the figure: packets sent per round trip from `BACKED_OFF_S` on."""

    def figure(tables: Tables, length_s: float) -> float:
        series = _of(tables["series"], "candidate")
        sent = float(series.filter(series["t_s"] > BACKED_OFF_S)["sent_packets"].sum())
        return sent * rtt_ms / 1e3 / (length_s - BACKED_OFF_S)

    return figure


def after_over_before(tables: Tables, length_s: float) -> float:
    """Return the goodput of the second half, over that of the quarter before it."""
    series = _of(tables["series"], "candidate")
    times, goodputs = series["t_s"].to_numpy(), series["goodput_mbps"].to_numpy()
    before = goodputs[(times > length_s / 4) & (times <= length_s / 2)].mean()
    return float(goodputs[times > length_s / 2].mean() / before) if before else 0.0


def longest_silence(tables: Tables, length_s: float) -> float:
    """Return the longest time in which nothing arrives, s."""
    series = _of(tables["series"], "candidate")
    arrivals = series.filter(series["goodput_mbps"] > 0)["t_s"].to_numpy()
    return float(np.diff(np.array([0.0, *arrivals, length_s])).max())


def unused_window(tables: Tables, _length_s: float) -> float:
    """Return the largest window, over the packets that a response of 20 kB has in flight."""
    windows = _of(tables["series"], "candidate")["cwnd_packets"].drop_nulls().to_numpy()
    return float(windows.max()) / IN_FLIGHT


def time_of_transfer(tables: Tables, length_s: float) -> float:
    """Return the time of the transfer, s; that of the run if it did not end."""
    flows = _of(tables["flows"], "candidate")
    return float(flows["duration_s"].to_numpy().max()) if flows["completed"].all() else length_s


def short_time(column: str) -> Figure:
    """Return the figure: a column of the times of short responses of the flow `other`, ms."""

    def figure(tables: Tables, length_s: float) -> float:
        times = _of(tables["responses"], "other")[column].drop_nulls()
        return float(times[0]) if len(times) else 1e3 * length_s

    return figure


def _goodputs(tables: Tables, *names: str) -> NDArray[np.float64]:
    """Return the mean goodput of each flow of these names in the second half."""
    late = _late(tables["series"])
    flows = [flow for flow in tables["flows"]["flow"].unique(maintain_order=True) if flow.split(".")[0] in names]
    return np.array([late.filter(late["flow"] == flow)["goodput_mbps"].to_numpy().mean() for flow in flows])


def _late(table: pl.DataFrame) -> pl.DataFrame:
    """Return the second half."""
    last = table["t_s"].max()
    return table.filter(table["t_s"] > (last / 2 if isinstance(last, float) else 0.0))


def _of(table: pl.DataFrame, name: str) -> pl.DataFrame:
    return table.filter(of_flow(name))
