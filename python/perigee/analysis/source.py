# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Text files of other programs: plain or gzip, UTF-8 or the UTF-16 of Windows, read line by line or up to a limit."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from perigee.errors import InputError
from perigee.files import MIB, lines_of, read_bounded, shown_bytes

HEAD_BYTES = 4096
"""Bytes by which the format of a file is known."""
GZIP = b"\x1f\x8b"


class Source:
    """A text file of another program.

    Attributes:
        path: the file.
        damage: where it is damaged or cut off, after it was read: a sentence each without its full stop.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: list[str] = []

    def head(self, size: int = HEAD_BYTES, *, is_text: bool = True) -> bytes:
        """Return how it begins, unpacked; of a text in UTF-8, other bytes replaced.

        Raises:
            InputError: it cannot be read.
        """
        try:
            with self._open() as file:
                begin = file.read(size)
                return decoded(begin).encode() if is_text else begin
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror}; give the file's name") from error

    def lines(self) -> Iterator[bytes]:
        """Yield its lines in UTF-8, each with its line break; memory does not grow.

        Raises:
            InputError: a line is longer than any of a log.
        """
        self.damage.clear()
        with self._open() as file:
            begin = file.read(_BOM_BYTES)
            wide = _wide(begin)
            whole: IO[bytes] = io.BufferedReader(_Rest(begin, file))
            if wide is not None:
                whole = cast("IO[bytes]", codecs.EncodedFile(whole, "utf-8", wide, "replace"))
            line = b""
            for line in lines_of(whole, self.path):  # type: ignore[arg-type]
                yield line.removeprefix(codecs.BOM_UTF8)
            if line and not line.endswith(b"\n"):
                self.damage.append("its last line has no end, so that the file may be cut off")

    def text(self, most: int, kind: str) -> str:
        """Return all of it.

        Args:
            most: the limit, bytes.
            kind: what it should be, for the message.

        Raises:
            InputError: it cannot be read, or is larger.
        """
        self.damage.clear()
        with self.path.open("rb") as file:
            is_packed = file.read(len(GZIP)) == GZIP
        if not is_packed:
            return decoded(read_bounded(self.path, most, kind))
        with self._open() as file:
            content = bytearray()
            while block := file.read(8 * MIB):
                content += block
                if len(content) > most:
                    limit = f"larger than {shown_bytes(most)} unpacked, the most that is read of {kind}"
                    raise InputError(f"{self.path}: {limit}; give another file")
        return decoded(bytes(content))

    def _open(self) -> IO[bytes]:
        file = self.path.open("rb")
        if file.read(len(GZIP)) != GZIP:
            file.seek(0) if file.seekable() else None
            return file
        file.seek(0)
        return io.BufferedReader(_Unpacked(file, self.damage))


def decoded(data: bytes) -> str:
    r"""Return text; bytes that are none are replaced.

    Examples:
        >>> decoded("a\n".encode("utf-16")), decoded(b"\xef\xbb\xbfa"), decoded(b"d\xe9lai")
        ('a\n', 'a', 'd�lai')
    """
    wide = _wide(data[:_BOM_BYTES])
    return data.decode(wide or "utf-8-sig", errors="replace")


class _Unpacked(io.RawIOBase):
    """A packed file up to where it is damaged, which is then added to the damage."""

    def __init__(self, file: IO[bytes], damage: list[str]) -> None:
        self._file, self._damage = file, damage
        self._gzip = gzip.GzipFile(fileobj=file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            data = self._gzip.read1(len(buffer))
        except (EOFError, OSError, zlib.error) as error:
            if not self._damage:
                self._damage.append(f"gzip is cut off or damaged ({error}); what stands before was read")
            return 0
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Rest(io.RawIOBase):
    """A file whose first bytes have been read."""

    def __init__(self, begin: bytes, file: IO[bytes]) -> None:
        self._begin, self._file = begin, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data, self._begin = (self._begin, b"") if self._begin else (self._file.read(len(buffer)), b"")
        buffer[: len(data)] = data
        return len(data)


def _wide(begin: bytes) -> str | None:
    """Return the UTF-16 that a text begins in; none: it does not."""
    if begin[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    if len(begin) >= _BOM_BYTES and begin[1] == begin[3] == 0 and begin[0] and begin[2]:
        return "utf-16-le"
    return None


_BOM_BYTES = 4
