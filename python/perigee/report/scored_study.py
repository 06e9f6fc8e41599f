# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Holds a study against its publication: its registered file, and a results folder."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perigee.errors import InputError
from perigee.places import StudyFile, find_study
from perigee.report.beside import BesideStudy
from perigee.scoring.carried_out import CarriedOut, Tables
from perigee.scoring.reading import FILE, published
from perigee.scoring.registered import FILE as REGISTERED
from perigee.scoring.registered import Registered
from perigee.scoring.score import Score, score
from perigee.scoring.study import ScoredStudy
from perigee.store.identity import Identity
from perigee.store.results import Results
from perigee.store.values import sum_of_sums


def scored_study(name: str, results: Path | None = None) -> ScoredStudy:
    """Score a study.

    Args:
        name: its name, folder or file.
        results: its results folder; None: `results/NAME` of the working directory, if it is there.

    Raises:
        InputError: the study has no `published.toml`, or neither results nor a registered file; or a file is wrong.
    """
    study = find_study(name)
    about = published(BesideStudy(study))
    if about is None:
        raise InputError(
            f"{study.path.parent}: has no {FILE}, so nothing was published that could be scored; write one beside "
            "the study, in the form of docs/reference/published.md"
        )
    registered = study.path.parent / REGISTERED
    folder = results or Path("results") / study.head("name")
    scores: dict[str, Score] = {}
    warnings: list[str] = []
    made: dict[str, Mapping[str, Any]] = {}
    if registered.is_file():
        source = Registered(registered)
        scores["registered"], made["registered"] = score(about, source), source.about
    if results is not None or (folder / "manifest.json").is_file():
        found = _results_of(study, folder)
        today = CarriedOut(found, _tables(found))
        scores["today"], made["today"] = score(about, today), _about(found)
        warnings += [f"{folder}: {one}" for one in _differences(study, found)]
        warnings += [f"{FILE}: {one}" for one in today.unknown]
    elif folder.is_dir():
        warnings.append(f"{folder}: has no results, so that nothing of today is scored")
    if not scores:
        raise InputError(
            f"{folder}: no results there, and no {REGISTERED} beside the study; carry it out with "
            f"`perigee run {name} --out {folder}`, or give --results"
        )
    return ScoredStudy(study.head("name"), study.head("title"), about, scores, made, tuple(warnings))


def _results_of(study: StudyFile, folder: Path) -> Results:
    found = Results(folder)
    name = study.head("name")
    if found.study != name:
        raise InputError(f"{folder}: are results of the study {found.study}, not of {name}; give --results DIR")
    if found.manifest["reduced"]:
        raise InputError(f"{folder}: are of the study's reduced size, which no publication is of; carry it out whole")
    return found


def _differences(study: StudyFile, results: Results) -> list[str]:
    """Say how results are not of a study as it is now: its files, its number of rounds, or settings."""
    manifest = results.manifest
    settings = manifest["settings"]
    found = [f"results are with {', '.join(settings)}, not of the study as it stands"] if settings else []
    try:
        now, with_settings = (_identity(study, manifest["engine"], changes) for changes in ((), settings))
    except InputError as error:
        return [*found, f"results are of another {study.path.name}, which cannot be planned as they were: {error}"]
    if with_settings.plan != manifest["study_hash"]:
        found.append(
            f"results are of another {study.path.name}, or a profile, a trace or an algorithm was changed since; "
            f"carry it out again with `perigee run {study.head('name')}`"
        )
    if now.rounds != manifest["rounds"]:
        found.append(f"results are of {manifest['rounds']} rounds, and the study has {now.rounds}")
    return found


def _identity(study: StudyFile, engine_name: str, settings: Sequence[str]) -> Identity:
    """Return what results of a study would be if it were carried out now."""
    from perigee.engines.choice import engine
    from perigee.engines.run.job import Job

    return Job(study, engine(engine_name), settings).identity()


def _tables(results: Results) -> Tables:
    """Return the tables of the report, of which most publications need none: what draws is slow to import."""

    @functools.cache
    def made() -> Tables:
        from perigee.report.report_tables import ReportTables

        return ReportTables(results)

    return lambda experiment, name, columns: made()(experiment, name, columns)


def _about(results: Results) -> dict[str, Any]:
    """Return what made results, as a registered file has it."""
    manifest = results.manifest
    return {
        "study": results.study, "date": manifest["finished"], "version": manifest["versions"]["perigee"],
        "build": manifest["build"], "engine": manifest["engine"], "first_seed": manifest["first_seed"],
        "rounds": manifest["rounds"], "runs": manifest["runs"], "settings": manifest["settings"],
        "study_sha256": manifest["study_hash"], "values_sha256": sum_of_sums(results.value_sums()),
    }  # fmt: skip
