# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The pages of links and congestion controls: profiles drawn, algorithms with parameters, and what the kernel has."""

from __future__ import annotations

import hashlib
from typing import Any

from starlette.responses import FileResponse, Response

from perigee import __version__
from perigee.cc import catalog
from perigee.cc.kernel import status
from perigee.errors import InputError, PerigeeError
from perigee.laboratory.pages.visit import Awaited, Visit
from perigee.places import ProfileFile, find_profile, profiles


def links(visit: Visit) -> Response:
    """List link profiles."""
    return visit.page("links.html", profiles=listed())


def algorithms(visit: Visit) -> Response:
    """List congestion controls."""
    return visit.page("algorithms.html", algorithms=described(), kernel=kernel())


def listed() -> list[dict[str, str]]:
    """Return the profiles, each with `name` and `title`."""
    return [{"name": name, "title": said(find_profile(name))["title"]} for name in profiles()]


def described() -> list[dict[str, Any]]:
    """Return the algorithms, each with `name`, `title` and `parameters`."""
    return [
        {
            "name": one.name,
            "title": one.title,
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
