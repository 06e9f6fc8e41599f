# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A laboratory as a static site: its results, studies and links as pages that need no server."""

from __future__ import annotations

import contextlib
import glob
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from perigee.engines.links.sampling import sample_profile
from perigee.errors import InputError
from perigee.files import MIB, read_bounded, storage_errors
from perigee.laboratory import tab
from perigee.laboratory.catalogue import Catalogue, Summary
from perigee.laboratory.findings import first_figure, read_findings
from perigee.laboratory.link_pictures import ORBITS, Pictures
from perigee.laboratory.outlook import Outlooks
from perigee.laboratory.own_studies import Studies
from perigee.laboratory.pages import links, studies
from perigee.laboratory.pages.results import FIGURES, contents, zipped
from perigee.laboratory.pages.visit import render
from perigee.laboratory.place import Place
from perigee.laboratory.shelf import Shelf
from perigee.laboratory.site import FILES
from perigee.laboratory.window_curves import LINK, window_curves
from perigee.places import ProfileFile, find_profile
from perigee.report.link_figure import draw_link
from perigee.report.style import styled

MARK = ".perigee-site"
"""A file of each site, by which one is known."""
STYLES = ("look.css", "laboratory.css", "icon.svg")
TITLE = "Results"
DRAWN_S, STEP_S = 60.0, 0.1
"""Duration and step of the drawing of a link, as `perigee profiles draw` has them."""


@dataclass
class Published:
    """The content of a site.

    Attributes:
        results: how many results folders.
        without_report: those that have no report, which were published with their tables only.
        left_out: those that are not complete.
    """

    results: int = 0
    without_report: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def publish(
    root: Path,
    out: Path,
    progress: Callable[[str], None] = lambda _name: None,
    title: str = TITLE,
    about: str = "",
) -> Published:
    """Write a site of a working folder: whole, or not at all. One that is there already is replaced.

    Args:
        root: the working folder, with `results/` and `studies/`; it is only read.
        out: the folder of the site.
        progress: called with the name of each results folder.
        title: headline of the first page.
        about: text below it.

    Raises:
        InputError: there are no results, or `out` is something else than a site.
        StorageError: the site cannot be written.
    """
    place = Place(root)
    if not place.results.is_dir():
        raise InputError(f"{root}: has no folder results/; name the folder in which `perigee run` was called")
    if out.is_symlink() or (out.exists() and not (out / MARK).is_file() and (not out.is_dir() or any(out.iterdir()))):
        raise InputError(f"{out}: exists already, and is no site of `perigee publish`; name a new folder")
    if out.resolve().is_relative_to(place.results.resolve()):
        raise InputError(f"{out}: lies in the results; name a folder elsewhere")
    with storage_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            made.chmod(0o755)
            done = _Writer(made, title, about).write(place, progress)
            _put(made, out)
            _sweep(out)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return done


def _put(made: Path, out: Path) -> None:
    """Move a new site into its place; the old one is gone then."""
    if not out.exists():
        made.rename(out)
        return
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as aside:
        out.rename(Path(aside) / "old")
        try:
            made.rename(out)
        except OSError:
            (Path(aside) / "old").rename(out)
            raise


def _sweep(out: Path) -> None:
    """Remove what was left beside a site by a command that was killed."""
    for left in out.parent.glob(f".{glob.escape(out.name)}.*"):
        if any((each / MARK).is_file() for each in (left, left / "old")):
            shutil.rmtree(left, ignore_errors=True)


