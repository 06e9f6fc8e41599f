# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Checks what is in a source distribution or a wheel: nothing that a user or a builder needs is missing.

    .venv/bin/python tools/check_packages.py dist/perigee_lab-*.tar.gz dist/perigee_lab-*.whl

`tools/wheels.sh` calls it for what it has made. The exit code is 1 where something is missing, or is there by mistake.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LICENCES = ("LICENSE", "LICENSES/GPL-2.0-only.txt", "LICENSES/MIT.txt")
LICENCES_OF_OTHERS = tuple(f"python/perigee/laboratory/static/{name}/LICENSE" for name in ("codemirror", "uplot"))
"""Licences of code by others, which pages load."""
EXPRESSION = "License-Expression: GPL-2.0-only OR MIT"
BUILT_FROM = ("algorithms/", "crates/", "packaging/wheel/", "python/perigee/")
"""Folders of which a source distribution needs every file, but for notes and settings at the top of `crates`."""
APART = ("crates/perigee-pep/", "crates/perigee-web/")
"""Crates that the package is not built from: programs of their own."""
LINKED = ("algorithms", "profiles", "schema", "studies")
"""Folders that the package has copies of, below `perigee/data`."""
PROGRAM = "/scripts/perigee-pep"
"""How the program's name ends in a wheel that has it."""
MISTAKES = re.compile(r"(^|/)(target|results|\.venv|__pycache__)/|\.pyc$")


def needed(tracked: Iterable[str], *, is_wheel: bool) -> set[str]:
    """Return the files that a package must have, as they are named in it.

    Args:
        tracked: the repository's files.
        is_wheel: whether it is a wheel; else it is a source distribution.

    Examples:
        >>> sorted(needed(["profiles/geo.toml", "crates/a/src/lib.rs", "tests/test_a.py"], is_wheel=True))
        ['perigee/data/profiles/geo.toml']
        >>> sorted(needed(["profiles/geo.toml", "crates/a/src/lib.rs", "crates/README.md"], is_wheel=False))
        ['LICENSE', 'LICENSES/GPL-2.0-only.txt', 'LICENSES/MIT.txt', 'crates/a/src/lib.rs', \
'python/perigee/data/profiles/geo.toml']
    """
    found = set() if is_wheel else set(LICENCES)
    for name in tracked:
        folder, _, rest = name.partition("/")
        if folder in LINKED and (folder != "studies" or "/" in rest):
            found.add(f"python/perigee/data/{name}")
        is_source = name.startswith(BUILT_FROM) and not name.startswith(APART)
        if not is_wheel and is_source and not re.fullmatch(r"crates/[^/]+", name):
            found.add(name)
        if is_wheel and name.startswith("python/perigee/"):
            found.add(name)
    # The links that lead to those folders are files for git.
    found -= {f"python/perigee/data/{name}" for name in LINKED}
    return {name.removeprefix("python/") for name in found} if is_wheel else found


def faults(names: Iterable[str], metadata: str, tracked: Iterable[str], *, is_wheel: bool) -> list[str]:
    """Return what is wrong with a package, a line each.

    Args:
        names: its files; those of a source distribution without the folder that all are in.
        metadata: the text of its `METADATA` or `PKG-INFO`.
        tracked: the repository's files.
        is_wheel: whether it is a wheel.
    """
    there = set(names)
    found = [f"{name}: missing" for name in sorted(needed(tracked, is_wheel=is_wheel) - there)]
    found += [f"{name}: there by mistake" for name in sorted(there) if MISTAKES.search(name)]
    if is_wheel:
        found += [
            f"{licence}: missing in the licences"
            for licence in (*LICENCES, *LICENCES_OF_OTHERS)
            if not any(name.endswith(f".dist-info/licenses/{licence}") for name in there)
        ]
    if EXPRESSION not in metadata.splitlines():
        found.append(f"the metadata lacks `{EXPRESSION}`")
    return found


def too_new(program: bytes, wheel: str) -> str | None:
    """Return what is wrong where a program needs a newer glibc than the name of its wheel says.

    Examples:
        >>> too_new(b"..GLIBC_2.34..GLIBC_2.9..", "perigee_lab-0.1.0-cp311-cp311-manylinux_2_28_x86_64.whl")
        'perigee-pep needs glibc 2.34, and the wheel is for 2.28; build it on an older system'
        >>> too_new(b"..GLIBC_2.34..", "perigee_lab-0.1.0-cp311-cp311-manylinux_2_34_x86_64.whl")
        >>> too_new(b"..GLIBC_2.34..", "perigee_lab-0.1.0-cp311-cp311-linux_x86_64.whl")
    """
    needs = max((int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", program)), default=0)
    named = re.search(r"manylinux_2_(\d+)", wheel)
    if named is None or needs <= int(named[1]):
        return None
    return f"perigee-pep needs glibc 2.{needs}, and the wheel is for 2.{named[1]}; build it on an older system"


def check(package: Path) -> list[str]:
    """Return what is wrong with a package file, a line each."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    own = [name for name in tracked if name]
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            names = wheel.namelist()
            metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
            programs = [wheel.read(name) for name in names if name.endswith(PROGRAM)]
            old = [fault for program in programs if (fault := too_new(program, package.name))]
            return faults(names, wheel.read(metadata).decode(), own, is_wheel=True) + old
    with tarfile.open(package) as source:
        members = {one.name.partition("/")[2]: one for one in source.getmembers() if one.isfile()}
        content = source.extractfile(members["PKG-INFO"])
        return faults(members, content.read().decode() if content else "", own, is_wheel=False)


def main() -> int:
    """Check the packages that are named."""
    wrong = [f"{path}: {fault}" for path in map(Path, sys.argv[1:]) for fault in check(path)]
    print("\n".join(wrong) or f"{len(sys.argv) - 1} packages have all their files")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
