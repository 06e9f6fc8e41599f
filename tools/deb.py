# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Builds the Debian packages, and starts what they contain.

    .venv/bin/python tools/deb.py --wheel dist/perigee_lab-*.whl --out dist
    python3 tools/deb.py --proxy target/x86_64-unknown-linux-musl/static/perigee-pep --out dist

`make deb` calls it. The package `perigee` has a virtual environment of its own in /opt/perigee, with the libraries that
the wheel needs, so that it depends on no version of Debian's. It takes Debian's Python, and fits the one it was built
with only. The package `perigee-pep` is the proxy alone, a static program. Neither has a file of the other.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
HOME = "opt/perigee"
PROXY = "perigee-pep"
MOVED = {
    "share/man/man1/perigee*.1": "usr/share/man/man1",
    "share/bash-completion/completions/perigee": "usr/share/bash-completion/completions",
    "share/fish/vendor_completions.d/perigee.fish": "usr/share/fish/vendor_completions.d",
    "share/zsh/site-functions/_perigee": "usr/share/zsh/vendor-completions",
}
"""Perigee's own files of a wheel's installation, and where Debian has them. Libraries bring files that belong to other
packages there, as fonttools its manual page."""
LEFT_OUT = ("tests", "*.c", "*.h", "*.px[di]", "*.pyx")
"""Parts of the libraries that nothing in Perigee uses: tests and sources."""
DASHBOARDS = ("grafana-perigee-pep.json", "prometheus-perigee-pep.yml")
STATIC = "tools/static.sh"


@dataclass(frozen=True)
class Package:
    """A package's statements about itself.

    Attributes:
        name: of the package.
        units: systemd units in it.
        stopped: commands that end its services before it is removed.
        fields: further fields of its control file.
        description: one line, then indented lines.
        cleaning: command of its removal.
        user: system user of its services; a file of systemd-sysusers makes it.
        upgraded: commands of a newer version's installation.
    """

    name: str
    units: tuple[str, ...]
    stopped: tuple[str, ...]
    description: str
    fields: dict[str, str] = field(default_factory=dict)
    cleaning: str = ""
    user: str = ""
    upgraded: str = ""


WHOLE = Package(
    "perigee",
    ("perigee-agent.service", "perigee-cc@.service"),
    ("systemctl disable --now perigee-agent.service", "systemctl stop 'perigee-cc@*.service'"),
    """\
predict, measure and improve how TCP behaves over satellite links
 Packet-level simulator, emulator on this machine's own TCP, measurements between
 real hosts, and congestion controls that load into the running kernel.
""",
    {"Recommends": "iperf3, iproute2, nftables, perigee-pep", "Suggests": "clang, gcc, libbpf-dev, tcpdump"},
    f"""\
# What Python has compiled when root started it.
find "$DPKG_ROOT/{HOME}" -name __pycache__ -type d -prune -exec rm -rf {{}} +
""",
)
ALONE = Package(
    PROXY,
    ("perigee-pep.service",),
    ("systemctl disable --now perigee-pep.service",),
    """\
proxy that splits TCP connections in front of a satellite link
 Each side of a router gets its own congestion control, buffers and timers. Two
 proxies share one QUIC connection over the link. A static program, with rules
 for Prometheus and a dashboard for Grafana.
""",
    {"Recommends": "iproute2, nftables"},
    user=PROXY,
    upgraded="""\
if [ -z "$DPKG_ROOT" ] && [ "$1" = configure ] && [ -n "$2" ] && systemctl --quiet is-active perigee-pep.service; then
    # Whatever hinders it is said; the old process goes on.
    perigee-pep upgrade /etc/perigee/pep.toml || echo "perigee-pep: restart the service to run the new version" >&2
fi
""",
)
RELOAD = """\
#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"""
USERS = """\
if [ -z "$DPKG_ROOT" ] && command -v systemd-sysusers > /dev/null; then systemd-sysusers {user}.conf; fi
"""
LIBC = re.compile(rb"GLIBC_2\.([0-9]+)(?:\.[0-9]+)?\0")
EXAMPLE = re.compile(r"^Save this as `pep\.toml`.*?^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
INTERPRETED = 3
"""Type of the part of a program that names its dynamic loader, PT_INTERP."""


class WrongInputError(Exception):
    """A package cannot be made of what was given; one line says why, and what to do."""


def environment(tree: Path, wheel: Path) -> None:
    """Make the virtual environment of the package in a tree, with the wheel and all that it and its web page need."""
    home = tree / HOME
    run(PYTHON, "-m", "venv", "--without-pip", home)
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        home / "bin/python3",
        "--disable-pip-version-check",
    ]
    run(*pip, "install", "--quiet", "--no-compile", "--only-binary", ":all:", f"{wheel}[serve]")


