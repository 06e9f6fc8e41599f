# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The comparison of QUIC on sockets with virtual time says what misses, and simulates it with their lateness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conftest import ROOT, Perigee, program


@pytest.fixture(scope="module")
def sockets() -> ModuleType:
    return program(ROOT / "validation" / "quic" / "sockets.py")


def cell(sockets: ModuleType, cc: str, rtt: float, p99_us: float = 100.0) -> Any:
    """Return a cell whose round trip on sockets is this, ms, and 45 in virtual time."""
    late = {place: sockets.Lateness(20.0, p99_us, 2000.0, 30_000) for place in ("path.down", "path.up", "download")}
    return sockets.Cell("20x40", cc, sockets.Means((19.0, 45.0, 0.1), {}), sockets.Means((19.0, rtt, 0.1), late))


def test_the_page_explains_what_misses_and_nothing_else(sockets: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    why = {"20x40, bbr": "A cause of then.", "20x40, bbr3": "A cause."}
    monkeypatch.setattr(sockets, "differences", lambda _path: why)
    within, late, missing = cell(sockets, "bbr", 45.5), cell(sockets, "copa", 50, 600.0), cell(sockets, "bbr3", 50)
    as_sockets = {missing.label: sockets.Range((19.0, 46.5, 0.1), (19.0, 50.1, 0.1))}
    page = sockets.page([within, late, missing], as_sockets, 1)
    assert "Of the study's 48 cells 3 were compared here, and 45 are missing. Of those compared 2 can be judged" in page
    assert (
        "| 20x40 | copa | 19.00 | 19.00 | +0.0 % | 45.0 | 50.0 | +11.1 % | 0.10 | 0.10 | not judged: 600 us late |"
        in page
    )
    simulated = "19.00 | 19.00 to 19.00 | 19.00 | 45.0 | 46.5 to 50.1 | 50.0 | 0.10 | 0.10 to 0.10 | 0.10 | yes |"
    assert f"| 20x40 | bbr3 | 40 | 100 | 2000 | {simulated}" in page
    assert "Of those that miss 1 of 1 come to the same in virtual time" in page
    assert "A cause." in page and "of then" not in page
    nothing = sockets.page([within], {}, 1)
    assert "Nothing misses." in nothing and "with the lateness" not in nothing


def test_a_cell_is_simulated_with_the_lateness_of_its_sockets(sockets: ModuleType, perigee: Perigee) -> None:
    def run(arguments: Sequence[str]) -> None:
        done = perigee(*arguments, "--set", "flows.download.duration=150 ms", "--set", "rounds=1")
        assert done.returncode == 0, done.stderr

    one = cell(sockets, "reno", 45)
    none, some = (
        sockets.with_lateness(
            run, replace(one, emu=sockets.Means(one.emu.values, dict.fromkeys(one.emu.lateness, late)))
        )
        for late in (sockets.Lateness(0, 0, 0, 0), sockets.Lateness(500, 500, 500, 1000))
    )
    # A link and its ends, there and back, are half a millisecond late each; the first windows meet the same queue.
    assert some.least[1] - none.least[1] == pytest.approx(2.0, abs=0.3)


def test_each_link_has_the_delay_of_its_name(sockets: ModuleType) -> None:
    for link in sockets.controls_of():
        round_trip = link.split("-")[0].split("x")[1]
        assert sockets.delay_of(link) == f"{int(round_trip) // 2} ms"
    assert set(sockets.differences(Path(sockets.FOLDER) / "differences.toml")) <= {
        f"{link}, {cc}" for link, controls in sockets.controls_of().items() for cc in controls
    }
