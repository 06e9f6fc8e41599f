# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee ping` over the loopback device."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Self

import pytest

from conftest import answering, free_port, next_line, running
from perigee.analysis.recordings import analyze
from perigee.core import native
from perigee.errors import InputError
from perigee.measuring.ping import PingPlan, ping, read_log
from perigee.measuring.round_trips import RoundTrips
from perigee.measuring.server import Limits
from perigee.measuring.tokens import key_of

Perigee = Callable[..., CompletedProcess[str]]
TOKEN = b"correct-horse"


@pytest.fixture
def port() -> Iterator[int]:
    """A server with a limit of 50 answers a second, in a thread."""
    with answering(TOKEN, Limits(pings=50)) as chosen:
        yield chosen


def plan(port: int, **changes: object) -> PingPlan:
    settings: dict[str, object] = {"interval_s": 0.02, "timeout_s": 0.5, "count": 10}
    return PingPlan("127.0.0.1", TOKEN, port=port, **(settings | changes))  # type: ignore[arg-type]


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


def test_a_client_without_the_token_gets_no_answer(port: int) -> None:
    assert ping(PingPlan("127.0.0.1", b"wrong-horse", port=port, interval_s=0.02, timeout_s=0.2, count=3)).answered == 0


class Asker:
    """A client of arbitrary datagrams: one session, and the datagrams sent in it."""

    def __init__(self, port: int, token: bytes = TOKEN) -> None:
        self.pinger = native.Pinger(7, key_of(token))
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))
        self.socket.settimeout(0.3)

    def ask(self, datagram: bytes) -> bytes:
        """The answer."""
        self.socket.send(datagram)
        return self.socket.recv(2000)

    def open(self) -> None:
        """Open the session."""
        asked = self.pinger.read(self.ask(self.pinger.hello()))
        assert asked is not None
        assert asked.kind == "challenge"
        assert self.reply(self.pinger.open(asked.challenge, 0))[0] == "welcome"

    def reply(self, datagram: bytes) -> tuple[str, int]:
        """Kind and number of the answer."""
        reply = self.pinger.read(self.ask(datagram))
        assert reply is not None
        return reply.kind, reply.number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.socket.close()


def test_an_answer_is_as_large_as_the_question_and_no_number_has_two(port: int) -> None:
    with Asker(port) as asker:
        asker.open()
        right = asker.pinger.ask(0, 20)
        for question in [right[:-1], b"", right.ljust(1401, b"\0"), right.replace(b"PGa2", b"PGb2")]:
            asker.socket.send(question)
        for number, size in enumerate((20, 500)):
            question = asker.pinger.ask(number, size)
            answer = asker.ask(question)
            assert (len(answer), answer[:20] == question[:20]) == (size, False)
            reply = asker.pinger.read(answer)
            assert reply is not None
            assert (reply.kind, reply.number) == ("answer", number)
            with pytest.raises(TimeoutError):
                asker.ask(question)


def test_a_recorded_ping_has_no_answer_and_uses_up_nothing_of_its_senders_limit(port: int) -> None:
    with Asker(port) as asker, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        asker.open()
        recorded = asker.pinger.ask(0, 20)
        asker.ask(recorded)
        stranger.connect(("127.0.0.1", port))
        for _ in range(5000):
            stranger.send(recorded)
            asker.socket.send(recorded)
        for number in range(1, 40):
            assert asker.reply(asker.pinger.ask(number, 20)) == ("answer", number)
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.recv(2000)


