# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The pages of results: the list with its search, one folder, its report and downloads, and the comparison of two."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from starlette.responses import FileResponse, Response, StreamingResponse

from perigee.errors import InputError
from perigee.laboratory.catalogue import Summary
from perigee.laboratory.entries import Entry
from perigee.laboratory.findings import first_figure
from perigee.laboratory.pages.home import found
from perigee.laboratory.pages.queue import page_of, state_in_words
from perigee.laboratory.pages.visit import Awaited, Laboratory, Visit
from perigee.report.provenance import command_line
from perigee.store.manifest import read_manifest

PAGE = 100
SANDBOX = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Policy of reports: their scripts run in a separate origin, without access to the laboratory."""
OF_REPORT = {"content-security-policy": SANDBOX, "x-frame-options": "SAMEORIGIN"}
PICTURE = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "cache-control": "private, max-age=60",
}
"""Headers of figures that stand in pages as pictures, where no script of theirs runs."""
OVER_TIME = frozenset({"series", "links", "proxies", "events", "segments"})
FIGURES = "report-files"
CHUNK = 1 << 18


def results(visit: Visit) -> Response:
    """List the results that are searched for, of an engine, with a tag, or of a person."""
    chosen = {name: visit.query.get(name, "")[:200] for name in ("q", "engine", "tag", "who")}
    laboratory = visit.laboratory
    entries = laboratory.queue.with_results()
    every = laboratory.catalogue.search(chosen["q"])

    def owner(one: Summary) -> str:
        return entries[one.name].owner if one.name in entries else ""

    shown = [
        one
        for one in every
        if chosen["engine"] in ("", one.engine)
        and (not chosen["tag"] or chosen["tag"] in one.tags)
        and chosen["who"] in ("", owner(one))
    ]
    first = page_of(visit)
    page = shown[first * PAGE : (first + 1) * PAGE]
    return visit.page(
        "results.html",
        rows=[(one, state_of(laboratory, one, entries.get(one.name)), owner(one)) for one in page],
        findings=found(laboratory, page),
        chosen=chosen,
        engines=sorted({one.engine for one in every if one.engine}),
        tags=sorted({tag for one in every for tag in one.tags}),
        people=sorted({owner(one) for one in every} - {""}),
        number=first,
        last=max(len(shown) - 1, 0) // PAGE,
    )


def state_of(laboratory: Laboratory, one: Summary, entry: Entry | None) -> str:
    """Return the state of results in words; those of an entry of the queue have its state."""
    if one.state in ("complete", "damaged"):
        return {"complete": "finished"}.get(one.state, one.state)
    return state_in_words(laboratory, entry) if entry is not None else "not complete"


def result(visit: Visit) -> Response:
    """Show what is in a results folder."""
    name, laboratory = visit.path["name"], visit.laboratory
    summary, folder = laboratory.catalogue.summary(name), laboratory.catalogue.path(name)
    entry = laboratory.queue.of_results(name)
    is_complete = summary.state == "complete"
    return visit.page(
        "result.html",
        summary=summary,
        entry=entry,
        state=state_of(laboratory, summary, entry),
        has_study=summary.study in laboratory.studies.names(),
        found=laboratory.findings.get(folder) if is_complete else None,
        **(contents(folder) if is_complete else {}),
    )


def contents(folder: Path) -> dict[str, Any]:
    """Return what the page of complete results says is in their folder, and what can be taken from it."""
    content = described(folder)
    tables = [one for one in content["tables"] if one["rows"] > 0]
    return {
        "content": content,
        "tables": tables,
        "has_report": _is_file(folder / "report.html"),
        "has_figures": (folder / FIGURES).is_dir(),
        "has_captures": (folder / "captures").is_dir(),
        "has_graphs": any(one["name"] in OVER_TIME for one in tables),
    }


def described(folder: Path) -> dict[str, Any]:
    """Return what the page of complete results shows of them: `facts` and `tables`."""
    manifest = read_manifest(folder)
    versions, host = manifest["versions"], manifest["host"]
    facts = [
        ("Command", command_line(manifest)),
        ("Rounds", manifest["rounds"]),
        ("First seed", manifest["first_seed"]),
        ("Finished", manifest["finished"]),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("Host", f"{host['system']}, {host['machine']}, {host['cores']} cores"),
    ]
    tables = [{"name": name, **about} for name, about in sorted(manifest["tables"].items())]
    return {"facts": facts, "tables": tables}


def label(visit: Visit) -> Response:
    """Change tags and notes."""
    name = visit.laboratory.catalogue.path(visit.path["name"]).name
    tags = visit.given("tags").replace(",", " ").split()
    visit.laboratory.catalogue.label(name, tags, visit.given("notes").strip())
    return visit.go(f"results/{name}", "Saved.")


def report(visit: Visit) -> Response:
    """Return the report."""
    path = visit.laboratory.catalogue.path(visit.path["name"]) / "report.html"
    if not _is_file(path):
        raise InputError("there is no report; make it on the page of the results")
    return FileResponse(path, media_type="text/html", headers=OF_REPORT)


def figure(visit: Visit) -> Response:
    """Return the first figure of the report as a picture."""
    folder = visit.laboratory.catalogue.path(visit.path["name"])
    return Response(first_figure(folder), media_type="image/svg+xml", headers=PICTURE)


def make_report(visit: Visit) -> Awaited:
    """Make the report, or its figures and tables for papers, which takes some seconds."""
    folder = visit.laboratory.catalogue.path(visit.path["name"])
    formats = "html,pdf,png,csv" if visit.given("figures") else "html"
    return Awaited(
        visit.laboratory.commands,
        ("report", str(folder), "--format", formats),
        lambda: visit.go(f"results/{folder.name}", "The report is there."),
    )


def table(visit: Visit) -> Response:
    """Return a table as Parquet or CSV."""
    folder = visit.laboratory.catalogue.path(visit.path["name"])
    found = re.fullmatch(r"([a-z_]+)\.(parquet|csv)", visit.path["file"])
    if found is None or found[1] not in read_manifest(folder).get("tables", {}):
        raise InputError(f"{visit.path['file']}: no such table")
    path = folder / f"{found[1]}.parquet"
    if not _is_file(path):
        raise InputError(f"{path.name}: is gone; run the study again")
    name = f"{folder.name}-{visit.path['file']}"
    if found[2] == "parquet":
        return FileResponse(path, filename=name)
    return StreamingResponse(csv_of(path), media_type="text/csv; charset=utf-8", headers=_download(name))


def csv_of(path: Path) -> Iterator[bytes]:
    """Yield a Parquet file as CSV, some rows at a time."""
    from perigee.store.slices import slices

    for number, part in enumerate(slices(path)):
        yield part.write_csv(include_header=number == 0).encode()


def archive(visit: Visit) -> Response:
    """Return captures, or the figures and tables of the report, as one zip file."""
    folder = visit.laboratory.catalogue.path(visit.path["name"])
    inside = {"captures": "captures", "figures": FIGURES}.get(visit.path["what"])
    below = folder / inside if inside else None
    if below is None or below.is_symlink() or not below.is_dir():
        raise InputError(f"{visit.path['what']}: there is no such thing in these results")
    name = f"{folder.name}-{visit.path['what']}"
    files = sorted(path for path in below.rglob("*") if _is_file(path))
    named = [(f"{name}/{path.relative_to(below)}", path) for path in files]
    return StreamingResponse(zipped(named), media_type="application/zip", headers=_download(f"{name}.zip"))


def zipped(files: Sequence[tuple[str, Path]]) -> Iterator[bytes]:
    """Yield a zip file of files by their names in it, without a copy of it in memory or on the disk.

    Examples:
        >>> whole = b"".join(zipped([("a/licence", Path(__file__))]))
        >>> zipfile.ZipFile(io.BytesIO(whole)).read("a/licence") == Path(__file__).read_bytes()
        True
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in files:
            with path.open("rb") as source, archive.open(name, "w", force_zip64=True) as target:
                while chunk := source.read(CHUNK):
                    target.write(chunk)
                    yield sink.taken()
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def taken(self) -> bytes:
        """Return what was written since, and forget it."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def compare(visit: Visit) -> Response | Awaited:
    """Compare two results, and show the page of it."""
    names = visit.form.get("result", [])
    if len(names) != 2:
        raise InputError(f"{len(names)} results are chosen; choose two of one study")
    catalogue = visit.laboratory.catalogue
    # The earlier results are A.
    names = sorted(names, key=lambda name: catalogue.summary(name).at)
    folders = [catalogue.path(name) for name in names]
    key = hashlib.sha256("\n".join(f"{one} {(one / 'manifest.json').stat().st_mtime_ns}" for one in folders).encode())
    page = visit.laboratory.place.private / "compared" / f"{key.hexdigest()[:32]}.html"
    page.parent.mkdir(exist_ok=True)
    page.with_suffix(".json").write_text(json.dumps(names))
    if page.is_file():
        return visit.go(f"compared/{page.stem}")
    command = ("compare", *map(str, folders), "--out", str(page))
    return Awaited(visit.laboratory.commands, command, lambda: visit.go(f"compared/{page.stem}"))


def compared(visit: Visit) -> Response:
    """Show a comparison below the header of the laboratory."""
    page = _compared(visit)
    return visit.page("compared.html", key=page.stem, names=json.loads(page.with_suffix(".json").read_text()))


def compared_page(visit: Visit) -> Response:
    """Return the page of a comparison alone."""
    return FileResponse(_compared(visit), media_type="text/html", headers=OF_REPORT)


def _compared(visit: Visit) -> Path:
    key = visit.path["key"]
    path = visit.laboratory.place.private / "compared" / f"{key}.html"
    if not re.fullmatch("[0-9a-f]{32}", key) or not path.is_file() or not path.with_suffix(".json").is_file():
        raise InputError("no such comparison; choose two results again")
    return path


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _download(name: str) -> dict[str, str]:
    # The names of folders that are shown have nothing that a header could not hold.
    return {"content-disposition": f'attachment; filename="{name}"'}
