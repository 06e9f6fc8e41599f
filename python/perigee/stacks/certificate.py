# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The certificate of a server of one measurement, made for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perigee.core import native
from perigee.files import storage_errors

AUTHORITY = "Perigee"
HOST = "localhost"
"""Name of the server, which clients that check certificates expect whatever its address."""


@dataclass(frozen=True)
class Certificate:
    """Files of a certificate, PEM.

    Attributes:
        certificate: the server's.
        key: its key.
        authority: whom a client trusts.
    """

    certificate: Path
    key: Path
    authority: Path

    @classmethod
    def make(cls, folder: Path) -> Certificate:
        """Make key and certificate of a server, signed by an authority whose key is kept nowhere.

        Raises:
            StorageError: the folder cannot be written.
        """
        authority_key, authority = native.authority(AUTHORITY)
        key, certificate = native.signed(AUTHORITY, authority_key, "server", HOST, datetime.now(UTC).year + 2)
        made = cls(folder / "certificate.pem", folder / "key.pem", folder / "authority.pem")
        with storage_errors(folder):
            for path, text in ((made.certificate, certificate), (made.key, key), (made.authority, authority)):
                path.write_text(text, encoding="ascii")
        return made
