# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee ping` over the loopback device."""

from __future__ import annotations

import hmac
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from conftest import answering, free_port
from perigee.errors import InputError
from perigee.ping import Plan, ping, read_log
from perigee.roundtrips import RoundTrips
from perigee.serving import Limits

Perigee = Callable[..., CompletedProcess[str]]
TOKEN = b"correct-horse"


@pytest.fixture
def port() -> Iterator[int]:
    """A server with a limit of 50 answers a second, in a thread."""
    with answering(TOKEN, Limits(pings=50)) as chosen:
        yield chosen


def plan(port: int, **changes: object) -> Plan:
    settings: dict[str, object] = {"interval_s": 0.02, "timeout_s": 0.5, "count": 10}
    return Plan("127.0.0.1", TOKEN, port=port, **(settings | changes))  # type: ignore[arg-type]


def test_every_datagram_comes_back_and_the_log_says_when(port: int, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    began = time.time()
    counted = ping(plan(port), log)
    assert (counted.sent, counted.lost) == (10, 0)
    assert 0 < counted.min_ms <= counted.quantile_ms(0.5) + 0.1
    assert counted.max_ms < 500
    lines = log.read_text().splitlines()
    assert lines[0].startswith("# perigee ping: to 127.0.0.1, every 20000 us, 20 bytes")
    assert [began - 1 < float(line.split(",")[0]) < time.time() for line in lines[2:]] == [True] * 10


def test_a_log_is_continued_and_what_a_crash_cut_off_is_removed(port: int, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    ping(plan(port, count=3), log)
    with log.open("ab") as file:
        file.write(b"1700000000.1")
    counted = ping(plan(port, count=2), log)
    assert counted.sent == 5
    assert read_log(log).sent == 5
    with pytest.raises(InputError, match="holds something else"):
        ping(plan(port, interval_s=0.05), log)


def test_losses_in_a_row_are_one_event(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rtts = ["600.000", "", "601.000", "", "", "", "602.000"]
    head = plan(1).log_head.decode()
    log.write_text(head + "".join(f"1700000000.{n:03},{rtt}\n" for n, rtt in enumerate(rtts)))
    counted = read_log(log)
    assert (counted.sent, counted.lost, counted.events, counted.single_events, counted.longest_event) == (7, 4, 2, 1, 3)
    log.write_text(head + "1700000000.000,fast\n")
    with pytest.raises(InputError, match=r"log.csv:3: not a time and a round trip"):
        read_log(log)


def test_who_does_not_know_the_token_gets_nothing(port: int) -> None:
    assert ping(Plan("127.0.0.1", b"wrong-horse", port=port, interval_s=0.02, timeout_s=0.2, count=3)).answered == 0


def test_an_answer_is_as_large_as_the_question_and_there_are_no_more_than_the_limit(port: int) -> None:
    head = struct.pack("!4sII", b"PGa1", 1, 2)
    right = head + hmac.digest(TOKEN, head, "sha256")[:8]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.connect(("127.0.0.1", port))
        asker.settimeout(0.5)
        answers = 0
        for question in [right[:-1], b"", right.ljust(1401, b"\0"), right.replace(b"PGa1", b"PGb1")]:
            asker.send(question)
        for size in (20, 500):
            asker.send(right.ljust(size, b"\0"))
            answer = asker.recv(2000)
            assert len(answer) == size
            assert answer[:20] != right
        for _ in range(500):
            asker.send(right)
        asker.settimeout(0.2)
        try:
            while asker.recv(2000):
                answers += 1
        except TimeoutError:
            pass
    # The allowance of a second at once, and what is allowed while they come.
    assert 30 <= answers <= 120


def test_the_summary_needs_little_memory_whatever_it_counts() -> None:
    counted = RoundTrips()
    for n in range(2000):
        counted.add(0.01 * n + (1e6 if n % 500 == 0 else 0))
    assert counted.max_ms > 60_000
    assert len(list(counted.above())) < 300
    assert counted.quantile_ms(0.999) > 59_999


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["127.0.0.1"], "no token is given"),
        (["127.0.0.1", "--token", "short"], "5 letters are too few"),
        (["--token", "correct-horse"], "no host is given"),
        (["127.0.0.1", "--token", "correct-horse", "--interval", "200"], 'not a time with a unit; write "200 ms"'),
        (["no-such-host.invalid", "--token", "correct-horse"], "give a name or an address"),
        (["here", "--serve", "--token", "correct-horse"], "there is no host to ask"),
        (["--summary", "no-such-log"], "no-such-log: cannot be read"),
        (["--summary", __file__], "no log of `perigee ping`"),
    ],
)
def test_wrong_input_is_answered_with_the_fix_and_exit_code_2(
    perigee: Perigee, arguments: list[str], said: str
) -> None:
    done = perigee("ping", *arguments)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_the_command_serves_asks_sums_up_and_ends_on_a_signal(perigee: Perigee, tmp_path: Path) -> None:
    chosen = str(free_port())
    both = ["--token", "correct-horse", "--port", chosen]
    command = [sys.executable, "-m", "perigee", "ping", "--serve", "--bind", "127.0.0.1", *both]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        assert "answering at 127.0.0.1" in server.stderr.readline()
        log, ccdf = tmp_path / "log.csv", tmp_path / "ccdf.csv"
        for _ in range(50):
            done = perigee(
                "ping", "127.0.0.1", *both, "-c", "5", "--interval", "20 ms", "--timeout", "1 s", "--log", log
            )
            if done.returncode == 0:
                break
            log.unlink(missing_ok=True)
        assert done.returncode == 0, done.stderr
        assert "5 sent, 0 lost" in done.stdout
        server.send_signal(signal.SIGTERM)
        assert server.wait(10) == 0
    nobody = perigee("ping", "127.0.0.1", *both, "-c", "2", "--interval", "20 ms", "--timeout", "200 ms")
    assert (nobody.returncode, "nobody answers" in nobody.stderr) == (1, True)
    again = perigee("ping", "--summary", log, "--ccdf", ccdf)
    assert "5 sent" in again.stdout
    assert ccdf.read_text().splitlines()[-1].endswith(",0")
