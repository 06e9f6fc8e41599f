# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A campaign's files become results like a study's, held against their manifest."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import polars as pl
import pytest

from conftest import Once, Perigee
from perigee.analysis.recordings import GoOn
from perigee.api.results import load
from perigee.campaigns.campaign import make
from perigee.campaigns.manifest import Manifest, read_manifest
from perigee.campaigns.plan import Recording, plan
from perigee.campaigns.reading import read_run
from perigee.comparison.cells import compare
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError, InterruptedRunError
from perigee.places import find_study
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    'name = "planted"\nrounds = 2\nnodes = ["server", "client"]\n[measure]\npcap = ["server", "client"]\n'
    + link("satellite", "server client", rate="20 Mbit/s", delay="30 ms", loss="0.2 %")
    + flow("transfer", "server client", size="1 MB")
    + '[vary]\n"flow.cc" = ["cubic", "bbr"]\n'
)
MANIFEST = """
name = "rooftop"
title = "Two algorithms on a roof"
[[recordings]]
files = "{round}/{cc}-{place}.pcapng"
"""

Recorded = Callable[..., Path]


@pytest.fixture(scope="module")
def simulated(once: Once) -> Path:
    """Results of two algorithms in two rounds, with captures at both ends."""

    def carried_out(folder: Path) -> None:
        folder.mkdir()
        (folder / "study.toml").write_text(STUDY)
        carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "results"))

    return once("campaign of two algorithms", carried_out) / "results"


@pytest.fixture
def recorded(simulated: Path, tmp_path: Path) -> Recorded:
    """Make the folder of a campaign with a manifest: `round/cc-place.pcapng`."""

    def made(manifest: str = MANIFEST) -> Path:
        folder = tmp_path / "recordings"
        for row in Results(simulated).table("flows").iter_rows(named=True):
            for place in ("server", "client"):
                copy = folder / str(row["round"] + 1) / f"{row['cc']}-{place}.pcapng"
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(simulated / "captures" / f"run-{row['run']:06d}-{place}.pcapng", copy)
        (folder / "campaign.toml").write_text(manifest)
        return folder

    return made


def results_of(folder: Path, out: Path, **options: object) -> Results:
    manifest = read_manifest(folder / "campaign.toml")
    make(plan(folder, manifest), out, 2, **options)  # type: ignore[arg-type]
    return Results(out)


def test_a_campaign_has_the_figures_of_the_study_that_it_recorded(
    recorded: Recorded, simulated: Path, tmp_path: Path
) -> None:
    found, truth = results_of(recorded(), tmp_path / "out"), Results(simulated)
    flows = found.table("flows")
    assert flows["engine"].unique().to_list() == ["campaign"]
    assert flows.select("round", "cc", "from_node", "to_node").rows() == [
        (1, "bbr", "server", "client"), (1, "cubic", "server", "client"),
        (2, "bbr", "server", "client"), (2, "cubic", "server", "client"),
    ]  # fmt: skip
    differences = compare(found, truth, metrics=("goodput_mbps", "rtt_mean_ms", "retransmitted_percent"))
    assert len(differences) == 6
    for cell in differences:
        assert cell.a == pytest.approx(cell.b, rel=0.03), cell.metric.name
    # Each run was held against its own other side only: losses of the link, and of no other run.
    lost = (
        truth.table("links").filter(pl.col("link") == "satellite.down").group_by("run").agg(pl.sum("dropped_packets"))
    )
    matched = found.table("connections")["matched_lost_packets"].to_list()
    assert sorted(matched) == sorted(lost["dropped_packets"].to_list())


