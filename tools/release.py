# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Builds what a release has into dist/, tries each part in a fresh environment, and lists what only the forge builds.

    .venv/bin/python tools/release.py build [PART]...    the parts that this machine can build, or those named
    python3 tools/release.py ready TAG                   whether a tag may be published
    python3 tools/release.py notes                       the changes of the newest release
    python3 tools/release.py sums                        dist/SHA256SUMS

`make release` calls the first; the workflow `.github/workflows/release.yml` all. Exits with 1 where a part that was
built fails, or one that was named cannot be built.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import deb
import fresh
import sbom
from fresh import FaultyError, UnavailableError

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
MACHINE = os.uname().machine
FOREIGN = "aarch64"
SUMS = "SHA256SUMS"
NO_BASE = 3
"""Exit code of tools/image.sh where neither the image's base nor what makes another one is there."""
RELEASED = re.compile(r"^## \[(\d[^]]*)\] - \d{4}-\d\d-\d\d\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)

ONLY_THE_FORGE = {
    "wheel for aarch64 to publish": "built where its libraries are found; the one here is cross-compiled",
    "Debian packages for aarch64": "need that machine's dpkg and Python",
    "image in a registry": "needs the forge's account",
    "attestations of origin": "are signed by the forge's identity",
    "upload to the index of packages": "is allowed to the workflow `release` alone, which needs no stored secret",
    "release page": "is on the forge",
}
"""Parts that this program never builds, and why."""


@dataclass(frozen=True)
class Part:
    """A part of a release.

    Attributes:
        makes: what it is, for people.
        build: makes its files in `dist/`, from what parts before it made; returns them.
        attempt: tries them in a fresh environment, and says how.
    """

    makes: str
    build: Callable[[], list[Path]]
    attempt: Callable[[list[Path]], str]


def version() -> str:
    """Return the version of what is built here."""
    return subprocess.check_output([ROOT / "tools/version.sh"], text=True).strip()


def newest(pattern: str) -> Path:
    """Return the newest file of `dist/` with such a name.

    Raises:
        UnavailableError: there is none.
    """
    found = sorted(DIST.glob(pattern), key=lambda path: path.stat().st_mtime)
    if not found:
        raise UnavailableError(f"dist/{pattern} is missing, which it is made of")
    return found[-1]


def made(*command: str | Path) -> str:
    """Run a command that builds something; return the last line it prints."""
    lines = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return lines[-1] if lines else ""


def build_tab() -> list[Path]:
    """Build the laboratory in a browser tab."""
    made("make", "web")
    page = DIST / f"perigee-tab-{version()}.html"
    shutil.copyfile(ROOT / "target/web/index.html", page)
    return [page]


def build_wheel() -> list[Path]:
    """Build the source distribution and, offline from it, a wheel; keep the wheel's list of its crates beside it."""
    made(ROOT / "tools/wheels.sh")
    wheel = newest(f"perigee_lab-*_{MACHINE}.whl")
    with zipfile.ZipFile(wheel) as packed:
        listed = next(name for name in packed.namelist() if name.endswith(".cyclonedx.json"))
        (DIST / f"{wheel.stem}.cdx.json").write_bytes(packed.read(listed))
    return [wheel, newest("perigee_lab-*.tar.gz"), DIST / f"{wheel.stem}.cdx.json"]


def static_proxy() -> Path:
    """Return the proxy as a static program."""
    made(ROOT / "tools/packages.sh", "binutils", "musl-tools")
    return ROOT / made(ROOT / "tools/static.sh")


def build_proxy() -> list[Path]:
    """Pack the static proxy with its licences and an example, and list the crates that are in it."""
    program = static_proxy()
    name = f"perigee-pep-{version()}-{MACHINE}-linux"
    guide = deb.EXAMPLE.search((ROOT / "docs/guide/deploy-pep.md").read_text(encoding="utf-8"))
    if guide is None:
        raise UnavailableError("docs/guide/deploy-pep.md has no `pep.toml`, which is the example")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, name)
        tree.mkdir()
        subprocess.run(["strip", "-o", tree / "perigee-pep", program], check=True)
        (tree / "pep.toml").write_text(guide[1], encoding="utf-8")
        for licence in (ROOT / "LICENSE", *(ROOT / "LICENSES").glob("*.txt")):
            shutil.copy(licence, tree)
        with tarfile.open(DIST / f"{name}.tar.gz", "w:gz") as packed:
            packed.add(tree, name)
    listed = DIST / f"{name}.cdx.json"
    listed.write_text(sbom.of("perigee-pep", version()), encoding="utf-8")
    return [DIST / f"{name}.tar.gz", listed]


def build_deb_pep() -> list[Path]:
    """Build the Debian package of the proxy."""
    program = static_proxy()
    return [Path(made(sys.executable, ROOT / "tools/deb.py", "--proxy", program, "--out", DIST))]


def build_deb() -> list[Path]:
    """Build the Debian package of the command."""
    wheel = newest(f"perigee_lab-*_{MACHINE}.whl")
    return [Path(made(sys.executable, ROOT / "tools/deb.py", "--wheel", wheel, "--out", DIST))]


