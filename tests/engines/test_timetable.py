# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Start times of runs between real hosts, on a clock controlled by the tests."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perigee.engines.live.client import TroubleError
from perigee.engines.live.engine import Live
from perigee.engines.live.timetable import Schedule, Timetable, beginnings
from perigee.places import find_study
from study_text import flow, link

MIDNIGHT = 1_700_006_400.0
"""A multiple of every time used below."""


class FakeClock:
    """A clock that advances only during `sleep`; see `timetable.Clock`."""

    def __init__(self, start: float) -> None:
        self.now = 1000.0
        self.offset = start - self.now
        self.sleeps = 0
        self.when_asleep: Callable[[], None] = lambda: None

    def wall(self) -> float:  # noqa: D102
        return self.now + self.offset

    def steady(self) -> float:  # noqa: D102
        return self.now

    def sleep(self, seconds: float) -> None:  # noqa: D102
        self.sleeps += 1
        self.now += seconds
        self.when_asleep()


def table(schedule: Schedule, start: float) -> tuple[Timetable, FakeClock, list[str]]:
    clock, said = FakeClock(start), list[str]()
    return Timetable(schedule, clock, said.append), clock, said


def begin(timetable: Timetable, clock: FakeClock, round_: int, takes: float) -> float:
    """A run: its start, after midnight."""
    assert timetable.wait(round_, lambda: True)
    began = clock.wall()
    clock.now += takes
    timetable.ended()
    return round(began - MIDNIGHT, 3)


def test_ten_minutes_every_fifteen_for_a_day_are_96_runs_on_the_quarters_of_the_hour() -> None:
    timetable, clock, said = table(Schedule(every_s=900.0, span_s=86_400.0), MIDNIGHT + 100)
    begun: list[float] = []
    while timetable.wait(len(begun), lambda: True):
        begun.append(round(clock.wall() - MIDNIGHT, 3))
        clock.now += 600
        timetable.ended()
    assert begun == [900.0 * number for number in range(1, 97)]
    assert said == []


def test_a_run_that_is_over_before_its_slot_does_not_begin_twice_in_it() -> None:
    timetable, clock, _ = table(Schedule(every_s=60.0), MIDNIGHT)
    assert [begin(timetable, clock, round_, 0.0) for round_ in range(3)] == [0, 60, 120]


def test_a_run_that_takes_longer_than_its_slot_delays_the_next_one_with_a_note() -> None:
    timetable, clock, said = table(Schedule(every_s=60.0), MIDNIGHT)
    assert [begin(timetable, clock, round_, takes) for round_, takes in ((0, 130), (1, 1))] == [0, 180]
    assert said == ["the clock was at a multiple of `live.every` 2 times before the runs until then had ended"]


def test_the_runs_of_a_round_follow_one_another_where_the_round_has_the_slot() -> None:
    timetable, clock, _ = table(Schedule(pause_s=5.0, every_s=600.0, by_round=True), MIDNIGHT + 1)
    begun = [begin(timetable, clock, round_, 20) for round_ in (0, 0, 0, 1, 1)]
    assert begun == [600, 625, 650, 1200, 1225]


def test_a_pause_is_from_the_end_of_a_run_to_the_next() -> None:
    timetable, clock, _ = table(Schedule(pause_s=30.0), MIDNIGHT)
    assert [begin(timetable, clock, 0, 10) for _ in range(3)] == [0, 40, 80]


def test_a_clock_that_is_set_ahead_by_an_hour_is_followed() -> None:
    timetable, clock, said = table(Schedule(every_s=60.0), MIDNIGHT + 1)
    assert begin(timetable, clock, 0, 1) == 60

    def set_ahead() -> None:
        if clock.sleeps == 400:
            clock.offset += 3600

    clock.when_asleep = set_ahead
    assert begin(timetable, clock, 1, 1) % 60 == 0
    assert said == ["this host's clock was set by +3600 s; the times of the next runs follow it"]


def test_a_clock_that_is_set_back_by_a_day_does_not_stop_the_study_for_a_day() -> None:
    timetable, clock, said = table(Schedule(every_s=60.0, span_s=600.0), MIDNIGHT + 1)
    begin(timetable, clock, 0, 1)
    clock.offset -= 86_400
    before = clock.steady()
    assert begin(timetable, clock, 1, 1) % 60 == 0
    assert clock.steady() - before <= 61
    assert said == ["this host's clock was set by -86400 s; the times of the next runs follow it"]
    # The end of the study's time moves along.
    for round_ in range(2, 10):
        begin(timetable, clock, round_, 1)
    assert timetable.wait(10, lambda: True) is False


