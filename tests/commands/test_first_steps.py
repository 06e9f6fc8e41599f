# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Before the first study: lists of names, a study to start from, the check of this host, and root privileges."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT, SMALL_STUDY, Perigee
from perigee.commands.doctor import parts
from perigee.engines.host.checks import OLDEST_KERNEL, STRUCT_OPS, checks
from perigee.engines.host.checks import _kernel as kernel_checks
from perigee.places import current_profiles, studies


def test_studies_are_listed_with_their_titles_and_files(perigee: Perigee) -> None:
    done = perigee("studies", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == perigee("studies", "list", cwd=ROOT).stdout
    assert "Four congestion controls over a commercial GEO satellite link" in done.stdout
    assert all(name in done.stdout for name in studies())


def test_a_study_is_shown_with_what_varies_and_how_many_runs_it_has(perigee: Perigee) -> None:
    done = perigee("studies", "show", "claypool-2021")
    assert done.returncode == 0, done.stderr
    assert "runs: 320: 4 points in 80 rounds" in done.stdout
    assert "varies: flow.cc = bbr (extra_acked = False), cubic, hybla" in done.stdout
    assert "satellite.down: gateway to terminal; rate" in done.stdout


def test_a_study_that_needs_a_recording_is_shown_with_what_to_give(perigee: Perigee, tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    text = SMALL_STUDY.replace('"10 Mbit/s"', '{ trace = "${inputs.bw}" }')
    study.write_text(text.replace("[[links]]", '[inputs]\nbw = "a recording"\n[[links]]', 1))
    done = perigee("studies", "show", study)
    assert done.returncode == 0, done.stderr
    assert "needs: --set inputs.bw=PATH (a recording)" in done.stdout
    assert "the runs are not shown" in done.stderr


def test_a_study_that_is_wrong_is_not_shown(perigee: Perigee, tmp_path: Path) -> None:
    study = tmp_path / "s.toml"
    study.write_text(SMALL_STUDY.replace("delay", "dealy"))
    done = perigee("studies", "show", study)
    assert (done.returncode, "did you mean `delay`?" in done.stderr) == (2, True)


def test_profiles_are_listed_and_each_is_shown_with_its_source(perigee: Perigee) -> None:
    listed = perigee("profiles").stdout
    assert listed == perigee("profiles", "list").stdout
    for name, path in current_profiles().items():
        assert f"  {name} " in listed
        # Each says what it was held against, or that it was not.
        assert tomllib.loads(path.read_text())["held"]
    assert "old names: starlink-2022 (starlink-thesis-2022), starlink-2026 (starlink), starlink-timeline" in listed
    assert "456 Mbit/s / 30 Mbit/s" in listed
    shown = perigee("profiles", "show", "geo")
    assert shown.returncode == 0, shown.stderr
    assert "source: textbook values" in shown.stdout
    assert [line.split() for line in shown.stdout.splitlines() if line.strip().startswith("queue")] == [
        ["queue", "7.5", "MB", "7.5", "MB"]
    ]


def test_a_profile_of_ones_own_is_shown_by_its_file(perigee: Perigee, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text((ROOT / "profiles" / "geo.toml").read_text().replace("100 Mbit/s", "7 Mbit/s"))
    done = perigee("profiles", "show", "./mine.toml")
    assert (done.returncode, "7 Mbit/s" in done.stdout) == (0, True), done.stderr


def test_the_study_to_begin_with_works_at_once(perigee: Perigee, tmp_path: Path) -> None:
    made = perigee("new", "study", "mine")
    assert (made.returncode, made.stdout) == (0, "mine\n"), made.stderr
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["README.md", "study.toml"]
    assert 'name = "mine"' in (tmp_path / "mine" / "study.toml").read_text()
    assert "NAME" not in (tmp_path / "mine" / "README.md").read_text()
    done = perigee("run", "mine", "--reduced")
    assert (done.returncode, done.stdout) == (0, "results/mine-reduced\n"), done.stderr
    assert "reduced size: to try the set-up, not for conclusions" in done.stderr
    whole = perigee("run", "mine", "--dry-run")
    assert "18 runs" in whole.stderr


def test_a_new_study_is_written_over_nothing(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("a file")
    done = perigee("new", "study", "mine")
    assert (done.returncode, "exists already" in done.stderr) == (2, True)
    assert perigee("new", "study", "../mine").returncode == 2
    assert perigee("new", "study", "mine", "--dir", "nowhere").returncode == 2
    assert (tmp_path / "mine").read_text() == "a file"


def test_the_doctor_says_what_this_host_has_and_each_fix(perigee: Perigee) -> None:
    done = perigee("doctor", "--json")
    found = {one["name"]: one for one in json.loads(done.stdout)}
    assert {
        "memory",
        "disk",
        "kernel",
        "BTF",
        "struct_ops",
        "TUN devices",
        "root",
        "iperf3",
        "tcpdump",
        "proxy",
        "web page",
        "browser tab",
    } <= set(found)
    for one in found.values():
        assert one["needed_for"]
        assert one["ok"] is (one["fix"] is None)
    wanting = [name for name in ("memory", "disk") if not found[name]["ok"]]
    assert done.returncode == (1 if wanting else 0)
    read = perigee("doctor")
    assert len([line for line in read.stdout.splitlines() if line.startswith(("ok ", "missing "))]) == len(found)


def test_the_doctor_names_what_installs_or_builds_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perigee.commands.doctor._is_installed", lambda package: package != "uvicorn")
    monkeypatch.setattr("perigee.laboratory.page.simulates", lambda: False)
    found = {one.name: (one.ok, one.fix) for one in parts()}
    assert found == {
        "web page": (False, "pip install uvicorn"),
        "browser tab": (False, "in a checkout: make web"),
    }


def test_the_doctor_looks_for_compilers_where_the_environment_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    found = {one.name: one for one in checks()}
    assert not found["C compiler"].ok
    assert "gcc" in found["C compiler"].fix
    assert not found["C compiler"].for_simulator


def test_the_doctor_knows_an_old_kernel_and_one_without_types(tmp_path: Path) -> None:
    old = {one.name: one for one in kernel_checks("5.15.0-generic", tmp_path)}
    assert not any(one.ok for one in old.values())
    assert "6.12" in old["kernel"].fix
    (tmp_path / "sys/kernel/btf").mkdir(parents=True)
    (tmp_path / "sys/fs/bpf").mkdir(parents=True)
    (tmp_path / "sys/kernel/btf/vmlinux").write_bytes(b"types \0" + STRUCT_OPS + b"\0")
    new = {one.name: one for one in kernel_checks(".".join(map(str, OLDEST_KERNEL)), tmp_path)}
    assert all(one.ok for one in new.values())


def test_a_link_is_drawn_into_a_file_of_the_kind_that_its_name_says(perigee: Perigee, tmp_path: Path) -> None:
    short = ("--for", "2 s", "--every", "20 ms", "--set", "link.loss=5 %")
    for name, begins in (("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")):
        done = perigee("profiles", "draw", "geo", *short, "-o", tmp_path / name)
        assert (done.returncode, done.stdout) == (0, f"{tmp_path / name}\n"), done.stderr
        assert (tmp_path / name).read_bytes().startswith(begins)
    done = perigee("profiles", "draw", "geo", "-o", tmp_path / "a.gif")
    assert (done.returncode, "unknown format of figures; use a name that ends in .png, .pdf, .svg" in done.stderr) == (
        2,
        True,
    )
    assert not (tmp_path / "a.gif").exists()


def test_the_doctor_holds_buffers_against_a_link(perigee: Perigee) -> None:
    found = json.loads(perigee("doctor", "--link", "geo", "--json").stdout)
    plain = json.loads(perigee("doctor", "--json").stdout)
    names = {one["name"] for one in found} - {one["name"] for one in plain}
    assert names, "checks of tcp_rmem and tcp_wmem are there with a link only"
    done = perigee("doctor", "--link", "goe")
    assert (done.returncode, "did you mean `geo`" in done.stderr) == (2, True)


def test_an_old_name_of_a_profile_works_with_a_word(perigee: Perigee, tmp_path: Path) -> None:
    shown = perigee("profiles", "show", "starlink-2022")
    assert "the profile starlink-2022 is called starlink-thesis-2022 now" in shown.stderr
    assert shown.stdout == perigee("profiles", "show", "starlink-thesis-2022").stdout.replace(
        "profiles/starlink-thesis-2022.toml", "profiles/starlink-2022.toml"
    )
    run = perigee("run", "low-orbit-now", "--reduced", "--dry-run")
    assert "the profile starlink-2022 is called starlink-thesis-2022 now" in run.stderr
    assert "is called" not in perigee("run", "gallery", "--dry-run", "--set", "links.path.profile=starlink").stderr
