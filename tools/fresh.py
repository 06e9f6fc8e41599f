# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tries what a release has as a user would who has nothing else: in new folders and systems, removed afterwards.

`tools/release.py` calls these. Each returns in a few words what it did. It raises `FaultyError` or
`subprocess.CalledProcessError` where what is tried is not as it has to be, `UnavailableError` where this machine
lacks something that the attempt itself needs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUDY = "claypool-2021"
SUM = re.compile(r"^([0-9a-f]{64})  all values$", re.MULTILINE)
SCRIPT = """\
set -eu
perigee --version
perigee run {study} --reduced --out results
perigee report results
"""
"""First steps of a user who has the command in PATH."""
ROW = "table.summary tbody td"
"""A cell of the tab's table of flows, which is empty until it has simulated."""
SECONDS = 120


class UnavailableError(Exception):
    """Something cannot be built or tried on this machine; one line says why."""


class FaultyError(Exception):
    """Something that was built is not as it has to be; one line says how."""


def wheel(path: Path, version: str) -> str:
    """Install a wheel into a virtual environment where no compiler is in PATH, run a study and report on it."""
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder, "venv/bin")
        subprocess.run([sys.executable, "-m", "venv", programs.parent], check=True)
        subprocess.run([programs / "pip", "install", "--quiet", "--only-binary", ":all:", path], check=True)
        alone = {"PATH": str(programs), "HOME": folder}
        said = _output(["/bin/sh", "-c", SCRIPT.format(study=STUDY)], cwd=folder, env=alone)
        _expect(said, f"perigee {version}")
        _expect(_output([programs / "perigee-pep", "--version"], env=alone), f"perigee-pep {version}")
        size = _output(["du", "--summarize", "--block-size=M", programs.parent]).split()[0]
    return f"installed ({size}B) in a fresh virtual environment without a compiler; {STUDY} run, and reported on"


def foreign_wheel(path: Path, version: str) -> str:
    """Run a study in a wheel for aarch64 under qemu, and compare its values with those of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        there, here = Path(folder, "aarch64"), Path(folder, "here")
        said = _output([ROOT / "tools/aarch64.sh", "try", path, STUDY, there])
        _expect(said, f"perigee {version}")
        perigee = [sys.executable, "-m", "perigee"]
        _output([*perigee, "run", STUDY, "--reduced", "--out", here], cwd=folder)
        found = SUM.search(_output([*perigee, "verify", here], cwd=folder))
        if found is None:
            raise FaultyError("`perigee verify` prints no sum")
        _output([*perigee, "verify", there, "--sum", found[1]], cwd=folder)
    return f"started under qemu-user; the values of {STUDY} at its reduced size are those of {os.uname().machine}"


def proxy(archive: Path, version: str) -> str:
    """Start the static proxy where there is no other file, and have it check its example."""
    _needs_root()
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        alone = next(Path(folder).iterdir())
        said = _output(["chroot", alone, "/perigee-pep", "--version"])
        _expect(said, f"perigee-pep {version}")
        _output(["chroot", alone, "/perigee-pep", "check", "/pep.toml"])
    return "started in a root folder with nothing else; its example checked"


def packages(paths: Sequence[Path], version: str) -> str:
    """Install Debian packages into a new system of this machine's release, use what they have, and remove them."""
    _needs_root()
    suite = _output(["/bin/sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME"]).strip()
    subprocess.run([ROOT / "tools/packages.sh", "debootstrap", "debian-archive-keyring"], check=True)
    names = [path.name.partition("_")[0] for path in paths]
    commands = [f"apt-get install --quiet --yes --no-install-recommends {' '.join(f'./{path.name}' for path in paths)}"]
    if "perigee" in names:
        commands.append(SCRIPT.format(study=STUDY))
        # The package is for a machine of several users: the web page needs these, and there is no pip to add them.
        commands.append("/opt/perigee/bin/python3 -c 'import starlette, uvicorn'")
    if "perigee-pep" in names:
        commands += ["perigee-pep --version", "perigee-pep check /usr/share/doc/perigee-pep/examples/pep.toml"]
    commands.append(f"apt-get purge --quiet --yes {' '.join(names)}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        _output(["debootstrap", "--variant=minbase", suite, root])
        for path in paths:
            shutil.copy(path, root / "root")
        script = "\n".join(["set -eu", "export DEBIAN_FRONTEND=noninteractive LC_ALL=C", "cd /root", *commands])
        # Mounts and processes of the attempt end with it.
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc"]
        said = _output([*alone, "chroot", root, "/bin/sh", "-c", script])
        for name in names:
            _expect(said, f"{name} {version}")
        left = [one for one in ("opt/perigee", "usr/sbin/perigee-pep", "usr/bin/perigee") if (root / one).exists()]
        if left:
            raise FaultyError(f"removed packages leave {', '.join(left)}")
    return f"installed by apt into a bare {suite}, used, and removed"


def tab(page: Path) -> str:
    """Open the tab from a folder in Chromium, and wait until its table has a row."""
    if not os.geteuid():
        subprocess.run([ROOT / "tools/packages.sh", "chromium", "chromium-driver"], check=True)
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        raise UnavailableError("no Chromium; install it with: tools/packages.sh chromium chromium-driver")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(option)
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(page, folder)
        chrome = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
        try:
            chrome.get(f"file://{copy}")
            until = time.monotonic() + SECONDS
            while not chrome.execute_script(f"return document.querySelector({ROW!r}) !== null"):
                if time.monotonic() > until:
                    raise FaultyError(f"the page shows no results within {SECONDS} s in Chromium")
                time.sleep(0.2)
        finally:
            chrome.quit()
    return "opened from a folder in Chromium; it simulates"


def _needs_root() -> None:
    if os.geteuid():
        raise UnavailableError("trying it needs root")


def _output(command: Sequence[str | Path], **options: object) -> str:
    """Return what a command prints, with what it says of errors; raise its failure with both."""
    done = subprocess.run(  # type: ignore[call-overload]
        [str(part) for part in command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    return str(done.stdout)


def _expect(said: str, line: str) -> None:
    if line not in said.splitlines():
        raise FaultyError(f"it does not say `{line}`, but: {said.strip().splitlines()[0]}")
