# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The compiled module as `native`, and its fingerprint.

Raises:
    InputError: it is not built.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from perigee.errors import InputError

try:
    from perigee import _core as native
except ImportError as error:
    raise InputError(
        f"the simulator is not built ({error}); in a checkout run `make setup`, elsewhere reinstall perigee"
    ) from error

__all__ = ["core_fingerprint", "native"]


@functools.cache
def core_fingerprint() -> str:
    """Return the SHA-256 of the compiled module."""
    return hashlib.sha256(Path(native.__file__).read_bytes()).hexdigest()