def test_reports_and_python_take_a_campaign(recorded: Recorded, tmp_path: Path, perigee: Perigee) -> None:
    out = tmp_path / "out"
    folder = recorded()
    done = perigee("campaign", folder, "--out", out, "-j", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(out)
    assert perigee("report", out).returncode == 0
    page = (out / "report.html").read_text()
    for part in ("Two algorithms on a roof", "rooftop, measured; 2 rounds", "8 captures", "perigee campaign DIR"):
        assert part in page, part
    loaded = load(out)
    assert loaded.engine == "campaign"
    assert set(loaded.flows["point.cc"]) == {"bbr", "cubic"}
    again = perigee("campaign", folder, "--out", out)
    assert again.returncode == 0, again.stderr


def test_what_a_file_says_itself_is_held_against_the_manifest(
    recorded: Recorded, tmp_path: Path, perigee: Perigee
) -> None:
    wrong = MANIFEST + 'direction = "up"\nnames = { place = { server = "client", client = "server" } }\n'
    folder, out = recorded(wrong), tmp_path / "out"
    done = perigee("campaign", folder, "--out", out)
    assert done.returncode == 2
    assert '1/bbr-client.pcapng: `direction` is up, but its data go down; write `direction = "down"`' in done.stderr
    assert (
        "1/bbr-client.pcapng: `place` is server, but it was captured at the client; correct `names.place`"
        in done.stderr
    )
    assert not list(out.glob("*.parquet"))
    # The corrected manifest finds what was read: no capture is there any more.
    (folder / "campaign.toml").write_text(MANIFEST)
    stamps = {path: path.stat() for path in folder.rglob("*.pcapng")}
    for path, stamp in stamps.items():
        path.write_bytes(path.read_bytes()[:4].ljust(stamp.st_size, b"\0"))
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert results_of(folder, out).table("flows").height == 4


def test_times_and_algorithms_in_names_are_held_against_those_of_iperf3(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    interval = {"streams": [{"socket": 5, "start": 0, "end": 1, "seconds": 1, "bytes": 1250000, "sender": True}]}
    test = {
        "start": {"timestamp": {"timesecs": 1_590_000_000}, "test_start": {"protocol": "TCP", "duration": 1}},
        "intervals": [interval], "end": {"sender_tcp_congestion": "cubic"},
    }  # fmt: skip
    (folder / "bbr_20200520-204000.json").write_text(json.dumps(test))
    manifest = (
        'name = "a"\nzone = "Europe/Berlin"\n[[recordings]]\nfiles = "{cc}_{time}.json"\ntime = "%Y%m%d-%H%M%S"\n'
    )
    (folder / "campaign.toml").write_text(manifest)
    with pytest.raises(InputError) as error:
        results_of(folder, tmp_path / "out")
    assert "`cc` is bbr, but iperf3 says cubic" in str(error.value)
    assert "its name says 2020-05-20 18:40:00 UTC" not in str(error.value)
    (folder / "campaign.toml").write_text(manifest.replace("Europe/Berlin", "UTC").replace("{cc}_", "*_"))
    with pytest.raises(InputError, match=r"2020-05-20 18:40:00 UTC, 2.00 h earlier; correct `zone`"):
        results_of(folder, tmp_path / "utc")
    (folder / "campaign.toml").write_text(manifest.replace("{cc}_", "*_"))
    assert results_of(folder, tmp_path / "right").table("flows").row(0, named=True)["cc"] == "cubic"


def test_a_reading_that_was_stopped_goes_on(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = recorded(), tmp_path / "out"
    known = plan(folder, read_manifest(folder / "campaign.toml"))

    def stop(share: float) -> None:
        if share > 0.4:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="of 4 runs are read"):
        make(known, out, 1, stop)
    there = {path.name: path.stat().st_mtime_ns for path in (out / "shards").iterdir()}
    assert 1 <= len(there) < 4
    read: list[str] = []

    def counting(files: Sequence[Recording], manifest: Manifest, go_on: GoOn) -> dict[str, bytes] | None:
        read.append(files[0].name)
        return read_run(files, manifest, go_on)

    monkeypatch.setattr("perigee.campaigns.campaign.read_run", counting)
    make(known, out, 2)
    assert len(read) == 4 - len(there)
    assert Results(out).table("flows").height == 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "1" / "bbr-server.pcapng").write_bytes(b"\x0a\x0d\x0d\x0a"), "1 file cannot be read"),
        (lambda folder: shutil.copyfile(folder / "1/bbr-server.pcapng", folder / "3.pcapng"), None),
        (lambda folder: shutil.copytree(folder / "1", folder / "3"), "3/bbr-server.pcapng: has the same"),
        (lambda folder: shutil.copyfile(folder / "2/bbr-client.pcapng", folder / "1/bbr-client.pcapng"), "the same"),
    ],
)  # fmt: skip
def test_bad_files_are_said_and_nothing_is_half_written(
    recorded: Recorded, tmp_path: Path, change: Callable[[Path], object], said: str | None
) -> None:
    folder, out = recorded(), tmp_path / "out"
    change(folder)
    if said is None:
        done = make(plan(folder, read_manifest(folder / "campaign.toml")), out, 2)
        assert "1 file fit no pattern and are in no figure: 3.pcapng" in done.notes
        return
    with pytest.raises(InputError, match=said):
        results_of(folder, out)
    assert not list(out.glob("*.parquet"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('name = "a"', "there are no \\[\\[recordings\\]\\]"),
        (MANIFEST + 'flw = "x"', "campaign.toml:6: unknown key `flw`; did you mean `flow`"),
        (MANIFEST.replace("{place}", "{place"), "campaign.toml:5: .*a brace is alone"),
        (MANIFEST + 'cc = "cubic"', "`cc` is in the names and set beside them"),
        (MANIFEST.replace("{place}", "{time}"), "`{time}` and `time` belong together"),
        (MANIFEST.replace("{place}", "{where}").replace("pcapng", "cap"), "fits `{round}/{cc}-{where}.cap`"),
        (MANIFEST.replace("-{place}", "-*"), "are the same by the manifest \\(round 1, cc bbr\\)"),
        (MANIFEST + 'names = { round = { 1 = "monday" } }', "campaign.toml:6: .*`monday` must be a number"),
        (MANIFEST + 'flow = "video.2"', "campaign.toml:6: .*`video.2` ends like the several transfers"),
        (MANIFEST + '[measure]\nseries = "banana"', "campaign.toml:7: .*`series` must be a time of 1 ms or more"),
        (MANIFEST.replace("{round}/", "**"), "`\\*\\*` stands for folders"),
        (MANIFEST + 'direction = "left"', "`direction` must be one of down, up, not `left`"),
    ],
)  # fmt: skip
def test_a_wrong_manifest_is_refused_before_a_packet_is_read(
    recorded: Recorded, tmp_path: Path, wrong: str, said: str
) -> None:
    folder = recorded(wrong)
    with pytest.raises(InputError, match=said):
        plan(folder, read_manifest(folder / "campaign.toml"))
    assert not (tmp_path / "out").exists()


