# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files that are whole or absent: written beside their place, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from perigee.errors import StorageError


def write_atomically(path: Path, content: bytes) -> None:
    """Create or replace `path` with `content`.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.

    Examples:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     target = Path(folder) / "note.txt"
        ...     write_atomically(target, b"whole")
        ...     target.read_text(), len(list(Path(folder).iterdir()))
        ('whole', 1)
    """
    with atomic_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears at `path`, whole, when the block ends without an error.

    A crash at any instant leaves the old file or the new one, never a part.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    with storage_errors(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
            sync_folder(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn `OSError` into a `StorageError` that names `path` and the fix."""
    try:
        yield
    except OSError as error:
        raise StorageError.from_os(error, path) from error
