# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The computed path of a link over satellites, without study and traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perigee.core import native
from perigee.errors import InputError
from perigee.places import ProfileFile

if TYPE_CHECKING:
    from perigee._core import Orbit

DAY_S = 86_400.0
LONGEST_S = 30 * DAY_S
"""Maximum length of a computed path, s."""


def orbit_slots(
    profile: ProfileFile,
    seconds: float,
    time_of_day_s: float = 0.0,
    direction: str = "down",
    settings: Sequence[tuple[str, str]] = (),
) -> Orbit:
    """Return the path of a profile's direction, slot by slot.

    Args:
        profile: a profile whose delay is computed from orbits.
        seconds: length of time; the last slot is complete.
        time_of_day_s: start, seconds since midnight (UTC) of the day of the elements.
        direction: `down` (towards the user) or `up`; they differ in the delay added to propagation.
        settings: keys of the profile with their values as text.

    Raises:
        InputError: a number is out of range, the profile is wrong, or its delay is not computed from orbits.

    Examples:
        >>> from perigee.places import find_profile
        >>> orbit = orbit_slots(find_profile("walker-66"), seconds=60.0, time_of_day_s=12 * 3600)
        >>> orbit.satellites, len(orbit.slots), orbit.slots[0].begin
        (66, 5, '2024-05-01T11:59:57.000')
    """
    if not 0 < seconds <= LONGEST_S:
        raise InputError(f"{seconds:g} s: give more than zero, and {LONGEST_S / DAY_S:g} days at the most")
    if not 0 <= time_of_day_s <= DAY_S:
        raise InputError(f"{time_of_day_s:g} s: no time of day; give one from 0 to {DAY_S:g} s")
    if direction not in ("down", "up"):
        raise InputError(f'direction "{direction}": give "down" or "up"')
    search = [str(folder) for folder in profile.search]
    source = (profile.text, str(profile.path))
    times = (round(time_of_day_s * 1e9), round(seconds * 1e9))
    return native.orbit_slots(source, list(settings), search, direction, *times)
