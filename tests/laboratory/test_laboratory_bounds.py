# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Limits on other people's input to a page, before anything is done with it: times, depth, tables, quotas."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from browsing import Browser, made, submit
from conftest import SMALL_STUDY
from perigee.laboratory import findings, runs
from perigee.laboratory.api.visit import Laboratory
from perigee.laboratory.entries import Entry
from perigee.laboratory.lanes import BusyError, Lane
from perigee.laboratory.site import _in_turns
from perigee.places import headers
from perigee.store import room

DEEP = ".".join("a" * 100_000)
LONG = "[inputs]\n" + "".join(f"i{n} = 'x'\n" for n in range(30_000))
"""The end of a study that is as long as a page may send."""
MOST_OF_DEEP_S = 10.0
"""Seconds for four texts of that depth; one took 13 s where it was read as deep as it is."""
MOST_OF_LONG = 8.0
"""How much more time a text takes that is four times as long: 4, and 16 where each key looks for itself in all."""


def test_a_text_that_is_nested_deeply_is_refused_at_once(browser: Browser) -> None:
    begun = time.monotonic()
    for deep in (f"[{DEEP}]\n", f"{DEEP} = 1\n", f"a = {{ {DEEP} = 1 }}\n", "a = " + "[" * 100_000):
        assert "TOML syntax" in submit(browser, "/api/check", text=deep).json()["fault"]["message"]
    assert time.monotonic() - begun < MOST_OF_DEEP_S


def test_a_study_that_is_long_to_read_keeps_no_other_thread_waiting(laboratory: Laboratory) -> None:
    reading = threading.Thread(target=laboratory.studies.fault, args=("long", SMALL_STUDY + LONG))
    reading.start()
    turns = 0
    while reading.is_alive():
        time.sleep(0.01)
        turns += 1
    assert turns > 5


def test_the_time_to_read_a_study_grows_with_its_length(laboratory: Laboratory) -> None:
    def taken(end: str) -> float:
        begun = time.thread_time()
        assert laboratory.studies.fault("long", SMALL_STUDY + end) is None
        return time.thread_time() - begun

    quarter = LONG[: LONG.index("i7500 ")]
    taken(quarter)
    assert min(taken(LONG) for _ in range(2)) < MOST_OF_LONG * max(taken(quarter) for _ in range(2))


def test_texts_of_studies_are_read_few_at_once(opened: tuple[Laboratory, dict[str, str]]) -> None:
    laboratory, tokens = opened
    laboratory.planning = Lane(1, -1)
    token = {"authorization": f"Bearer {tokens['run']}"}
    with contextlib.closing(Browser(laboratory)) as browser:
        for path in ("/api/check", "/api/studies", "/api/studies/gallery/outlook", "/api/studies/gallery/queue"):
            assert browser.post(path, headers=token).status_code == 503
        assert browser.get("/api/studies", headers=token).status_code == 200


def test_who_takes_a_download_slowly_keeps_nobody_waiting_and_its_parts_are_made_in_their_turn() -> None:
    async def script() -> None:
        lane, inside = Lane(1, 8), 0

        async def made(parts: int) -> AsyncIterator[bytes]:
            nonlocal inside
            for _ in range(parts):
                inside += 1
                assert inside == 1, "two parts are made at once"
                await asyncio.sleep(0.001)
                inside -= 1
                yield b"part"

        slow = _in_turns(made(3), lane, "ada")
        assert await anext(slow) == b"part"
        others = [_in_turns(made(3), lane, who) for who in ("bob", "eve", "ada")]
        taken = await asyncio.wait_for(asyncio.gather(*map(_all_of, others)), 5)
        assert taken == [[b"part"] * 3] * 3
        assert await _all_of(slow) == [b"part"] * 2

    asyncio.run(script())


async def _all_of(parts: AsyncIterator[bytes]) -> list[bytes]:
    return [part async for part in parts]


def test_tables_and_archives_are_made_in_the_lane_of_downloads(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    made(laboratory, study, "a")
    whole = browser.get("/files/results/a/tables/flows.csv")
    assert (whole.status_code, whole.text.count("\n") > 1) == (200, True)
    laboratory.downloads = Lane(1, -1)
    with contextlib.closing(Browser(laboratory)) as busy:
        token = {"cookie": whole.request.headers["cookie"]}
        for name in ("tables/flows.csv", "study.zip"):
            assert busy.get(f"/files/results/a/{name}", headers=token).status_code == 503, name
        assert busy.get("/api/results/a", headers=token).status_code == 200


def test_an_entry_is_due_within_ten_years_and_one_that_is_not_leaves_the_list_readable(
    browser: Browser, laboratory: Laboratory
) -> None:
    for at in ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "2099-01-01T00:00"):
        assert submit(browser, "/api/studies/gallery/queue", when="at", at=at).status_code == 422
    number = laboratory.queue.add(Entry(study="gallery", engine="sim", due=253402343999.0))
    for path in ("/api/queue", f"/api/queue/{number}"):
        answer = browser.get(path)
        assert (answer.status_code, "gallery" in answer.text) == (200, True)