def slim(libraries: Path) -> None:
    """Remove from libraries, all but Perigee itself, what it does not use, and the symbols of debuggers.

    Args:
        libraries: a folder `site-packages`.
    """
    others = [path for path in libraries.rglob("*") if path.relative_to(libraries).parts[0] != "perigee"]
    left_out = [path for path in others if any(path.match(pattern) for pattern in LEFT_OUT)]
    for path in left_out:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    # Libraries in folders `*.libs` were moved by their wheel's maker, in a way that strip breaks.
    for path in others:
        is_moved = any(part.endswith(".libs") for part in path.parts)
        if ".so" in path.suffixes and path.is_file() and not (path.is_symlink() or is_moved):
            run("strip", "--strip-unneeded", path)


def assemble(tree: Path, python: tuple[int, int]) -> None:
    """Complete a tree that has the virtual environment: everything else that the package has, and what dpkg reads.

    Args:
        tree: the folder that stands for the root of a system.
        python: major and minor version of the virtual environment's Python.
    """
    home = tree / HOME
    for script in (home / "bin").iterdir():
        if script.name != "perigee" and not script.name.startswith("python"):
            script.unlink()
    command = home / "bin/perigee"
    _, _, program = command.read_text(encoding="utf-8").partition("\n")
    command.write_text(f"#!/{HOME}/bin/python3\n{program}", encoding="utf-8")
    settings = home / "pyvenv.cfg"
    lines = [line for line in settings.read_text(encoding="utf-8").splitlines() if not line.startswith("command")]
    settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for pattern, place in MOVED.items():
        for file in home.glob(pattern):
            (tree / place).mkdir(parents=True, exist_ok=True)
            shutil.move(file, tree / place)
    shutil.rmtree(home / "share", ignore_errors=True)
    for page in (tree / "usr/share/man/man1").glob("*.1"):
        compressed(page.read_bytes(), page.with_name(f"{page.name}.gz"))
        page.unlink()
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/perigee").symlink_to(f"/{HOME}/bin/perigee")
    libraries = (path for path in home.rglob("*.so*") if path.is_file())
    needs = f"python3 (>= {python[0]}.{python[1]}), python3 (<< {python[0]}.{python[1] + 1}), "
    needs += f"libc6 (>= {needed_libc(libraries)}), libelf1, libgcc-s1, zlib1g"
    complete(tree, WHOLE, {"Depends": needs})


def assemble_proxy(tree: Path, program: Path) -> None:
    """Make the tree of the proxy's package.

    Args:
        tree: the folder that stands for the root of a system.
        program: the proxy.

    Raises:
        WrongInputError: the program needs a dynamic loader, or is none for this machine.
    """
    if not is_static(program.read_bytes()):
        raise WrongInputError(f"{program}: is no static program; make one with: {STATIC}")
    there = tree / "usr/sbin" / PROXY
    there.parent.mkdir(parents=True)
    shutil.copy(program, there)
    there.chmod(0o755)
    run("strip", there)
    version, said = output(there, "--version").split()[-1], output(there, "--help")
    pages = tree / "usr/share/man/man8"
    pages.mkdir(parents=True)
    compressed(manual(said, version).encode(), pages / f"{PROXY}.8.gz")
    shared = tree / "usr/share" / PROXY
    shared.mkdir()
    for name in DASHBOARDS:
        shutil.copy(ROOT / "packaging" / name, shared)
    notes = tree / "usr/share/doc" / PROXY
    (notes / "examples").mkdir(parents=True)
    guide = EXAMPLE.search((ROOT / "docs/guide/deploy-pep.md").read_text(encoding="utf-8"))
    if guide is None:
        raise WrongInputError("docs/guide/deploy-pep.md: has no `pep.toml`, which is the package's example")
    (notes / "examples/pep.toml").write_text(guide[1], encoding="utf-8")
    compressed((ROOT / "docs/reference/pep.md").read_bytes(), notes / "configuration.md.gz")
    complete(tree, ALONE, {})


