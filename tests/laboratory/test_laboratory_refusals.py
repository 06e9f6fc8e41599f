# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Refusals of the laboratory's pages: strangers, forms of other sites, loads, paths, scripts."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")


import pretended

from browsing import SCRIPT, URL, Browser, forms, made, submit
from conftest import SMALL_STUDY
from perigee.laboratory import own_studies
from perigee.laboratory.access import SESSION_S, Access, Person
from perigee.laboratory.guard import POLICY, Limits
from perigee.laboratory.pages.visit import Laboratory
from perigee.laboratory.site import COOKIE

PATHS_OUT = [
    "/results/..%2foutside",
    "/results/../outside",
    "/results/%2e%2e",
    "/results/link",
    "/results/link/report",
    "/results/b/captures.zip",
    "/results/b/report",
    "/results/b/tables/manifest.json",
    "/results/b/tables/..%2fa.parquet",
    "/results/b/study.zip",
    "/static/..%2f..%2fsite.py",
    "/static/site.py",
    "/links/..%2f..%2fx",
    "/links/..%2fx/drawing.png",
    "/studies/..%2f..%2fetc",
    "/edit/..%2fx",
    "/compared/..%2fkey",
    "/queue/..%2f1",
]


async def parts(count: int, size: int) -> AsyncIterator[bytes]:
    """A body whose length is not known ahead."""
    for _ in range(count):
        yield b"x" * size


