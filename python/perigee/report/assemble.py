# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Puts a report together: headline, numbers at the head, sections, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import polars as pl

from perigee.errors import InputError
from perigee.groups.settings import Choice, confidence_level
from perigee.numbers import counted, number
from perigee.report import sections
from perigee.report.context import Context
from perigee.report.model import Chapter, Fact, Report, Section, Short
from perigee.report.provenance import citations, made
from perigee.report.report_tables import ReportTables
from perigee.report.short import in_short, with_first_figure, with_first_of
from perigee.store.identity import REDUCED
from perigee.store.outcomes import INCOMPLETE, has_failed
from perigee.store.results import Results


def assemble(
    results: Results,
    figures: Sequence[Choice] = (),
    experiments: Sequence[str] = (),
    confidence: float | None = None,
    labels: Mapping[str, str] = MappingProxyType({}),
    reference: str | None = None,
) -> Report:
    """Make the report of a finished study, or of chosen figures; figures are drawn, no file is written.

    Args:
        results: the results.
        figures: the chosen figures; None: the whole report.
        experiments: the experiments of the report; None: all.
        confidence: level of the confidence intervals; none: that of `report.toml`.
        labels: labels that replace those of `report.toml`.
        reference: algorithm or group that the others are compared with; none: that of `report.toml`.

    Raises:
        InputError: the experiment, level or reference does not exist, or a file beside the study is wrong.
    """
    level = None if confidence is None else confidence_level("--confidence", confidence)
    tables = ReportTables(results)
    context = Context(results, level, labels, _existing(results, reference), tables)
    contexts = [context.of_experiment(name) for name in experiments or results.experiments]
    chapters = [_chapter(one, one.results.experiment, figures) for one in contexts]
    manifest = results.manifest
    flows = results.table("flows")
    rounds = flows["round"].n_unique()
    carried = float(flows["received_bytes"].sum() if "received_bytes" in flows.columns else flows["bytes"].sum())
    amount = f"{number(carried / 1e9, 0 if carried > 1e10 else 2)} GB"
    size = f"{counted(manifest['runs'], 'run')} in {counted(rounds, 'round')}, {amount} carried over the links"
    if results.is_analysis:
        size = f"{counted(flows.height, 'flow')} in the files, {amount} of payload"
    short, parts = (in_short(context, is_whole=False), []) if chapters else _parts(context, figures)
    if not figures:
        short, chapters = with_first_of(short, chapters, context.settings.first)
    asides = [*_missing(context), *(f"{one.results.experiment}: {text}" for one in contexts for text in _missing(one))]
    asides += context.asides + [f"{one.results.experiment}: {text}" for one in contexts for text in one.asides]
    return Report(
        title=context.settings.title or results.title or _name(results),
        question=context.settings.question or results.about,
        facts=_endings(context),
        sections=parts,
        short=short,
        notes=[] if chapters else notes(context),
        made=[*made(context), ("Size", size)],
        citations=citations(context.published, results.manifest["versions"]["perigee"]),
        chapters=chapters,
        banner=REDUCED if context.is_reduced else "",
        asides=list(dict.fromkeys(asides)),
    )


def _name(results: Results) -> str:
    return sections.recorded.title(results) if results.is_analysis else results.study


def _existing(results: Results, reference: str | None) -> str | None:
    """Return the reference that was asked for.

    Raises:
        InputError: no algorithm or group has this name.
    """
    if reference is None:
        return None
    groups = Context(results).all_groups
    if not any(reference in (group.name, group.cc) for group in groups):
        names = ", ".join(dict.fromkeys(group.cc or group.name for group in groups))
        raise InputError(f"--reference {reference}: is not in these results; they have {names}")
    return reference


def _chapter(context: Context, name: str, figures: Sequence[Choice]) -> Chapter:
    short, parts = _parts(context, figures)
    return Chapter(
        name=name,
        title=context.settings.title or context.results.title or name,
        question=context.settings.question or context.results.about,
        short=short,
        notes=notes(context),
        sections=parts,
    )


def _parts(context: Context, figures: Sequence[Choice]) -> tuple[Short, list[Section]]:
    """Return the first screen and the sections below it; chosen figures have no first screen."""
    made = _sections(context, figures)
    if figures:
        return Short(), made
    return with_first_figure(in_short(context), made, is_head=not context.results.experiment)


def _sections(context: Context, figures: Sequence[Choice]) -> list[Section]:
    if not figures:
        return sections.build(context)
    try:
        return [sections.chosen.of(context, figures)]
    except InputError as error:
        if not context.results.experiment:
            raise
        raise InputError(
            f"experiment `{context.results.experiment}`: {error}; --experiment chooses those that are drawn"
        ) from error


def notes(context: Context) -> list[str]:
    """Return the notes on all numbers of a report."""
    if not context.is_one_sample:
        return []
    rounds = context.rows["round"].n_unique()
    return [
        f"All {rounds} rounds gave the same results: nothing random came to bear. They are one sample, so there are no "
        "spreads, no confidence intervals and no tests."
    ]


def _missing(context: Context) -> list[str]:
    """Return asides on settings of `report.toml` that refer to something missing in these results."""
    reference, link = context.settings.reference, context.settings.link
    found = []
    if reference and not any(reference in (group.name, group.cc) for group in context.all_groups):
        names = ", ".join(dict.fromkeys(group.cc or group.name for group in context.all_groups))
        found.append(
            f"the reference of report.toml, {reference}, is not in these results (they have {names}): no tests"
        )
    links: list[str] = []
    if context.results.has("links"):
        links = context.results.table("links")["link"].unique().sort().to_list()
    if link and links and link not in links:
        found.append(f"the link of report.toml, {link}, is not in these results; they have {', '.join(links)}")
    return found


def _endings(context: Context) -> list[Fact]:
    """Return the number of failed flows, and of other incomplete flows."""
    rows = context.rows
    counts = [(has_failed(), "flows failed")]
    counts += [(pl.col("outcome") == name, f"flows were {what}") for name, what in INCOMPLETE.items()]
    if context.results.is_analysis:
        return []
    found = [(rows.filter(condition).height, what) for condition, what in counts]
    return [Fact(f"{count} of {rows.height}", what) for count, what in found if count]
