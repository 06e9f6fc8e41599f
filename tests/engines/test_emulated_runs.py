# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee run --engine emu`: a study on this machine's own TCP."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from conftest import Once, Perigee, needs_tun
from perigee.engines.emu.engine import Emulator
from perigee.engines.plan.contract import Output
from perigee.engines.plan.native import NativePlan, native_plan
from perigee.places import find_study
from perigee.store.streams import stream_of
from study_text import flow, link

STUDY = (
    """
name = "tiny"
nodes = ["server", "client"]
[measure]
series = "200 ms"
"""
    + link("satellite", "server client", rate="20 Mbit/s", delay="50 ms", queue="2 MB")
    + flow("download", "server client", size="1 MB")
    + '[vary]\n"flow.cc" = ["reno", "vegas"]\n'
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def emulates(perigee: Perigee, study: Path, once: Once) -> Path:
    """The results of the study on the emulator, for reading only."""
    needs_tun()

    def make(out: Path) -> None:
        done = perigee("run", study, "--engine", "emu", "--out", out)
        if done.returncode == 2 and "BPF" in done.stderr:
            pytest.skip(done.stderr.strip())
        assert done.returncode == 0, done.stderr

    return once("emulated", make)


def test_the_emulator_fills_the_simulators_columns_and_says_how_late_it_was(
    perigee: Perigee, study: Path, emulates: Path, tmp_path: Path
) -> None:
    assert perigee("run", study, "--out", tmp_path / "sim").returncode == 0
    for table in ("flows", "series", "links", "rtt"):
        emulated, simulated = (pl.read_parquet(folder / f"{table}.parquet") for folder in (emulates, tmp_path / "sim"))
        assert emulated.schema == simulated.schema, table
        assert not emulated.is_empty(), table
    flows = pl.read_parquet(emulates / "flows.parquet")
    assert flows["engine"].unique().to_list() == ["emu"]
    assert flows["completed"].all()
    assert flows["received_bytes"].to_list() == [1_000_000, 1_000_000]
    releases = pl.read_parquet(emulates / "releases.parquet")
    assert releases["link"].unique().sort().to_list() == ["satellite.down", "satellite.up"]
    assert (releases["late_p50_us"] <= releases["late_max_us"]).all()


@pytest.mark.parametrize(
    ("latest_ms", "carried_out"),
    # The run is repeated until nothing was late, and not for ever.
    [([3.0, 2.5, 1.9, 0.1], 3), ([1.0], 1), ([9.0] * 9, 5)],
)
def test_a_run_whose_packets_were_released_late_is_carried_out_again(
    monkeypatch: pytest.MonkeyPatch, latest_ms: list[float], carried_out: int
) -> None:
    runs = iter([Output({"releases": stream_of(pl.DataFrame({"late_max_us": [5.0, 1000 * ms]}))}) for ms in latest_ms])
    done: list[Output] = []

    def execute(*_: object) -> Output:
        done.append(next(runs))
        return done[-1]

    monkeypatch.setattr(NativePlan, "execute", execute)
    emulator = Emulator.__new__(Emulator)
    emulator._late_us = 2000.0
    assert emulator.execute(0, lambda *_: True, Path()) is done[-1]
    assert len(done) == carried_out


def test_the_report_has_the_sysctls_that_the_namespaces_had(perigee: Perigee, emulates: Path, tmp_path: Path) -> None:
    hosts = json.loads((emulates / "study" / "setup.json").read_text())["hosts"]
    assert len(hosts) >= 2
    names = [name.partition(":")[0] for name, _ in hosts[0]["properties"]]
    assert {"tcp_rmem", "tcp_wmem", "tcp_sack"} <= set(names)
    for host in hosts:
        values = {name.partition(":")[0]: text for name, text in host["properties"]}
        assert values["tcp_sack"] == "1"
        assert values["tcp_rmem"].startswith("4096 B, 128 KiB, ")
    page = tmp_path / "report.html"
    assert perigee("report", emulates, "--out", page).returncode == 0
    assert "sysctls of the nodes&#39; namespaces, as the kernel (Linux" in page.read_text()


def test_both_engines_are_compared(perigee: Perigee, study: Path, emulates: Path, tmp_path: Path) -> None:
    assert perigee("run", study, "--out", tmp_path / "sim").returncode == 0
    compared = perigee("compare", tmp_path / "sim", emulates)
    assert compared.returncode == 0, compared.stderr
    assert "Vegas" in compared.stdout


def test_captures_and_the_log_of_tcp_are_kept_with_the_results(
    perigee: Perigee, study: Path, emulates: Path, tmp_path: Path
) -> None:
    out = tmp_path / "recorded"
    settings = ["--set", "measure.pcap=true", "--set", "measure.events=true", "--set", "flow.cc=cubic"]
    done = perigee("run", study, "--engine", "emu", *settings, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "missing:" not in done.stderr
    names = sorted(path.name for path in (out / "captures").iterdir())
    assert names == ["run-000000-client.pcapng", "run-000000-server.pcapng"]
    events = pl.read_parquet(out / "events.parquet")
    assert events.filter(event="sent")["segment_bytes"].sum() == 1_000_000
    assert not (emulates / "events.parquet").exists()
    assert perigee("run", study, *settings, "--out", tmp_path / "sim").returncode == 0
    assert pl.read_parquet(tmp_path / "sim" / "events.parquet").schema == events.schema
    capture = out / "captures" / "run-000000-server.pcapng"
    assert perigee("analyze", capture, "--out", tmp_path / "analysed").returncode == 0
    measured, analysed = (pl.read_parquet(folder / "flows.parquet") for folder in (out, tmp_path / "analysed"))
    assert analysed["sent_packets"].to_list() == measured["sent_packets"].to_list()
    assert analysed["rtt_mean_ms"][0] == pytest.approx(measured["rtt_mean_ms"][0], rel=0.01)


def test_an_application_offers_the_kernel_what_it_offers_the_simulator(
    perigee: Perigee, emulates: Path, tmp_path: Path
) -> None:
    offered = '["4 Mbit/s", { at = "2 s", rate = "0 bit/s" }, { at = "4 s", rate = "unlimited" }]'
    path = tmp_path / "offered.toml"
    path.write_text(
        'name = "offered"\nnodes = ["a", "b"]\n'
        + link("l", "a b", rate="20 Mbit/s", delay="20 ms", queue="100 kB")
        + flow("f", "a b", duration="6 s", opened_by="sender")
        + f"offered = {offered}\n"
    )
    for engine in ("sim", "emu"):
        out = tmp_path / f"offered-{engine}"
        assert perigee("run", path, "--engine", engine, "--out", out).returncode == 0
        goodput = pl.read_parquet(out / "series.parquet")["goodput_mbps"].to_list()
        assert goodput[1] == pytest.approx(4, rel=0.02), engine
        assert goodput[2] < 0.3, engine
        assert goodput[3] == 0, engine
        assert goodput[5] > 15, engine


def test_a_disk_that_is_full_is_said_and_leaves_no_capture(
    perigee: Perigee, study: Path, emulates: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    tmpfs = ["-t", "tmpfs", "-o", "size=300k", "none", str(small)]
    if mount is None or unmount is None or subprocess.run([mount, *tmpfs], check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        settings = ["--set", "measure.pcap=true", "--set", "flow.cc=cubic", "--set", "flow.size=8 MB"]
        done = perigee("run", study, "--engine", "emu", *settings, "--out", small / "out")
        assert done.returncode == 1, done.stderr
        assert "the disk is full; free some space" in done.stderr
        assert not list((small / "out" / "captures").iterdir())
    finally:
        subprocess.run([unmount, small], check=True)


def test_a_study_that_this_machine_cannot_keep_in_real_time_is_refused_unless_forced(
    perigee: Perigee, study: Path, emulates: Path, tmp_path: Path
) -> None:
    assert emulates.exists()
    settings = [
        "--set",
        "link.satellite.rate=400 Gbit/s",
        "--set",
        "link.satellite.delay=0 ms",
        "--set",
        "flow.cc=reno",
    ]
    done = perigee("run", study, "--engine", "emu", *settings, "--out", tmp_path / "fast")
    assert done.returncode == 2, done.stderr
    assert "this machine is too slow for 1 of 1 runs: run 0" in done.stderr
    assert not (tmp_path / "fast").exists()
    done = perigee("run", study, "--engine", "emu", *settings, "--force", "--out", tmp_path / "fast")
    assert done.returncode == 0, done.stderr
    assert "warning: 1 of 1 runs may be late" in done.stderr


def test_an_emulated_study_says_how_long_it_takes(perigee: Perigee, study: Path, emulates: Path) -> None:
    assert emulates.exists()
    done = perigee("run", study, "--engine", "emu", "--set", "flow.size=75 MB", "--dry-run")
    # Two runs of 75 MB at 20 Mbit/s, and their handshakes.
    assert "2 runs in real time, one after the other: at least 1 min 1 s" in done.stderr, done.stderr
    assert "warning" not in done.stderr


@pytest.mark.parametrize(("cost_us", "load"), [((0.0, 1.0), 0.00167), ((500.0, 500.0), 1.667)])
def test_the_load_follows_from_what_packets_cost(study: Path, cost_us: tuple[float, float], load: float) -> None:
    core = native_plan(find_study(str(study)), [], reduced=False)
    outlook = core.outlook_emulated(cost_us)
    assert [run.load for run in outlook.runs] == pytest.approx([load, load], rel=0.01)


def test_an_authors_file_is_loaded_for_the_run_and_gone_after_it(
    perigee: Perigee, study: Path, emulates: Path, tmp_path: Path
) -> None:
    assert emulates.exists()
    assert perigee("cc", "new", "mycc", "--dir", tmp_path).returncode == 0
    file = f"{tmp_path}/mycc/mycc.c"
    done = perigee("run", study, "--engine", "emu", "--set", f"flow.cc={file}", "--out", tmp_path / "own")
    assert done.returncode == 0, done.stderr
    flows = pl.read_parquet(tmp_path / "own" / "flows.parquet")
    assert (flows["cc"].to_list(), flows["received_bytes"].to_list()) == (["mycc"], [1_000_000])
    assert (tmp_path / "own" / "study" / "mycc.c").read_bytes() == Path(file).read_bytes()


def test_a_file_that_the_kernel_does_not_take_is_refused_before_the_run(
    perigee: Perigee, study: Path, emulates: Path, tmp_path: Path
) -> None:
    assert emulates.exists()
    assert perigee("cc", "new", "mycc", "--dir", tmp_path).returncode == 0
    file = tmp_path / "mycc" / "mycc.c"
    own = file.read_text(encoding="utf-8")
    file.write_text("#ifdef __bpf__\n#error not for the kernel\n#endif\n" + own, encoding="utf-8")
    assert perigee("run", study, "--set", f"flow.cc={file}", "--out", tmp_path / "sim").returncode == 0
    done = perigee("run", study, "--engine", "emu", "--set", f"flow.cc={file}")
    assert (done.returncode, "not for the kernel" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("flow.tcp.delayed_acks=false", "`delayed_acks` is off, which the kernel cannot"),
    ],
)
def test_what_the_kernel_cannot_do_is_bad_input(perigee: Perigee, study: Path, setting: str, said: str) -> None:
    done = perigee("run", study, "--engine", "emu", "--set", setting)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


SPLIT = (
    'name = "split"\nnodes = ["a", "g", "b"]\nhosts.like = "linux-4.15"\n'
    + link("l", "a g", rate="10 Mbit/s", delay="1 ms")
    + link("m", "g b", rate="10 Mbit/s", delay="1 ms")
    + flow("f", "a b", size="10 kB")
    + '[[proxies]]\nname = "pep"\nnode = "g"\n[proxies.sides]\nl.cc = "cubic"\nm.cc = "hybla"\n'
)


def test_a_study_that_the_kernel_refuses_names_the_settings_with_which_it_runs(
    perigee: Perigee, tmp_path: Path
) -> None:
    (tmp_path / "split.toml").write_text(SPLIT)
    command = ("run", "split.toml", "--engine", "emu", "--dry-run", "--set", "measure.events=true")
    refused = perigee(*command)
    found = re.search(r"or here with --nearest, which is (--set \S+ --set \S+)$", refused.stderr, re.MULTILINE)
    assert refused.returncode == 2
    assert found is not None, refused.stderr
    assert perigee(*command, *found[1].split()).returncode == 0
    done = perigee(*command, "--nearest")
    assert done.returncode == 0, done.stderr
    replaced = re.findall(r"^--nearest: (\S+),", done.stderr, re.MULTILINE)
    assert [f"--set {one}" for one in replaced] == re.findall(r"--set \S+", found[1])


def test_a_study_that_no_setting_helps_is_refused_as_it_is(perigee: Perigee, tmp_path: Path) -> None:
    other = flow("other", "server client", size="1 kB") + 'tcp = { rmem = ["4 KiB", "1 MB", "1 MB"] }\n'
    two = STUDY.replace("[vary]", f"{other}[vary]")
    (tmp_path / "two.toml").write_text(two, encoding="utf-8")
    refused = perigee("run", tmp_path / "two.toml", "--engine", "emu", "--dry-run", "--nearest")
    assert (refused.returncode, "different TCP settings" in refused.stderr) == (2, True), refused.stderr
    assert "or here with" not in refused.stderr


def test_the_nearest_of_a_study_covers_the_settings_of_a_single_host_that_vary(perigee: Perigee) -> None:
    done = perigee(
        "run", "caini-2009", "--reduced", "--engine", "emu", "--dry-run", "--experiment", "lengths", "--nearest"
    )
    assert done.returncode == 0, done.stderr
    replaced = re.findall(r"^--nearest: (.+?)(?:,| is) ", done.stderr, re.MULTILINE)
    assert replaced[0] == "kernel_hosts=true"
    assert "proportional rate reduction of satellite-sender" in replaced


@pytest.mark.parametrize("engine", ["sim", "emu"])
def test_a_connection_that_fails_is_a_row_and_the_other_runs_go_on(
    perigee: Perigee, tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    if engine == "emu":
        request.getfixturevalue("emulates")
    dead = STUDY.replace('"flow.cc" = ["reno", "vegas"]', '"links.satellite.loss" = ["100 %", "0 %"]')
    (tmp_path / "dead.toml").write_text(dead + "[hosts]\nsyn_retries = 1\n")
    done = perigee("run", tmp_path / "dead.toml", "--engine", engine, "--out", tmp_path / "dead")
    assert done.returncode == 0, done.stderr
    assert "not completed: 1 of 2 flows, in 1 run: timed out" in done.stderr
    flows = pl.read_parquet(tmp_path / "dead" / "flows.parquet").sort("run")
    assert flows["outcome"].to_list() == ["timed_out", "completed"]
    assert flows["duration_s"][0] == pytest.approx(3.0, abs=0.5)