def manual(said: str, version: str) -> str:
    """Return the proxy's manual page, in the language of man(7).

    Args:
        said: what the program prints for `--help`: a line about it, then usages and options in two columns.
        version: of the program.
    """
    first, *others = said.splitlines()
    name, _, summary = first.partition(": ")
    lines = [f'.TH {_meant(name.upper())} 8 "" "Perigee {version}" "Perigee"', ".SH NAME"]
    lines += [f"{_meant(name)} \\- {_meant(summary)}", ".SH COMMANDS"]
    for line in others:
        usage, _, text = line.strip().partition("  ")
        if line.startswith("      "):
            lines.append(_meant(line.strip()))
        elif line.startswith("  "):
            lines += [".TP", f".B {_meant(usage)}", *([_meant(text.strip())] if text else [])]
        elif line:
            lines.append(f".SH {_meant(line.removesuffix(':').upper())}")
    lines += [".SH FILES"]
    for file, text in {
        "/etc/perigee/pep.toml": "configuration of the service perigee-pep",
        f"/usr/share/doc/{PROXY}/configuration.md.gz": "all keys of a configuration",
        f"/usr/share/doc/{PROXY}/examples/pep.toml": "a configuration to begin with",
        f"/usr/share/{PROXY}/prometheus-perigee-pep.yml": "alerts for Prometheus",
        f"/usr/share/{PROXY}/grafana-perigee-pep.json": "a dashboard for Grafana",
    }.items():
        lines += [".TP", f".I {_meant(file)}", text]
    lines += [".SH SEE ALSO", "nft(8), ip(8), systemctl(1)"]
    return "\n".join(lines) + "\n"


