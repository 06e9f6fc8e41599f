# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Refusals of the laboratory: strangers, requests of other sites, loads, paths, scripts."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import httpx
import pretended

from browsing import SCRIPT, URL, Browser, forms, made, submit
from conftest import SMALL_STUDY
from perigee.errors import InputError
from perigee.laboratory import server, site
from perigee.laboratory.access import SESSION_S, Access, Person
from perigee.laboratory.api.visit import Laboratory
from perigee.laboratory.guard import POLICY, Limits
from perigee.laboratory.page import STATIC
from perigee.laboratory.place import Place
from perigee.laboratory.site import COOKIE, FORMS

LISTS = [f"/api/{area}" for area in ("studies", "queue", "results", "links", "algorithms", "machines")]
PATHS_OUT = [
    "/api/results/..%2foutside",
    "/api/results/../outside",
    "/api/results/%2e%2e",
    "/api/results/link",
    "/files/results/link/report.html",
    "/files/results/b/captures.zip",
    "/files/results/b/report.html",
    "/files/results/b/tables/manifest.json",
    "/files/results/b/tables/..%2fa.parquet",
    "/files/results/b/study.zip",
    "/static/..%2f..%2fsite.py",
    "/site.py",
    "/api/links/..%2f..%2fx",
    "/api/algorithms/..%2ftcp",
    "/api/studies/..%2f..%2fetc",
    "/api/compared/..%2fkey",
    "/api/queue/..%2f1",
]


async def parts(count: int, size: int) -> AsyncIterator[bytes]:
    """A body whose length is not known ahead."""
    for _ in range(count):
        yield b"x" * size


