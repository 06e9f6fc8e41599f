# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A published site: the page and all that it reads, and it is there whole or as it was before."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")

from perigee.commands.publish import command
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.laboratory import link_samples, own_studies
from perigee.laboratory import publish as publishing
from perigee.laboratory.catalogue import Catalogue
from perigee.laboratory.place import Place
from perigee.laboratory.publish import publish
from perigee.places import find_study, profiles, studies
from perigee.standing.running import FILE, FOLDER, FORMAT
from synthetic import SyntheticEngine

REPORT = """<!doctype html><title>report</title><h1>Four controls</h1>
<h2>In short</h2><ul><li>Hybla is best.</li></ul></section>
<figure class="plot"><svg><path d="M0 0"/></svg></figure>"""
PROFILES = ("geo", "starlink-replay")
SHIPPED = "claypool-2021"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two results, a study of one's own, and tags; no link is drawn, and one study is shipped."""
    monkeypatch.setattr(link_samples, "current_profiles", dict)
    monkeypatch.setattr(own_studies, "studies", lambda: {SHIPPED: studies()[SHIPPED]})
    place = Place(tmp_path / "lab")
    place.make()
    study = place.studies / "mine" / "study.toml"
    study.parent.mkdir()
    study.write_text('name = "mine"\ntitle = "<script>alert(1)</script>"\n')
    carry_out(Job(find_study(str(study)), SyntheticEngine(1), out=place.results / "one.zip", workers=1))
    shutil.copytree(place.results / "one.zip", place.results / "other")
    (place.results / "other" / "report.html").write_text(REPORT)
    (place.results / "other" / "captures").mkdir()
    (place.results / "other" / "captures" / "a.pcap").write_bytes(b"packets")
    catalogue = Catalogue(place.results, place.private / "labels.sqlite")
    catalogue.label("other", ["geo"], "as <agreed>")
    catalogue.close()
    return place.root


def data_of(site: Path) -> dict[str, Any]:
    """The data files of a site by the paths that the page reads; each calls its function with its own path."""
    found = {}
    for file in (site / "data").rglob("*.js"):
        path = str(file.relative_to(site / "data")).removesuffix(".js")
        begin = f"perigeeData({json.dumps(path)}, "
        text = file.read_text()
        assert text.startswith(begin)
        assert text.endswith(");\n")
        found[path] = json.loads(text[len(begin) : -3])
    return found


