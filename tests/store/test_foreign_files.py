# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Foreign files of any name, size and content are read, or refused with a reason."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_folder_safety import values

from conftest import ROOT, SMALL_STUDY, Perigee, environment
from perigee import files
from perigee.analysis import iperf3, log, logs, probe_logs
from perigee.analysis.recordings import analyze
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.files import read_bounded
from perigee.fitting.series import read_pings
from perigee.measuring.probe import read_log as read_probe
from perigee.places import find_profile, find_study
from perigee.store.streams import frame_of

PING_HEAD = b"# perigee ping: to x, every 200000 us, 20 bytes, lost after 10000000 us\nunix_s,rtt_ms\n"
SYSTEM_HEAD = b"PING x (192.0.2.1) 56(84) bytes of data.\n"
EDITS = 400


def tables_of(path: Path, study: str) -> None:
    """Read a log of any kind into tables."""
    for found in logs.read(path):
        log.tables(found, study, str(path))


def sparse(path: Path, size: int) -> Path:
    """A sparse file of this size."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.parametrize("read", [find_study, find_profile])
def test_a_text_that_is_too_large_is_refused_by_its_size_before_it_is_read(
    tmp_path: Path, read: Callable[[str], object]
) -> None:
    path = sparse(tmp_path / "large.toml", 1 << 40)
    with pytest.raises(InputError, match=r"large.toml: 1 TiB, larger than 16 MiB, the most that is read of a "):
        read(str(path))


def test_a_device_and_a_pipe_are_read_no_further_than_the_limit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="/dev/zero: larger than 16 MiB, the most that is read of a study"):
        find_study("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    enough = threading.Event()

    def pour() -> None:
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            try:
                while not enough.is_set():
                    pipe.write(bytes(1 << 16))
            except BrokenPipeError:
                enough.set()

    pouring = threading.Thread(target=pour)
    pouring.start()
    with pytest.raises(InputError, match="pipe: larger than 1 MiB"):
        read_bounded(tmp_path / "pipe", 1 << 20, "a study")
    pouring.join(5)
    assert enough.is_set()
    assert read_bounded(Path("/proc/self/comm"), 100, "a name")


def test_iperf3s_json_and_a_log_of_a_probe_have_a_limit(tmp_path: Path) -> None:
    for name, head in (("a.json", b'{"start": {}'), ("a.log", probe_logs.MAGIC)):
        path = sparse(tmp_path / name, 1 << 40)
        with path.open("r+b") as file:
            file.write(head)
        with pytest.raises(InputError, match=f"{name}: 1 TiB, larger than 256 MiB"):
            analyze([path])


@pytest.mark.parametrize("head", [PING_HEAD[:40], PING_HEAD, PING_HEAD + b"1.000,2.000\n", SYSTEM_HEAD])
def test_a_log_without_line_breaks_is_refused_by_the_length_of_its_line(tmp_path: Path, head: bytes) -> None:
    path = sparse(tmp_path / "zeros.csv", 1 << 40)
    with path.open("r+b") as file:
        file.write(head)
    with pytest.raises(InputError, match=r"zeros.csv:[1-4]: (the interval and the size|longer than 64 KiB)"):
        tables_of(path, "x")


@pytest.mark.parametrize("line", [b"1.000," + b"9" * 400 + b".000\n", b"9" * 400 + b".000,1.000\n", bytes(100)])
def test_a_number_of_400_digits_in_a_log_of_pings_is_an_error_with_its_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(PING_HEAD + b"1.000,2.000\n" + line)
    for read in (read_pings, lambda path: tables_of(path, "x")):
        with pytest.raises(InputError, match=r"long.csv:4: not a time and a round trip: b'.{40,200}'; remove the line"):
            read(path)


@pytest.mark.parametrize("wrong", [b"9" * 400, b"1.2.3", b"..", b"9" * 5000])
@pytest.mark.parametrize("line", [b"icmp_seq=%b ttl=1 time=2 ms\n", b"icmp_seq=1 ttl=1 time=%b ms\n"])
def test_a_number_that_is_none_in_a_log_of_the_systems_ping_is_an_error_with_its_line(
    tmp_path: Path, wrong: bytes, line: bytes
) -> None:
    if b"seq=%b" in line and b"." in wrong:
        wrong = b"8" * 20
    path = tmp_path / "ping.txt"
    path.write_bytes(SYSTEM_HEAD + line % wrong)
    with pytest.raises(InputError, match=r"ping.txt:2: not a number of a ping: "):
        tables_of(path, "x")


@pytest.mark.parametrize(
    ("key", "name", "limit"),
    [('rate = { trace = "bw.txt" }', "bw.txt", "256 MiB"), ('profile = "./p.toml"', "p.toml", "16 MiB")],
)
def test_a_recording_and_a_profile_have_a_limit(tmp_path: Path, key: str, name: str, limit: str) -> None:
    (tmp_path / "study.toml").write_text(SMALL_STUDY.replace('rate = "10 Mbit/s"', key))
    sparse(tmp_path / name, 1 << 40)
    with pytest.raises(InputError, match=f"{name}.*it is larger than {limit}"):
        Simulator(find_study(str(tmp_path)), (), False)


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv"
    for cut in (b"", b"1", b"1700000000.1", b"1700000000.100,6", b"1700000000.100,600.000"):
        path.write_bytes(PING_HEAD + b"1.000,2.000\n" + cut)
        assert len(read_pings(path).rtt_ms) == 1


def step(**more: Any) -> dict[str, Any]:
    """A line of a probe's log."""
    blocks = {"received": [5, 5, 0], "least_us": [10, 11, None], "mean_us": [12, 13, None], "most_us": [20, 30, None]}
    report = {"received": 10, "lost": 2, "reordered": 0, "duplicates": 0, "runs": [[1, 2]], "per_block": 6}
    report |= {"first_ns": 10, "last_ns": 10**9, "blocks": blocks, "arrivals": [5, 5, 0]}
    sent = {"packets": 12, "first_ns": 0, "last_ns": 10**9, "refused": 0, "slipped_ns": 0}
    return {"direction": "up", "offered_bps": 10**6, "headers": 28, "began_unix_s": 1.5, "rtt_s": 0.1, "sent": sent,
            "report": report, **more}  # fmt: skip


