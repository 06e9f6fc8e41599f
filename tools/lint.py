#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What no linter checks: lengths of files, READMEs of folders, links of the documentation, the C for both targets."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent

MOST_LINES = 800
MOST_LINES_OF_AN_ALGORITHM = 400
CODE = {".rs", ".c", ".h", ".cc", ".py", ".sh", ".tcl"}
# Folders whose content the README of a folder above describes.
DESCRIBED_ABOVE = re.compile(
    r"^\.ci$|^algorithms/\w+$|^crates/.*/(src|tests|examples|benches)\b|^fuzz/(fuzz_targets|corpus)\b"
    r"|^tests\b|(^|/)(images|data)$"
)

C_FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-I", "algorithms"]
C_TARGETS = {
    "this machine, gcc": ["gcc", *C_FLAGS, "-c", "-o", "/dev/null"],
    "this machine, clang": ["clang", *C_FLAGS, "-c", "-o", "/dev/null"],
    "bpf": ["clang", "-target", "bpf", "-g", *C_FLAGS, "-c", "-o", "/dev/null"],
}

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
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
    """Links of the documentation to files or headings that are not there."""
    for path in known:
        if path.suffix != ".md":
            continue
        text = FENCE.sub("", (ROOT / path).read_text(encoding="utf-8"))
        for link in LINK.findall(text):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, fragment = link.partition("#")
            file = (ROOT / path.parent / target) if target else ROOT / path
            if not file.exists():
                yield f"{path}: links to {link}, which is not there"
            elif fragment and file.suffix == ".md":
                headings = HEADING.findall(FENCE.sub("", file.read_text(encoding="utf-8")))
                if fragment not in map(anchor, headings):
                    yield f"{path}: links to {link}, which has no such heading"


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
    findings = [finding for check in (too_long, without_readme, broken_links, c_warnings) for finding in check(known)]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
