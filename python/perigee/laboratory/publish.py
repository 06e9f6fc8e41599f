# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A laboratory as a static site: the page with its results, studies and links in files beside it, without a server."""

from __future__ import annotations

import contextlib
import glob
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perigee.cc import catalog
from perigee.errors import InputError
from perigee.files import storage_errors
from perigee.laboratory import page, site_graphs
from perigee.laboratory.api import links, studies
from perigee.laboratory.api.results import contents, described
from perigee.laboratory.catalogue import Catalogue, Summary
from perigee.laboratory.findings import Known, first_figure
from perigee.laboratory.link_samples import ORBITS, Glances
from perigee.laboratory.outlook import Outlooks
from perigee.laboratory.own_studies import Studies
from perigee.laboratory.place import Place
from perigee.laboratory.result_files import archived, report_of, table_of, without_scripts
from perigee.laboratory.shelf import Shelf
from perigee.standing.running import kept_in
from perigee.version import __version__

MARK = ".perigee-site"
"""A file of each site, by which one is known."""
TITLE = "Results"


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
    page.check()
    place = Place(root)
    if not place.results.is_dir() and kept_in(root) is None:
        raise InputError(
            f"{root}: has no folder results/ and no standing; name the folder in which `perigee run` or "
            "`perigee cc standing` was called"
        )
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
    """Writes a site into a folder: the page, and beside it data files and the files of results.

    Args:
        folder: an empty one.
        title: headline of the first page.
        about: text below it.
    """

    def __init__(self, folder: Path, title: str, about: str) -> None:
        self._folder = folder
        self._about = about
        self._me = {"version": __version__, "title": title, "about": about}

    def write(self, place: Place, progress: Callable[[str], None]) -> Published:
        """Write all; return what the site has."""
        (self._folder / MARK).touch()
        self._place("index.html").write_text(page.page("beside"), encoding="utf-8")
        self._data("me", self._me)
        self._links(kept_in(place.root))
        done, own = Published(), Studies(place)
        labels = place.private / "labels.sqlite"
        catalogue = Catalogue(place.results, labels if labels.is_file() else Path(":memory:"))
        with contextlib.closing(catalogue):
            every = catalogue.all() if place.results.is_dir() else []
            complete = [summary for summary in every if summary.state == "complete"]
            done.left_out = [summary.name for summary in every if summary.state != "complete"]
            self._studies(own, complete)
            listed = []
            for summary in complete:
                progress(summary.name)
                one = self._result(summary, catalogue.path(summary.name), has_study=summary.study in own.names())
                listed.append({name: value for name, value in one.items() if name != "contents"})
                if not one["contents"]["has_report"]:
                    done.without_report.append(summary.name)
        self._data("results", self._list(listed))
        done.results = len(complete)
        return done

    def _list(self, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {
            "results": results,
            "count": len(results),
            "page": 0,
            "pages": 1,
            "engines": sorted({one["engine"] for one in results}),
            "tags": sorted({tag for one in results for tag in one["tags"]}),
            "people": [],
            "about": self._about,
        }

    def _studies(self, own: Studies, results: Sequence[Summary]) -> None:
        outlooks = Outlooks()
        self._data("studies", studies.listed(Shelf(own).cards(outlooks, results)))
        for name in own.names():
            with contextlib.suppress(InputError):
                last = [studies.said_of(one) for one in results if one.study == name][: studies.LAST]
                said = studies.described(own, outlooks, name, own.get(name))
                self._data(f"studies/{name}", {**said, "given": [], "last": last, "stamp": ""})

    def _links(self, standing: dict[str, Any] | None) -> None:
        listed = Glances().listed()
        self._data("links", {"orbits": ORBITS, "links": listed})
        for name in (each["name"] for each in listed):
            self._data(f"links/{name}", links.link_of(name))
        algorithms = catalog.algorithms()
        described = [links.described(one, {}) for one in algorithms]
        self._data("algorithms", {"kernel": None, "algorithms": described, "standing": standing is not None})
        if standing is not None:
            self._data("standing", standing)
        for one in algorithms:
            self._data(f"algorithms/{one.name}", links.algorithm_of(one.name))

    def _result(self, summary: Summary, folder: Path, *, has_study: bool) -> dict[str, Any]:
        """Write results with all that one can take from them; return what the site says of them."""
        here, content, found = f"results/{summary.name}", contents(folder), Known().get(folder)
        if content["has_report"]:
            with self._place(f"files/{here}/report.html").open("wb") as file:
                file.writelines(report_of(folder))
        figure = without_scripts(first_figure(folder)) if found.has_figure else None
        if figure is not None:
            self._place(f"files/{here}/figure.svg").write_bytes(figure)
        found = replace(found, has_figure=figure is not None)
        for table in content["tables"]:
            path = table_of(folder, table["name"])
            self._copy(path, f"files/{here}/tables/{path.name}")
        for what in ("figures", "captures"):
            if content[f"has_{what}"]:
                _, parts = archived(folder, what)
                with self._place(f"files/{here}/{what}.zip").open("wb") as file:
                    file.writelines(parts)
        menu = site_graphs.written(folder, lambda run, drawn: self._data(f"{here}/graph/{run}", drawn))
        if menu is not None:
            self._data(f"{here}/graphs", menu)
        one = {
            **described(summary, found),
            "has_study": has_study,
            "contents": {**content, "has_graphs": menu is not None},
        }
        self._data(here, one)
        return one

    def _data(self, path: str, content: object) -> int:
        """Write a file that gives the page what it reads under a path; return its size."""
        text = f"perigeeData({json.dumps(path)}, {json.dumps(content, separators=(',', ':'))});\n"
        return self._place(f"data/{path}.js").write_text(text, encoding="utf-8")

    def _copy(self, source: Path, target: str) -> None:
        shutil.copyfile(source, self._place(target))

    def _place(self, target: str) -> Path:
        path = self._folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