def test_a_site_has_the_page_and_all_that_it_reads(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = profiles()
    monkeypatch.setattr(link_samples, "current_profiles", lambda: {name: known[name] for name in PROFILES})
    site = tmp_path / "site"
    done = publish(root, site, title="Over satellites", about="By <us>")
    assert (done.results, done.without_report, done.left_out) == (2, ["one.zip"], [])
    page = (site / "index.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "connect-src 'none'" in policy[1]
    assert '<meta name="perigee" content="beside">' in page
    data = data_of(site)
    assert (data["me"]["title"], data["me"]["about"]) == ("Over satellites", "By <us>")
    assert [one["name"] for one in data["results"]["results"]] == ["other", "one.zip"]
    other = data["results/other"]
    assert other["finding"]["sentences"] == ["Hybla is best."]
    assert (other["notes"], other["tags"]) == ("as <agreed>", ["geo"])
    files = site / "files" / "results"
    tables = {one["name"] for one in other["contents"]["tables"]}
    assert {file.stem for file in (files / "other" / "tables").iterdir()} == tables
    report = (files / "other" / "report.html").read_text()
    assert other["contents"]["has_report"]
    assert report.startswith('<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src')
    assert report.endswith(REPORT)
    assert zipfile.ZipFile(files / "other" / "captures.zip").namelist() == ["other-captures/a.pcap"]
    assert (files / "other" / "figure.svg").is_file()
    assert not (files / "one.zip" / "report.html").exists()
    runs = {run for point in data["results/other/graphs"]["points"] for _, run in point["runs"]}
    assert all(data[f"results/other/graph/{run}"]["traces"] for run in runs)
    assert {one["name"] for one in data["links"]["links"]} == set(PROFILES)
    assert data["links/geo"]["over_time"]
    assert {one["name"] for one in data["studies"]["studies"]} == {SHIPPED, "mine"}
    assert data["studies/mine"]["title"] == "<script>alert(1)</script>"
    assert data["algorithms/bbr"]["source"]


@pytest.mark.parametrize(
    ("figure", "drawn"),
    [
        (
            '<svg onload="a()"><script>b()</script><a href="javascript:c()"><g/></a><path d="M0 0"/></svg>',
            '<path d="M0 0" />',
        ),
        ('<svg><use href="#a" onclick="b()"/><foreignObject><p>c</p></foreignObject></svg>', '<use href="#a" />'),
        ("<svg><script>b()</script><br></svg>", None),
    ],
)
def test_a_published_figure_draws_and_runs_nothing(root: Path, tmp_path: Path, figure: str, drawn: str | None) -> None:
    (root / "results" / "other" / "report.html").write_text(f'<figure class="plot">{figure}</figure>')
    publish(root, tmp_path / "site")
    path = tmp_path / "site" / "files" / "results" / "other" / "figure.svg"
    assert data_of(tmp_path / "site")["results/other"]["finding"]["has_figure"] == path.exists() == (drawn is not None)
    if drawn is not None:
        assert path.read_text().endswith(f'<rect width="100%" height="100%" fill="#fff" />{drawn}</svg>')
        assert not re.search(r"\w\(\)|<script|\son\w+=", path.read_text())


def test_a_site_is_replaced_whole(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    publish(root, site)
    shutil.rmtree(root / "results" / "other")
    with monkeypatch.context() as failing:
        failing.setattr(publishing, "contents", lambda _folder: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            publish(root, site)
    assert (site / "data/results/other.js").is_file(), "the old one stays"
    publish(root, site)
    assert not (site / "data/results/other.js").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab", "site"]


def test_what_a_killed_command_left_is_removed(root: Path, tmp_path: Path) -> None:
    begun, aside, other = (tmp_path / f".site.{name}" for name in ("begun", "aside", "mine"))
    for folder in (begun, aside / "old", other):
        folder.mkdir(parents=True)
    (begun / publishing.MARK).touch()
    (aside / "old" / publishing.MARK).touch()
    publish(root, tmp_path / "site")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".site.mine", "lab", "site"]


@pytest.mark.parametrize("is_link", [False, True])
def test_a_table_that_is_gone_or_leads_elsewhere_is_not_published(root: Path, tmp_path: Path, is_link: bool) -> None:
    table = root / "results" / "other" / "flows.parquet"
    table.unlink()
    if is_link:
        (tmp_path / "secret").write_text("secret")
        table.symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match=r"other/flows\.parquet: is gone; run the study again"):
        publish(root, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_nothing_else_is_written_over(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is no site of `perigee publish`"):
        publish(root, other)
    with pytest.raises(InputError, match="lies in the results"):
        publish(root, root / "results" / "site")
    with pytest.raises(InputError, match="has no folder results/"):
        publish(other, tmp_path / "site")
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]
    assert not (tmp_path / "site").exists()


@pytest.mark.usefixtures("root")
def test_a_standing_is_published_where_nothing_was_run(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    (alone / FOLDER).mkdir(parents=True)
    (alone / FOLDER / FILE).write_text(json.dumps({"format": FORMAT}))
    publish(alone, tmp_path / "site")
    assert "standing" in " ".join(map(str, data_of(tmp_path / "site")))
    assert [path.name for path in alone.iterdir()] == [FOLDER]


def test_the_command_says_what_it_left_out(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "results" / "broken").mkdir()
    (root / "results" / "broken" / "manifest.json").write_text("{")
    command(tmp_path / "site", root)
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'site' / 'index.html'}\n"
    assert "not complete, left out: broken" in said.err
    assert "without a report; make it with perigee report: one.zip" in said.err
