#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Checks of no other linter: lengths, READMEs, links, habits of language, purity of the core, C for both targets."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent

MOST_LINES = 600
MOST_COLUMNS = 140
MOST_LINES_OF_AN_ALGORITHM = 400
WITH_LINKS = {".md", ".toml", ".yml", ".cff", ".html", ".js", ".service"}
CODE = {".rs", ".c", ".h", ".cc", ".py", ".sh", ".tcl"}
# Folders whose content the README of a folder above describes.
DESCRIBED_ABOVE = re.compile(
    r"^\.ci$|^\.github\b|^algorithms/\w+$|^crates/.*/(src|tests|examples|benches|proptest-regressions)\b|^fuzz/(fuzz_targets|corpus)\b"
    r"|^python/perigee/stacks/programs/|^tests\b|(^|/)(images|data)$|^packaging/wheel\b|^web/src\b"
)

# Where the text of a comment begins in a line of Rust, and of C.
COMMENTS = {".rs": re.compile(r"^\s*//[/!]?\s?(.*)"), ".c": re.compile(r"^\s*/?\*+\s?(.*)")}
COMMENTS[".h"] = COMMENTS[".c"]
# Habits of language that make readers stop: how a comment begins that names no subject; a pattern, and the remedy.
FRAGMENT = re.compile(r"^(?:Of|Those of|That of|What|By|The same)\b")
HABITS = (
    (
        re.compile(r"\b[Ss]o (?:often|long|many)\b(?! as\b)"),
        "write `every`, `after`, `for at most`, or name the number",
    ),
    (re.compile(r"\b(?:is|are|was|were) told\b"), "write `report`, `learn` or `see`"),
)
EXISTENCE = re.compile(r"\b[Tt]here (?:is|are)\b")
# The help of the proxy's program; a test reads that of the others.
HELP_TEXT = "crates/perigee-pep/src/command.rs"
# Folders that the map need not have: continuous integration and the forge have no reader.
UNMAPPED = {".ci", ".github"}

# Words of unfinished work.
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")

# Libraries through which a core crate could reach the machine past clippy's list of what it may not call.
MACHINE_LIBRARIES = {"getrandom", "libbpf-rs", "libc", "libloading", "nix", "rand", "rustix", "tempfile", "tokio"}
CORE_CLIPPY = "../core.clippy.toml"

C_FLAGS = [*(ROOT / "algorithms/compile_flags.txt").read_text(encoding="utf-8").split(), "-Werror", "-I", "algorithms"]
BPF_FLAGS = (ROOT / "algorithms/compile_flags_bpf.txt").read_text(encoding="utf-8").split()
C_TARGETS = {
    "this machine, gcc": ["gcc", *C_FLAGS, "-c", "-o", "/dev/null"],
    "this machine, clang": ["clang", *C_FLAGS, "-c", "-o", "/dev/null"],
    "bpf": ["clang", *BPF_FLAGS, *C_FLAGS, "-c", "-o", "/dev/null"],
}

