# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`CLAIMS.md` for an artifact committee: each published claim beside its result, and how to check the results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from perigee.files import write_atomically
from perigee.numbers import counted, number, span
from perigee.report.context import Context
from perigee.report.model import Report
from perigee.report.provenance import cited, command_line
from perigee.report.report_tables import ReportTables
from perigee.report.reproduction import error, judged, label, pair, summary
from perigee.scoring.testing import stated
from perigee.store.identity import REDUCED
from perigee.store.points import EXPERIMENT
from perigee.store.results import Results
from perigee.store.values import sum_of_sums

FILE = "CLAIMS.md"
"""Its name in the folder of files."""
NOTHING_BESIDE = (
    "The study has no `published.toml`, so nothing is compared here. That does not mean that nobody has published "
    "numbers: they are withheld until predictions are registered, if the study predicts what others measured."
)


def write(results: Results, report: Report, folder: Path) -> None:
    """Write the page.

    Args:
        results: the results.
        report: their report, whose numbers of tables the page refers to.
        folder: an existing folder.

    Raises:
        StorageError: it cannot be written.
    """
    write_atomically(folder / FILE, claims(results, report).encode())


def claims(results: Results, report: Report) -> str:
    """Return the page as Markdown."""
    context = Context(results, tables=ReportTables(results))
    if context.is_reduced:
        return "\n".join(_of_reduced(results, report)) + "\n"
    lines = [f"# Claims: {_plain(report.title)}", ""]
    if context.published is not None:
        work = f" {cited(context.published.work).text}" if context.published.work else ""
        lines += [_plain(f"Published: {context.published.source.rstrip('.')}.{work}"), ""]
    lines += [f"{_plain(text)}\n" for text in (report.short.answer, *report.short.caveats) if text]
    return "\n".join([*lines, *_claims(context, report), *_made(results), *_tables(results)]).rstrip() + "\n"


def _of_reduced(results: Results, report: Report) -> list[str]:
    """Return what stands in the place of the claims where the runs are of the study's reduced size."""
    whole = command_line({**results.manifest, "reduced": False})
    return [
        f"# Claims: {_plain(report.title)}", "",
        f"**{REDUCED}.** No claim is held against these runs; hold them against those of the whole study:", "",
        "```", whole, "```",
    ]  # fmt: skip


def _claims(context: Context, report: Report) -> list[str]:
    """Return the published numbers and claims, each with its result."""
    published = context.published
    if published is None:
        return [NOTHING_BESIDE, ""]
    places = {table.name: report.number(table) for table in report.tables()}

    def place(name: str, experiment: object) -> str:
        return places.get(f"{experiment}-{name}" if experiment else name, "-")

    numbers, claims_ = judged(context)
    head = [
        "claim",
        "published in",
        "in the report",
        "published",
        context.found,
        "difference",
        "bound",
        "result",
        "fitted",
    ]
    rows = [
        [
            f"{label(context, one)}: {one.value.heading}", one.table.place,
            place(f"published-{one.table.name}", one.cell.get(EXPERIMENT)), *pair(one), error(one),
            f"{100 * one.value.within:g} %", "within" if one.is_met else "outside", _yes(is_so=one.role == "fitted"),
        ]
        for one in numbers
    ]  # fmt: skip
    for one in claims_:
        where = ", ".join(place("claims", name) for name in sorted(one.claim.experiments) or [""])
        row = [one.claim.claim, one.claim.place, where, stated(one.claim), one.verdict.seen, "-", one.claim.kinds]
        rows.append([*row, one.state, _yes(is_so=one.role == "fitted")])
    return ["## Claims", "", summary(context)[0], "", *_markdown(head, rows), ""]


def _made(results: Results) -> list[str]:
    """Return how the results are made: command, time, disk, version."""
    manifest = results.manifest
    began, ended = (datetime.fromisoformat(manifest[key]) for key in ("started", "finished"))
    host, folder = manifest["host"], _folder(results)
    megabytes = sum(about["bytes"] for about in manifest["tables"].values()) / 1e6
    run = [] if results.is_analysis else [command_line(manifest)]
    return [
        "## How to make the results", "",
        "```", *run, f"perigee report {folder} --format html,claims", "```", "",
        f"- Runs: {manifest['runs']}, in {span((ended - began).total_seconds())} on {counted(host['cores'], 'core')} "
        f"({host['system']}, {host['machine']}).",
        f"- Disk: {number(megabytes)} MB of tables.",
        f"- Version: perigee {manifest['versions']['perigee']}, engine {manifest['build']}.",
        f"- SHA-256 of the study and its settings: {manifest['study_hash']}.",
        "",
    ]  # fmt: skip


def _tables(results: Results) -> list[str]:
    """Return the sums of the tables' values."""
    sums = results.value_sums()
    rows = [
        [f"`{name}`", str(results.manifest["tables"][name]["rows"]), f"`{digest}`"] for name, digest in sums.items()
    ]
    same = (
        "The same version, study and seeds give the same values, and these the same sums, whatever writes the files. "
    )
    check = f"`perigee verify {_folder(results)} --sum {sum_of_sums(sums)}` compares the sum of all values."
    text = f"{same if results.manifest['engine'] == 'sim' else ''}{check}"
    return ["## Tables", "", text, "", *_markdown(["table", "rows", "SHA-256 of its values"], rows), ""]


def _folder(results: Results) -> str:
    return f"results/{results.path.resolve().name}"


def _yes(*, is_so: bool) -> str:
    return "yes" if is_so else "no"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    first, *others = ("| " + " | ".join(_plain(cell) for cell in row) + " |" for row in (head, *rows))
    return [first, "|" + "---|" * len(head), *others]


def _plain(text: str) -> str:
    r"""Return a text on one line that neither ends a cell nor begins an element of HTML.

    Examples:
        >>> print(_plain("a | b <c>"))
        a \| b &lt;c>
    """
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")
