# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Perigee predicts, measures and improves how TCP behaves over satellite links.

The simulator is a compiled module; this package carries studies out on all cores, keeps their results, and turns them
into tables and figures.

Examples:
    >>> import perigee
    >>> study = perigee.Study.load("claypool-2021").set("rounds", 1).set("flow.size", "1 MB")
    >>> with study.vary("flow.cc", ["cubic", "bbr"]).run() as results:
    ...     results.flows.select("point.cc", "completed").rows()
    [('cubic', True), ('bbr', True)]
    >>> perigee.Profile.load("geo").sample(seconds=1.0)["rate_mbps"][0]
    100.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perigee.errors import InputError, NothingToDrawError, PerigeeError, RunError
from perigee.version import __version__

if TYPE_CHECKING:
    from perigee.api.comparison import Comparison
    from perigee.api.names import algorithms, studies
    from perigee.api.profiles import Profile, profiles
    from perigee.api.results import Results, load
    from perigee.api.study import Study, run

__all__ = [
    "Comparison",
    "InputError",
    "NothingToDrawError",
    "PerigeeError",
    "Profile",
    "Results",
    "RunError",
    "Study",
    "__version__",
    "algorithms",
    "load",
    "profiles",
    "run",
    "studies",
]

_FROM = {
    "Comparison": "perigee.api.comparison",
    "Profile": "perigee.api.profiles",
    "Results": "perigee.api.results",
    "Study": "perigee.api.study",
    "algorithms": "perigee.api.names",
    "load": "perigee.api.results",
    "profiles": "perigee.api.profiles",
    "run": "perigee.api.study",
    "studies": "perigee.api.names",
}
"""In which module each name is; a module is imported when its name is first used, since what it needs is slow to."""


def __getattr__(name: str) -> object:
    """Return what the package offers, when it is first asked for."""
    if name in _FROM:
        from importlib import import_module

        found: object = getattr(import_module(_FROM[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names that the package offers, before they are imported too."""
    return sorted(__all__)
