# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Advice is held against paths that anybody can draw again, and a hit is what the page says it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conftest import ROOT, Perigee, program
from perigee.advice.link import Hosts, of_profile
from perigee.advice.menu import NOW, menu
from perigee.advice.trial import _content
from perigee.toml import document


@pytest.fixture(scope="module")
def comparison() -> ModuleType:
    return program(ROOT / "validation" / "advise" / "advise.py")


def test_each_path_of_the_draw_is_a_profile_within_its_bounds_and_is_the_same_again(
    comparison: ModuleType, tmp_path: Path
) -> None:
    drawn = [comparison.paths.drawn(comparison.SEED, number) for number in range(1, comparison.PATHS + 1)]
    assert drawn == [comparison.paths.drawn(comparison.SEED, number) for number in range(1, comparison.PATHS + 1)]
    for path in drawn:
        (tmp_path / "link.toml").write_text(path.profile)
        link = of_profile(str(tmp_path / "link.toml"))
        assert link.rate_mbps == pytest.approx(path.down_mbps, rel=0.4)
        # A link is sampled by packets of 40 bytes, which take their time onto slow links.
        onto_ms = 0.32 / comparison.paths.LEAST_UP_MBPS + 0.32 / (path.down_mbps / 2)
        assert 0.95 * path.rtt_ms <= link.rtt_ms <= 1.05 * path.rtt_ms + onto_ms
        assert 0.5 <= path.down_mbps <= 100
        assert 20 <= path.rtt_ms <= 800
    said = " ".join(path.said for path in drawn)
    assert all(word in said for word in ("policer", "slots", "jitter", "lost in bursts", "queue"))


def of(**goodput_and_delay: tuple[float, float]) -> dict[str, dict[str, float]]:
    return {name: {"goodput_mbps": one[0], "delay_ms": one[1]} for name, one in goodput_and_delay.items()}


@pytest.mark.parametrize(
    ("measured", "is_hit"),
    [
        (of(BBR=(9.6, 109.0), Hybla=(10.0, 100.0)), True),
        (of(BBR=(9.4, 100.0), Hybla=(10.0, 100.0)), False),
        (of(BBR=(10.0, 111.0), Hybla=(9.9, 100.0)), True),
        (of(BBR=(9.9, 111.0), Hybla=(10.0, 100.0)), False),
    ],
)
def test_a_hit_is_within_5_percent_of_the_best_with_at_most_10_percent_more_delay(
    comparison: ModuleType, measured: dict[str, Any], is_hit: bool
) -> None:
    advice = {"tried": [{"name": "Buffers", "is_advised": False}, {"name": "BBR", "is_advised": True}]}
    assert comparison.judged(advice, measured)["is_hit"] == is_hit
    assert comparison.first_of({"tried": advice["tried"][:1]}) == NOW


def test_the_menu_carried_out_gives_each_setting_a_goodput_and_a_delay(
    comparison: ModuleType, perigee: Perigee, tmp_path: Path
) -> None:
    (tmp_path / "link.toml").write_text(comparison.paths.drawn(1, 3).profile)
    link = of_profile(str(tmp_path / "link.toml"))
    entries = menu(link, Hosts(), has_queue=False)
    (tmp_path / "study.toml").write_text(document(_content(link, Hosts(), entries, 1)))
    done = perigee("run", tmp_path / "study.toml", "--out", tmp_path / "sim")
    assert done.returncode == 0, done.stderr
    found = comparison.figures(tmp_path / "sim")
    assert list(found) == [NOW, *(entry.name for entry in entries)]
    assert all(0.5 < one["goodput_mbps"] < 2 and one["delay_ms"] > 43 for one in found.values())


def test_paths_are_chosen_by_number_and_their_table_counts_the_hits(comparison: ModuleType) -> None:
    assert list(comparison.numbers("1-3,7")) == [1, 2, 3, 7]
    one = {
        "path": 3, "said": "slow", "advised": NOW, "best": "BBR", "goodput_share": 0.5, "delay_share": 1.2,
        "is_hit": False, "advice_s": 31.4, "date": "2026-11-30", "fitted": {"rate_mbps": 2.0, "rtt_ms": 40.0},
    }  # fmt: skip
    text = comparison.written([one, json.loads(json.dumps(one)) | {"path": 4, "is_hit": True}])
    assert "1 of 2" in text
    assert "| 3 | slow | 2 Mbit/s, 40 ms | as it is | BBR | 50 % | 120 % | **no** | 31 s | 2026-11-30 |" in text


def test_the_logs_are_those_of_ping_irtt_and_iperf3_alone(comparison: ModuleType) -> None:
    programs = {line.split()[0] for line in comparison.LOGS.splitlines()} - {"wait", "if", "sleep"}
    assert programs == {"ping", "iperf3"}
    assert "irtt client" in comparison.LOGS
    assert sys.executable not in comparison.LOGS
