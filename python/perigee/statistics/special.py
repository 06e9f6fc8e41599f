# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The functions of `scipy.special`, which is imported when the first of them is looked up.

That takes a quarter of a second of processor time, which commands that compute no statistics need not spend.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a function of `scipy.special`.

    Examples:
        >>> from perigee.statistics import special
        >>> round(float(special.ndtri(0.975)), 3)
        1.96
    """
    return getattr(import_module("scipy.special"), name)
