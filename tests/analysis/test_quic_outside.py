# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""QUIC from outside: round trips by the spin bit of a transfer whose ends keep to RFC 9000, and of ends that do not."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee
from perigee.analysis.recordings import Run, analyze
from perigee.report.writer import write_report

SERVER, CLIENT = ("192.0.2.1", 443), ("192.0.2.2", 50_000)
INITIAL = bytes([0xC0, 0, 0, 0, 1])
ONE_WAY_MS, EACH_MS, DATAGRAMS = 50, 2, 1500
PAUSE_S = 0.4
DRAWS = random.Random(1)  # noqa: S311


def _frame(source: tuple[str, int], to: tuple[str, int], payload: bytes) -> bytes:
    addresses = b"".join(bytes(map(int, address.split("."))) for address, _ in (source, to))
    udp = struct.pack(">HHHH", source[1], to[1], 8 + len(payload), 0) + payload
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + addresses + udp


def _capture(path: Path, server_bit: Callable[[bool], bool]) -> Path:
    """Write what passes at the client of a download, an acknowledgement for each second datagram.

    Args:
        path: the file.
        server_bit: the bit that the server sends, of the one that it received last.
    """
    packets = [(0.0, CLIENT, INITIAL + bytes(1195)), (100.0, SERVER, INITIAL + bytes(1195))]
    packets.append((100.0, CLIENT, INITIAL + bytes(60)))
    inverted: list[tuple[float, bool]] = [(100.0, False)]
    """The client's bits, and when they were sent."""
    for number in range(DATAGRAMS):
        sent = 160.0 + EACH_MS * number + (1000 * PAUSE_S if number >= DATAGRAMS // 2 else 0)
        known = [bit for at, bit in inverted if at + ONE_WAY_MS <= sent]
        bit = server_bit(known[-1])
        at = sent + ONE_WAY_MS
        packets.append((at, SERVER, bytes([0x40 | bit << 5]) + bytes(1199)))
        inverted.append((at, not bit))
        if number % 2:
            packets.append((at, CLIENT, bytes([0x40 | (not bit) << 5]) + bytes(30)))
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for at, source, payload in sorted(packets, key=lambda packet: packet[0]):
            data = _frame(source, CLIENT if source == SERVER else SERVER, payload)
            file.write(struct.pack("<IIII", int(at // 1000), round(at % 1000 * 1000), len(data), len(data)) + data)
    return path


def _run(path: Path) -> Run:
    found = analyze([path])
    assert found is not None
    return found.runs[0]


def test_the_spin_bit_gives_round_trips(tmp_path: Path) -> None:
    run = _run(_capture(tmp_path / "spins.pcap", lambda bit: bit))
    flow, quic = (run.tables[name].row(0, named=True) for name in ("flows", "quic"))
    assert (quic["version"], quic["opened_by"], quic["spin_bit"]) == ("version 1", "to", "spins")
    assert flow["handshake_ms"] == pytest.approx(2 * ONE_WAY_MS)
    # The client inverts the bit as a datagram arrives, and the next one that the server sends has it.
    assert flow["rtt_p50_ms"] == pytest.approx(2 * ONE_WAY_MS, abs=2 * EACH_MS)
    assert flow["rtt_min_ms"] == pytest.approx(2 * ONE_WAY_MS, abs=2 * EACH_MS)
    assert quic["spin_turns"] == pytest.approx(DATAGRAMS * EACH_MS / (2 * ONE_WAY_MS), abs=3)
    assert quic["longest_pause_s"] == pytest.approx(PAUSE_S + EACH_MS / 1000, abs=1e-3)
    assert any(note.startswith("round trips of 1 flow over QUIC") for note in run.notes)
    assert run.began_s is None, "a clock that begins at 0 is no time of day"


def test_the_line_and_json_have_what_the_outside_tells(tmp_path: Path, perigee: Perigee) -> None:
    file = _capture(tmp_path / "spins.pcap", lambda bit: bit)
    said = " ".join(perigee("analyze", file).stdout.split())
    assert "QUIC version 1, handshake 100.0 ms, its spin bit spins (" in said
    assert "longest pause 0.40 s from 1.7" in said
    (flow,) = json.loads(perigee("analyze", file, "--json").stdout)["files"][0]["flows"]
    assert (flow["quic"]["version"], flow["quic"]["spin_bit"]) == ("version 1", "spins")
    assert flow["quic"]["longest_pause_s"] == pytest.approx(PAUSE_S + EACH_MS / 1000, abs=1e-3)


@pytest.mark.parametrize(
    ("server_bit", "said"),
    [(lambda _: True, "constant"), (lambda _: DRAWS.random() < 0.5, "drawn")],
    ids=["constant", "drawn"],
)
def test_ends_that_do_not_take_part_give_none(tmp_path: Path, server_bit: Callable[[bool], bool], said: str) -> None:
    run = _run(_capture(tmp_path / "still.pcap", server_bit))
    assert run.tables["quic"]["spin_bit"].to_list() == [said]
    assert run.tables["flows"].select("rtt_min_ms", "rtt_p50_ms").row(0) == (None, None)
    assert any("no round trip is measured but the handshake's" in note for note in run.notes)


def test_the_page_has_what_the_outside_tells(tmp_path: Path, perigee: Perigee) -> None:
    made = perigee("analyze", _capture(tmp_path / "spins.pcap", lambda bit: bit), "--out", tmp_path / "a")
    assert made.returncode == 0, made.stderr
    assert "as far as its encryption shows it" in write_report(tmp_path / "a")[0].read_text()
    assert pl.read_parquet(tmp_path / "a" / "quic.parquet").height == 1
