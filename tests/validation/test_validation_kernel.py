# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The comparison with this machine's kernel judges cells by their means or distributions, and none that came late."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from conftest import ROOT, Perigee, needs_tun, program


@pytest.fixture(scope="module")
def comparison() -> ModuleType:
    return program(ROOT / "validation" / "kernel" / "cells.py")


def test_the_study_has_122_cells_of_one_flow_15_pairs_and_18_transfers(
    comparison: ModuleType, perigee: Perigee
) -> None:
    cells = comparison.cells()
    expected = ["alone"] * 114 + ["fast"] * 8 + ["pairs"] * 15 + ["transfers"] * 18
    assert sorted(cell.experiment for cell in cells) == expected
    assert len({cell.label for cell in cells}) == 155
    assert set(comparison.differences(comparison.FOLDER / "differences.toml")) <= {cell.label for cell in cells}
    listed = perigee("run", "validation", "--set", "rounds=1", "--dry-run")
    assert "155 runs" in listed.stderr


def test_a_simulated_cell_is_found_by_its_label(comparison: ModuleType, perigee: Perigee, tmp_path: Path) -> None:
    short = [part for flow in ("download", "rival") for part in ("--set", f"flows.{flow}.duration=200 ms")]

    def run(arguments: Sequence[str]) -> None:
        done = perigee(*arguments, "--reduced", "--set", "rounds=1", *short)
        assert done.returncode == 0, done.stderr

    noise = comparison.Noise(2.0, 1.8)
    tables = comparison.by_cell(comparison.simulated(run, tmp_path / "sim", comparison.ALL, noise))
    assert set(tables) == {cell.label for cell in comparison.cells()}
    cells = comparison.cells()
    alone, transfer = cells[0], cells[-1]
    *_, pair = (cell for cell in cells if cell.experiment == "pairs")
    ((duration,),) = comparison.rounds(tables[transfer.label], transfer)
    assert duration > 0.3
    throughput, round_trip, retransmitted = comparison.rounds(tables[alone.label], alone)
    assert (len(throughput), len(round_trip), len(retransmitted)) == (1, 1, 1)
    ((share,),) = comparison.rounds(tables[pair.label], pair)
    assert 0 < share < 100


IN_A_FEW_SECONDS = ["1.2 s down", "1.2 s up", "SYN lost up", "SYN-ACK lost up", "1 B up", "2 segments down"]
"""Short transfers whose handshakes once differed, or could; `make validate` has all."""


@pytest.mark.quiet
@pytest.mark.parametrize("labels", [IN_A_FEW_SECONDS[1:4], pytest.param(IN_A_FEW_SECONDS, marks=pytest.mark.long)])
def test_short_transfers_take_as_long_in_the_simulator_as_in_the_kernel(
    comparison: ModuleType, perigee: Perigee, tmp_path: Path, labels: list[str]
) -> None:
    needs_tun()

    def durations(cell: Any, engine: str, *options: str) -> tuple[list[float], ...]:
        out = tmp_path / f"{engine}-{cell.label}"
        chosen = ("--experiment", "transfers", "--set", f"transfer={cell.label}", "--set", "rounds=1")
        done = perigee(
            "run", str(comparison.STUDY), *chosen, "--engine", engine, *options, "--out", str(out), "--fresh"
        )
        assert done.returncode == 0, done.stderr
        found: tuple[list[float], ...] = comparison.rounds(pl.read_parquet(out / "flows.parquet"), cell)
        return found

    for cell in [cell for cell in comparison.cells() if cell.label in labels]:
        here = durations(cell, "sim")
        # A machine with something else to do is late now and then, not three times.
        there = [durations(cell, "emu", "--force")]
        while len(there) < 3 and comparison.Compared(cell, here, there[-1], 0.0, 0.0, False).differs():
            there.append(durations(cell, "emu", "--force"))
        assert not comparison.Compared(cell, here, there[-1], 0.0, 0.0, False).differs(), (cell.label, here, there)


@pytest.mark.parametrize(
    ("late_us", "stalls_us", "judged"),
    [
        # Four rounds without a stall are enough, and the fifth is left out.
        ([100, 100, 100, 100, 100], [900, 900, 9000, 900, 900], [0, 1, 3, 4]),
        # Three are not: those with a stall are judged too, but none that was late throughout.
        ([100, 100, 100, 100, 700], [900, 900, 9000, 900, 900], [0, 1, 2, 3]),
    ],
)
def test_rounds_with_a_stall_are_judged_only_where_others_are_few(
    comparison: ModuleType, tmp_path: Path, late_us: list[float], stalls_us: list[float], judged: list[int]
) -> None:
    runs = list(range(5))
    releases = pl.DataFrame({"run": runs, "late_p99_us": late_us, "late_max_us": stalls_us})
    releases.write_parquet(tmp_path / "releases.parquet")
    pl.DataFrame({"run": runs, "round": runs}).write_parquet(tmp_path / "flows.parquet")
    flows, late, stall = comparison.judged(tmp_path)
    assert flows["round"].to_list() == judged
    assert (late, stall) == (100, max(stalls_us[round_] for round_ in judged))