def edited(document: dict[str, Any], draws: random.Random) -> tuple[dict[str, Any], str]:
    """A document with one value changed or removed, and a description of the change."""
    document = json.loads(json.dumps(document))
    path = draws.choice(values(document))
    inner: Any = document
    for key in path[:-1]:
        inner = inner[key]
    if draws.random() < 0.2:
        del inner[path[-1]]
        return document, f"without {path}"
    others: list[Any] = [None, True, -1, 0, 10**400, 10**30, 1e308, -1.5, "", "9" * 400, [], [[]], [None], {}, {"x": 1}]
    inner[path[-1]] = draws.choice(others)
    return document, f"{path} = {inner[path[-1]]!r}"


def test_every_edit_of_a_log_of_a_probe_is_worked_with_or_refused(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    draws = random.Random(seed)  # noqa: S311 - for edits, not for secrets
    head = {"perigee_probe": 1, "packet": 1000}
    path = tmp_path / "probe.log"

    def write(head: dict[str, Any], record: dict[str, Any]) -> None:
        lines = [json.dumps(each, separators=(",", ":")) for each in (head, step(), record)]
        path.write_text("\n".join(lines) + "\n")

    write(head, step())
    assert len(read_probe(path)) == 2
    for number in range(EDITS):
        changed, said = edited(step() if number % 8 else head, draws)
        write(head if number % 8 else changed, changed if number % 8 else step())
        try:
            made, _ = probe_logs.tables(path, "x")
            assert frame_of(made["flows"]).height in (1, 2), said
            for found in read_probe(path):
                assert found.loss <= 1
                assert found.delay_variation_ms
                assert len(found.lost_over_time) >= 0
        except InputError as error:
            assert str(error).startswith(str(path)), said
        except Exception as error:
            raise AssertionError(f"{said}: {error!r}") from error


def test_every_edit_of_iperf3s_json_is_worked_with_or_refused() -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    draws = random.Random(seed)  # noqa: S311 - for edits, not for secrets
    stream = {"socket": 5, "start": 0, "end": 1.0, "seconds": 1.0, "bytes": 125_000, "retransmits": 1,
              "snd_cwnd": 14480, "rtt": 50_000, "pmtu": 1500, "sender": True}  # fmt: skip
    total = {"socket": 5, "start": 0, "end": 1.0, "seconds": 1.0, "bytes": 125_000, "retransmits": 1, "sender": True}
    connected = {"socket": 5, "local_host": "a", "local_port": 40000, "remote_host": "b", "remote_port": 5201}
    begun = {"protocol": "TCP", "num_streams": 1, "blksize": 131072, "duration": 1, "bytes": 0, "reverse": 0}
    document = {
        "start": {"connected": [connected], "version": "iperf 3.12", "timestamp": {"timesecs": 1}, "tcp_mss": 1448,
                  "test_start": begun},
        "intervals": [{"streams": [stream]}],
        "end": {"streams": [{"sender": total, "receiver": total}], "sender_tcp_congestion": "cubic"},
    }  # fmt: skip
    (found,) = iperf3.read(json.dumps(document), "a.json")
    assert log.tables(found, "x", "a.json")[0]["flows"].height == 1
    for _ in range(EDITS):
        changed, said = edited(document, draws)
        try:
            for found in iperf3.read(json.dumps(changed), "a.json"):
                log.tables(found, "x", "a.json")
        except InputError:
            pass
        except Exception as error:
            raise AssertionError(f"{said}: {error!r}") from error


@pytest.mark.drawn
def test_names_of_files_that_are_no_utf_8_work_in_every_command(tmp_path: Path, perigee: Perigee) -> None:
    bad = os.fsdecode(b"bad\xff")
    (tmp_path / f"{bad}.csv").write_bytes(PING_HEAD + b"1.000,2.000\n1.200,3.000\n")
    (tmp_path / f"{bad}.toml").write_text(SMALL_STUDY)
    # This process gets bytes as arguments; the forked ones get the same names as strings.
    started: list[str | bytes] = [sys.executable, "-m", "perigee", "run", b"bad\xff.toml", "--out", b"bad\xff-results"]
    done = subprocess.run(started, cwd=tmp_path, env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"bad\xff-results\n"), done.stderr
    answer = perigee("report", f"{bad}-results")
    assert (answer.returncode, answer.stdout) == (0, f"{bad}-results/report.html\n"), answer.stderr
    answer = perigee("analyze", f"{bad}.csv", "--out", f"{bad}-analysis")
    assert answer.returncode == 0, answer.stderr
    answer = perigee("compare", f"{bad}-results", f"{bad}-results", "--csv", f"{bad}-cells.csv")
    assert answer.returncode == 0, answer.stderr
    for command in (("analyze", f"{bad}.pcap"), ("fit", "--ping", f"{bad}.pcap", "-o", "x"), ("report", f"{bad}-none")):
        answer = perigee(*command)
        assert answer.returncode == 2, answer.stderr
        assert "Traceback" not in answer.stderr
        assert "bad" in answer.stderr
    answer = perigee("run", f"{bad}.toml", "--set", f"flow.cc=./{bad}.c")
    assert answer.returncode == 2
    assert "is no UTF-8" in answer.stderr


def test_a_capture_of_a_name_that_is_no_utf_8_is_analysed(tmp_path: Path, perigee: Perigee) -> None:
    (tmp_path / "study.toml").write_text(SMALL_STUDY + "[measure]\npcap = true\n")
    assert perigee("run", "study.toml", "--out", "results").returncode == 0
    capture = next((tmp_path / "results" / "captures").iterdir())
    named = tmp_path / os.fsdecode(b"caught\xff.pcapng")
    capture.rename(named)
    answer = perigee("analyze", named)
    assert answer.returncode == 0, answer.stderr
    assert "10.71.0.1:5201" in answer.stdout


def test_limits_are_those_that_the_documentation_names() -> None:
    page = (ROOT / "docs" / "reference" / "files.md").read_text()
    for limit in (files.TEXT_BYTES, files.DOCUMENT_BYTES, files.PROBE_LOG_BYTES, files.LINE_BYTES):
        assert files.shown_bytes(limit) in page
