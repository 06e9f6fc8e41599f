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

from importlib import metadata as _metadata

try:
    __version__ = _metadata.version("perigee")
except _metadata.PackageNotFoundError:  # read from a checkout that is not installed
    __version__ = "0.0.0"

__all__ = ["__version__"]