def test_a_cell_with_few_rounds_is_not_judged(comparison: ModuleType) -> None:
    cell = comparison.cells()[0]
    good, bad = (comparison.Compared(cell, *_rounds(count, 1.0, 1.0), 100.0, 900.0, False) for count in (4, 3))
    page = comparison.page([good, bad], comparison.Noise(2.0, 1.8), pytest.fail)
    assert "**1 of 1 cells of one flow" in page
    assert f"too busy to judge 1: {cell.label}." in page


def test_means_are_judged_and_of_cells_that_scatter_distributions(comparison: ModuleType) -> None:
    cell = comparison.cells()[0]
    assert comparison.Compared(cell, *_rounds(4, 1.0, 1.019), 0.0, 0.0, False).misses() == []
    assert comparison.Compared(cell, *_rounds(4, 1.0, 1.021), 0.0, 0.0, False).misses() == ["throughput"]
    assert comparison.Compared(cell, *_rounds(20, 1.0, 1.021), 0.0, 0.0, True).misses() == ["throughput"]
    # A distribution that differs in one round far off, which moves the mean.
    sim, emu = _rounds(20, 1.0, 1.0)
    emu[0][0] *= 2
    assert comparison.Compared(cell, sim, emu, 0.0, 0.0, True).misses() == []
    transfer = comparison.cells()[-1]
    for duration, missed in ((2.03, []), (2.05, ["duration"])):
        one = comparison.Compared(transfer, ([2.0] * 5,), ([duration] * 5,), 0.0, 0.0, True)
        assert one.misses() == missed
    *_, pair = (cell for cell in comparison.cells() if cell.experiment == "pairs")
    shares = [float(share) for share in range(30, 50)]
    assert comparison.Compared(pair, (shares,), (shares,), 0.0, 0.0, True).misses() == []
    moved = [share + 15 for share in shares]
    assert comparison.Compared(pair, (shares,), (moved,), 0.0, 0.0, True).misses() == ["share"]


def test_the_page_counts_apart_what_agrees_by_tolerance_and_what_only_as_a_distribution(
    comparison: ModuleType,
) -> None:
    by_label = {cell.label: cell for cell in comparison.cells()}
    sim, emu = _rounds(20, 1.0, 1.0)
    emu[0][0] *= 2
    judged = [
        comparison.Compared(by_label["leo, reno"], *_rounds(4, 1.0, 1.0), 0.0, 0.0, False),
        comparison.Compared(by_label["leo, hybla"], *_rounds(6, 1.0, 1.0), 0.0, 0.0, False),
        comparison.Compared(by_label["leo, vegas"], *_rounds(4, 1.0, 1.0), 0.0, 0.0, False),
        comparison.Compared(by_label["leo, bic"], *_rounds(17, 1.0, 1.0), 0.0, 0.0, True),
        comparison.Compared(by_label["leo, htcp"], sim, emu, 0.0, 0.0, True),
        comparison.Compared(by_label["wired, bic"], *_rounds(4, 1.0, 1.1), 0.0, 0.0, False),
        comparison.Compared(by_label["reno + bbr"], ([50.0, 51.0],) * 2, ([50.0] * 20,) * 2, 0.0, 0.0, True),
    ]
    flows = {"goodput_mbps": [10.0, 11.5], "rtt_mean_ms": [50.0, 50.0], "retransmitted_packets": [1, 1]}
    page = comparison.page(
        judged, comparison.Noise(2.0, 1.8), lambda _: pl.DataFrame({**flows, "sent_packets": [100, 100]})
    )
    assert "Of the 5 congestion controls `reno`, `cubic`, `bbr` are the kernel's own. The other 4 are" in page
    for row in (
        "| one flow, the kernel's own algorithm: steady | 1 | 1 | 4 | 0 |  | 0 |",
        "| one flow, the kernel's own algorithm: scattering | 0 | 0 |  | 0 |  | 0 |",
        "| one flow, the same C file on both sides: steady | 3 | 2 | 4 to 6 | 0 |  | 1 |",
        "| one flow, the same C file on both sides: scattering | 2 | 1 | 17 | 1 | 20 | 0 |",
        "| pairs | 1 | 0 |  | 1 | 20 | 0 |",
        # The kernel's four rounds are more than 2 % from both modes.
        "| wired, bic | Mbit/s | two modes: 10.00 (1), 11.50 (1) | 11.00 (4) | 4 |",
    ):
        assert f"{row}\n" in page


