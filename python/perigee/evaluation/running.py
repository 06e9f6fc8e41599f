# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs the studies of criteria with a candidate put in."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.cc.catalog import algorithm_of, algorithms
from perigee.core import native
from perigee.engines.plan.contract import Engine
from perigee.engines.run.crew import Watch
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.errors import InputError
from perigee.evaluation.criteria import CRITERIA
from perigee.evaluation.criterion import HUMAN, Criterion
from perigee.evaluation.judging import Finding, judge, not_measured, worst
from perigee.evaluation.proxied import LEFT_OUT, behind_proxy
from perigee.evaluation.tables import CANDIDATES, Tables
from perigee.files import TEXT_BYTES, read_bounded
from perigee.names import suggestion
from perigee.places import evaluations, find_study
from perigee.store.results import Results

if TYPE_CHECKING:
    from perigee.places import StudyFile

NOT_CHOSEN = "It was not chosen (--criterion)."


@dataclass(frozen=True)
class Candidate:
    """The congestion control to evaluate.

    Attributes:
        name: its name.
        title: what it is.
        value: how studies name it: its name, or the absolute path of its file.
        sha256: digest of its file; empty where it is built in.
        warnings: what the compiler warned of.
        scalable: whether it needs ECN, so that its packets may carry ECT(1).
    """

    name: str
    title: str
    value: str
    sha256: str = ""
    warnings: str = ""
    scalable: bool = False

    @property
    def label(self) -> str:
        """Its name beside the references, which may have the name of an author's file."""
        return f"{self.name} (own)" if self.sha256 else self.name


@dataclass(frozen=True)
class Order:
    """The algorithm to evaluate, and the settings of the evaluation.

    Attributes:
        candidate: the congestion control.
        chosen: ids of criteria; empty: all.
        quick: whether the studies have their reduced sizes.
        engine: what carries the studies out.
        workers: number of concurrent runs; none: one per core.
        keep: folder for the results of the studies; none: a temporary one.
        fresh: whether results in it are replaced.
        behind_proxy: whether each study is also run behind a splitting proxy.
    """

    candidate: Candidate
    chosen: Collection[str]
    quick: bool
    engine: Engine
    workers: int | None = None
    keep: Path | None = None
    fresh: bool = False
    behind_proxy: bool = False


def candidate(what: str) -> Candidate:
    """Return a congestion control by its name, or by its C file, which is compiled.

    Raises:
        InputError: there is no such congestion control.
    """
    if "/" in what or what.endswith(".c"):
        path = Path(what)
        found, warnings = algorithm_of(path)
        content = read_bounded(path, TEXT_BYTES, "a congestion control")
        digest = hashlib.sha256(content).hexdigest()
        return Candidate(found.name, found.title, str(path.resolve()), digest, warnings, found.needs_ecn)
    known = {one.name: one for one in algorithms()}
    if what not in known:
        raise InputError(f"{what}: there is no such congestion control", suggestion(what, known))
    return Candidate(what, known[what].title, what, scalable=known[what].needs_ecn)


def choose(ids: Collection[str]) -> tuple[str, ...]:
    """Return ids of criteria, checked, each once.

    Raises:
        InputError: there is no such criterion, or nothing measures it.

    Examples:
        >>> choose(["7.5", "5.1.1", "7.5"])
        ('7.5', '5.1.1')
    """
    known = {criterion.id: criterion for criterion in CRITERIA}
    for one in ids:
        if one not in known:
            listed = ", ".join(known)
            raise InputError(f"--criterion {one}: RFC 9743 has no such criterion; the criteria are: {listed}")
        if not known[one].study:
            raise InputError(f"--criterion {one}: it is not measured: {known[one].reason}")
    return tuple(dict.fromkeys(ids))


