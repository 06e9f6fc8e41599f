# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The laboratory's queue: no entry is lost and none runs twice, whichever process is killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pretended
import pytest

from conftest import SMALL_STUDY, environment, next_line, running
from perigee.errors import InputError, StorageError
from perigee.laboratory import worker
from perigee.laboratory.entries import Entry, Queue
from perigee.laboratory.place import Place
from perigee.laboratory.scheduler import Scheduler, only_one, served_at
from perigee.store.results import Results

Opened = tuple[Place, Queue, Scheduler]
SEED = 17
KILLS = int(os.environ.get("PERIGEE_KILLS", "5"))


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """A laboratory whose entries take no time."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    place, queue, scheduler = pretended.opened(tmp_path)
    yield place, queue, scheduler
    scheduler.stop(300)
    queue.close()


def step_until(scheduler: Scheduler, condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until
        scheduler.step()
        time.sleep(0.01)


def finished(place: Place) -> list[str]:
    return sorted((place.results / "finished").read_text().split())


def test_entries_run_in_the_order_in_which_they_are_due(opened: Opened) -> None:
    place, queue, scheduler = opened
    later, first, second = (
        queue.add(Entry("c", "sim", 2.0)),
        queue.add(Entry("a", "sim", 1.0)),
        queue.add(Entry("b", "sim", 1.0)),
    )
    never = queue.add(Entry("d", "sim", time.time() + 1e6))
    step_until(scheduler, lambda: queue.get(later).state == "done")
    assert (place.results / "finished").read_text().split() == ["a", "b", "c"]
    assert [queue.get(number).state for number in (first, second, never)] == ["done", "done", "waiting"]
    names = {queue.get(number).results for number in (first, second, later)}
    assert names == {path.name for path in place.results.iterdir() if path.is_dir()}


def test_an_entry_that_fails_has_its_reason_and_the_next_one_begins(opened: Opened) -> None:
    _, queue, scheduler = opened
    bad, good = queue.add(Entry("failing", "sim", 0.0)), queue.add(Entry("good", "sim", 1.0))
    step_until(scheduler, lambda: queue.get(good).state == "done")
    assert (queue.get(bad).state, queue.get(bad).message) == ("failed", "as it was meant to")


def test_an_entry_is_paused_resumed_and_stopped(opened: Opened) -> None:
    place, queue, scheduler = opened
    # The process of the entry reads the request when it begins, however soon that is.
    number = queue.add(Entry("a", "sim", 0.0))
    folder = place.entry(number)
    with_halt = Scheduler(place, queue, [sys.executable, "-c", _HALTED, str(Path(pretended.__file__).parent)])
    with_halt.step()
    assert queue.change(number, ["running"], wish="pause")
    step_until(with_halt, lambda: queue.get(number).state == "paused")
    assert (folder / "halt").exists()
    assert not (place.results / "finished").exists()
    scheduler.step()
    assert queue.get(number).state == "paused"
    queue.change(number, ["paused"], state="waiting")
    with_halt.step()
    queue.change(number, ["running"], wish="stop")
    step_until(with_halt, lambda: queue.get(number).state == "stopped")
    queue.change(number, ["stopped"], state="waiting")
    step_until(scheduler, lambda: queue.get(number).state == "done")
    assert (finished(place), queue.get(number).starts) == (["a"], 3)


_HALTED = """
import sys, time
from pathlib import Path
path, folder, start = sys.argv[1:]
sys.path.insert(0, path)
import pretended
from perigee.laboratory import worker
def carry_out(entry, folder, say):
    while not (folder / "halt").exists():
        time.sleep(0.01)
    return pretended.pretended(entry, folder, say)