def test_every_page_needs_a_token_a_session_or_a_password(
    stranger: Browser, laboratory: Laboratory, opened: tuple[Laboratory, dict[str, str]]
) -> None:
    html = {"accept": "text/html"}
    for path in ("/studies", "/queue", "/results", "/links", "/agents", "/edit", "/studies/gallery", "/nowhere"):
        assert stranger.get(path).status_code == 401
        assert stranger.get(path, headers=html).headers["location"] == "/enter"
    assert stranger.post("/studies", data={"name": "a"}).status_code == 401
    assert stranger.get("/events").status_code == 401
    assert stranger.get("/queue", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert stranger.get("/queue", headers={"authorization": f"Bearer {opened[1]['look']}"}).status_code == 200
    assert stranger.get("/queue", headers={"cookie": f"{COOKIE}=a.b"}).status_code == 401
    assert stranger.get("/enter?token=wrong").status_code == 401
    assert stranger.get("/enter").status_code == 200
    laboratory.access.add_user("ada", "look", "correct horse battery")
    assert stranger.post("/enter", data={"name": "ada", "secret": "wrong horse battery"}).status_code == 401
    assert stranger.post("/enter", data={"name": "bob", "secret": "correct horse battery"}).status_code == 401
    assert stranger.post("/enter", data={"name": "ada", "secret": "correct horse battery"}).status_code == 303
    page = stranger.get("/queue")
    assert page.status_code == 200
    assert "ada · can look" in page.text
    assert stranger.post("/leave").headers["location"] == "/enter"
    assert stranger.get("/queue").status_code == 401


def test_a_session_ends_with_its_time_its_password_and_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = Access(tmp_path, {"t" * 12: "look"})
    access.add_user("ada", "run", "correct horse battery")
    ada = access.with_password("ada", "correct horse battery")
    assert ada == Person("ada", "run")
    cookie = access.session(ada, "correct horse battery")
    found = access.of_session(cookie)
    assert found == replace(ada, forms=found.forms if found else "")
    of_token = access.session(Person("token", "look"), "t" * 12)
    assert access.of_session(of_token) is not None
    assert Access(tmp_path, {"another" * 2: "look"}).of_session(of_token) is None
    content, _, signature = cookie.partition(".")
    assert access.of_session(f"{content}.{'0' * len(signature)}") is None
    assert access.of_session("é.ü") is None
    access.add_user("ada", "run", "another password")
    assert access.of_session(cookie) is None
    cookie = access.session(ada, "another password")
    assert access.of_session(cookie) is not None
    later = time.time() + SESSION_S + 1
    monkeypatch.setattr("time.time", lambda: later)
    assert access.of_session(cookie) is None
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def test_who_may_look_changes_nothing(stranger: Browser, opened: tuple[Laboratory, dict[str, str]]) -> None:
    look = {"authorization": f"Bearer {opened[1]['look']}"}
    for path in ("/studies", "/queue", "/results"):
        assert stranger.get(path, headers=look).status_code == 200
    assert "<form class" not in stranger.get("/studies/gallery", headers=look).text
    for path in ("/studies", "/check", "/studies/gallery/queue", "/queue/1/stop", "/results/a/labels", "/compare"):
        assert stranger.post(path, headers=look).status_code == 403
    for path in ("/edit", "/edit/gallery", "/completion.json"):
        assert stranger.get(path, headers=look).status_code == 403
    assert opened[0].queue.count() == {}


def test_forms_of_other_sites_and_without_their_token_are_refused(browser: Browser, laboratory: Laboratory) -> None:
    good = {"forms": forms(browser), "engine": "sim", "when": "now"}
    path = "/studies/gallery/queue"
    for origin in ("http://evil.example", "null", "https://127.0.0.1:8700", "http://127.0.0.1:8701"):
        assert browser.post(path, data=good, headers={"origin": origin}).status_code == 403
    assert browser.post(path, data=good, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert browser.post(path, data={**good, "forms": "0" * 64}).status_code == 403
    assert browser.post(path, data={"engine": "sim"}).status_code == 403
    assert browser.post("/leave", headers={"origin": "http://evil.example"}).status_code == 403
    assert browser.post("/enter", data={"secret": "x"}, headers={"origin": "http://evil.example"}).status_code == 403
    assert laboratory.queue.count() == {}
    assert browser.post(path, data=good, headers={"origin": URL}).status_code == 303
    assert laboratory.queue.count() == {"waiting": 1}


def test_requests_of_the_wrong_host_too_many_too_large_and_too_slow_are_refused(laboratory: Laboratory) -> None:
    limits = Limits(body_bytes=1000, burst=8, per_s=1e-9)
    with contextlib.closing(Browser(laboratory, limits)) as client:
        assert client.get("/enter", headers={"host": "evil.example"}).status_code == 421
        assert client.post("/enter", data={"secret": "x" * 2000}).status_code == 413
        assert client.post("/enter", content=parts(4, 500)).status_code == 413
        assert client.post("/enter", content=b"", headers={"content-length": "-1"}).status_code == 413
        answers = [client.get("/enter").status_code for _ in range(7)]
        assert (answers[0], answers[-1]) == (200, 429)
    with contextlib.closing(Browser(laboratory, Limits(body_s=0.0))) as client:
        assert client.post("/enter", content=parts(4, 1)).status_code == 408


def test_wrong_tokens_are_counted_and_keep_nobody_of_their_address_out(
    stranger: Browser, laboratory: Laboratory, opened: tuple[Laboratory, dict[str, str]]
) -> None:
    wrong, right = {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {opened[1]['look']}"}
    laboratory.access.add_user("ada", "look", "correct horse battery")
    answers = [stranger.get("/queue", headers=wrong).status_code for _ in range(20)]
    assert (answers[0], answers[-1]) == (401, 429)
    assert stranger.get("/enter?token=wrong").status_code == 429
    assert stranger.get("/queue", headers=right).status_code == 200
    assert stranger.post("/enter", data={"name": "ada", "secret": "correct horse battery"}).status_code == 303
    assert stranger.get(f"/enter?token={opened[1]['run']}").status_code == 303
    answers = [stranger.post("/enter", data={"name": "a", "secret": "b"}).status_code for _ in range(20)]
    assert (answers[0], answers[-1]) == (401, 429)


def test_a_session_that_was_left_has_ended_for_the_server_too(
    browser: Browser, laboratory: Laboratory, opened: tuple[Laboratory, dict[str, str]]
) -> None:
    cookie = browser.get(f"/enter?token={opened[1]['run']}").cookies[COOKIE]
    other = browser.get(f"/enter?token={opened[1]['run']}").cookies[COOKIE]
    assert other != cookie

    def has(session: str) -> int:
        return browser.get("/queue", headers={"cookie": f"{COOKIE}={session}"}).status_code

    assert (has(cookie), has(other)) == (200, 200)
    assert browser.post("/leave", headers={"cookie": f"{COOKIE}={cookie}"}).headers["location"] == "/enter"
    assert (has(cookie), has(other)) == (401, 200)
    again = Access(laboratory.place.private, {opened[1]["run"]: "run"})
    ended, goes_on = (again.of_session(session.strip('"')) for session in (cookie, other))
    assert (ended, goes_on is not None) == (None, True)


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("none", 303)])
def test_another_site_cannot_choose_whose_session_a_browser_has(
    stranger: Browser, opened: tuple[Laboratory, dict[str, str]], site: str, status: int
) -> None:
    answer = stranger.get(f"/enter?token={opened[1]['look']}", headers={"sec-fetch-site": site})
    assert (answer.status_code, COOKIE in answer.cookies) == (status, status == 303)


def test_of_several_who_save_at_once_one_does(browser: Browser, laboratory: Laboratory) -> None:
    form = {"forms": forms(browser), "name": "mine"}
    assert browser.post("/studies", data={**form, "text": SMALL_STUDY}).status_code == 303
    form["before"] = own_studies.stamp(SMALL_STUDY)
    texts = [f"{SMALL_STUDY}# edit {number}\n" for number in range(12)]
    answers = browser.at_once(*(("POST", "/studies", {**form, "text": text}) for text in texts))
    assert sorted(answer.status_code for answer in answers) == [303] + 11 * [422]
    (saved,) = [text for text, answer in zip(texts, answers, strict=True) if answer.status_code == 303]
    assert laboratory.studies.get("mine").text == saved


def test_numbers_and_words_of_any_length_are_answered(browser: Browser, laboratory: Laboratory) -> None:
    for path in ("/queue", "/results"):
        assert browser.get(f"{path}?page={'9' * 5000}").status_code == 200
    word = "w" * 300
    text = SMALL_STUDY.replace('"cubic"', f'"{word}"') if '"cubic"' in SMALL_STUDY else f'{SMALL_STUDY}x = "{word}"\n'
    checked = browser.post("/check", data={"forms": forms(browser), "name": "mine", "text": text})
    assert checked.json()["fault"] is not None
    assert submit(browser, "/studies", name="mine", text=text).status_code == 422
    assert submit(browser, "/studies/gallery/queue", rounds="1" * 300).status_code == 422
    assert submit(browser, "/studies/gallery/queue", settings=f"flow.cc={word}").status_code == 422
    number = laboratory.queue.add(pretended.entries(1)[0])
    place = laboratory.place.entry(number)
    place.mkdir()
    for damaged in (b"", b'{"done": 1.', b"\0" * 40, b"[1]", b"\xff"):
        (place / "progress.json").write_bytes(damaged)
        assert browser.get(f"/queue/{number}").status_code == 200, damaged


def test_answers_have_a_strict_policy_and_reports_an_origin_of_their_own(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    policy = browser.get("/queue").headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'" in policy
    assert "unsafe" not in policy
    lists = ("/studies", "/queue", "/results", "/links", "/algorithms", "/agents")
    for path in (*lists, "/studies/gallery", "/edit", "/links/geo"):
        page = browser.get(path)
        assert page.status_code == 200, page.text
        assert not re.search(r"<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=|https?://", page.text.partition("<pre")[0]), (
            path
        )
    folder = made(laboratory, study, "a")
    assert browser.get("/results/a/report").status_code == 404
    (folder / "report.html").write_text("<h1>report</h1>")
    report = browser.get("/results/a/report")
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts allow-downloads;")
    assert "allow-same-origin" not in report.headers["content-security-policy"]


def test_no_path_leads_out_of_the_folders(
    browser: Browser, laboratory: Laboratory, tmp_path: Path, study: Path
) -> None:
    folder = made(laboratory, study, "a")
    outside = tmp_path / "outside"
    folder.rename(outside)
    (laboratory.place.results / "link").symlink_to(outside)
    inner = made(laboratory, study, "b")
    (inner / "captures").symlink_to(outside)
    (inner / "report.html").symlink_to(outside / "manifest.json")
    for path in PATHS_OUT:
        assert browser.get(path).status_code in (404, 405), path
    assert submit(browser, "/compare", result=["..", "b"]).status_code == 422
    assert submit(browser, "/studies", name="../evil", text=SMALL_STUDY, before="").status_code == 422
    assert not (tmp_path / "evil").exists()


def test_what_users_write_is_shown_as_text(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    text = SMALL_STUDY.replace('name = "small"', f'name = "small"\ntitle = "{SCRIPT}"\nabout = "{SCRIPT}"')
    assert submit(browser, "/studies", name="evil", text=text, before="").status_code == 303
    made(laboratory, study, "a")
    assert submit(browser, "/results/a/labels", tags="one, two", notes=SCRIPT).status_code == 303
    assert submit(browser, "/results/a/labels", tags=SCRIPT, notes="").status_code == 422
    submit(browser, "/studies/evil/queue", notes=SCRIPT, settings=f"{SCRIPT}=1")
    assert submit(browser, "/studies/evil/queue", notes=SCRIPT).status_code == 303
    pages = ["/studies", "/studies/evil", "/edit/evil", "/queue", "/queue/1", "/results/a", "/results/<b>"]
    for path in (*pages, f"/results?q={SCRIPT}", f"/queue?said={SCRIPT}"):
        page = browser.get(path).text
        assert SCRIPT not in page, path
        assert "<b>" not in page.partition("<main")[2], path
        assert "&lt;" in page or path == "/queue", path


def test_the_editor_may_make_styles_with_a_nonce_of_its_page_and_nothing_else_may(browser: Browser) -> None:
    pages = [browser.get("/edit") for _ in range(2)]
    nonces = [re.search(r'data-nonce="([\w-]+)"', page.text) for page in pages]
    policies = [page.headers["content-security-policy"] for page in pages]
    assert nonces[0] and nonces[1] and nonces[0][1] != nonces[1][1]
    for nonce, policy in zip(nonces, policies, strict=True):
        assert nonce and policy == POLICY.replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce[1]}'")
    assert browser.get("/studies").headers["content-security-policy"] == POLICY
    code = browser.get("/static/codemirror.js").text
    assert not re.search(r"\beval\(|new Function\(|[^.]\bfetch\(", code)
    assert '<textarea id="text" name="text"' in pages[0].text
