# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Builds the Debian package from a wheel, and starts the command and the proxy from what it contains.

    .venv/bin/python tools/deb.py --wheel dist/perigee_lab-*.whl --out dist

`make deb` calls it. The package has a virtual environment of its own in /opt/perigee, with the libraries that the wheel
needs, so that it depends on no version of Debian's. It takes Debian's Python, and fits the one it was built with only.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
HOME = "opt/perigee"
COMMANDS = ("perigee", "perigee-pep")
UNITS = ("perigee-agent.service", "perigee-cc@.service", "perigee-pep.service")
MOVED = {
    "share/man/man1": "usr/share/man/man1",
    "share/bash-completion/completions": "usr/share/bash-completion/completions",
    "share/fish/vendor_completions.d": "usr/share/fish/vendor_completions.d",
    "share/zsh/site-functions": "usr/share/zsh/vendor-completions",
}
"""Folders of a wheel's installation, and where Debian has them."""
CONTROL = """\
Package: perigee
Version: {version}
Architecture: {architecture}
Maintainer: The Perigee authors <perigee@localhost>
Installed-Size: {kilobytes}
Depends: python3 (>= {python}), python3 (<< {next_python}), libc6 (>= {libc}), libelf1, libgcc-s1, zlib1g
Recommends: iperf3, iproute2, nftables
Suggests: clang, gcc, libbpf-dev, tcpdump
Section: net
Priority: optional
Description: predict, measure and improve how TCP behaves over satellite links
 Packet-level simulator, emulator on this machine's own TCP, measurements between
 real hosts, and congestion controls that load into the running kernel.
 perigee-pep is a proxy that splits TCP connections in front of a satellite link.
"""
SCRIPTS = {
    "postinst": """\
#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
""",
    "prerm": """\
#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ] && [ "$1" = remove ]; then
    systemctl disable --now perigee-agent.service perigee-pep.service
    systemctl stop 'perigee-cc@*.service'
fi
# What Python has compiled when root started it.
find "$DPKG_ROOT/opt/perigee" -name __pycache__ -type d -prune -exec rm -rf {} +
""",
    "postrm": """\
#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
""",
}
LIBC = re.compile(rb"GLIBC_2\.([0-9]+)(?:\.[0-9]+)?\0")


def environment(tree: Path, wheel: Path) -> None:
    """Make the virtual environment of the package in a tree, with the wheel and all that it needs."""
    home = tree / HOME
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", home], check=True)
    pip = [sys.executable, "-m", "pip", "--python", home / "bin/python3", "--disable-pip-version-check"]
    command = [*pip, "install", "--quiet", "--no-compile", "--only-binary", ":all:", wheel]
    subprocess.run([str(part) for part in command], check=True)


def assemble(tree: Path, python: tuple[int, int]) -> None:
    """Complete a tree that has the virtual environment: everything else that the package has, and what dpkg reads.

    Args:
        tree: the folder that stands for the root of a system.
        python: major and minor version of the virtual environment's Python.
    """
    home = tree / HOME
    for script in (home / "bin").iterdir():
        if script.name not in COMMANDS and not script.name.startswith("python"):
            script.unlink()
    command = home / "bin/perigee"
    _, _, program = command.read_text(encoding="utf-8").partition("\n")
    command.write_text(f"#!/{HOME}/bin/python3\n{program}", encoding="utf-8")
    settings = home / "pyvenv.cfg"
    lines = [line for line in settings.read_text(encoding="utf-8").splitlines() if not line.startswith("command")]
    settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for folder, place in MOVED.items():
        if (home / folder).is_dir():
            (tree / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(home / folder, tree / place)
    shutil.rmtree(home / "share", ignore_errors=True)
    for page in (tree / "usr/share/man/man1").glob("*.1"):
        compressed(page, page.with_name(f"{page.name}.gz"))
        page.unlink()
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/perigee").symlink_to(f"/{HOME}/bin/perigee")
    (tree / "usr/sbin").mkdir()
    (tree / "usr/sbin/perigee-pep").symlink_to(f"/{HOME}/bin/perigee-pep")
    units = tree / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for unit in UNITS:
        text = (ROOT / "packaging" / unit).read_text(encoding="utf-8")
        (units / unit).write_text(text.replace("/usr/local/sbin/", "/usr/sbin/"), encoding="utf-8")
    notes = tree / "usr/share/doc/perigee"
    notes.mkdir(parents=True)
    licences = [ROOT / "LICENSE", *sorted((ROOT / "LICENSES").glob("*.txt"))]
    (notes / "copyright").write_text("\n\n".join(one.read_text(encoding="utf-8") for one in licences), encoding="utf-8")
    compressed(ROOT / "CHANGELOG.md", notes / "changelog.gz")
    control = tree / "DEBIAN"
    control.mkdir()
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    described = CONTROL.format(
        version=tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"],
        architecture=output("dpkg", "--print-architecture"),
        kilobytes=sum(path.stat().st_size for path in files) // 1024,
        python=f"{python[0]}.{python[1]}",
        next_python=f"{python[0]}.{python[1] + 1}",
        libc=needed_libc(path for path in files if path.name == "perigee-pep" or ".so" in path.name),
    )
    (control / "control").write_text(described, encoding="utf-8")
    for name, text in SCRIPTS.items():
        (control / name).write_text(text, encoding="utf-8")
        (control / name).chmod(0o755)
    for path in (*files, *(one for one in tree.rglob("*") if one.is_dir())):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def compressed(file: Path, into: Path) -> None:
    """Compress a file, without its name and time."""
    with into.open("wb") as stream, gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as packed:
        packed.write(file.read_bytes())


def needed_libc(programs: Iterable[Path]) -> str:
    """Return the oldest C library that programs and libraries start with: the newest of whose symbols they use."""
    minors = [int(found) for path in programs for found in LIBC.findall(path.read_bytes())]
    return f"2.{max(minors, default=17)}"


def output(*command: str) -> str:
    """Return what a command prints, without the line's end."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build(tree: Path, out: Path) -> Path:
    """Make the package of a tree, in a folder; return its file."""
    out.mkdir(parents=True, exist_ok=True)
    said = output("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(tree), str(out))
    return Path(re.findall(r"in [`'](.*)'", said)[0])


def check(package: Path) -> None:
    """Unpack a package, and start the command and the proxy that are in it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
        libraries = next(Path(folder, HOME, "lib").glob("python3.*/site-packages"))
        start = f"import sys; sys.path[:0] = [{str(libraries)!r}]; from perigee.__main__ import main; main()"
        subprocess.run([PYTHON, "-I", "-S", "-c", start, "studies"], check=True, stdout=subprocess.DEVNULL, cwd=folder)
        subprocess.run([Path(folder, HOME, "bin/perigee-pep"), "--version"], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Build the package that the command line asks for, and print its file."""
    parser = argparse.ArgumentParser(description="Builds the Debian package.")
    parser.add_argument("--wheel", type=Path, required=True, help="perigee's wheel, with the proxy in it")
    parser.add_argument("--out", type=Path, required=True, help="folder for the package")
    given = parser.parse_args()
    version = output(PYTHON, "-c", "import sys; print(*sys.version_info[:2])").split()
    with tempfile.TemporaryDirectory(dir=ROOT / "target", prefix="deb-") as folder:
        tree = Path(folder, "perigee")
        environment(tree, given.wheel.resolve())
        assemble(tree, (int(version[0]), int(version[1])))
        package = build(tree, given.out)
    check(package)
    print(package)


if __name__ == "__main__":
    main()
