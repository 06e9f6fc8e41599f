# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of the system's `ping`: nothing that was lost is left out, and what `ping` says of itself counts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from perigee.analysis.logs import entries_of
from perigee.analysis.recordings import analyze

HEAD = "PING sat.example (192.0.2.1) 56(84) bytes of data.\n"


def answer(number: int, rtt_ms: float = 600.0, at: float | None = None) -> str:
    """A line of an answer."""
    time = "" if at is None else f"[{at:.6f}] "
    return f"{time}64 bytes from 192.0.2.1: icmp_seq={number} ttl=50 time={rtt_ms:g} ms\n"


def summary(sent: int, received: int, ms: int | None = None) -> str:
    """Return the summary of `ping`."""
    time = "" if ms is None else f", time {ms}ms"
    counted = f"{sent} packets transmitted, {received} received, {100 * (sent - received) / sent:g}% packet loss"
    return f"\n--- sat.example ping statistics ---\n{counted}{time}\n"


def read(folder: Path, *lines: str) -> tuple[dict[str, object], list[tuple[float, object]], tuple[str, ...]]:
    """The row of a log's flow, its pings, and its notes."""
    path = folder / "ping.txt"
    path.write_text(HEAD + "".join(lines))
    found = analyze([path])
    assert found is not None
    return found.table("flows").row(0, named=True), list(entries_of(path)), found.runs[0].notes


def lost(pings: Iterable[tuple[float, object]]) -> list[int]:
    """Numbers of the pings that were lost, from 1."""
    return [number for number, (_, rtt) in enumerate(pings, 1) if rtt is None]


def test_losses_before_the_first_and_behind_the_last_answer_count(tmp_path: Path) -> None:
    row, pings, notes = read(tmp_path, *map(answer, range(4, 20)), summary(25, 16, 24_017))
    assert (row["sent_packets"], row["lost_packets"]) == (25, 9)
    assert lost(pings) == [1, 2, 3, *range(20, 26)]
    assert "1.001 s apart, as the summary's time says" in notes[0]


def test_pings_without_an_answer_yet_were_sent(tmp_path: Path) -> None:
    def waiting(number: int, at: float) -> str:
        return f"[{at:.6f}] no answer yet for icmp_seq={number}\n"

    lines = [
        answer(1, at=101.1),
        answer(2, at=102.1),
        waiting(3, 104.1),
        answer(4, at=104.1),
        waiting(5, 106.1),
        waiting(6, 107.1),
    ]
    row, pings, notes = read(tmp_path, *lines)
    assert (row["sent_packets"], row["lost_packets"]) == (6, 3)
    assert lost(pings) == [3, 5, 6]
    assert len(notes) == 1
    assert "the log ends without a summary" in notes[0]
    # One that was answered after all, behind a later one.
    row, pings, _ = read(tmp_path, *lines, answer(5, 1900, at=107.2), summary(7, 4, 6000))
    assert (row["sent_packets"], row["lost_packets"], row["rtt_p99_ms"]) == (7, 3, pytest.approx(1900, rel=0.1))
    assert lost(pings) == [3, 6, 7]


def test_the_interval_is_the_summarys_or_it_is_said_that_it_is_assumed(tmp_path: Path) -> None:
    lines = [answer(number) for number in range(1, 301) if number % 30]
    row, pings, notes = read(tmp_path, *lines, summary(300, 290, 59_800))
    assert row["duration_s"] == pytest.approx(59.8)
    assert pings[1][0] - pings[0][0] == pytest.approx(0.2)
    assert "0.2 s apart, as the summary's time says" in notes[0]
    row, _, notes = read(tmp_path, *lines)
    assert any("taken as 1 s apart, the default of `ping`" in note for note in notes)
    assert row["duration_s"] == pytest.approx(298)


def test_a_summary_that_its_lines_contradict_counts_and_is_named(tmp_path: Path) -> None:
    row, _, notes = read(tmp_path, answer(1), answer(2), summary(10, 9, 9000))
    assert (row["sent_packets"], row["lost_packets"]) == (10, 1)
    assert any(
        "says 10 sent and 9 received, its lines 2 and 2; packets sent and lost are the summary's" in one
        for one in notes
    )


def test_several_calls_in_one_log_are_all_read(tmp_path: Path) -> None:
    row, pings, notes = read(
        tmp_path, *map(answer, range(1, 11)), summary(10, 10, 9000), HEAD, answer(2), summary(3, 1, 2000)
    )
    assert (row["sent_packets"], row["lost_packets"]) == (13, 2)
    assert lost(pings) == [11, 13]
    assert any("holds 2 calls of `ping`" in note for note in notes)


def test_a_number_of_16_bits_goes_on_and_a_summary_beyond_all_measure_is_not_believed(tmp_path: Path) -> None:
    row, pings, _ = read(tmp_path, answer(65_534), answer(65_535), answer(1), answer(0))
    assert (row["sent_packets"], row["lost_packets"]) == (65_537, 65_533)
    assert len(pings) == 65_537
    _, pings, _ = read(tmp_path, answer(1), summary(10**12, 1))
    assert len(pings) == 1
