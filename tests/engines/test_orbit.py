# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Computed paths over satellites, compared with Python's `sgp4` and `skyfield`, and the command `perigee orbit`."""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from conftest import ROOT, SMALL_STUDY, Perigee
from perigee import load
from perigee.core import native
from perigee.engines.links.orbits import orbit_slots
from perigee.places import find_profile
from study_text import flow, link

ELEMENTS = ROOT / "profiles" / "walker-66.tle"
DAY_NS = 86_400_000_000_000
PLACE = (50.47, 4.87, 100.0)
LIGHT_KM_S = 299_792.458

Floats = NDArray[np.float64]


def nanos(text: str) -> int:
    """Nanoseconds since 1970 of an instant of UTC."""
    at = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    return (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1) * 1000


MIDNIGHT = nanos("2024-05-01T00:00:00")


def julian(instants: Sequence[int]) -> tuple[Floats, Floats]:
    """Julian dates in two parts: midnights, and what has passed of the day."""
    ns = np.array(instants, dtype=np.int64)
    days, rest = np.divmod(ns, DAY_NS)
    return 2440587.5 + days.astype(float), rest / DAY_NS


def others_places(text: str, instants: Sequence[int]) -> dict[str, Floats]:
    """The places in TEME, km, of each satellite of a TLE file at each instant, after Python's `sgp4`."""
    api = pytest.importorskip("sgp4.api", reason="the package sgp4 is not installed")
    lines = text.splitlines()
    whole, part = julian(instants)
    places = {}
    for name, first, second in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        errors, position, _ = api.Satrec.twoline2rv(first, second).sgp4_array(whole, part)
        assert not errors.any(), name
        places[name] = position
    return places


def ground_in_teme(lat_deg: float, lon_deg: float, alt_m: float, instants: Sequence[int]) -> tuple[Floats, Floats]:
    """A place on skyfield's ellipsoid and its direction upwards, in TEME by skyfield's sidereal time of 1982."""
    toposlib = pytest.importorskip("skyfield.toposlib", reason="the package skyfield is not installed")
    from skyfield.sgp4lib import theta_GMST1982

    ground, above = (
        toposlib.wgs84.latlon(lat_deg, lon_deg, elevation_m=height).itrs_xyz.km for height in (alt_m, alt_m + 1000.0)
    )
    whole, part = julian(instants)
    theta, _ = theta_GMST1982(whole, part)
    sin, cos = np.sin(theta), np.cos(theta)

    def turned(x: float, y: float, z: float) -> Floats:
        return np.stack([cos * x - sin * y, sin * x + cos * y, np.full_like(sin, z)], axis=1)

    return turned(*ground), turned(*(above - ground))


def test_positions_are_those_of_sgp4_and_ranges_those_of_skyfields_earth_within_a_metre_for_a_day() -> None:
    instants = [MIDNIGHT + minute * 60 * 10**9 for minute in range(0, 24 * 60 + 1, 3)]
    others = others_places(ELEMENTS.read_text(), instants)
    ground, up = ground_in_teme(*PLACE, instants)
    ours = native.orbit_places(ELEMENTS.read_bytes(), PLACE, instants)
    assert [name for name, _ in ours] == list(others)
    for name, places in ours:
        assert all(place is not None for place in places)
        found = [place for place in places if place is not None]
        position = np.array([place[0] for place in found])
        assert np.linalg.norm(position - others[name], axis=1).max() < 1e-3, name
        line = others[name] - ground
        distance = np.linalg.norm(line, axis=1)
        assert np.abs(np.array([place[3] for place in found]) - distance).max() < 1e-3, name
        elevation = np.degrees(np.arcsin((line * up).sum(axis=1) / distance))
        assert np.abs(np.array([place[1] for place in found]) - elevation).max() < 1e-5, name


