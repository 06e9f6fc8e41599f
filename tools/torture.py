#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Half an hour of trying to break what stands: long tests, the adversary's, an operator's, studies, fuzz targets.

Long tests are those that `make test` leaves out (pytest's mark `long`, Rust's `ignore`), and Rust's laws over random
cases, `CASES` of them in the place of 256. Those of Python, and the adversary's, run on a core that asserts what it
assumes, overflow included, which the released one does not. It is compiled first. Every shipped study with a reduced
size is carried fast and plain there, and a hostile operator of the proxy (`benches/pep_hostile.py`, as root) does all
that it can do at least once. Bounded by `--minutes`, but for all of these: half of them are the adversary's, half the
fuzz targets'. Exits with 1 if anything was found; seeds and inputs are printed. Closes with `N passed, N failed, N
skipped`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUZZ = ROOT / "fuzz"
BUILD = ROOT / "target" / "fuzz"
PACKAGE = ROOT / "python" / "perigee"
CORE = "_core.abi3.so"
PROFILE = "checked"
"""The core's profile of Cargo's, which has assertions."""

# Flags of the compiler for libFuzzer; `cargo fuzz` gives the same, but takes a nightly compiler for its sanitizers.
COVERAGE = (
    "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 "
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table "
    "-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks"
)
MEMORY_MB = 2048
CASES = 4096
"""Cases of a law, where `make test` has proptest's default or a share of it."""
LAWS = ("perigee-analyze", "perigee-link", "perigee-sim", "perigee-tcp")
"""Crates with laws over random cases."""


def checked_package() -> Path:
    """Compile the core with assertions; a folder from which Python imports `perigee` with it."""
    build = ["cargo", "build", "--profile", PROFILE, "--quiet", "-p", "perigee-py"]
    print("==", *build, flush=True)
    subprocess.run(build, cwd=ROOT, check=True)
    built = ROOT / "target" / PROFILE
    package = built / "python" / "perigee"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for path in PACKAGE.iterdir():
        if path.name != CORE:
            (package / path.name).symlink_to(path)
    shutil.copyfile(built / "lib_core.so", package / CORE)
    return package.parent


def tests(package: Path, minutes: float) -> bool:
    """Run the adversary's tests on this package; true if they found nothing."""
    # pytest's own setting comes before PYTHONPATH; the commands under test take the package from where the tests do.
    paths = f"pythonpath={package.relative_to(ROOT)} tests"
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-o", paths, "tests/adversary", f"--torture={minutes}"]
    print("==", *command, flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def long_tests(package: Path) -> dict[str, bool]:
    """Run what `make test` leaves out; whether each part found nothing."""
    python = [sys.executable, "-m", "pytest", "-q", "-rs", "-o", f"pythonpath={package.relative_to(ROOT)} tests"]
    every = ["cargo", "test", "--quiet", "--workspace", "--exclude", "perigee-py", "--no-fail-fast"]
    laws = ["cargo", "test", "--quiet", "--no-fail-fast", *(f"--package={crate}" for crate in LAWS)]
    commands = {
        "long tests of Python": [*python, "-m", "long", "--long", "tests"],
        "long tests of Rust": [*every, "--", "--ignored"],
        "laws of Rust": laws,
    }
    found = {}
    for name, command in commands.items():
        print("==", *command, flush=True)
        environment = os.environ | {"PROPTEST_CASES": str(CASES)}
        found[name] = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0
    return found


def shipped_studies() -> list[Path]:
    """Return the studies in `studies/` that declare a reduced size and need no file of the user's."""
    texts = {path: tomllib.loads(path.read_text()) for path in sorted((ROOT / "studies").glob("*/study.toml"))}
    return [path for path, text in texts.items() if "reduced" in text and "inputs" not in text]


def verify(package: Path, study: Path) -> bool:
    """Carry a shipped study, reduced, fast and plain by this package; true if all tables are the same."""
    command = [sys.executable, "-m", "perigee", "run", str(study), "--reduced", "--verify"]
    print("==", *command, flush=True)
    with tempfile.TemporaryDirectory(prefix="perigee-verify-") as folder:
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(package)},
            capture_output=True,
            text=True,
            check=False,
        )
    print(done.stdout.strip() if done.returncode == 0 else done.stderr[-4000:])
    return done.returncode == 0


def operator(seed: int) -> bool:
    """Have a hostile operator do each kind of harm to the proxy; true if nothing was lost."""
    build = ["cargo", "build", "--profile", "local", "--quiet", "-p", "perigee-pep"]
    command = [sys.executable, "benches/pep_hostile.py", "--minutes", "0", "--seed", str(seed)]
    environment = os.environ | {"PERIGEE_PEP": str(ROOT / "target" / "local" / "perigee-pep")}
    print("==", *command, flush=True)
    subprocess.run(build, cwd=ROOT, check=True)
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def native_targets() -> dict[str, list[str]]:
    """Build the fuzz targets of the crates; their commands by name."""
    names = sorted(path.stem for path in (FUZZ / "fuzz_targets").glob("*.rs"))
    target = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = next(line.split()[1] for line in target.splitlines() if line.startswith("host:"))
    build = ["cargo", "build", "--release", "--quiet", "--bins", "--target", host, "--target-dir", str(BUILD)]
    print("==", *build, flush=True)
    # With a target of its own, the flags are not those of build scripts.
    subprocess.run(build, cwd=FUZZ, env=os.environ | {"RUSTFLAGS": COVERAGE}, check=True)
    return {name: [str(BUILD / host / "release" / name)] for name in names}


def python_targets() -> dict[str, list[str]]:
    """The fuzz targets of Python's readers; none where there is no atheris for this Python."""
    if importlib.util.find_spec("atheris") is None:
        return {}
    sys.path.insert(0, str(FUZZ / "python"))
    from readers import TARGETS

    return {name: [sys.executable, str(FUZZ / "python" / "run.py"), name] for name in TARGETS}


def fuzz(name: str, command: list[str], seconds: float, seed: int) -> bool:
    """Run a fuzz target on a copy of its corpus; true if it found nothing."""
    with tempfile.TemporaryDirectory(prefix="perigee-fuzz-") as found:
        options = [
            f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}", f"-rss_limit_mb={MEMORY_MB}", "-timeout=10",
            "-max_len=8192", f"-artifact_prefix={found}/", "-print_final_stats=0", "-verbosity=0",
        ]  # fmt: skip
        print(f"== {name}: {seconds:.0f} s, -seed={seed}", flush=True)
        grown = Path(found) / "grown"
        grown.mkdir()
        done = subprocess.run(
            [*command, *options, str(grown), str(FUZZ / "corpus" / name)],
            cwd=ROOT, env=os.environ | {"RUST_BACKTRACE": "1"}, capture_output=True, text=True, errors="replace",
            timeout=seconds + 300, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            return True
        print(done.stderr[-4000:])
        for artifact in Path(found).glob("[a-z]*-*"):
            print(f"{name}: input {artifact.read_bytes()!r}")
        return False


def main() -> int:
    """Try everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="about how long [30]")
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="of the fuzz targets, and the hostile operator"
    )
    given = parser.parse_args()
    package = checked_package()
    outcomes = long_tests(package) | {"tests/adversary": tests(package, given.minutes / 2)}
    outcomes |= {f"studies/{path.parent.name}": verify(package, path) for path in shipped_studies()}
    if is_root := os.geteuid() == 0:
        outcomes["hostile operator"] = operator(given.seed)
    natives, pythons = native_targets(), python_targets()
    targets = natives | pythons
    for name, command in targets.items():
        outcomes[f"fuzz target {name}"] = fuzz(name, command, given.minutes * 30 / len(targets), given.seed)
    skipped = (not pythons) + (not is_root)
    if not pythons:
        print("skipped: fuzz targets of Python's readers: atheris is not installed (pip install atheris)")
    if not is_root:
        print("skipped: hostile operator: network namespaces need root")
    failed = [name for name, well in outcomes.items() if not well]
    for name in failed:
        print(f"found something: {name}, see above")
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
