# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Routes of studies and of the queue: settings, how much they start, entries, and what runs."""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

import pretended

from browsing import Browser, submit
from conftest import SMALL_STUDY
from perigee.commands.dry_run import listing
from perigee.engines.plan.native import native_plan
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InterruptedRunError
from perigee.laboratory import live, own_studies
from perigee.laboratory.api.visit import Laboratory
from perigee.laboratory.entries import Entry
from perigee.laboratory.live import Layout, Live, Panels
from perigee.laboratory.outlook import Outlooks
from perigee.laboratory.study_settings import settings_of
from perigee.numbers import span
from perigee.places import find_study
from synthetic import SyntheticEngine


def test_a_study_is_edited_checked_and_saved(browser: Browser, tmp_path: Path) -> None:
    def check(text: str) -> Any:
        return submit(browser, "/api/check", text=text).json()["fault"]

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
    saved = submit(browser, "/api/studies", name="mine", text=SMALL_STUDY.replace("\n", "\r\n"), before="")
    assert saved.json() == {"name": "mine"}
    assert (tmp_path / "studies" / "mine" / "study.toml").read_text() == SMALL_STUDY
    opened = browser.get("/api/studies/mine").json()
    assert (opened["own"], opened["text"]) == (True, SMALL_STUDY)
    taken = [("mine", SMALL_STUDY, ""), ("mine", SMALL_STUDY, "0"), ("gallery", SMALL_STUDY, ""), ("new", "x = 1", "")]
    for name, text, stamp in taken:
        assert submit(browser, "/api/studies", name=name, text=text, before=stamp).status_code == 422
    more = submit(browser, "/api/studies", name="mine", text=SMALL_STUDY + "# more\n", before=opened["stamp"])
    assert more.status_code == 200
    assert "# more" in browser.get("/api/studies/mine").json()["text"]
    keys = {one["key"]: one for one in browser.get("/api/completion").json()["flows"]}
    assert keys.keys() > {"from", "to", "cc", "size"}
    assert "cubic" in keys["cc"]["values"]
    assert (keys["cc"]["default"], "web" in keys["kind"]["values"]) == ('"cubic"', True)


def test_of_several_who_save_at_once_one_does(browser: Browser, laboratory: Laboratory) -> None:
    form = {"name": "mine"}
    assert submit(browser, "/api/studies", **form, text=SMALL_STUDY).status_code == 200
    form["before"] = own_studies.stamp(SMALL_STUDY)
    texts = [f"{SMALL_STUDY}# edit {number}\n" for number in range(12)]
    answers = browser.at_once(*(("POST", "/api/studies", {**form, "text": text}) for text in texts))
    assert sorted(answer.status_code for answer in answers) == [200] + 11 * [422]
    (saved,) = [text for text, answer in zip(texts, answers, strict=True) if answer.status_code == 200]
    assert laboratory.studies.get("mine").text == saved


def test_a_new_study_has_the_name_that_it_is_saved_by(browser: Browser, laboratory: Laboratory) -> None:
    text = browser.get("/api/template").json()["text"]
    assert 'name = "NAME"' in text
    assert submit(browser, "/api/studies", name="mine", text=text, before="").status_code == 200
    assert laboratory.studies.get("mine").content["name"] == "mine"