class _Writer:
    """Writes the pages of a site into a folder.

    Args:
        folder: an empty one.
        title: headline of the first page.
        about: text below it.
    """

    def __init__(self, folder: Path, title: str, about: str) -> None:
        self._folder = folder
        self._title = title
        self._about = about

    def write(self, place: Place, progress: Callable[[str], None]) -> Published:
        """Write all pages; return what they have."""
        (self._folder / MARK).touch()
        for name in STYLES:
            self._copy(FILES[name][0], f"static/{name}")
        self._links()
        if (page := tab.built()) is not None:
            self._copy(page, file_of(tab.PAGE))
        done = Published()
        labels = place.private / "labels.sqlite"
        catalogue = Catalogue(place.results, labels if labels.is_file() else Path(":memory:"))
        with contextlib.closing(catalogue):
            every = catalogue.all()
            complete = [summary for summary in every if summary.state == "complete"]
            self._studies(Studies(place), complete)
            done.left_out = [summary.name for summary in every if summary.state != "complete"]
            for summary in complete:
                progress(summary.name)
                if not self._result(summary, catalogue.path(summary.name)):
                    done.without_report.append(summary.name)
            self._index(complete, catalogue)
        done.results = len(complete)
        return done

    def _index(self, results: Sequence[Summary], catalogue: Catalogue) -> None:
        folders = {one.name: catalogue.path(one.name) for one in results}
        content = {
            "results": results,
            "findings": {name: read_findings(folder) for name, folder in folders.items()},
            "papers": {name: paper_of(folder) for name, folder in folders.items()},
            "title": self._title,
            "about": self._about,
        }
        for path in ("", "results"):
            self._page(path, "site.html", **content)

    def _studies(self, own: Studies, results: Sequence[Summary]) -> None:
        self._page("studies", "studies.html", cards=Shelf(own).cards(Outlooks(), results), tags=(), chosen="")
        for name in own.names():
            with contextlib.suppress(InputError):
                said = studies.described(own, name, own.get(name))
                self._page(f"studies/{name}", "study.html", error="", last=[], **said)

    def _links(self) -> None:
        profiles = links.listed(Pictures())
        self._page("links", "links.html", orbits=ORBITS, profiles=profiles)
        about = links.described(window_curves(), {})
        self._page("algorithms", "algorithms.html", algorithms=about, kernel={}, link=LINK)
        for name in (each["name"] for each in profiles):
            found = find_profile(name)
            drawn = self._drawing(found, f"links/{name}/drawing.png")
            self._page(f"links/{name}", "link.html", name=name, text=found.text, drawn=drawn, about=links.said(found))

    def _drawing(self, profile: ProfileFile, target: str) -> bool:
        """Draw a profile; whether it can be: one that replays a recording of its user's cannot."""
        try:
            samples = sample_profile(profile, DRAWN_S, STEP_S)
        except InputError:
            return False
        with styled():
            draw_link(samples, links.said(profile)["title"]).savefig(self._place(target), format="png")
        return True

    def _result(self, summary: Summary, folder: Path) -> bool:
        """Write the page of results with all that it links to; whether they have a report."""
        here, content = f"results/{summary.name}", contents(folder)
        found = read_findings(folder)
        if content["has_report"]:
            self._copy(folder / "report.html", f"{here}/report.html")
        if found.has_figure:
            self._place(f"{here}/figure.svg").write_bytes(first_figure(folder))
        for table in content["tables"]:
            file = folder / f"{table['name']}.parquet"
            if not _is_file(file):
                raise InputError(f"{file}: is gone; run the study again, or move {folder.name} out of results/")
            self._copy(file, f"{here}/tables/{file.name}")
        archives = {"figures": folder / FIGURES, "captures": folder / "captures"}
        has = {
            f"has_{what}": self._archive(below, f"{summary.name}-{what}", f"{here}/{what}.zip")
            for what, below in archives.items()
        }
        page = {**content, **has, "has_graphs": False, "has_study": False}
        self._page(here, "result.html", summary=summary, entry=None, state="finished", found=found, **page)
        has_report: bool = content["has_report"]
        return has_report

    def _archive(self, below: Path, name: str, target: str) -> bool:
        if below.is_symlink() or not below.is_dir():
            return False
        files = sorted(path for path in below.rglob("*") if _is_file(path))
        with self._place(target).open("wb") as file:
            file.writelines(zipped([(f"{name}/{path.relative_to(below)}", path) for path in files]))
        return True

    def _page(self, path: str, template: str, **content: Any) -> None:
        """Write a page, whose links lead to the other files of the site."""
        up = "../" * path.count("/")
        text = render(template, person=None, visit=None, said="", at=lambda to="": up + quote(file_of(to)), **content)
        self._place(file_of(path)).write_text(text, encoding="utf-8")

    def _copy(self, source: Path, target: str) -> None:
        shutil.copyfile(source, self._place(target))

    def _place(self, target: str) -> Path:
        path = self._folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


@dataclass(frozen=True)
class Paper:
    """The publication that results stand beside.

    Attributes:
        words: authors, venue and year.
        url: its address.
    """

    words: str
    url: str


def paper_of(folder: Path) -> Paper | None:
    """Return the publication of results, as `published.toml` of their study names it; none where it names no DOI."""
    path = folder / "study" / "published.toml"
    try:
        text = read_bounded(path, MIB, "a file of published results").decode() if _is_file(path) else ""
        content = tomllib.loads(text)
    except (InputError, ValueError):
        return None
    doi, authors = content.get("doi"), content.get("authors")
    if not isinstance(doi, str) or not isinstance(authors, list):
        return None
    first = str(authors[0]).rpartition(" ")[2] if authors else ""
    by = f"{first} et al." if len(authors) > 1 else first
    return Paper(", ".join(filter(None, (by, str(content.get("venue", ""))))), f"https://doi.org/{quote(doi)}")


def file_of(path: str) -> str:
    """Return the file of a site that an address of the laboratory is.

    Examples:
        >>> file_of(""), file_of("results"), file_of("results/a.zip")
        ('index.html', 'results.html', 'results/a.zip.html')
        >>> file_of("results/a/report"), file_of("results/a/captures.zip")
        ('results/a/report.html', 'results/a/captures.zip')
    """
    first, *rest = path.split("/")
    is_file = first == "static" or (len(rest) > 1 and rest[-1] != "report")
    return path if is_file else f"{path or 'index'}.html"


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
