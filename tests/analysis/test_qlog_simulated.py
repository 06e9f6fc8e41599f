# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs and captures of a simulated transfer over QUIC: what analyze reads off them is what the simulator measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perigee.analysis.recordings import Run, analyze
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.places import find_study
from perigee.store.limits import held_back
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "over-quic"
nodes = ["a", "b"]
[measure]
pcap = ["b"]
qlog = true
"""
    + link("link", "a b", rate="20 Mbit/s", delay="300 ms", loss="0.05 %")
    + flow("f", "a b", size="6 MB", transport="quic")
)
WINDOW = 1_250_000


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a download over 600 ms with the stack's window."""
    folder = tmp_path_factory.mktemp("quic")
    (folder / "study.toml").write_text(STUDY)
    carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "results"))
    return folder / "results"


def _analyzed(results: Path, name: str) -> Run:
    found = analyze([results / "captures" / f"run-000000-{name}"])
    assert found is not None
    return found.runs[0]


def _truth(results: Path) -> dict[str, Any]:
    return Results(results).table("flows").row(0, named=True)


def test_the_log_of_the_sender_says_what_the_simulator_measured(results: Path) -> None:
    run, truth = _analyzed(results, "a-f.sqlog"), _truth(results)
    row = run.tables["flows"].row(0, named=True)
    assert row["received_bytes"] == truth["received_bytes"] == 6_000_000
    lost = run.tables["losses"]["packets"].sum()
    assert lost == truth["lost_packets"] > 0
    # The data of a packet may be sent again in two, whose headers are longer.
    assert lost <= row["retransmitted_packets"] <= 2 * lost + 3
    for column in ("rtt_min_ms", "handshake_ms", "goodput_mbps"):
        # The server begins when the client's first packet arrives, and ends with the last acknowledgement.
        assert row[column] == pytest.approx(truth[column], rel=0.05), column
    # Credit may come a packet before the acknowledgement of what it is for.
    assert run.tables["connections"]["receive_window_max_bytes"][0] == pytest.approx(WINDOW, rel=0.003)
    assert row["rwnd_limited_s"] == pytest.approx(truth["rwnd_limited_s"], rel=0.1, abs=0.1)


def test_both_logs_and_the_report_name_the_window(results: Path) -> None:
    sender, receiver = _analyzed(results, "a-f.sqlog"), _analyzed(results, "b-f.sqlog")
    assert receiver.tables["flows"]["received_bytes"][0] == 6_000_000
    assert any("its window of 1.25 MB allows 16.7 Mbit/s" in note for note in sender.notes), sender.notes
    assert "flows.quic.initial_max_stream_data" in held_back(Results(results))


def test_a_small_window_of_the_connection_is_what_the_report_names(tmp_path: Path) -> None:
    windows = {"initial_max_stream_data": "tuned", "initial_max_data": "500 kB"}
    (tmp_path / "study.toml").write_text(
        'name = "small"\nnodes = ["a", "b"]\n'
        + link("link", "a b", rate="20 Mbit/s", delay="300 ms")
        + flow("f", "a b", size="2 MB", transport="quic", quic=windows)
    )
    carry_out(Job(find_study(str(tmp_path / "study.toml")), Simulator, out=tmp_path / "results"))
    said = held_back(Results(tmp_path / "results"))
    assert "larger sizes of flows.quic.initial_max_data lift this" in said


def test_a_capture_is_of_quic_and_says_what_the_outside_can_tell(results: Path) -> None:
    run, truth = _analyzed(results, "b.pcapng"), _truth(results)
    down = run.tables["flows"].sort("received_bytes").row(-1, named=True)
    assert down["kind"] == "udp"
    assert down["handshake_ms"] == pytest.approx(truth["handshake_ms"], rel=0.01)
    assert any("1 connection of QUIC version 1" in note for note in run.notes), run.notes
    content = (results / "captures" / "run-000000-b.pcapng").read_bytes()
    assert b"without keys" in content[:1000]


def test_datagrams_of_a_capture_have_right_checksums(results: Path) -> None:
    content = (results / "captures" / "run-000000-b.pcapng").read_bytes()
    sums = [_sum(ip) for ip in _packets(content)]
    assert len(sums) > 4000
    assert set(sums) == {0xFFFF}


def _packets(content: bytes) -> list[bytes]:
    """The IP packets of a pcapng file in little-endian order."""
    found, at = [], 0
    while at < len(content):
        kind, length = (int.from_bytes(content[at + shift : at + shift + 4], "little") for shift in (0, 4))
        if kind == 6:
            kept = int.from_bytes(content[at + 20 : at + 24], "little")
            found.append(content[at + 28 + 14 : at + 28 + kept])
        at += length
    return found


def _sum(ip: bytes) -> int:
    """The sum that a checksum makes all ones: of addresses, protocol, length, header and payload."""
    datagram = ip[20:]
    covered = ip[12:20] + bytes([0, ip[9]]) + len(datagram).to_bytes(2, "big") + datagram + bytes(len(datagram) % 2)
    total = sum(int.from_bytes(covered[place : place + 2], "big") for place in range(0, len(covered), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total