def test_a_form_becomes_an_entry_with_what_was_changed(browser: Browser, laboratory: Laboratory) -> None:
    settings = "rounds=2\nvary.flows.beside.count=0\n flow.duration=6 s\n\n"
    sent = submit(
        browser, "/api/studies/gallery/queue", settings=settings, reduced="1", tags="a, b a", notes=" n ", when="now"
    )
    assert sent.json() == {"number": 1}
    entry = laboratory.queue.get(1)
    assert entry.settings == ("rounds=2", "vary.flows.beside.count=0", "flow.duration=6 s")
    assert (entry.study, entry.text, entry.reduced, entry.tags, entry.notes) == ("gallery", None, True, ("a", "b"), "n")
    assert entry.state == "waiting"
    submit(browser, "/api/studies/gallery/queue", when="at", at="2031-02-03T04:05")
    submit(browser, "/api/studies/gallery/queue", when="daily", daily="03:30")
    assert [laboratory.queue.get(number).state for number in (2, 3)] == ["waiting", "daily"]
    assert submit(browser, "/api/studies/caini-2009/queue", experiment=["ping", "spike"]).status_code == 200
    assert laboratory.queue.get(4).settings == ("experiments=ping,spike",)
    lines = ("flow.duration", "flow.cc=./a.c", "inputs.a=/etc/passwd", 'flow.cc=["../a"]', "rounds=0")
    others = [{"engine": "x"}, {"when": "at", "at": "noon"}, {"when": "daily", "daily": "25:00"}]
    for wrong in (*({"settings": line} for line in lines), *others, {"tags": "<b>"}, {"notes": "x" * 10_001}):
        refused = submit(browser, "/api/studies/gallery/queue", **wrong)
        assert (refused.status_code, bool(refused.json()["error"])) == (422, True), wrong
    assert submit(browser, "/api/queue/1/pause").json()["state"] == "paused"
    assert submit(browser, "/api/queue/1/resume").json()["actions"] == ["pause", "stop", "remove"]
    submit(browser, "/api/queue/1/stop")
    late = submit(browser, "/api/queue/1/pause")
    assert (late.status_code, late.json()["error"]) == (422, "too late: entry 1 is stopped")
    assert submit(browser, "/api/queue/2/remove").json() == {}
    assert laboratory.queue.count() == {"waiting": 1, "stopped": 1, "daily": 1}
    assert submit(browser, "/api/queue/1/explode").status_code == 422
    assert browser.get("/api/queue/99").status_code == 404


def test_entries_of_one_study_are_told_apart_and_say_whose_they_are(browser: Browser, laboratory: Laboratory) -> None:
    name = "claypool-2021"
    for fields in ({"reduced": "1"}, {"settings": "rounds=3"}):
        submit(browser, f"/api/studies/{name}/outlook", **{key: of for key, of in fields.items() if key == "settings"})
        submit(browser, f"/api/studies/{name}/queue", **fields)
    laboratory.queue.add(Entry(study=name, engine="sim", due=0.0, owner="ada"))
    waiting = browser.get("/api/queue").json()["waiting"]
    told = {one["number"]: (one["who"], one["reduced"], one["settings"], one["size"][:8]) for one in waiting}
    assert told[1] == ("You", True, [], "8 runs, ")
    assert told[2] == ("You", False, ["rounds=3"], "12 runs,")
    assert told[3][0] == "ada"
    assert all(one["title"] == "Four congestion controls over a commercial GEO satellite link" for one in waiting)
    assert [one["place"] for one in waiting] == [1, 2, 3]


def test_people_with_a_quota_have_only_their_own_entries(stranger: Browser, laboratory: Laboratory) -> None:
    links = laboratory.access.add_links(["ada", "bob"], 2)
    tokens = {name: {"authorization": f"Bearer {token}"} for name, token in links.items()}
    for _ in range(2):
        assert stranger.post("/api/studies/gallery/queue", headers=tokens["ada"]).status_code == 200
    refused = stranger.post("/api/studies/gallery/queue", headers=tokens["ada"])
    assert "you have 2 entries in the queue, and may have 2" in refused.json()["error"]
    assert stranger.post("/api/studies/gallery/queue", headers=tokens["bob"]).status_code == 200
    assert [laboratory.queue.get(number).owner for number in (1, 2, 3)] == ["ada", "ada", "bob"]
    assert stranger.post("/api/queue/1/stop", headers=tokens["bob"]).status_code == 422
    seen = [stranger.get("/api/queue/1", headers=tokens[name]).json() for name in ("ada", "bob")]
    assert [(one["who"], bool(one["actions"])) for one in seen] == [("You", True), ("ada", False)]
    assert stranger.post("/api/queue/1/stop", headers=tokens["ada"]).status_code == 200
    assert stranger.post("/api/studies/gallery/queue", headers=tokens["ada"]).status_code == 200