def build_foreign() -> list[Path]:
    """Cross-compile a wheel for aarch64."""
    if os.geteuid() or MACHINE == FOREIGN or shutil.which("dpkg-deb") is None:
        raise UnavailableError("cross-compiled on Debian for another kind of machine, as root")
    out = ROOT / "target/foreign"
    made(ROOT / "tools/aarch64.sh", "build", out)
    return [next(out.glob("*.whl"))]


def build_image() -> list[Path]:
    """Build the container image, in which tools/image.sh carries out a study."""
    if os.geteuid() and shutil.which("buildah") is None:
        raise UnavailableError("needs buildah, or root to install it")
    try:
        print(f"   its base: {made(ROOT / 'tools/image.sh', 'build')}")
    except subprocess.CalledProcessError as error:
        if error.returncode != NO_BASE:
            raise
        raise UnavailableError("its base cannot be fetched, and making another one needs root") from error
    return []


PARTS = {
    "tab": Part("laboratory in a browser tab", build_tab, lambda made: fresh.tab(made[0])),
    "wheel": Part("source distribution and wheel", build_wheel, lambda made: fresh.wheel(made[0], version())),
    "proxy": Part("static proxy", build_proxy, lambda made: fresh.proxy(made[0], version())),
    "deb-pep": Part("Debian package of the proxy", build_deb_pep, lambda made: fresh.packages(made, version())),
    "deb": Part("Debian package of the command", build_deb, lambda made: fresh.packages(made, version())),
    "aarch64": Part("wheel for aarch64, to try", build_foreign, lambda made: fresh.foreign_wheel(made[0], version())),
    "image": Part("container image", build_image, lambda _: "carried out a study in it"),
}
"""The parts, in the order of their making: later ones take what earlier ones made."""


def build(names: Sequence[str]) -> int:
    """Build and try parts, and print what came of each; return the exit code."""
    DIST.mkdir(exist_ok=True)
    # A commit while it builds does not give later parts another version.
    os.environ["PERIGEE_VERSION"] = version()
    failed: list[str] = []
    left: dict[str, str] = {}
    for name in names or PARTS:
        part = PARTS[name]
        print(f"== {name}: {part.makes}", flush=True)
        try:
            files = part.build()
            tried = part.attempt(files)
        except UnavailableError as error:
            left[part.makes] = str(error)
            failed += [name] if names else []
        except subprocess.CalledProcessError as error:
            command = " ".join(map(str, error.cmd[:3]))
            print(f"failed: {command} ... ended with {error.returncode}\n{error.output or ''}"[-4000:], flush=True)
            failed.append(name)
        except FaultyError as error:
            print(f"failed: {error}", flush=True)
            failed.append(name)
        else:
            for file in files:
                print(f"   {file.relative_to(ROOT)}: {file.stat().st_size / 1e6:.1f} MB")
            print(f"   {tried}", flush=True)
    sums()
    listed("Not built or not tried here", left)
    listed("Built by the forge only", ONLY_THE_FORGE)
    print(f"Failed: {', '.join(failed)}" if failed else "All else was built and tried.")
    return int(bool(failed))


def listed(head: str, reasons: Mapping[str, str]) -> None:
    """Print what is not there, and why."""
    if reasons:
        print(f"{head}:", *(f"   {what}: {why}" for what, why in reasons.items()), sep="\n")


def ready(tag: str) -> list[str]:
    """Return what keeps a tag from being published, a line each."""
    number = subprocess.check_output([sys.executable, ROOT / "python/perigee/version.py"], text=True).partition("+")[0]
    number = number.strip()
    found = []
    if tag != f"v{number}":
        found.append(f"python/perigee/version.py: the number is {number}, and the tag {tag}")
    if "dev" in number:
        found.append(
            f"python/perigee/version.py: {number} is no release yet; take `.dev0` off, and `-dev.0` in Cargo.toml"
        )
    newest_changes = RELEASED.search((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if newest_changes is None or newest_changes[1] != number:
        found.append(f"CHANGELOG.md: the newest release is not {number}; give [Unreleased] its number and date")
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    unknown = [name for name, address in urls.items() if ".invalid" in address]
    if unknown:
        found.append(f"pyproject.toml: addresses are not known yet: {', '.join(unknown)}")
    return found


def notes() -> str:
    """Return the changes of the newest release."""
    found = RELEASED.search((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    return found[2].strip() if found else ""


def sums() -> None:
    """Write the SHA-256 of each file of `dist/`."""
    files = sorted(path for path in DIST.iterdir() if path.is_file() and path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (DIST / SUMS).write_text("".join(lines), encoding="utf-8")


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description="Builds and tries what a release consists of.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    commands.add_parser("ready").add_argument("tag")
    commands.add_parser("notes")
    commands.add_parser("sums")
    given = parser.parse_args()
    if given.command == "build":
        return build(given.parts)
    if given.command == "ready":
        found = ready(given.tag)
        print("\n".join(found) or f"{given.tag} may be published")
        return int(bool(found))
    if given.command == "notes":
        print(notes())
    else:
        sums()
    return 0


if __name__ == "__main__":
    sys.exit(main())
