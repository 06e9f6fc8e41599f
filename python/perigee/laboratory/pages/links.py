# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The pages of links and congestion controls: profiles drawn, algorithms with parameters, and what the kernel has."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from starlette.responses import FileResponse, Response

from perigee.cc import catalog
from perigee.cc.kernel import status
from perigee.errors import InputError, PerigeeError
from perigee.laboratory.link_pictures import ORBITS, Pictures, unsampled
from perigee.laboratory.pages.visit import Awaited, Visit
from perigee.laboratory.window_curves import LINK
from perigee.places import ProfileFile, find_profile, profiles
from perigee.version import __version__

READ_S = 0.1
"""Time for sampling profiles that nobody has looked at yet; the next visitor has the pictures of the others."""


def links(visit: Visit) -> Response:
    """List link profiles by orbit."""
    return visit.page("links.html", orbits=ORBITS, profiles=listed(visit.laboratory.pictures, READ_S))


def algorithms(visit: Visit) -> Response:
    """List congestion controls."""
    found = kernel()
    loaded = {one["name"]: "loaded in the kernel" for one in found["loaded"]}
    loaded |= dict.fromkeys(found["others"], "in the kernel")
    curves = visit.laboratory.windows
    return visit.page("algorithms.html", algorithms=described(curves, loaded), kernel=found, link=LINK)


def listed(pictures: Pictures, for_s: float = math.inf) -> list[dict[str, Any]]:
    """Return the profiles, each with `name`, `title` and `picture`; those not sampled in time have an orbit at most."""
    until = time.monotonic() + for_s
    found = []
    for name, path in profiles().items():
        profile, title = _read(name, path.stat().st_mtime_ns)
        is_shown = pictures.knows(profile) or time.monotonic() < until
        picture = pictures.of(profile) if is_shown else unsampled(profile)
        found.append({"name": name, "title": title, "picture": picture})
    return found


@lru_cache(maxsize=200)
def _read(name: str, _written_ns: int) -> tuple[ProfileFile, str]:
    """Read a profile with its title, once for each time that it was written."""
    profile = find_profile(name)
    return profile, said(profile)["title"]


def described(curves: Mapping[str, str], loaded: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the algorithms.

    Args:
        curves: the window of each, see `window_curves`.
        loaded: what to say of those that the kernel has.
    """
    return [
        {
            "name": one.name,
            "title": one.title,
            "curve": curves.get(one.name, ""),
            "loaded": loaded.get(one.name, ""),
            "parameters": [
                {"name": each.name, "default": each.default, "least": each.min, "most": each.max, "text": each.doc}
                for each in one.params
            ],
        }
        for one in catalog.algorithms()
    ]


def kernel() -> dict[str, Any]:
    """Return what is loaded in this machine's kernel: `loaded`, `others`, `default`, or `why` it is not known."""
    try:
        found = status()
    except PerigeeError as error:
        return {"why": str(error), "loaded": [], "others": [], "default": ""}
    return {"why": "", "loaded": found["loaded"], "others": found["others"], "default": found["default"]}


def link(visit: Visit) -> Response:
    """Show a profile."""
    found = _profile(visit.path["name"])
    return visit.page("link.html", name=visit.path["name"], text=found.text, drawn=True, about=said(found))


def said(profile: ProfileFile) -> dict[str, str]:
    """Return what a profile says of itself: `title` and `source`."""
    return {key: str(profile.content.get(key, "")) for key in ("title", "source")}


def drawing(visit: Visit) -> Response | Awaited:
    """Return a profile drawn; each is drawn once."""
    name = visit.path["name"]
    key = hashlib.sha256(f"{__version__}\n{_profile(name).text}".encode()).hexdigest()[:16]
    path = visit.laboratory.place.private / "drawn" / f"{name}-{key}.png"

    def drawn() -> Response:
        return FileResponse(path, media_type="image/png")

    if path.is_file():
        return drawn()
    path.parent.mkdir(exist_ok=True)
    return Awaited(visit.laboratory.drawings, ("profiles", "draw", name, "--out", str(path)), drawn)


def _profile(name: str) -> ProfileFile:
    if name not in profiles():
        raise InputError(f"{name}: no profile of that name")
    return find_profile(name)
