#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An answer in a minute and a half to what was changed since `main`: formatting, and the tests that are nearest to it.

Changed is what differs from the last commit in common with `main`, new files included. Of Rust the tests of each
changed crate are run, on the test build; of Python the changed tests, those that import a changed module, and the
examples in it. A program of `tools/`, `validation/` or `benches/` has the tests that name it. What takes longer is
ended after `PATIENCE_S`, and said: `make lint` and `make test` are for before a change is proposed. Python tests run on
the module as it was built last. Exits with 1 if anything failed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAIN = ("main", "origin/main", "HEAD~1", "HEAD")
PATIENCE_S = 80.0
MERCY_S = 5.0
"""For what was interrupted to say what it found."""
PYTEST = [sys.executable, "-m", "pytest", "-v", "-rfE", "-m", "not alone and not quiet", "-n", str(os.cpu_count() or 1)]
FAILURE = re.compile(r"^(\[gw\d+\] \[ *\d+%\] )?(FAILED|ERROR) |^test result: FAILED", re.MULTILINE)
"""Lines by which pytest names a failed test, at once and at its end, and by which a program of Rust tests ends."""
PASSED = re.compile(r"^\[gw\d+\] .* PASSED .*\n", re.MULTILINE)
ALWAYS = ("tests/tools/test_layers.py",)
"""Tests of the shape of the package, which any module may break."""


def changed() -> list[str]:
    """Files that differ from the last commit in common with main, from the root of the repository."""
    bases = (git("merge-base", "HEAD", name) for name in MAIN)
    base = next((base[0] for base in bases if base), "HEAD")
    found = {*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")}
    return sorted(name for name in found if (ROOT / name).is_file())


def git(*arguments: str) -> list[str]:
    """Lines that git answers; none where it fails."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )[:-1]


def crates(files: list[str]) -> list[str]:
    """The crates of changed files that have tests of Rust's.

    >>> crates(["crates/perigee-link/src/queue.rs", "crates/perigee-py/src/lib.rs", "crates/README.md", "README.md"])
    ['perigee-link']
    """
    found = {match[1] for name in files if (match := re.match(r"crates/(perigee-[\w-]+)/", name))}
    return sorted(found - {"perigee-py"})


def python_tests(files: list[str]) -> list[str]:
    """The tests nearest to changed files of Python: themselves, those that import or name one, and its examples.

    Those of the folder that is named as the changed package come first: there may be no time for all.
    """
    tests = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.glob("tests/**/test_*.py")}
    chosen = {name for name in files if name in tests}
    for name in (name for name in files if name.endswith(".py") and name not in tests):
        path = Path(name)
        if path.parts[:2] == ("python", "perigee"):
            module = ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")
            parent, _, last = module.rpartition(".")
            imports = rf"\b(from|import) {re.escape(module)}\b|\bfrom {re.escape(parent)} import .*\b{last}\b"
            chosen |= {test for test, text in tests.items() if re.search(imports, text)} | {name, *ALWAYS}
        elif path.parts[0] in {"tools", "validation", "benches", "tests"}:
            uses = rf"\b{re.escape(path.stem)}\b"
            chosen |= {test for test, text in tests.items() if re.search(uses, imports_and_programs(text))}
    packages = {parts[2] for name in files if (parts := Path(name).parts)[:2] == ("python", "perigee")}
    near = {name for name in chosen if name in files or Path(name).parts[1] in packages}
    return sorted(near) + sorted(chosen - near)


def imports_and_programs(text: str) -> str:
    r"""The lines of a test that import something or load a program of the repository.

    >>> imports_and_programs('from probed import line\nx = tool("deb")\nassert line')
    'from probed import line\nx = tool("deb")'
    """
    return "\n".join(line for line in text.splitlines() if re.search(r"^\s*(from|import) |\b(tool|program)\(", line))


def run(name: str, command: list[str], until: float) -> bool:
    """Run a step to its end, or until that instant; print what it said if it failed, and whether it did not fail."""
    started = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        process_group=0, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        is_late = False
        try:
            said = process.communicate(timeout=max(1.0, until - started))[0]
        except subprocess.TimeoutExpired:
            is_late = True
            said = ended(process)
    has_failed = bool(FAILURE.search(said) if is_late else process.returncode)
    outcome = "FAILED" if has_failed else "not all of it in the time there is; no failure" if is_late else "ok"
    print(
        f"{PASSED.sub('', said) if has_failed else ''}== {name}: {outcome}, {time.monotonic() - started:.0f} s",
        flush=True,
    )
    return not has_failed


def ended(process: subprocess.Popen[str]) -> str:
    """Interrupt a step with all that it has started, which then says what it found; kill what does not end."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.communicate(timeout=MERCY_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def main() -> int:
    """Check what was changed; the exit code."""
    files, until = changed(), time.monotonic() + PATIENCE_S
    names, tests = crates(files), python_tests(files)
    python = [name for name in files if name.endswith((".py", ".pyi"))]
    steps: list[tuple[str, list[str]]] = []
    if any(name.endswith(".rs") for name in files):
        steps.append(("cargo fmt", ["cargo", "fmt", "--all", "--check"]))
    if python:
        ruff = [sys.executable, "-m", "ruff"]
        steps += [("ruff check", [*ruff, "check", *python]), ("ruff format", [*ruff, "format", "--check", *python])]
    well = [run(name, command, until) for name, command in steps]
    long = []
    if names:
        long.append(
            (f"Rust: {', '.join(names)}", ["cargo", "test", "--quiet", *(f"--package={name}" for name in names)])
        )
    if tests:
        long.append((f"Python: {len(tests)} files", [*PYTEST, *tests]))
    with ThreadPoolExecutor(2) as pool:
        well += pool.map(lambda step: run(step[0], step[1], until), long)
    if not steps + long:
        print("nothing that has tests of its own was changed since main")
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
