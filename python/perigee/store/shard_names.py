# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The names of shards, which say what runs they have, for readers of results that open none of them.

They are `run-000007.shard`, `run-000000-000099.shard`, and, of every eighth run, `run-000001-000793-by-8.shard`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

SHARD = re.compile(r"run-(\d{6,})(?:-(\d{6,})(?:-by-([1-9]\d{0,8}))?)?\.shard")

MOST_RUNS = 1 << 16
"""More runs than a shard has: a name that says so is no shard's."""


def shard_name(runs: range) -> str:
    """Return the name of the shard of some runs, in rising order.

    Examples:
        >>> shard_name(range(7, 8)), shard_name(range(0, 100)), shard_name(range(1, 800, 8))
        ('run-000007.shard', 'run-000000-000099.shard', 'run-000001-000793-by-8.shard')
    """
    last = f"-{runs[-1]:06d}" if len(runs) > 1 else ""
    step = f"-by-{runs.step}" if len(runs) > 1 and runs.step > 1 else ""
    return f"run-{runs[0]:06d}{last}{step}.shard"


def runs_of(name: str) -> range:
    """Return the runs of the shard of a name; none where it is no shard's.

    Examples:
        >>> runs_of("run-000001-000793-by-8.shard")
        range(1, 794, 8)
        >>> runs_of("notes.txt"), runs_of("run-000000-999999999999.shard")
        (range(0, 0), range(0, 0))
    """
    found = SHARD.fullmatch(name)
    if found is None:
        return range(0)
    first = int(found[1])
    runs = range(first, int(found[2] or first) + 1, int(found[3] or 1))
    return runs if runs.stop - runs.start <= MOST_RUNS * runs.step else range(0)


def shards_in(folder: Path) -> dict[int, Path]:
    """Return the shard of each run that is in a folder, which is read once; none where there is no such folder."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    return {run: path for path in map(folder.joinpath, names) for run in runs_of(path.name)}
