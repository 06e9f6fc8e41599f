# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Installation of stacks: a package of a local file, whole or not at all."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from perigee.errors import InputError
from perigee.stacks.builders import CouldNotError, Site
from perigee.stacks.install import Outcome, install
from perigee.stacks.table import Stack, find

pytestmark = pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None, reason="this system has no apt-get"
)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A stack of one package, in a source of packages that is a folder."""
    tree, source = tmp_path / "tree", tmp_path / "source"
    for folder in (tree / "DEBIAN", tree / "usr/bin", source):
        folder.mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: made-up\nVersion: 1.0.0-1\nArchitecture: all\nMaintainer: Nobody <a@b.org>\nDescription: x\n"
    )
    (tree / "usr/bin/made-up").write_text("#!/bin/sh\n")
    package = source / "made-up_1.0.0-1_all.deb"
    subprocess.run(
        [str(shutil.which("dpkg-deb")), "--root-owner-group", "-b", tree, package], check=True, capture_output=True
    )
    sha256 = hashlib.sha256(package.read_bytes()).hexdigest()
    control = (tree / "DEBIAN/control").read_text()
    (source / "Packages").write_text(
        f"{control}Filename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {sha256}\n"
    )
    (source / "sources.list").write_text(f"deb [trusted=yes] file:{source} ./\n")
    (source / "apt.conf").write_text(
        f'Dir::Etc::SourceList "{source}/sources.list"; Dir::Etc::SourceParts "/dev/null"; Acquire::Languages "none";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(source / "apt.conf"))
    return dataclasses.replace(
        find("ngtcp2"),
        name="made-up",
        version="1.0.0",
        packages=(("made-up", "1.0.0-1", sha256),),
        programs=("usr/bin/made-up",),
    )


def test_a_stack_of_a_local_source_is_installed_once_and_nothing_else_stays(made: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "stacks"
    steps: list[tuple[str, str]] = []
    done = install([], folder, lambda name, step: steps.append((name, step)), [made])
    assert done == [Outcome("made-up", "installed")]
    assert (folder / "made-up-1.0.0/usr/bin/made-up").is_file()
    assert ("made-up", "downloading made-up 1.0.0-1") in steps
    assert {path.name for path in folder.iterdir()} == {".lock", "made-up-1.0.0"}
    assert install(["made-up"], folder, lambda *_: None, [made]) == [Outcome("made-up", "already there")]


def test_a_wrong_sum_is_refused_and_leaves_nothing_half_written(made: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "stacks"
    wrong = dataclasses.replace(made, packages=(("made-up", "1.0.0-1", "0" * 64),))
    (outcome,) = install([], folder, lambda *_: None, [wrong])
    assert outcome.state == "could not"
    assert "made-up_1.0.0-1_all.deb has the SHA-256" in outcome.reason
    assert not list(folder.glob("made-up*"))
    assert not list((folder / "work").rglob("*.deb"))
    assert not list((folder / "work").rglob("usr"))
    assert install([], folder, lambda *_: None, [made]) == [Outcome("made-up", "installed")]
    assert not (folder / "work").exists()


def test_what_cannot_be_had_is_said_and_the_others_are_installed(made: Stack, tmp_path: Path) -> None:
    missing = dataclasses.replace(made, name="missing", packages=(("missing", "2", "0" * 64),))
    unbuilt = dataclasses.replace(made, name="unbuilt", programs=("usr/bin/unbuilt",))
    first, second, third = install([], tmp_path / "stacks", lambda *_: None, [missing, unbuilt, made])
    assert (first.state, second.state, third.state) == ("could not", "could not", "installed")
    assert "`apt-get` ended with 100" in first.reason
    assert second.reason == "`usr/bin/unbuilt` was not built"


def test_unknown_names_and_a_folder_in_use_are_refused(made: Stack, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no QUIC stack of that name; did you mean `made-up`"):
        install(["made-pu"], tmp_path / "stacks", lambda *_: None, [made])
    assert not (tmp_path / "stacks").exists()
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another installation is under way"):
            install([], tmp_path, lambda *_: None, [made])


def test_a_full_folder_is_named_before_anything_is_started(
    made: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5 << 20))
    steps: list[str] = []
    (outcome,) = install([], tmp_path / "stacks", lambda _, step: steps.append(step), [made])
    needed = 40 + made.mebibytes
    assert outcome.reason == f"{tmp_path}/stacks is full: 5 MiB free, it needs {needed} MiB or more"
    assert steps == []


def test_a_program_that_does_not_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    site = Site(tmp_path, tmp_path, tmp_path, tmp_path, print)
    begun = time.monotonic()
    with pytest.raises(CouldNotError, match="`sh` did not end within 1 s"):
        site.run(["sh", "-c", "sleep 60 & sleep 60"], limit_s=1)
    assert time.monotonic() - begun < 20
