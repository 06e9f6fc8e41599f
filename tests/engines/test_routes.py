# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Routes that change in a run: simulated, on the kernel, in reports; refused where the path is real."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee, needs_tun
from study_text import flow, link

STUDY = (
    """
name = "routes"
nodes = ["server", "gateway", "terminal", "client"]
[measure]
series = "500 ms"
[hosts]
rmem = ["4096 B", "131072 B", "6 MB"]
wmem = ["4096 B", "131072 B", "6 MB"]
"""
    + link("internet", "server gateway", rate="100 Mbit/s", delay="5 ms")
    + link(
        "leo",
        "gateway terminal",
        rate="8 Mbit/s",
        delay="20 ms",
        queue="100 kB",
        loss={"kind": "periodic", "period": "100 s", "phase": "4 s", "length": "5 s", "loss": "100 %"},
    )
    + link("geo", "gateway terminal", rate="4 Mbit/s", delay="250 ms", queue="200 kB")
    + link("home", "terminal client", rate="100 Mbit/s", delay="1 ms")
    + """
[[routes]]
node = "gateway"
to = "client"
via = "geo"
while_dark = "leo"
detect = "1 s"
restore = "2 s"
[[routes]]
node = "terminal"
to = "server"
via = "geo"
while_dark = "leo"
detect = "1 s"
restore = "2 s"
"""
    + flow("download", "server client", size="9 MB")
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The study: a link that is dark from 4 s to 9 s, and another that packets take from 5 s to 11 s."""
    path = tmp_path / "routes.toml"
    path.write_text(STUDY)
    return path


def carried(folder: Path) -> dict[str, int]:
    """Packets that each direction of a link has delivered."""
    links = pl.read_parquet(folder / "links.parquet").group_by("link").agg(pl.col("delivered_packets").sum())
    return dict(links.iter_rows())


def test_the_simulated_transfer_takes_both_links_and_the_report_says_when(perigee: Perigee, file: Path) -> None:
    done = perigee("run", file, "--out", "sim")
    assert done.returncode == 0, done.stderr
    packets = carried(file.parent / "sim")
    assert packets["leo.down"] > 3000
    assert packets["geo.down"] > 500
    (file.parent / "sim/study/report.toml").write_text('sections = ["setup"]\n')
    done = perigee("report", "sim")
    assert done.returncode == 0, done.stderr
    page = (file.parent / "sim/report.html").read_text().replace("\xa0", " ")
    assert "geo while leo is dark, 1 s after it is and until 2 s after it was" in page


def test_the_kernel_s_transfer_takes_both_links(perigee: Perigee, file: Path) -> None:
    needs_tun()
    done = perigee("run", file, "--engine", "emu", "--out", "emu")
    assert done.returncode == 0, done.stderr
    flows = pl.read_parquet(file.parent / "emu/flows.parquet")
    assert flows["received_bytes"].to_list() == [9_000_000]
    packets = carried(file.parent / "emu")
    assert packets["leo.down"] > 3000
    assert packets["geo.down"] > 500


WAITING = (
    """
name = "waiting"
nodes = ["server", "gateway", "terminal"]
time_limit = "5 s"
"""
    + link("internet", "server gateway", rate="100 Mbit/s", delay="5 ms")
    + link("first", "gateway terminal", rate="8 Mbit/s", delay="20 ms", queue="900 kB")
    + link("second", "gateway terminal", rate="20 Mbit/s", delay="30 ms", queue="50 kB")
    + """
[[routes]]
node = "gateway"
to = "terminal"
via = "second"
start = "2 s"
waiting = "moved"
"""
    + flow("f", "server terminal", kind="udp", rate="10 Mbit/s", packet="1 kB", duration="1.9 s")
)
"""Datagrams that fill a queue, 2 Mbit/s faster than it empties, until they take the other link, their last one."""


def fates(perigee: Perigee, folder: Path, engine: str) -> dict[str, tuple[int, int]]:
    """The packets that the flow lost under each rule, and those that the second link delivered."""
    found = {}
    for rule in ("kept", "moved", "lost"):
        out = f"{engine}-{rule}"
        done = perigee("run", "waiting.toml", "--engine", engine, "--set", f"route.waiting={rule}", "--out", out)
        assert done.returncode == 0, done.stderr
        lost = pl.read_parquet(folder / out / "flows.parquet")["lost_packets"][0]
        found[rule] = (lost, carried(folder / out).get("second.down", 0))
    return found


def test_waiting_packets_are_kept_moved_or_lost_alike_on_both_engines(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "waiting.toml").write_text(WAITING)
    simulated = fates(perigee, tmp_path, "sim")
    waiting = simulated["lost"][0]
    assert 300 < waiting < 500
    assert simulated["kept"] == (0, 0)
    over, carried_on = simulated["moved"]
    # A queue of 50 kB takes 50 packets of those that arrive at one instant, and one more is in service.
    assert over + carried_on == waiting
    assert 45 <= carried_on <= 51
    needs_tun()
    emulated = fates(perigee, tmp_path, "emu")
    assert emulated["kept"] == (0, 0)
    for rule in ("moved", "lost"):
        for one, other in zip(simulated[rule], emulated[rule], strict=True):
            assert abs(one - other) <= 5, f"{rule}: {simulated[rule]} simulated, {emulated[rule]} emulated"


def test_every_key_of_routes_can_be_set_and_mistakes_have_their_fix(perigee: Perigee, file: Path) -> None:
    done = perigee("run", file, "--out", "later", "--set", "route.detect=4 s")
    assert done.returncode == 0, done.stderr
    assert carried(file.parent / "later")["geo.down"] > 0
    done = perigee("run", file, "--out", "none", "--set", "route.detct=4 s")
    assert done.returncode == 2
    assert "did you mean `detect`" in done.stderr
    file.write_text(STUDY.replace('while_dark = "leo"', 'while_dark = "loe"', 1))
    done = perigee("run", file, "--out", "none")
    assert done.returncode == 2
    assert "routes.toml:37: `routes.while_dark`: there is no link `loe`; did you mean `leo`?" in done.stderr
    assert not (file.parent / "none").exists()


def test_a_real_path_has_routes_of_its_own(perigee: Perigee, file: Path) -> None:
    done = perigee("run", file, "--engine", "live", "--out", "live", "--set", "live.servers.client=127.0.0.1")
    assert done.returncode == 2
    assert "[[routes]] that hold at times: a real path has its own; leave them out" in done.stderr
