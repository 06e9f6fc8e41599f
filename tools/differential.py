#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Two commits side by side: random studies on both, and with `--shipped` those in studies/, reduced, column by column.

Builds the compiled module of each commit in a folder of its own that is removed in the end. Prints a line for each
study that differs, with the first cell, and keeps the text of a random one. Columns that only one of them has are
named, and are no difference; a study that only one of them reads is one. Exits with 1 where something differs.

    .venv/bin/python tools/differential.py main HEAD
    .venv/bin/python tools/differential.py main HEAD --studies 5000 --seed 100000 --shipped
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "python")]

from adversary import studies  # noqa: E402 - of this checkout, whatever commits are compared

Answer = list[dict[str, Any]] | str
"""The tables of each run, as the module gives them; or why there are none."""

QUICK = {
    f"CARGO_PROFILE_RELEASE_{key}": value for key, value in (("LTO", "off"), ("CODEGEN_UNITS", "16"), ("DEBUG", "0"))
}
"""Builds take a fraction of the time, and results do not depend on how they are made."""
WORKER = """
import pickle, sys
from perigee import _core

headers, search = sys.argv[1:]
while True:
    try:
        text, path, reduced = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    try:
        plan, found, index = _core.Plan(text, path, [], reduced, [search], headers), [], 0
        while True:
            found.append(plan.run(index, "sim", "", lambda *_: True)[0])
            index += 1
    except IndexError:
        pass
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    pickle.dump(found, sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""
"""Runs in a process of its own with the package of one commit: two builds do not fit into one."""


class Commit:
    """A commit: its build, and a process that carries studies out by it."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._tree = folder
        self._process: subprocess.Popen[bytes] | None = None

    def build(self, target: Path) -> None:
        """Build it, and start the process."""
        command = ["git", "worktree", "add", "--quiet", "--detach", str(self._tree), self._name]
        subprocess.run(command, cwd=ROOT, check=True)
        print(f"building {self._name}", flush=True)
        build = ["cargo", "build", "--release", "--quiet", "--package", "perigee-py"]
        subprocess.run(build, cwd=self._tree, env=os.environ | QUICK | {"CARGO_TARGET_DIR": str(target)}, check=True)
        package = self._tree / "python" / "perigee"
        (package / "_core.abi3.so").write_bytes((target / "release" / "lib_core.so").read_bytes())
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(self._tree / "algorithms"), str(self._tree)],
            cwd=self._tree,
            env=os.environ | {"PYTHONPATH": str(self._tree / "python")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, text: str, path: str, reduced: bool) -> None:
        """Give it a study."""
        if self._process and self._process.stdin:
            pickle.dump((text, path, reduced), self._process.stdin)
            self._process.stdin.flush()

    def answer(self) -> Answer:
        """Return what it has come to."""
        if not (self._process and self._process.stdout):
            raise RuntimeError(f"{self._name} is not built")
        try:
            answer: Answer = pickle.load(self._process.stdout)  # noqa: S301 - of the process that was started above
        except EOFError:
            raise SystemExit(f"{self._name}: its process has ended on the study asked last") from None
        return answer

    def close(self) -> None:
        """End its process and remove its tree."""
        if self._process and self._process.stdin:
            self._process.stdin.close()
            self._process.kill()
            self._process.wait()
        if self._tree.exists():
            command = ["git", "worktree", "remove", "--force", str(self._tree)]
            subprocess.run(command, cwd=ROOT, check=True)


def differences(one: Answer, other: Answer, alone: set[str]) -> str | None:
    """Return where two answers differ first; columns and tables of one of them go to `alone`."""
    if isinstance(one, str) or isinstance(other, str):
        return None if one == other else f"{_why(one)}, and {_why(other)}"
    if len(one) != len(other):
        return f"{len(one)} and {len(other)} runs"
    from perigee.engines.sim.difference import first_difference
    from perigee.store.streams import frames_of

    for before, after in zip(one, other, strict=True):
        if before == after:
            continue
        tables = [frames_of(found) for found in (before, after)]
        for name in {*tables[0], *tables[1]}:
            columns = [set(found[name].columns) if name in found else set() for found in tables]
            alone |= {f"{name}.{column}" for column in columns[0] ^ columns[1]}
            shared = columns[0] & columns[1]
            for found in tables:
                if name in found:
                    found[name] = found[name].select([column for column in found[name].columns if column in shared])
        if difference := first_difference(*tables):
            return str(difference)
    return None


def _why(answer: Answer) -> str:
    return f"refused ({answer})" if isinstance(answer, str) else "carried out"


def questions(given: argparse.Namespace) -> Iterator[tuple[str, str, str, bool]]:
    """Yield each study: what it is called, its text, its path, and whether it is to be reduced."""
    for seed in range(given.seed, given.seed + given.studies):
        yield f"seed {seed}", studies.study(random.Random(seed)), "random.toml", False  # noqa: S311 - no secret
    if given.shipped:
        for path in sorted((ROOT / "studies").glob("*/study.toml")):
            yield f"studies/{path.parent.name}", path.read_text(), str(path), True


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", help="a commit")
    parser.add_argument("new", metavar="NEW", help="the other one")
    parser.add_argument("--studies", type=int, default=1000, metavar="N", help="random studies [1000]")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of the first [1]")
    parser.add_argument("--shipped", action="store_true", help="also the studies in studies/, reduced")
    given = parser.parse_args()
    compared = refused = differing = 0
    alone: set[str] = set()
    commits: list[Commit] = []
    with tempfile.TemporaryDirectory(prefix="perigee-differential-") as scratch:
        try:
            commits += [Commit(given.old, Path(scratch) / "old"), Commit(given.new, Path(scratch) / "new")]
            for commit in commits:
                commit.build(Path(scratch) / "target")
            for called, text, path, reduced in questions(given):
                for commit in commits:
                    commit.ask(text, path, reduced)
                answers = [commit.answer() for commit in commits]
                compared += 1
                refused += isinstance(answers[0], str) and answers[0] == answers[1]
                if found := differences(answers[0], answers[1], alone):
                    differing += 1
                    kept = _kept(called, text) if path == "random.toml" else ""
                    print(f"{called}: {found}{kept}", flush=True)
        finally:
            for commit in commits:
                commit.close()
    for column in sorted(alone):
        print(f"only in one of them: {column}")
    print(f"{compared} studies, {refused} of them refused by both; {differing} differ")
    return 1 if differing else 0


def _kept(called: str, text: str) -> str:
    folder = ROOT / "target" / "differential"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{called.replace(' ', '-')}.toml"
    path.write_text(text)
    return f"; its text: {path.relative_to(ROOT)}"


if __name__ == "__main__":
    sys.exit(main())