def test_one_person_does_not_keep_others_from_what_takes_long() -> None:
    async def script() -> list[str]:
        lane, gate, order = Lane(2, 6), asyncio.Event(), []

        async def work(who: str, name: str) -> None:
            async with lane.of(who):
                await gate.wait()
                order.append(name)

        def ask(who: str, count: int) -> list[asyncio.Task[None]]:
            return [asyncio.create_task(work(who, f"{who}{n}")) for n in range(count)]

        asked = ask("a", 8)
        await asyncio.sleep(0)
        assert all(not one.done() for one in asked)
        # One who has less takes places of who has most, until both have as many.
        asked += ask("b", 5)
        for _ in range(5):
            await asyncio.sleep(0)
        assert sum(one.done() for one in asked[:8]) == 4
        assert sum(one.done() for one in asked[8:]) == 1
        gate.set()
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert all(one is None or isinstance(one, BusyError) for one in found)
        # Nothing is left of them.
        await asyncio.gather(*ask("c", 8))
        return order[:8]

    order = asyncio.run(script())
    # Those who wait take turns.
    assert order[:2] == ["a0", "a1"]
    assert [name[0] for name in order[2:6]] == ["a", "b", "a", "b"]
    assert order[6:] == ["b2", "b3"]


def test_who_gives_up_waiting_leaves_their_place_to_others() -> None:
    async def script() -> None:
        lane, gate = Lane(1, 1), asyncio.Event()

        async def work(then: Callable[[], object] = bool) -> None:
            async with lane.of("a"):
                await gate.wait()
            then()

        # The turn of who waits has come then, and they have not taken it yet.
        asked = [asyncio.create_task(work(lambda: asked[1].cancel()))]
        await asyncio.sleep(0)
        given_up = asyncio.create_task(work())
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        asked.append(asyncio.create_task(work()))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.wait(asked)
        assert asked[1].cancelled()
        await asyncio.wait_for(work(), 5)

    asyncio.run(script())


def test_who_gives_up_as_another_leaves_keeps_nobody_waiting() -> None:
    async def script() -> None:
        lane, gate = Lane(1, 2), asyncio.Event()

        async def work(who: str) -> None:
            async with lane.of(who):
                await gate.wait()
                if who == "a":
                    asked[0].cancel()

        first = asyncio.create_task(work("a"))
        await asyncio.sleep(0)
        asked = [asyncio.create_task(work("b")) for _ in range(2)]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.wait_for(first, 5)
        await asyncio.wait_for(asked[1], 5)
        assert asked[0].cancelled()
        await asyncio.wait_for(work("c"), 5)

    asyncio.run(script())


def test_numbers_of_addresses_have_the_digits_0_to_9_alone(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    number = laboratory.queue.add(Entry(study="gallery", engine="sim", due=0.0, state="paused"))
    assert (number, browser.get("/api/queue/1").status_code) == (1, 200)
    made(laboratory, study, "one")
    one = "\N{ARABIC-INDIC DIGIT ONE}"
    for path in (f"/api/queue/{one}", f"/api/results/one/graph?run={one}"):
        answer = browser.get(path)
        assert (answer.status_code, one in answer.text or "no number" in answer.text) == (404, True), path
    assert submit(browser, f"/api/queue/{one}/remove").status_code == 422
    assert submit(browser, "/api/studies/gallery/queue", when="daily", daily=f"{one}2:00").status_code == 422


def test_two_requests_at_once_do_not_exceed_a_quota(laboratory: Laboratory) -> None:
    entry = Entry(study="gallery", engine="sim", due=0.0, owner="ada")
    with ThreadPoolExecutor(8) as pool:
        added = [pool.submit(laboratory.queue.add, entry, 2) for _ in range(8)]
    assert sum(one.exception() is None for one in added) == 2


def test_a_study_of_the_folder_names_code_beside_it_only(
    browser: Browser, laboratory: Laboratory, tmp_path: Path
) -> None:
    folder = laboratory.place.studies / "mine"
    folder.mkdir()
    for path in (folder / "beside.c", tmp_path / "other.c"):
        path.write_text((headers() / "reno.c").read_text())
    texts = (tmp_path / "other.c", "../../other.c", "./study.toml", "./beside.c")
    found = []
    for text in texts:
        (folder / "study.toml").write_text(f'{SMALL_STUDY}[reduced]\nset = {{ "flow.cc" = "{text}" }}\n')
        found.append(submit(browser, "/api/studies/mine/queue", reduced="1").status_code)
    assert found == [422, 422, 422, 200]


def test_a_table_that_declares_more_than_a_page_may_read_is_not_read(
    browser: Browser, laboratory: Laboratory, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(laboratory, study, "large")
    monkeypatch.setattr(room, "MOST_OF_A_PAGE", 3)
    for module in (runs, findings):
        monkeypatch.setattr(module, "MOST_OF_A_PAGE", 3)
    assert browser.get("/api/results/large").status_code == 200
    answer = browser.get("/api/results/large/graphs")
    assert (answer.status_code, "values are read at the most" in answer.text) == (404, True)
