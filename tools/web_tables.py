#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The module of `make web` beside the native simulator: every table of every run, byte for byte.

Carries out the shipped studies at their reduced size, those of `studies/rfc9743` and `studies/findings`, and random
ones (`--random`), by the module under Node and natively. Prints a line per study, and exits with 1 if a table, a
capture or a refusal differs.

    .venv/bin/python tools/web_tables.py
    .venv/bin/python tools/web_tables.py claypool-2021 gallery --random 0
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "python")]

from perigee import _core  # noqa: E402 - of this checkout
from perigee.errors import InputError  # noqa: E402

MODULE = ROOT / "target" / "web" / "perigee.wasm"
SCRIPT = ROOT / "web" / "tables.mjs"
HEADERS = ROOT / "algorithms"
SOURCES = ("crates/*/src/**/*.rs", "algorithms/**/*.[ch]", "profiles/*")
"""Inputs of the module's results."""
CONFINED = "--confined"
"""The only argument of the process that runs authors' code."""
Arguments = tuple[str, str, list[str], bool, list[str], str]
"""The first arguments of the core's `Plan`."""


@dataclass(frozen=True)
class Question:
    """A study to compare: its name here, its text, its file, and whether to take its reduced size."""

    name: str
    text: str
    file: Path
    reduced: bool
    runs: int | None = None
    """Compare the first runs only."""

    def arguments(self) -> Arguments:
        """Return the arguments of the core's `Plan`."""
        search = [str(self.file.parent), str(ROOT)]
        return (self.text, str(self.file), [], self.reduced, search, str(HEADERS))


class Module:
    """The module in a process of Node."""

    def __init__(self, module: Path = MODULE) -> None:
        self._process = subprocess.Popen(
            ["node", str(SCRIPT), str(module)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def answer(self, question: Question) -> dict[str, Any]:
        """Return the digests of all tables of all runs, or the error."""
        folder = question.file.parent
        file = str(question.file.relative_to(ROOT / "studies")) if folder.is_relative_to(ROOT / "studies") else "x.toml"
        authored = [{"file": path.name, "module": _base64(path)} for path in sorted(folder.glob("*.c"))]
        request = {
            "text": question.text,
            "options": {"file": file, "reduced": question.reduced},
            "runs": question.runs,
            "algorithms": authored,
        }
        if not (self._process.stdin and self._process.stdout):
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def available(module: Path = MODULE) -> str | None:
    """Return why the module cannot be asked here, if it cannot."""
    if not shutil.which("node"):
        return "node is not installed"
    if not module.is_file():
        return "the module is not built (make web)"
    sources = (path for pattern in SOURCES for path in ROOT.glob(pattern))
    if module.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        return "the module is older than its sources (make web)"
    return None


def natively(question: Question) -> dict[str, Any]:
    """Return what `Module.answer` does, of the native simulator."""
    arguments = question.arguments()
    try:
        plan = _core.Plan(*arguments)
    except InputError as error:
        return {"kind": "study", "error": str(error)}
    if plan.sources():
        # Authors' code runs in a process of its own.
        command = [sys.executable, str(Path(__file__).resolve()), CONFINED]
        given = pickle.dumps((arguments, plan.compiled(), question.runs))
        done = subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True)
        return {"runs": json.loads(done.stdout)}
    return {"runs": _carried_out(plan, question.runs)}


def _confined() -> int:
    """Carry out a study with authors' code, as the process that was made for it."""
    given: tuple[Arguments, list[Any], int | None] = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one
    arguments, libraries, runs = given
    shared = os.memfd_create("note")
    os.ftruncate(shared, _core.note_bytes())
    note = _core.confine(8 << 30, os.getppid(), shared)
    print(json.dumps(_carried_out(_core.Plan(*arguments, confined=(libraries, note)), runs)))
    return 0


def _carried_out(plan: _core.Plan, runs: int | None) -> list[dict[str, Any]]:
    laid_out = plan.laid_out()
    count = laid_out["rounds"] * len(laid_out["points"])
    found = []
    for index in range(min(count, runs or count)):
        output = plan.run(index, "sim", "", lambda *_: True)
        assert output, "nobody stops a run here"  # noqa: S101 - as `progress` says
        tables, captures = output
        digests = [{name: hashlib.sha256(part).hexdigest() for name, part in of.items()} for of in (tables, captures)]
        found.append({"tables": digests[0], "captures": digests[1]})
    return found


def difference(one: dict[str, Any], other: dict[str, Any]) -> str | None:
    """Return the first difference of two answers."""
    if "error" in one or "error" in other:
        both = "error" in one and "error" in other
        return None if both else str(one.get("error") or other.get("error"))
    if len(one["runs"]) != len(other["runs"]):
        return f"{len(one['runs'])} and {len(other['runs'])} runs"
    for index, (first, second) in enumerate(zip(one["runs"], other["runs"], strict=True)):
        for what in ("tables", "captures"):
            for name in first[what] | second[what]:
                if first[what].get(name) != second[what].get(name):
                    return f"run {index}: {what[:-1]} {name}"
    return None


def shipped(names: Sequence[str], runs: int | None = None) -> Iterator[Question]:
    """Yield the shipped studies, or those of these names, with the first runs of each."""
    for path in sorted((ROOT / "studies").glob("*/*.toml")):
        text = path.read_text(encoding="utf-8")
        name = path.parent.name if path.name == "study.toml" else f"{path.parent.name}/{path.stem}"
        is_study = any(line.startswith("nodes = ") for line in text.splitlines())
        if is_study and (not names or name in names):
            yield Question(name, text, path, "reduced" in tomllib.loads(text), runs)


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help="shipped studies [all]")
    parser.add_argument("--random", type=int, default=500, metavar="N", help="random studies [500]")
    parser.add_argument("--module", type=Path, default=MODULE, help="the module [target/web/perigee.wasm]")
    given = parser.parse_args()
    if reason := available(given.module):
        print(f"skipped: {reason}")
        return 0
    from adversary import studies

    questions = list(shipped(given.studies))
    for seed in range(1, given.random + 1):
        text = studies.study(random.Random(seed))  # noqa: S311 - no secret
        questions.append(Question(f"seed {seed}", text, Path("random.toml"), reduced=False))
    runs = differing = refused = 0
    with Module(given.module) as module:
        for question in questions:
            begun = time.process_time()
            here = natively(question)
            natively_s = time.process_time() - begun
            there = module.answer(question)
            found = difference(here, there)
            differing += found is not None
            refused += "error" in here
            runs += len(here.get("runs", []))
            if found or not question.name.startswith("seed "):
                count = len(here.get("runs", []))
                print(f"{question.name}: {found or 'equal'}, {count} runs, {natively_s:.1f} s natively", flush=True)
    print(f"{len(questions)} studies, {runs} runs, {refused} refused by both; {differing} differ")
    return 1 if differing else 0


def author_module(source: Path) -> bytes:
    """Return an author's C file as a module."""
    with tempfile.TemporaryDirectory(prefix="perigee-web-") as scratch:
        module = Path(scratch) / "author.wasm"
        flags = [f"@{HEADERS / 'compile_flags.txt'}", f"@{HEADERS / 'compile_flags_wasm.txt'}"]
        command = ["clang", *flags, "-I", str(HEADERS), "-o", str(module), str(source)]
        subprocess.run(command, check=True)
        return module.read_bytes()


def _base64(source: Path) -> str:
    return base64.b64encode(author_module(source)).decode()


if __name__ == "__main__":
    sys.exit(_confined() if sys.argv[1:] == [CONFINED] else main())
