#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes the two-line elements of a Walker constellation.

`walker.py -o profiles/walker-66.tle` writes those of the profile `walker-66`: 66 satellites at 780 km in six near-polar
planes. Other patterns: `walker.py --help`.
"""

from __future__ import annotations

import argparse
import datetime
import math
from collections.abc import Iterator
from pathlib import Path

GRAVITY_KM3_S2 = 398600.8
"""Constant of WGS72, the model of two-line elements."""
EQUATOR_KM = 6378.137


def elements(
    planes: int,
    satellites: int,
    altitude_km: float,
    inclination_deg: float,
    phasing: float,
    star: bool,
    day: datetime.date,
) -> Iterator[str]:
    """Return name and both lines of each satellite; its elements are of the begin of the day."""
    axis = EQUATOR_KM + altitude_km
    motion = math.sqrt(GRAVITY_KM3_S2 / axis**3) * 86400 / (2 * math.pi)
    epoch = f"{day.year % 100:02d}{day.timetuple().tm_yday:03d}.00000000"
    for plane in range(planes):
        raan = (180.0 if star else 360.0) * plane / planes
        for number in range(satellites):
            anomaly = 360.0 * (number + plane * phasing / planes) / satellites % 360.0
            catalogue = 1 + plane * satellites + number
            yield f"WALKER {plane + 1}-{number + 1}"
            yield _checked(f"1 {catalogue:05d}U 24001A   {epoch}  .00000000  00000-0  00000-0 0  999")
            angles = f"{inclination_deg:8.4f} {raan:8.4f} 0000000   0.0000 {anomaly:8.4f}"
            yield _checked(f"2 {catalogue:05d} {angles} {motion:11.8f}    0")


def _checked(line: str) -> str:
    """Return a line with its checksum: the digits, and one for each minus."""
    return f"{line}{sum(int(c) if c.isdigit() else c == '-' for c in line) % 10}"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--out", type=Path, required=True, help="the file")
    parser.add_argument("--planes", type=int, default=6)
    parser.add_argument("--satellites", type=int, default=11, help="per plane")
    parser.add_argument("--altitude", type=float, default=780.0, help="km")
    parser.add_argument("--inclination", type=float, default=86.4, help="degrees")
    parser.add_argument("--phasing", type=float, default=3.0, help="of 360 degrees / (planes x satellites), per plane")
    parser.add_argument("--delta", action="store_true", help="planes over all directions, instead of half of them")
    parser.add_argument("--day", type=datetime.date.fromisoformat, default=datetime.date(2024, 5, 1))
    given = parser.parse_args()
    lines = elements(
        given.planes, given.satellites, given.altitude, given.inclination, given.phasing, not given.delta, given.day
    )
    given.out.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
