# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Advice: what gains over a path is advised, with commands that are undone; where nothing gains, that is said."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Perigee, pep_program
from perigee.advice.link import Hosts, Link
from perigee.advice.menu import MOST, menu
from perigee.advice.trial import Outcome, Tried
from perigee.commands import advise_apply
from perigee.commands.advice_text import as_dict, lines, short
from perigee.errors import InputError

LONG = Link("long", "geo", "", 50.0, 600.0)


def profile(folder: Path, rate: str, delay: str, queue: str, loss: str = "0 %") -> Path:
    path = folder / "link.toml"
    link = f'[link]\nrate = "{rate}"\ndelay = "{delay}"\nqueue = "{queue}"\nloss = "{loss}"\n'
    path.write_text(f'name = "link"\ntitle = "a link"\nsource = "a test"\n{link}')
    return path


def advice(perigee: Perigee, path: Path, *options: str) -> dict[str, Any]:
    done = perigee("advise", "--profile", path, "--budget", "20", "--json", *options)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_shallow_receive_buffer_is_what_limits_and_what_is_advised(perigee: Perigee, tmp_path: Path) -> None:
    path = profile(tmp_path, "10 Mbit/s", "100 ms", "250 kB")
    found = advice(perigee, path, "--receive-buffer", "100 kB")
    assert "receiver's window" in found["now"]["limited_by"]
    buffers = next(one for one in found["tried"] if one["name"].startswith("Buffers"))
    assert buffers["is_advised"]
    assert buffers["gain_percent"] > 50
    assert buffers["commands"][1].startswith('sysctl -w net.ipv4.tcp_rmem="4096 131072 ')
    # With today's default there is nothing to enlarge.
    assert not any("Buffers" in one["name"] for one in advice(perigee, path)["tried"])


def test_over_a_lossy_long_path_a_proxy_or_a_control_that_stands_losses_is_advised(
    perigee: Perigee, tmp_path: Path
) -> None:
    path = profile(tmp_path, "10 Mbit/s", "300 ms", "750 kB", "0.5 %")
    page = tmp_path / "why.html"
    found = advice(perigee, path, "--explain", str(page))
    best = found["tried"][0]
    assert best["is_advised"]
    assert "Proxy" in best["name"] or best["name"].startswith(("BBR", "Hybla"))
    assert best["interval_percent"][0] > 5
    assert "after losses" in found["now"]["limited_by"]
    text = page.read_text()
    assert text.index(best["does"][1:].split(",")[0]) < text.index("<h2")


def test_over_a_clean_short_path_nothing_gains(perigee: Perigee, tmp_path: Path) -> None:
    done = perigee("advise", "--profile", profile(tmp_path, "5 Mbit/s", "5 ms", "30 kB"))
    assert done.returncode == 0, done.stderr
    assert "Nothing gains 5 %: the most is " in done.stdout
    assert "sysctl" not in done.stdout


def test_files_are_fitted_and_what_they_cannot_tell_lowers_the_confidence(perigee: Perigee, tmp_path: Path) -> None:
    logs = ROOT / "tests" / "data" / "logs"
    kept = tmp_path / "kept"
    alone = perigee("advise", logs / "windows.txt", "--up", "2 Mbit/s")
    assert (alone.returncode, "give the rates with --down and --up" in alone.stderr) == (2, True), alone.stderr
    rates = ("--down", "20 Mbit/s", "--up", "2 Mbit/s")
    done = perigee("advise", logs / "windows.txt", "--json", "--budget", "5", "--keep", kept, *rates)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["confidence"], found["link"]["rtt_ms"]) == ("medium", pytest.approx(600, abs=2))
    assert any("down.queue" in one for one in found["assumed"])
    assert (kept / "study.toml").is_file()
    assert (kept / "link.toml").is_file()


