# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page that the laboratory sends, and its routes on links, algorithms, machines and people."""

from __future__ import annotations

import gzip

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from browsing import Browser
from perigee.errors import InputError
from perigee.laboratory import page
from perigee.laboratory.api import links
from perigee.laboratory.api.visit import Laboratory


def test_the_page_is_put_together_without_the_simulator_too(stranger: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "SIMULATOR", page.WEB / "nowhere.wasm")
    without = stranger.get("/")
    assert without.headers["content-type"] == "text/html; charset=utf-8"
    assert 'id="simulator"' not in without.text
    assert '<meta name="perigee" content="served">' in without.text
    plain = stranger.get("/", headers={"accept-encoding": "identity"})
    assert (plain.text, "content-encoding" in plain.headers) == (without.text, False)
    assert 'id="simulator"' in page.assembled(gzip.compress(b"a simulator"))


def test_each_kind_of_page_may_load_what_it_has() -> None:
    served, beside = page.page("served"), page.page("beside")
    assert "connect-src 'self'" in served.partition("<style")[0]
    assert "script-src 'self'" not in served.partition("<style")[0]
    assert "connect-src 'none'" in beside.partition("<style")[0]
    assert "script-src 'self' file: 'sha256-" in beside.partition("<style")[0]
    alone = page.assembled(None).partition("<style")[0]
    for nothing in ("connect-src 'none'", "frame-src 'none'", "img-src data: blob:;", 'content="alone"'):
        assert nothing in alone


def test_links_are_listed_by_orbit_with_their_numbers(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "READ_S", 60.0)
    found = browser.get("/api/links").json()
    assert list(found["orbits"].values()) == ["Geostationary orbit", "Medium Earth orbit", "Low Earth orbit", "Wire"]
    orbits = {one["name"]: one["orbit"] for one in found["links"]}
    assert [orbits[name] for name in ("viasat2", "meo-o3b", "starlink-replay", "gigabit")] == ["GEO", "MEO", "LEO", ""]
    geo = next(one for one in found["links"] if one["name"] == "geo")
    assert (geo["down"], geo["loss"], set(geo["rate_mbps"])) == (100.0, "none", {100.0})
    assert [place for place, count in enumerate(geo["delays"]) if count] == [20]
    one = browser.get("/api/links/geo").json()
    assert one["over_time"].keys() == {"t_s", "down", "up"}
    assert set(one["over_time"]["down"]["rate_mbps"]) == {100.0}
    assert one["text"].startswith('name = "geo"')
    assert browser.get("/api/links/starlink-replay").json()["over_time"] is None
    assert browser.get("/api/links/nowhere").status_code == 404


def test_algorithms_have_their_parameters_and_their_source(browser: Browser) -> None:
    names = [one["name"] for one in browser.get("/api/algorithms").json()["algorithms"]]
    assert {"cubic", "bbr", "hybla"} <= set(names)
    for name in names:
        found = browser.get(f"/api/algorithms/{name}").json()
        assert "CC_PARAMETERS" in found["source"] or not found["params"], name
        assert found["file"] == f"{name}.c"
    hybla = {one["name"]: one for one in browser.get("/api/algorithms/hybla").json()["params"]}
    assert hybla["rtt0"]["default"] == "25 ms"


def test_machines_are_told_with_their_agents(browser: Browser) -> None:
    assert browser.get("/api/machines").json() == {"open": False, "agents": []}


def test_people_with_personal_links_have_a_name_and_a_session_that_ends_with_the_link(
    stranger: Browser, laboratory: Laboratory
) -> None:
    tokens = laboratory.access.add_links(["ada", "bob"], 2)
    assert stranger.get(f"/enter?token={tokens['bob']}").headers["location"] == "/"
    assert stranger.get("/api/me").json()["person"] == {"title": "bob", "role": "run", "quota": 2}
    laboratory.access.add_links(["bob"], 2)
    assert stranger.get("/api/me").json()["person"] is None
    assert stranger.get("/api/queue").status_code == 401
    for wrong in ("token", "owner", "a b", "x" * 65):
        with pytest.raises(InputError, match="no name for a link"):
            laboratory.access.add_links([wrong], 1)
