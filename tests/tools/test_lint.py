# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Findings of `tools/lint.py`, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import tool


def test_lint_finds_a_link_to_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lint = tool("lint")
    (tmp_path / "generated.md").write_text("# Not in a clone\n")
    (tmp_path / "a.md").write_text("# Head\n[b](generated.md) [c](a.md#head) [d](a.md#tail)\n```\n[e](e.md)\n```\n")
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    assert list(lint.broken_links([lint.PurePosixPath("a.md")])) == [
        "a.md: links to generated.md, which is not in the repository",
        "a.md: links to a.md#tail, which has no such heading",
    ]


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("a.rs", "/// Of one side.\nstruct A;\n", "begins with `Of one side.`"),
        ("a.rs", "// Those of `out`.\n", "begins with `Those of `out`.`"),
        ("a.c", "/* That of the kernel. */\n", "begins with `That of the kernel. `"),
        ("a.py", 'A = 1\n"""Of a link."""\n', "begins with `Of a link.`"),
        ("a.py", 'A = Option(help="Of the figures.")\n', "begins with `Of the figures.`"),
        ("a.rs", "//! What a link does.\n", "begins with `What a link does.`"),
        ("a.rs", "/// By node.\nnodes: Vec<u32>,\n", "begins with `By node.`"),
        ("a.py", 'def a():\n    """The same, for two."""\n', "begins with `The same, for two.`"),
        ("a.rs", "/// Sleeps\n/// so long.\n", "`so long`"),
        ("a.py", "# So often the server looks.\n", "`So often`"),
        ("a.rs", "//! Reads so many bytes.\n", "`so many`"),
        ("a.py", 'def a():\n    """Wait.\n\n    The server is told.\n    """\n', "`is told`"),
        ("crates/perigee-pep/src/command.rs", "List what there is\n", "`there is` in a help text"),
    ],
)
def test_lint_finds_each_habit_of_language(
    name: str, text: str, finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lint = tool("lint")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    [found] = lint.habits([lint.PurePosixPath(name)])
    assert finding in found


def test_lint_leaves_code_and_later_lines_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lint = tool("lint")
    texts = {
        "a.rs": '/// Counts\n/// Of all. Holds so long as it lives.\nlet told = "so long";\n',
        "b.py": "A = 'Of b'\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    assert (
        list(lint.habits([lint.PurePosixPath(str(path.relative_to(tmp_path))) for path in tmp_path.rglob("*.*")])) == []
    )


def test_lint_finds_a_line_of_rust_above_140_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lint = tool("lint")
    (tmp_path / "a.rs").write_text(f"// {'ä' * 137}\n// {'a' * 138}\n", encoding="utf-8")
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    assert list(lint.too_wide([lint.PurePosixPath("a.rs")])) == ["a.rs:2: 141 columns; at most 140: wrap it"]


def test_lint_finds_what_the_map_of_the_repository_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lint = tool("lint")
    (tmp_path / "CONTRIBUTING.md").write_text("[crates](crates/README.md) `tests/` `perigee-a`\n")
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    known = [
        "CONTRIBUTING.md",
        "crates/perigee-a/Cargo.toml",
        "crates/perigee-b/Cargo.toml",
        "tests/a.py",
        "tools/a.py",
    ]
    assert list(lint.unmapped([lint.PurePosixPath(path) for path in known])) == [
        "CONTRIBUTING.md: its map lacks the folder tools",
        "CONTRIBUTING.md: its map lacks the crate perigee-b",
    ]


def test_lint_finds_a_decision_whose_index_has_another_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lint = tool("lint")
    folder = tmp_path / "docs/decisions"
    folder.mkdir(parents=True)
    texts = {
        "001-a.md": "# 001: links are data\n",
        "002-b.md": "# 002: links are code\n",
        "README.md": "| [001](001-a.md) | Links are data | links | in force |\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    assert list(lint.misfiled_decisions([lint.PurePosixPath(f"docs/decisions/{name}") for name in texts])) == [
        "docs/decisions/002-b.md: `links are code` is not the decision that docs/decisions/README.md has of it"
    ]


def test_lint_finds_a_core_crate_that_could_reach_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lint = tool("lint")
    for name, dependencies in (("units", "rustix = '1'"), ("emu", "rustix = '1'")):
        folder = tmp_path / "crates" / f"perigee-{name}"
        folder.mkdir(parents=True)
        (folder / "Cargo.toml").write_text(f"[dependencies]\n{dependencies}\n[dev-dependencies]\nperigee-sim = '1'\n")
    (tmp_path / "crates/layers.toml").write_text("[core]\nunits = []\n[machine]\nemu = ['units']\n")
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    known = [lint.PurePosixPath(f"crates/perigee-{name}/Cargo.toml") for name in ("units", "emu")]
    assert list(lint.impure_core(known)) == [
        "crates/perigee-units/Cargo.toml: depends on rustix; core crates do not reach the machine",
        "crates/perigee-units/clippy.toml: does not link to ../core.clippy.toml, which core crates are checked by",
    ]


def test_lint_finds_changes_of_several_lines_too_many_of_them_and_those_that_hide_what_they_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lint = tool("lint")
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    monkeypatch.setattr(lint, "MOST_CHANGES", 3)
    moved = "- Results of the same seed move"
    changes = f"- a\n  b\n{moved}.\n{moved}: [which](docs/reference/moved.md#a).\n"
    (tmp_path / "CHANGELOG.md").write_text(
        f"# C\n\n## [Unreleased]\n\n### Added\n\n{changes}\n## [0.1.0] - 2026\n\na\nb\n"
    )
    assert list(lint.crowded_changes([lint.PurePosixPath("CHANGELOG.md")])) == [
        "CHANGELOG.md: 4 lines under [Unreleased]; at most 3: merge those of one kind",
        "CHANGELOG.md: `  b`: a change is one line",
        f"CHANGELOG.md: `{moved}.`: moves results; link to its part of docs/reference/moved.md",
    ]


def test_lint_finds_an_address_of_the_project_outside_of_pyproject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lint = tool("lint")
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    site, forge = (f"https://{name}.invalid" for name in ("perigee", "forge"))
    urls = f'[project.urls]\nHomepage = "{site}"\nRepository = "{forge}/a/b"\n'
    for name, text in {
        "pyproject.toml": urls,
        "README.md": f"[a]({site}/tab.html) [b]({forge}/c/d)",
        "a.md": f"see {forge}/a/b/issues",
        "b.md": "see https://example.invalid",
    }.items():
        (tmp_path / name).write_text(text)
    known = [lint.PurePosixPath(path.name) for path in sorted(tmp_path.iterdir())]
    assert list(lint.repeated_addresses(known)) == [
        f"README.md: {forge}/c/d is no address of pyproject.toml",
        f"a.md: repeats {forge}/a/b, which is pyproject.toml's alone",
    ]
