# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee fit --recording` recovers a known link with slots from a recording of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import polars as pl
import pytest

from conftest import recording
from perigee.engines.links.sampling import sample_profile
from perigee.errors import InputError
from perigee.fitting.recording import Recording, read_recording
from perigee.fitting.resemblance import as_recorded, distance, repeats, replayed, round_trips, sampled
from perigee.fitting.slots import Grants, Slotted, fit_slots
from perigee.fitting.slotted import SlottedProfile
from perigee.places import ProfileFile, find_profile

Perigee = Callable[..., CompletedProcess[str]]

SECONDS = 600.0
OUTAGE = '{ length = { median = "90 ms", sigma = 0.3, max = "300 ms" }, rise = "200 ms", both = true }'
SPIKES = (
    '{ after = { median = "40 ms", sigma = 0.3, max = "200 ms" }, length = { median = "100 ms", sigma = 0.3, '
    'max = "300 ms" }, height = { median = "40 ms", sigma = 0.3, max = "90 ms" }, begin = "60 %", peak = "50 %", '
    "with_outage = true }"
)
KNOWN = f"""\
name = "known"
title = "A link with slots of known make"
source = "a test"
[link]
time_of_day = "43210 s"
queue = "10 MB"
[link.rate]
kind = "slots"
mean = "60 Mbit/s"
sd = "9 Mbit/s"
min = "20 Mbit/s"
max = "100 Mbit/s"
ripple = "20 %"
grants = {{ every = "8 ms", burst = "2 ms" }}
outage = {OUTAGE}
[link.delay]
kind = "slots"
mean = "20 ms"
sd = "2 ms"
min = "10 ms"
max = "30 ms"
jitter = {{ body = {{ kind = "normal", sd = "1.5 ms" }}, every = "10 ms", memory = "15 ms", floor = "9 ms" }}
spikes = {SPIKES}
"""


def recorded(profile: ProfileFile, folder: Path, seconds: float = SECONDS) -> Recording:
    """Record the downlink of a profile."""
    down = pl.col("direction") == "down"
    rates = sample_profile(profile, seconds, 0.001).filter(down)["rate_mbps"].to_numpy()
    sent = np.floor(np.cumsum(rates) / 12 + 1e-6).astype(int)
    counts = np.diff(sent, prepend=0)
    instants = np.repeat(np.arange(1, len(counts) + 1), counts)
    quick = sample_profile(profile, seconds, 0.01, settings=(("link.rate", "10 Gbit/s"),)).filter(down)["delay_ms"]
    files = folder / "bw.txt", folder / "delay.txt"
    for file, values in zip(files, (instants, quick.round(0).cast(int).to_numpy()), strict=True):
        file.write_text("".join(f"{value}\n" for value in values))
    return read_recording(*files)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[ProfileFile, Recording, Slotted]:
    folder = tmp_path_factory.mktemp("known")
    (folder / "known.toml").write_text(KNOWN)
    profile = find_profile(str(folder / "known.toml"))
    found = recorded(profile, folder)
    return profile, found, fit_slots(found)


def test_the_slots_bursts_outages_and_spikes_of_a_known_link_are_given_back(
    known: tuple[ProfileFile, Recording, Slotted],
) -> None:
    slotted = known[2]
    assert slotted.grants is not None
    assert slotted.outage_ms is not None
    assert slotted.spikes is not None
    # A run begins 13 s after the begin of a slot; whole milliseconds lengthen the gap of an outage.
    assert slotted.slots == 40
    assert slotted.first_ms == pytest.approx(2_000, abs=10)
    assert slotted.rate_mbps == pytest.approx(60, rel=0.07)
    assert slotted.rate_sd == pytest.approx(0.15, rel=0.35)
    assert slotted.ripple == pytest.approx(0.2, rel=0.1)
    assert slotted.grants.every_ms == pytest.approx(8, rel=0.05)
    assert slotted.grants.burst_ms == pytest.approx(2, abs=0.6)
    assert slotted.outage_ms.median == pytest.approx(90, rel=0.15)
    assert slotted.outage_ms.sigma == pytest.approx(0.3, rel=0.35)
    assert slotted.rise_ms == pytest.approx(200, rel=0.25)
    assert slotted.delay_ms == pytest.approx(20, abs=1)
    assert slotted.delay_sd_ms == pytest.approx(2, rel=0.35)
    assert slotted.jitter_sd_ms == pytest.approx(1.5, rel=0.05)
    assert slotted.jitter_memory_ms == pytest.approx(15, rel=0.2)
    spikes = slotted.spikes
    assert spikes.share > 0.95
    assert spikes.height_ms.median == pytest.approx(40, rel=0.1)
    assert spikes.after_ms.median == pytest.approx(40, rel=0.15)
    assert spikes.length_ms.median == pytest.approx(100, rel=0.15)
    assert spikes.peak == pytest.approx(0.5, abs=0.1)
    assert spikes.begin == pytest.approx(0.6, abs=0.1)
    assert spikes.follow_outages


def test_the_fitted_link_has_the_round_trips_of_the_known_one(
    known: tuple[ProfileFile, Recording, Slotted], tmp_path: Path
) -> None:
    _, found, slotted = known
    (tmp_path / "fitted.toml").write_text(SlottedProfile("fitted", found, slotted).text)
    trips = round_trips(replayed(found))
    fitted = [round_trips(run) for run in sampled(find_profile(str(tmp_path / "fitted.toml")), as_recorded(slotted))]
    assert distance(trips, np.concatenate(fitted)) < 0.08
    assert repeats(fitted, 15.0) == pytest.approx(repeats([trips], 15.0), abs=0.1)


