#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How long pages of `perigee serve` take with many results and entries: prints the times.

Run it with the Python that perigee is installed in. Beside it, one core can be kept busy with a simulation.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from perigee.laboratory import server
from perigee.laboratory.entries import COLUMNS, Entry
from perigee.laboratory.guard import Limits
from perigee.laboratory.site import Site
from perigee.store.manifest import FOLDER_FORMAT, FOLDER_VERSION, write_manifest

PAGES = ("queue", "results", "results?q=study-77", "results/study-77", "studies", "links")
ROUNDS = 50
TABLE = {"rows": 1, "bytes": 1, "sha256": "0" * 64}
MANIFEST: dict[str, Any] = {
    "format": FOLDER_FORMAT,
    "version": FOLDER_VERSION,
    "state": "complete",
    "study": "gallery",
    "engine": "sim",
    "study_hash": "0" * 64,
    "settings": ["rounds=3"],
    "reduced": False,
    "runs": 12,
    "rounds": 3,
    "first_seed": 1,
    "build": "bench",
    "versions": {"perigee": "0", "python": "0", "polars": "0"},
    "host": {"system": "Linux", "machine": "x86_64", "cores": 2},
    "study_files": {"study.toml": "0" * 64, "setup.json": "0" * 64},
    "started": "2026-01-01T00:00:00+00:00",
    "finished": "2026-01-01T00:00:00+00:00",
    "tables": dict.fromkeys(("flows", "series", "links", "rtt"), TABLE),
}


def fill(root: Path, count: int) -> tuple[Site, str]:
    """Create a laboratory with results folders and entries; return its site and a token."""
    laboratory, tokens = server.opened(root)
    first = laboratory.place.results / "study-0"
    first.mkdir()
    write_manifest(first / "manifest.json", MANIFEST)
    for number in range(1, count):
        folder = laboratory.place.results / f"study-{number}"
        folder.mkdir()
        shutil.copyfile(first / "manifest.json", folder / "manifest.json")
    laboratory.queue.add(Entry("gallery", "sim", due=4e9))
    columns = ", ".join(column for column in COLUMNS if column != "id")
    with contextlib.closing(sqlite3.connect(laboratory.place.queue)) as database:
        numbers = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        database.execute(f"{numbers} INSERT INTO entries ({columns}) SELECT {columns} FROM n, entries", (count,))  # noqa: S608
        database.commit()
    return Site(laboratory, frozenset(), limits=Limits(per_s=1e9, burst=1e9)), tokens["run"]


async def measure(site: Site, token: str) -> None:
    """Print what the first list of results takes, and each page: median, 99th percentile, processor time."""
    headers = {"authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(site.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
        spent, begun = time.process_time(), time.perf_counter()
        (await client.get("/api/results")).raise_for_status()
        print(f"first list of results: {since(begun):.0f} ms, processor {since(spent, time.process_time()):.0f} ms")
        for page in PAGES:
            times = []
            spent = time.process_time()
            for _ in range(ROUNDS):
                begun = time.perf_counter()
                (await client.get(f"/api/{page}")).raise_for_status()
                times.append(since(begun))
            processor = since(spent, time.process_time()) / ROUNDS
            p99 = statistics.quantiles(times, n=100)[98]
            print(f"{page}: median {statistics.median(times):.0f} ms, p99 {p99:.0f} ms, processor {processor:.0f} ms")


def since(begun_s: float, now_s: float | None = None) -> float:
    """Milliseconds from one reading of a clock to the next."""
    return 1e3 * ((time.perf_counter() if now_s is None else now_s) - begun_s)


def main() -> None:
    """Fill a laboratory and measure its pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="results folders, and entries of the queue")
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(*fill(Path(folder), count)))


if __name__ == "__main__":
    main()
