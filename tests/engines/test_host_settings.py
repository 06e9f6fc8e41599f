# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A report has the settings that hosts really had, and all values of what a study varies."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import SMALL_STUDY, Perigee
from perigee.core import native
from perigee.engines.host.settings import UNKNOWN, of_namespaces, of_real_hosts, of_this_host
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import find_study
from perigee.report.assemble import assemble
from perigee.report.measured import round_trips
from perigee.report.style import styled
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "varied"
nodes = ["a", "b"]
[hosts]
rmem = ["4096 B", "131072 B", "6291456 B"]
"""
    + link("l", "a b", rate="10 Mbit/s", delay="20 ms", queue="100 kB")
    + flow("f", "a b", size="100 kB")
    + """
[vary]
"links.l.rate" = ["10 Mbit/s", "50 Mbit/s", "100 Mbit/s"]
"flow.cc" = ["cubic", "reno"]
"hosts.a.wmem" = [["4096 B", "16384 B", "4 MB"], ["4096 B", "16384 B", "60 MB"]]
"""
)


def test_the_setup_of_a_report_has_all_values_of_what_varies_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    carry_out(Job(find_study(str(path)), Simulator, out=tmp_path / "results"))
    with styled():
        report = assemble(Results(tmp_path / "results"))
    rows = {table.name: {row[0].text: row[1].text for row in table.rows} for table in report.tables()}
    assert rows["setup-links"]["rate"] == "10, 50, 100 Mbit/s (varied)"
    assert rows["setup-links"]["delay"] == "20 ms"
    assert rows["setup-flows"]["congestion control"] == "cubic, reno (varied)"
    assert rows["setup-flows"]["start"] == "0 s"
    hosts = next(table for table in report.tables() if table.name == "setup-hosts")
    assert hosts.head == ["Setting", "a", "b"]
    cells = {row[0].text: [cell.text for cell in row[1:]] for row in hosts.rows}
    assert cells["send buffer (minimum, initial, maximum)"] == [
        "4096 B, 16 KiB, 4 MB; 4096 B, 16 KiB, 60 MB (varied)", "4096 B, 16 KiB, 4 MiB",
    ]  # fmt: skip
    assert cells["receive buffer (minimum, initial, maximum)"] == ["4096 B, 128 KiB, 6 MiB"] * 2


def test_the_sysctls_of_this_host_are_read_and_those_it_lacks_left_out(tmp_path: Path) -> None:
    (tmp_path / "tcp_rmem").write_text("4096\t131072\t33554432\n")
    (tmp_path / "tcp_sack").write_text("1\n")
    own = of_this_host(tmp_path)
    assert own == {"tcp_rmem": "4096\t131072\t33554432\n", "tcp_sack": "1\n"}
    here, there = of_real_hosts({"client": own}, ["server"])
    assert [name.partition(":")[0] for name, _ in here["properties"]] == ["tcp_rmem", "tcp_sack"]
    assert here["properties"][0][1] == "4096 B, 128 KiB, 32 MiB"
    assert {text for _, text in there["properties"]} == {UNKNOWN}


@pytest.mark.parametrize(
    ("engine", "files", "each"),
    [
        ("sim", [], "acknowledgements"), ("emu", [], "acknowledgements"), ("live", [], "intervals"),
        ("capture", ["capture"], "acknowledgements"), ("capture", ["capture", "iperf3"], "samples"),
    ],
)  # fmt: skip
def test_a_report_says_what_its_round_trips_were_measured_on(engine: str, files: list[str], each: str) -> None:
    class Seen:
        manifest = {"engine": engine}  # noqa: RUF012 - of one test
        is_analysis = engine == "capture"

        def files(self) -> list[dict[str, str]]:
            return [{"kind": kind} for kind in files]

    assert round_trips(Seen()).each == each  # type: ignore[arg-type]


def test_every_sysctl_of_a_setting_has_its_words() -> None:
    known = native.tcp_sysctls()
    assert {"tcp_rmem", "tcp_wmem", "tcp_sack", "tcp_syn_retries"} <= {name for _, name in known}
    assert all(words and name.startswith("tcp_") for words, name in known)


@pytest.mark.parametrize("largest", [["60000000"], ["60000000", "30000000"]])
def test_the_sysctls_of_namespaces_are_those_of_all_points(largest: list[str]) -> None:
    hosts = of_namespaces(lambda index: [("a", [("tcp_rmem", f"4096 131072 {largest[index]}")])], len(largest))
    ((_, text),) = hosts[0]["properties"]
    several = "; 4096 B, 128 KiB, 30 MB (varied)" if len(largest) > 1 else ""
    assert text == f"4096 B, 128 KiB, 60 MB{several}"


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ('like = "linux-6.18"', "Linux 6.18"),
        ('like = "linux-6.18", sack = false', "Linux 6.18, but SACK off"),
        ('sack = false, b = { like = "ns-2" }', "ns-2"),
    ],
)
def test_a_host_is_a_system_by_name_and_settings_beside_it_win(hosts: str, said: str, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(f"hosts = {{ {hosts} }}\n{SMALL_STUDY}")
    carry_out(Job(find_study(str(study)), Simulator, out=tmp_path / "results"))
    with styled():
        report = assemble(Results(tmp_path / "results"))
    setup = next(table for table in report.tables() if table.name == "setup-hosts")
    assert {row[0].text: row[-1].text for row in setup.rows}["system"] == said


def test_systems_are_listed_and_shown_with_their_sources(perigee: Perigee) -> None:
    assert "linux-4.15" in perigee("hosts").stdout
    shown = perigee("hosts", "show", "linux-2.6.20").stdout
    assert "RFC 3390" in shown
    assert "wmem" not in shown
    assert "wmem" in perigee("hosts", "show", "linux-2.6.20", "--all").stdout
    wrong = perigee("hosts", "show", "linux-4")
    assert wrong.returncode == 2
    assert "did you mean `linux-4.15`?" in wrong.stderr
