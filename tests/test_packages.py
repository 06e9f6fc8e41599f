# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Packages: the contents of a source distribution, their name and version, and what is said of extras."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

import perigee
from conftest import ROOT, tool
from perigee.errors import EXTRAS, MissingPackagesError

ANOTHERS = re.compile(r"\bpip3?\b.*\binstall\b.*(?<![\w./-])perigee(?![\w-])|\bperigee\[")
"""Tells to install, or names an extra of, `perigee`, which on PyPI is another project."""


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


def test_the_version_is_the_same_in_the_package_the_workspace_and_the_citation() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    assert perigee.__version__ == workspace["package"]["version"]
    assert f'version: "{perigee.__version__}"\n' in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_errors_name_the_packages_of_each_extra_of_the_distribution() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        assert [re.split(r"[<>=\[]", one)[0] for one in extras[extra]] == list(packages)
        message = str(MissingPackagesError("it", ModuleNotFoundError(name=packages[0]), extra))
        assert f"pip install {' '.join(packages)} " in message
    assert set(extras) == set(EXTRAS), "tools of the house are dependency groups, which a wheel does not name"


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_the_web_page_says_in_one_line_what_it_needs(missing: str, tmp_path: Path) -> None:
    start = f"import sys; sys.modules[{missing!r}] = None; from perigee.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, "serve", tmp_path], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"the web page needs {missing}; install it with: pip install argon2-cffi starlette uvicorn" in done.stderr


def test_nothing_tells_to_install_the_package_that_pypi_has_under_the_name() -> None:
    said = ("pip install perigee", "pip install -U 'perigee[serve]'", "`perigee[cluster]`", "pip install -q perigee==1")
    assert all(ANOTHERS.search(one) for one in said)
    meant = ("pip install perigee-lab", "pip install 'perigee_lab-....whl[serve]'", "pip install -r /opt/perigee/needs")
    assert not any(ANOTHERS.search(one) for one in meant)
    texts = [path for path in (*ROOT.glob("*"), *(ROOT / ".ci").iterdir()) if path.is_file()]
    for folder in ("crates", "docs", "packaging", "python", "studies", "tests", "tools", "validation"):
        texts += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".md", ".py", ".rs", ".sh", ".ipynb"}]
    texts += [ROOT / "packaging/Containerfile"]
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in texts
        if path != Path(__file__)
        for line in path.read_text(encoding="utf-8").splitlines()
        if ANOTHERS.search(line)
    ]
    assert found == []


@pytest.mark.skipif("PERIGEE_WHEEL" not in os.environ, reason="PERIGEE_WHEEL names no wheel to install")
def test_the_guide_installs_the_wheel_named_by_the_environment_and_runs_a_study(tmp_path: Path) -> None:
    guide = (ROOT / "docs/guide/install.md").read_text(encoding="utf-8")
    block = re.search(r"^## A wheel\n.*?^```console\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert block is not None
    shutil.copy(os.environ["PERIGEE_WHEEL"], tmp_path)
    script = re.sub(r"^\$ ", "", block[1], flags=re.MULTILINE)
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    subprocess.run(["/bin/bash", "-euxc", script], cwd=tmp_path, env=clean, check=True)
    assert (tmp_path / "results/claypool-2021-reduced/report.html").is_file()
    listed = [str(tmp_path / "perigee/bin/pip"), "list", "--format", "freeze"]
    assert f"perigee-lab=={perigee.__version__}" in subprocess.run(
        listed, env=clean, capture_output=True, text=True, check=True
    ).stdout.splitlines()  # fmt: skip
