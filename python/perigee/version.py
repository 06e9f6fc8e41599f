# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The version of this program, in a module below all others; `perigee.__version__` is the same.

A release is a number alone, `0.2.0`; whatever else was built or checked out names its commit, `0.2.0.dev0+g1a2b3c4d5`.
As a script this file prints it, for the tools that build packages.
"""

from __future__ import annotations

import os

NUMBER = "0.2.0.dev0"
"""The release that this is, or with `.dev0` the one that it leads to. Cargo.toml has it for core and packages."""
STAMP = "data/commit"
"""File of a package that names the commit it was built from; `tools/wheels.sh` writes it, a release has none."""
DIGITS = 9


def version_of(package: str) -> str:
    """Return the version of the package in a folder: its number, and its commit unless it is a release.

    Args:
        package: the folder of this module, in a checkout or where it is installed.
    """
    stamped = _first_line(f"{package}/{STAMP}")
    # `package` is python/perigee in a checkout; an installed one has no .git two folders above.
    commit = stamped or checked_out(f"{package}/../../.git")
    return f"{NUMBER}+g{commit[:DIGITS]}" if commit else NUMBER


def checked_out(git: str) -> str:
    """Return the commit that a checkout is at, read from git's files without a process; empty if there is none.

    Args:
        git: its `.git`: a folder, or in a further work tree of a repository the file that names one.
    """
    if folder := _first_line(git).removeprefix("gitdir: "):
        git = os.path.join(os.path.dirname(git), folder)  # noqa: PTH118, PTH120 - pathlib takes longer than all of this
    head = _first_line(f"{git}/HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    common = _first_line(f"{git}/commondir")
    shared = f"{git}/{common}" if common else git
    return _first_line(f"{shared}/{name}") or _packed(f"{shared}/packed-refs", name)


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - as above
            return file.readline().strip()
    except OSError:
        return ""


def _packed(path: str, name: str) -> str:
    """Return the commit of a reference that git keeps in one file with others."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
            return next((line[:40] for line in file if line.rstrip().endswith(f" {name}")), "")
    except OSError:
        return ""


__version__ = version_of(os.path.dirname(__file__))  # noqa: PTH120 - as above
"""Version of this program."""

if __name__ == "__main__":
    print(__version__)
