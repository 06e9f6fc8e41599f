# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee cc top`: connections and what their congestion control does, now."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Annotated, Any

import typer
from rich import box
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from perigee.cc import kernel
from perigee.console import out_console, result, say
from perigee.errors import InputError
from perigee.numbers import number

HEADINGS = ("cwnd", "pacing Mbit/s", "RTT ms", "delivery Mbit/s", "lost now", "repeated", "repeated %")


def top(
    everything: Annotated[bool, typer.Option("--all", help="Show the connections of all algorithms.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print the connections once, and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON per refresh.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", help="Refresh interval.", min=0.1)] = 1.0,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", help="Exit after this number of refreshes. \\[default: at Ctrl-C]", min=1),
    ] = None,
) -> None:
    """Show the connections with a loaded congestion control and what it does, each second, until Ctrl-C.

    Connections of all network namespaces, those with the highest delivery rate first: phase (slow start, avoidance,
    disorder, reduction, recovery, loss), window, pacing rate, round trip, the newest delivery rate, segments that are
    marked lost now, and segments sent again: their number since the connection began, and their share of those sent in
    the last interval; of all, the first time. If the output is not a terminal, each refresh prints a new table.

    [bold]Examples[/bold]

      perigee cc top
      perigee cc top --all --once
      perigee cc top --json --every 0.5 --count 120
    """
    if once and count is not None:
        raise InputError("give either --once or --count")
    looks = 1 if once else count
    before: dict[int, dict[str, Any]] = {}
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        is_live = out_console.is_terminal and not as_json and not once
        live = stack.enter_context(Live(console=out_console, auto_refresh=False)) if is_live else None
        while True:
            found = kernel.sockets(everything=everything)
            sockets = [_with_share(one, before.get(one["cookie"])) for one in found["sockets"]]
            sockets.sort(key=lambda one: (-one["delivery_bps"], one["local"], one["peer"]))
            if as_json:
                result(json.dumps({"time_s": round(time.time(), 3), "sockets": sockets}))
            elif live:
                live.update(_table(sockets, everything=everything), refresh=True)
            else:
                out_console.print(_table(sockets, everything=everything))
            before = {one["cookie"]: one for one in sockets}
            if looks is not None:
                looks -= 1
                if not looks:
                    break
            time.sleep(every)
    if found["unseen_processes"] and not as_json:
        say(f"note: the network namespaces of {found['unseen_processes']} processes could not be entered")


def _with_share(socket: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """A socket with the share of its segments that were sent again since it was looked at before, or began.

    Examples:
        >>> now, then = {"sent_packets": 200, "retransmissions": 6}, {"sent_packets": 100, "retransmissions": 5}
        >>> [_with_share(now, before)["repeated_share"] for before in (None, then, now)]
        [0.03, 0.01, None]
    """
    earlier = before or {"sent_packets": 0, "retransmissions": 0}
    sent = socket["sent_packets"] - earlier["sent_packets"]
    repeated = socket["retransmissions"] - earlier["retransmissions"]
    return {**socket, "repeated_share": repeated / sent if sent > 0 else None}


def _table(sockets: list[dict[str, Any]], *, everything: bool) -> Table:
    none = "no connection" if everything else "no connection has a loaded algorithm; --all shows those of others"
    table = Table(box=box.SIMPLE_HEAD, caption=None if sockets else none)
    for heading in ("Connection", "Process", "Algorithm", "Phase"):
        table.add_column(heading)
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for one in sockets:
        process = f"{one['process']} ({one['pid']})" if one["pid"] else "-"
        where = f" in {one['namespace']}" if one["namespace"] else ""
        share = one["repeated_share"]
        table.add_row(
            escape(f"{one['local']} -> {one['peer']}{where}"),
            escape(process),
            escape(one["cc"]),
            one["phase"] if one["state"] == "ESTABLISHED" else one["state"].lower().replace("_", " "),
            str(one["cwnd_packets"]),
            "-" if one["pacing_bps"] is None else number(one["pacing_bps"] / 1e6, 1),
            number(one["srtt_us"] / 1e3, 2),
            number(one["delivery_bps"] / 1e6, 1),
            str(one["lost_packets"]),
            str(one["retransmissions"]),
            "-" if share is None else number(100 * share, 2),
        )
    return table
