# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Parts of study files, as text."""

from __future__ import annotations

from perigee.toml import inline


def link(name: str, between: str, **keys: object) -> str:
    """A link between two nodes, which are parted by a blank.

    Examples:
        >>> print(link("l", "a b", rate="10 Mbit/s"))
        [[links]]
        name = "l"
        between = ["a", "b"]
        rate = "10 Mbit/s"
        <BLANKLINE>
    """
    return _table("links", {"name": name, "between": between.split(), **keys})


def flow(name: str, way: str, **keys: object) -> str:
    """A flow from one node to another, which are parted by a blank.

    Examples:
        >>> print(flow("f", "a b", size="10 kB", count=2))
        [[flows]]
        name = "f"
        from = "a"
        to = "b"
        size = "10 kB"
        count = 2
        <BLANKLINE>
    """
    start, end = way.split()
    return _table("flows", {"name": name, "from": start, "to": end, **keys})


def _table(kind: str, keys: dict[str, object]) -> str:
    return "".join([f"[[{kind}]]\n", *(f"{key} = {inline(value)}\n" for key, value in keys.items())])
