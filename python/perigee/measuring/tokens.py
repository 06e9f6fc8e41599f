# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The secret that both ends of a probe know: from an option, a file, or made; and the key made of it."""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import secrets
from pathlib import Path

from perigee.console import say
from perigee.errors import InputError
from perigee.files import storage_errors

SHORTEST = 12
"""Least letters of a token that a person has chosen."""
MADE_BYTES = 16
"""Random bytes of a generated token: too many to guess."""

_SALT = b"perigee ping and probe 2"
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 1 << 15, 8, 3
"""32 MiB and some 0.3 s for each guess."""


def secret(token: str | None, token_file: Path | None = None, *, make: bool = False) -> bytes:
    """Return the token that both ends know, out of its file where there is one.

    Args:
        token: as it was given.
        token_file: its first line is the token.
        make: where neither gives one, make one, and say it or write it to the file.

    Raises:
        InputError: there is none, or it is too short.
    """
    if token_file is not None:
        if make and not os.path.lexists(token_file):
            _write_made(token_file)
        token = _read(token_file)
    elif token is None and make:
        token = made()
        say(f"a token was made for this server; on the other end: PERIGEE_TOKEN={token}")
    if token is None:
        raise InputError(
            "no token is given; both ends take the same one with --token, --token-file or the variable PERIGEE_TOKEN, "
            "and start `perigee probe --serve` there, which makes one"
        )
    if len(token) < SHORTEST:
        raise InputError(
            f"the token: {len(token)} letters are too few to keep others out; take {SHORTEST} or more, or none with "
            "--serve, which makes one"
        )
    return token.encode()


def made() -> str:
    """Make a token of 128 random bits.

    Examples:
        >>> len(made()), made() == made()
        (26, False)
    """
    return base64.b32encode(secrets.token_bytes(MADE_BYTES)).decode().rstrip("=").lower()


@functools.cache
def key_of(token: bytes) -> bytes:
    """Stretch a token to the key of all codes (scrypt, RFC 7914), once per process.

    Codes of datagrams travel: a key made by a plain hash would let anybody who saw one of them try a dictionary at the
    speed of that hash.
    """
    return hashlib.scrypt(
        token, salt=_SALT, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P, maxmem=256 * _SCRYPT_N * _SCRYPT_R, dklen=32
    )


def _read(token_file: Path) -> str:
    try:
        with token_file.open(encoding="utf-8") as file:
            return file.readline(_LONGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        raise InputError(f"--token-file {token_file}: cannot be read: {why}") from error


def _write_made(token_file: Path) -> None:
    with storage_errors(token_file):
        # Nobody else may read it, and nothing that is there, or turns up meanwhile, is followed or written over.
        descriptor = os.open(token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(made() + "\n")
    say(f"a token was made, in {token_file}; give the other end the same file")


_LONGEST = 4096
