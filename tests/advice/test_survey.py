# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee advise HOST` lists all that it sends, sends it after a yes only, and within bounds."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from conftest import Perigee
from namespaces import Lab
from perigee.advice.survey import Survey
from perigee.errors import InputError

SHORT = """
import sys
from pathlib import Path
from perigee.advice import survey
survey._PINGS, survey._DOWN_S, survey._UP_S, survey._FLOOD_S = 5, 6, 5, 2
made = survey.Survey("127.0.0.1", 20_000_000, iperf3_port=int(sys.argv[1]))
print(*made.measure(Path("logs"), lambda what, share: True), sep="\\n")
"""


def test_time_and_bytes_are_bounded_whatever_is_measured() -> None:
    pings = Survey("example.org", 10**9)
    assert (pings.bytes_, pings.programs) == (300 * 2 * 84, ["ping"])
    assert list(pings.told)[-1] == "in all at most 90 s and 0.0504 MB of payload, to example.org and nowhere else"
    whole = Survey("example.org", 10**8, 5201, 7301, b"a-token-of-it")
    assert whole.bytes_ <= 10**8 + pings.bytes_
    assert re.search(r"iperf3 \(TCP, port 5201\): 20 s down and 10 s up, at most 8 Mbit/s each", "\n".join(whole.told))
    assert "perigee probe (UDP, port 7301): rates from 1 Mbit/s up to 6 Mbit/s" in "\n".join(whole.told)


@pytest.mark.parametrize("name", ["-f", "a b", "$(id)", "host;id", ""])
def test_only_names_of_hosts_reach_a_program(name: str) -> None:
    with pytest.raises(InputError, match="no name or address of a host"):
        Survey(name, 10**6)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["example.invalid", "--iperf3", "5201"], "nothing was sent; agree with --yes"),
        (["example.invalid", "--yes"], "give the rates with --down and --up"),
        (["ping.txt", "--iperf3", "5201", "--yes"], "files are given"),
        (["pnig.txt"], "cannot be read"),
        (["example.invalid", "--iperf3", "5201", "--most", "1 B"], "between 20 MB and 100 GB"),
    ],
)
def test_nothing_is_sent_without_a_yes_or_without_a_way_to_know_the_rates(
    perigee: Perigee, tmp_path: Path, given: list[str], said: str
) -> None:
    (tmp_path / "ping.txt").write_text("")
    done = perigee("advise", *given)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="skipped: iperf3 is not installed")
def test_a_host_is_measured_within_its_bounds(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("skipped: network namespaces need root")
    host = Lab(tmp_path)
    try:
        refused = host.run([sys.executable, "-c", SHORT, "5201"])
        assert "unable to connect to server" in refused.stderr
        host.serve(5201)
        done = host.run([sys.executable, "-c", SHORT, "5201"])
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["logs/down.json", "logs/up.json", "logs/udp.json", "logs/ping.txt"]
        carried = sum(
            json.loads((tmp_path / "logs" / name).read_text())["end"][key]["bytes"]
            for name, key in (("down.json", "sum_received"), ("up.json", "sum_received"), ("udp.json", "sum"))
        )
        assert 5_000_000 < carried < 21_000_000
    finally:
        host.end()