def complete(tree: Path, package: Package, fields: dict[str, str]) -> None:
    """Add units, licences, changes, and what dpkg reads to a tree that has all else."""
    units = tree / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for unit in package.units:
        text = (ROOT / "packaging" / unit).read_text(encoding="utf-8")
        (units / unit).write_text(text.replace("/usr/local/sbin/", "/usr/sbin/"), encoding="utf-8")
    if package.user:
        users = tree / "usr/lib/sysusers.d"
        users.mkdir(parents=True)
        shutil.copy(ROOT / "packaging" / f"{package.user}.sysusers", users / f"{package.user}.conf")
    notes = tree / "usr/share/doc" / package.name
    notes.mkdir(parents=True, exist_ok=True)
    licences = [ROOT / "LICENSE", *sorted((ROOT / "LICENSES").glob("*.txt"))]
    (notes / "copyright").write_text("\n\n".join(one.read_text(encoding="utf-8") for one in licences), encoding="utf-8")
    compressed((ROOT / "CHANGELOG.md").read_bytes(), notes / "changelog.gz")
    control = tree / "DEBIAN"
    control.mkdir()
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    stated = {
        "Package": package.name,
        # A tilde sorts before the release that a version leads to.
        "Version": output(ROOT / "tools/version.sh").replace(".dev", "~dev"),
        "Architecture": output("dpkg", "--print-architecture"),
        "Maintainer": maintainer(),
        "Installed-Size": str(sum(path.stat().st_size for path in files) // 1024),
        **fields,
        **package.fields,
        "Section": "net",
        "Priority": "optional",
        "Description": package.description.rstrip("\n"),
    }
    (control / "control").write_text("".join(f"{key}: {text}\n" for key, text in stated.items()), encoding="utf-8")
    stop = "\n".join(f"    {command}" for command in package.stopped)
    removal = f"""\
#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ] && [ "$1" = remove ]; then
{stop}
fi
{package.cleaning}"""
    begin = RELOAD + (USERS.format(user=package.user) if package.user else "") + package.upgraded
    for name, text in {"postinst": begin, "prerm": removal, "postrm": RELOAD}.items():
        (control / name).write_text(text, encoding="utf-8")
        (control / name).chmod(0o755)
    for path in (*files, *(one for one in tree.rglob("*") if one.is_dir())):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def maintainer() -> str:
    """Return the authors of pyproject.toml, or who DEBFULLNAME and DEBEMAIL say, as Debian's own tools have it."""
    author = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["authors"][0]
    name = os.environ.get("DEBFULLNAME", author["name"])
    address = os.environ.get("DEBEMAIL", author.get("email", ""))
    return f"{name} <{address}>" if address else name


def compressed(content: bytes, into: Path) -> None:
    """Compress into a file that has no name and time of another."""
    with into.open("wb") as stream, gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as packed:
        packed.write(content)


def is_static(program: bytes) -> bool:
    """Return whether a program of 64 bits names no dynamic loader.

    Examples:
        >>> is_static(Path(sys.executable).read_bytes()), is_static(b"#!/bin/sh")
        (False, False)
    """
    if program[:6] != b"\x7fELF\x02\x01":
        return False
    (begin,) = struct.unpack_from("<Q", program, 0x20)
    size, count = struct.unpack_from("<HH", program, 0x36)
    kinds = [struct.unpack_from("<I", program, begin + number * size)[0] for number in range(count)]
    return INTERPRETED not in kinds


def needed_libc(programs: Iterable[Path]) -> str:
    """Return the oldest C library that programs and libraries start with: the newest of whose symbols they use."""
    minors = [int(found) for path in programs for found in LIBC.findall(path.read_bytes())]
    return f"2.{max(minors, default=17)}"


def run(*command: str | Path, quiet: bool = False) -> None:
    """Run a command to its end.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL if quiet else None)


def output(*command: str | Path) -> str:
    """Return what a command prints, without the line's end."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build(tree: Path, out: Path) -> Path:
    """Make the package of a tree, in a folder; return its file."""
    said = output("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(tree), str(out))
    return Path(re.findall(r"in [`'](.*)'", said)[0])


def check(package: Path) -> None:
    """Unpack a package, and start what is in it."""
    with tempfile.TemporaryDirectory() as folder:
        run("dpkg-deb", "--extract", package, folder)
        if package.name.startswith(f"{PROXY}_"):
            program, example = (
                Path(folder, "usr", place) for place in ("sbin/perigee-pep", f"share/doc/{PROXY}/examples")
            )
            run(program, "check", example / "pep.toml", quiet=True)
            return
        libraries = next(Path(folder, HOME, "lib").glob("python3.*/site-packages"))
        start = f"import sys; sys.path[:0] = [{str(libraries)!r}]; from perigee.__main__ import main; main()"
        command = [PYTHON, "-I", "-S", "-c", start]
        run(*command, "run", "claypool-2021", "--reduced", "--out", Path(folder, "results"), quiet=True)
        run(*command, "report", Path(folder, "results"), quiet=True)
        served = start.partition("; from")[0] + "; import perigee.laboratory.server, uvicorn"
        run(*command[:-1], served)


def _meant(text: str) -> str:
    """Return text that means itself in man(7)."""
    changed = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{changed}" if changed.startswith(".") else changed


def make(wheel: Path | None, proxy: Path | None, out: Path) -> Path:
    """Build a package of a wheel or of the proxy, and check it; return its file.

    Raises:
        WrongInputError: what is given is not what a package is made of.
        subprocess.CalledProcessError: a program that builds it failed.
    """
    for given in (wheel, proxy):
        if given is not None and not given.is_file():
            raise WrongInputError(f"{given}: there is no such file; make it with `make wheel` or `{STATIC}`")
    for program in ("dpkg", "dpkg-deb", PYTHON, "strip"):
        if shutil.which(program) is None:
            raise WrongInputError(f"{program} is not on this machine; packages are built on Debian, with binutils")
    if wheel is not None and not (wheel.name.startswith("perigee_lab-") and zipfile.is_zipfile(wheel)):
        raise WrongInputError(f"{wheel}: is no wheel of Perigee, perigee_lab-VERSION-....whl")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix="deb-") as folder:
        tree = Path(folder, "tree")
        if wheel is not None:
            version = output(PYTHON, "-c", "import sys; print(*sys.version_info[:2])").split()
            environment(tree, wheel.resolve())
            slim(next((tree / HOME / "lib").glob("python3.*/site-packages")))
            assemble(tree, (int(version[0]), int(version[1])))
        elif proxy is not None:
            assemble_proxy(tree, proxy)
        package = build(tree, out)
    check(package)
    return package


def main() -> int:
    """Build the package that the command line asks for, and print its file."""
    parser = argparse.ArgumentParser(description="Builds a Debian package: of the wheel, or of the proxy alone.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--wheel", type=Path, metavar="FILE", help="Perigee's wheel")
    source.add_argument("--proxy", type=Path, metavar="FILE", help="the static program perigee-pep")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder for the package")
    given = parser.parse_args()
    try:
        print(make(given.wheel, given.proxy, given.out))
    except WrongInputError as error:
        print(f"deb.py: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").splitlines()[-1:]
        command = " ".join(map(str, error.cmd[:3]))
        print(f"deb.py: {': '.join([f'{command} ... ended with {error.returncode}', *said])}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"deb.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
