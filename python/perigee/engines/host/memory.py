# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Check before the first run that the results of runs fit into memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.errors import InputError
from perigee.files import MIB, shown_bytes

if TYPE_CHECKING:
    from perigee._core import ResultPart

Room = Sequence["ResultPart"]
"""Estimated memory of a run's results by table, largest first."""

OWN_BYTES = 32 * MIB
"""Memory of a run besides its results, bytes: packets in flight, and the state of flows."""

FIXES = {
    "series": "raise measure.series, or lower time_limit",
    "links": "raise measure.series, or lower time_limit",
    "goodput_bins": "raise measure.goodput_bin, or lower time_limit",
    "exchanges": "lower `repeat` of its flows",
    "milestones": "raise measure.milestones.every",
    "states": 'write changes only (measure.states = "changes"), or let its flows carry less',
    "events": "leave out measure.events, or let its flows carry less",
    "captures": "name fewer nodes in measure.pcap, or let its flows carry less",
}


def workers_that_fit(rooms: Sequence[Room], wanted: int, available: int | None, say: Callable[[str], None]) -> int:
    """Return the number of concurrent runs: the wanted number, or fewer if memory does not suffice.

    Args:
        rooms: memory of the results of each point; empty: unknown.
        wanted: the wanted number.
        available: free memory, bytes; None: unknown.
        say: prints a note if the number is lower.

    Raises:
        InputError: not even one run fits.

    Examples:
        >>> from types import SimpleNamespace as Part
        >>> rooms = [[Part(name="series", rows=10**7, memory=3 << 30, file=1 << 30)]]
        >>> workers_that_fit(rooms, 4, 16 << 30, print)
        4
        >>> workers_that_fit(rooms, 4, 8 << 30, print)
        2 runs at a time instead of 4: the results of one take up to 3 GiB of memory, and 8 GiB are free
        2
        >>> workers_that_fit(rooms, 4, 1 << 30, print)
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: run 0: its results take up to 3 GiB of memory (table series: 10,000,000 rows), and \
1 GiB are free; raise measure.series, or lower time_limit
    """
    sizes = [sum(part.memory for part in room) for room in rooms]
    if available is None or not sizes:
        return wanted
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    takes = sizes[largest] + OWN_BYTES
    fitting = available // takes
    if fitting >= wanted or sizes[largest] < OWN_BYTES:
        # Small runs need little beyond the process's own memory.
        return wanted
    if fitting:
        say(
            f"{fitting} run{'s' * (fitting > 1)} at a time instead of {wanted}: the results of one take up to "
            f"{shown_bytes(sizes[largest])} of memory, and {shown_bytes(available)} are free"
        )
        return fitting
    part = rooms[largest][0]
    what = f"table {part.name}: {part.rows:,} rows" if part.name != "captures" else "captures"
    raise InputError(
        f"run {largest}: its results take up to {shown_bytes(sizes[largest])} of memory ({what}), and "
        f"{shown_bytes(available)} are free; {FIXES.get(part.name, 'split its flows into several studies')}"
    )


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory available to this process, bytes: free memory of the machine within the limits of its cgroups.

    Args:
        root: folder of `proc` and `sys`.
    """
    found = re.search(r"^MemAvailable: +([0-9]+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    free = [int(found[1]) * 1024] if found else []
    return min([*free, *_left_by_cgroups(root)], default=None)


def _left_by_cgroups(root: Path) -> Iterator[int]:
    """Yield the memory left by each enclosing cgroup (v1 and v2)."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            files = ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            files = ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        top, limit_file, used_file, cache = root / files[0], *files[1:]
        group = top / path.lstrip("/")
        # Inside a container the own group is the root.
        for folder in [group, *group.parents]:
            if not folder.is_relative_to(top):
                break
            limit, used = _text(folder / limit_file).strip(), _text(folder / used_file).strip()
            if limit.isdigit() and used.isdigit():
                found = re.search(rf"^{cache} ([0-9]+)$", _text(folder / "memory.stat"), re.MULTILINE)
                # Inactive file pages are reclaimed under pressure.
                yield max(int(limit) - int(used) + (int(found[1]) if found else 0), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
