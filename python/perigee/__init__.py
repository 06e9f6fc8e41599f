# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Perigee predicts, measures and improves how TCP behaves over satellite links.

The simulator is a compiled module; this package carries studies out on all cores, keeps their results, and turns them
into tables and figures.

Examples:
    >>> import perigee
    >>> perigee.__version__.count(".")
    2
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """Return the version of the installed package; its metadata is slow to read, so nobody waits for it in vain."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata

    try:
        return metadata.version("perigee")
    except metadata.PackageNotFoundError:  # read from a checkout that is not installed
        return "0.0.0"