def test_pings_over_the_server_s_limit_are_not_counted_as_lost(
    perigee: Perigee, port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    counted = ping(plan(port, interval_s=0.004, count=250), log)
    # The burst of 50 answers, and 50 more in the second of the test.
    assert (counted.sent, counted.lost) == (250, 0)
    assert 60 <= counted.answered <= 140
    assert counted.limited == 250 - counted.answered
    assert "answers 50 pings a second of one address" in capsys.readouterr().err
    assert read_log(log).limited == counted.limited
    said = perigee("ping", "--summary", log).stdout
    assert "250 sent, 0 lost (0.000 %) in 0 events" in said
    assert f"{counted.limited} reached the server over its limit" in said
    # The counts are the same after the log is continued and when it is analysed.
    again = ping(plan(port, interval_s=0.004, count=1), log)
    assert (again.sent, again.limited - counted.limited) in ((251, 0), (251, 1))
    analysed = analyze([log])
    assert analysed is not None
    (flow,) = analysed.table("flows").to_dicts()
    assert (flow["sent_packets"], flow["lost_packets"]) == (again.answered, 0)
    assert analysed.table("exchanges").height == again.answered


def test_a_restarted_server_answers_the_same_client_again() -> None:
    chosen: list[int] = []
    counted: list[RoundTrips] = []

    def client() -> None:
        wanted = plan(chosen[0], interval_s=0.05, timeout_s=4.0, count=160)
        counted.append(ping(wanted))

    with answering(TOKEN, Limits(pings=50)) as port:
        chosen.append(port)
        thread = threading.Thread(target=client)
        thread.start()
        time.sleep(1)
    with answering(TOKEN, Limits(pings=50), port=chosen[0]):
        thread.join(30)
    # The client notices silence after 3 s; pings sent until then are lost.
    assert counted[0].sent == 160
    assert 50 <= counted[0].lost <= 110
    assert counted[0].events == 1


def test_one_datagram_does_not_let_a_dictionary_be_tried_at_the_speed_of_a_hash() -> None:
    pinged = native.Pinger(7, key_of(TOKEN)).ask(0, 20)
    for hashed in (TOKEN, hashlib.sha256(TOKEN).digest()):
        assert hmac.digest(hashed, pinged[:12], "sha256")[:8] != pinged[12:]
    # RFC 7914 with 32 MiB, three times over.
    stretched = hashlib.scrypt(TOKEN, salt=b"perigee ping and probe 2", n=32768, r=8, p=3, maxmem=1 << 27, dklen=32)
    assert hmac.digest(stretched, pinged[:12], "sha256")[:8] == pinged[12:]


def test_a_server_without_a_token_makes_one_in_a_file_that_only_its_user_can_read(
    perigee: Perigee, tmp_path: Path
) -> None:
    chosen = str(free_port(socket.SOCK_DGRAM))
    command = [sys.executable, "-m", "perigee", "ping", "--serve", "--bind", "127.0.0.1", "--port", chosen]
    environment = {name: value for name, value in os.environ.items() if name != "PERIGEE_TOKEN"}
    for arguments in ([], ["--token-file", str(tmp_path / "token")]):
        with running([*command, *arguments], stderr=subprocess.PIPE, env=environment) as server:
            said = next_line(server.stderr)
            assert "a token was made" in said
            assert "listening on 127.0.0.1" in next_line(server.stderr)
            token = arguments or ["--token", said.strip().rpartition("PERIGEE_TOKEN=")[2]]
            done = perigee("ping", "127.0.0.1", *token, "--port", chosen, "-c", "3", "--interval", "20 ms")
            assert "3 sent, 0 lost" in done.stdout, done.stderr
            server.send_signal(signal.SIGTERM)
            assert server.wait(300) == 0
    made = tmp_path / "token"
    assert made.stat().st_mode & 0o777 == 0o600
    assert re.fullmatch("[a-z2-7]{26}\n", made.read_text())
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    refused = perigee("ping", "--serve", "--port", chosen, "--token-file", tmp_path / "link")
    assert (refused.returncode, "cannot be read" in refused.stderr) == (2, True)
    assert not (tmp_path / "elsewhere").exists()


def test_the_server_names_a_client_of_an_older_version(tmp_path: Path) -> None:
    chosen = free_port(socket.SOCK_DGRAM)
    command = [sys.executable, "-m", "perigee", "ping", "--serve", "--bind", "127.0.0.1", "--port", str(chosen)]
    with running([*command, "--token", "correct-horse"], stderr=subprocess.PIPE) as server:
        assert "listening on" in next_line(server.stderr)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as old:
            for _ in range(3):
                old.sendto(b"PGa1" + bytes(16), ("127.0.0.1", chosen))
            assert "127.0.0.1 uses an older protocol" in next_line(server.stderr)
        server.send_signal(signal.SIGTERM)
        assert server.communicate(timeout=300)[1] == ""
        assert server.returncode == 0


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
        (["127.0.0.1"], "and start `perigee ping --serve` there, which makes one"),
        ([], "no host is given"),
        (["127.0.0.1", "--token", "short"], "5 letters are too few"),
        (["--token", "correct-horse"], "no host is given"),
        (["127.0.0.1", "--token", "correct-horse", "--interval", "200"], 'not a time with a unit; write "200 ms"'),
        (["no-such-host.invalid", "--token", "correct-horse"], "give a name or an address"),
        (["here", "--serve", "--token", "correct-horse"], "--serve takes no host"),
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
    chosen = str(free_port(socket.SOCK_DGRAM))
    both = ["--token", "correct-horse", "--port", chosen]
    command = [sys.executable, "-m", "perigee", "ping", "--serve", "--bind", "127.0.0.1", *both]
    with running(command, stderr=subprocess.PIPE) as server:
        assert "listening on 127.0.0.1" in next_line(server.stderr)
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
        assert server.wait(300) == 0
    nobody = perigee("ping", "127.0.0.1", *both, "-c", "2", "--interval", "20 ms", "--timeout", "200 ms")
    assert (nobody.returncode, "no server answers" in nobody.stderr) == (1, True)
    again = perigee("ping", "--summary", log, "--ccdf", ccdf)
    assert "5 sent" in again.stdout
    assert ccdf.read_text().splitlines()[-1].endswith(",0")
