# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The comparison with ns-2: the readers of both outputs, what counts as different, and what is said without ns-2."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from conftest import ROOT, Perigee, environment, program
from perigee.store.results import Results

FOLDER = ROOT / "validation" / "ns2"


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    return program(FOLDER / "compare.py")


@pytest.fixture(scope="module")
def transfers() -> ModuleType:
    return program(FOLDER / "transfers.py")


def test_only_packets_after_the_warm_up_count(compare: ModuleType) -> None:
    lines = [
        "probe 1024 29.9 9000", "probe 1024 30.0 2000", "probe 1024 40.0 3000", "probe 65536 41.0 8000",
        "link 25000000 40000 200", "flow fast.1 1448000", "flow fast.4 4344000", "flow ftp 10",
        "flow hftp 724000", "cpu 12.5",
    ]  # fmt: skip
    call = [
        "+ 29.0 4 1 exp 218 ------- 0 4.0 5.0 1 10", "r 29.6 2 5 exp 218 ------- 0 4.0 5.0 1 10",
        "+ 30.0 4 1 exp 218 ------- 0 4.0 5.0 2 11", "- 30.0 4 1 exp 218 ------- 0 4.0 5.0 2 11",
        "r 30.01 4 1 exp 218 ------- 0 4.0 5.0 2 11", "+ 30.59 2 5 exp 218 ------- 0 4.0 5.0 2 11",
        "r 30.6 2 5 exp 218 ------- 0 4.0 5.0 2 11", "+ 31.0 4 1 exp 218 ------- 0 4.0 5.0 3 12",
        "r 31.01 4 1 exp 218 ------- 0 4.0 5.0 3 12", "+ 69.0 4 1 exp 218 ------- 0 4.0 5.0 4 13",
    ]  # fmt: skip
    found = compare.read_ns2(lines, call)
    assert found.response_ms == {1024: 2500.0, 65536: 8000.0}
    assert (found.utilisation_percent, found.dropped_percent, found.cpu_s) == (50.0, 0.5, 12.5)
    assert found.fast_mbps == pytest.approx(4000 * 1448 * 8e-6 / 40)
    assert found.hftp_mbps == pytest.approx(500 * 1448 * 8e-6 / 40)
    assert found.voice_delay_ms == pytest.approx(600)
    assert found.voice_lost_percent == 50.0, "one of two: what left in the last three seconds may be on its way"


def test_the_simulators_results_give_the_same_values(compare: ModuleType, perigee: Perigee, tmp_path: Path) -> None:
    done = perigee("run", FOLDER / "cell.toml", "--reduced", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    found = compare.read_run(Results(tmp_path / "out"), 0, 1.0)
    assert sorted(found.response_ms) == [1024 << power for power in range(8)]
    assert all(value > 2080 for value in found.response_ms.values()), "two round trips at least"
    assert found.voice_delay_ms > 520
    assert 50 < found.utilisation_percent < 100.5
    assert 0 < found.fast_mbps + found.hftp_mbps < 10
    page = compare.page({("reno", 167): found}, {("reno", 167): [found, found]})
    assert page.count("| reno | 0.2 BDP |") == 3
    assert compare.EXPLAINED in page


@pytest.mark.parametrize("name", ["compare.py", "transfers.py"])
def test_without_ns2_the_tools_say_so_and_write_nothing(name: str, tmp_path: Path) -> None:
    env = environment() | {"PATH": str(tmp_path)}
    page = ROOT / "docs" / "models" / "validation-ns2.md"
    before = page.read_bytes()
    done = subprocess.run([sys.executable, str(FOLDER / name)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "validate-ns2: skipped: there is no `ns` here; `apt-get install ns2` brings it"
    assert page.read_bytes() == before
    assert list(tmp_path.iterdir()) == []


def test_what_differs_from_ns2_needs_a_reason_and_a_reason_a_difference(transfers: ModuleType) -> None:
    late, alike = transfers.Quantity("late", len, 2), transfers.Quantity("alike", len, 2, "ns-2 has a slower clock")
    scenario = transfers.SCENARIOS[0]
    assert transfers.unexplained([(scenario, late, 5.0, 7.0), (scenario, alike, 5.0, 7.1)]) == []
    wrong = transfers.unexplained([(scenario, late, 5.0, 7.1), (scenario, alike, 5.0, 7.0)])
    assert [text.rpartition(": ")[2] for text in wrong] == [
        "differs without a reason", "agrees, but has a reason for differing",
    ]  # fmt: skip
    assert transfers.unexplained([(scenario, late, "1, 2", "1, 3")]), "a text is equal or not"


def test_a_lost_last_segment_is_sent_again_as_in_ns2(transfers: ModuleType, tmp_path: Path) -> None:
    if shutil.which("ns") is None:
        pytest.skip(transfers.MISSING)
    tail = next(scenario for scenario in transfers.SCENARIOS if scenario.name == "tail")
    theirs = transfers.ns2(tail, tmp_path)
    ours = transfers.simulated(tail, tmp_path)
    assert [one.number for one in ours.sent] == [one.number for one in theirs.sent] == [*range(1, 201), 200]
    times = [(one.at_s, other.at_s) for one, other in zip(theirs.sent, ours.sent, strict=True)]
    assert all(abs(one - other) < transfers.PACKET_S for one, other in times[:-1])
    assert abs(times[-1][0] - times[-1][1]) < transfers.TICKS_S, "a timeout"
    other = transfers.simulated(tail, tmp_path, "hosts.rto_floor=variance")
    assert other.sent[-1].at_s > theirs.sent[-1].at_s + transfers.TICKS_S, "with Linux's rule it comes later"