def captured(perigee: Perigee, folder: Path, path: str, hosts: str) -> dict[str, Any]:
    """Advice on the capture of a download of 20 s over 10 Mbit/s and 200 ms."""
    study = folder / "study.toml"
    study.write_text(
        f"""name = "captured"
nodes = ["server", "client"]
rounds = 1
links = [{{ name = "path", between = ["server", "client"], rate = "10 Mbit/s", delay = "100 ms", {path} }}]
flows = [{{ name = "download", from = "server", to = "client", duration = "20 s" }}]
hosts = {{ {hosts} }}
measure = {{ pcap = ["server"] }}
"""
    )
    assert perigee("run", study, "--out", "made").returncode == 0
    done = perigee("advise", *(folder / "made" / "captures").iterdir(), "--budget", "10", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["confidence"] == "low"
    assert any("give the rate with --down" in one for one in found["assumed"])
    return found


def test_a_capture_with_a_full_window_shows_the_buffer_and_no_rate(perigee: Perigee, tmp_path: Path) -> None:
    found = captured(perigee, tmp_path, 'queue = "250 kB"', 'rmem = ["4096 B", "100000 B", "100000 B"]')
    assert found["now"]["goodput_mbps"] == pytest.approx(found["link"]["carried_mbps"], rel=0.1)
    assert found["now"]["receive_bytes"] == pytest.approx(100_000, rel=0.05)
    assert "receiver's window" in found["now"]["limited_by"]
    assert next(one for one in found["tried"] if one["name"].startswith("Buffers"))["is_advised"]
    done = perigee("analyze", *(tmp_path / "made" / "captures").iterdir(), "--json")
    assert json.loads(done.stdout)["files"][0]["flows"][0]["limits"]["receiver"] > 0.9


def test_a_capture_with_losses_shows_them_and_no_rate(perigee: Perigee, tmp_path: Path) -> None:
    found = captured(perigee, tmp_path, 'queue = "250 kB", loss = "1 %"', 'like = "linux-6.18"')
    assert found["now"]["goodput_mbps"] == pytest.approx(found["link"]["carried_mbps"], rel=0.5)
    assert any("sent again, taken for lost" in one for one in found["assumed"])
    best = found["tried"][0]
    assert best["gain_percent"] > 50
    assert "BBR" in best["name"] or "Hybla" in best["name"]


def test_over_a_link_that_does_not_carry_what_was_measured_nothing_is_advised(tmp_path: Path) -> None:
    one = next(one for one in menu(LONG, Hosts(receive_bytes=1 << 20), has_queue=False))
    outcome = Outcome(one, 90.0, 90.0, 800.0, (700.0, 900.0), 900.0, 900.0, 0.0, None, 0.0, 0.0)
    # Its own losses may have given the one that was measured twice the mean: one round had as much.
    like = Tried((outcome,), 9.0, 900.0, "", 9, 1, Path(), (8.5, 12.0), 23.0)
    assert any("+800 %" in line for line in short(LONG, Hosts(), like))
    assert as_dict(LONG, Hosts(), like)["unexplained"] is None
    for measured_mbps in (4.0, 25.0):
        found = replace(like, measured_mbps=measured_mbps)
        said = "\n".join(lines(LONG, Hosts(), found))
        assert "Nothing is advised" in said
        assert "%" not in said
        advice = as_dict(LONG, Hosts(), found)
        assert "does not explain" in advice["unexplained"]
        assert not any(one["is_advised"] for one in advice["tried"])
        with pytest.raises(InputError, match="does not explain"):
            advise_apply.apply(advice, 1, "server", None, tmp_path / "undo.json")


@pytest.mark.parametrize("has_queue", [False, True])
def test_each_entry_of_the_menu_has_commands_and_what_undoes_each(has_queue: bool) -> None:
    entries = menu(LONG, Hosts(receive_bytes=1 << 20), has_queue=has_queue)
    assert len({one.name for one in entries}) == len(entries) <= MOST
    pairs = {
        "sysctl -w ": "sysctl -w ", "perigee cc load": "perigee cc unload", "ip route change": "ip route change",
        "tc qdisc replace dev DEV root": "tc qdisc del dev DEV root", "perigee-pep run": "kill -TERM",
    }  # fmt: skip
    for one in entries:
        for begin, back in pairs.items():
            assert sum(text.startswith(begin) for text in one.commands) == sum(
                text.startswith(back) for text in one.undo
            ), one.name
        kept = [text.split(">")[1].split()[0] for text in one.commands if ".before" in text and ">" in text]
        assert all(any(name in text for text in one.undo) for name in kept)


@pytest.mark.parametrize(
    ("goodputs", "said"),
    [
        (
            (5.0, 9.6, 9.9, 10.0),
            "The knee of sizes is 1/2 BDP (1\u202f875 kB): 95 % of round trips are within 900 ms; 2 BDP",
        ),
        ((5.0, 6.0, 8.0, 10.0), "The knee of sizes is 2 BDP (7\u202f500 kB), the largest that was tried"),
        ((10.0, 9.0, 9.0, 9.0), "The knee of sizes is 1/4 BDP"),
    ],
)
def test_the_knee_is_the_size_from_which_goodput_hardly_grows(goodputs: tuple[float, ...], said: str) -> None:
    sizes = [one for one in menu(LONG, Hosts(), has_queue=True) if one.queue_bytes is not None]
    outcomes = [
        Outcome(one, goodput, goodput, 0.0, None, 900.0, 900.0, 0.0, None, 0.0, 0.0)
        for one, goodput in zip(sizes, goodputs, strict=True)
    ]
    found = Tried(tuple(reversed(outcomes)), 9.0, 900.0, "", 2, 4, Path(), (9.0, 9.0))
    assert list(short(LONG, Hosts(), found))[-1].startswith(said)


def test_where_downloads_are_held_elsewhere_no_knee_is_told() -> None:
    sizes = [one for one in menu(LONG, Hosts(), has_queue=True) if one.queue_bytes is not None]
    outcomes = tuple(Outcome(one, 5.0, 5.0, 0.0, None, 900.0, 900.0, 0.0, None, 0.0, 0.0) for one in sizes)
    found = Tried(outcomes, 5.0, 900.0, "", 2, 4, Path(), (9.0, 9.0))
    assert "no knee of these can be told" in list(short(LONG, Hosts(), found))[-1]
    assert as_dict(LONG, Hosts(), found)["knee"] is None
    # Four times 5 Mbit/s fill 20.
    assert as_dict(replace(LONG, rate_mbps=20.0), Hosts(), found)["knee"] is not None


def test_the_proxys_configuration_is_one_that_it_takes(tmp_path: Path) -> None:
    files = {one.file for one in menu(LONG, Hosts(), has_queue=False) if one.file}
    assert len(files) == 2
    for text in files:
        (tmp_path / "pep.toml").write_text(text)
        done = subprocess.run([pep_program(), "check", tmp_path / "pep.toml"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "give FILE..., HOST or --profile NAME"),
        (["--profile", "no-such"], "no-such"),
        (["--profile", "geo", "--receive-buffer", "much"], "not a size with a unit"),
        (["--profile", "geo", "--cc", "no-such"], "no-such"),
        (["--profile", "geo", "--cc", "nosuch"], "--cc nosuch: there is no congestion control of this name"),
        (["--profile", "geo", "--explain", "x.pdf"], "ends in .html"),
        (["no-such-file"], "is no file that can be read"),
    ],
)
def test_wrong_input_is_refused(perigee: Perigee, given: list[str], said: str) -> None:
    done = perigee("advise", *given)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