def test_bursts_alone_have_this_standard_deviation() -> None:
    rng = np.random.default_rng(1)
    grants = Grants(8.0, 2.0)
    begins = 8.0 * np.arange(200_000) + rng.uniform(0, 6.0, 200_000)
    edges = np.arange(0, 8.0 * 199_000, 20.0) + rng.uniform(0, 8.0)
    after = np.searchsorted(begins, edges, side="right") - 1
    sent = 2.0 * after + np.clip(edges - begins[after], 0, 2.0)
    work = np.diff(sent[after >= 0])
    assert grants.sd(20.0) == pytest.approx(work.std() / work.mean(), rel=0.02)


def test_a_continuous_link_without_outages_and_spikes_has_none_of_them(tmp_path: Path) -> None:
    text = KNOWN.replace('grants = { every = "8 ms", burst = "2 ms" }\n', "").replace(f"outage = {OUTAGE}\n", "")
    (tmp_path / "plain.toml").write_text(text.replace(f"spikes = {SPIKES}\n", ""))
    found = recorded(find_profile(str(tmp_path / "plain.toml")), tmp_path, seconds=300.0)
    slotted = fit_slots(found)
    assert (slotted.grants, slotted.outage_ms, slotted.spikes, slotted.rise_ms) == (None, None, None, 0.0)
    assert slotted.ripple == pytest.approx(0.2, rel=0.05)
    assert "outage" not in SlottedProfile("plain", found, slotted).text


@pytest.mark.parametrize("fitted", [False, True])
def test_round_trips_of_the_profile_are_those_of_the_recording(fitted: bool, tmp_path: Path) -> None:
    found = read_recording(*recording())
    slotted = fit_slots(found)
    name = "starlink-2022"
    if fitted:
        name = str(tmp_path / "fitted.toml")
        Path(name).write_text(SlottedProfile("fitted", found, slotted).text)
    trips = round_trips(replayed(found))
    runs = [round_trips(run) for run in sampled(find_profile(name), as_recorded(slotted))]
    assert distance(trips, np.concatenate(runs)) <= 0.15
    assert repeats(runs, 15.0) == pytest.approx(repeats([trips], 15.0), abs=0.1)


def test_the_command_writes_a_profile_with_the_source_of_each_number(
    perigee: Perigee, known: tuple[ProfileFile, Recording, Slotted], tmp_path: Path
) -> None:
    found = known[1]
    done = perigee("fit", "--recording", str(found.bw), str(found.delay), "--up", "6 Mbit/s", "-o", "mine.toml")
    assert done.returncode == 0, done.stderr
    assert "Kolmogorov-Smirnov distance" in done.stdout
    assert 'not measured: down.loss = "0 %"' in done.stderr
    text = (tmp_path / "mine.toml").read_text()
    assert "# Given with --up.\nmean = " in text
    assert text.count("# bw.txt: ") > 6
    again = perigee("fit", "--recording", str(found.bw), str(found.delay), "--ping", "a.csv", "-o", "other.toml")
    assert (again.returncode, "--ping: --recording stands beside it" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    ("bw", "delay", "said"),
    [
        ("", "10\n", "bw: empty; it has a line per opportunity"),
        ("1\n2\n", "", "delay: empty"),
        ("1\nx\n", "10\n", "bw:2: 'x' is not a number of milliseconds"),
        ("1\n-2\n", "10\n", "bw:2: '-2' is not a number"),
        ("1\n2\n", "10\n1.5\n", "delay:2: '1.5' is not a number"),
        ("1\n5\n4\n", "10\n", "bw:3: 4 ms comes after 5 ms; sort the lines"),
        ("1\n59000\n", "10\n" * 6000, "59 s are in both; record 60 s or more"),
        ("1\n90000\n", "10\n" * 100, "1 s are in both"),
    ],
)
def test_a_recording_that_is_wrong_is_answered_with_its_line_and_the_fix(
    bw: str, delay: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "bw").write_text(bw)
    (tmp_path / "delay").write_text(delay)
    with pytest.raises(InputError) as caught:
        read_recording(tmp_path / "bw", tmp_path / "delay")
    assert said in str(caught.value)


def test_a_recording_of_a_link_that_was_down_for_a_slot_is_refused_and_a_constant_one_has_no_deviation(
    tmp_path: Path,
) -> None:
    (tmp_path / "delay").write_text("10\n" * 9000)
    up = [*range(1, 20_001), *range(60_001, 90_001)]
    for name, instants in (("down", up), ("constant", range(1, 90_001))):
        (tmp_path / name).write_text("".join(f"{instant}\n" for instant in instants))
    with pytest.raises(InputError, match=r"down: nothing can be sent from 30\.44 to 44\.64 s; leave out the time"):
        fit_slots(read_recording(tmp_path / "down", tmp_path / "delay"))
    found = read_recording(tmp_path / "constant", tmp_path / "delay")
    slotted = fit_slots(found)
    assert slotted.rate_mbps == pytest.approx(12.0)
    assert [slotted.rate_sd, slotted.ripple, slotted.delay_sd_ms, slotted.jitter_sd_ms] == pytest.approx([0] * 4)
    (tmp_path / "fitted.toml").write_text(SlottedProfile("fitted", found, slotted).text)
    sample = sample_profile(find_profile(str(tmp_path / "fitted.toml")), 100.0, 1.0)
    assert sample["rate_mbps"].unique().to_list() == [12.0]
    assert sample["delay_ms"].round(0).unique().to_list() == [10.0]


def test_a_recording_that_is_not_there_is_answered_with_exit_code_2(perigee: Perigee) -> None:
    done = perigee("fit", "--recording", "none.txt", "none.txt", "-o", "a.toml")
    assert (done.returncode, "none.txt: cannot be read" in done.stderr) == (2, True)