worker._carry_out = carry_out
worker.work(Path(folder), int(start))
"""


def test_a_process_that_ends_without_a_result_is_started_again_a_limited_number_of_times(opened: Opened) -> None:
    place, queue, _ = opened
    number = queue.add(Entry("a", "sim", 0.0))
    crashing = Scheduler(place, queue, [sys.executable, "-c", "import sys; sys.exit('the machine is on fire')"])
    step_until(crashing, lambda: queue.get(number).state == "failed")
    assert queue.get(number).message == (
        "its process ended with code 1, 3 times in a row; it said last: " + "\n".join(["the machine is on fire"] * 3)
    )
    assert queue.get(number).starts == 3


def test_a_start_that_another_has_overtaken_has_no_effect(tmp_path: Path, opened: Opened) -> None:
    place, queue, scheduler = opened
    number = queue.add(Entry("a", "sim", 0.0))
    step_until(scheduler, lambda: queue.get(number).state == "done")
    folder = place.entry(number)
    (folder / "outcome.json").unlink()
    worker.work(folder, 0)
    assert not (folder / "outcome.json").exists()
    assert finished(place) == ["a"]
    with worker.held(folder) as mine:
        assert mine
        worker.work(folder, 1)
    assert not (folder / "outcome.json").exists()
    with pytest.raises(InputError, match="no entry of a laboratory"):
        worker.work(tmp_path, 1)


def kill_worker(place: Place, entry: Entry) -> None:
    """Kill the process of an entry, if it runs."""
    noted = place.results / entry.results / "process"
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        pid = int(noted.read_text())
        # Its number may have been given to another process.
        if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[3:4] == [str(place.entry(entry.id)).encode()]:
            os.kill(pid, signal.SIGKILL)


def test_no_entry_is_lost_or_runs_twice_if_processes_are_killed_at_any_moment(opened: Opened, tmp_path: Path) -> None:
    place, queue, scheduler = opened
    numbers = [queue.add(entry) for entry in pretended.entries(4 + KILLS)]
    chance = random.Random(SEED)  # noqa: S311 - repeatable
    program = [sys.executable, pretended.__file__, str(tmp_path)]
    for _ in range(KILLS):
        with running(program, env=environment(), stdout=-1) as process:
            next_line(process.stdout)
            time.sleep(chance.uniform(0, 0.25))
            process.kill()
        if chance.random() < 0.5 and (entry := next(iter(queue.running()), None)):
            kill_worker(place, entry)
    pretended.step_until_ended(queue, scheduler)
    assert [queue.get(number).state for number in numbers] == ["done"] * len(numbers), f"seed {SEED}"
    assert not list(place.results.glob("*/twice"))
    steps = [path.name for path in place.results.glob("*/step-*")]
    assert len(steps) == pretended.STEPS * len(numbers)


def test_a_daily_entry_is_made_at_its_time_and_once_for_all_days_that_were_missed(opened: Opened) -> None:
    _, queue, _ = opened
    noon = datetime(2026, 3, 1, 12).timestamp()
    daily = queue.add(Entry("a", "emu", noon, daily="12:00", state="daily", tags=("base",), settings=("rounds=2",)))
    assert queue.make_daily(noon - 1) == []
    (made,) = queue.make_daily(noon + 3 * 86400)
    assert queue.make_daily(noon + 3 * 86400) == []
    assert queue.get(made) == replace(queue.get(daily), id=made, parent=daily, state="waiting", daily=None, due=noon)
    assert queue.get(daily).due == datetime(2026, 3, 5, 12).timestamp()


def test_what_daily_entries_make_stays_within_a_quota(opened: Opened) -> None:
    _, queue, _ = opened
    noon, day = datetime(2026, 3, 1, 12).timestamp(), 86400
    entry = Entry("a", "sim", noon, daily="12:00", state="daily", owner="ada")
    daily = queue.add(entry, quota=2)
    (first,) = queue.make_daily(noon)
    # Both are one until it has ended, and there is no other meanwhile.
    queue.add(Entry("b", "sim", noon, owner="ada"), quota=2)
    assert queue.make_daily(noon + day) == []
    assert queue.get(daily).message == f"none was made of it, since entry {first} has not ended"
    assert queue.change(first, ["waiting"], state="stopped")
    (second,) = queue.make_daily(noon + 2 * day)
    assert (queue.get(daily).message, queue.get(second).message) == ("", "")
    with pytest.raises(InputError, match="you have 2 entries"):
        queue.change(first, ["stopped"], 2, state="waiting")
    assert queue.get(first).state == "stopped"


def test_the_queue_has_its_pages_and_refuses_wrong_requests(opened: Opened, tmp_path: Path) -> None:
    place, queue, _ = opened
    numbers = [queue.add(Entry("a", "sim", float(due))) for due in (3, 1, 2)]
    assert [entry.due for entry in queue.page(["waiting"])] == [1, 2, 3]
    assert [entry.id for entry in queue.page(["waiting"], 1, 1, newest=True)] == [numbers[1]]
    assert queue.count() == {"waiting": 3}
    assert queue.remove(numbers[0])
    assert not queue.remove(numbers[0])
    queue.change(numbers[1], ["waiting"], state="running")
    assert not queue.remove(numbers[1])
    for wrong in (replace(queue.get(numbers[2]), engine="x"), replace(queue.get(numbers[2]), daily="noon")):
        with pytest.raises(InputError):
            queue.add(wrong)
    with only_one(place), pytest.raises(InputError, match="another perigee serves"), only_one(place):
        pass
    with only_one(place, "http://127.0.0.1:8123/"):
        assert served_at(place) == "http://127.0.0.1:8123/"
    assert served_at(place) == ""
    (tmp_path / "foreign").write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError, match="cannot be read"):
        Queue(tmp_path / "foreign")
    later = sqlite3.connect(tmp_path / "later")
    later.execute("PRAGMA user_version = 99")
    later.close()
    with pytest.raises(InputError, match="version 99"):
        Queue(tmp_path / "later")


def test_the_process_of_an_entry_runs_a_study_and_writes_its_report(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make()
    queue = Queue(place.queue)
    number = queue.add(Entry("small", "sim", 0.0, text=SMALL_STUDY, settings=("rounds=2",)))
    wrong = queue.add(Entry("small", "sim", 1.0, text=SMALL_STUDY, settings=("round=2",)))
    noted = Scheduler(place, queue, ["true"])
    noted.step()
    folder = place.entry(number)
    (folder / "halt").touch()
    worker.work(folder, 1)
    assert worker.read(folder / "outcome.json")["state"] == "halted"
    step_until(noted, lambda: queue.get(number).starts == 2)
    worker.work(folder, 2)
    assert worker.read(folder / "outcome.json") == {"start": 2, "state": "done", "message": ""}
    said = {"done": 2, "total": 2, "left_s": 0.0, "says": "", "curve": None}
    assert worker.read(folder / "progress.json") == said
    results = place.results / queue.get(number).results
    assert Results(results).table("flows").height == 2
    assert (results / "report.html").is_file()
    step_until(noted, lambda: queue.get(wrong).state == "running")
    worker.work(place.entry(wrong), 1)
    step_until(noted, lambda: queue.get(wrong).state == "failed")
    assert "`round` cannot be set" in queue.get(wrong).message
    queue.close()


def test_people_take_turns_and_what_was_interrupted_goes_on_first(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "queue.sqlite")
    owners = ["ada", "ada", "ada", "bob", "bob", "eve"]
    numbers = [queue.add(Entry("a", "sim", float(place), owner=owner)) for place, owner in enumerate(owners)]
    first, second, third, of_bob, second_of_bob, of_eve = numbers
    assert queue.order(9.0) == [first, of_bob, of_eve, second, second_of_bob, third]
    queue.change(first, ["waiting"], state="done", began=5.0)
    assert queue.order(9.0) == [of_bob, of_eve, second, second_of_bob, third]
    queue.change(of_bob, ["waiting"], state="running", began=6.0)
    queue.change(of_bob, ["running"], state="waiting")
    assert queue.order(9.0) == [of_bob, of_eve, second, second_of_bob, third]
    assert queue.order(1.5) == [second]
    queue.close()