def test_captures_of_different_runs_never_meet(recorded: Recorded, tmp_path: Path) -> None:
    folder = recorded()
    # Both sides of one connection, under two rounds: `perigee analyze` would hold them against each other.
    shutil.copyfile(folder / "1" / "bbr-client.pcapng", folder / "2" / "bbr-client.pcapng")
    for name in (
        "1/bbr-client",
        "2/bbr-server",
        "1/cubic-server",
        "1/cubic-client",
        "2/cubic-server",
        "2/cubic-client",
    ):
        (folder / f"{name}.pcapng").unlink()
    found = results_of(folder, tmp_path / "out").table("connections")
    assert found.select("run", "matched_packets").rows() == [(0, None), (1, None)]


def test_the_parts_of_a_rotated_capture_are_one(recorded: Recorded, tmp_path: Path) -> None:
    folder = recorded()
    whole = results_of(folder, tmp_path / "whole").table("flows").filter(cc="bbr", round=1)
    for path in sorted(folder.rglob("*.pcapng")):
        if path.name != "bbr-server.pcapng" or path.parent.name != "1":
            path.unlink()
    content = (folder / "1" / "bbr-server.pcapng").read_bytes()
    blocks = list(blocks_of(content))
    # Section and interface stand at the begin of each part.
    middle = len(blocks) // 2
    for part, own in (("", blocks[2:middle]), ("1", blocks[middle:])):
        (folder / f"1-bbr.pcap{part}").write_bytes(b"".join([*blocks[:2], *own]))
    (folder / "1" / "bbr-server.pcapng").unlink()
    (folder / "campaign.toml").write_text('name = "a"\n[[recordings]]\nfiles = "{round}-{cc}.pcap{part}"\n')
    joined = results_of(folder, tmp_path / "joined").table("flows")
    columns = ["goodput_mbps", "rtt_mean_ms", "retransmitted_packets", "received_bytes"]
    assert joined.select(columns).equals(whole.select(columns))


def blocks_of(content: bytes) -> Iterator[bytes]:
    """Yield the blocks of a pcapng file, each with its length at its fourth byte."""
    at = 0
    while at < len(content):
        length = int.from_bytes(content[at + 4 : at + 8], "little")
        yield content[at : at + length]
        at += length


def test_a_kill_while_runs_are_named_loses_nothing(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = recorded(), tmp_path / "out"
    known = plan(folder, read_manifest(folder / "campaign.toml"))
    with monkeypatch.context() as killed:
        killed.setattr("perigee.store.folder.ResultsFolder.finish", None)
        with pytest.raises(TypeError):
            make(known, out, 2)
    monkeypatch.setattr("perigee.campaigns.campaign.read_run", None)
    make(known, out, 2)
    assert Results(out).table("flows").height == 4
    assert not (out / "stages").exists()
