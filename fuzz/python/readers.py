# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Fuzz targets of Python's readers: each reads its input, or refuses it in one line that says a fix.

`tests/adversary/test_readers.py` replays the corpus and random changes of it through the same functions.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path

from perigee.analysis import iperf3, log
from perigee.analysis.recordings import analyze
from perigee.errors import InputError
from perigee.fitting.series import read_pings
from perigee.measuring.probe import read_log
from perigee.store.manifest import read_manifest
from perigee.store.shards import read_shard

Reader = Callable[[Path], object]


def analysis(path: Path) -> None:
    """Whatever `perigee analyze` takes."""
    found = analyze([path])
    assert found is not None
    for row in found.table("flows").iter_rows(named=True):
        numbers = [value for value in row.values() if isinstance(value, float)]
        assert all(math.isfinite(value) for value in numbers), row
        assert row["duration_s"] >= 0, row


def iperf3_test(path: Path) -> None:
    """Read a file of iperf3, without the guess what the file is."""
    for test in iperf3.read(path.read_bytes(), path.name):
        log.tables(test, "fuzz", path.name)


def manifest(path: Path) -> None:
    """A results folder's manifest."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "manifest.json").write_bytes(path.read_bytes())
        read_manifest(Path(folder))


TARGETS: dict[str, Reader] = {
    "analysis": analysis,
    "iperf3": iperf3_test,
    "pings": read_pings,
    "probe-log": read_log,
    "shard": read_shard,
    "manifest": manifest,
}


def feed(target: str, data: bytes, folder: Path) -> None:
    """Give a target its input; a refusal is one line with a fix.

    Raises:
        AssertionError: what was read cannot be, or the refusal says too little.
    """
    path = folder / "input"
    path.write_bytes(data)
    try:
        TARGETS[target](path)
    except InputError as error:
        assert str(error).count("\n") == 0, error