def test_real_elements_with_drag_are_moved_as_by_sgp4_in_each_format() -> None:
    """The ISS in 2020, whose elements have drag and eccentricity."""
    api = pytest.importorskip("sgp4.api", reason="the package sgp4 is not installed")
    from sgp4 import exporter

    lines = (
        "1 25544U 98067A   20194.88612269 -.00002218  00000-0 -31515-4 0  9992",
        "2 25544  51.6461 221.2784 0001413  89.1723 280.4612 15.49507896236008",
    )
    satellite = api.Satrec.twoline2rv(*lines)
    record = exporter.export_omm(satellite, "ISS (ZARYA)")
    message = {key: str(value) for key, value in record.items()}
    key_values = "CCSDS_OMM_VERS = 2.0\n" + "".join(f"{key} = {value}\n" for key, value in message.items())
    tags = "".join(f"<{key}>{value}</{key}>\n" for key, value in message.items())
    formats = ("\n".join(lines), json.dumps([message]), key_values, f"<ndm><omm>{tags}</omm></ndm>")
    begin = nanos("2020-07-12T21:16:00")
    instants = [begin + minute * 60 * 10**9 for minute in range(0, 24 * 60, 10)]
    errors, position, _ = satellite.sgp4_array(*julian(instants))
    assert not errors.any()
    for text in formats:
        [(_, places)] = native.orbit_places(text.encode(), PLACE, instants)
        found = np.array([place[0] for place in places if place is not None])
        assert found.shape == position.shape
        assert np.linalg.norm(found - position, axis=1).max() < 1e-3, text[:40]


def test_the_delay_of_a_day_is_that_of_light_over_the_satellites_within_ten_ns_per_hop() -> None:
    orbit = orbit_slots(find_profile("walker-66"), 86_400)
    slots = [slot for slot in orbit.slots if slot.delay_ms is not None]
    assert len(orbit.slots) == 5761
    assert len(slots) > 5000
    extra_ms = 5.0
    begins = [nanos(slot.begin) for slot in slots]
    gateways = {name: (lat, lon, 0.0) for name, lat, lon in orbit.gateways}
    for part in range(3):
        instants = [begin + part * 7_500_000_000 for begin in begins]
        places = others_places(ELEMENTS.read_text(), instants)
        user, up = ground_in_teme(*PLACE, instants)
        ends = {name: ground_in_teme(*place, instants) for name, place in gateways.items()}
        for i, slot in enumerate(slots):
            [name] = slot.path
            place = places[name][i]
            gateway, gateway_up = ends[slot.gateway or ""]
            lines = (place - user[i], place - gateway[i])
            lengths = [float(np.linalg.norm(line)) for line in lines]
            assert slot.delay_ms is not None
            light_ms = sum(lengths) / LIGHT_KM_S * 1e3
            assert slot.delay_ms[part] - extra_ms == pytest.approx(light_ms, abs=2 * 10e-6), slot.begin
            if part != 1:
                sines = [
                    line @ above / length
                    for line, above, length in zip(lines, (up[i], gateway_up[i]), lengths, strict=True)
                ]
                assert min(np.degrees(np.arcsin(sines))) > 8.0 - 1e-5, "both ends see it as the slot begins and ends"


def test_the_file_of_elements_is_what_its_tool_writes_and_generated_satellites_take_the_same_paths(
    tmp_path: Path,
) -> None:
    again = tmp_path / "again.tle"
    subprocess.run([sys.executable, str(ROOT / "tools" / "walker.py"), "-o", str(again)], check=True)
    assert again.read_bytes() == ELEMENTS.read_bytes()
    text = (ROOT / "profiles" / "walker-66.toml").read_text()
    shell = "{ altitude_km = 780, inclination_deg = 86.4, planes = 6, satellites = 11, phasing = 3, pattern = 'star' }"
    generated = tmp_path / "generated.toml"
    generated.write_text(
        text.replace('elements = "walker-66.tle"', f"constellation = {shell}").replace("walker-66", "generated")
    )
    from_file = orbit_slots(find_profile("walker-66"), 3 * 3600).slots
    from_shell = orbit_slots(find_profile(str(generated)), 3 * 3600).slots
    same = 0
    for one, other in zip(from_file, from_shell, strict=True):
        if (
            one.delay_ms is None
            or other.delay_ms is None
            or one.path[0] != f"WALKER {other.path[0].removeprefix('S1-P')}"
        ):
            continue
        same += 1
        # The file has angles to 1e-4 degrees, which is 6 m on each axis.
        assert one.delay_ms == pytest.approx(other.delay_ms, abs=2e-4)
    assert same > 0.95 * sum(one.delay_ms is not None for one in from_file)


@pytest.mark.parametrize("name", ["starlink-orbit", "oneweb-orbit", "kuiper-like"])
def test_both_directions_of_a_profile_have_the_same_orbits(name: str) -> None:
    profile = tomllib.loads((ROOT / "profiles" / f"{name}.toml").read_text())
    assert profile["down"]["delay"] == profile["up"]["delay"]


