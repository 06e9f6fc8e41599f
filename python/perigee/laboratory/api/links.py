# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Links and congestion controls: profiles sampled, algorithms with their source, and what the kernel has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perigee.cc import catalog
from perigee.cc.kernel import status
from perigee.errors import InputError, PerigeeError
from perigee.files import MIB, read_bounded
from perigee.laboratory.api.visit import Visit
from perigee.laboratory.link_samples import ORBITS, over_time
from perigee.places import find_profile, headers, profiles
from perigee.standing.running import COMMAND, kept_in

if TYPE_CHECKING:
    from perigee._core import Algorithm

READ_S = 0.1
"""Time for sampling profiles that nobody has looked at yet; the next visitor has those of the others."""


def links(visit: Visit) -> dict[str, Any]:
    """List link profiles, with the titles of their orbits."""
    return {"orbits": ORBITS, "links": visit.laboratory.glances.listed(READ_S)}


def link(visit: Visit) -> dict[str, Any]:
    """Return a profile.

    Raises:
        InputError: there is none of that name.
    """
    return link_of(visit.path["name"])


def link_of(name: str) -> dict[str, Any]:
    """Return a profile with its text, and its rate and delay over a minute.

    Raises:
        InputError: there is none of that name.
    """
    if name not in profiles():
        raise InputError(f"{name}: no profile of that name")
    found = find_profile(name)
    said = {key: str(found.content.get(key, "")) for key in ("title", "source")}
    return {"name": name, **said, "text": found.text, "over_time": over_time(found)}


def algorithms(visit: Visit) -> dict[str, Any]:
    """List congestion controls, what is loaded in this machine's kernel, and whether their standing is known."""
    found = kernel()
    loaded = {one["name"]: "loaded in the kernel" for one in found["loaded"]}
    loaded |= dict.fromkeys(found["others"], "in the kernel")
    known = kept_in(visit.laboratory.place.root) is not None
    return {"kernel": found, "algorithms": [described(one, loaded) for one in catalog.algorithms()], "standing": known}


def standing(visit: Visit) -> dict[str, Any]:
    """Return the standing of the congestion controls.

    Raises:
        InputError: nobody has measured it here.
    """
    found = kept_in(visit.laboratory.place.root)
    if found is None:
        raise InputError(f"there is no standing in this folder; {COMMAND} measures it")
    return found


def algorithm(visit: Visit) -> dict[str, Any]:
    """Return a congestion control with its source.

    Raises:
        InputError: there is none of that name.
    """
    return algorithm_of(visit.path["name"])


def algorithm_of(name: str) -> dict[str, Any]:
    """Return a congestion control with its C file.

    Raises:
        InputError: there is none of that name.
    """
    found = catalog.built_in(name)
    file = headers() / f"{name.replace('-', '_')}.c"
    source = read_bounded(file, MIB, "a congestion control").decode() if file.is_file() else ""
    return {**described(found, {}), "file": file.name, "source": source}


def described(one: Algorithm, loaded: Mapping[str, str]) -> dict[str, Any]:
    """Return what an algorithm says of itself.

    Args:
        one: the algorithm.
        loaded: what to say of those that the kernel has.
    """
    return {
        "name": one.name,
        "title": one.title,
        "loaded": loaded.get(one.name, ""),
        "params": [
            {"name": each.name, "default": each.default, "min": each.min, "max": each.max, "doc": each.doc}
            for each in one.params
        ],
    }


def kernel() -> dict[str, Any]:
    """Return what is loaded in this machine's kernel: `loaded`, `others`, `default`, or `why` it is not known."""
    try:
        found = status()
    except PerigeeError as error:
        return {"why": str(error), "loaded": [], "others": [], "default": ""}
    loaded = [{"name": one["name"], "sockets": len(one["sockets"])} for one in found["loaded"]]
    return {"why": "", "loaded": loaded, "others": found["others"], "default": found["default"]}