def test_the_kernels_own_algorithms_are_those_that_the_emulator_does_not_load(comparison: ModuleType) -> None:
    controls = (ROOT / "crates/perigee-emu/src/run/controls.rs").read_text(encoding="utf-8")
    assert tuple(
        re.findall(r"^const KERNELS.*= \[(.*)\];$", controls, re.MULTILINE)[0].replace('"', "").split(", ")
    ) == (comparison.KERNELS_OWN)


@pytest.mark.parametrize(("label", "queue"), [("geo-codel, bbr", 3_000_000), ("geo-144, cubic", 6_000_000)])
def test_a_cell_is_simulated_with_its_neighbours(
    comparison: ModuleType, perigee: Perigee, tmp_path: Path, label: str, queue: int
) -> None:
    def run(arguments: Sequence[str]) -> None:
        done = perigee(*arguments, "--set", "flows.download.duration=200 ms")
        assert done.returncode == 0, done.stderr

    (cell,) = (cell for cell in comparison.cells() if cell.label == label)
    points = [json.loads(str(point)) for point in comparison.with_neighbours(run, cell, tmp_path / "sim")["point"]]
    assert {point["links.path.queue.bytes"] for point in points} == {f"{queue + more} B" for more in (-1500, 0, 1500)}
    delays = ("300 ms", "300.05 ms", "300.1 ms", "300.15 ms", "300.2 ms", "300.3 ms")
    assert {point["links.path.delay"] for point in points} == set(delays)
    assert len(points) == 18


def test_a_cell_scatters_where_one_of_its_quantities_does(comparison: ModuleType) -> None:
    steady = [10.0, 10.0, 10.0, 10.0]
    assert not comparison.four_rounds_say_little((steady, steady, steady))
    # A tenth of a percentage point, or a fifth of the mean.
    assert not comparison.four_rounds_say_little((steady, steady, [0.0, 0.05, 0.0, 0.05]))
    assert comparison.four_rounds_say_little((steady, steady, [0.7, 1.1, 0.7, 1.1]))
    assert comparison.four_rounds_say_little((steady, [10.0, 10.5, 10.0, 10.5], steady))
    assert comparison.four_rounds_say_little((steady,)), "a pair"


def test_short_transfers_have_a_page_with_what_misses(comparison: ModuleType) -> None:
    by_label = {cell.label: cell for cell in comparison.cells()}
    far, near = ([2.0] * 10 + [3.0] * 10, [2.0] * 13 + [3.0] * 7)
    judged = [
        comparison.Compared(by_label["1 B up"], ([2.0] * 20,), ([2.01] * 20,), 90.0, 90.0, True),
        comparison.Compared(by_label["15 kB loaded"], (far,), (near,), 90.0, 90.0, True),
        comparison.Compared(by_label["SYN-ACK lost down"], ([2.0] * 20,), ([2.5] * 20,), 90.0, 90.0, True),
    ]
    page = program(comparison.FOLDER / "short.py").page(judged, comparison.Noise(2.0, 1.8))
    assert "**2 of 3 are within: 1 by tolerance, 1 only as a distribution.**" in page
    assert "| SYN-ACK lost down | 2.000 ± 0.000 | 2.500 ± 0.000 | +25.0 % | 1.00 | 0.00 | 20 | no: duration |" in page
    assert "- **SYN-ACK lost down.** Client and server both send again after a second" in page
    assert "missed in other runs" not in page


def test_noise_has_the_measured_percentiles(comparison: ModuleType) -> None:
    noise = comparison.Noise.measured(
        pl.DataFrame({"late_p50_us": [1.0, 2.0, 9.0], "late_p99_us": [90.0, 128.0, 700.0]})
    )
    assert noise.median_us == 2.0
    assert noise.sigma == pytest.approx(math.log(64) / 2.3263, rel=1e-3)
    assert str(noise) == "log-normal with a median of 2.0 us and a sigma of 1.79"


def _rounds(count: int, sim: float, emu: float) -> tuple[tuple[list[float], ...], tuple[list[float], ...]]:
    """Return the quantities of both engines, with `sim` and `emu` times the same throughput."""
    steps = [1 + number / 100_000 for number in range(count)]
    return tuple(
        ([10 * factor * step for step in steps], [50 * step for step in steps], [1.0 * step for step in steps])
        for factor in (sim, emu)
    )  # type: ignore[return-value]
