# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The Debian package: what it has and needs; installed into a folder and removed, it leaves nothing."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import tool

if os.geteuid() or not shutil.which("dpkg-deb"):
    pytest.skip("needs root, and dpkg-deb", allow_module_level=True)

EXPECTED = {
    "opt/perigee/bin/perigee",
    "opt/perigee/bin/perigee-pep",
    "opt/perigee/bin/python3",
    "opt/perigee/pyvenv.cfg",
    "usr/bin/perigee",
    "usr/lib/systemd/system/perigee-agent.service",
    "usr/lib/systemd/system/perigee-cc@.service",
    "usr/lib/systemd/system/perigee-pep.service",
    "usr/sbin/perigee-pep",
    "usr/share/bash-completion/completions/perigee",
    "usr/share/doc/perigee/changelog.gz",
    "usr/share/doc/perigee/copyright",
    "usr/share/man/man1/perigee.1.gz",
}


def files(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for top in ("opt", "usr")
        for path in (root / top).rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package around a virtual environment that only looks like a real one."""
    deb = tool("deb")
    tree = tmp_path / "tree"
    home = tree / "opt/perigee"
    for name, text in {
        "bin/perigee": "#!/build/opt/perigee/bin/python\nprint('there')\n",
        "bin/f2py": "#!/build/opt/perigee/bin/python\n",
        "pyvenv.cfg": "home = /usr/bin\ncommand = /usr/bin/python3 -m venv /build/opt/perigee\n",
        "share/man/man1/perigee.1": ".TH PERIGEE 1\n",
        "share/bash-completion/completions/perigee": "complete perigee\n",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / "bin/perigee").chmod(0o755)
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    proxy = home / "bin/perigee-pep"
    proxy.write_bytes(b"#!/bin/sh\n# GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.2.5\0\n")
    proxy.chmod(0o755)
    deb.assemble(tree, (3, 11))
    made = deb.build(tree, tmp_path / "out")
    assert isinstance(made, Path)
    return made


def test_a_package_has_the_command_its_pages_units_and_what_it_needs(package: Path, tmp_path: Path) -> None:
    fields = subprocess.run(
        ["/usr/bin/dpkg-deb", "--field", package], capture_output=True, text=True, check=True
    ).stdout
    assert "Depends: python3 (>= 3.11), python3 (<< 3.12), libc6 (>= 2.34), libelf1, libgcc-s1, zlib1g\n" in fields
    root = tmp_path / "unpacked"
    subprocess.run(["/usr/bin/dpkg-deb", "--extract", package, root], check=True)
    assert files(root) == EXPECTED
    assert (root / "usr/bin/perigee").readlink() == Path("/opt/perigee/bin/perigee")
    assert (root / "opt/perigee/bin/perigee").read_text() == "#!/opt/perigee/bin/python3\nprint('there')\n"
    assert (root / "opt/perigee/pyvenv.cfg").read_text() == "home = /usr/bin\n"
    assert "ExecStart=/usr/sbin/perigee-pep run" in (root / "usr/lib/systemd/system/perigee-pep.service").read_text()
    assert gzip.decompress((root / "usr/share/man/man1/perigee.1.gz").read_bytes()) == b".TH PERIGEE 1\n"
    owners = {path.lstat().st_uid for path in root.rglob("*")}
    assert owners == {0}


def test_a_package_that_is_removed_leaves_nothing(package: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for folder in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    dpkg = [
        "/usr/bin/dpkg",
        f"--root={root}",
        "--force-depends",
        "--force-script-chrootless",
        f"--log={tmp_path / 'dpkg.log'}",
    ]
    subprocess.run([*dpkg, "--install", package], check=True, capture_output=True)
    assert files(root) == EXPECTED
    compiled = root / "opt/perigee/lib/__pycache__/one.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.touch()
    subprocess.run([*dpkg, "--remove", "perigee"], check=True, capture_output=True)
    assert files(root) == set()
    assert not (root / "opt/perigee/bin").exists()


@pytest.mark.skipif("PERIGEE_DEB" not in os.environ, reason="PERIGEE_DEB names no package to install on this machine")
def test_the_package_named_by_the_environment_installs_starts_and_goes() -> None:
    subprocess.run(["/usr/bin/dpkg", "--install", os.environ["PERIGEE_DEB"]], check=True)
    try:
        done = subprocess.run(["/usr/bin/perigee", "studies"], capture_output=True, text=True, check=True)
        assert "claypool-2021" in done.stdout
        subprocess.run(["/usr/sbin/perigee-pep", "--version"], check=True)
    finally:
        subprocess.run(["/usr/bin/dpkg", "--purge", "perigee"], check=True)
    assert not Path("/opt/perigee").exists()
