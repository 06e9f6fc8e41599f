# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Limits on other people's input to a page, before anything is done with it: times, depth, tables, quotas."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from browsing import Browser, made, submit
from conftest import SMALL_STUDY
from perigee.laboratory import findings, runs
from perigee.laboratory.entries import Entry
from perigee.laboratory.lanes import Lane
from perigee.laboratory.pages.visit import Laboratory
from perigee.places import headers
from perigee.store import room

DEEP = ".".join("a" * 100_000)
LONG = "[inputs]\n" + "".join(f"i{n} = 'x'\n" for n in range(20_000))
"""The end of a study whose reading takes seconds."""
MOST_OF_DEEP_S = 10.0
"""Seconds for four texts of that depth; one took 13 s where it was read as deep as it is."""


def test_a_text_that_is_nested_deeply_is_refused_at_once(browser: Browser) -> None:
    begun = time.monotonic()
    for deep in (f"[{DEEP}]\n", f"{DEEP} = 1\n", f"a = {{ {DEEP} = 1 }}\n", "a = " + "[" * 100_000):
        assert "TOML syntax" in submit(browser, "/check", text=deep).json()["fault"]["message"]
    assert time.monotonic() - begun < MOST_OF_DEEP_S


def test_a_study_that_is_long_to_read_keeps_no_other_thread_waiting(laboratory: Laboratory) -> None:
    reading = threading.Thread(target=laboratory.studies.fault, args=("long", SMALL_STUDY + LONG))
    reading.start()
    turns = 0
    while reading.is_alive():
        time.sleep(0.01)
        turns += 1
    assert turns > 5


def test_texts_of_studies_are_read_few_at_once(opened: tuple[Laboratory, dict[str, str]]) -> None:
    laboratory, tokens = opened
    laboratory.planning = Lane(1, -1)
    token = {"authorization": f"Bearer {tokens['run']}"}
    with contextlib.closing(Browser(laboratory)) as browser:
        for path in ("/check", "/studies", "/studies/gallery/outlook", "/studies/gallery/queue"):
            assert browser.post(path, headers=token).status_code == 503
        assert browser.get("/studies", headers=token).status_code == 200


def test_an_entry_is_due_within_ten_years_and_one_that_is_not_leaves_the_list_readable(
    browser: Browser, laboratory: Laboratory
) -> None:
    for at in ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "2099-01-01T00:00"):
        assert submit(browser, "/studies/gallery/queue", when="at", at=at).status_code == 422
    number = laboratory.queue.add(Entry(study="gallery", engine="sim", due=253402343999.0))
    for path in ("/queue", f"/queue/{number}"):
        answer = browser.get(path)
        assert (answer.status_code, "gallery" in answer.text) == (200, True)


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
        found.append(submit(browser, "/studies/mine/queue", reduced="1").status_code)
    assert found == [422, 422, 422, 303]


def test_a_table_that_declares_more_than_a_page_may_read_is_not_read(
    browser: Browser, laboratory: Laboratory, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(laboratory, study, "large")
    monkeypatch.setattr(room, "MOST_OF_A_PAGE", 3)
    for module in (runs, findings):
        monkeypatch.setattr(module, "MOST_OF_A_PAGE", 3)
    assert browser.get("/results/large").status_code == 200
    answer = browser.get("/results/large/graphs")
    assert (answer.status_code, "values are read at the most" in answer.text) == (404, True)
