# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Names of studies and congestion controls, and errors in the words of Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from perigee import places
from perigee.errors import InputError

OPTION = re.compile(r"--(set|vary|also) ")
PARAMETER = re.compile(r"--(x|y|hue|facet|metric|figure)\b ?")
NAMES = {"metric": "y", "figure": "kind"}
"""Parameters of `Results.plot` that have other names than the options of `perigee report`."""


def studies() -> dict[str, str]:
    """Return the studies that can be loaded by name, each with its title.

    Examples:
        >>> studies()["gallery"]
        'Every congestion control on four links'
    """
    return {name: places.find_study(str(path)).head("title") for name, path in sorted(places.studies().items())}


def algorithms() -> dict[str, str]:
    """Return the congestion controls that come with Perigee, each with its title.

    Examples:
        >>> algorithms()["hybla"]
        'Hybla, Caini and Firrincieli 2004'
    """
    from perigee.cc import catalog

    return {one.name: one.title for one in catalog.algorithms()}


@contextmanager
def python_words() -> Iterator[None]:
    """Raise errors within the block that name options of the command line with the words of Python in their place.

    Examples:
        >>> with python_words():
        ...     raise InputError("--x los: does not vary", "give --metric rtt_mean_ms")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: x=los: does not vary; give y=rtt_mean_ms
    """
    try:
        yield
    except InputError as error:
        text = PARAMETER.sub(lambda found: f"{NAMES.get(found[1], found[1])}=", OPTION.sub("", str(error)))
        if text == str(error):
            raise
        raise type(error)(text) from None
