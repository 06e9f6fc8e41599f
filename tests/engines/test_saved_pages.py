# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Time that a page saves by a proxy, as the proxy computes it, beside the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from perigee import Study
from study_text import flow, link

FIRST_WINDOW = 14_480
SHORTER_MS = 50.0

STUDY = (
    'name = "page"\nnodes = ["server", "gateway", "client"]\ntime_limit = "60 s"\n'
    + link("wire", "server gateway", rate="1 Gbit/s", delay="25 ms")
    + link("satellite", "gateway client", rate="100 Mbit/s", delay="290 ms", queue="8 MB")
    + flow("page", "server client", size="30 kB", cc="reno")
    + '[[proxies]]\nname = "pep"\nnode = "gateway"\nbuffer = "15 MB"\n'
    + '[proxies.sides.wire]\ncc = "reno"\n[proxies.sides.satellite]\ncc = "reno"\n'
    + '[vary]\n"flow.size" = ["30 kB", "100 kB", "300 kB", "1 MB"]\n"proxy.enabled" = [true, false]\n'
)


def test_each_round_after_the_first_saves_the_shorter_round_trip(tmp_path: Path) -> None:
    """As `saved_us` of crates/perigee-pep/src/shared/account.rs computes it."""
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    flows = Study.load(study).run(out=tmp_path / "results")["flows"]
    rows = zip(flows["bytes"], flows["point.enabled"], flows["duration_s"], strict=True)
    took = {(int(size), bool(proxied)): float(duration_s) for size, proxied, duration_s in rows}
    for size in {size for size, _ in took}:
        rounds = next(n for n in range(1, 20) if FIRST_WINDOW * (2**n - 1) >= size)
        saved_ms = 1e3 * (took[size, False] - took[size, True])
        assert saved_ms == pytest.approx((rounds - 1) * SHORTER_MS, abs=0.2), size