RECORD = re.compile(r"^\| \[\d+\]\((\S+)\) \| (.*?) \| [^|]+ \| [^|]+ \|$")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
# Unreleased changes: one line each, with a link to the page that says what moves where results of the same seed do.
MOST_CHANGES = 60
UNRELEASED = re.compile(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
MOVES = re.compile(r"of the same seed", re.IGNORECASE)
MOVED = "](docs/reference/moved.md"
# Names that stand for addresses which are not known yet (RFC 2606), and files whose form asks for addresses.
UNKNOWN = re.compile(r"https?://(?:[\w-]+\.)*(?:forge|perigee)\.invalid\b[^\s)\"'>]*")
WITH_ADDRESSES = ("CITATION.cff", "README.md")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def files() -> list[PurePosixPath]:
    """Every file that git knows or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [PurePosixPath(line) for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


def too_long(known: list[PurePosixPath]) -> Iterator[str]:
    """Files that are two files."""
    for path in known:
        if path.suffix not in CODE:
            continue
        most = MOST_LINES_OF_AN_ALGORITHM if path.match("algorithms/*.c") else MOST_LINES
        lines = (ROOT / path).read_text(encoding="utf-8").count("\n")
        if lines > most:
            yield f"{path}: {lines} lines; at most {most}: split it"


def too_wide(known: list[PurePosixPath]) -> Iterator[str]:
    """Lines of Rust that no editor shows whole; rustfmt breaks neither comments nor strings."""
    for path in known:
        if path.suffix == ".rs":
            for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
                if len(line) > MOST_COLUMNS:
                    yield f"{path}:{number}: {len(line)} columns; at most {MOST_COLUMNS}: wrap it"


def unfinished(known: list[PurePosixPath]) -> Iterator[str]:
    """Lines that say of themselves that they are not finished."""
    for path in known:
        if path.suffix not in CODE | {".md", ".toml"} or (ROOT / path).resolve() == Path(__file__).resolve():
            continue
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
            if found := UNFINISHED.search(line):
                yield f"{path}:{number}: {found[0]}; finish it, or leave it out"


def remarks(path: PurePosixPath) -> Iterator[tuple[int, str, bool]]:
    """Yield lines of comments, docstrings and help texts: number, text, and whether it is the first of its block."""
    if path.suffix == ".py":
        yield from python_remarks((ROOT / path).read_text(encoding="utf-8"))
    elif pattern := COMMENTS.get(path.suffix):
        before = -1
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
            if found := pattern.match(line):
                yield number, found[1], before != number - 1
                before = number


def python_remarks(source: str) -> Iterator[tuple[int, str, bool]]:
    """Yield what `remarks` does of a Python file."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    before = -1
    for index, token in enumerate(tokens):
        first = token.start[0]
        if token.type == tokenize.COMMENT:
            yield first, token.string.lstrip("# "), before != first - 1
            before = first
        elif token.type == tokenize.STRING:
            text = token.string.lstrip("rf")
            if text.startswith('"""') or tokens[max(index - 2, 0)].string == "help":
                for number, line in enumerate(text.strip("\"'").splitlines()):
                    yield first + number, line.strip(), not number


def habits(known: list[PurePosixPath]) -> Iterator[str]:
    """Comments, docstrings and help texts with a habit that the house's English does without."""
    for path in known:
        for number, text, is_first in remarks(path):
            if is_first and FRAGMENT.match(text):
                yield f"{path}:{number}: begins with `{text[:20]}`; name its subject"
            for habit, remedy in HABITS:
                if said := habit.search(text):
                    yield f"{path}:{number}: `{said[0]}`; {remedy}"
    if PurePosixPath(HELP_TEXT) in known:
        for number, line in enumerate((ROOT / HELP_TEXT).read_text(encoding="utf-8").splitlines(), 1):
            if said := EXISTENCE.search(line):
                yield f"{HELP_TEXT}:{number}: `{said[0]}` in a help text; name what exists as the subject"


def unmapped(known: list[PurePosixPath]) -> Iterator[str]:
    """Folders of the root and crates that the map of CONTRIBUTING forgets."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for folder in sorted({path.parts[0] for path in known if len(path.parts) > 1} - UNMAPPED):
        if f"]({folder}/" not in text and f"`{folder}/`" not in text:
            yield f"CONTRIBUTING.md: its map lacks the folder {folder}"
    for crate in sorted(path.parts[1] for path in known if path.match("crates/*/Cargo.toml")):
        if f"`{crate}`" not in text:
            yield f"CONTRIBUTING.md: its map lacks the crate {crate}"


def without_readme(known: list[PurePosixPath]) -> Iterator[str]:
    """Folders that do not say what lives in them."""
    here = set(known)
    folders = {parent for path in known for parent in path.parents if parent.name}
    for folder in sorted(folders):
        if DESCRIBED_ABOVE.search(str(folder)):
            continue
        if folder / "README.md" not in here and folder / "__init__.py" not in here:
            yield f"{folder}/: no README.md; say what lives here, what may not, and how to add one more"


def anchor(heading: str) -> str:
    """The anchor that a Markdown viewer gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(known: list[PurePosixPath]) -> Iterator[str]:
    """Links of the documentation to headings that are not there, or to files that a clone lacks."""
    kept = {*known, *(parent for path in known for parent in path.parents)}
    for path in known:
        if path.suffix != ".md":
            continue
        text = FENCE.sub("", (ROOT / path).read_text(encoding="utf-8"))
        for link in LINK.findall(text):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, fragment = link.partition("#")
            file = (ROOT / path.parent / target) if target else ROOT / path
            if PurePosixPath(os.path.relpath(file, ROOT)) not in kept:
                yield f"{path}: links to {link}, which is not in the repository"
            elif fragment and file.suffix == ".md":
                headings = HEADING.findall(FENCE.sub("", file.read_text(encoding="utf-8")))
                if fragment not in map(anchor, headings):
                    yield f"{path}: links to {link}, which has no such heading"


def misfiled_decisions(known: list[PurePosixPath]) -> Iterator[str]:
    """Decisions whose title is not that of their index, or that it lacks."""
    index = {}
    for path in known:
        if path.match("docs/decisions/README.md"):
            for row in (ROOT / path).read_text(encoding="utf-8").splitlines():
                if found := RECORD.match(row):
                    index[found[1]] = found[2]
    for path in sorted(path for path in known if path.match("docs/decisions/0*.md")):
        title = (ROOT / path).read_text(encoding="utf-8").partition("\n")[0].partition(": ")[2]
        if index.get(path.name) != title[:1].upper() + title[1:]:
            yield f"{path}: `{title}` is not the decision that docs/decisions/README.md has of it"


def crowded_changes(known: list[PurePosixPath]) -> Iterator[str]:
    """Changes that are not released and take more than a line each, too many lines, or hide what they move."""
    if PurePosixPath("CHANGELOG.md") not in known:
        return
    found = UNRELEASED.search((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    lines = [line for line in (found[1] if found else "").splitlines() if line and not line.startswith("#")]
    if len(lines) > MOST_CHANGES:
        yield f"CHANGELOG.md: {len(lines)} lines under [Unreleased]; at most {MOST_CHANGES}: merge those of one kind"
    for line in lines:
        if not line.startswith("- "):
            yield f"CHANGELOG.md: `{line[:40]}`: a change is one line"
        elif MOVES.search(line) and MOVED not in line:
            yield f"CHANGELOG.md: `{line[:40]}`: moves results; link to its part of docs/reference/moved.md"


def repeated_addresses(known: list[PurePosixPath]) -> Iterator[str]:
    """Addresses of the project outside of pyproject.toml: where it moves, one file changes."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    own = (urls["Homepage"], urls["Repository"])
    for path in known:
        if str(path) in ("pyproject.toml", "tools/lint.py") or path.suffix not in CODE | WITH_LINKS:
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        if str(path) not in WITH_ADDRESSES:
            for address in own:
                if address in text:
                    yield f"{path}: repeats {address}, which is pyproject.toml's alone"
        for address in UNKNOWN.findall(text):
            if not address.startswith(own):
                yield f"{path}: {address} is no address of pyproject.toml"


def impure_core(known: list[PurePosixPath]) -> Iterator[str]:
    """Core crates that could reach the machine. `architecture.py` compares dependencies with crates/layers.toml."""
    layers = tomllib.loads((ROOT / "crates/layers.toml").read_text(encoding="utf-8"))
    core = {f"perigee-{crate}" for crate in layers["core"]}
    found = {path.parent.name: path for path in known if path.match("crates/*/Cargo.toml")}
    for crate, path in found.items():
        dependencies = set(tomllib.loads((ROOT / path).read_text(encoding="utf-8")).get("dependencies", ()))
        if crate in core:
            for library in sorted(dependencies & MACHINE_LIBRARIES):
                yield f"{path}: depends on {library}; core crates do not reach the machine"
            clippy = ROOT / path.parent / "clippy.toml"
            if not clippy.is_symlink() or str(clippy.readlink()) != CORE_CLIPPY:
                yield f"{path.parent}/clippy.toml: does not link to {CORE_CLIPPY}, which core crates are checked by"


def c_warnings(known: list[PurePosixPath]) -> Iterator[str]:
    """Algorithms that do not compile without a warning for each target."""
    for path in known:
        if not (path.match("algorithms/*.c") or path.match("skeleton/*.c")):
            continue
        for target, command in C_TARGETS.items():
            done = subprocess.run([*command, str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode:
                yield f"{path}: for {target}:\n{done.stderr.strip()}"


def main() -> int:
    """Print every finding. 1 if there is one."""
    known = files()
    checks = (
        too_long,
        too_wide,
        unfinished,
        habits,
        unmapped,
        without_readme,
        broken_links,
        misfiled_decisions,
        crowded_changes,
        repeated_addresses,
        impure_core,
        c_warnings,
    )
    findings = [finding for check in checks for finding in check(known)]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