def test_a_clock_that_is_slewed_to_the_right_time_makes_no_step() -> None:
    timetable, clock, said = table(Schedule(every_s=600.0), MIDNIGHT + 1)

    def drift() -> None:
        clock.offset += 0.01

    clock.when_asleep = drift
    begin(timetable, clock, 0, 1)
    assert said == []


def test_a_stop_does_not_wait() -> None:
    timetable, clock, _ = table(Schedule(every_s=86_400.0), MIDNIGHT + 1)
    assert timetable.wait(0, lambda: clock.sleeps < 3) is None
    assert clock.sleeps == 3
    assert timetable.waiting_for == MIDNIGHT + 86_400


def test_a_resumed_study_ends_when_it_would_have() -> None:
    timetable, _, _ = table(Schedule(span_s=3600.0), MIDNIGHT)
    timetable.begin(MIDNIGHT - 3601)
    assert timetable.wait(5, lambda: True) is False


def test_the_remaining_time_includes_the_waiting() -> None:
    timetable, _, _ = table(Schedule(every_s=900.0), MIDNIGHT + 300)
    assert timetable.left_s([0, 1, 2], 600.0) == 600 + 2 * 900 + 600
    assert timetable.left_s([0, 1, 2], None) is None
    assert timetable.wait(0, lambda: True)
    assert timetable.left_s([0, 1], 600.0) == 900 + 600
    pausing, _, _ = table(Schedule(pause_s=10.0), MIDNIGHT)
    assert pausing.left_s([0, 0], 5.0) == 20


def test_the_forecast_of_a_timetable_is_what_happens() -> None:
    schedule = Schedule(pause_s=7.0, every_s=120.0, by_round=True, span_s=1000.0)
    rounds, takes = [0, 0, 1, 1, 2, 2, 3, 3], [50.0, 20.0, 150.0, 20.0, 10.0, 10.0, 10.0, 900.0]
    timetable, clock, _ = table(schedule, MIDNIGHT + 10)
    happened = [MIDNIGHT + begin(timetable, clock, round_, took) for round_, took in zip(rounds, takes, strict=True)]
    assert beginnings(schedule, MIDNIGHT + 10, rounds, takes) == happened


def test_pauses_grow_from_run_to_run_until_one_comes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    (tmp_path / "s.toml").write_text(STUDY)
    clock, said = FakeClock(MIDNIGHT), list[str]()
    settings = ["live.servers.server=a", "live.retries=2", "live.backoff=20 s"]
    plan = Live(find_study(str(tmp_path / "s.toml")), settings, False, said.append, clock)
    plan.begin(MIDNIGHT, resumed=True)
    answers = [None, None, None, None, None, None, ARRIVED, None, ARRIVED]

    def carry(*_arguments: object) -> dict[str, bytes]:
        answer = answers.pop(0)
        if answer is None:
            raise TroubleError("f", "unable to connect to server: No route to host", lasting=False, outputs={})
        return {"f": answer}

    monkeypatch.setattr("perigee.engines.live.engine.carry", carry)
    outcomes: list[str] = []
    for run in range(4):
        output = plan.execute(run, lambda *_: True, tmp_path)
        assert output is not None
        outcomes += output.table("flows")["outcome"].to_list()
    assert outcomes == ["unreachable", "unreachable", "completed", "completed"]
    assert re.findall(r"trying again in (\d+) s", " ".join(said)) == ["2", "4", "8", "16", "2"]
    assert sum("tried 3 times; its flows are kept as failed" in line for line in said) == 2
    assert answers == []


ARRIVED = json.dumps(
    {
        "start": {"test_start": {"protocol": "TCP", "duration": 1, "reverse": 1}},
        "intervals": [{"streams": [{"socket": 5, "end": 1.0, "seconds": 1.0, "bytes": 1000, "sender": False}]}],
        "end": {"streams": [{"receiver": {"socket": 5, "bytes": 1000, "seconds": 1.0}}]},
    }
).encode()
STUDY = (
    """
name = "s"
rounds = 4
nodes = ["server", "client"]
"""
    + link("l", "server client", rate="1 Mbit/s", delay="1 ms")
    + flow("f", "server client", duration="1 s", cc="reno")
)
