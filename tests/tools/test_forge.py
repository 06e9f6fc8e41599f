# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The files of the forge: workflows that call what anybody can call, owners of all products, tags to publish."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from conftest import ROOT, tool

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
RUN = re.compile(r"^ *(?:- )?run: (.*)$", re.MULTILINE)
USES = re.compile(r"^ *(?:- )?uses: (\S+)$", re.MULTILINE)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_and_scripts_that_are_there_and_asks_for_few_rights(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for command in RUN.findall(text):
        assert command != "|", "a script of several lines belongs into tools/"
        for called in re.findall(r"\bmake ((?:[a-z][a-z0-9-]*\b ?(?!=))+)", command):
            assert set(called.split()) <= targets, command
        for script in re.findall(r"(?<![\w/])(?:\.ci|tools|benches)/[\w./-]+", command):
            assert (ROOT / script).is_file(), command
    for target in re.findall(r"target: ([\w-]+)$", text, re.MULTILINE):
        assert target in targets
    assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE)
    assert all(re.search(r"@(v\d+|release/v\d+|[0-9a-f]{40})$", used) for used in USES.findall(text))
    jobs = text.partition("\njobs:\n")[2]
    assert len(re.findall(r"^  [\w-]+:$", jobs, re.MULTILINE)) == jobs.count("timeout-minutes:")


def test_every_crate_and_folder_of_a_product_has_an_owner_who_is_of_the_repositorys() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    owner = urls["Repository"].split("/")[3]
    lines = [line.split() for line in (ROOT / ".github/CODEOWNERS").read_text(encoding="utf-8").splitlines()]
    rules = [(words[0].strip("/"), words[1:]) for words in lines if words and words[0] != "#"]
    assert {name.partition("/")[0] for _, names in rules for name in names} == {f"@{owner}"}
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run([git, "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {str(parent) for line in listed.stdout.splitlines() for parent in (Path(line), *Path(line).parents)}
    assert [rule for rule, _ in rules if not any(fnmatch(folder, rule) for folder in folders)] == []
    products = {f"crates/{path.parent.name}" for path in (ROOT / "crates").glob("*/Cargo.toml")}
    assert products - {rule for rule, _ in rules} == set()


def test_a_tag_is_published_only_with_its_number_its_changes_and_known_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = tool("release")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    version = tmp_path / "python/perigee/version.py"
    version.parent.mkdir(parents=True)
    version.write_text("print('1.2.0+g123456789')")
    changes = "## [Unreleased]\n\n## [1.2.0] - 2026-12-01\n\n- New.\n\n## [1.1.0] - 2026-11-01\n"
    (tmp_path / "CHANGELOG.md").write_text(changes)
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nRepository = "https://example.org/a/b"\n')
    assert release.ready("v1.2.0") == []
    assert release.notes() == "- New."
    version.write_text("print('1.3.0.dev0')")
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nRepository = "https://a' + '.invalid/b/c"\n')
    tag, number, newest, addresses = release.ready("v1.3.0")
    assert tag == "python/perigee/version.py: the number is 1.3.0.dev0, and the tag v1.3.0"
    assert number.startswith("python/perigee/version.py: 1.3.0.dev0 is no release yet")
    assert newest.startswith("CHANGELOG.md: the newest release is not 1.3.0.dev0")
    assert addresses == "pyproject.toml: addresses are not known yet: Repository"
