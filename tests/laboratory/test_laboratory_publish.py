# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A published site: every link leads to a file of it, and it is there whole or as it was before."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")

from perigee.commands.publish import command
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.laboratory import own_studies, shelf, tab
from perigee.laboratory import publish as publishing
from perigee.laboratory.catalogue import Catalogue
from perigee.laboratory.pages import links
from perigee.laboratory.place import Place
from perigee.laboratory.publish import publish
from perigee.places import find_study, profiles, studies
from synthetic import SyntheticEngine

REPORT = """<!doctype html><title>report</title><h1>Four controls</h1>
<h2>In short</h2><ul><li>Hybla is best.</li></ul></section>
<figure class="plot"><svg><path d="M0 0"/></svg></figure>"""
PROFILES = ("geo", "starlink-replay")
SHIPPED = "claypool-2021"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two results, a study of one's own, and tags; no link is drawn, and one study is shipped."""
    monkeypatch.setattr(tab, "built", lambda: None)
    monkeypatch.setattr(links, "profiles", dict)
    for module, name in ((own_studies, "studies"), (shelf, "shipped")):
        monkeypatch.setattr(module, name, lambda: {SHIPPED: studies()[SHIPPED]})
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


def test_every_link_of_every_page_leads_to_a_file(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = profiles()
    monkeypatch.setattr(links, "profiles", lambda: {name: known[name] for name in PROFILES})
    done = publish(root, tmp_path / "site", title="Over satellites", about="By <us>")
    assert (done.results, done.without_report, done.left_out) == (2, ["one.zip"], [])
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert {"index.html", "results.html", "links.html", "studies.html", "mine.html"} <= {page.name for page in pages}
    followed = set()
    for page in pages:
        text = page.read_text()
        for address in re.findall(r'(?:href|src)="([^"#]+)"', text):
            if address.startswith("https://doi.org/"):
                continue
            target = page.parent / unquote(html.unescape(address))
            assert target.is_file(), (page, address)
            followed.add(target.resolve())
        assert "<form" not in text
        assert "<script" not in text
    index = (tmp_path / "site/index.html").read_text()
    for shown in ("Over satellites", "By <us>", 'href="results/other.html"', "Hybla is best.", "other/figure.svg"):
        assert html.escape(shown, quote=False) in index or shown in index, shown
    assert (tmp_path / "site/results/other/captures.zip").resolve() in followed
    assert (tmp_path / "site/results/one.zip/tables/flows.parquet").resolve() in followed
    assert (tmp_path / "site/links/geo/drawing.png").resolve() in followed
    assert "as &lt;agreed&gt;" in (tmp_path / "site/results/other.html").read_text()


def test_a_site_offers_the_laboratory_in_a_tab_where_that_is_built(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(root, tmp_path / "without")
    assert not (tmp_path / "without" / "tab.html").exists()
    assert "Try it here" not in (tmp_path / "without" / "index.html").read_text()
    built = tmp_path / "built.html"
    built.write_text("<title>in a tab</title>")
    monkeypatch.setattr(tab, "built", lambda: built)
    publish(root, tmp_path / "with")
    assert (tmp_path / "with" / "tab.html").read_text() == built.read_text()
    assert '<a href="tab.html">Try it here</a>' in (tmp_path / "with" / "index.html").read_text()
    address = tab.fragment((root / "studies" / "mine" / "study.toml").read_text())
    study = (tmp_path / "with" / "studies" / "mine.html").read_text()
    assert f'<a href="../tab.html{address}">Try it here</a>' in study


def test_a_site_is_replaced_whole(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    publish(root, site)
    shutil.rmtree(root / "results" / "other")
    with monkeypatch.context() as failing:
        failing.setattr(publishing, "contents", lambda _folder: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            publish(root, site)
    assert (site / "results/other.html").is_file(), "the old one stays"
    publish(root, site)
    assert not (site / "results/other.html").exists()
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


def test_the_command_says_what_it_left_out(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "results" / "broken").mkdir()
    (root / "results" / "broken" / "manifest.json").write_text("{")
    command(tmp_path / "site", root)
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'site' / 'index.html'}\n"
    assert "not complete, left out: broken" in said.err
    assert "without a report; make it with perigee report: one.zip" in said.err
