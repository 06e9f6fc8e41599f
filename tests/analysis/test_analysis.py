# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Captures, iperf3's files and logs of pings become the figures of a study, or a clear error."""

from __future__ import annotations

import gzip
import json
import re
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from conftest import Perigee
from perigee.analysis.recordings import Options, analyze, keep, kind_of
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.places import find_study
from perigee.report.assemble import assemble
from perigee.report.style import styled
from perigee.statistics.flow_limits import judge
from perigee.statistics.periodicity import periodicity
from perigee.store.results import Results
from perigee.store.schema import blank_row, empty_table
from study_text import flow, link

STUDY = (
    """
name = "two-ends"
nodes = ["a", "b"]
[measure]
pcap = true
"""
    + link("link", "a b", rate="10 Mbit/s", delay="50 ms", loss="0.2 %")
    + flow("f", "a b", duration="20 s")
)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a simulated run with captures at both ends."""
    from perigee.engines.sim.engine import Simulator

    folder = tmp_path_factory.mktemp("analysis")
    (folder / "study.toml").write_text(STUDY)
    out = folder / "results"
    carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=out))
    return out


def capture(simulated: Path, node: str) -> Path:
    """The capture of a node."""
    return simulated / "captures" / f"run-000000-{node}.pcapng"


def test_a_capture_has_the_columns_of_the_simulator_and_its_figures(simulated: Path) -> None:
    found = analyze([capture(simulated, "a")])
    assert found is not None
    expected = Results(simulated)
    for name in ("flows", "series", "rtt"):
        # Nothing in a capture is a leg, and tables of results have flows from end to end.
        assert found.table(name).drop("leg").schema == expected.table(name).schema
    row, truth = found.table("flows").row(0, named=True), expected.table("flows").row(0, named=True)
    assert row["engine"] == "capture"
    assert row["retransmitted_packets"] == truth["retransmitted_packets"] > 0
    for column in ("goodput_mbps", "rtt_mean_ms", "rtt_p50_ms", "handshake_ms"):
        assert row[column] == pytest.approx(truth[column], rel=0.01), column


def test_an_analysis_is_kept_as_results_and_reported(simulated: Path, tmp_path: Path, perigee: Perigee) -> None:
    out = tmp_path / "kept"
    done = perigee("analyze", capture(simulated, "a"), capture(simulated, "b"), "--out", out)
    assert done.returncode == 0, done.stderr
    assert "receiver" in done.stdout
    said = " ".join(done.stdout.split())
    assert said.count("What held it") == 1, "a connection that both ends captured is explained once"
    assert "(run-000000-a.pcapng): What held it" in said
    assert "without a time of day, so beside none of the others: run-000000-a.pcapng, run-000000-b.pcapng" in said
    truth = Results(simulated).table("links").filter(pl.col("link") == "link.down")["dropped_packets"].sum()
    assert f"data packets {truth} were lost between them" in done.stderr
    assert done.stdout.splitlines()[-1] == str(out)
    kept = Results(out)
    assert kept.table("connections")["side"].to_list() == ["sender", "receiver"]
    assert kept.table("losses").height > 0
    assert perigee("report", out).returncode == 0
    page = (out / "report.html").read_text()
    for part in ("What the files hold", "Short-time goodput", "run-000000-a.pcapng"):
        assert part in page
    again = perigee("analyze", capture(simulated, "a"), "--out", out)
    assert again.returncode == 2
    assert "--fresh" in again.stderr


def test_the_same_capture_compressed_or_in_parts_gives_the_same(simulated: Path, tmp_path: Path) -> None:
    whole = capture(simulated, "b")
    small = tmp_path / "b.pcapng.gz"
    small.write_bytes(gzip.compress(whole.read_bytes(), 1))
    plain, packed = analyze([whole], study="x"), analyze([small], study="x")
    assert plain is not None
    assert packed is not None
    assert plain.table("flows").equals(packed.table("flows"))
    assert plain.table("series").equals(packed.table("series"))


def test_what_cannot_be_analysed_is_said_with_the_file_and_the_fix(
    simulated: Path, tmp_path: Path, perigee: Perigee
) -> None:
    empty, words, broken = tmp_path / "empty", tmp_path / "words", tmp_path / "iperf3.json"
    empty.write_bytes(b"")
    words.write_text("nothing of use")
    broken.write_text('{"start": {}, "intervals": [], "end": {}, "error": "unable to connect to server"}')
    only_arp = tmp_path / "arp.pcap"
    head = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    only_arp.write_bytes(head + bytes.fromhex("01000000000000000e0000000e000000") + bytes(12) + b"\x08\x06")
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(head[:10])
    for path, said in [
        (empty, "it is empty"),
        (words, "neither a capture"),
        (broken, "unable to connect to server"),
        (only_arp, "holds no TCP and no UDP (1 packets, 1 of them not IP"),
        (cut, "is not a capture (it ends within its first header)"),
        (tmp_path / "missing.pcap", "cannot be read"),
    ]:
        done = perigee("analyze", path)
        assert done.returncode == 2, path
        assert path.name in done.stderr
        assert said in done.stderr


def test_a_damaged_capture_gives_what_stands_before_the_damage(simulated: Path, tmp_path: Path) -> None:
    content = capture(simulated, "b").read_bytes()
    damaged = tmp_path / "damaged.pcapng"
    damaged.write_bytes(content[: len(content) // 2 - 1])
    found = analyze([damaged])
    assert found is not None
    assert found.table("flows")["received_bytes"][0] > 1_000_000
    assert any("is damaged at byte" in note for note in found.runs[0].notes)


def test_an_option_that_is_wrong_is_said(simulated: Path) -> None:
    for options, said in [
        (Options(series="1"), "--series: `1` has no unit"),
        (Options(startup="50"), "--startup: `50` has no unit"),
        (Options(steady="half"), "--steady"),
    ]:
        with pytest.raises(InputError, match=said):
            analyze([capture(simulated, "a")], options)


def test_phases_are_those_of_a_study(simulated: Path) -> None:
    found = analyze([capture(simulated, "b")], Options(startup="1 MB", steady="30 %"))
    assert found is not None
    row = found.table("flows").row(0, named=True)
    assert row["startup_s"] * row["startup_goodput_mbps"] / 8 == pytest.approx(1.0, rel=0.01)
    assert row["steady_s"] * row["steady_goodput_mbps"] / 8e-6 == pytest.approx(0.3 * row["bytes"], rel=0.01)


def test_logs_of_pings_are_runs_like_others(tmp_path: Path) -> None:
    ours, system = tmp_path / "base.csv", tmp_path / "ping.txt"
    lines = "".join(f"{1000 + n}.000,{'' if n == 3 else f'{20 + n}.000'}\n" for n in range(10))
    ours.write_text("# perigee ping: to h, every 1000000 us, 20 bytes, lost after 9 us\nunix_s,rtt_ms\n" + lines)
    answers = "".join(f"64 bytes from 192.0.2.1: icmp_seq={n} ttl=50 time={n}.5 ms\n" for n in (1, 2, 4, 4, 5))
    system.write_text("PING h (192.0.2.1) 56(84) bytes of data.\n" + answers)
    assert [kind_of(ours), kind_of(system)] == ["ping", "ping"]
    found = analyze([ours, system])
    assert found is not None
    flows = found.table("flows")
    assert flows["sent_packets"].to_list() == [10, 5]
    assert flows["lost_packets"].to_list() == [1, 1]
    assert flows["rtt_min_ms"].to_list() == [20.0, 1.5]
    assert found.table("exchanges")["duration_ms"].null_count() == 2
    assert found.table("rtt").group_by("run").agg(pl.col("count").sum()).sort("run")["count"].to_list() == [9, 4]
    keep(found, [ours, system], tmp_path / "out")
    assert Results(tmp_path / "out").table("flows").height == 2


def test_a_log_of_a_probe_is_measured_by_the_definitions_of_every_engine(tmp_path: Path) -> None:
    blocks: dict[str, list[float]] = {"received": [], "least_us": [], "mean_us": [], "most_us": []}
    report = {"received": 2000, "lost": 500, "reordered": 0, "duplicates": 0, "runs": [[500, 1]], "per_block": 500,
              "first_ns": 7, "last_ns": 2_500_000_007, "blocks": blocks,
              "arrivals": [500, 500, 250, 250, 500]}  # fmt: skip
    sent = {"packets": 2500, "first_ns": 0, "last_ns": 2_500_000_000, "refused": 0, "slipped_ns": 0}
    step = {"direction": "up", "offered_bps": 8_000_000, "headers": 28, "rtt_s": 0.1, "sent": sent, "report": report}
    lines = [{"perigee_probe": 1, "packet": 1000}, *({**step, "began_unix_s": at} for at in (100.0, 110.5))]
    log = tmp_path / "probe.jsonl"
    log.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    found = analyze([log])
    assert found is not None
    flows = found.table("flows")
    assert flows["goodput_mbps"].to_list() == pytest.approx([2000 * 972 * 8e-6 / 2.5] * 2)
    # Whole seconds have 1000 and 500 packets; the last half second is no whole bin.
    assert flows["goodput_p50_mbps"].to_list() == pytest.approx([750 * 972 * 8e-6] * 2)
    assert flows["goodput_p10_mbps"].to_list() == pytest.approx([550 * 972 * 8e-6] * 2)
    series = found.table("series")
    assert series["t_s"].to_list() == pytest.approx([1, 2, 2.5, 11, 12, 13])
    packets_per_s = [1000, 500, 1000, 1000, 750, 750]
    assert series["goodput_mbps"].to_list() == pytest.approx([packets * 972 * 8e-6 for packets in packets_per_s])


IPERF3 = {
    "start": {
        "version": "iperf 3.12", "tcp_mss_default": 1448, "timestamp": {"timesecs": 1700000000},
        "connected": [{"socket": 5, "local_port": 40000, "remote_port": 5201}],
        "test_start": {"protocol": "TCP", "duration": 3, "reverse": 0, "bytes": 0, "blocks": 0},
    },
    "intervals": [
        {"streams": [{"socket": 5, "start": n, "end": n + 1, "seconds": 1, "bytes": 1_250_000, "retransmits": n,
                      "snd_cwnd": 144_800, "rtt": 40_000, "sender": True}]}
        for n in range(3)
    ],
    "end": {
        "streams": [{
            "sender": {"socket": 5, "end": 3, "bytes": 3_750_000, "retransmits": 3, "sender": True},
            "receiver": {"socket": 5, "end": 3, "bytes": 3_700_000, "sender": True},
        }],
        "sender_tcp_congestion": "cubic",
    },
}  # fmt: skip


def test_files_of_iperf3_stand_beside_captures_in_one_report(simulated: Path, tmp_path: Path, perigee: Perigee) -> None:
    file = tmp_path / "iperf3.json"
    file.write_text(json.dumps(IPERF3))
    done = perigee("analyze", file, capture(simulated, "b"), "--out", tmp_path / "both", "--name", "both")
    assert done.returncode == 0, done.stderr
    flows = Results(tmp_path / "both").table("flows")
    assert flows["engine"].unique().to_list() == ["capture"]
    assert flows["run"].to_list() == [0, 1]
    assert flows["received_bytes"][1] == 3_700_000
    assert json.loads(flows["point"][1]) == {"file": "iperf3.json"}
    assert perigee("report", tmp_path / "both", "--format", "html,csv").returncode == 0
    assert "iperf3.json (iperf 3" in (tmp_path / "both" / "report.html").read_text()


def test_an_analysis_can_be_stopped(simulated: Path) -> None:
    assert analyze([capture(simulated, "a")], go_on=lambda _done: False) is None

    def interrupted(_done: float) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        analyze([capture(simulated, "a")], go_on=interrupted)


PERIODIC = (
    """
