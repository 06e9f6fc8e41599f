# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files of several kinds become runs: pings beside transfers, captures in parts, several transfers in a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from perigee.campaigns.campaign import make
from perigee.campaigns.manifest import read_manifest
from perigee.campaigns.plan import plan
from perigee.campaigns.prediction import transfers
from perigee.errors import InputError
from perigee.groups.groups import Groups
from perigee.store.results import Results

BEGAN_S = 1_590_000_000


def iperf3(cc: str, *streams: int, began_s: int = BEGAN_S) -> str:
    """A second as `iperf3 --json` writes it, with these bytes per stream."""
    each = [
        {"socket": number, "start": 0, "end": 1, "seconds": 1, "bytes": count, "sender": False}
        for number, count in enumerate(streams)
    ]
    end = [{"receiver": {"socket": number, "bytes": count, "end": 1}} for number, count in enumerate(streams)]
    return json.dumps(
        {
            "start": {
                "timestamp": {"timesecs": began_s},
                "test_start": {"protocol": "TCP", "duration": 1, "reverse": 1},
            },
            "intervals": [{"streams": each}],
            "end": {"streams": end, "sender_tcp_congestion": cc},
        }
    )


def ping_log(began_s: float) -> str:
    head = "# perigee ping: to there, every 200000 us, 20 bytes, lost after 10000000 us\nunix_s,rtt_ms\n"
    return head + "".join(f"{began_s + 0.2 * at:.3f},50.000\n" for at in range(10))


def results_of(folder: Path, manifest: str, out: Path) -> Results:
    (folder / "campaign.toml").write_text(manifest)
    make(plan(folder, read_manifest(folder / "campaign.toml")), out, 1)
    return Results(out)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "recordings"
    made.mkdir()
    return made


def test_pings_during_a_transfer_are_a_flow_of_its_run(folder: Path, tmp_path: Path) -> None:
    for round_ in (1, 2):
        for cc in ("bbr", "cubic"):
            began_s = BEGAN_S + 3600 * round_ + 600 * len(cc)
            (folder / f"{round_}-{cc}.json").write_text(iperf3(cc, 10**6, began_s=began_s))
            (folder / f"{round_}-{cc}.csv").write_text(ping_log(began_s - 5))
    manifest = 'name = "a"\n[[recordings]]\nfiles = "{round}-{cc}.json"\n[[recordings]]\nfiles = "{round}-{cc}.csv"\n'
    results = results_of(folder, manifest, tmp_path / "out")
    flows = results.table("flows")
    own = flows.filter(run=0).sort("flow").select("flow", "cc", "start_s").rows()
    assert own == [("ping", "", 0.0), ("transfer", "bbr", 5.0)]
    assert flows["point"].unique().sort().to_list() == [
        '{"flows.transfer.cc":"bbr"}', '{"flows.transfer.cc":"cubic"}',
    ]  # fmt: skip
    # Pings beside the one and beside the other are two groups.
    groups = Groups(results)
    assert [len(group.rows) for group in groups.groups_of("ping")] == [2, 2]
    assert [group.label for group in groups.groups] == ["BBR", "Cubic"]


def test_idle_pings_are_runs_of_their_own_and_say_nothing_of_what_varies(folder: Path, tmp_path: Path) -> None:
    for cc in ("bbr", "cubic"):
        (folder / f"1-{cc}.json").write_text(iperf3(cc, 10**6))
    (folder / "1-idle.csv").write_text(ping_log(BEGAN_S))
    manifest = 'name = "a"\n[[recordings]]\nfiles = "{round}-{cc}.json"\n[[recordings]]\nfiles = "{round}-idle.csv"\n'
    flows = results_of(folder, manifest, tmp_path / "out").table("flows")
    points = dict(flows.select("cc", "point").rows())
    assert points == {"bbr": '{"flow.cc":"bbr"}', "cubic": '{"flow.cc":"cubic"}', "": "{}"}


