# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Whatever limits a flow by construction is what its capture and its results are said to show, for 95 % of the time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import ROOT, needs_tun, program
from perigee import load
from perigee.analysis.limited import limited
from perigee.analysis.recordings import analyze
from perigee.engines.emu.engine import Emulator
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import find_study
from perigee.report.context import Context
from perigee.report.model import Table, Text
from perigee.report.sections import limits as limits_of_groups
from perigee.statistics import limits
from perigee.store.results import Results

LEAST_OF_WHOLE = 0.9
"""Least share of a whole flow with the right cause."""
planted = program(ROOT / "validation" / "limits" / "planted.py")
comparison = program(ROOT / "validation" / "limits" / "limits.py")


def check(name: str, engine: type[Simulator | Emulator], folder: Path) -> None:
    """The planted cause is named for nearly all of its time, by the capture and by the series."""
    case = planted.PLANTED[name]
    (folder / "study.toml").write_text(case.text())
    results = folder / "results"
    carry_out(Job(find_study(str(folder / "study.toml")), engine, out=results))
    causes, since_s = planted.captured(case, results)
    assert planted.right(case, causes, results) >= comparison.RIGHT, limits.shares(causes)
    found = load(results).limits
    series = comparison.of_series(case, since_s, results)
    assert series is None or series >= comparison.RIGHT, found
    assert set(found["cause"]) <= set(limits.CAUSES)
    for whole in found.group_by("leg").agg(pl.sum("share"))["share"]:
        assert whole == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("name", planted.PLANTED)
def test_a_planted_cause_is_named_for_nearly_all_of_its_time(name: str, tmp_path: Path) -> None:
    check(name, Simulator, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", planted.PLANTED)
def test_a_planted_cause_is_named_with_the_kernels_tcp_too(name: str, tmp_path: Path) -> None:
    needs_tun()
    check(name, Emulator, tmp_path)


def test_a_cause_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    """Shares of the wrong cause are no match: the measure of the tests above can fail."""
    case = planted.PLANTED["application"]
    (tmp_path / "study.toml").write_text(case.text())
    carry_out(Job(find_study(str(tmp_path / "study.toml")), Simulator, out=tmp_path / "results"))
    causes, _ = planted.captured(case, tmp_path / "results")
    for other in ("loss", "queue", "policer-bbr", "receiver"):
        assert planted.right(planted.PLANTED[other], causes, tmp_path / "results") == 0.0


def test_trains_of_a_small_send_buffer_are_no_pace_and_no_queue_of_the_path(tmp_path: Path) -> None:
    """A full buffer sends in trains, between which it is silent: each waits behind itself alone."""
    buffer = {"hosts": {"wmem": ["4096 B", "16384 B", "131072 B"]}}
    slow = {"rate": "20 Mbit/s", "delay": "50 ms", "queue": "1 MB"}
    for node in ("a", "c"):
        path = planted.path(planted.FAST, slow, buffer, duration="12 s", cc="cubic")
        case = planted.Case("window", "a send buffer of 128 kB", path, 1.5, node)
        folder = tmp_path / node
        folder.mkdir()
        (folder / "study.toml").write_text(case.text())
        carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "results"))
        shares = limits.shares(planted.captured(case, folder / "results")[0])
        assert "pacing" not in shares
        assert shares["window"] > 4 * shares.get("queue", 0.0), shares


def test_losses_are_of_the_kind_that_was_planted() -> None:
    chance = np.random.default_rng(1)
    at_random = np.sort(chance.uniform(0, 300, 60))
    every_4 = 4.2 * np.arange(60) + chance.normal(0, 0.05, 60)
    every_15 = np.repeat(15.0 * np.arange(1, 21), 3) + chance.uniform(0, 0.4, 60)
    planted = {"random": (at_random, 1), "burst": (at_random, 12), "periodic": (every_4, 1), "slot": (every_15, 2)}
    for kind, (at, packets) in planted.items():
        losses = pl.DataFrame({"t_s": np.sort(at), "packets": [packets] * len(at)})
        assert limits.kind_of_losses(losses) == kind
    assert limits.kind_of_losses(pl.DataFrame({"t_s": [1.0], "packets": [500]})) == ""


def samples_of_ss(*, in_flight: int, counted: str) -> str:
    """Twenty samples of a socket with a window of 100 packets over 100 ms, which sends all the time."""
    return "".join(
        f"17000000{10 + at}.0\nESTAB 0 0 192.0.2.1:5201 192.0.2.2:40000\n"
        f"\t cubic wscale:7,7 rto:304 rtt:100.5/1 mss:1448 cwnd:100 ssthresh:80 bytes_acked:{1 + 1_000_000 * at} "
        f"busy:{1000 * at}ms{counted.format(900 * at)} unacked:{in_flight} minrtt:100\n"
        for at in range(20)
    )


@pytest.mark.parametrize(
    ("in_flight", "counted", "cause"),
    [
        (30, "", "application"),
        (50, " rwnd_limited:{}ms(90.0%)", "receiver"),
        (60, " sndbuf_limited:{}ms(90.0%)", "window"),
        (100, "", "window"),
    ],
)
def test_samples_of_ss_have_the_same_words(in_flight: int, counted: str, cause: str, tmp_path: Path) -> None:
    (tmp_path / "ss.txt").write_text(samples_of_ss(in_flight=in_flight, counted=counted))
    analysis = analyze([tmp_path / "ss.txt"])
    assert analysis is not None
    (found,) = limited(analysis, analysis.table("flows"))
    assert max(found.shares, key=lambda name: found.shares[name]) == cause
    assert found.shares[cause] >= LEAST_OF_WHOLE


@pytest.mark.parametrize("series", ["100 ms", "off"])
def test_a_report_says_what_limited_the_flow_or_why_that_is_unknown(series: str, tmp_path: Path) -> None:
    text = planted.PLANTED["receiver-leo"].text().replace("100 ms", series)
    (tmp_path / "study.toml").write_text(text)
    carry_out(Job(find_study(str(tmp_path / "study.toml")), Simulator, out=tmp_path / "results"))
    section = limits_of_groups.section(Context(Results(tmp_path / "results")))
    assert section is not None
    said, *tables = section.blocks
    assert isinstance(said, Text)
    if series == "off":
        assert said.text == "This is not known: these results have no series (`measure.series`)."
        assert not tables
    else:
        assert said.text.startswith("What held it was the receiver's window, which was full (9")
        (table,) = tables
        assert isinstance(table, Table)
        assert table.data["receiver_share"].item() > LEAST_OF_WHOLE
