# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The contents of a source distribution: all that a build needs, and the licences."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from conftest import ROOT, tool


def test_a_source_distribution_has_all_files_and_licences(tmp_path: Path) -> None:
    git, cargo = shutil.which("git"), shutil.which("cargo")
    if importlib.util.find_spec("maturin") is None or git is None or cargo is None:
        pytest.skip("maturin, cargo or git is not installed")
    known = subprocess.run([git, "ls-files", "--error-unmatch", "LICENSE"], cwd=ROOT, capture_output=True, check=False)
    if known.returncode:
        pytest.skip("this is no checkout")
    done = subprocess.run(
        [sys.executable, "-m", "maturin", "sdist", "--out", tmp_path],
        cwd=ROOT, env={**os.environ, "CARGO_NET_OFFLINE": "true"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and "offline" in done.stderr:
        pytest.skip("not all crates are on this machine")
    assert done.returncode == 0, done.stderr
    package = next(tmp_path.glob("*.tar.gz"))
    packages = tool("check_packages")
    assert packages.check(package) == []
    with tarfile.open(package) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    lacking = names - {"LICENSES/MIT.txt", "crates/perigee-cc/build.rs"}
    tracked = ["crates/perigee-cc/build.rs"]
    assert packages.faults(lacking, "License: MIT", tracked, is_wheel=False) == [
        "LICENSES/MIT.txt: missing",
        "crates/perigee-cc/build.rs: missing",
        "the metadata lacks `License-Expression: GPL-2.0-only OR MIT`",
    ]