def test_rounds_that_only_time_makes_are_no_pairs(folder: Path, tmp_path: Path) -> None:
    for hour, cc in enumerate(("bbr", "cubic", "bbr", "cubic")):
        (folder / f"{cc}-{hour}.json").write_text(iperf3(cc, 10**6, began_s=BEGAN_S + 3600 * hour))
    manifest = 'name = "a"\n[[recordings]]\nfiles = "{cc}-*.json"\n'
    flows = results_of(folder, manifest, tmp_path / "out").table("flows")
    assert flows.select("round", "cc").rows() == [(0, "bbr"), (0, "cubic"), (1, "bbr"), (1, "cubic")]
    assert flows["seed"].n_unique() == 4


def test_a_second_transfer_that_is_not_small_has_to_be_declared(folder: Path, tmp_path: Path) -> None:
    (folder / "1-cubic.json").write_text(iperf3("cubic", 10**6, 8 * 10**5))
    manifest = 'name = "a"\n[[recordings]]\nfiles = "{round}-{cc}.json"\n'
    with pytest.raises(InputError, match=r"another transfer carried 0\.80 MB, the one that is taken 1\.00 MB"):
        results_of(folder, manifest, tmp_path / "out")
    flows = results_of(folder, manifest + "count = 2\n", tmp_path / "both").table("flows")
    assert flows.select("flow", "received_bytes").rows() == [("transfer.1", 10**6), ("transfer.2", 8 * 10**5)]


@pytest.mark.parametrize(("name", "text"), [("iperf3.json", iperf3("cubic", 10**6)), ("ping.csv", ping_log(BEGAN_S))])
def test_a_file_that_is_there_twice_is_refused(folder: Path, tmp_path: Path, name: str, text: str) -> None:
    for round_ in (1, 2):
        (folder / f"{round_}-{name}").write_text(text)
    with pytest.raises(InputError, match=f"2-{name}: has the same content as 1-{name}"):
        results_of(folder, f'name = "a"\n[[recordings]]\nfiles = "{{round}}-{name}"\n', tmp_path / "out")


def test_transfers_that_ran_beside_each_other_are_not_predicted_alone(folder: Path, tmp_path: Path) -> None:
    manifest = 'name = "a"\n[[recordings]]\nfiles = "{round}-{cc}.json"\ncount = 2\n'
    (folder / "1-cubic.json").write_text(iperf3("cubic", 10**6, 8 * 10**5))
    with pytest.raises(InputError, match="1 transfer of 1 ran beside others of its run"):
        transfers(results_of(folder, manifest, tmp_path / "both"), [])
    (folder / "2-cubic.json").write_text(iperf3("cubic", 10**6, began_s=BEGAN_S + 60))
    found, notes = transfers(results_of(folder, manifest, tmp_path / "alone"), [])
    assert [one.rows["round"].to_list() for one in found] == [[2]]
    assert len(notes) == 2


def test_a_file_that_went_away_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "1-cubic.json").write_text(iperf3("cubic", 10**6))
    (folder / "campaign.toml").write_text('name = "a"\n[[recordings]]\nfiles = "{round}-{cc}.json"\n')
    known = plan(folder, read_manifest(folder / "campaign.toml"))
    (folder / "1-cubic.json").unlink()
    with pytest.raises(InputError, match=r"1-cubic\.json: cannot be read"):
        make(known, tmp_path / "out", 1)


def test_names_that_no_result_can_have_are_refused(folder: Path) -> None:
    for name, said in (
        (b"4294967296-cubic.json", "its round must be from 0 to 4294967295"),
        (b"1-cubi\xff.json", "its `cc` is no UTF-8"),
        (b"2-pipe.json", "no regular file"),
    ):
        path = folder / os.fsdecode(name)
        if b"pipe" in name:
            os.mkfifo(path)
        else:
            path.write_text(iperf3("cubic", 10**6))
        (folder / "campaign.toml").write_text('name = "a"\n[[recordings]]\nfiles = "{round}-{cc}.json"\n')
        with pytest.raises(InputError, match=said):
            plan(folder, read_manifest(folder / "campaign.toml"))
        path.unlink()


def test_a_form_of_time_that_is_none_is_refused(folder: Path) -> None:
    (folder / "2020.json").write_text(iperf3("cubic", 10**6))
    (folder / "campaign.toml").write_text('name = "a"\n[[recordings]]\nfiles = "{time}.json"\ntime = "%Y-%Y"\n')
    with pytest.raises(InputError, match="correct `time`"):
        plan(folder, read_manifest(folder / "campaign.toml"))
