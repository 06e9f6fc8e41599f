# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The program `perigee-pep`: its location and execution."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from perigee.errors import InputError

PROGRAM = "perigee-pep"
VARIABLE = "PERIGEE_PEP"
"""Environment variable with the program's path, if not in the usual places."""
SYSTEM = ("/usr/local/sbin", "/usr/sbin")
CHECKOUT = Path(__file__).resolve().parents[4]
BUILD = f"cargo build --profile local --workspace --bin {PROGRAM}"
"""Builds it from the crates that the Python module has, without compiling them again."""
PROFILES = ("local", "release")
"""Cargo's profiles: that of `make setup`, and that of packages and benchmarks."""


def find_program(
    environment: Mapping[str, str] = os.environ, checkout: Path = CHECKOUT, scripts: Path | None = None
) -> Path:
    """Return the program's path: from `PERIGEE_PEP`, this package, the checkout, `PATH`, or a folder for root.

    Of the programs in a checkout, it is the one that was built last.

    Args:
        environment: of this process.
        checkout: the repository, if any.
        scripts: folder of programs installed by a wheel.

    Raises:
        InputError: the program is not found.

    Examples:
        >>> find_program({"PERIGEE_PEP": "/nowhere/perigee-pep"})
        Traceback (most recent call last):
        perigee.errors.InputError: /nowhere/perigee-pep: PERIGEE_PEP names no program; give the path of perigee-pep
    """
    if named := environment.get(VARIABLE):
        if not _is_program(Path(named)):
            raise InputError(f"{named}: {VARIABLE} names no program", f"give the path of {PROGRAM}")
        return Path(named)
    installed = scripts or Path(sysconfig.get_path("scripts"))
    if _is_program(installed / PROGRAM):
        return installed / PROGRAM
    if built := [place for profile in PROFILES if _is_program(place := checkout / "target" / profile / PROGRAM)]:
        return max(built, key=lambda place: place.stat().st_mtime)
    # Debian's package has it where only root's PATH leads to, and anyone may check a configuration.
    if found := shutil.which(PROGRAM, path=os.pathsep.join((environment.get("PATH", os.defpath), *SYSTEM))):
        return Path(found)
    fix = f"install the package {PROGRAM}; in a checkout: {BUILD}; or name it in {VARIABLE}"
    raise InputError(f"the program {PROGRAM} is not here", fix)


def hand_over(*arguments: str) -> NoReturn:
    """Replace this process by the program with these arguments.

    Raises:
        InputError: the program does not exist or cannot be executed.
    """
    program = find_program()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(program, [PROGRAM, *arguments])  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise _not_executed(program, error) from error


def said(*arguments: str, is_shown: bool = False) -> tuple[int, str]:
    """Execute the program; return its exit code and output; its errors are shown.

    Args:
        arguments: of the program.
        is_shown: whether it prints to this process's output instead.

    Raises:
        InputError: the program does not exist or cannot be executed.
    """
    program = find_program()
    sys.stdout.flush()
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            [program, *arguments], stdout=None if is_shown else subprocess.PIPE, text=True, check=False
        )
    except OSError as error:
        raise _not_executed(program, error) from error
    return done.returncode, done.stdout or ""


def _not_executed(program: Path, error: OSError) -> InputError:
    return InputError(f"{program}: it cannot be executed: {error.strerror}", f"build {PROGRAM} for this host")


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