def test_the_rates_and_losses_beside_the_orbits_are_those_of_starlink_2022() -> None:
    orbit, slots = (
        tomllib.loads((ROOT / "profiles" / f"{name}.toml").read_text())
        for name in ("starlink-orbit", "starlink-thesis-2022")
    )
    for direction in ("down", "up"):
        for key in ("rate", "loss", "queue"):
            assert orbit[direction][key] == slots[direction][key]
        assert orbit[direction]["delay"]["spikes"] == slots[direction]["delay"]["spikes"]
    # `extra` is calibrated: the mean of a day is the mean of its slots.
    computed = orbit_slots(find_profile("starlink-orbit"), 86_400)
    assert computed.satellites == 4408
    middles = [slot.delay_ms[1] for slot in computed.slots if slot.delay_ms is not None]
    assert len(middles) > 0.99 * len(computed.slots)
    assert np.mean(middles) == pytest.approx(float(slots["down"]["delay"]["mean"].removesuffix(" ms")), abs=0.1)


def test_no_crate_lets_sgp4_compute_with_the_functions_of_the_platform() -> None:
    cargo = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))
    if cargo is None:
        pytest.skip("there is no cargo here")
    command = [
        "tree",
        "--offline",
        "-p",
        "perigee-py",
        "-e",
        "normal",
        "-i",
        "num-traits",
        "--depth",
        "0",
        "-f",
        "{p} {f}",
    ]
    environment = {**os.environ, "CARGO_TERM_COLOR": "never"}
    done = subprocess.run([cargo, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cargo cannot list the crates: {done.stderr.splitlines()[-1:]}")
    features = done.stdout.split()[-1].split(",")
    assert "libm" in features
    assert "std" not in features


def test_the_slots_are_shown_as_a_table_as_csv_and_as_json(perigee: Perigee) -> None:
    shown = perigee("orbit", "show", "walker-66", "--at", "12 h", "--for", "1 min")
    assert "2024-05-01 11:59:57" in shown.stdout
    assert "66 satellites, 5 slots" in shown.stdout
    rows = list(csv.DictReader(io.StringIO(perigee("orbit", "show", "walker-66", "--at", "12 h", "--csv").stdout)))
    assert len(rows) == 21
    found = json.loads(perigee("orbit", "show", "walker-66", "--at", "12 h", "--json").stdout)
    assert found["satellites"] == 66
    assert [slot["begin"] for slot in found["slots"]] == [row["begin"] for row in rows]
    for slot, row in zip(found["slots"], rows, strict=True):
        assert len(slot["visible"]) == int(row["visible"])
        if slot["path"]:
            assert slot["path"] == [row["path"]] or " ".join(slot["path"]) == row["path"]
            assert float(row["delay_ms"]) - 5.0 == pytest.approx(float(row["light_ms"]), abs=1e-5)
            serving = next(one for one in slot["visible"] if one["satellite"] == slot["path"][0])
            assert serving["elevation_deg"] == pytest.approx(float(row["elevation_deg"]), abs=0.01)


def test_the_sky_and_the_delay_are_drawn(perigee: Perigee, tmp_path: Path) -> None:
    out = tmp_path / "sky.svg"
    perigee("orbit", "draw", "walker-66", "--for", "3 h", "--out", str(out))
    text = out.read_text()
    assert "<svg" in text
    assert len(text) > 20_000


def with_delay(folder: Path, **keys: str) -> str:
    """Writes a profile like walker-66 with other keys of its delay; returns its file."""
    lines = []
    for line in (ROOT / "profiles" / "walker-66.toml").read_text().splitlines():
        key = line.split(" = ")[0]
        lines.append(f"{key} = {keys.pop(key)}" if key in keys else line)
    lines += [f"{key} = {value}" for key, value in keys.items()]
    (folder / "walker-66.tle").write_bytes(ELEMENTS.read_bytes())
    file = folder / "mine.toml"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def refused(perigee: Perigee, *arguments: str) -> str:
    """The error of `perigee orbit show`, in one line."""
    done = perigee("orbit", "show", *arguments)
    assert done.returncode == 2, done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"period": '"14 s"'}, "mine.toml:20: slots of 14 s do not divide a minute; use one that does"),
        ({"elements": '"none.tle"'}, "mine.toml:13: cannot read `none.tle`: there is no such file"),
        ({"user": "{ lat_deg = 91, lon_deg = 0 }"}, "`down.delay.user.lat_deg` = 91 is out of range"),
        ({"elements": '""'}, "mine.toml:13: `down.delay.elements` names no recording"),
        ({"date": '"2024-02-30"'}, "`down.delay.date` = `2024-02-30` is no day"),
        (
            {"gateways": "{ lat_deg = -50, lon_deg = -175 }"},
            "`down.delay.gateways`: no satellite ever is in view of the user and of a gateway; add a gateway nearer",
        ),
    ],
    ids=["period", "file", "latitude", "empty", "date", "gateway"],
)
def test_a_mistake_is_reported_with_its_line_and_fix(
    perigee: Perigee, tmp_path: Path, keys: dict[str, str], says: str
) -> None:
    if "gateways" in keys:
        file = Path(with_delay(tmp_path))
        text = file.read_text()
        begin, end = text.index("gateways = ["), text.index("]\n", text.index("gateways")) + 2
        file.write_text(text[:begin] + f"gateways = {keys['gateways']}\n" + text[end:])
    else:
        file = Path(with_delay(tmp_path, **keys))
    assert says in refused(perigee, str(file))


