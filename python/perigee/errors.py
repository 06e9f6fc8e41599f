# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What can go wrong, by whose fault: the exit code says which."""

from __future__ import annotations

import errno
from pathlib import Path

EXIT_RUN_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


class PerigeeError(Exception):
    """A failure with one clear line for the user.

    Attributes:
        exit_code: what the command line ends with.
    """

    exit_code = EXIT_RUN_FAILED


class InputError(PerigeeError):
    """The study, the settings or the results folder given are wrong; nothing was changed.

    Examples:
        >>> InputError("study.toml:3: unknown key `rond`; did you mean `rounds`?").exit_code
        2
    """

    exit_code = EXIT_BAD_INPUT


class RunError(PerigeeError):
    """The input was right, but a run failed."""


class StorageError(PerigeeError):
    """The results could not be written (disk full, no permission); what was complete is kept."""

    @classmethod
    def from_os(cls, error: OSError, path: Path) -> StorageError:
        """Turn an operating system's error into a sentence with its fix.

        Examples:
            >>> str(StorageError.from_os(OSError(28, "No space left on device"), Path("out/a")))
            'out/a: the disk is full; free some space, then give the same command again to resume'
        """
        fixes = {
            errno.ENOSPC: "the disk is full; free some space, then give the same command again to resume",
            errno.EDQUOT: "the disk quota is used up; free some space, then give the same command again to resume",
            errno.EACCES: "no permission to write here; choose another folder with --out",
            errno.EPERM: "no permission to write here; choose another folder with --out",
            errno.EROFS: "this file system is read-only; choose another folder with --out",
        }
        reason = fixes.get(error.errno or 0, f"cannot be written: {error.strerror or error}")
        return cls(f"{path}: {reason}")


class InterruptedRunError(PerigeeError):
    """The user stopped the run; the folder resumes with the same command."""

    exit_code = EXIT_INTERRUPTED
