# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The link that advice is for, and what is known of the hosts at its ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from perigee.analysis.limited import limited
from perigee.analysis.recordings import LOGS, Options, analyze, kind_of
from perigee.api.profiles import Profile
from perigee.cc.catalog import algorithms
from perigee.errors import InputError
from perigee.fitting.captured import Ceiling
from perigee.fitting.fit import Measured, fit
from perigee.fitting.intervals import intervals
from perigee.fitting.loss import interval_of
from perigee.fitting.profile import Fitted, Value, said_of, share
from perigee.fitting.profile import rate as rate_of
from perigee.fitting.sources import measured_by
from perigee.numbers import number
from perigee.places import find_profile
from perigee.statistics import limits
from perigee.statistics.estimates import percent


@dataclass(frozen=True)
class Hosts:
    """Settings of the hosts today.

    Attributes:
        cc: the sender's congestion control.
        receive_bytes: the receiver's largest buffer.
        send_bytes: the sender's largest buffer.
    """

    cc: str = "cubic"
    receive_bytes: int = 33_554_432
    send_bytes: int = 4_194_304


@dataclass(frozen=True)
class Link:
    """A link as a study takes it.

    Attributes:
        name: what to call it.
        profile: the value of `profile` in a study; of a fitted link its file beside the study.
        fitted: the text of that file; empty of a profile by name.
        rate_mbps: mean rate towards the user.
        rtt_ms: mean round trip without load.
        limited: what limited the largest captured download; empty where nobody measured one.
        is_split: whether a proxy answered the handshake of a measured flow.
        carried_mbps: goodput of the largest download in captures, or of the fastest in logs; None without one.
        known: intervals of what was measured, a sentence each.
        assumed: what is not known, and what is taken for it.
        is_guess: whether the rate towards the user is not measured.
    """

    name: str
    profile: str
    fitted: str
    rate_mbps: float
    rtt_ms: float
    limited: str = ""
    is_split: bool = False
    carried_mbps: float | None = None
    known: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    is_guess: bool = False

    @property
    def product_bytes(self) -> float:
        """Bandwidth-delay product."""
        return self.rate_mbps * 1e6 / 8 * self.rtt_ms / 1e3


def of_profile(name: str) -> Link:
    """Return the link of a profile.

    Raises:
        InputError: there is none, or it is wrong.
    """
    file = find_profile(name)
    profile = Profile(file)
    value = str(file.path.resolve()) if "/" in name or name.endswith(".toml") else name
    held = f"the link is the profile {profile.name}, whose limits `perigee profiles {name}` shows"
    return _sampled(Link(profile.name, value, "", 0.0, 0.0, assumed=(held,)), profile)


def of_files(
    files: Sequence[Path], folder: Path, hosts: Hosts, down_bps: int | None = None, up_bps: int | None = None
) -> tuple[Link, Hosts]:
    """Fit a link to logs and captures, and see what they say of the hosts.

    Args:
        files: any that `perigee analyze` reads.
        folder: where the profile is written, `link.toml`.
        hosts: the settings of the hosts, as far as they are known from elsewhere.
        down_bps: rate towards the user, where it is known.
        up_bps: likewise.

    Raises:
        InputError: a file cannot be read, or they say too little.
    """
    link = Link(" ".join(file.name for file in files), "./link.toml", "", 0.0, 0.0)
    measured = replace(measured_by(files), down_bps=down_bps, up_bps=up_bps)
    link, hosts, seen = _with_flows(link, hosts, files)
    carried = _fastest(measured)
    if carried is not None and carried.cc in {one.name for one in algorithms()}:
        hosts = replace(hosts, cc=carried.cc)
    if link.carried_mbps is None and carried is not None and not carried.is_written:
        link = replace(link, carried_mbps=carried.goodput_mbps)
    fitted = _fitted(measured, seen)
    if carried is None and not fitted.down.rate.measured:
        raise InputError(
            f"{link.name}: nothing there tells the rate towards the user, and pings do not; add a download (a capture, "
            "or `iperf3 --reverse --json`) or a log of `perigee probe`, or give the rates with --down and --up"
        )
    path = folder / "link.toml"
    path.write_text(fitted.text, encoding="utf-8")
    link = replace(
        link,
        fitted=fitted.text,
        known=tuple(f"{percent(_LEVEL)} interval of {one.sentence}" for one in intervals(measured, _LEVEL)),
        assumed=(*link.assumed, *fitted.unknown, *said_of(fitted.assumed)),
        is_guess=not fitted.down.rate.measured or _is_bound(measured),
    )
    return _sampled(link, Profile(find_profile(str(path)))), hosts


@dataclass(frozen=True)
class _Seen:
    """The largest download in captures: what limited it, and the share of its packets that was sent again."""

    shares: Mapping[str, float] = field(default_factory=dict)
    again: float = 0.0

    @property
    def is_lossy(self) -> bool:
        """Whether losses that no queue explains limited it for most of the time."""
        return self.shares.get("loss", 0.0) >= _MOST_OF_TIME

    def filled(self, transfer: Ceiling) -> bool:
        """Return whether it was the path's rate that held a transfer; where nothing is known, it is taken for so."""
        if self.shares:
            return self.shares.get("queue", 0.0) + self.shares.get("policer", 0.0) >= _MOST_OF_TIME
        if transfer.grown_ms is None or transfer.least_ms is None:
            return True
        return transfer.least_ms + transfer.grown_ms >= limits.raised_ms(transfer.least_ms)


