# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Who is an agent of a laboratory: a small authority, a file for each agent, and TLS between them.

The laboratory's folder `agents/` has the key and certificate of an authority and those of the controller, and the
certificate of each agent as `NAME.pem`. The key of an agent is only in the file that its host gets. A certificate whose
file was removed is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perigee.core import native
from perigee.engines.live.messages import NAME
from perigee.errors import InputError
from perigee.files import KIB, read_bounded, storage_errors

CONTROLLER = "controller.perigee"
"""The name in the controller's certificate, whatever its address."""
AUTHORITY = "Perigee laboratory"
YEARS = 5
"""Validity of certificates of agents and controllers."""
OWN = ("authority", "controller")
"""Names that no agent may have."""
MOST_BYTES = 64 * KIB


@dataclass(frozen=True)
class Identity:
    """The file of an agent.

    Attributes:
        path: where it is.
        name: the agent's.
        controller: host and port.
        authority: the certificate of the laboratory's authority, PEM.
    """

    path: Path
    name: str
    controller: tuple[str, int]
    authority: str

    @classmethod
    def read(cls, path: Path) -> Identity:
        """Read the file of an agent.

        Raises:
            InputError: it is none, or others can read it.
        """
        text = read_bounded(path, MOST_BYTES, "the file of an agent").decode(errors="replace")
        mode = path.stat().st_mode
        # systemd guards its credentials itself, and its lists of access show as rights of a group.
        is_guarded = str(path.parent) == os.environ.get("CREDENTIALS_DIRECTORY")
        if mode & (stat.S_IRWXG | stat.S_IRWXO) and not is_guarded:
            raise InputError(f"{path}: other users can read the key in it", f"chmod 600 {path}")
        said = dict(re.findall(r"^(agent|controller): (\S+)$", text, re.MULTILINE))
        certificates = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", text, re.DOTALL)
        if len(said) != 2 or len(certificates) != 2:
            raise InputError(f"{path}: this is not the file of an agent", "make one with: perigee agent invite NAME")
        return cls(path, said["agent"], endpoint("controller", said["controller"]), certificates[1])

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of the agent.

        Raises:
            InputError: key or certificate cannot be used.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_verify_locations(cadata=self.authority)
            context.load_cert_chain(self.path)
        except OSError as error:
            raise InputError(f"{self.path}: its key or certificate cannot be used: {error}") from error
        return context


class Authority:
    """The authority of a laboratory; it is made where there is none.

    Args:
        folder: the laboratory's folder for it.

    Raises:
        StorageError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with storage_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not (folder / "controller.pem").exists():
                key, certificate = native.authority(AUTHORITY)
                _write(folder / "authority.key", key)
                _write(folder / "authority.pem", certificate)
                _write(folder / "controller.pem", "".join(self._signed("controller", CONTROLLER)))

    def invite(self, name: str, controller: str, target: Path) -> None:
        """Make the file of an agent; an earlier one of the same name is not valid any more.

        Args:
            name: the agent's.
            controller: `HOST:PORT`, where the agent reaches the laboratory.
            target: the file.

        Raises:
            InputError: a name or address cannot be taken, or there is such a file.
            StorageError: it cannot be written.
        """
        if not re.fullmatch(NAME, name) or name in OWN:
            raise InputError(f"{name}: no name for an agent; take letters, digits, `.`, `_` and `-`")
        endpoint("--controller", controller)
        if target.exists() or target.is_symlink():
            raise InputError(f"{target}: exists already; give another --out")
        key, certificate = self._signed(name, None)
        head = f"agent: {name}\ncontroller: {controller}\n"
        with storage_errors(target):
            _write(target, head + key + certificate + (self._folder / "authority.pem").read_text())
        with storage_errors(self._folder):
            _write(self._folder / f"{name}.pem", certificate)

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of the controller."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self._folder / "authority.pem")
        context.load_cert_chain(self._folder / "controller.pem")
        return context

    def invited(self) -> list[str]:
        """Return the names of the agents."""
        return sorted(path.stem for path in self._folder.glob("*.pem") if path.stem not in OWN)

    def name_of(self, certificate: bytes) -> str | None:
        """Return the agent that a certificate (DER) belongs to; none: it was removed or replaced."""
        given = hashlib.sha256(certificate).digest()
        for name in self.invited():
            try:
                kept = ssl.PEM_cert_to_DER_cert((self._folder / f"{name}.pem").read_text())
            except (OSError, ValueError):
                continue
            if hashlib.sha256(kept).digest() == given:
                return name
        return None

    def _signed(self, name: str, host: str | None) -> tuple[str, str]:
        key = (self._folder / "authority.key").read_text()
        return native.signed(AUTHORITY, key, name, host, datetime.now(UTC).year + YEARS)


def endpoint(what: str, text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT` or `[ADDRESS]:PORT`.

    Raises:
        InputError: it is none.

    Examples:
        >>> endpoint("--agents", "[::1]:8701"), endpoint("--agents", "lab.example.org:8701")
        (('::1', 8701), ('lab.example.org', 8701))
        >>> endpoint("--agents", "8701")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --agents 8701: no host and port; write HOST:PORT, as 192.0.2.1:8701
    """
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z.-]+)):(\d{1,5})", text)
    if found is None or not 0 < int(found[3]) <= 65_535:
        raise InputError(f"{what} {text}: no host and port", "write HOST:PORT, as 192.0.2.1:8701")
    return found[1] or found[2], int(found[3])


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    temporary.replace(path)
