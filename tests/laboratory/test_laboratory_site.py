# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The laboratory's pages, as their users go through them."""

from __future__ import annotations

import html
import io
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")


import pretended

from browsing import SCRIPT, Browser, made, submit
from conftest import SMALL_STUDY
from perigee.commands.dry_run import listing
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.laboratory import tab
from perigee.laboratory.outlook import Outlooks
from perigee.laboratory.pages import links
from perigee.laboratory.pages.queue import RunNames
from perigee.laboratory.pages.visit import Laboratory
from perigee.numbers import span
from perigee.places import find_study
from perigee.store.manifest import read_manifest, write_manifest
from synthetic import SyntheticEngine


def test_a_study_is_edited_checked_and_saved(browser: Browser, laboratory: Laboratory, tmp_path: Path) -> None:
    def check(text: str) -> Any:
        return submit(browser, "/check", text=text).json()["fault"]

    assert check(SMALL_STUDY) is None
    assert check(SMALL_STUDY.replace("rate", "rat"))["line"] == 6
    assert check("a = [1")["message"].endswith("correct the TOML syntax here")
    assert check("a = \n")["line"] == 1
    secret = tmp_path / "secret.toml"
    secret.write_text("password = 1\n")
    for value in (
        'profile = "/etc/passwd"',
        f'profile = "{secret}"',
        'profile = "../secret"',
        'profile = "secret.toml"',
    ):
        wrong = check(SMALL_STUDY.replace('delay = "1 ms"', value))
        assert re.search("names a file|there is none of that name", wrong["message"])
        assert "password" not in str(wrong)
        assert str(tmp_path) not in str(wrong).replace(value, "")
    assert "names a file" in check(SMALL_STUDY + 'cc = "./evil.c"\n')["message"]
    assert "names a file" in check(SMALL_STUDY + 'cc = { name = "evil.c" }\n')["message"]
    assert "names a file" in check(SMALL_STUDY + '[reduced]\nset = { "flow.cc" = "./evil.c" }\n')["message"]
    assert "larger than" in check("# " + "x" * 600_000)["message"]
    saved = submit(browser, "/studies", name="mine", text=SMALL_STUDY.replace("\n", "\r\n"), before="")
    assert saved.headers["location"].startswith("/studies/mine")
    assert (tmp_path / "studies" / "mine" / "study.toml").read_text() == SMALL_STUDY
    page = browser.get("/edit/mine").text
    before = re.search(r'name="before" value="(\w+)"', page)
    assert before
    taken = [("mine", SMALL_STUDY, ""), ("mine", SMALL_STUDY, "0"), ("gallery", SMALL_STUDY, ""), ("new", "x = 1", "")]
    for name, text, stamp in taken:
        refused = submit(browser, "/studies", name=name, text=text, before=stamp)
        assert refused.status_code == 422
        assert text in refused.text.replace("&#34;", '"')
    assert submit(browser, "/studies", name="mine", text=SMALL_STUDY + "# more\n", before=before[1]).status_code == 303
    assert "# more" in browser.get("/studies/mine").text
    keys = {one["key"]: one for one in browser.get("/completion.json").json()["flows"]}
    assert keys.keys() > {"from", "to", "cc", "size"}
    assert "cubic" in keys["cc"]["values"]
    assert (keys["cc"]["default"], "web" in keys["kind"]["values"]) == ('"cubic"', True)


def test_the_keys_of_studies_have_a_page_with_a_section_per_table(browser: Browser) -> None:
    page = browser.get("/reference").text
    assert '<section id="links.loss"' in page
    assert "<code>gilbert-elliott</code>" in page
    assert "`" not in re.sub(r"(?s)<head>.*</head>", "", page)


