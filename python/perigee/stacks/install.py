# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Installation of QUIC stacks into a folder.

A stack is made in `work/` of the folder and gets its place by a rename, when all its programs are there: one
that was killed leaves no half of a stack, and the next one goes on with what was downloaded and compiled. Downloads are
checked against the sums of the table or of a lock file before anything of them is executed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perigee.errors import InputError
from perigee.files import storage_errors
from perigee.stacks.builders import BUILDERS, CouldNotError, Site
from perigee.stacks.table import Kind, Stack, find, is_installed, stacks

MAKING_MIB: Mapping[Kind, int] = {"debian": 40}
"""Room beside the stack's own that is known to be needed, MiB: of the lists of Debian 12, whose client apt-get does not
end where the disk is full."""
Progress = Callable[[str, str], None]
"""Called with a stack's name and a step of its installation, in words."""


@dataclass(frozen=True)
class Outcome:
    """How the installation of a stack ended.

    Attributes:
        name: the stack's.
        state: what it is now.
        reason: why it could not be installed; empty otherwise.
    """

    name: str
    state: Literal["installed", "already there", "could not"]
    reason: str = ""


def default_folder() -> Path:
    """Return the folder of a user's stacks: in the user's data, since a cache may be emptied by anybody."""
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local/share") / "perigee" / "quic"


def install(
    names: Sequence[str], folder: Path, on_progress: Progress, known: Sequence[Stack] | None = None
) -> list[Outcome]:
    """Install stacks into a folder; one that is there already stays.

    Args:
        names: of stacks; none: all.
        folder: where to.
        on_progress: see `Progress`.
        known: the stacks there are; None: those of the table.

    Raises:
        InputError: a stack is unknown, or another installation is under way in the folder.
        StorageError: the folder cannot be written.
    """
    known = stacks() if known is None else known
    chosen = [find(name, known) for name in dict.fromkeys(names)] or list(known)
    # Both cargo and go take a relative path as of a folder of their own.
    folder = folder.absolute()
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            outcomes = [_installed(stack, folder, on_progress) for stack in chosen]
            if all(outcome.state != "could not" for outcome in outcomes):
                for name in ("work", "cache"):
                    shutil.rmtree(folder / name, ignore_errors=True)
    return outcomes


def _installed(stack: Stack, folder: Path, on_progress: Progress) -> Outcome:
    if is_installed(stack, folder):
        return Outcome(stack.name, "already there")
    if full := _full(folder, stack.mebibytes + MAKING_MIB.get(stack.kind, 0)):
        return Outcome(stack.name, "could not", full)
    work = folder / "work" / stack.place
    site = Site(
        work=work,
        made=work / "made",
        shared=folder / "work" / "rust",
        cache=folder / "cache",
        say=lambda step: on_progress(stack.name, step),
    )
    shutil.rmtree(site.made, ignore_errors=True)
    site.made.mkdir(parents=True)
    try:
        BUILDERS[stack.kind](stack, site)
    except CouldNotError as error:
        full = _full(folder, stack.mebibytes)
        return Outcome(stack.name, "could not", f"{full}; {error}" if full else str(error))
    if missing := [program for program in stack.programs if not (site.made / program).is_file()]:
        return Outcome(stack.name, "could not", f"`{missing[0]}` was not built")
    place = folder / stack.place
    # A part of it, which somebody has left.
    shutil.rmtree(place, ignore_errors=True)
    site.made.rename(place)
    shutil.rmtree(work, ignore_errors=True)
    return Outcome(stack.name, "installed")


def _full(folder: Path, needed_mib: int) -> str:
    """Return that a folder has no room for a stack; empty: it has."""
    free_mib = shutil.disk_usage(folder).free >> 20
    return "" if free_mib >= needed_mib else f"{folder} is full: {free_mib} MiB free, it needs {needed_mib} MiB or more"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder for one installation; the kernel gives it back when this process ends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(folder / ".lock", flags, 0o600), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{folder}: another installation is under way", "wait for its end") from error
        yield
