# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How stacks are made, by the ordinary clients of their registries: apt-get, go, cargo."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perigee.files import sha256_of
from perigee.stacks.table import Kind, Stack

PROGRAMS = Path(__file__).with_name("programs")
"""Servers and clients of ours, for stacks that have none to measure with."""
APT_S = 600.0
"""Time in which apt-get must end: its lists are about 10 MB, a stack's packages 1 MB."""
TOLD_LINES = 3
"""As many last lines of a program that failed are in the reason."""


class CouldNotError(Exception):
    """A stack could not be made; the text says why."""


@dataclass(frozen=True)
class Site:
    """Where a stack is made.

    Attributes:
        work: its own folder, kept where it could not be made.
        made: the folder that becomes its place.
        shared: what Rust programs are compiled in, which have dependencies in common.
        cache: of downloads.
        say: called with each step.
    """

    work: Path
    made: Path
    shared: Path
    cache: Path
    say: Callable[[str], None]

    def run(
        self,
        words: Sequence[str | Path],
        where: Path | None = None,
        more: Mapping[str, str] | None = None,
        limit_s: float | None = None,
    ) -> None:
        """Run a program to its end and tell its lines as steps.

        Args:
            words: the program and its arguments.
            where: the folder in which it runs; None: the stack's own.
            more: variables of its environment.
            limit_s: time after which it is ended; None: it takes what it takes.

        Raises:
            CouldNotError: it is missing or fails.
        """
        if shutil.which(words[0]) is None:
            raise CouldNotError(f"it needs `{words[0]}`, which is not installed")
        said: list[str] = []
        # It ends with this process, also where that is killed; compilers that it has started end what they are at.
        tied = ["setpriv", "--pdeathsig=TERM", "--"] if shutil.which("setpriv") else []
        # In a session of its own: without a terminal none of its programs can wait for an answer.
        process = subprocess.Popen(  # noqa: S603 - words of this module, no shell
            [*tied, *words],
            cwd=where or self.work,
            env={**os.environ, **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _end(process)

        timer = threading.Timer(limit_s or threading.TIMEOUT_MAX, give_up)
        with process:
            timer.start()
            try:
                for line in process.stdout or ():
                    if line.strip():
                        said = [*said, line.strip()][-TOLD_LINES:]
                        self.say(said[-1])
            except BaseException:
                _end(process)
                raise
            finally:
                timer.cancel()
        if late.is_set():
            raise CouldNotError(f"`{words[0]}` did not end within {limit_s:g} s")
        if process.returncode != 0:
            raise CouldNotError(
                f"`{words[0]}` ended with {process.returncode}: {' / '.join(said) or 'it said nothing'}"
            )


def _end(process: subprocess.Popen[str]) -> None:
    """End a program and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _debian(stack: Stack, site: Site) -> None:
    """Unpack packages of Debian, without installing them; they were built for amd64."""
    if platform.machine() != "x86_64":
        raise CouldNotError(f"the sums of its packages are those of amd64, and this machine is {platform.machine()}")
    # Lists of its own, so that it needs no root and finds what is not in the system's.
    state, cache = site.work / "apt", site.cache / "apt"
    for folder in (state / "lists/partial", cache / "archives/partial"):
        folder.mkdir(parents=True, exist_ok=True)
    options = [f"-oDir::State={state}", f"-oDir::Cache={cache}", "-oAPT::Sandbox::User=", "-qq"]
    site.run(["apt-get", *options, "update"], limit_s=APT_S)
    for name, version, sha256 in stack.packages:
        site.say(f"downloading {name} {version}")
        site.run(["apt-get", *options, "download", f"{name}={version}"], limit_s=APT_S)
        package = next(site.work.glob(f"{name}_*.deb"))
        _check(package, sha256)
        site.run(["dpkg-deb", "-x", package, site.made])


def _go(stack: Stack, site: Site) -> None:
    """Build our program, whose `go.sum` pins the stack."""
    flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw -mod=readonly".strip()
    more = {
        "GOFLAGS": flags,
        "GOTOOLCHAIN": "local",
        "GOMODCACHE": str(site.cache / "go"),
        "GOCACHE": str(site.shared.with_name("go")),
    }
    # Without the commit of a checkout around it, which git refuses to tell where another user owns the checkout.
    words = ["go", "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags=-s"]
    site.run([*words, "-o", site.made / stack.name, "."], PROGRAMS / stack.name, more)


def _cargo(stack: Stack, site: Site) -> None:
    """Build our program, whose `Cargo.lock` pins the stack."""
    manifest = PROGRAMS / "rust/Cargo.toml"
    words = ["build", "--release", "--locked", f"--package=perigee-{stack.name}", f"--manifest-path={manifest}"]
    site.run(_cargo_words(words), more=_cargo_folders(site))
    shutil.copy2(site.shared / "release" / stack.name, site.made / stack.name)


def _crate(stack: Stack, site: Site) -> None:
    """Build the programs of a crate, whose own `Cargo.lock` pins all that they need."""
    name = stack.source.removeprefix("crate: ")
    folders = _cargo_folders(site)
    # Downloads it, and neither unpacks nor executes anything.
    site.run(_cargo_words(["info", f"{name}@{stack.version}"]), more=folders)
    _check(next((site.cache / "cargo/registry/cache").glob(f"*/{name}-{stack.version}.crate")), stack.checksum)
    words = ["install", name, f"--version={stack.version}", "--locked", f"--root={site.made}"]
    site.run(_cargo_words(words), more=folders)


def _cargo_words(words: Sequence[str]) -> list[str]:
    """Return a command of cargo with its user's settings, such as a mirror, though its home is another."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    settings = next((path for path in (home / "config.toml", home / "config") if path.is_file()), None)
    return ["cargo", *([f"--config={settings}"] if settings else []), *words]


def _cargo_folders(site: Site) -> Mapping[str, str]:
    return {"CARGO_HOME": str(site.cache / "cargo"), "CARGO_TARGET_DIR": str(site.shared)}


def _check(path: Path, sha256: str) -> None:
    """Hold a download against its sum; a wrong one is removed, so that the next installation gets it anew."""
    found = sha256_of(path)
    if found != sha256:
        path.unlink()
        raise CouldNotError(f"{path.name} has the SHA-256 {found}, and not {sha256}: it was not used")


BUILDERS: Mapping[Kind, Callable[[Stack, Site], None]] = {
    "debian": _debian,
    "go": _go,
    "cargo": _cargo,
    "crate": _crate,
}
