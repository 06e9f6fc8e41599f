# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Limits of a TCP flow over time, and the kind of its losses.

The rounds of a capture (table `rounds`) say for how long which event ended the pauses of the sender, as in Zhang,
Breslau, Paxson, Shenker, "On the Characteristics and Origins of Internet Flow Rates", SIGCOMM 2002. A policer drops
when its tokens are gone: Flach et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Array = npt.NDArray[np.float64]

CAUSES = {
    "application": ("Application", "the application, which gave the sender nothing more to send"),
    "receiver": ("Receiver's window", "the receiver's window, which was full"),
    "slow_start": ("Slow start", "slow start, in which the sender still looks for the rate of the path"),
    "loss": ("After losses", "the sender's window, which it had made smaller after losses"),
    "pacing": ("Pacing", "the sender's own pace, below what the path would have queued"),
    "queue": ("Bottleneck", "the bottleneck of the path, where its data waited in a queue"),
    "policer": ("Policer", "a policer, which drops what exceeds its rate and lets nothing wait"),
    "proxy": ("Proxy", "a proxy, which answers for the far end and passes on only what that end takes or gives"),
    "window": ("Sender's window", "the sender's own window or buffer, which no loss had made smaller"),
    "sender": (
        "Application or sender",
        "the application or the sender's buffer, window or pace, which look alike away from the sender",
    ),
}
"""Limits of a flow: at the head of a column, and in a sentence."""
KINDS_OF_LOSSES = {
    "slot": "every 15 s, as a satellite network assigns its slots",
    "periodic": "at equal intervals",
    "burst": "in bursts",
    "random": "at random",
}
"""Kinds of losses in a sentence."""
RAISED_SHARE, RAISED_MS = 0.1, 5.0
"""A queue stands where the round trip is above the shortest one by this share of it, and by at least these ms."""
GEOSTATIONARY_MS = 470.0
"""Least round trip over a geostationary satellite."""
LEAST_SHARE = 0.1
"""Share of a flow's time from which a sentence names a limit."""
HOW = (
    "Judged in each round trip by what ended the sender's pauses: an application that wrote, an acknowledgement that "
    "opened the receiver's window or made room in the sender's own, or neither: then the sender paced. A queue stands "
    f"where all round trips are longer than the shortest by {100 * RAISED_SHARE:.0f} % and {RAISED_MS:g} ms; where the "
    "round trip of a link varies by itself, that counts as a queue. Away from the sender, an application is told by "
    "silence only, and a full window or buffer by constant data in flight. Without a capture the series are judged, an "
    "interval at a time."
)
HOW_BY_SERIES = (
    "Judged in each interval of {} ms of the series, with the times that the sender itself counted: the receiver's "
    "window, silence of the application, its send buffer. A queue stands where the mean round trip is longer than the "
    f"shortest by {100 * RAISED_SHARE:.0f} % and {RAISED_MS:g} ms. A leg that waits for another one is limited by the "
    "proxy between them."
)