def _fitted(measured: Measured, seen: _Seen) -> Fitted:
    """Fit a link; a transfer that no queue of the path held says only that the rate is above its own.

    Where nothing else measured the rate, several times as much is taken, as a guess; where nothing measured losses, the
    packets that a download held by losses sent again are taken for those that the path lost.
    """
    fastest = _fastest(measured)
    if fastest is None or measured.steps:
        return fit("link", measured)
    flood = next((one for one in measured.captured if one.way == "down" and one.is_flood), None)
    is_filled = seen.filled(fastest) if flood is None else fastest.bps >= _NEARLY * flood.bps
    # How long round trips grew is the queue's size where it was full: also where it dropped what the air did not.
    is_queue = is_filled or _is_dropped(fastest, measured)
    captured = [one if is_queue or one.way == "up" else replace(one, grown_ms=None) for one in measured.captured]
    fitted = fit("link", replace(measured, captured=captured))
    down = fitted.down
    if not is_filled and measured.down_bps is None and flood is None:
        why = (
            f"{fastest.file}: {number(fastest.bps / 1e6, 2)} Mbit/s passed without a queue, so that the path carries "
            f"more; {_TIMES} times that is taken: give the rate with --down."
        )
        sent_bps = max((one.bps for one in measured.captured if one.way == "down"), default=0.0)
        is_more = _TIMES * fastest.bps > sent_bps
        guess = Value(rate_of(_TIMES * fastest.bps), (why,)) if is_more else down.rate
        down = replace(down, rate=replace(guess, measured=False))
    is_known = down.loss is not None and down.loss.measured
    if seen.is_lossy and seen.again and measured.pings is None and not is_known:
        why = f"{fastest.file}: the share that was sent again, taken for lost at random."
        down = replace(down, loss=Value(share(seen.again), (why,), measured=False))
    return replace(fitted, down=down)


def _is_bound(measured: Measured) -> bool:
    """Whether all that is known of the rate are datagrams that did not fill the path."""
    own = [one for one in measured.captured if one.way == "down"]
    is_known = measured.down_bps is not None or any(step.direction == "down" for step in measured.steps)
    return not is_known and bool(own) and all(one.is_udp and not one.is_flood for one in own)


def _fastest(measured: Measured) -> Ceiling | None:
    """Return the fastest download by TCP; none: there is none."""
    return next((one for one in measured.captured if one.way == "down" and not one.is_udp), None)


def _is_dropped(transfer: Ceiling, measured: Measured) -> bool:
    """Whether a transfer lost more than the air loses, which pings show: a queue of its path dropped packets."""
    if transfer.again is None or measured.pings is None or not measured.pings.has_losses:
        return False
    lost = measured.pings.lost
    return transfer.again > _MORE_THAN_AIR * interval_of(int(lost.sum()), len(lost))[1]


def _with_flows(link: Link, hosts: Hosts, files: Sequence[Path]) -> tuple[Link, Hosts, _Seen]:
    """Add what captures say: the limit of the largest download, a proxy, and the receiver's window that was full."""
    captures = [file for file in files if kind_of(file) not in (*LOGS, "probe")]
    analysis = analyze(captures, Options()) if captures else None
    if analysis is None:
        return link, hosts, _Seen()
    seen = analysis.table("connections")
    link = replace(link, is_split=any(limits.is_split(row) for row in seen.iter_rows(named=True)))
    is_up = (pl.col("from_node") == "client") | pl.col("flow").is_in(
        seen.filter(pl.col("opened_by") == "from")["flow"].implode()
    )
    flows = analysis.table("flows").filter(~is_up).sort("received_bytes", descending=True)
    if flows.is_empty():
        return link, hosts, _Seen()
    row = flows.row(0, named=True)
    (found,) = limited(analysis, flows.head(1))
    link = replace(link, limited=found.sentence, carried_mbps=row["goodput_mbps"])
    largest = _Seen(found.shares, (row["retransmitted_packets"] or 0) / max(row["sent_packets"] or 0, 1))
    window = seen.filter((pl.col("run") == row["run"]) & (pl.col("flow") == row["flow"]))[
        "receive_window_max_bytes"
    ].max()
    if found.shares.get("receiver", 0.0) < limits.LEAST_SHARE or not isinstance(window, int):
        return link, hosts, largest
    buffer = round(window * _MEMORY_OF_SEGMENT / _SEGMENT)
    said = (
        f"the receiver's window was full at {window} bytes: its largest buffer is taken for {buffer} bytes, "
        "as Linux divides it"
    )
    return replace(link, assumed=(*link.assumed, said)), replace(hosts, receive_bytes=buffer), largest


def _sampled(link: Link, profile: Profile) -> Link:
    """Return the link with its mean rate and round trip."""
    samples = profile.sample(seconds=_SAMPLED_S, every=0.1)
    means = samples.group_by("direction").agg(pl.col("rate_mbps", "delay_ms").mean())
    down = means.filter(pl.col("direction") == "down")
    rate = min(float(down["rate_mbps"].item()), _MOST_MBPS)
    return replace(link, rate_mbps=rate, rtt_ms=float(means["delay_ms"].sum()))


_LEVEL = 0.9
_SAMPLED_S = 60.0
_MOST_MBPS = 10_000.0
"""Rate of a link without a limit: that of the wires at its ends."""
_MEMORY_OF_SEGMENT, _SEGMENT = 2304, 1448
"""Memory of a full segment in the receive queue of Linux, and its payload with timestamps, bytes."""
_TIMES = 4
"""The rate of a path that nothing filled, in rates of the transfer over it."""
_MOST_OF_TIME = 0.5
_NEARLY = 0.85
"""Share of the path's rate from which a transfer's best seconds had all of it."""
_MORE_THAN_AIR = 1.5
"""Share of packets sent again, in upper ends of the interval of pings lost, from which a queue dropped them."""
