# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The links of the matrix: shipped profiles, with the settings that make them small enough for one machine."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perigee.places import ProfileFile, find_profile
from perigee.toml import setting

GEO = {"down.rate": "20 Mbit/s", "up.rate": "2 Mbit/s", "down.queue": "1.5 MB", "up.queue": "150 kB"}
"""One bandwidth-delay product of queue in each direction, as `geo` has at its own rate."""
SLOTS = {
    # A quarter of the profile's downlink, as its own limits say of speed tests.
    "down.rate.mean": "114 Mbit/s",
    "down.rate.sd": "23 Mbit/s",
    "down.rate.min": "46 Mbit/s",
    "down.rate.max": "182 Mbit/s",
    # Slots change at seconds 12, 27, 42 and 57 of each minute: here after 2 s.
    "link.time_of_day": "36010 s",
}
OUTAGE = {"kind": "periodic", "period": "1 h", "length": "1 s", "phase": "2 s"}
WAYS = ("down", "up")


@dataclass(frozen=True)
class Link:
    """A link of the matrix.

    Attributes:
        name: its name in cells.
        title: what it is, for people.
        profile: the shipped profile.
        settings: what is changed of it, by the keys of `perigee exec --set`.
        size: bytes of the download.
        limit_s: time after which a download is cut.
    """

    name: str
    title: str
    profile: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    size: int = 10_000_000
    limit_s: float = 30.0

    @property
    def file(self) -> ProfileFile:
        """The profile as its file has it."""
        return find_profile(self.profile)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The changes of the profile, as text."""
        return [(key, setting(value, key)) for key, value in self.settings.items()]

    @property
    def options(self) -> list[str]:
        """The options of `perigee exec` for it."""
        return ["--link", self.profile, *(word for key, value in self.pairs for word in ("--set", f"{key}={value}"))]

    @property
    def changes(self) -> dict[str, dict[str, Any]]:
        """The changes by direction, for the link of a study, which takes whole processes only."""
        profile = tomllib.loads(self.file.text)
        found: dict[str, dict[str, Any]] = {way: {} for way in WAYS}
        for key, value in self.settings.items():
            where, process, *within = key.split(".")
            for way in WAYS if where == "link" else (where,):
                if within:
                    given = profile.get(way) or profile["link"]
                    whole = found[way].setdefault(process, dict(given[process]))
                    whole[within[0]] = value
                else:
                    found[way][process] = value
        return {way: changed for way, changed in found.items() if changed}


LINKS = (
    Link("geo", "GEO, 20/2 Mbit/s, 600 ms", "geo", GEO, limit_s=20.0),
    Link("geo-loss", "GEO, 20/2 Mbit/s, 600 ms, 1 % loss", "geo", GEO | {"link.loss": "1 %"}, limit_s=20.0),
    Link(
        "leo-slots",
        "LEO, 114/30 Mbit/s, a change of slots after 2 s",
        "starlink",
        SLOTS,
        size=50_000_000,
    ),
    Link(
        "outage",
        "LEO, 100/20 Mbit/s, 40 ms, an outage of 1 s after 2 s",
        "leo",
        {"link.loss": OUTAGE},
        size=50_000_000,
    ),
    Link("household", "a household behind GEO, 25/3 Mbit/s, 680 ms", "geo-household"),
    Link("viasat2", "Viasat-2 with its gateway's queue", "viasat2"),
    Link("skyplex", "GEO, TDMA on demand from the terminal", "skyplex", size=1_000_000),
    Link("rcs2", "GEO, DVB-RCS2, return carriers on demand", "geo-rcs2"),
    Link("rain", "GEO, Ka band, adaptive modulation in rain", "geo-ka"),
    Link("meo", "MEO, 100 Mbit/s, 140 ms", "meo-o3b", {"link.rate": "100 Mbit/s"}, size=50_000_000),
    Link("oneweb", "LEO at 1,200 km", "oneweb", size=25_000_000),
    Link("vehicle", "a ship or an aeroplane over LEO: portal, Wi-Fi", "moving-terminal", size=25_000_000),
)
FIRST = LINKS[:4]
"""The links of the small matrix."""
BY_NAME = {link.name: link for link in LINKS}