def of_rounds(
    row: Mapping[str, Any], seen: Mapping[str, Any], rounds: pl.DataFrame, losses: pl.DataFrame
) -> pl.DataFrame:
    """Say what limited a captured flow in each of its rounds.

    Args:
        row: its row of `flows`.
        seen: its row of `connections`.
        rounds: its rows of `rounds`.
        losses: its rows of `losses`, `t_s` in the run's time as that of `rounds`.

    Returns:
        Columns `t_s` and `length_s` of the rounds, and `cause`, one of `CAUSES`.
    """
    shortest_ms = row["rtt_min_ms"]
    first_loss_s = float(np.min(losses["t_s"].to_numpy(), initial=np.inf))
    begins = (rounds["t_s"] - rounds["length_s"]).to_numpy()
    is_raised = _is_raised(_of_trains(rounds), shortest_ms)
    is_start = begins < min(_end_of_start(rounds, (shortest_ms or 0.0) / 1e3), first_loss_s)
    network = np.select([is_raised, is_start, begins >= first_loss_s], ["queue", "slow_start", "loss"], "window")
    own = _of_sender(rounds)
    # Away from the sender PSH ends the trains of any sender: only where nothing arrives, nothing was there to send.
    is_away = not rounds["pacing_s"].count()
    own = np.where((own == "application") & is_away & (rounds["sent_bytes"].to_numpy() > 0), "sender", own)
    if not is_away:
        network = np.where((network == "window") & ~_fills(rounds), "pacing", network)
    causes = np.where((own == "") | (np.isin(own, ["pacing", "sender"]) & (is_raised | is_start)), network, own)
    untold = (causes == "sender") & (begins < first_loss_s)
    # A sender whose buffer or window is full is never silent for a round.
    if not is_split(seen) and np.mean(causes == "application") < LEAST_SHARE:
        window_bytes = seen.get("receive_window_max_bytes") or np.inf
        causes[untold] = _of_constant(rounds.filter(untold), (shortest_ms or 0.0) / 1e3, window_bytes)
    lossy = is_raised[np.searchsorted(rounds["t_s"].to_numpy(), losses["t_s"].to_numpy()).clip(0, rounds.height - 1)]
    waits_little = losses.height > 0 and float(np.mean(lossy)) < LEAST_SHARE
    if waits_little and _is_policed(row, rounds, losses, int(seen.get("segment_bytes") or 0)):
        causes = np.where(
            np.isin(causes, ["loss", "window", "pacing", "sender"]) & (begins >= first_loss_s), "policer", causes
        )
    if is_split(seen):
        causes = np.where(np.isin(causes, ["application", "receiver", "sender"]), "proxy", causes)
    # Behind the last data the flow waits for their acknowledgements, whatever limited them.
    sending = np.flatnonzero(rounds["sent_bytes"].to_numpy())
    if len(sending):
        causes[sending[-1] + 1 :] = causes[sending[-1]]
    return rounds.select("t_s", "length_s", cause=pl.Series(causes, dtype=pl.String))


def of_series(series: pl.DataFrame, keys: Sequence[str] = ("run", "flow")) -> pl.DataFrame:
    """Say what limited flows in each interval of their series, as far as the series tells.

    Args:
        series: rows of `series` in order, `t_s` from the beginning of their flow, with `rtt_ms`; of their flow they
            have `rtt_min_ms`, `lost_packets`, `limited_by`, and whether it `is_policed`; of its connection in a capture
            `receive_window_max_bytes` and `segment_bytes`, and `is_seen`, which is empty without one.
        keys: columns that name a flow.

    Returns:
        `keys`, and columns as `of_rounds`; no rows of a flow of which windows or round trips are unknown.
    """
    is_known = pl.col("rtt_ms").count().over(keys) > 0
    has_state = (pl.col("cwnd_packets").count().over(keys) > 0) | pl.col("is_seen").is_not_null()
    begins = _with_growth(series.filter(is_known & has_state & pl.col("rtt_min_ms").is_not_null()), keys)
    shortest_ms, in_flight, cwnd = pl.col("rtt_min_ms"), pl.col("inflight_packets"), pl.col("cwnd_packets")
    is_raised = pl.col("rtt_ms") >= shortest_ms + pl.max_horizontal(RAISED_SHARE * shortest_ms, RAISED_MS)
    has_room = (in_flight < _FULL * cwnd).fill_null(value=False)
    is_paced = pl.col("pacing_mbps").is_not_null() & (pl.col("limited_by").fill_null("") != "congestion_window")
    is_full = in_flight * pl.col("segment_bytes") >= _FULL * pl.col("receive_window_max_bytes")
    is_waiting = ((in_flight >= _FULL * cwnd) & (cwnd > 0)).fill_null(value=False)
    judged = (
        pl.when((pl.col("goodput_mbps") <= 0) & (pl.col("sent_packets").fill_null(0) == 0) & ~is_waiting)
        .then(pl.lit("application"))
        .when(is_full.fill_null(value=False))
        .then(pl.lit("receiver"))
        .when(is_raised)
        .then(pl.lit("queue"))
        .when(has_room & ~is_paced)
        .then(pl.lit("application"))
        .when(pl.col("has_lost") & pl.col("is_policed").fill_null(value=False))
        .then(pl.lit("policer"))
        .when(has_room & ~pl.col("is_growing"))
        .then(pl.lit("pacing"))
        .when(pl.col("has_lost"))
        .then(pl.lit("loss"))
        .when(pl.col("is_growing") & is_paced | (cwnd < pl.col("ssthresh_packets").fill_null(_UNBOUNDED)))
        .then(pl.lit("slow_start"))
        .otherwise(pl.lit("window"))
    )
    return begins.select(*keys, "t_s", "length_s", cause=judged)


