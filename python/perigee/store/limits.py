# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Flows that a buffer or a window held back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import polars as pl

from perigee.numbers import plural
from perigee.store.results import Results

LEAST_SHARE = 0.1
"""Share of a flow's duration above which the sentence names a limit."""
MOST_NAMED = 4
"""Maximum number of flows or algorithms with their names; of more, the sentence has their number."""
LIMITS = (
    ("sndbuf_limited_s", "the send buffer", "hosts.wmem"),
    ("rwnd_limited_s", "the receiver's window", "hosts.rmem"),
)
"""Columns of `flows`, what they are the time of, and the setting that lifts it."""
WINDOWS_OF_QUIC = {
    "by streams": "flows.quic.initial_max_stream_data",
    "by the connection": "flows.quic.initial_max_data",
}
"""Settings that lift the receiver's window of a flow over QUIC, by what its setup has under `flow control`."""
AT_PROXY = "the proxy's buffer or socket"
"""Who holds back a leg that begins at a proxy."""


def held_back(results: Results, label: Callable[[str], str] = str) -> str:
    """Return a sentence on flows that were held back for more than a tenth of their time; empty if none was.

    Args:
        results: the results.
        label: gives what people call a flow or an algorithm.
    """
    if results.is_analysis:
        return ""
    clauses = [clause for limit in LIMITS for clause in _clauses(results, limit, label)]
    return f"Not the network alone limits these flows: {', and '.join(clauses)}." if clauses else ""


def _clauses(results: Results, limit: tuple[str, str, str], label: Callable[[str], str]) -> Iterator[str]:
    """Yield a clause for what one limit holds back, and one for legs that begin at proxies."""
    column, subject, setting = limit
    whole, legs = results.table("flows"), results.legs("flows")
    if column not in whole.columns:
        return
    first = pl.col("leg") == pl.col("leg").min().over("run", "flow")
    last = pl.col("leg") == pl.col("leg").max().over("run", "flow")
    # A proxy that may hold no more closes its window: that the next leg is slower is no matter of a setting.
    own, of_proxy = legs.filter(first if column == "sndbuf_limited_s" else last), legs.filter(~first)
    rows = pl.concat([whole, own.drop("leg")]) if not legs.is_empty() else whole
    if column == "rwnd_limited_s" and "transport" in rows.columns:
        over_quic = pl.col("transport").fill_null("") == "quic"
        for windows, flows in _by_window(results, rows.filter(over_quic)):
            yield from _clause(flows, column, (subject, windows), label)
        rows = rows.filter(~over_quic)
    yield from _clause(rows, column, (subject, setting), label)
    if column == "sndbuf_limited_s" and not of_proxy.is_empty():
        yield from _clause(of_proxy, column, (AT_PROXY, f"proxies.buffer or {setting}"), label)


def _by_window(results: Results, rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the flows over QUIC that the same settings hold back, and these settings."""
    said = {flow["name"]: dict(flow["properties"]).get("flow control", "") for flow in results.setup().get("flows", ())}
    flows: dict[str, list[str]] = {}
    for flow in rows["flow"].unique(maintain_order=True):
        control = said.get(re.sub(r"\.\d+$", "", flow), "")
        named = [setting for words, setting in WINDOWS_OF_QUIC.items() if words in control]
        flows.setdefault(" or ".join(named) or WINDOWS_OF_QUIC["by streams"], []).append(flow)
    for settings, names in flows.items():
        yield settings, rows.filter(pl.col("flow").is_in(names))


def _clause(rows: pl.DataFrame, column: str, words: tuple[str, str], label: Callable[[str], str]) -> Iterator[str]:
    known = rows.filter(pl.col(column).is_not_null() & (pl.col("duration_s") > 0))
    share = pl.sum(column) / pl.sum("duration_s")
    settings = known.group_by("point", "flow", "cc", maintain_order=True).agg(share.alias("share"))
    held = settings.filter(pl.col("share") > LEAST_SHARE)
    if held.is_empty():
        return
    subject, setting = words
    shares = held["share"].sort().to_list()
    ends = dict.fromkeys(f"{100 * end:.0f}" for end in (shares[0], shares[-1]))
    # Several flows of one run are of one setting.
    points, of_all = (rows["point"].n_unique() for rows in (held, settings))
    where = "" if points == of_all else f", in {points} of {of_all} settings"
    who = _names(held, settings, label)
    yield f"{subject} held back {who} for {' to '.join(ends)} % of the time{where}; larger sizes of {setting} lift this"


def _names(held: pl.DataFrame, settings: pl.DataFrame, label: Callable[[str], str]) -> str:
    """Return the flows that were held back, or their algorithms if all is one flow with several.

    A flow without a label of its own is said to be one.
    """
    flow = pl.col("flow").str.replace(r"\.\d+$", "")
    is_one = settings.select(flow.n_unique()).item() == 1 and settings["cc"].n_unique() > 1
    own = held.select(pl.col("cc") if is_one else flow).to_series().unique(maintain_order=True).to_list()
    names = [label(name) for name in own]
    if len(names) > MOST_NAMED:
        return f"{len(names)} {'algorithms' if is_one else 'flows'}"
    word = "" if is_one or names != own else f"the {plural(len(names), 'flow')} "
    return word + (f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0])