def test_a_user_whom_no_satellite_sees_and_a_profile_without_orbits_are_errors(perigee: Perigee) -> None:
    unseen = refused(perigee, "kuiper-like", "--set", "link.delay.user.lat_deg=75")
    assert "no satellite ever rises to 35 degrees at latitude 75" in unseen
    assert "`down.delay` is not computed from orbits; name a profile" in refused(perigee, "geo")


def test_old_elements_are_warned_about_with_the_error_they_imply(perigee: Perigee, tmp_path: Path) -> None:
    month = perigee("orbit", "show", with_delay(tmp_path, date='"2024-06-01"'))
    assert "up to 31 days away from 2024-06-01" in " ".join(month.stderr.split())
    assert "may be 93 km (0.31 ms)" in " ".join(month.stderr.split())
    study = tmp_path / "s.toml"
    study.write_text(SMALL_STUDY.replace('rate = "10 Mbit/s"\ndelay = "1 ms"', 'profile = "./mine.toml"'))
    run = ("run", study, "--out", tmp_path / "out")
    for command in (run, (*run, "--dry-run"), ("studies", "show", study)):
        done = perigee(*command)
        said = " ".join(done.stderr.split())
        assert said.count("warning") == 1, said
        assert "warning: links l.down, l.up: the elements of 66 of 66 satellites are up to 31 days away" in said
    years = perigee("orbit", "show", with_delay(tmp_path, date='"2027-06-01"'))
    assert "may be anywhere on their orbits" in " ".join(years.stderr.split())


GAPS = (
    """
name = "gaps"
nodes = ["server", "gateway", "client"]
time_limit = "10 min"

"""
    + link("leo", "server client", profile="walker-66", time_of_day="0 h")
    + link("first", "server gateway", rate="10 Mbit/s", delay="100 ms")
    + link("second", "gateway client", rate="10 Mbit/s", delay="100 ms")
    + """
[[routes]]
node = "server"
to = "client"
via = "first"
while_dark = "leo"
detect = "0 s"
restore = "0 s"

"""
    + flow("ping", "server client", kind="ping", start="500 ms", interval="1 s", packet="84 B", repeat=500)
)


def test_slots_without_a_path_are_warned_about_and_a_route_sees_them(perigee: Perigee, tmp_path: Path) -> None:
    slots = orbit_slots(find_profile("walker-66"), 500.0).slots
    without = sum(not slot.path for slot in slots)
    assert 0 < without < len(slots)
    (tmp_path / "gaps.toml").write_text(GAPS)
    # Pings only: the way back stays on the link.
    lost = {}
    for name, start in {"seen": "0 s", "unseen": "9 min"}.items():
        done = perigee("run", "gaps.toml", "--out", name, "--set", f"route.start={start}")
        assert done.returncode == 0, done.stderr
        said = f"in view of user and gateway in {without} of {len(slots)} slots"
        assert f"warning: links leo.down, leo.up: no satellite is {said}" in done.stderr
        links = load(tmp_path / name).links.filter(pl.col("link") == "leo.down")
        lost[name] = links["lost_packets"].sum()
    assert lost == {"seen": 0, "unseen": 15 * without}
    near = perigee("run", "gaps.toml", "--dry-run", "--set", "flow.repeat=10")
    assert (near.returncode, "no satellite is" in near.stderr) == (0, False)
