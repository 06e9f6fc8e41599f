# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The extent of an extension: three of them are carried out on a copy of the tree, and their files are counted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BOUNDS = {"queue_discipline": 5, "workload": 10, "tcp_feature": 2}
"""The most source files that each patch may touch."""
COPY = ROOT / "target" / "extensions"
"""The place of the copy: always the same one, so that a second build is short."""
BUILD = {
    # Cargo knows a crate by its place in its workspace: in one folder, the copy's would stand for the tree's.
    "CARGO_TARGET_DIR": str(COPY.with_suffix(".target")),
    # Runs of milliseconds need no optimization, which some crates have in the profile of tests whatever is said here.
    "CARGO_PROFILE_DEV_OPT_LEVEL": "0",
    "CARGO_PROFILE_DEV_DEBUG": "0",
}
TOUCHED = re.compile(r"^diff --git a/(\S+)", re.MULTILINE)
TEST = re.compile(r"^crates/perigee-sim/tests/(\w+)\.rs$")


def touched(extension: str) -> list[PurePosixPath]:
    text = (HERE / f"{extension}.patch").read_text(encoding="utf-8")
    return [PurePosixPath(path) for path in TOUCHED.findall(text)]


def sources(extension: str) -> list[PurePosixPath]:
    return [path for path in touched(extension) if "tests" not in path.parts]


@pytest.mark.parametrize(("extension", "most"), BOUNDS.items())
def test_an_extension_touches_few_source_files_and_the_recipe_names_them(extension: str, most: int) -> None:
    assert 0 < len(sources(extension)) <= most
    recipes = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    known = [path.name for path in sources(extension) if (ROOT / path).exists()]
    assert [name for name in known if name not in recipes] == []


@pytest.mark.parametrize("extension", BOUNDS)
def test_a_patch_applies_to_the_tree(extension: str) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git's")
    run(["git", "apply", "--check", "-C1", HERE / f"{extension}.patch"], ROOT, os.environ)


@pytest.mark.long
def test_the_extensions_work_on_a_copy_of_the_tree(tmp_path: Path) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout of git's")
    extended = copy(tmp_path / "extended")
    # The copy is in no repository: git applies to the folder that it is in.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tmp_path)}
    for extension in BOUNDS:
        run(["git", "apply", "-C1", HERE / f"{extension}.patch"], extended, environment)
    settle(extended, COPY)
    tests = [found[1] for extension in BOUNDS for path in touched(extension) if (found := TEST.match(str(path)))]
    assert len(tests) == len(BOUNDS)
    command = ["cargo", "test", "--offline", "--profile=dev", "--package=perigee-sim"]
    command += [f"--test={name}" for name in tests]
    done = run(command, COPY, os.environ | BUILD)
    assert done.count("test result: ok. 1 passed") == len(tests)


def copy(folder: Path) -> Path:
    """Copy what git knows or would add."""
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT, os.environ)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def settle(source: Path, folder: Path) -> None:
    """Make `folder` equal to `source`; equal files keep their times, so that Cargo builds only the others."""
    wanted = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.relative_to(folder) not in wanted:
            path.unlink()
    for name in wanted:
        old, new = folder / name, (source / name).read_bytes()
        if not old.exists() or old.read_bytes() != new:
            old.parent.mkdir(parents=True, exist_ok=True)
            old.write_bytes(new)


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
