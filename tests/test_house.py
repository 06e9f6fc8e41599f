# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The house around the code: the count that closes `make test`, and the guide that a newcomer types along with."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "guide"


def tool(name: str) -> ModuleType:
    """A program of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


RUST = """\
running 3 tests
...
successes:

---- kernel::every_cell_is_within_its_bound stdout ----
skipped: no recorded data in ../shared
skipped: no recorded data in ../shared

---- other::prints_a_table stdout ----
| a | b |

test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
"""


def test_a_rust_test_that_says_it_was_skipped_is_counted_once_and_not_as_passed() -> None:
    tally = tool("test").Tally()
    for line in RUST.splitlines():
        tally.read(line)
    assert (tally.passed, tally.failed, tally.skipped) == (3, 2, 2)
    assert tally.reasons == ["kernel::every_cell_is_within_its_bound: no recorded data in ../shared"]


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("12 passed in 3.41s", (12, 0, 0)),
        ("==== 1 failed, 12 passed, 2 skipped in 63.41s (0:01:03) ====", (12, 1, 2)),
        ("2 failed, 1 error in 0.10s", (0, 3, 0)),
        ("a test prints: 3 passed", (0, 0, 0)),
    ],
)
def test_the_closing_line_of_pytest_is_counted(line: str, counts: tuple[int, int, int]) -> None:
    tally = tool("test").Tally()
    tally.read(line)
    assert (tally.passed, tally.failed, tally.skipped) == counts


def test_lint_finds_a_link_to_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lint = tool("lint")
    (tmp_path / "a.md").write_text("# Head\n[b](b.md) [c](a.md#head) [d](a.md#tail)\n```\n[e](e.md)\n```\n")
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    assert list(lint.broken_links([lint.PurePosixPath("a.md")])) == [
        "a.md: links to b.md, which is not there",
        "a.md: links to a.md#tail, which has no such heading",
    ]


BLOCK = re.compile(r"^```(sh|toml|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAVE_AS = re.compile(r"as\s+`([\w.-]+\.toml)`")
# What a guide says to do once, and what is done already where this test runs.
DONE_ALREADY = ("make setup", "source .venv/bin/activate")


@pytest.mark.parametrize("page", sorted(p.name for p in GUIDE.glob("*.md") if p.name != "README.md"))
def test_every_command_of_the_guide_works(page: str, tmp_path: Path) -> None:
    text = (GUIDE / page).read_text(encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in BLOCK.finditer(text):
        language, content = block.groups()
        if language == "toml":
            names = SAVE_AS.findall(text[: block.start()])
            assert names, "the text before a study does not say under which name to save it"
            (tmp_path / names[-1]).write_text(content, encoding="utf-8")
            continue
        if language == "sh":
            lines = [line for line in content.splitlines() if line not in DONE_ALREADY]
            command = ["bash", "-euc", "\n".join(lines)]
        else:
            command = [sys.executable, "-c", content]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{content}\n{done.stdout}\n{done.stderr}"