def test_entries_that_come_to_wait_again_count_for_a_quota(stranger: Browser, laboratory: Laboratory) -> None:
    token = {"authorization": f"Bearer {laboratory.access.add_links(['ada'], 2)['ada']}"}

    def asked(path: str) -> int:
        return stranger.post(f"/api/{path}", headers=token).status_code

    for number in range(1, 5):
        assert (asked("studies/gallery/queue"), asked(f"queue/{number}/stop")) == (200, 200)
    assert [asked(f"queue/{number}/resume") for number in range(1, 5)] == [200, 200, 422, 422]
    assert laboratory.queue.count() == {"waiting": 2, "stopped": 2}
    # One that is paused has its place already.
    assert [asked(f"queue/1/{what}") for what in ("pause", "resume")] == [200, 200]
    refused = stranger.post("/api/queue/3/resume", headers=token).json()["error"]
    assert "you have 2 entries in the queue, and may have 2" in refused


def test_who_may_look_sees_entries_and_changes_none(
    stranger: Browser, laboratory: Laboratory, opened: tuple[Laboratory, dict[str, str]]
) -> None:
    look = {"authorization": f"Bearer {opened[1]['look']}"}
    number = laboratory.queue.add(Entry(study="gallery", engine="sim", due=0.0, owner="token"))
    shown = stranger.get(f"/api/queue/{number}", headers=look).json()
    assert (shown["who"] == "You", shown["actions"]) == (False, [])
    for path in ("/api/studies/gallery/queue", f"/api/queue/{number}/stop", "/api/check", "/api/studies"):
        assert stranger.post(path, headers=look).status_code == 403
    assert stranger.get("/api/template", headers=look).status_code == 403


