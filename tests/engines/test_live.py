# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee run --engine live` with real iperf3, in separate network namespaces."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import polars as pl
import pytest

from conftest import ROOT, environment, next_line
from namespaces import PERIGEE, Lab, wait_until
from study_text import flow, link

NEAR = "100.64.0.1"
"""The host outside of `perigee exec`, as the program behind the link sees it."""

STUDY = (
    """
name = "between"
rounds = 2
nodes = ["server", "client"]
[measure]
series = "500 ms"
goodput_bin = "500 ms"
startup = "1 MB"
"""
    + link("path", "server client", rate="20 Mbit/s", delay="20 ms", queue="200 kB")
    + flow("download", "server client", size="6 MB")
)
ALGORITHMS = '[vary]\n"flow.cc" = ["reno", "cubic"]\n'
HERE = ["--engine", "live", "--set", "live.servers.server=127.0.0.1:5201"]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("namespaces of one's own need root")
    if missing := [program for program in ("iperf3", "nsenter", "ip", "ss") if shutil.which(program) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:  # noqa: S607
        pytest.skip("no network namespaces")
    (tmp_path / "between.toml").write_text(STUDY)
    (tmp_path / "both.toml").write_text(STUDY + ALGORITHMS)
    lab = Lab(tmp_path)
    # As fast as the processor can, transfers of seconds would take all of it.
    lab.run(["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "100mbit", "burst", "256kb", "limit", "1mb"])
    yield lab
    lab.end()


def flows(lab: Lab, folder: str = "results/between-live") -> pl.DataFrame:
    return pl.read_parquet(lab.folder / folder / "flows.parquet")


def raw(lab: Lab) -> list[str]:
    return sorted(path.name for path in (lab.folder / "results/between-live/raw").iterdir())


def begun(lab: Lab, run: int, flow: str = "download") -> int:
    text = (lab.folder / f"results/between-live/raw/run-{run:06d}-{flow}.json").read_text()
    return int(json.loads(text)["start"]["timestamp"]["timesecs"])


@pytest.mark.quiet  # a rate over half a second is as exact as the wake-up of threads
def test_downloads_over_a_link_have_its_rate_and_its_round_trip_and_are_reported_and_compared(lab: Lab) -> None:
    if not Path("/dev/net/tun").exists():
        pytest.skip("no /dev/net/tun")
    lab.serve()
    both = lab.folder / "both.toml"
    # Reno depends little on chance, Cubic in whether it leaves slow start early.
    both.write_text(both.read_text().replace("6 MB", "12 MB").replace('["reno", "cubic"]', '["reno"]'))
    link = ["exec", "--quiet", "--link", "geo"]
    for way in ("down", "up"):
        link += ["--set", f"{way}.rate=20 Mbit/s", "--set", f"{way}.delay=20 ms", "--set", f"{way}.queue=200 kB"]
    live = ["run", "both.toml", "--engine", "live", "--set", f"live.servers.server={NEAR}"]
    done = lab.perigee(*link, "--", *PERIGEE, *live)
    assert done.returncode == 0, done.stderr
    found = flows(lab)
    assert found["cc"].to_list() == ["reno"] * 2
    assert found["completed"].all()
    assert found["engine"].unique().to_list() == ["live"]
    assert found["received_bytes"].is_between(12_000_000, 12_100_000).all()
    # 1448 of 1500 bytes are payload; slow start takes the first seconds. A round in which the machine stands still
    # for a moment is slower: the faster one shows the capacity of the link.
    assert found["goodput_mbps"].max() <= 19.4, found["goodput_mbps"]  # type: ignore[operator]
    assert found["steady_goodput_mbps"].max() <= 20, found["steady_goodput_mbps"]  # type: ignore[operator]
    assert found["goodput_mbps"].max() >= 15, found["goodput_mbps"]  # type: ignore[operator]
    assert found["steady_goodput_mbps"].max() >= 15, found["steady_goodput_mbps"]  # type: ignore[operator]
    assert found["rtt_min_ms"].is_between(39.9, 125).all(), found["rtt_min_ms"]
    assert (found["sent_packets"] >= 12_000_000 / 1448).all()
    assert found["rto_count"].is_null().all()
    setup = json.loads((lab.folder / "results/between-live/study/setup.json").read_text())
    own, other = ({name.partition(":")[0]: text for name, text in host["properties"]} for host in setup["hosts"])
    assert own["tcp_sack"] == Path("/proc/sys/net/ipv4/tcp_sack").read_text().strip()
    assert set(other.values()) == {"unknown"}
    series = pl.read_parquet(lab.folder / "results/between-live/series.parquet")
    total = series.group_by("run").agg(pl.col("acked_bytes").max()).sort("run")
    assert total["acked_bytes"].to_list() == found["received_bytes"].to_list()
    # Where the machine stands still for a moment, what was due by then arrives in the interval after it.
    of_two = series.select(pl.col("goodput_mbps").rolling_mean(2).over("run")).to_series()
    assert of_two.max() < 24, series["goodput_mbps"]  # type: ignore[operator]
    assert raw(lab) == [f"run-{run:06d}-download.json" for run in range(2)]
    simulated = lab.perigee("run", "both.toml")
    assert simulated.returncode == 0, simulated.stderr
    for column, share in (("goodput_mbps", 0.05), ("steady_goodput_mbps", 0.05), ("rtt_mean_ms", 0.1)):
        here, there = (flows(lab, folder)[column].to_list() for folder in ("results/between", "results/between-live"))
        near = [measured == pytest.approx(expected, rel=share) for expected, measured in zip(here, there, strict=True)]
        assert any(near), (column, here, there)
    compared = lab.perigee("compare", "results/between", "results/between-live")
    assert compared.returncode == 0, compared.stderr
    assert "Reno" in compared.stdout
    reported = lab.perigee("report", "results/between-live")
    assert reported.returncode == 0, reported.stderr
    page = (lab.folder / "results/between-live/report.html").read_text()
    assert f"to the server {NEAR}, port 5201" in page
    assert "byte for byte" not in page


@pytest.mark.quiet  # the datagrams of two seconds are as many as the sender wakes up for
def test_uploads_and_datagrams_and_flows_at_once_each_have_a_server(lab: Lab) -> None:
    for port in (5201, 5202, 5203):
        lab.serve(port)
    study = STUDY.replace("rounds = 2", "rounds = 1").replace('size = "6 MB"', 'duration = "3 s"')
    study += '[[flows]]\nname = "upload"\nfrom = "client"\nto = "server"\nduration = "2 s"\nstart = "1 s"\n'
    study += '[[flows]]\nname = "voice"\nkind = "udp"\nfrom = "client"\nto = "server"\nduration = "2 s"\n'
    study += 'rate = "1 Mbit/s"\npacket = "1000 B"\necn = true\nl4s = true\npriority = "low"\n'
    (lab.folder / "three.toml").write_text(study)
    done = lab.perigee("run", "three.toml", *HERE)
    assert done.returncode == 0, done.stderr
    found = flows(lab)
    assert found["flow"].to_list() == ["download", "upload", "voice"]
    assert found["from_node"].to_list() == ["server", "client", "client"]
    assert found["start_s"].to_list() == [0, 1, 0]
    assert found["completed"].all()
    assert found["duration_s"].to_list() == pytest.approx([3, 2, 2], abs=1)
    voice = found.row(2, named=True)
    # 972 of 1000 bytes are payload.
    assert voice["goodput_mbps"] * voice["duration_s"] == pytest.approx(2 * 0.972, rel=0.05)
    assert voice["sent_packets"] == pytest.approx(250, abs=5)
    assert voice["lost_packets"] is not None
    raw = json.loads((lab.folder / "results/between-live/raw/run-000000-voice.json").read_text())
    # ECT(1), and the DSCP of lower effort (RFC 8622).
    assert raw["start"]["test_start"]["tos"] == 5
    assert begun(lab, 0, "upload") - begun(lab, 0, "download") in (1, 2, 3)


def test_packets_have_the_ip_version_of_the_study(lab: Lab) -> None:
    lab.serve()
    for version, address in (("v4", "127.0.0.1"), ("v6", "::1")):
        settings = [
            "--set",
            "rounds=1",
            "--set",
            f"flow.ip={version}",
            "--set",
            f"live.servers.server=[{address}]:5201",
        ]
        done = lab.perigee("run", "between.toml", "--engine", "live", *settings, "--fresh")
        assert done.returncode == 0, done.stderr
        file = lab.folder / "results/between-live/raw/run-000000-download.json"
        assert json.loads(file.read_text())["start"]["connected"][0]["remote_host"] == address


def test_no_run_is_lost_when_a_server_is_killed_and_started_again(lab: Lab) -> None:
    server = lab.serve()
    (lab.folder / "long.toml").write_text(STUDY.replace('size = "6 MB"', 'duration = "3 s"'))
    running = lab.start([*PERIGEE, "run", "long.toml", *HERE])
    wait_until((lab.folder / "results/between-live/shards/run-000000.shard").exists)
    time.sleep(1.5)
    server.kill()
    time.sleep(1)
    lab.serve()
    _, said = running.communicate(timeout=300)
    assert running.returncode == 0, said
    assert "trying again in 2 s" in said
    found = flows(lab)
    assert found["completed"].to_list() == [True, True]
    assert found["duration_s"].to_list() == pytest.approx([3, 3], abs=1)
    assert "run-000001-download-failed-1.json" in raw(lab)


def test_a_run_that_keeps_failing_is_kept_with_its_cause_and_named_at_the_end(lab: Lab) -> None:
    server = lab.serve()
    study = STUDY.replace("rounds = 2", "rounds = 3").replace('size = "6 MB"', 'duration = "2 s"')
    (lab.folder / "long.toml").write_text(study)
    running = lab.start([*PERIGEE, "run", "long.toml", *HERE, "--set", "live.retries=0", "--set", "live.pause=1 s"])
    wait_until((lab.folder / "results/between-live/shards/run-000000.shard").exists)
    server.kill()
    wait_until((lab.folder / "results/between-live/shards/run-000001.shard").exists)
    lab.serve()
    _, said = running.communicate(timeout=300)
    assert running.returncode == 0, said
    assert "its flows are kept as failed" in said
    assert re.search(r"not completed: [12] of 3 flows", said), said
    found = flows(lab)
    assert found["run"].to_list() == [0, 1, 2]
    assert (found["outcome"][0], found["completed"][1]) == ("completed", False)
    assert found["outcome"][1] in ("refused", "reset", "stopped")
    record = json.loads((lab.folder / "results/between-live/raw/run-000001-failed.json").read_text())
    assert record["attempts"][0]["error"]
    assert lab.perigee("report", "results/between-live").returncode == 0


def test_a_run_to_be_tried_again_is_left_to_the_same_command(lab: Lab) -> None:
    server = lab.serve()
    (lab.folder / "long.toml").write_text(STUDY.replace('size = "6 MB"', 'duration = "2 s"'))
    command = ["run", "long.toml", *HERE, "--set", "live.retries=0", "--set", "live.failed=again"]
    running = lab.start([*PERIGEE, *command, "--set", "live.pause=2 s"])
    wait_until((lab.folder / "results/between-live/shards/run-000000.shard").exists)
    server.kill()
    _, said = running.communicate(timeout=300)
    assert (running.returncode, "give the same command again to go on with this run" in said) == (1, True), said
    lab.serve()
    again = lab.perigee(*command)
    assert again.returncode == 0, again.stderr
    assert flows(lab)["run"].to_list() == [0, 1]


def test_without_a_server_the_study_ends_with_the_command_to_start_one(lab: Lab) -> None:
    done = lab.perigee("run", "between.toml", *HERE, "--set", "live.retries=1")
    assert done.returncode == 1, done.stderr
    assert "trying again in 2 s" in done.stderr
    assert "iperf3 --server --json --port 5201; tried 2 times, and nothing has come through yet" in done.stderr


def test_a_run_waits_for_a_busy_server(lab: Lab) -> None:
    lab.serve()
    other = lab.start(["iperf3", "--client", "127.0.0.1", "--time", "100"])
    at_server = ["ss", "-Htn", "state", "established", "sport = :5201"]
    # The control connection and one data connection.
    wait_until(lambda: len(lab.run(at_server).stdout.splitlines()) == 2)
    running = lab.start([*PERIGEE, "run", "between.toml", *HERE, "--set", "rounds=1"])
    said = ""
    while "the server is busy running a test" not in said:
        line = next_line(running.stderr)
        assert line, said
        said += line
    other.kill()
    _, rest = running.communicate(timeout=300)
    assert running.returncode == 0, said + rest
    assert flows(lab)["completed"].to_list() == [True]


def test_an_interrupt_loses_no_run_and_leaves_no_process_and_the_same_command_goes_on(lab: Lab) -> None:
    lab.serve()
    (lab.folder / "long.toml").write_text(STUDY.replace('size = "6 MB"', 'duration = "3 s"'))
    running = lab.start([*PERIGEE, "run", "long.toml", *HERE])
    shard = lab.folder / "results/between-live/shards/run-000000.shard"
    wait_until(shard.exists)
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=300)
    assert running.returncode == 130, said
    assert "1 of 2 runs are kept" in said
    assert "resume with:" in said
    assert clients(lab) == []
    kept = shard.stat().st_mtime_ns
    # Results of another host are not continued, those of another schedule are.
    other = lab.perigee("run", "long.toml", "--engine", "live", "--set", "live.servers.server=127.0.0.2")
    assert (other.returncode, "holds other results" in other.stderr) == (2, True), other.stderr
    again = lab.perigee("run", "long.toml", *HERE, "--set", "live.pause=1 s")
    assert again.returncode == 0, again.stderr
    assert "2 runs, 1 of them from before" in again.stderr
    assert kept
    assert flows(lab)["completed"].to_list() == [True, True]


def clients(lab: Lab) -> list[str]:
    """The clients of iperf3 in the namespace."""
    home = Path(f"/proc/{lab._home.pid}/ns/net").readlink()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/net").readlink() == home and b"--client" in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


def test_a_kill_leaves_no_client(lab: Lab) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    lab.serve()
    (lab.folder / "long.toml").write_text(STUDY.replace('size = "6 MB"', 'duration = "60 s"'))
    running = lab.start([*PERIGEE, "run", "long.toml", *HERE])
    wait_until(lambda: clients(lab) != [])
    time.sleep(1)
    running.kill()
    wait_until(lambda: clients(lab) == [], 60)


def test_runs_begin_on_the_clocks_grid_until_the_time_is_over(lab: Lab) -> None:
    lab.serve()
    schedule = ["live.every=5 s", "live.for=13 s", "rounds=5", "flow.size=100 kB"]
    done = lab.perigee("run", "between.toml", *HERE, *(part for key in schedule for part in ("--set", key)))
    assert done.returncode == 0, done.stderr
    assert "the time of `live.for` is over" in done.stderr
    assert "2 runs were skipped when the time was over" in done.stderr
    assert flows(lab)["run"].to_list() == [0, 1, 2]
    starts = [begun(lab, run) for run in range(3)]
    # iperf3 reports whole seconds of a clock that the kernel sets forward once in 10 ms, so that a run which begins on
    # the second may have the second before; and a busy machine may be a second late.
    assert all(start % 5 in (4, 0, 1) for start in starts), starts
    assert [later - sooner for sooner, later in pairwise(starts)] == pytest.approx([5, 5], abs=2)


def test_the_time_limit_of_a_run_ends_its_flows_with_their_data_so_far(lab: Lab) -> None:
    lab.serve()
    done = lab.perigee(
        "run", "between.toml", *HERE, "--set", "rounds=1", "--set", "time_limit=2 s", "--set", "flow.size=900 GB"
    )
    assert done.returncode == 0, done.stderr
    (row,) = flows(lab).to_dicts()
    assert (row["completed"], row["outcome"]) == (False, "time_limit")
    assert row["duration_s"] == pytest.approx(2, abs=1.5)
    assert row["received_bytes"] > 0


def test_a_server_without_json_gives_the_throughput_and_a_note_of_what_is_missing(lab: Lab) -> None:
    lab.serve(5201, "--forceflush")
    done = lab.perigee("run", "between.toml", *HERE)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no window and no round trip") == 1, done.stderr
    found = flows(lab)
    assert found["rtt_mean_ms"].is_null().all()
    assert (found["goodput_mbps"] > 0).all()
    assert found["retransmitted_packets"].is_not_null().all()
    assert lab.perigee("report", "results/between-live").returncode == 0


def test_an_algorithm_that_the_server_lacks_ends_the_study_with_what_to_load_there(lab: Lab) -> None:
    sysctl = Path("/proc/sys/net/ipv4")
    there, allowed = (set((sysctl / f"tcp_{kind}_congestion_control").read_text().split()) for kind in KINDS)
    if not (kept_back := sorted(there - allowed)) or "reno" not in allowed or shutil.which("setpriv") is None:
        pytest.skip("every user may have every congestion control here")
    lab.start(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "iperf3", "--server", "--json"])
    wait_until(lambda: ":5201 " in lab.run(["ss", "-Hltn"]).stdout)
    study = STUDY + f'[vary]\n"flow.cc" = ["reno", "{kept_back[0]}"]\n'
    (lab.folder / "both.toml").write_text(study)
    done = lab.perigee("run", "both.toml", *HERE, "--set", "live.retries=1")
    assert done.returncode == 1, done.stderr
    assert f"no congestion control `{kept_back[0]}`" in done.stderr
    assert f"there, as root: perigee cc load {kept_back[0]}" in done.stderr


KINDS = ("available", "allowed")


def test_a_dry_run_lists_runs_servers_and_data_and_runs_nothing(lab: Lab) -> None:
    done = lab.perigee("run", "both.toml", *HERE, "--set", "live.every=15 min", "--set", "flow.size=1 GB", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("1000 MB from the server, 127.0.0.1, port 5201") == 4
    assert "4 runs: 2 points in 2 rounds; 4.00 GB; nothing was run" in done.stderr
    assert re.search(r":(00|15|30|45):00 UTC", done.stdout)
    assert not (lab.folder / "results").exists()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the study, for errors before anything begins."""
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    (tmp_path / "between.toml").write_text(STUDY)
    return tmp_path


STREAM = flow("stream", "server client", kind="udp", rate="1 Mbit/s", packet="999 B", duration="1 s")
PING = flow("echo", "server client", kind="ping", interval="1 s", packet="99 B", repeat=2)


@pytest.mark.parametrize(
    ("more", "settings", "said"),
    [
        ("", [], "--set live.servers.server=HOST:5201"),
        ("", ["live.servers.server=a", "live.servers.client=b"], "say which one this host is: --set live.here=client"),
        ("", ["live.servers.server=a", "hosts.rmem=['4 kB', '8 kB', '60 MB']"], "TCP settings of `client` (`rmem`)"),
        (
            "",
            ["live.servers.server=a", "flow.cc=hybla", "live.cc_names.hybla=none"],
            "`none` is not in this host's kernel",
        ),
        ("", ["live.servers.server=a", "flow.cc.beta=50 %"], "name it with --set live.cc_names.cubic=my_cubic"),
        ("", ["live.servers.server=a", "flow.duration=1500 ms"], "`duration` = 1.5 s, but iperf3 takes whole seconds"),
        (
            "",
            ["live.servers.server=10.0.0.9", "flow.ip=v6"],
            "`ip` is v6, and the server 10.0.0.9 has an address of IPv4",
        ),
        ("", ["live.servers.server=a", "measure.events=true"], "`measure.events`: iperf3 shows no packets"),
        ("", ["live.servers.server=a", "measure.states=every"], "`measure.states`: iperf3 shows no state"),
        ("", ["live.servers.server=a", "flow.offered=1 Mbit/s"], "`offered` is not iperf3's"),
        ("", ["live.servers.server=a", "live.here=server"], "needs a server at `client`"),
        (
            STREAM,
            ["live.servers.server=a", "flows.download.count=0", "hosts.processing_time=8 us"],
            "TCP settings of `server` (`processing_time`)",
        ),
        (
            '[[flows]]\nname = "web"\nkind = "web"\nfrom = "server"\nto = "client"\nduration = "1 s"\n'
            "connections_per_s = 1\n",
            ["live.servers.server=a"],
            "flow `web`: iperf3 has no `web`",
        ),
        (PING, ["live.servers.server=a"], "flow `echo`: iperf3 has no `ping`, and `ping` measures round trips"),
        (
            '[vary]\n"links.path.rate" = ["1 Mbit/s", "2 Mbit/s"]\n',
            ["live.servers.server=a"],
            "`links.path.rate` varies",
        ),
    ],
)
def test_flows_that_iperf3_cannot_carry_are_refused_by_name_with_the_setting_that_helps(
    perigee: Callable[..., CompletedProcess[str]], folder: Path, more: str, settings: list[str], said: str
) -> None:
    (folder / "between.toml").write_text(STUDY + more)
    given = [part for setting in settings for part in ("--set", setting)]
    done = perigee("run", folder / "between.toml", "--engine", "live", *given)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not (folder / "results").exists()


def test_every_tcp_setting_that_iperf3_cannot_carry_is_refused_by_name(
    perigee: Callable[..., CompletedProcess[str]], folder: Path
) -> None:
    schema = json.loads((ROOT / "schema" / "study.json").read_text())
    settings = {
        name: _another(about)
        for name, about in schema["properties"]["hosts"]["properties"].items()
        if name not in ("mss", "like")  # --set-mss, and settings by name
    }
    given = [part for name, value in settings.items() for part in ("--set", f"hosts.{name}={value}")]
    done = perigee("run", "between.toml", "--engine", "live", "--set", "live.servers.server=a", *given, cwd=folder)
    assert done.returncode == 2, done.stderr
    names = ", ".join(f"`{name}`" for name in sorted(settings))
    assert f"TCP settings of `client` ({names})" in done.stderr


def _another(key: dict[str, Any]) -> str:
    """Return a value that is not the key's default, as `--set` takes it."""
    default = key["default"]
    if key.get("type") == "boolean":
        return str(not default).lower()
    if key.get("type") == "integer":
        return str(key["minimum"] if default == key["maximum"] else key["maximum"])
    if key.get("type") == "array":
        return str([_next(size) for size in default])
    if "enum" in key:
        return str(next(word for word in key["enum"] if word != default))
    return _next(default)


def _next(quantity: str) -> str:
    number, unit = quantity.split()
    return f"{int(number) + 1} {unit}"


def test_a_study_of_a_recorded_link_needs_hosts_and_no_recording(
    perigee: Callable[..., CompletedProcess[str]], folder: Path
) -> None:
    done = perigee("run", "starlink-replay", "--engine", "live", cwd=folder)
    assert (done.returncode, "--set live.servers.server=HOST:5201" in done.stderr) == (2, True), done.stderr
    assert "inputs" not in done.stderr


def test_without_iperf3_its_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "between.toml").write_text(STUDY)
    done = subprocess.run(
        [*PERIGEE, "run", "between.toml", *HERE], env={**environment(), "PATH": "/nonexistent"}, cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, "install the package iperf3" in done.stderr) == (2, True), done.stderr
