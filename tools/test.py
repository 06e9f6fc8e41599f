#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""All tests; lists the slowest, what was skipped and why; closes with `N passed, N failed, N skipped`.

Builds the Rust tests, and meanwhile begins with those of Python and with each Rust program that is built: the build
takes the processor time that they leave.
Most tests run side by side, more of them than there are cores, since many wait for a link or a timer. After them come
the Rust programs in `ALONE`, which find what others have in the kernel. Programs of the core crates only compute: they
take the processor time that all of these leave. Last come, one by one, Rust programs that said `skipped: this machine
is too busy` the first time, and in one process the Python tests that find what others have (pytest's mark `alone`) or
that need the whole machine (`quiet`).

A test that keeps an appointment can fail because of the load that this program makes. What failed beside other tests
therefore runs once more by itself: that run counts, and the test is named if it passes. A test of the core crates, or
more than `FEW` failures of Python tests, is not repeated.

A Rust test that cannot run prints a line `skipped: REASON` and returns. Rust counts it as passed; here it is counted
as skipped. What is skipped for want of a program is said in one line, with the command that installs it. Long tests
(pytest's mark `long`, Rust's `ignore`) are `make torture`'s, and no part of the count. Exits with 1 if anything failed
or did not compile, with 130 if it was interrupted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORES = os.cpu_count() or 1

# perigee-py has no logic and no Rust tests: the Python tests run it. Leaving it out spares a second build of Arrow.
CARGO = ["cargo", "test", "--workspace", "--exclude", "perigee-py"]
LEFT_OVER = ["nice", "-n", "19"]
BUILD = [*LEFT_OVER, *CARGO, "--no-run", "--quiet", "--message-format", "json-render-diagnostics"]
DOC_TESTS = [*CARGO, "--doc", "--no-fail-fast", "--", "--show-output"]
# Stable Rust has the times of tests behind a flag of nightly's; RUSTC_BOOTSTRAP lets it be given.
REPORT = ["--show-output", "-Z", "unstable-options", "--report-time"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-rsfE", "--durations=10", "--durations-min=1"]
# A worker without tests takes some of another's: a file's tests begin on one worker, and some take a minute each.
SIDE_BY_SIDE = ["-m", "not alone and not quiet", "--dist", "worksteal", "-n"]

# Programs of Rust tests that find what others have: it counts the objects in the kernel.
ALONE = {"crates/perigee-bpf/tests/kernel/main.rs"}
# Programs that wait for timers and links most of the time: they have two tests a core.
WAITING = ("crates/perigee-emu/tests/main.rs", "crates/perigee-pep/tests/service/main.rs")
TESTS = ROOT / "tests"
LAYERS = ROOT / "crates" / "layers.toml"
# Where the interpreter keeps its bytecode. Without it each command compiles the package in a quarter of a second,
# and each worker of pytest's rewrites the assertions in four.
BYTECODE = ROOT / ".venv" / "bytecode"
TOO_BUSY = "skipped: this machine is too busy"
PROGRAMS_AT_ONCE = CORES
PYTEST_WORKERS = CORES + 1
SLOWEST = 10
# Words of the reasons of skipped tests, and the packages of Debian's that they miss.
PACKAGES = {
    "chromium": "chromium chromium-driver",
    "firefox-esr": "firefox-esr",
    "node": "nodejs",
    "lld": "lld",
    "iperf3": "iperf3",
    "openssl": "openssl",
    "pdflatex": "texlive-latex-recommended",
    "ping": "iputils-ping",
    "tshark": "tshark",
    "valgrind": "valgrind",
    "bash-completion": "bash-completion",
    "fish": "fish",
    "zsh": "zsh",
    "ns2": "ns2",
}
BUILDS = {"make web": "make web", "perigee-pep is not built": "cargo build -p perigee-pep"}
"""Likewise, and the commands that build what they miss."""
FEW = 10

RUST_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;")
RUST_TIME = re.compile(r"^test (.*?)(?: - should panic)? \.\.\. .*<([\d.]+)s>$")
RUST_TEST = re.compile(r"^---- (.*) stdout ----$")
RUST_SKIP = re.compile(r"^\s*skipped: (.*)")
RUST_FAILURES = re.compile(r"^failures:$.*", re.MULTILINE | re.DOTALL)
PYTEST_RESULT = re.compile(r"(\d+) (passed|failed|error|errors|skipped|xfailed|xpassed)\b")
PYTEST_CLOSING = re.compile(r"^=* ?\d+ (passed|failed|errors?|skipped|deselected|xfailed|xpassed)\b.* in [\d.:]+s")
PYTEST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$")
PYTEST_SKIP = re.compile(r"^SKIPPED \[\d+\] (.*)")
PYTEST_TIME = re.compile(r"^([\d.]+)s (?:setup|call|teardown) +(\S.*)$")


@dataclasses.dataclass
class Tally:
    """The counts so far."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list[str] = dataclasses.field(default_factory=list)
    times: list[tuple[float, str]] = dataclasses.field(default_factory=list)
    """Seconds of a test, and its name."""
    failures: list[str] = dataclasses.field(default_factory=list)
    """The failed Python tests, as pytest selects them."""
    test: str | None = None
    """The Rust test whose output is being read, as long as it has not said that it was skipped."""

    def read(self, line: str, program: str = "") -> None:
        """Count what a line of output says."""
        if found := RUST_RESULT.match(line):
            passed, failed = map(int, found.groups())
            self.passed += passed
            self.failed += failed
        elif found := RUST_TIME.match(line):
            self.times.append((float(found[2]), f"{program} {found[1]}"))
        elif found := RUST_TEST.match(line):
            self.test = found[1]
        elif (found := RUST_SKIP.match(line)) and self.test:
            self.passed -= 1
            self.skipped += 1
            self.reasons.append(f"{self.test}: {found[1]}")
            self.test = None
        elif found := PYTEST_FAILURE.match(line):
            self.failures += [found[1]] if found[1] not in self.failures else []
        elif found := PYTEST_SKIP.match(line):
            self.reasons.append(found[1])
        elif found := PYTEST_TIME.match(line):
            self.times.append((float(found[1]), found[2]))
        elif PYTEST_CLOSING.match(line):
            for count, word in PYTEST_RESULT.findall(line):
                if word in ("passed", "xfailed"):
                    self.passed += int(count)
                elif word == "skipped":
                    self.skipped += int(count)
                else:
                    self.failed += int(count)


@dataclasses.dataclass(frozen=True)
class Program:
    """A compiled program of Rust tests."""

    name: str
    """Its source, from the root of the repository."""
    path: str
    folder: Path
    """Folder of its crate, where Cargo runs it."""
    core: bool = False
    """Whether its crate is one of the core, which only compute."""


class Suite:
    """The tests while they run: what each part came to, and the processes to end if it is interrupted."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}
        self.broken: dict[str, int] = {}
        """The exit code of each part that failed."""
        self.passed_alone: list[str] = []
        """Tests, and programs of Rust tests, that failed beside others and passed by themselves."""
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._interrupted = False

    def build(self) -> Iterator[Program]:
        """Compile the Rust tests; each program as soon as it is there."""
        print("== Rust: build", flush=True)
        started = time.monotonic()
        core = {f"perigee-{name}" for name in tomllib.loads(LAYERS.read_text(encoding="utf-8"))["core"]}
        with self._process(BUILD, stderr=None) as process:
            for line in process.stdout or ():
                said = json.loads(line) if line.startswith("{") else {}
                if said.get("executable") and said["profile"]["test"]:
                    source, folder = Path(said["target"]["src_path"]), Path(said["manifest_path"]).parent
                    yield Program(str(source.relative_to(ROOT)), said["executable"], folder, folder.name in core)
        self._end("Rust: build", Tally(), process.returncode, started)

    def rust(self, program: Program) -> bool:
        """Run a program of Rust tests. Whether it should run again, by itself."""
        environment = {**os.environ, "CARGO_MANIFEST_DIR": str(program.folder), "RUSTC_BOOTSTRAP": "1"}
        at_once = ["--test-threads", str(2 * CORES)] if program.name in WAITING else []
        command = [*(LEFT_OVER if program.core else []), program.path, *REPORT, *at_once]
        said = self._rust(program.name, command, program.folder, environment)
        return TOO_BUSY in said or (program.name in self.broken and not program.core)

    def repeat(self, programs: list[Program]) -> None:
        """Run by themselves these programs of Rust tests, and the Python tests that failed beside others."""
        for program in programs:
            failed = program.name in self.broken
            if not self.rust(program) and failed:
                self.passed_alone.append(program.name)
        before = self.tallies.get("Python", Tally())
        # pytest's exit code 1 says that tests failed; others that it could not go on.
        if self.broken.get("Python") == 1 and 0 < len(before.failures) <= FEW:
            self.pytest("Python", *before.failures)
            after = self.tallies["Python"]
            self.passed_alone += [name for name in before.failures if name not in after.failures]
            after.passed += before.passed
            after.skipped += before.skipped
            after.times += before.times
            after.reasons += before.reasons

    def doc_tests(self) -> None:
        """Compile and run the examples of Rust's documentation."""
        self._rust("doc-tests", DOC_TESTS, ROOT, dict(os.environ))

    def _rust(self, name: str, command: list[str], folder: Path, environment: dict[str, str]) -> str:
        """Run Rust tests; the output, which is shown if they fail."""
        tally, started = Tally(), time.monotonic()
        with self._process(command, cwd=folder, env=environment) as process:
            output = process.communicate()[0]
        for line in output.splitlines():
            tally.read(line, name)
        failures = RUST_FAILURES.search(output)
        shown = (failures[0] if failures else output) if process.returncode else ""
        self._end(name, tally, process.returncode, started, shown)
        return output

    def pytest(self, name: str, *options: str) -> None:
        """Run Python tests, and show the output as it comes."""
        tally, started = Tally(), time.monotonic()
        with self._process([*PYTEST, *options], env=python_environment()) as process:
            for line in process.stdout or ():
                tally.read(line)
                with self._lock:
                    print(line, end="", flush=True)
        self._end(name, tally, process.returncode, started)

    def interrupt(self) -> None:
        """End all that runs, with what it has started."""
        self._interrupted = True
        for number, patience_s in ((signal.SIGINT, 10.0), (signal.SIGKILL, 1.0)):
            for process in list(self._running):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            until = time.monotonic() + patience_s
            while self._running and time.monotonic() < until:
                time.sleep(0.05)

    @contextlib.contextmanager
    def _process(
        self,
        command: list[str],
        *,
        cwd: Path = ROOT,
        env: dict[str, str] | None = None,
        stderr: int | None = subprocess.STDOUT,
    ) -> Iterator[subprocess.Popen[str]]:
        """A process in a group of its own, with its output as a pipe."""
        if self._interrupted:
            raise KeyboardInterrupt
        with subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            errors="replace",
            process_group=0,
        ) as process:
            self._running.add(process)
            yield process
        self._running.discard(process)

    def _end(self, name: str, tally: Tally, code: int, started: float, shown: str = "") -> None:
        """Keep what a part came to, instead of what it came to before."""
        with self._lock:
            self.tallies[name] = tally
            self.broken.pop(name, None)
            if code:
                self.broken[name] = code
            outcome = "FAILED" if code else "ok"
            if not self._interrupted:
                print(f"{shown}== {name}: {outcome}, {time.monotonic() - started:.1f} s", flush=True)


def run(suite: Suite) -> None:
    """Build, and run every test, also after one that failed."""
    with ThreadPoolExecutor(PROGRAMS_AT_ONCE + 1) as pool, ThreadPoolExecutor(CORES) as computing:
        try:
            python = pool.submit(suite.pytest, "Python", *SIDE_BY_SIDE, str(PYTEST_WORKERS))
            alone, core, rust = [], [], {}
            for program in suite.build():
                if program.core:
                    core.append(computing.submit(suite.rust, program))
                elif program.name in ALONE:
                    alone.append(program)
                else:
                    rust[program] = pool.submit(suite.rust, program)
            pool.submit(suite.doc_tests).result()
            python.result()
            again = [program for program, was_busy in rust.items() if was_busy.result()]
            for program in alone:
                pool.submit(suite.rust, program).result()
            for computed in core:
                computed.result()
        except KeyboardInterrupt:
            suite.interrupt()
            for each in (pool, computing):
                each.shutdown(cancel_futures=True)
            raise
    suite.repeat(again)
    suite.pytest("Python, one by one", *marked("alone", "quiet"))


def python_environment() -> dict[str, str]:
    """Return the environment of Python tests, in which bytecode is kept also where the shell forbids it."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPYCACHEPREFIX": str(BYTECODE)}


def marked(*marks: str) -> list[str]:
    """Return pytest's options for the tests with a mark; files without one are not read, which takes seconds."""
    texts = {path: path.read_text("utf-8") for path in sorted(TESTS.rglob("test_*.py"))}
    files = [str(path) for path, text in texts.items() if any(f"@pytest.mark.{mark}" in text for mark in marks)]
    return ["-m", " or ".join(marks), *files]


def missing(reasons: Iterable[str]) -> str:
    """Return what tests were skipped for want of, and the commands that give it, in a line; empty if there is none.

    >>> missing(["a: selenium, chromium or chromium-driver is not installed", "b: needs root", "c: make web"])
    'Missing here: chromium; `tools/packages.sh chromium chromium-driver && make web` gives it'
    """
    words = [set(re.findall(r"[\w-]+", reason)) for reason in reasons]
    names = [name for name in PACKAGES if any(name in of for of in words)]
    commands = ["tools/packages.sh " + " ".join(PACKAGES[name] for name in names)] if names else []
    commands += [command for said, command in BUILDS.items() if any(said in reason for reason in reasons)]
    if not commands:
        return ""
    return f"Missing here: {', '.join(names) or 'what is built'}; `{' && '.join(commands)}` gives it"


def processor_s() -> float:
    """Seconds of the processor's that the tests took, user's and system's, with all that they started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(suite: Suite, seconds: float) -> None:
    """Print what came of it."""
    tallies = suite.tallies.values()
    times = [length for tally in tallies for length in tally.times]
    print(f"\nAll took {seconds:.0f} s, and {processor_s():.0f} s of the processor; the slowest:")
    for length_s, test in sorted(times, reverse=True)[:SLOWEST]:
        print(f"  {length_s:5.1f} s  {test}")
    if reasons := [reason for tally in tallies for reason in tally.reasons]:
        print("Skipped:", *reasons, sep="\n  ")
        if line := missing(reasons):
            print(line)
    if suite.passed_alone:
        print("Failed beside other tests, passed by themselves:", *suite.passed_alone, sep="\n  ")
    for name in suite.broken:
        print(f"{name}: failed, see above")
    # A part can fail without a failed test: a test that does not compile, no test found.
    failed = sum(tally.failed for tally in tallies) or len(suite.broken)
    passed, skipped = sum(tally.passed for tally in tallies), sum(tally.skipped for tally in tallies)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


def main() -> int:
    """Run every test; the exit code."""
    suite, started = Suite(), time.monotonic()
    # A process that a shell starts in the background ignores some signals, and tests of signals would too.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        run(suite)
    except KeyboardInterrupt:
        suite.interrupt()
        print("interrupted")
        return 130
    report(suite, time.monotonic() - started)
    return 1 if suite.broken else 0


if __name__ == "__main__":
    sys.exit(main())
