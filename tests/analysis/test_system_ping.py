# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of the system's `ping`: nothing that was lost is left out, and what `ping` says of itself counts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from perigee.analysis.logs import entries_of, pings_of
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


def of_other(number: int) -> str:
    """A line of an answer of another host."""
    return answer(number, 30).replace("192.0.2.1:", "192.0.2.7:")


@pytest.mark.parametrize("has_head", [True, False])
def test_pings_to_two_hosts_are_two_measurements_however_their_lines_are_mixed(tmp_path: Path, has_head: bool) -> None:
    head = HEAD.replace("sat.example", "near.example").replace("192.0.2.1", "192.0.2.7")
    mixed = [line for number in range(1, 6) for line in (answer(number), of_other(number))]
    sums = [summary(6, 5, 5000), summary(5, 5, 4000).replace("sat.", "near.")] if has_head else []
    path = tmp_path / "ping.txt"
    silent = ["no answer yet for icmp_seq=6\n"] * has_head
    path.write_text("".join([HEAD, head * has_head, *mixed, *silent, *sums]))
    found = analyze([path])
    assert found is not None
    rows = [run.tables["flows"].row(0, named=True) for run in found.runs]
    assert [row["rtt_mean_ms"] for row in rows] == [600, 30]
    assert [(row["sent_packets"], row["lost_packets"]) for row in rows] == [(5 + has_head, int(has_head)), (5, 0)]
    assert all("the log holds pings to 2 hosts, each a measurement" in run.notes for run in found.runs)
    assert any("1 lines of pings without an answer name no host" in one for one in found.runs[0].notes) == has_head
    # A fit takes one of them, and says so.
    assert any("of 2 measurements that with most answers is taken" in one for one in pings_of(path)[0].notes)


def test_a_host_that_answers_from_another_address_is_one(tmp_path: Path) -> None:
    row, _, notes = read(tmp_path, *map(of_other, (1, 3)), summary(3, 2, 2000))
    assert (row["sent_packets"], row["lost_packets"]) == (3, 1)
    assert not any("hosts" in note for note in notes)


def test_an_answer_that_came_before_is_left_out_with_a_note(tmp_path: Path) -> None:
    row, _, notes = read(tmp_path, answer(1), answer(2), answer(2, 700), summary(2, 2, 1000))
    assert (row["sent_packets"], row["lost_packets"]) == (2, 0)
    assert any("1 answers have a number that was answered before" in note for note in notes)


@pytest.mark.parametrize("is_timed", [True, False])
def test_a_gap_of_more_than_half_of_the_numbers_is_read_on_behind_with_a_note(tmp_path: Path, is_timed: bool) -> None:
    numbers = [*range(1, 30_001), 70_000, 70_001]
    lines = [answer(one % 65_536, 30, at=1000.0 + one if is_timed else None) for one in numbers]
    row, pings, notes = read(tmp_path, *lines)
    assert (row["sent_packets"], row["lost_packets"], len(pings)) == (70_001, 39_999, 70_001)
    assert any("gaps of more than 32768 pings: 1" in note for note in notes)


def test_a_number_beyond_16_bits_is_damage_and_no_loss(tmp_path: Path) -> None:
    row, _, notes = read(tmp_path, answer(1), answer(99_999_999_999), answer(2))
    assert (row["sent_packets"], row["lost_packets"]) == (2, 0)
    assert "line 3 is not understood" in notes


def test_decimal_commas_dates_of_ts_and_a_missing_head_are_read(tmp_path: Path) -> None:
    row, _, _ = read(tmp_path, answer(1, 30.5).replace("30.5", "30,5"))
    assert row["rtt_mean_ms"] == 30.5
    path = tmp_path / "ts.txt"
    for date in ("Nov 30 02:23:01 ", "2026-11-30T02:23:01.5+0000 ", "", "1700000000.5 "):
        path.write_text("".join(date + answer(number) for number in (1, 2, 4)))
        found = list(entries_of(path))
        assert ([rtt for _, rtt in found], found[0][0] > 1e9) == ([600, 600, None, 600], date != "")
