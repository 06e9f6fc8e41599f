# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reports: a finished results folder becomes one self-contained page, and figures and tables for papers.

Files beside the study configure its report: `report.toml` selects, `published.toml` has published results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from perigee.errors import InputError
from perigee.files import storage_errors
from perigee.groups.settings import Choice
from perigee.report.assemble import assemble
from perigee.report.style import Form, styled
from perigee.store.results import Results

MEASURED = 0.4
"""Share of the time of a report before its figures are drawn, roughly."""

PLAIN = Form()
"""The usual form of figures."""

PAGES = (".html", ".htm")
"""Suffixes of the HTML file; a name without one gets the first."""

FORMATS = ("html", "pdf", "png", "csv", "latex", "claims")


def write_report(
    results: Path,
    out: Path | None = None,
    formats: Sequence[str] = ("html",),
    figures: Sequence[Choice] = (),
    experiments: Sequence[str] = (),
    confidence: float | None = None,
    form: Form = PLAIN,
    workers: int | None = None,
    watch: Callable[[float], None] | None = None,
    *,
    reference: str | None = None,
    register: Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the report of a results folder.

    Args:
        results: results folder of `perigee run`.
        out: the HTML file, whose name gets `.html` if it has no suffix; none: `report.html` in the folder, or
            `figures.html` of chosen figures. Other formats go to a folder beside it, named as the file with `-files`
            instead of `.html`.
        formats: any of `FORMATS`.
        figures: figures to write instead of the whole report.
        experiments: the experiments to report on; None: all.
        confidence: level of the confidence intervals; none: that of `report.toml`.
        form: font, width and labels of the figures.
        workers: processes that draw figures of the HTML file; none: as many as suit. The file is the same.
        watch: is given the share of the work that is done, 0 to 1.
        reference: algorithm or group that the others are compared with; none: that of `report.toml`.
        register: a new file for the report's predictions, see `registration.register`; none: it is not written.
        tell: is given a line on each part of `report.toml` that does not suit the results.

    Returns:
        The HTML file, or the folder if no HTML was requested; and the file of predictions.

    Raises:
        InputError: the folder, a format, the suffix of `out`, a choice of figures or experiments, the level, the
            reference, or a file beside the study is wrong.
        StorageError: the report cannot be written.
    """
    from perigee.report import claims, html, paper, registration

    if not formats:
        raise InputError(f"--format: names none; the formats are: {', '.join(FORMATS)}")
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"--format {name}: there is no such format; the formats are: {', '.join(FORMATS)}")
    out = out or results / ("figures.html" if figures else "report.html")
    if out.is_dir():
        raise InputError(f"{out}: is a folder; give the name of an HTML file to write with --out")
    if not out.suffix:
        out = out.with_name(f"{out.name}.html")
    elif "html" in formats and out.suffix.lower() not in PAGES:
        raise InputError(
            f"{out}: --out names the HTML file, such as {out.stem}.html; --format chooses what else there is"
        )
    if register and (figures or experiments or reference or confidence is not None):
        raise InputError(
            "--register: is for the whole report as it stands; leave out --figure, --experiment, --reference and "
            "--confidence"
        )
    say = watch or (lambda _: None)
    with styled(form.font):
        stored = Results(results)
        report = assemble(stored, figures, experiments, confidence, form.labels, reference)
        for aside in report.asides:
            (tell or (lambda _: None))(aside)
        # Before the figures, which take most of the time.
        with storage_errors(out.parent):
            out.parent.mkdir(parents=True, exist_ok=True)
        say(MEASURED)
        written = []
        if "html" in formats:
            html.write(report, out, workers, lambda share: say(MEASURED + (1 - MEASURED) * share))
            written.append(out)
        files = out.with_name(out.stem + "-files")
        others = [name for name in formats if name != "html"]
        if others:
            paper.write(report, files, others, form.width_in)
            if "claims" in others:
                claims.write(stored, report, files)
            written.append(files)
        # Last, since what is written once shall not stand beside a report that failed.
        if register:
            registration.register(stored, report, register)
            written.append(register)
    return written


__all__ = ["FORMATS", "write_report"]
