#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""All tests, one after the other; lists what was skipped and why; closes with `N passed, N failed, N skipped`.

A Rust test that cannot run prints a line `skipped: REASON` and returns. Cargo counts it as passed; here it is counted
as skipped. Exits with 1 if anything failed or did not compile.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# perigee-py has no logic and no Rust tests: the Python tests run it. Leaving it out spares a second build of Arrow.
CARGO = ["cargo", "test", "--workspace", "--exclude", "perigee-py", "--no-fail-fast", "--quiet"]
STEPS = {
    "Rust": [*CARGO, "--", "--show-output"],
    "Python": [".venv/bin/python", "-m", "pytest", "-q", "-rs"],
}

CARGO_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
PYTEST_RESULT = re.compile(r"(\d+) (passed|failed|error|errors|skipped|xfailed|xpassed)\b")
PYTEST_CLOSING = re.compile(r"^=* ?\d+ (passed|failed|errors?|skipped|deselected|xfailed|xpassed)\b.* in [\d.:]+s")
PYTEST_SKIP = re.compile(r"^SKIPPED \[\d+\] (.*)")
RUST_TEST = re.compile(r"^---- (.*) stdout ----$")
RUST_SKIP = re.compile(r"^\s*skipped: (.*)")


@dataclasses.dataclass
class Tally:
    """What was counted so far."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list[str] = dataclasses.field(default_factory=list)
    test: str | None = None
    """The Rust test whose output is being read, as long as it has not said that it was skipped."""

    def read(self, line: str) -> None:
        """Count what a line of output says."""
        if found := CARGO_RESULT.match(line):
            passed, failed, ignored = map(int, found.groups())
            self.passed += passed
            self.failed += failed
            self.skipped += ignored
        elif found := RUST_TEST.match(line):
            self.test = found[1]
        elif (found := RUST_SKIP.match(line)) and self.test:
            self.passed -= 1
            self.skipped += 1
            self.reasons.append(f"{self.test}: {found[1]}")
            self.test = None
        elif found := PYTEST_SKIP.match(line):
            self.reasons.append(found[1])
        elif PYTEST_CLOSING.match(line):
            for count, word in PYTEST_RESULT.findall(line):
                if word in ("passed", "xfailed"):
                    self.passed += int(count)
                elif word == "skipped":
                    self.skipped += int(count)
                else:
                    self.failed += int(count)


def run(name: str, command: list[str], tally: Tally) -> bool:
    """Run one step, showing its output as it comes. True if it went well."""
    print(f"\n== {name}: {' '.join(command)}", flush=True)
    started = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            tally.read(line)
    print(f"== {name}: {time.monotonic() - started:.0f} s", flush=True)
    return process.returncode == 0


def main() -> int:
    """Run every step, also after one that failed."""
    tally = Tally()
    went_well = [run(name, command, tally) for name, command in STEPS.items()]
    broken = [name for name, well in zip(STEPS, went_well, strict=True) if not well]
    # A step can fail without a failed test: a test that does not compile, no test found.
    if broken and not tally.failed:
        tally.failed = len(broken)
    print()
    if tally.reasons:
        print("Skipped:")
        for reason in tally.reasons:
            print(f"  {reason}")
    for name in broken:
        print(f"{name}: failed, see above")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
