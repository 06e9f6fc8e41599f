# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The congestion control to evaluate, and the studies of criteria it is put into."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.cc.catalog import algorithm_of, built_in
from perigee.engines.plan.contract import Engine
from perigee.engines.plan.native import native_plan
from perigee.engines.run.job import Job
from perigee.evaluation.criterion import Criterion
from perigee.evaluation.further import HORIZON
from perigee.evaluation.tables import CANDIDATES
from perigee.files import TEXT_BYTES, read_bounded
from perigee.places import evaluations, find_study

if TYPE_CHECKING:
    from perigee.evaluation.several import Several
    from perigee.places import StudyFile


SCAVENGERS = ("ledbat_pp",)
"""Algorithms of the catalogue that are meant to yield (RFC 6297)."""


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
        scavenger: whether it is meant to yield to all others, so that what it gets itself is not judged.
        over_quic: whether it, and what stands in its place, runs over QUIC; flows beside it use TCP.
        written: its file as the user named it, for the command that repeats a cell.
    """

    name: str
    title: str
    value: str
    sha256: str = ""
    warnings: str = ""
    scalable: bool = False
    scavenger: bool = False
    over_quic: bool = False
    written: str = ""

    @property
    def transport(self) -> str:
        """The transport of its flows: `tcp` or `quic`."""
        return "quic" if self.over_quic else "tcp"

    @property
    def called(self) -> str:
        """Its name in sentences, with the transport where that is not TCP."""
        return f"{self.name} over QUIC" if self.over_quic else self.name

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
        seed: of all studies.
        horizon_s: length of the long runs, s; 0: they are not asked for.
        several: the evaluations that share their first rounds with this one; none: it is alone.
        cell: the only cell that is measured, in words; empty: all.
        rounds: number of its first rounds, to which those up to the next look are added while it is near its
            threshold; none: the study's.
        limits: the limits of the author's code, by option of the command, where they are not the default ones.
    """

    candidate: Candidate
    chosen: Collection[str]
    quick: bool
    engine: Engine
    workers: int | None = None
    keep: Path | None = None
    fresh: bool = False
    behind_proxy: bool = False
    seed: int = 1
    horizon_s: float = 0.0
    several: Several | None = None
    cell: str = ""
    rounds: int | None = None
    limits: Mapping[str, str] = field(default_factory=dict)

    def job(self, study: StudyFile, settings: Sequence[str], out: Path) -> Job:
        """Return the job of a study with these settings."""
        return Job(study, self.engine, settings, self.quick, out, self.workers, self.fresh)


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
        return Candidate(found.name, found.title, str(path.resolve()), digest, warnings, found.needs_ecn, written=what)
    found = built_in(what)
    return Candidate(what, found.title, what, scalable=found.needs_ecn, scavenger=what in SCAVENGERS)


def study_of(criterion: Criterion) -> StudyFile:
    """Return the study of a criterion."""
    return find_study(str(evaluations() / f"{criterion.study}.toml"))


def fingerprints(criterion: Criterion, *, quick: bool) -> set[str]:
    """Return what tells the points of a criterion's study from others: equal ones have equal runs."""
    return {str(point["fingerprint"]) for point in native_plan(study_of(criterion), [], quick).laid_out()["points"]}


@functools.cache
def share_left_out(criterion: Criterion) -> float:
    """Return the share of a criterion's cells that its reduced study leaves out."""
    part, whole = (fingerprints(criterion, quick=quick) for quick in (True, False))
    return 1 - len(part & whole) / len(whole)


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


def conditions_of(order: Order, criterion: Criterion) -> list[str]:
    """Return the settings that hold for all runs of a criterion: how long the long ones are, and the transport."""
    settings = [f"flow.duration={order.horizon_s:g} s"] if criterion.id == HORIZON and order.horizon_s else []
    if order.candidate.over_quic:
        settings.append(f"{key_of(criterion).removesuffix('cc')}transport=quic")
    return settings