def test_all_but_the_page_needs_a_token_or_a_session(
    stranger: Browser, opened: tuple[Laboratory, dict[str, str]]
) -> None:
    of_session = {"/", "/enter", "/api/enter", "/api/leave", "/api/me", "/api/events"}
    assert {one.path for one in site.ROUTES if not one.role} == of_session
    asked = [(one.method, re.sub("[{}]", "", one.path)) for one in site.ROUTES if one.role]
    for method, path in (*asked, ("GET", "/api/events")):
        refused = (stranger.get if method == "GET" else stranger.post)(path)
        assert (refused.status_code, "link is needed" in refused.json()["error"]) == (401, True), path
    page, me = stranger.get("/"), stranger.get("/api/me").json()
    assert (page.status_code, me["person"], me["compiler"]["start"]) == (200, None, "")
    assert stranger.get("/", headers={"if-none-match": page.headers["etag"]}).status_code == 304
    assert stranger.get("/api/queue", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert stranger.get("/api/queue", headers={"authorization": f"Bearer {opened[1]['look']}"}).status_code == 200
    assert stranger.get("/api/queue", headers={"cookie": f"{COOKIE}=a.b"}).status_code == 401
    assert stranger.get("/enter?token=wrong").headers["location"] == "/#/enter?why=wrong"
    wrong = stranger.post("/api/enter", data={"secret": "wrong"})
    assert (wrong.status_code, wrong.json()["error"]) == (422, "No link of this laboratory has that token.")
    for secret in (opened[1]["look"], f" http://127.0.0.1:8700/enter?token={opened[1]['look']} "):
        assert stranger.post("/api/enter", data={"secret": secret}).status_code == 200
        person = stranger.get("/api/me").json()["person"]
        assert person == {"title": "guest", "role": "look", "quota": None}
        assert stranger.get("/api/queue").status_code == 200
        assert stranger.post("/api/leave").status_code == 200
        assert stranger.get("/api/queue").status_code == 401


def test_a_session_ends_with_its_time_and_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(tmp_path, {"t" * 12: "look"})
    first = access.add_links(["ada"], 3)["ada"]
    ada = access.with_token(first)
    assert ada == Person("ada", "run", quota=3)
    cookie = access.session(ada, first)
    found = access.of_session(cookie)
    assert found == replace(ada, forms=found.forms if found else "")
    of_token = access.session(Person("token", "look"), "t" * 12)
    assert access.of_session(of_token) is not None
    assert Access(tmp_path, {"another" * 2: "look"}).of_session(of_token) is None
    content, _, signature = cookie.partition(".")
    assert access.of_session(f"{content}.{'0' * len(signature)}") is None
    assert access.of_session("é.ü") is None
    second = access.add_links(["ada"], 3)["ada"]
    assert access.of_session(cookie) is None
    cookie = access.session(ada, second)
    assert access.of_session(cookie) is not None
    third = access.add_links(["bob"], 3)["bob"]
    of_bob = access.session(Person("bob", "run"), third)
    assert access.of_session(of_bob) is not None
    access.remove_links(["bob"])
    assert (access.with_token(third), access.of_session(of_bob)) == (None, None)
    with pytest.raises(InputError, match="bob: has no personal link; there are ada"):
        access.remove_links(["bob"])
    later = time.time() + SESSION_S + 1
    monkeypatch.setattr("time.time", lambda: later)
    assert access.of_session(cookie) is None
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def test_users_with_passwords_of_an_earlier_version_are_refused_by_name(tmp_path: Path) -> None:
    private = Place(tmp_path).private
    Place(tmp_path).make()
    (private / "users.json").write_text('{"ada": {"role": "run", "hash": "$argon2id$"}, "bob": {"role": "look"}}')
    with pytest.raises(InputError, match="passwords are gone, and ada, bob could not sign in; make a personal link"):
        server.opened(tmp_path)
    assert server.add_links(tmp_path, ["ada"], 3, "http://127.0.0.1:8700/").keys() == {"ada"}
    for damaged in ("[1, 2]", "5", "{}", "[" * 5000):
        (private / "users.json").write_text(damaged)
        with pytest.raises(InputError, match="and its users could not sign in; make a personal link"):
            server.opened(tmp_path)


def test_the_folder_that_only_the_laboratory_reads_is_closed_to_others(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.private.mkdir()
    place.private.chmod(0o755)
    place.make()
    assert place.private.stat().st_mode & 0o777 == 0o700


def test_who_may_look_changes_nothing(stranger: Browser, opened: tuple[Laboratory, dict[str, str]]) -> None:
    look = {"authorization": f"Bearer {opened[1]['look']}"}
    for path in LISTS:
        assert stranger.get(path, headers=look).status_code == 200
    for path in ("studies", "check", "studies/gallery/queue", "queue/1/stop", "results/a/labels", "compare", "compile"):
        assert stranger.post(f"/api/{path}", headers=look).status_code == 403
    assert opened[0].queue.count() == {}


def test_requests_of_other_sites_and_without_their_code_are_refused(browser: Browser, laboratory: Laboratory) -> None:
    good, code = {"engine": "sim", "when": "now"}, forms(browser)
    path = "/api/studies/gallery/queue"
    for origin in ("http://evil.example", "null", "https://127.0.0.1:8700", "http://127.0.0.1:8701"):
        assert browser.post(path, data=good, headers={**code, "origin": origin}).status_code == 403
    assert browser.post(path, data=good, headers={**code, "sec-fetch-site": "cross-site"}).status_code == 403
    assert browser.post(path, data=good, headers={FORMS: "0" * 64}).status_code == 403
    assert browser.post(path, data=good).status_code == 403
    evil = {"origin": "http://evil.example"}
    assert browser.post("/api/leave", headers=evil).status_code == 403
    assert browser.post("/api/enter", data={"secret": "x"}, headers=evil).status_code == 403
    assert laboratory.queue.count() == {}
    assert browser.post(path, data=good, headers={**code, "origin": URL}).status_code == 200
    assert laboratory.queue.count() == {"waiting": 1}


def test_requests_of_the_wrong_host_too_many_too_large_and_too_slow_are_refused(laboratory: Laboratory) -> None:
    limits = Limits(body_bytes=1000, burst=8, per_s=1e-9)
    with contextlib.closing(Browser(laboratory, limits)) as client:
        assert client.get("/api/me", headers={"host": "evil.example"}).status_code == 421
        assert client.post("/api/enter", data={"secret": "x" * 2000}).status_code == 413
        assert client.post("/api/enter", content=parts(4, 500)).status_code == 413
        assert client.post("/api/enter", content=b"", headers={"content-length": "-1"}).status_code == 413
        answers = [client.get("/api/me").status_code for _ in range(7)]
        assert (answers[0], answers[-1]) == (200, 429)
    with contextlib.closing(Browser(laboratory, Limits(body_s=0.0))) as client:
        assert client.post("/api/enter", content=parts(4, 1)).status_code == 408


def test_wrong_tokens_are_counted_and_keep_nobody_of_their_address_out(
    stranger: Browser, opened: tuple[Laboratory, dict[str, str]]
) -> None:
    wrong, right = {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {opened[1]['look']}"}
    assert stranger.post("/api/enter", data={"secret": "http://["}).status_code == 422
    answers = [stranger.get("/api/queue", headers=wrong).status_code for _ in range(20)]
    assert (answers[0], answers[-1]) == (401, 429)
    assert stranger.post("/api/enter", data={"secret": "wrong"}).status_code == 429
    assert stranger.get("/api/queue", headers=right).status_code == 200
    assert stranger.post("/api/enter", data={"secret": opened[1]["look"]}).status_code == 200
    assert stranger.get(f"/enter?token={opened[1]['run']}").headers["location"] == "/"


def test_wrong_tokens_are_counted_where_one_asks_who_one_is(stranger: Browser) -> None:
    wrong = {"authorization": "Bearer wrong"}
    answers = [stranger.get("/api/me", headers=wrong).status_code for _ in range(20)]
    assert (answers[0], answers[-1]) == (200, 429)
    assert stranger.get("/api/me").status_code == 200


def test_streams_are_counted_from_their_acceptance_to_their_end(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "STREAM_S", 0.5)
    monkeypatch.setattr(site, "STREAMS_BY_ADDRESS", 2)
    answers = browser.at_once(*[("GET", "/api/events", {})] * 4)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 503, 503]
    assert [answer.headers.get("retry-after") for answer in answers if answer.status_code == 503] == ["60", "60"]
    assert browser.get("/api/events").status_code == 200


def test_a_stream_ends_soon_after_its_session(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "EVENT_EVERY_S", 0.05)
    monkeypatch.setattr(site, "KNOWN_EVERY_S", 0.1)
    monkeypatch.setattr(site, "STREAM_S", 60.0)

    async def script(client: httpx.AsyncClient) -> None:
        # The cookie that leaving takes away is in the request of the stream already.
        following = asyncio.ensure_future(client.get("/api/events"))
        await asyncio.sleep(0.3)
        assert not following.done()
        await client.post("/api/leave")
        assert (await asyncio.wait_for(following, 10)).status_code == 200
        assert (await client.get("/api/events")).status_code == 401

    browser.run(script)


def test_a_session_that_was_left_has_ended_for_the_server_too(
    browser: Browser, laboratory: Laboratory, opened: tuple[Laboratory, dict[str, str]]
) -> None:
    cookie = browser.get(f"/enter?token={opened[1]['run']}").cookies[COOKIE]
    other = browser.get(f"/enter?token={opened[1]['run']}").cookies[COOKIE]
    assert other != cookie

    def has(session: str) -> int:
        return browser.get("/api/queue", headers={"cookie": f"{COOKIE}={session}"}).status_code

    assert (has(cookie), has(other)) == (200, 200)
    assert browser.post("/api/leave", headers={"cookie": f"{COOKIE}={cookie}"}).status_code == 200
    assert (has(cookie), has(other)) == (401, 200)
    again = Access(laboratory.place.private, {opened[1]["run"]: "run"})
    ended, goes_on = (again.of_session(session.strip('"')) for session in (cookie, other))
    assert (ended, goes_on is not None) == (None, True)


@pytest.mark.parametrize(
    ("site", "is_taken"), [("cross-site", False), ("same-site", False), ("same-origin", False), ("none", True)]
)
def test_no_page_can_choose_whose_session_a_browser_has(
    stranger: Browser, opened: tuple[Laboratory, dict[str, str]], site: str, is_taken: bool
) -> None:
    answer = stranger.get(f"/enter?token={opened[1]['look']}", headers={"sec-fetch-site": site})
    asked = f"/#/enter?why=site&token={opened[1]['look']}"
    assert (answer.headers["location"], COOKIE in answer.cookies) == ("/" if is_taken else asked, is_taken)


def test_numbers_and_words_of_any_length_are_answered(browser: Browser, laboratory: Laboratory) -> None:
    for path in ("/api/queue", "/api/results"):
        assert browser.get(f"{path}?page={'9' * 5000}").status_code == 200
    word = "w" * 300
    text = SMALL_STUDY.replace('"cubic"', f'"{word}"') if '"cubic"' in SMALL_STUDY else f'{SMALL_STUDY}x = "{word}"\n'
    checked = submit(browser, "/api/check", name="mine", text=text)
    assert checked.json()["fault"] is not None
    assert submit(browser, "/api/studies", name="mine", text=text).status_code == 422
    assert submit(browser, "/api/studies/gallery/queue", settings=f"rounds={'1' * 300}").status_code == 422
    assert submit(browser, "/api/studies/gallery/queue", settings=f"flow.cc={word}").status_code == 422
    number = laboratory.queue.add(pretended.entries(1)[0])
    place = laboratory.place.entry(number)
    place.mkdir()
    for damaged in (b"", b'{"done": 1.', b"\0" * 40, b"[1]", b"\xff"):
        (place / "progress.json").write_bytes(damaged)
        assert browser.get(f"/api/queue/{number}").status_code == 200, damaged


def test_answers_have_a_strict_policy_and_reports_an_origin_of_their_own(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    for path in LISTS:
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), path
        assert answer.headers["content-security-policy"] == POLICY
    page = browser.get("/")
    assert page.headers["content-security-policy"] == "frame-ancestors 'none'"
    own = re.search(r'Content-Security-Policy" content="([^"]*)"', page.text)
    assert own and "unsafe-inline" not in own[1] and "unsafe-eval'" not in own[1].replace("wasm-unsafe-eval'", "")
    assert "default-src 'none'; script-src 'sha256-" in own[1]
    assert not re.search(r"\son\w+=\"|\sstyle=\"", page.text.partition("<script")[0])
    folder = made(laboratory, study, "a")
    assert browser.get("/files/results/a/report.html").status_code == 404
    (folder / "report.html").write_text("<h1>report</h1>")
    report = browser.get("/files/results/a/report.html")
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts")
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
    assert submit(browser, "/api/compare", result=["..", "b"]).status_code == 422
    assert submit(browser, "/api/studies", name="../evil", text=SMALL_STUDY, before="").status_code == 422
    assert not (tmp_path / "evil").exists()


def test_what_users_write_is_sent_as_they_wrote_it_and_as_no_page(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    text = SMALL_STUDY.replace('name = "small"', f'name = "small"\ntitle = "{SCRIPT}"\nabout = "{SCRIPT}"')
    assert submit(browser, "/api/studies", name="evil", text=text, before="").status_code == 200
    made(laboratory, study, "a")
    assert submit(browser, "/api/results/a/labels", tags="one, two", notes=SCRIPT).status_code == 200
    assert submit(browser, "/api/results/a/labels", tags=SCRIPT, notes="").status_code == 422
    submit(browser, "/api/studies/evil/queue", notes=SCRIPT, settings=f"{SCRIPT}=1")
    assert submit(browser, "/api/studies/evil/queue", notes=SCRIPT).status_code == 200
    for path in ("studies", "studies/evil", "queue", "queue/1", "results/a", "results/<b>", f"results?q={SCRIPT}"):
        answer = browser.get(f"/api/{path}")
        assert answer.headers["content-type"] == "application/json", path
        assert answer.headers["x-content-type-options"] == "nosniff", path


def test_the_bundled_editor_evaluates_and_fetches_nothing() -> None:
    code = (STATIC / "codemirror" / "codemirror.js").read_text(encoding="utf-8")
    assert not re.search(r"\beval\(|new Function\(|[^.]\bfetch\(", code)