def test_a_form_becomes_an_entry_with_what_was_changed(browser: Browser, laboratory: Laboratory) -> None:
    fields = {
        "engine": "sim",
        "rounds": "2",
        "vary.flows.beside.count": "0",
        "settings": "flow.duration=6 s\n\n",
    }
    sent = submit(browser, "/studies/gallery/queue", **fields, reduced="1", tags="a, b a", notes=" n ", when="now")
    assert sent.headers["location"].startswith("/queue/1?said=")
    entry = laboratory.queue.get(1)
    assert entry.settings == ("rounds=2", "vary.flows.beside.count=0", "flow.duration=6 s")
    assert (entry.study, entry.text, entry.reduced, entry.tags, entry.notes) == ("gallery", None, True, ("a", "b"), "n")
    assert (entry.owner, entry.state) == ("token", "waiting")
    submit(browser, "/studies/gallery/queue", when="at", at="2031-02-03T04:05")
    submit(browser, "/studies/gallery/queue", when="daily", daily="03:30")
    assert [laboratory.queue.get(number).state for number in (2, 3)] == ["waiting", "daily"]
    experiments = submit(browser, "/studies/caini-2009/queue", experiment=["ping", "spike"])
    assert experiments.status_code == 303
    assert laboratory.queue.get(4).settings == ("experiments=ping,spike",)
    lines = ("flow.duration", "flow.cc=./a.c", "inputs.a=/etc/passwd", 'flow.cc=["../a"]')
    others = [{"rounds": "0"}, {"engine": "x"}, {"when": "at", "at": "noon"}, {"when": "daily", "daily": "25:00"}]
    for wrong in (*({"settings": line} for line in lines), *others, {"tags": "<b>"}, {"notes": "x" * 10_001}):
        refused = submit(browser, "/studies/gallery/queue", **wrong)
        assert refused.status_code == 422, wrong
        assert 'role="alert"' in refused.text
    for page in ("/queue", "/queue/1", "/queue/3"):
        assert browser.get(page).status_code == 200
    assert submit(browser, "/queue/1/pause").status_code == 303
    assert laboratory.queue.get(1).state == "paused"
    submit(browser, "/queue/1/resume")
    submit(browser, "/queue/1/stop")
    submit(browser, "/queue/2/remove")
    assert laboratory.queue.count() == {"waiting": 1, "stopped": 1, "daily": 1}
    assert submit(browser, "/queue/1/explode").status_code == 422
    assert browser.get("/queue/99").status_code == 404


