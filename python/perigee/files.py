# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files that are written whole or not at all, and files of others that are read up to a limit."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from io import BufferedRandom
from pathlib import Path
from typing import BinaryIO

from perigee.errors import InputError, StorageError

KIB, MIB = 1 << 10, 1 << 20

TEXT_BYTES = 16 * MIB
"""Largest study, profile, `report.toml`, `published.toml` or file of a congestion control."""
DOCUMENT_BYTES = 256 * MIB
"""Largest file of `iperf3 --json`: 24 h at ten reports a second of one stream are some 100 MB."""
PROBE_LOG_BYTES = 256 * MIB
"""Largest log of a probe: a step of a minute is some 100 kB."""
LINE_BYTES = 64 * KIB
"""Longest line of a log of pings, which are read line by line and may be of any length."""

NO_NAMELESS_FILES = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}
"""Errors of a file system that has no unnamed files (O_TMPFILE)."""


def write_atomically(path: Path, content: bytes) -> None:
    """Create or replace `path` with `content`.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     target = Path(folder) / "note.txt"
        ...     write_atomically(target, b"whole")
        ...     target.read_text(), len(list(Path(folder).iterdir()))
        ('whole', 1)
    """
    with atomic_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BufferedRandom]:
    """Open a file that appears at `path`, whole, when the block ends without an error.

    A crash at any instant leaves the old file or the new one, never a part. Until then the file has no name, so that a
    kill leaves nothing at all; where the file system has no such files, a kill leaves `.NAME.XXXXXXXX.tmp`. A symbolic
    link at `path` is replaced, never followed.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """
    with storage_errors(path):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        temporary = f".{path.name}.{secrets.token_hex(4)}.tmp"
        try:
            handle, has_name = _unfinished(folder, temporary)
            # Readable too: what is written can be summed up before it has its name.
            with os.fdopen(handle, "w+b") as file:
                yield file
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
                if not has_name:
                    nameless = f"/proc/self/fd/{file.fileno()}"
                    os.link(nameless, temporary, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise
        finally:
            os.close(folder)


def _unfinished(folder: int, temporary: str) -> tuple[int, bool]:
    """Open a new file in a folder, without a name where that can be; return it, and whether it has one."""
    if Path("/proc/self/fd").is_dir():
        try:
            return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=folder), False
        except OSError as error:
            if error.errno not in NO_NAMELESS_FILES:
                raise
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(temporary, flags, 0o600, dir_fd=folder), True


def read_bounded(path: Path, most: int, kind: str) -> bytes:
    """Read a file from outside, of at most `most` bytes.

    Also a file that says nothing true of its size (a device, a pipe, a file of /proc) is read no further.

    Args:
        path: the file.
        most: the limit, bytes.
        kind: what it should be, for the message: `a study`.

    Raises:
        InputError: it cannot be read, or is larger.

    Examples:
        >>> read_bounded(Path("/dev/zero"), 1 << 20, "a study")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: /dev/zero: larger than 1 MiB, the most that is read of a study; give another file
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            content = bytearray()
            while size <= most and len(content) <= most:
                block = file.read(min(most + 1 - len(content), 8 * MIB))
                if not block:
                    return bytes(content)
                content += block
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; check its name and its permissions") from error
    has = f"{shown_bytes(size)}, " if size > most else ""
    limit = f"larger than {shown_bytes(most)}, the most that is read of {kind}"
    raise InputError(f"{path}: {has}{limit}; give another file")


def lines_of(file: BinaryIO, name: object, number: int = 1) -> Iterator[bytes]:
    """Yield the lines of a log, each with its line break; the first of them is line `number`.

    Raises:
        InputError: a line is longer than any of a log.
    """
    for number in itertools.count(number):  # noqa: B020 - it goes on from the number given
        line = file.readline(LINE_BYTES + 1)
        if not line:
            return
        if len(line) > LINE_BYTES:
            limit = f"longer than {shown_bytes(LINE_BYTES)}"
            raise InputError(f"{name}:{number}: {limit}, so this is no log; give another file")
        yield line


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a regular file, read piece by piece.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    with path.open("rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return hashlib.file_digest(file, "sha256").hexdigest()


def shown_bytes(count: float) -> str:
    """Write a number of bytes for people.

    Examples:
        >>> shown_bytes(64 << 10), shown_bytes(16 << 20), shown_bytes(5.5e9)
        ('64 KiB', '16 MiB', '5.1 GiB')
    """
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", MIB), ("KiB", KIB)):
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value == int(value) or value >= 100 else f"{value:.1f} {unit}"
    return f"{count:.0f} B"


def printable(path: str | Path) -> str:
    r"""Return the name of a file as text that any file or terminal takes; bytes that are no UTF-8 are shown as `\xff`.

    Examples:
        >>> printable(os.fsdecode(b"bad\xff.pcapng"))
        'bad\\xff.pcapng'
    """
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def write_new_folder(target: Path, texts: Mapping[str, str], option: str = "--dir") -> None:
    """Create a folder with files, whole or not at all; nothing is written over.

    Args:
        target: the new folder.
        texts: the text of each file by its name.
        option: the option that names it or the folder above it, for messages.

    Raises:
        InputError: there is something of that name, or no folder above it.
        StorageError: the files cannot be written.
    """
    if target.exists() or target.is_symlink():
        raise InputError(f"{target}: exists already; choose another name, or {option}")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent}: is no folder; make it, or choose another with {option}")
    with storage_errors(target):
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            made.chmod(0o755)
            for name, text in texts.items():
                (made / name).write_text(text, encoding="utf-8")
            made.rename(target)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn `OSError` into a `StorageError` that names `path` and the fix."""
    try:
        yield
    except OSError as error:
        raise StorageError.from_os(error, path) from error
