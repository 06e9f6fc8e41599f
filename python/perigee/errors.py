# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Errors by their cause: wrong input, failed run, interrupt. Each has its exit code."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

EXIT_RUN_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

EXTRAS = {"serve": ("starlette", "uvicorn")}
"""The extras of the distribution and their packages, as pyproject.toml has them."""


class PerigeeError(Exception):
    """A failure with one clear line for the user.

    Args:
        message: what is wrong, with its fix where that is not given apart.
        fix: what to do about it; it follows the message.

    Attributes:
        exit_code: what the command line ends with.
        fix: what to do about it, where it was given apart.

    Examples:
        >>> error = PerigeeError("study.toml:3: there is no `rond`", "did you mean `rounds`?")
        >>> str(error), error.fix
        ('study.toml:3: there is no `rond`; did you mean `rounds`?', 'did you mean `rounds`?')
    """

    exit_code = EXIT_RUN_FAILED

    def __init__(self, message: str, fix: str | None = None) -> None:
        super().__init__(message if fix is None else f"{message}; {fix}")
        self.fix = fix


class InputError(PerigeeError):
    """The study, the settings or the results folder given are wrong; nothing was changed.

    Examples:
        >>> InputError("study.toml:3: unknown key `rond`; did you mean `rounds`?").exit_code
        2
    """

    exit_code = EXIT_BAD_INPUT


class MissingPackagesError(InputError):
    """Something needs packages of an extra, which are not installed.

    Args:
        what: what needs them.
        error: the failed import of one of them.
        extra: the extra that has them, a key of `EXTRAS`.

    Examples:
        >>> print(MissingPackagesError("the site", ModuleNotFoundError(name="starlette.routing"), "serve"))
        the site needs starlette; install it with: pip install starlette uvicorn (or the wheel with its extra: \
pip install 'perigee_lab-....whl[serve]')
    """

    def __init__(self, what: str, error: ModuleNotFoundError, extra: str) -> None:
        package = (error.name or extra).partition(".")[0]
        packages = " ".join(EXTRAS[extra])
        wheel = f"or the wheel with its extra: pip install 'perigee_lab-....whl[{extra}]'"
        super().__init__(f"{what} needs {package}; install it with: pip install {packages} ({wheel})")


class NothingToDrawError(InputError):
    """The data of a figure are not in these results."""


class RootNeededError(InputError):
    """Only root may do it; the command line says how to give the same command as root."""


class RunError(PerigeeError):
    """The input was right, but a run failed."""


class FaultError(RunError):
    """A run broke a law of the simulator, so it has no results: a defect of perigee, not of the study.

    The first line says which run and how, the lines after it are the study with its settings.

    Examples:
        >>> FaultError("run 3: a link lost a packet").exit_code
        1
    """


class KernelError(RunError):
    """The kernel refused it.

    Attributes:
        log: all that the kernel said, where it said more than the message.
    """

    def __init__(self, message: str, log: str | None = None) -> None:
        super().__init__(message)
        self.log = log


class InUseError(KernelError):
    """Sockets use the congestion control."""


class StorageError(PerigeeError):
    """The results could not be written (disk full, no permission); what was complete is kept."""

    @classmethod
    def from_os(cls, error: OSError, path: Path) -> StorageError:
        """Turn an operating system's error into a sentence with its fix.

        Examples:
            >>> from pathlib import Path
            >>> str(StorageError.from_os(OSError(28, "No space left on device"), Path("out/a")))
            'out/a: the disk is full; free some space, then give the same command again to resume'
        """
        fixes = {
            errno.ENOSPC: "the disk is full; free some space, then give the same command again to resume",
            errno.EDQUOT: "the disk quota is used up; free some space, then give the same command again to resume",
            errno.EACCES: "no permission to write here; write to another folder",
            errno.EPERM: "no permission to write here; write to another folder",
            errno.EROFS: "this file system is read-only; write to another folder",
        }
        reason = fixes.get(error.errno or 0, f"cannot be written: {error.strerror or error}")
        return cls(f"{path}: {reason}")


class InterruptedRunError(PerigeeError):
    """The user stopped the run; the folder resumes with the same command."""

    exit_code = EXIT_INTERRUPTED