name = "periodic"
nodes = ["a", "b"]
[measure]
pcap = ["a"]
"""
    + link(
        "link", "a b", rate="3 Mbit/s", delay="20 ms", loss={"kind": "periodic", "period": "15 s", "length": "20 ms"}
    )
    + flow("f", "a b", duration="450 s")
)


def test_the_period_of_a_links_losses_is_found_in_a_capture(tmp_path: Path, perigee: Perigee) -> None:
    (tmp_path / "periodic.toml").write_text(PERIODIC)
    assert perigee("run", tmp_path / "periodic.toml", "--out", tmp_path / "run").returncode == 0
    done = perigee("analyze", capture(tmp_path / "run", "a"), "--out", tmp_path / "found")
    assert done.returncode == 0, done.stderr
    assert re.search(r"\b15\.0 *$", done.stdout, re.MULTILINE), done.stdout
    assert perigee("report", tmp_path / "found", "--format", "csv").returncode == 0
    assert pl.read_csv(tmp_path / "found" / "report-files" / "periods.csv")["period_s"].to_list() == [15.0]


def test_a_period_is_found_in_noise_and_none_in_noise_alone() -> None:
    random = np.random.default_rng(7)
    seconds = np.arange(1800)
    noise = random.poisson(1.0, len(seconds)).astype(np.float64)
    periodic = noise + np.where((seconds % 15 == 12) & (random.random(len(seconds)) < 0.8), 8.0, 0.0)
    found = periodicity(periodic)
    assert found is not None
    assert found.period_s == 15.0
    assert found.strength is not None
    assert found.strength > found.bound
    bursts = noise * np.repeat(random.gamma(0.5, 2, 180), 10)
    for series in (noise, bursts):
        alone = periodicity(series)
        assert alone is not None
        assert alone.period_s is None
    assert periodicity(noise[:50]) is None
    assert periodicity(np.zeros(600)) is None


def test_a_capture_says_how_much_of_it_could_not_be_read(simulated: Path, tmp_path: Path) -> None:
    labelled = bytearray(capture(simulated, "a").read_bytes())
    at, number = 0, 0
    while at < len(labelled):
        kind, size = struct.unpack_from("<II", labelled, at)
        if kind == 6:
            number += 1
            if number % 4 == 0:
                # MACsec: encrypted.
                labelled[at + 28 + 12 : at + 28 + 14] = b"\x88\xe5"
        at += size
    path = tmp_path / "labelled.pcapng"
    path.write_bytes(labelled)
    found = analyze([path])
    assert found is not None
    assert any(
        f"{number // 4} of {number} packets are neither TCP nor UDP over IP" in note for note in found.runs[0].notes
    )


def test_a_connection_captured_at_both_ends_is_one_in_the_reports_sentence_and_figure(
    simulated: Path, tmp_path: Path
) -> None:
    files = [capture(simulated, node) for node in ("a", "b")]
    found = analyze(files)
    assert found is not None
    keep(found, files, tmp_path / "kept")
    with styled():
        report = assemble(Results(tmp_path / "kept"))
    assert report.title == "run-000000-a.pcapng and run-000000-b.pcapng"
    assert report.short.answer.startswith("One transfer of ")
    assert "captured at both its ends. Of " in report.short.answer
    assert "What held it was " in report.short.answer
    assert report.facts == []
    (figure,) = report.short.plots
    assert figure.data is not None
    assert figure.data["flow"].n_unique() == 1
    assert next(plot.name for plot in report.plots()) == "recorded"
    assert "tradeoff" not in [plot.name for plot in report.plots()]


def test_what_limited_a_flow_is_judged_in_each_interval() -> None:
    series = pl.DataFrame(
        {
            "run": pl.Series([0] * 4, dtype=pl.UInt32),
            "flow": ["f"] * 4,
            "t_s": [1.0, 2.0, 4.0, 5.0],
            "goodput_mbps": [8.0, 0.0, 8.0, 8.0],
            "sent_packets": [10, 0, 10, 10],
            # The first interval fills the window of 100 kB, the third has a queue of 20 ms.
            "inflight_packets": [99, 0, 10, 10],
            "rtt_mean_ms": [100.0, None, 120.0, 101.0],
        }
    )
    about = blank_row("connections") | {"flow": "f", "segment_bytes": 1000, "receive_window_max_bytes": 100_000}
    tables = {"series": series, "connections": pl.DataFrame([about], schema=empty_table("connections").schema)}

    def judged(**row: float | None) -> Mapping[str, float]:
        flow = blank_row("flows") | {"flow": "f", "rtt_min_ms": 100.0, "duration_s": 5.0} | row
        flows = pl.DataFrame([flow], schema=empty_table("flows").schema).drop("leg")
        ((_, found),) = judge(lambda name: tables.get(name, empty_table(name)), flows)
        return found

    assert judged() == pytest.approx({"queue": 0.4, "receiver": 0.2, "window": 0.2, "application": 0.2})
    # Times that the sender itself counted stand in place of what its series suggests.
    counted = {"application": 0.5, "queue": 0.25, "receiver": 0.125, "window": 0.125}
    assert judged(app_limited_s=2.5) == pytest.approx(counted)
    assert judged(rtt_min_ms=None) == {}
