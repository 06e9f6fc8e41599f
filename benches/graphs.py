#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How long Chromium takes to draw a run of 10 million samples, and to zoom: prints the times for benches/README.md.

`make bench-graphs` runs it, and installs Debian's Chromium for it. "First" is from the request of the page to the drawn
graph, with a server that has not read the table: to its first part, and to all samples; "again" is the same page with
the samples in memory; a zoom is from
the request of the samples to the drawn graph.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import uvicorn
from pages import MANIFEST
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.action_chains import ActionChains

from perigee.laboratory import server
from perigee.laboratory.guard import Limits
from perigee.laboratory.site import Site
from perigee.store.manifest import write_manifest
from perigee.store.shards import ROW_GROUP_ROWS

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
ZOOMS = 24
WAIT_S = 60.0
SEED = 11


def fill(folder: Path, count: int) -> None:
    """Write results of one run with two flows, whose samples are a random walk."""
    folder.mkdir()
    write_manifest(folder / "manifest.json", MANIFEST)
    random = np.random.default_rng(SEED)
    time_s = np.repeat(np.arange(count // 2) * 1e-3, 2)
    table = pl.DataFrame(
        {
            "run": np.zeros(count, dtype=np.uint32),
            "flow": ["one", "two"] * (count // 2),
            "t_s": time_s,
            "goodput_mbps": np.abs(np.cumsum(random.normal(size=count))),
        }
    )
    flows = pl.DataFrame(
        {
            "run": pl.Series([0, 0], dtype=pl.UInt32),
            "round": pl.Series([0, 0], dtype=pl.UInt32),
            "point": ["{}", "{}"],
            "flow": ["one", "two"],
            "leg": pl.Series([None, None], dtype=pl.UInt32),
            "cc": ["cubic", "bbr"],
            "cc_params": ["{}", "{}"],
        }
    )
    for name in MANIFEST["tables"]:
        rows = {"series": table, "flows": flows}.get(name, table.slice(0, 1))
        rows.write_parquet(folder / f"{name}.parquet", row_group_size=ROW_GROUP_ROWS)


def chrome(folder: Path) -> Chrome:
    """Start Debian's Chromium without a window."""
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("headless=new", "disable-dev-shm-usage", "disable-gpu", f"user-data-dir={folder}"):
        options.add_argument(f"--{argument}")
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    return Chrome(options, ChromeService(DRIVER))


def drawn_ms(browser: Chrome, number: int) -> float:
    """Wait for the graph to be drawn for this time on its page; return how long that took, in ms."""
    return _waited(browser, "performance.getEntriesByName('graph').map((one) => one.duration)", number)


def whole_ms(browser: Chrome) -> float:
    """Wait until the graph has all samples; return how long that took from the request of the page, in ms."""
    return _waited(browser, "performance.getEntriesByName('whole').map((one) => one.startTime)", 0)


def _waited(browser: Chrome, script: str, number: int) -> float:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        found = browser.execute_script(f"return {script}")
        if len(found) > number:
            return float(found[number])
        time.sleep(0.02)
    raise SystemExit(f"no graph after {WAIT_S:.0f} s: {browser.find_element('css selector', 'main').text}")


def measure(browser: Chrome, address: str, token: str) -> None:
    """Print the times."""
    browser.get(f"{address}/enter?token={token}")
    page = f"{address}/#/results/walk/graphs?what=series.goodput_mbps"
    for name in ("first", "again"):
        browser.get("about:blank")
        spent = time.process_time()
        browser.get(page)
        shown, whole = drawn_ms(browser, 0), whole_ms(browser)
        spent = 1e3 * (time.process_time() - spent)
        print(f"{name}: {shown:.0f} ms, all samples {whole:.0f} ms, processor of the server {spent:.0f} ms")
    browser.execute_script("document.querySelector('.of-results').focus()")
    spent, times = time.process_time(), []
    for number in range(ZOOMS):
        # In by steps, then out.
        ActionChains(browser).send_keys("+" if number < ZOOMS // 2 else "-").perform()
        times.append(drawn_ms(browser, number + 1))
    spent = 1e3 * (time.process_time() - spent) / ZOOMS
    print(f"zoom: median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms, processor {spent:.0f} ms")


def main() -> None:
    """Fill a laboratory, serve it, and measure in a browser."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000_000, help="samples")
    count = parser.parse_args().count
    if not (Path(CHROMIUM).exists() and Path(DRIVER).exists()):
        print("skipped: chromium and chromium-driver are not installed")
        return
    os.environ["SE_OFFLINE"] = "true"
    with tempfile.TemporaryDirectory() as root:
        laboratory, tokens = server.opened(Path(root) / "lab")
        fill(laboratory.place.results / "walk", count)
        site: Any = Site(laboratory, frozenset(), limits=Limits(per_s=1e9, burst=1e9)).app
        serving = uvicorn.Server(uvicorn.Config(site, port=0, lifespan="off", log_config=None))
        thread = threading.Thread(target=serving.run)
        thread.start()
        try:
            while not serving.started:
                time.sleep(0.01)
            port = serving.servers[0].sockets[0].getsockname()[1]
            browser = chrome(Path(root) / "chromium")
            try:
                measure(browser, f"http://127.0.0.1:{port}", tokens["run"])
            finally:
                browser.quit()
        finally:
            serving.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
