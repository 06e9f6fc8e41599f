# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Instructions per delivered segment, its acknowledgement included, of ours and of the peers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from programs import (
    HERE,
    MB,
    OURS,
    PAYLOAD,
    PEERS,
    WINDOW_LOSSES,
    WINDOWS,
    Download,
    counted,
    counter,
    ours,
    run,
    three_digits,
    window,
)
from record import Record
from shown import table

Command = Callable[[int], list[str]]
"""The command of a program for a size in bytes."""


@dataclasses.dataclass(frozen=True)
class Path:
    """A path whose instructions are counted for two sizes, without start-up, or for a whole download."""

    less: int
    """Bytes of the smaller download; the larger one has twice as many."""
    ours: Command
    peer: str = ""
    theirs: Command | None = None
    peer_less: int = 0
    """The smaller size of the peer, where ours would take it hours."""
    is_whole: bool = False
    """The smaller download is counted alone, as a whole."""


def told(program: Callable[[Download], list[str]], download: Download) -> Command:
    """Return the command line of a program for a download of any size."""
    return lambda size: program(dataclasses.replace(download, size=size))


def over(download: Download, less: int, peer: str = "", peer_less: int = 0) -> Path:
    """A download over the path of the benchmarks."""
    theirs = told(PEERS[peer], download) if peer else None
    return Path(less, told(ours, download), peer, theirs, peer_less or less)


def whole(download: Download) -> Path:
    """A download over the path of the benchmarks, of the size of their other cases."""
    return Path(download.size, told(ours, download), is_whole=True)


def many(size: int) -> list[str]:
    """Ten thousand concurrent downloads, `size` bytes in total."""
    return [str(OURS), str(HERE / "many.toml"), f"flows.download.size={size // 10_000} B"]


GB = 1000 * MB
CLEAN = Download(0, buffer=40 * MB)
ON_DEPARTURE = 'links.satellite.down.queue.aqm={kind="codel", target="1 h", interval="1 h"}'
"""A queue that decides on each departure, and drops nothing."""

PATHS = {
    "1 GB, clean": whole(Download(GB, buffer=40 * MB)),
    "1 GB, overflow": whole(Download(GB, settings=("flow.cc.slow_start=classic",))),
    "1 GB, 0.1 % lost": whole(Download(GB, loss=0.001)),
    "1 GB, bbr": whole(Download(GB, cc="bbr")),
    "1 GB, queue that decides on departure": whole(Download(GB, buffer=40 * MB, settings=(ON_DEPARTURE,))),
    "clean": over(CLEAN, 100 * MB, "ns-2"),
    "overflow": over(Download(0, settings=("flow.cc.slow_start=classic",)), 100 * MB, "ns-2"),
    "0.1 % lost": over(Download(0, loss=0.001), 50 * MB, "ns-2"),
    "bbr": over(Download(0, cc="bbr"), 50 * MB, "ns-3", 5 * MB),
    "queue that decides on departure": over(dataclasses.replace(CLEAN, settings=(ON_DEPARTURE,)), 50 * MB),
    "10,000 flows, 20 packets each": Path(1000 * MB, many),
    **{
        f"window of {packets:,}, {loss:.0%} lost": over(window(packets, loss), max(20 * MB, 10 * packets * PAYLOAD))
        for loss in WINDOW_LOSSES
        for packets in WINDOWS
    },
}


def by_segment(command: Command, less: int, is_whole: bool = False) -> float:
    """Instructions by delivered segment: between one size and twice that, or of one whole download."""
    sizes = (less,) if is_whole else (less, 2 * less)
    executed = [counted(command(size)) for size in sizes]
    segments = [run(command(size)).segments for size in sizes]
    if is_whole:
        return executed[0] / segments[0]
    return (executed[1] - executed[0]) / (segments[1] - segments[0])


def instructions(record: Record, with_peers: bool) -> None:
    """Counts all paths and prints the table."""
    print(f"Instructions per delivered segment, counted by {counter()}:\n", flush=True)
    rows = []
    for name, path in PATHS.items():
        own = by_segment(path.ours, path.less, path.is_whole)
        sizes = f"{path.less // MB} MB" if path.is_whole else f"{path.less // MB} MB to {2 * path.less // MB} MB"
        row = [name, sizes, f"{own:,.0f}", *record.note(name, own), "", "", ""]
        if with_peers and path.theirs:
            theirs = by_segment(path.theirs, path.peer_less)
            sizes = f"{path.peer_less // MB} MB to {2 * path.peer_less // MB} MB"
            row[5:] = [f"{path.peer}, {sizes}", f"{theirs:,.0f}", three_digits(theirs / own)]
        rows.append(row)
    table(("path", "download", "Perigee", "before", "change", "peer", "its own", "times ours"), rows)
    print()
