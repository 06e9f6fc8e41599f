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

from conftest import ROOT, tool
from perigee import version
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
        [ROOT / "tools/sdist.sh", tmp_path],
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
        source.extractall(tmp_path, filter="data")
    folder = next(tmp_path.glob("perigee_lab-*/"))
    built = subprocess.run([sys.executable, folder / "python/perigee/version.py"], capture_output=True, check=True)
    assert built.stdout.decode().strip() == subprocess.check_output([ROOT / "tools/version.sh"], text=True).strip()
    relative = re.findall(r"\]\((?![a-z]+:|#)\S+\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert relative == []
    lacking = names - {"LICENSES/MIT.txt", "crates/perigee-cc/build.rs"}
    tracked = ["crates/perigee-cc/build.rs"]
    assert packages.faults(lacking, "License: MIT", tracked, is_wheel=False) == [
        "LICENSES/MIT.txt: missing",
        "crates/perigee-cc/build.rs: missing",
        "the metadata lacks `License-Expression: GPL-2.0-only OR MIT`",
    ]


def test_the_number_is_the_same_in_the_package_and_the_workspace_and_the_citation_names_the_last_release() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    assert workspace["package"]["version"].replace("-dev.", ".dev") == version.NUMBER
    released = re.search(r"^## \[(\d.*)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert released is not None
    assert ".dev" in version.NUMBER or released[1] == version.NUMBER
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'\nversion: "{released[1]}"\ndate-released: "{released[2]}"\n' in citation


def test_a_version_names_the_commit_of_a_checkout_or_of_a_build_and_none_where_there_is_neither(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    package = tmp_path / "python/perigee"
    package.mkdir(parents=True)
    assert version.version_of(str(package)) == version.NUMBER
    for command in (["init", "--quiet", "--initial-branch", "main"], ["commit", "--quiet", "--allow-empty", "-m", "a"]):
        subprocess.run([*git, *command], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    named = f"{version.NUMBER}+g{commit[:9]}"
    assert version.version_of(str(package)) == named
    subprocess.run([*git, "pack-refs", "--all"], check=True)
    assert version.version_of(str(package)) == named
    subprocess.run([*git, "worktree", "add", "--quiet", "--detach", tmp_path / "further"], check=True)
    (tmp_path / "further/python/perigee").mkdir(parents=True)
    assert version.version_of(str(tmp_path / "further/python/perigee")) == named
    (package / "data").mkdir()
    (package / "data/commit").write_text("0123456789\n")
    assert version.version_of(str(package)) == f"{version.NUMBER}+g012345678"


def test_a_build_at_the_tag_of_its_number_is_a_release_and_names_no_commit(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for name in ("tools/version.sh", "python/perigee/version.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "a"]):
        subprocess.run([*git, *command], check=True)
    built = [str(tmp_path / "tools/version.sh")]
    assert subprocess.check_output(built, text=True).startswith(f"{version.NUMBER}+g")
    subprocess.run([*git, "tag", "-m", "a", f"v{version.NUMBER}"], check=True)
    assert subprocess.check_output(built, text=True) == f"{version.NUMBER}\n"


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
    assert f"the web page needs {missing}; install it with: pip install starlette uvicorn" in done.stderr


def test_nothing_tells_to_install_the_package_that_pypi_has_under_the_name() -> None:
    said = ("pip install perigee", "pip install -U 'perigee[serve]'", "`perigee[serve]`", "pip install -q perigee==1")
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
    assert f"perigee-lab=={version.NUMBER}" in subprocess.run(
        listed, env=clean, capture_output=True, text=True, check=True
    ).stdout.splitlines()  # fmt: skip