def evaluate(
    order: Order,
    bar: Callable[[str], AbstractContextManager[Watch]],
    say: Callable[[str], None],
) -> list[Finding]:
    """Run the studies of the chosen criteria and judge them; every criterion has a finding.

    Args:
        order: what to evaluate.
        bar: shows the progress of one study, whose title it is given.
        say: prints a note.

    Raises:
        InputError: the candidate cannot be run, or the folder has something else in it.
        RunError: a run failed, as where the candidate crashes.
        StorageError: the results cannot be written.
        InterruptedRunError: the user stopped it.
    """
    findings: list[Finding] = []
    with results_folder(order.keep) as folder:
        for criterion in CRITERIA:
            if order.chosen and criterion.id not in order.chosen:
                findings.append(not_measured(criterion, HUMAN if criterion.reason == HUMAN else NOT_CHOSEN))
            elif criterion.follows:
                findings.append(_following(criterion, findings))
            elif not criterion.study:
                findings.append(not_measured(criterion, criterion.reason))
            else:
                with bar(f"{criterion.id} {criterion.title}") as watch:
                    results = _run(order, criterion, folder / criterion.id, watch, say)
                found = judge(criterion, _tables(order, criterion, results), subject_of(order, criterion))
                if order.behind_proxy:
                    found = dataclasses.replace(found, behind=_behind(order, criterion, folder, bar, say))
                findings.append(found)
    return findings


def subject_of(order: Order, criterion: Criterion) -> str:
    """Return the candidate's name in figures; a reference has one name only, and is compared with itself."""
    value = order.candidate.value
    return value if value in references(criterion) else order.candidate.label


def _tables(order: Order, criterion: Criterion, results: Results, *, behind_proxy: bool = False) -> Tables:
    return Tables(results, {order.candidate.value: subject_of(order, criterion)}, behind_proxy=behind_proxy)


def _behind(
    order: Order,
    criterion: Criterion,
    folder: Path,
    bar: Callable[[str], AbstractContextManager[Watch]],
    say: Callable[[str], None],
) -> Finding:
    """Return the verdict behind a proxy that uses the candidate."""
    if criterion.id in LEFT_OUT:
        return not_measured(criterion, LEFT_OUT[criterion.id])
    values = list(dict.fromkeys([*references(criterion), order.candidate.value]))
    study = behind_proxy(criterion, study_of(criterion), key_of(criterion), values)
    settings, out = experiments_of(order, criterion), folder / "behind-proxy" / criterion.id
    job = Job(study, order.engine, settings, order.quick, out, order.workers, order.fresh)
    with bar(f"{criterion.id} behind a proxy") as watch:
        carry_out(job, watch, say)
    tables = _tables(order, criterion, Results(job.folder.path), behind_proxy=True)
    return judge(criterion, tables, subject_of(order, criterion))


def _following(criterion: Criterion, findings: Sequence[Finding]) -> Finding:
    """Return the worst verdict of the criteria from which this one follows."""
    return Finding(
        criterion, worst(one.verdict for one in findings if one.criterion.id in criterion.follows), criterion.reason
    )


def study_of(criterion: Criterion) -> StudyFile:
    """Return the study of a criterion."""
    return find_study(str(evaluations() / f"{criterion.study}.toml"))


def references(criterion: Criterion) -> list[str]:
    """Return the congestion controls that the study of a criterion runs in any case, to compare with."""
    return list(study_of(criterion).content["vary"][key_of(criterion)])


def key_of(criterion: Criterion) -> str:
    """Return the key that puts a congestion control into the study of a criterion."""
    return next(key for key in CANDIDATES if key in study_of(criterion).content["vary"])


def experiments_of(order: Order, criterion: Criterion) -> list[str]:
    """Return the setting that leaves out of a study what only scalable congestion controls are run in."""
    if not criterion.scalable or order.candidate.scalable:
        return []
    names = [one["name"] for one in study_of(criterion).content["experiments"] if one["name"] != criterion.scalable]
    return [f"experiments={','.join(names)}"]


def _run(order: Order, criterion: Criterion, folder: Path, watch: Watch, say: Callable[[str], None]) -> Results:
    study = study_of(criterion)
    settings = experiments_of(order, criterion)
    if order.candidate.value not in references(criterion):
        settings.append(f"vary.{key_of(criterion)}=+{order.candidate.value}")
    job = Job(study, order.engine, settings, order.quick, folder, order.workers, order.fresh)
    carry_out(job, watch, say)
    return Results(folder)


@contextlib.contextmanager
def results_folder(keep: Path | None) -> Iterator[Path]:
    """Return the folder for results: the one to keep, else one that is removed at the end."""
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix=native.scratch_prefix("evaluation")) as temporary:
        yield Path(temporary)