def _with_growth(series: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Add the length of intervals, whether the flow `has_lost` until their end, and whether it still `is_growing`.

    It grows until the most data in flight are less than half more than two round trips before, or something is lost;
    intervals that are much longer do not show it.
    """
    most, place = pl.col("inflight_packets").cum_max(), pl.int_range(pl.len())
    # QUIC sends nothing again as it was: its window shows a loss.
    has_shrunk = (pl.col("cwnd_packets") < pl.col("cwnd_packets").cum_max()) & (pl.col("lost_packets") > 0)
    is_lossy = pl.coalesce(pl.col("retransmitted_packets") > 0, has_shrunk).fill_null(value=False)
    intervals = series.with_columns(
        length_s=pl.col("t_s").diff().fill_null(pl.col("t_s")).over(keys),
        has_lost=is_lossy.cast(pl.Int8).cum_max().cast(pl.Boolean).over(keys),
        most=most.forward_fill().over(keys),
        place=place.over(keys).cast(pl.Int64),
    )
    back = (2e-3 * pl.col("rtt_min_ms") / pl.col("length_s").median().over(keys)).round().clip(1)
    before = intervals.select(*keys, "place", most_before="most")
    is_short = pl.col("length_s") <= 4e-3 * pl.col("rtt_min_ms")
    grows = (pl.col("most") >= _GROWTH * pl.col("most_before")).fill_null(is_short) & ~pl.col("has_lost")
    return (
        intervals.with_columns(before=pl.col("place") - back.cast(pl.Int64))
        .join(before, left_on=[*keys, "before"], right_on=[*keys, "place"], how="left", maintain_order="left")
        .with_columns(is_growing=grows.cast(pl.Int8).cum_min().over(keys).cast(pl.Boolean))
    )


def with_sender(found: Mapping[str, float], row: Mapping[str, Any]) -> dict[str, float]:
    """Return shares with those that the sender itself counted: the receiver's window, the application, its own buffer.

    Args:
        found: shares of a series, which guesses them.
        row: the flow's row of `flows`.

    Examples:
        >>> row = {"duration_s": 10.0, "rwnd_limited_s": 4.0, "app_limited_s": 0.0}
        >>> with_sender({"queue": 0.5, "application": 0.5}, row)
        {'receiver': 0.4, 'queue': 0.6}
        >>> with_sender({"queue": 1.0}, {"duration_s": 10.0, "sndbuf_limited_s": 7.5})
        {'queue': 0.25, 'window': 0.75}

        Nothing is known where the sender did not count what an interval ended with.

        >>> with_sender({"application": 1.0}, {"duration_s": 0.2, "rwnd_limited_s": 0.0, "app_limited_s": 0.01})
        {}
    """
    names = {"application": "app_limited_s", "receiver": "rwnd_limited_s"}
    counted = {
        cause: float(row[name]) / row["duration_s"] if row["duration_s"] else 0.0
        for cause, name in names.items()
        if row.get(name) is not None
    }
    buffer = (row.get("sndbuf_limited_s") or 0.0) / (row["duration_s"] or 1.0)
    if buffer > found.get("window", 0.0):
        counted["window"] = buffer
    rest = {cause: share for cause, share in found.items() if cause not in counted}
    untold = max(1 - sum(counted.values()), 0.0)
    if not rest and untold >= LEAST_SHARE:
        return {}
    scale = untold / (sum(rest.values()) or 1.0)
    merged = counted | {cause: scale * share for cause, share in rest.items()}
    return {cause: merged[cause] for cause in CAUSES if merged.get(cause)}


def is_split(seen: Mapping[str, Any]) -> bool:
    """Return whether a proxy answered the handshake: the far end itself is a geostationary satellite away.

    Examples:
        >>> is_split({"handshake_from_ms": 0.0, "handshake_to_ms": 2.0, "answer_ms": 640.0})
        True
        >>> is_split({"handshake_from_ms": 0.0, "handshake_to_ms": 600.0, "answer_ms": 640.0})
        False
    """
    parts = [seen.get("handshake_from_ms"), seen.get("handshake_to_ms"), seen.get("answer_ms")]
    if any(part is None for part in parts):
        return False
    there, back, answer = (float(part) for part in parts if part is not None)
    return answer >= GEOSTATIONARY_MS and 10 * (there + back) <= answer


def shares(causes: pl.DataFrame) -> dict[str, float]:
    """Return the share of the time for which each cause limited a flow; empty without time.

    Examples:
        >>> shares(pl.DataFrame({"length_s": [1.0, 3.0], "cause": ["queue", "pacing"]}))
        {'pacing': 0.75, 'queue': 0.25}
    """
    return shares_of_time(dict(causes.group_by("cause").agg(pl.sum("length_s")).iter_rows()))


def shares_of_time(sums: Mapping[str, float]) -> dict[str, float]:
    """Return shares of the seconds by cause; empty without time."""
    whole = sum(sums.values())
    return {name: sums[name] / whole for name in CAUSES if sums.get(name)} if whole > 0 else {}


def sentence(found: Mapping[str, float]) -> str:
    """Return what limited a flow for most of its time, and what else for a tenth of it or more.

    Examples:
        >>> sentence({"pacing": 0.25, "receiver": 0.75})
        "What held it was the receiver's window, which was full (75 % of the time), then the sender's own pace, below what the path would have queued (25 % of the time)."
    """  # noqa: E501 - a line of output
    ordered = sorted(found.items(), key=lambda pair: -pair[1])
    said = [f"{CAUSES[name][1]} ({100 * share:.0f} % of the time)" for name, share in ordered if share >= LEAST_SHARE]
    return f"What held it was {', then '.join(said)}." if said else ""


def kind_of_losses(losses: pl.DataFrame) -> str:
    """Say of which kind losses are; empty where they are too few to say.

    Args:
        losses: `t_s` and `packets` of each loss.

    Returns:
        `slot` (every 15 s, as Starlink assigns satellites), `periodic`, `burst` or `random`.

    Examples:
        >>> kind_of_losses(pl.DataFrame({"t_s": [15.0 * n + 0.1 * (n % 3) for n in range(12)], "packets": [3] * 12}))
        'slot'
        >>> kind_of_losses(pl.DataFrame({"t_s": [3.0, 9.0], "packets": [1, 1]}))
        ''
    """
    if losses.height < _LEAST_LOSSES:
        return ""
    at, packets = losses["t_s"].sort().to_numpy(), losses["packets"].to_numpy()
    together = np.split(at, np.flatnonzero(np.diff(at) > _APART_S) + 1)
    clusters = np.array([each[0] for each in together])
    if (period_s := _period(clusters)) is not None:
        return "slot" if abs(period_s - _SLOT_S) < _SLOT_S / 50 else "periodic"
    return "burst" if packets[packets >= _ROW].sum() > packets.sum() / 2 else "random"


def raised_ms(shortest_ms: float) -> float:
    """Return the round trip, ms, from which a queue stands."""
    return shortest_ms + max(RAISED_SHARE * shortest_ms, RAISED_MS)


def _of_trains(rounds: pl.DataFrame) -> pl.Series:
    """Return the shortest round trip in each round; one with data and the silence behind it are taken together.

    Where trains wait behind themselves, a round trip is longer than a round, and its first packets may not have waited.
    """
    trains = rounds.select("rtt_min_ms", train=(pl.col("sent_bytes") > 0).cum_sum())
    return trains.select(pl.col("rtt_min_ms").forward_fill().min().over("train")).to_series()


def _is_raised(trips: pl.Series, shortest_ms: float | None) -> npt.NDArray[np.bool_]:
    if shortest_ms is None:
        return np.zeros(len(trips), bool)
    return np.asarray(np.nan_to_num(trips.to_numpy()) >= raised_ms(shortest_ms))


def _of_sender(rounds: pl.DataFrame) -> npt.NDArray[np.str_]:
    """Return what at the ends held each round for most of its waiting; empty: the sender waited for the network."""
    waits = {
        "application": rounds["application_s"],
        "receiver": rounds["receiver_s"],
        "pacing": rounds["pacing_s"].fill_null(0.0),
        "": rounds["window_s"] + rounds["timeout_s"],
    }
    longest = np.argmax(np.stack([wait.to_numpy() for wait in waits.values()]), axis=0)
    return np.asarray([list(waits)[place] for place in longest], dtype=np.str_)


def _fills(rounds: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Return where data in flight may fill the window: they are no less than before, which it held without a loss.

    Acknowledgements that come at the pace of the sender end its pauses by chance.
    """
    # Nothing is known of a round in which nothing was sent: what was in flight before goes on.
    known = pl.when(pl.col("sent_bytes") > 0).then(pl.col("inflight_max_bytes").fill_null(0))
    most = rounds.select(known.forward_fill().fill_null(0)).to_series()
    return np.asarray((most >= _FULL * most.cum_max()).to_numpy())


def _of_constant(rounds: pl.DataFrame, round_trip_s: float, window_bytes: float) -> str:
    """Return what holds rounds of a capture away from the sender, most of which have as much data in flight.

    A full window is the receiver's. Trains, as acknowledgements let them go, are the sender's own window or buffer: an
    application that writes at a constant rate has packets one by one. Where trains wait behind themselves, a round
    trip is longer than a round: several are taken together.
    """
    lengths_s = rounds["length_s"]
    if rounds.height < 2 * _TOGETHER:
        return "sender"
    rates = (rounds["sent_bytes"].rolling_sum(_TOGETHER) / lengths_s.rolling_sum(_TOGETHER)).drop_nulls().to_numpy()
    # Not the largest: a start has peaks, and so have trains that a border of rounds parts.
    usual = float(np.median(rates))
    if np.mean(np.abs(rates - usual) <= _ALIKE * usual) <= _MOST:
        return "sender"
    if usual * round_trip_s >= _FULL * window_bytes:
        return "receiver"
    return "window" if np.sum(rounds["window_s"].to_numpy()) >= LEAST_SHARE * np.sum(lengths_s.to_numpy()) else "sender"


def _end_of_start(rounds: pl.DataFrame, round_trip_s: float) -> float:
    """Return until when a flow doubles what it has in flight: it grew by less than half within two round trips."""
    known = rounds["inflight_max_bytes"] if rounds["inflight_max_bytes"].count() else rounds["sent_bytes"]
    most = np.maximum.accumulate(known.fill_null(0).to_numpy().astype(float))
    ends = rounds["t_s"].to_numpy()
    length_s = float(np.max(rounds["length_s"].to_numpy(), initial=0.0))
    back = max(round(2 * round_trip_s / length_s), 2) if length_s > 0 else 2
    last = int(np.flatnonzero(rounds["sent_bytes"].to_numpy()).max(initial=0))
    has_stopped = (most[back:] < _GROWTH * most[:-back]) & (most[:-back] > 0)
    stopped = np.flatnonzero(has_stopped[: max(last - back, 0)])
    return float(ends[stopped[0]]) if len(stopped) else np.inf


def _is_policed(row: Mapping[str, Any], rounds: pl.DataFrame, losses: pl.DataFrame, segment: int) -> bool:
    """Return whether losses come when a bucket of tokens is empty, or what exceeds a constant rate is lost."""
    if losses.height < _LEAST_LOSSES or segment <= 0:
        return False
    ends, lengths = rounds["t_s"].to_numpy(), rounds["length_s"].to_numpy()
    place = np.searchsorted(ends, losses["t_s"].to_numpy()).clip(0, len(ends) - 1)
    sent = rounds["sent_bytes"].to_numpy().astype(float)
    lost = np.bincount(place, weights=losses["packets"].to_numpy() * float(segment), minlength=len(ends))
    lasting = slice(place[0], place[-1] + 1)
    rate = float((sent - lost)[lasting].sum() / lengths[lasting].sum())
    if rate <= 0:
        return False
    lossy = np.unique(place)
    firsts = lossy[np.concatenate([[True], np.diff(lossy) > _ONE_RECOVERY])]
    if len(firsts) < _LEAST_CLUSTERS:
        return False
    above = sent > _ABOVE * rate * lengths
    excess = float((sent - _ABOVE * rate * lengths)[lasting].clip(0).sum())
    in_excess, in_rest = (float(lost[part].sum() / max(sent[part].sum(), 1.0)) for part in (above, ~above))
    if lost.sum() >= _EXCESS_LOST * excess and in_excess >= _CLEARLY * in_rest:
        return True
    if len(firsts) < len(lossy) / _ONE_RECOVERY:
        return False
    unit = rate * max(row["rtt_min_ms"] / 1e3, float(np.median(lengths)))
    fills = (_bucket((sent - lost) - share * rate * lengths)[firsts[1:]] / unit for share in _RATES)
    return any(np.ptp(np.percentile(fill, [20, 80])) < 1 and np.median(fill) > _FILLED for fill in fills)


def _bucket(changes: Array) -> Array:
    """Return how much is missing in a bucket of tokens over time; it is full at the beginning."""
    sums = np.cumsum(changes)
    return sums - np.minimum(np.minimum.accumulate(sums), 0.0)


def _period(clusters: Array) -> float | None:
    """Return the period of instants: the one at which their phases agree most, if they do by more than chance."""
    if len(clusters) < _LEAST_CLUSTERS:
        return None
    apart_s = float(np.median(np.diff(clusters)))
    span_s = float(clusters[-1] - clusters[0])
    periods = 1 / np.arange(1 / (2.5 * apart_s), 1 / (0.4 * apart_s), 0.1 / span_s)
    agree = np.abs(np.exp(2j * np.pi * clusters[None, :] / periods[:, None]).mean(axis=1))
    best = int(np.argmax(agree))
    return float(periods[best]) if agree[best] >= _AGREE else None


_LEAST_LOSSES, _LEAST_CLUSTERS = 8, 6
"""Losses, and instants of losses, of which a kind can be said."""
_APART_S = 0.5
"""Losses nearer to each other than this are of one instant."""
_SLOT_S = 15.0
_ROW = 4
"""Packets lost in a row from which a loss is a burst."""
_AGREE = 0.85
"""Length of the mean of unit vectors with the phases of losses, from which they are periodic."""
_GROWTH = 1.5
"""Growth of the data in flight within two round trips below which slow start has ended."""
_FULL = 0.9
"""Share of a window, or of the most data in flight, from which data in flight fill it."""
_TOGETHER, _ALIKE, _MOST = 4, 0.15, 0.5
"""Rounds over which data in flight are summed away from the sender, the share by which such sums differ at most from
their median where they are alike, and the share of them above which they are most."""
_UNBOUNDED = 2**31 - 1
_ABOVE = 1.02
_RATES = np.arange(1.0, 1.1, 0.01)
"""Rates of a policer that are tried, as shares of what passed between the first loss and the last."""
_EXCESS_LOST, _CLEARLY = 0.5, 4.0
"""A policer loses this share of what exceeds its rate, and this many times what it loses of the rest."""
_ONE_RECOVERY = 3
"""Losses in rounds that are nearer to each other are of one reduction of the window."""
_FILLED = 0.2
"""Tokens missing at losses, in round trips of the rate, above which there is a bucket at all."""