def test_results_are_searched_labelled_and_downloaded(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    folder = made(laboratory, study, "one")
    made(laboratory, study, "two", rounds=3)
    (laboratory.place.results / "broken").mkdir()
    (laboratory.place.results / "broken" / "manifest.json").write_text("{")
    page = browser.get("/results").text
    assert all(f'href="/results/{name}"' in page for name in ("one", "two", "broken"))
    assert "damaged" in page
    submit(browser, "/results/one/labels", tags="Base, rain", notes="before the storm")
    assert 'href="/results/one"' in browser.get("/results?q=base+STORM").text
    assert 'href="/results/two"' not in browser.get("/results?q=base+STORM").text
    assert 'href="/results/one"' in browser.get("/results?page=0&q=invented").text
    assert browser.get("/results/broken").status_code == 200
    flows = pl.read_parquet(folder / "flows.parquet")
    assert pl.read_parquet(io.BytesIO(browser.get("/results/one/tables/flows.parquet").content)).equals(flows)
    csv = browser.get("/results/one/tables/flows.csv")
    assert 'filename="one-flows.csv"' in csv.headers["content-disposition"]
    assert (
        pl.read_csv(csv.content, infer_schema_length=None)["goodput_mbps"].to_list() == flows["goodput_mbps"].to_list()
    )
    (folder / "captures").mkdir()
    (folder / "captures" / "run-000000-a.pcapng").write_bytes(b"x" * 1_000_000)
    archive = zipfile.ZipFile(io.BytesIO(browser.get("/results/one/captures.zip").content))
    assert archive.testzip() is None
    assert [(one.filename, one.file_size) for one in archive.infolist()] == [
        ("one-captures/run-000000-a.pcapng", 1_000_000)
    ]
    assert browser.get("/results/one/figures.zip").status_code == 404
    assert submit(browser, "/compare", result=["one"]).status_code == 422


def test_graphs_over_time_have_a_page_their_data_and_a_figure(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    folder = made(laboratory, study, "one")
    assert ">Graphs</a>" in browser.get("/results/one").text
    page = browser.get("/results/one/graphs")
    assert "bbr, round 1" in page.text
    assert 'Throughput</span> (<span class="unit">Mbit/s</span>)' in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    view = "run=0&run=5&what=series.goodput_mbps&what=series.cwnd_packets"
    assert f"graph.svg?{view}".replace("&", "&amp;") in browser.get(f"/results/one/graphs?{view}").text
    data = browser.get(f"/results/one/graph.bin?{view}&columns=10")
    assert (data.status_code, data.headers["content-type"]) == (200, "application/octet-stream")
    figure = browser.get(f"/results/one/graph.svg?{view}&from=1&to=2")
    assert (figure.status_code, figure.headers["content-type"]) == (200, "image/svg+xml")
    assert "<script" not in figure.text
    for wrong in ("columns=0", "columns=5000", "from=2&to=1", "from=nan", "to=x", "run=-1", "run=x", "run=800"):
        assert browser.get(f"/results/one/graph.bin?what=series.goodput_mbps&{wrong}").status_code == 404, wrong
    for wrong in ("what=flows.run", "what=series", f"what={SCRIPT}", "run=../one/0", "run=none/0"):
        assert browser.get(f"/results/one/graph.bin?{wrong}").status_code == 404, wrong
    for wrong in ("what=series", f"what={SCRIPT}", "run=800", "run=none/0", "with=none", "point=x", "point=0&round=x"):
        assert browser.get(f"/results/one/graphs?{wrong}").status_code == 404, wrong
    many = "&".join(f"run=0:flow{number}" for number in range(30))
    assert "at most 24" in browser.get(f"/results/one/graphs?{many}").text
    table = folder / "series.parquet"
    table.unlink()
    table.symlink_to("/etc/passwd")
    assert browser.get("/results/one/graph.bin?what=series.goodput_mbps").status_code == 404


def test_the_menus_of_graphs_add_runs_quantities_and_other_results_to_the_address(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    made(laboratory, study, "one")
    made(laboratory, study, "two")
    here = "/results/one/graphs?run=0&what=series.goodput_mbps"
    added = browser.get(f"{here}&point=1&round=2&from=1&to=2.5")
    assert added.status_code == 303
    assert added.headers["location"] == ("/results/one/graphs?run=0&run=5&what=series.goodput_mbps&from=1.0&to=2.5")
    added = browser.get(f"{here}&panel=series.cwnd_packets")
    assert added.headers["location"] == f"{here}&what=series.cwnd_packets"
    assert '<optgroup label="two">' not in browser.get(here).text
    assert '<option value="two/1">cubic</option>' in browser.get(f"{here}&with=two").text
    page = browser.get(browser.get(f"{here}&point=two/1&round=1").headers["location"])
    assert "cubic, round 1, two" in page.text
    away = re.search(r'href="([^"]+)" aria-label="Take away bbr, round 1, one"', page.text)
    assert away is not None
    assert away[1].replace("&amp;", "&") == "/results/one/graphs?run=two%2F1&what=series.goodput_mbps"
    assert f"with={SCRIPT}" not in browser.get(f"{here}&with={SCRIPT}").text


def test_the_queue_is_followed_while_it_runs(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    number = laboratory.queue.add(replace(pretended.entries(1)[0], tags=("t",)))
    folder = laboratory.place.results / "running"
    carry_out(Job(find_study(str(study)), SyntheticEngine(1), out=folder, workers=1, part=None))
    laboratory.queue.change(number, ["waiting"], state="running", results="running", began=0.0)
    place = laboratory.place.entry(number)
    place.mkdir()
    (place / "progress.json").write_text('{"done": 1.5, "total": 4, "left_s": 62.0, "says": "second"}')
    page = browser.get(f"/queue/{number}").text
    assert "1 of 4 runs, about 60 s left" in page
    assert "1 of 4 runs, about 60 s left" in browser.get("/").text
    state: Any = browser.site._state()
    assert (state["running"][0]["done"], state["running"][0]["curve"]) == (1.5, None)
    assert state["count"] == {"running": 1}
    assert state["points"] == []
    (place / "progress.json").write_text('{"done": 4, "total": 4, "left_s": 0.0, "says": ""}')
    assert "Writing the report" in browser.get("/").text
    laboratory.queue.change(number, ["running"], state="stopped", ended=1.0)
    (place / "progress.json").write_text('{"done": 1.5, "total": 4, "left_s": 62.0, "says": ""}')
    for path in ("/queue", f"/queue/{number}"):
        assert "stopped at 1 of 4" in browser.get(path).text


def test_the_start_page_shows_what_came_last_and_what_to_do_without_any(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    empty = browser.get("/").text
    assert "No results yet" in empty
    assert 'href="/studies/claypool-2021"' in empty
    folder = made(laboratory, study, "one")
    short = "<h2>In short</h2><ul><li>Hybla &gt; <b>Cubic</b>.</li><li>± is an interval.</li></ul></section>"
    drawing = '<figure id="a" class="plot"><svg role="img"><path d="M0 0"/></svg></figure>'
    (folder / "report.html").write_text(f"<h1>Four controls</h1>{short}{drawing}")
    page = browser.get("/").text
    for shown in ("Four controls", "Hybla &gt; Cubic.", 'src="/results/one/figure.svg"'):
        assert shown in page
    figure = browser.get("/results/one/figure.svg")
    assert figure.headers["content-type"] == "image/svg+xml"
    assert figure.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert figure.text.startswith('<svg role="img" xmlns="http://www.w3.org/2000/svg"')
    (folder / "report.html").write_text("<h1>Without figure</h1>")
    assert browser.get("/results/one/figure.svg").status_code == 404


def test_a_run_is_named_by_what_varies(laboratory: Laboratory) -> None:
    names = RunNames(laboratory)
    entry = replace(pretended.entries(1)[0], id=1, study="claypool-2021", text=None)
    assert [names.name(entry, run) for run in (0, 1, 5)] == ["bbr, round 1", "cubic, round 1", "cubic, round 2"]
    assert names.name(replace(entry, id=2, study="gone"), 3) == "run 3"


def test_studies_are_narrowed_by_tag_and_those_with_results_come_first(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    assert submit(browser, "/studies", name="zz-mine", text=SMALL_STUDY, before="").status_code == 303

    def names(path: str) -> list[str]:
        return re.findall(r'<h2><a href="/studies/([\w-]+)">', browser.get(path).text)

    every = names("/studies")
    assert every[0] == "atlas"
    assert set(names("/studies?tag=paper")) == {each for each in every if re.search(r"-(19|20)\d\d$", each)}
    assert names("/studies?tag=own") == ["zz-mine"]
    assert "two-orbits" in names("/studies?tag=GEO")
    assert "two-orbits" in names("/studies?tag=LEO")
    assert "validation" not in names("/studies?tag=GEO")
    assert names(f"/studies?tag={SCRIPT}") == every
    carry_out(Job(find_study(str(laboratory.place.studies / "zz-mine")), SyntheticEngine(1), workers=1,
                  out=laboratory.place.results / "mine"))  # fmt: skip
    assert names("/studies")[0] == "zz-mine"


def test_a_study_takes_as_long_as_the_command_line_says() -> None:
    plan, outlook = Simulator(find_study("wu-2008"), (), reduced=False), Outlooks().of(find_study("wu-2008"))
    assert outlook.seconds is not None
    assert f"; about {span(outlook.seconds)} on " in listing(plan)[1]
    emulated = Outlooks().of(find_study("evening"), reduced=True, engine="emu")
    assert emulated.runs == 12
    assert emulated.seconds == pytest.approx(144.6, abs=0.1)


def test_runs_and_time_follow_what_is_filled_in(browser: Browser) -> None:
    def outlook(**fields: Any) -> Any:
        return submit(browser, "/studies/claypool-2021/outlook", **fields).json()

    assert outlook()["all"].startswith("320 runs, about ")
    assert outlook()["small"].startswith("8 runs, about ")
    assert outlook(**{"set.rounds": "3"})["all"].startswith("12 runs, about ")
    assert outlook(settings="vary.flow.cc=cubic,reno")["all"].startswith("160 runs, about ")
    assert "`290` has no unit" in outlook(**{"set.flows.download.size": "290"})["error"]
    assert "names a file" in outlook(settings="flow.cc=./a.c")["error"]
    assert outlook(engine="live")["all"] == "320 runs"
    page = browser.get("/studies/claypool-2021").text
    assert "links.campus.rate" in page
    assert 'aria-label="Network: server to gateway' in page


def test_results_are_narrowed_by_engine_tag_and_person_and_say_what_they_found(
    browser: Browser, laboratory: Laboratory, study: Path
) -> None:
    for name in ("one", "two", "three"):
        made(laboratory, study, name)
    submit(browser, "/results/one/labels", tags="rain")
    for name, owner in (("two", "ada"), ("three", "bob")):
        number = laboratory.queue.add(replace(pretended.entries(1)[0], owner=owner))
        laboratory.queue.change(number, ["waiting"], state="done", results=name)

    def names(query: str) -> set[str]:
        return set(re.findall(r'<a href="/results/(\w+)">', browser.get(f"/results?{query}").text))

    assert names("") == {"one", "two", "three"}
    assert names("tag=rain") == {"one"}
    assert names("who=ada") == {"two"}
    assert names("engine=emu") == set()
    assert "No results match" in browser.get("/results?engine=emu").text
    page = browser.get("/results").text
    assert re.search(r"bbr <strong>[\d.]+</strong>", page)
    assert '<polyline class="is-0"' in page
    again = browser.get("/studies/gallery?again=one").text
    assert "<details open>" in again


def test_results_of_an_entry_that_was_stopped_never_run(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    folder = made(laboratory, study, "half")
    manifest = read_manifest(folder)
    write_manifest(folder / "manifest.json", {**manifest, "state": "running"})
    assert "not complete" in browser.get("/results").text
    number = laboratory.queue.add(pretended.entries(1)[0])
    laboratory.place.entry(number).mkdir()
    (laboratory.place.entry(number) / "progress.json").write_text('{"done": 110, "total": 320}')
    laboratory.queue.change(number, ["waiting"], state="stopped", results="half", ended=1.0)
    for path in ("/results", "/results/half", "/queue"):
        page = browser.get(path).text
        assert "stopped at 110 of 320" in page, path
        assert ", running" not in page, path


def test_links_are_listed_by_orbit_and_begin_a_study(
    browser: Browser, laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "READ_S", 60.0)
    page = browser.get("/links").text
    orbits = page.split("<section ")[1:]
    assert [re.findall(r"<h2[^>]*>([^<]+)", orbit)[0] for orbit in orbits] == [
        "Geostationary orbit",
        "Medium Earth orbit",
        "Low Earth orbit",
        "Wire",
    ]
    for orbit, name in zip(orbits, ("viasat2", "meo-o3b", "starlink-replay", "gigabit"), strict=True):
        assert f'href="/links/{name}"' in orbit
    assert 'aria-label="Rate of geo over a minute' in page
    assert 'href="/edit?link=geo"' in browser.get("/links/geo").text
    study = browser.get("/edit?link=geo").text
    assert "profile = &#34;geo&#34;" in study
    assert browser.get("/edit?link=nowhere").status_code == 404
    text = html.unescape(study.partition('spellcheck="false"')[2].partition(">")[2].partition("</textarea>")[0])
    assert submit(browser, "/studies", name="mine", text=text, before="").status_code == 303
    assert laboratory.studies.get("mine").content["rounds"] == 5


def test_algorithms_have_their_window_once_it_is_simulated(browser: Browser, laboratory: Laboratory) -> None:
    assert "<polyline" not in browser.get("/algorithms").text
    laboratory.warm(lambda: False)
    page = browser.get("/algorithms").text
    names = re.findall(r'<h2 id="(\w+)">', page)
    assert {"cubic", "bbr", "hybla"} <= set(names)
    assert page.count("<polyline") == len(names) - 2
    assert (laboratory.place.private / "drawn").is_dir()


def test_people_with_personal_links_have_a_name_a_quota_and_only_their_own_entries(
    stranger: Browser, laboratory: Laboratory
) -> None:
    links = laboratory.access.add_links(["ada", "bob"], 2)
    tokens = {name: {"authorization": f"Bearer {token}"} for name, token in links.items()}
    for _ in range(2):
        assert stranger.post("/studies/gallery/queue", headers=tokens["ada"]).status_code == 303
    refused = stranger.post("/studies/gallery/queue", headers=tokens["ada"])
    assert refused.status_code == 422
    assert "you have 2 entries in the queue, and may have 2" in refused.text
    assert stranger.post("/studies/gallery/queue", headers=tokens["bob"]).status_code == 303
    assert [laboratory.queue.get(number).owner for number in (1, 2, 3)] == ["ada", "ada", "bob"]
    assert stranger.post("/queue/1/stop", headers=tokens["bob"]).status_code == 422
    assert "/queue/1/stop" not in stranger.get("/queue/1", headers=tokens["bob"]).text
    assert stranger.post("/queue/1/stop", headers=tokens["ada"]).status_code == 303
    assert stranger.post("/studies/gallery/queue", headers=tokens["ada"]).status_code == 303
    page = stranger.get("/queue", headers=tokens["bob"]).text
    assert "bob · can run, 2 entries in the queue at once" in page
    assert stranger.get(f"/enter?token={links['bob']}").status_code == 303
    assert "bob · can run" in stranger.get("/").text
    laboratory.access.add_links(["bob"], 2)
    assert stranger.get("/queue").status_code == 401
    with pytest.raises(InputError, match="somebody else has that name"):
        laboratory.access.add_user("ada", "run", "correct horse battery")
    for wrong in ("token", "a b", "x" * 65):
        with pytest.raises(InputError, match="no name of a user"):
            laboratory.access.add_links([wrong], 1)


def test_a_figure_takes_the_colours_of_its_report_along(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    folder = made(laboratory, study, "one")
    colours = "<style>:root { --a: #123456; } @media (prefers-color-scheme: dark) { :root { --a: #abcdef; } }</style>"
    figure = '<figure class="plot"><svg viewBox="0 0 100 90"><path style="fill: {}"/></svg></figure>'
    (folder / "report.html").write_text(colours + figure.format("var(--a)"))
    drawn = browser.get("/results/one/figure.svg").text
    assert re.search(r"<style>:root\{ --a: #123456; ;[^}]*\}@media[^{]*\{:root\{ --a: #abcdef; ;", drawn)
    assert "<rect" not in drawn
    assert 'class="thumbnail tall"' in browser.get("/").text
    (folder / "report.html").write_text(figure.format("#1b1f24"))
    assert '<rect width="100%" height="100%" fill="#fff"/>' in browser.get("/results/one/figure.svg").text


def test_the_laboratory_in_a_tab_is_offered_where_it_is_built(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tab, "built", lambda: None)
    absent = browser.get("/tab")
    assert absent.status_code == 404
    assert "make web" in absent.text
    assert "/tab" not in browser.get("/").text
    page = tmp_path / "built.html"
    page.write_text("<meta content=\"connect-src 'none'\"><title>in a tab</title>")
    monkeypatch.setattr(tab, "built", lambda: page)
    found = browser.get("/tab")
    assert found.text.startswith(
        '<meta content="connect-src \'self\'"><meta name="compiler" content="{&quot;at&quot;: '
    )
    assert "connect-src 'self'" in found.headers["content-security-policy"]
    assert found.headers["cache-control"] == "no-store"
    assert 'href="/tab"' in browser.get("/").text
    text = find_study("gallery").text
    assert f'href="/tab{tab.fragment(text)}"' in browser.get("/studies/gallery").text