def test_the_queue_is_followed_while_it_runs(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    number = laboratory.queue.add(replace(pretended.entries(1)[0], tags=("t",)))
    folder = laboratory.place.results / "running"
    carry_out(Job(find_study(str(study)), SyntheticEngine(1), out=folder, workers=1, part=None))
    laboratory.queue.change(number, ["waiting"], state="running", results="running", began=0.0)
    place = laboratory.place.entry(number)
    place.mkdir()
    (place / "progress.json").write_text('{"done": 1.5, "total": 4, "left_s": 62.0, "says": "second"}')
    (running,) = browser.get("/api/queue").json()["running"]
    assert (running["progress"]["done"], running["progress"]["left_s"], running["number"]) == (1.5, 62.0, number)
    state = Live(laboratory).state()
    assert (state["running"][0]["done"], state["running"][0]["curve"]) == (1.5, None)
    assert state["count"] == {"running": 1}
    (place / "progress.json").write_text('{"done": 4, "total": 4, "left_s": 0.0, "says": ""}')
    assert Live(laboratory).state()["running"][0]["writing"]
    laboratory.queue.change(number, ["running"], state="stopped", ended=1.0)
    (place / "progress.json").write_text('{"done": 1.5, "total": 4, "left_s": 62.0, "says": ""}')
    assert browser.get("/api/queue").json()["ended"][0]["said"] == "stopped at 1 of 4"
    for damaged in (b"", b'{"done": 1.', b"\0" * 40, b"[1]", b"\xff"):
        (place / "progress.json").write_bytes(damaged)
        assert browser.get(f"/api/queue/{number}").status_code == 200, damaged


def test_the_pictures_of_congestion_controls_fill_as_runs_are_done(laboratory: Laboratory) -> None:
    text = SMALL_STUDY + '[vary]\n"flow.cc" = ["cubic", { name = "bbr", extra_acked = false }]\n'
    number = laboratory.queue.add(Entry(study="two", engine="sim", due=0.0, text=text, settings=("rounds=3",)))
    folder = laboratory.place.results / "two"
    laboratory.queue.change(number, ["waiting"], state="running", results="two", began=0.0)
    place = laboratory.place.entry(number)
    place.mkdir()
    curve = {"run": 3, "flows": ["f"], "t_s": [0.1], "mbps": [[1.0]]}
    (place / "progress.json").write_text(json.dumps({"done": 2, "total": 6, "curve": curve}))
    followed = Live(laboratory)
    (running,) = followed.state()["running"]
    assert [(one["name"], one["done"], one["runs"], one["mean"]) for one in running["panels"]] == [
        ("cubic", 0, 3, None),
        ("bbr", 0, 3, None),
    ]
    assert (running["curve"]["algorithm"], running["curve"]["name"]) == ("bbr", "round 2")
    study = laboratory.studies.given("two", text)
    with pytest.raises(InterruptedRunError):
        carry_out(Job(study, Simulator, ("rounds=3",), out=folder, workers=1), _Until(3))
    (running,) = followed.state()["running"]
    done = {one["name"]: len(one["values"]) for one in running["panels"]}
    assert sum(done.values()) >= 3
    assert all(one["mean"] == pytest.approx(sum(one["values"]) / len(one["values"])) for one in running["panels"])


class _Until:
    """Ends a job when some of its runs are done."""

    def __init__(self, runs: int) -> None:
        self._runs = runs

    def __call__(self, done: float, _total: int, /, outlook: tuple[str, float | None] | None = None) -> None:
        if done >= self._runs:
            raise KeyboardInterrupt


def test_many_runs_are_sent_as_means_of_successive_ones(tmp_path: Path) -> None:
    values = {"cubic": {run: float(run) for run in range(0, 900, 2)}}
    (panel,) = Panels(tmp_path, Layout([""], ["cubic"], 1000, ["f"]), values).all()
    assert (panel["per"], panel["runs"], panel["done"], len(panel["values"])) == (10, 1000, 450, 45)
    assert panel["values"][:2] == [9.0, 29.0]


def test_a_run_is_named_by_what_varies(laboratory: Laboratory) -> None:
    entry = Entry(study="gallery", engine="sim", due=0.0, settings=("vary.flow.to=leo-100",))
    layout = live.layout_of(laboratory, entry)
    assert layout.algorithm(0) == "reno"
    assert layout.name(0) == "leo-100, count 0, round 1"
    variants = live.layout_of(
        laboratory, replace(entry, study="low-orbit-now", settings=("direction=down", "rounds=1"))
    )
    assert (variants.algorithm(0), variants.name(0)) == ("bbr", "drop-front, BBR, 1, round 1")
    assert variants.runs("cubic") == 24
    curve = {"run": 1, "flows": ["main", "beside"], "t_s": [1.0], "mbps": [[2.0], [3.0]]}
    assert layout.of_flow(curve) | {"name": ""} == {
        "run": 1, "flows": ["main"], "t_s": [1.0], "mbps": [[2.0]], "name": "", "algorithm": "cubic",
    }  # fmt: skip
    assert live.layout_of(laboratory, replace(entry, study="gone")).name(3) == "run 3"


def test_a_run_counts_for_the_algorithm_of_the_flow_that_its_experiment_varies(laboratory: Laboratory) -> None:
    entry = Entry(study="slow-starts", engine="sim", due=0.0, reduced=True)
    layout = live.layout_of(laboratory, entry)
    shown = dict(zip(layout.points, zip(layout.flows, layout.algorithms, strict=True), strict=True))
    # Beside another transfer, and where a flow that asks stands in place of the transfer.
    assert shown["beside, BBRv3"] == ("first", "bbr3")
    assert shown["limited, BBRv3, 10 MB"] == ("asks", "bbr3")
    assert sum(layout.runs(name) or 0 for name in ("cubic", "reno", "bbr3")) == len(layout.points)
    run = layout.points.index("limited, BBRv3, 10 MB")
    curve = {"run": run, "flows": ["asks"], "t_s": [1.0], "mbps": [[2.0]]}
    assert layout.of_flow(curve)["mbps"] == [[2.0]]


def test_studies_have_their_tags_and_those_with_results_come_first(browser: Browser, laboratory: Laboratory) -> None:
    assert submit(browser, "/api/studies", name="zz-mine", text=SMALL_STUDY, before="").status_code == 200

    def listed() -> dict[str, Any]:
        return {one["name"]: one for one in browser.get("/api/studies").json()["studies"]}

    every = listed()
    assert next(iter(every)) == "atlas"
    papers = {name for name, one in every.items() if "paper" in one["tags"]}
    assert papers == {name for name in every if re.search(r"-(19|20)\d\d$", name)}
    assert [name for name, one in every.items() if "own" in one["tags"]] == ["zz-mine"]
    assert every["two-orbits"]["tags"][:2] == ["GEO", "LEO"]
    satellite = next(one for one in every["claypool-2021"]["network"]["links"] if one["name"] == "satellite")
    assert (satellite["ends"], satellite["orbit"]) == (["gateway", "terminal"], "GEO")
    carry_out(Job(find_study(str(laboratory.place.studies / "zz-mine")), SyntheticEngine(1), workers=1,
                  out=laboratory.place.results / "mine"))  # fmt: skip
    assert next(iter(listed())) == "zz-mine"


@pytest.mark.parametrize("name", ["wu-2008", "caini-2009"])
def test_a_study_takes_as_long_as_the_command_line_says(name: str) -> None:
    plan, outlook = Simulator(find_study(name), (), reduced=False), Outlooks().of(find_study(name))
    assert outlook.seconds is not None
    assert f"; about {span(outlook.seconds)} on " in listing(plan)[1]


def test_an_emulated_study_takes_as_long_as_its_runs() -> None:
    emulated = Outlooks().of(find_study("evening"), reduced=True, engine="emu")
    assert emulated.runs == 12
    assert emulated.seconds == pytest.approx(144.6, abs=0.1)


def test_runs_and_time_follow_what_is_filled_in(browser: Browser) -> None:
    def outlook(**fields: Any) -> Any:
        return submit(browser, "/api/studies/claypool-2021/outlook", **fields).json()

    assert outlook()["all"].startswith("320 runs, about ")
    assert outlook()["small"].startswith("8 runs, about ")
    assert outlook(settings="rounds=3")["all"].startswith("12 runs, about ")
    assert outlook(settings="vary.flow.cc=cubic,reno")["all"].startswith("160 runs, about ")
    assert "`290` has no unit" in outlook(settings="flows.download.size=290")["error"]
    assert "names a file" in outlook(settings="flow.cc=./a.c")["error"]
    assert outlook(engine="live")["all"] == "320 runs"


def test_a_variant_that_an_experiment_takes_itself_is_told(browser: Browser) -> None:
    found = browser.get("/api/studies/caini-2009").json()["experiments"]
    takes = [one["name"] for one in found if "sender" in one["sets"]]
    assert "ping" in takes
    left = [one["name"] for one in found if one["name"] not in takes]
    fields = {"settings": "vary.sender=SACK,BIC"}
    assert "error" in submit(browser, "/api/studies/caini-2009/outlook", **fields).json()
    assert "all" in submit(browser, "/api/studies/caini-2009/outlook", **fields, experiment=left).json()


def test_the_settings_of_earlier_results_are_given_again(browser: Browser, laboratory: Laboratory, study: Path) -> None:
    folder = laboratory.place.results / "one"
    carry_out(Job(find_study(str(study)), SyntheticEngine(1), ("rounds=2",), out=folder, workers=1))
    assert browser.get("/api/studies/gallery?again=one").json()["given"] == ["rounds=2"]
    assert browser.get("/api/studies/gallery").json()["given"] == []


def shown(name: str) -> dict[str, dict[str, Any]]:
    """The settings of a study by their keys."""
    return {one["key"]: one for group in settings_of(find_study(name).content) for one in group["settings"]}


def test_what_varies_can_be_chosen_among_inline_tables_and_variants_too() -> None:
    controls = shown("claypool-2021")["flow.cc"]
    assert [one["label"] for one in controls["values"]] == ["bbr", "cubic", "hybla", "vivace"]
    assert controls["values"][0]["detail"] == "extra_acked = false"
    assert "copa" in controls["choices"]
    senders = shown("low-orbit-now")["sender"]
    # A form sends the values that are left as one setting, which the reader takes.
    for name, setting in (("claypool-2021", controls), ("low-orbit-now", senders)):
        left = [one["text"] for one in setting["values"] if one["label"] not in ("cubic", "BBR")]
        plan = native_plan(find_study(name), [f"vary.{setting['key']}={','.join(left)}"], reduced=False)
        of = {json.dumps(one["point"][setting["key"]], sort_keys=True) for one in plan.laid_out()["points"]}
        assert len(of) == len(setting["values"]) - 1


def test_a_study_that_is_wrong_can_be_opened_and_edited(browser: Browser, laboratory: Laboratory) -> None:
    wrong = {
        "syntax": "a = [1",
        "shapes": 'name = 3\nnodes = { a = 1 }\nlinks = [{ between = 3 }]\nflows = "x"\nvary = 3\nexperiments = [3]\n',
        "values": '[hosts]\ntick = inf\n[vary]\n"flow.cc" = [2026-01-01, { name = 3, at = nan }]\ny = [{}, { a = 1}]\n',
        "inputs": "[inputs]\nx = 1979-05-27\ny = nan\n[inputs.z]\na = inf\n",
        "experiments": "experiments = 5\n",
        "digits": f"rounds = {'1' * 5000}\n",
        "report": SMALL_STUDY,
    }
    for name, text in wrong.items():
        (laboratory.place.studies / name).mkdir()
        (laboratory.place.studies / name / "study.toml").write_text(text)
        (laboratory.place.studies / name / "report.toml").write_text("a = " + "[" * 5000)
        assert browser.get(f"/api/studies/{name}").json()["text"] == text
    assert browser.get("/api/studies/inputs").json()["inputs"] == {"x": "1979-05-27", "y": "nan", "z": "{'a': inf}"}
    names = {one["name"] for one in browser.get("/api/studies").json()["studies"]}
    assert wrong.keys() < names


def test_studies_whose_names_cannot_be_taken_are_left_out(browser: Browser, laboratory: Laboratory) -> None:
    for name in (b"bad\xff", b"two words", b"-x", b"mine"):
        folder = laboratory.place.studies / os.fsdecode(name)
        folder.mkdir()
        (folder / "study.toml").write_text(SMALL_STUDY)
    names = {one["name"] for one in browser.get("/api/studies").json()["studies"]}
    assert names == laboratory.studies.names().keys()
    assert {name for name in names if browser.get(f"/api/studies/{name}").json()["own"]} == {"mine"}


def test_settings_have_menus_where_only_words_can_stand_and_name_their_link() -> None:
    evening = shown("evening")
    assert {"video", "bulk"} < set(evening["flows.video.kind"]["choices"])
    assert evening["flows.video.algorithm"]["choices"] == ("bola", "rate")
    assert "viasat2" in shown("claypool-2021")["links.satellite.profile"]["choices"]
    assert evening["links.satellite.down.rate"]["choices"] == ()
    rate = evening["links.satellite.down.rate"]
    assert (rate["words"], rate["of"], rate["value"]) == ("Rate", "satellite, down", "20 Mbit/s")
    queue = shown("atlas")["links.near.queue"]
    assert tomllib.loads(f"queue = {queue['value']}") == {"queue": {"bdp": 1, "round_trip": "40 ms"}}


@pytest.mark.parametrize("name", ["evening", "gallery", "handover-queues", "loss-with-delay", "page-loads"])
def test_all_settings_of_a_form_are_ones_that_the_reader_takes(name: str) -> None:
    study = find_study(name)
    settings = [one for group in settings_of(study.content) for one in group["settings"]]
    lines = [f"{one['key']}={one['value']}" for one in settings if one["value"]]
    lines += [f"vary.{one['key']}={','.join(of['text'] for of in one['values'])}" for one in settings if one["values"]]
    before, after = (native_plan(study, given, reduced=False).laid_out()["points"] for given in ((), lines))
    assert len(before) == len(after)
