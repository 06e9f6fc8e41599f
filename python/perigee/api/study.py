# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Studies: read or made, changed, and carried out."""

from __future__ import annotations

import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perigee import toml
from perigee.api.names import python_words
from perigee.core import native
from perigee.errors import InputError, PerigeeError
from perigee.numbers import counted
from perigee.places import StudyFile, data_roots, find_study

if TYPE_CHECKING:
    import polars as pl

    from perigee.api.results import Results
    from perigee.store.points import Points

Progress = Callable[[float, int], object]
"""Called with the runs done so far (parts of runs count) and the number of all runs."""

_LOG = logging.getLogger("perigee")


def run(study: str | Path, **settings: Any) -> Results:
    """Carry out a study by its name or file, and return its results: `Study.load(study).run(...)`.

    Args:
        study: its name in `studies/`, its folder, or its TOML file.
        settings: what `Study.run` takes.

    Examples:
        >>> with run("claypool-2021", reduced=True) as results:
        ...     results.study
        'claypool-2021'
    """
    return Study.load(study).run(**settings)


@dataclass(frozen=True, repr=False)
class Study:
    """A study, with what was changed in it. It never changes itself: `set` and `vary` return another one.

    Make one with `Study.load`, `Study.from_toml` or `Study.from_dict`.

    Attributes:
        file: the study file: its text, and where its profiles and recordings are looked for.
        settings: what was changed, as `perigee run --set` takes it, in order.

    Examples:
        >>> study = Study.load("claypool-2021").set("flow.size", "2 MB").set("rounds", 1)
        >>> study
        <Study claypool-2021: flow.size=2 MB, rounds=1>
    """

    file: StudyFile
    settings: tuple[str, ...] = ()

    @classmethod
    def load(cls, name_or_path: str | Path) -> Study:
        """Return the study of this name in `studies/`, in this folder, or in this TOML file.

        Raises:
            InputError: there is none, or it cannot be read.
        """
        return cls(find_study(str(name_or_path)))

    @classmethod
    def from_toml(cls, text: str, folder: str | Path = ".") -> Study:
        """Return the study that a text describes.

        Args:
            text: what a `study.toml` holds; see `docs/reference/study.md`.
            folder: where the profiles, recordings and congestion controls are that it names by relative paths.
        """
        path = Path(folder) / "<toml>"
        return cls(StudyFile(path, text, tuple(dict.fromkeys((path.parent, *data_roots())))))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], folder: str | Path = ".") -> Study:
        """Return the study that a table describes, with the keys of a `study.toml`.

        Args:
            content: text, numbers, switches, lists and tables of them. Quantities are text with their unit.
            folder: where the profiles, recordings and congestion controls are that it names by relative paths.

        Raises:
            InputError: a value is of another type.

        Examples:
            >>> link = {"name": "sat", "between": ["server", "dish"], "profile": "geo"}
            >>> flow = {"name": "main", "from": "server", "to": "dish", "size": "1 MB"}
            >>> content = {"name": "a", "nodes": ["server", "dish"], "links": [link], "flows": [flow]}
            >>> study = Study.from_dict(content)
            >>> len(study.points())
            1
        """
        return cls.from_toml(toml.document(content), folder)

    @property
    def name(self) -> str:
        """Its name; empty where it has none."""
        return self.file.head("name").strip()

    @property
    def title(self) -> str:
        """The title, in a line; empty where it has none."""
        return self.file.head("title").strip()

    @property
    def about(self) -> str:
        """Its question, and the source of its numbers; empty where it does not say."""
        return self.file.head("about").strip()

    def set(self, key: str | Mapping[str, object], value: object = None) -> Study:
        """Return the study with a value changed, as `perigee run --set` does, or with several.

        Args:
            key: a key path: `flow.cc`, `flows.NAME.size`, `links.NAME.loss`, `hosts.rmem`, `measure.series`, `rounds`.
                A key that varies does so no more. Or several with their values, which are checked together.
            value: text, a path, a number, a switch, a list or a table. The path of a congestion control is relative to
                the working directory.

        Raises:
            InputError: there is no such key, or it does not take the value.

        Examples:
            >>> Study.load("claypool-2021").set({"flow.size": "2 MB", "rounds": 1}).settings
            ('flow.size=2 MB', 'rounds=1')
            >>> Study.load("claypool-2021").set("flow.size", 10e6)
            Traceback (most recent call last):
            ...
            perigee.errors.InputError: flow.size=10000000.0: `flows.size`: `10000000` has no unit; write \
"10000000 B"
        """
        pairs = dict(key) if isinstance(key, Mapping) else {key: value}
        settings = tuple(f"{_key(name)}={toml.setting(one, name)}" for name, one in pairs.items())
        changed = replace(self, settings=(*self.settings, *settings))
        changed._check(settings)
        return changed

    def vary(self, key: str, values: Iterable[object]) -> Study:
        """Return the study with a key that takes each of these values, as `perigee run --vary` does.

        What varied the key before does so no more. Several keys that vary make every combination.

        Raises:
            InputError: there is no value, or one is of another type.

        Examples:
            >>> study = Study.load("claypool-2021").vary("flow.cc", ["cubic", "bbr"])
            >>> study.points()["point.cc"].to_list()
            ['cubic', 'bbr']
        """
        return self._with(f"vary.{_key(key)}={_list(key, values)}")

    def also(self, key: str, values: Iterable[object]) -> Study:
        """Return the study with values added to those that a key takes already, as `perigee run --also` does.

        Raises:
            InputError: there is no value, or one is of another type.

        Examples:
            >>> study = Study.load("claypool-2021").vary("flow.cc", ["cubic"]).also("flow.cc", ["vegas"])
            >>> study.points()["point.cc"].to_list()
            ['cubic', 'vegas']
        """
        return self._with(f"vary.{_key(key)}=+{_list(key, values)}")

    def points(self, *, reduced: bool = False) -> pl.DataFrame:
        """Return what the runs of a round are: `run`, and a column for each key that varies; nothing is run.

        Raises:
            InputError: the study or a setting is wrong; the message names line and fix.
        """
        return self.laid_out(reduced=reduced).table

    def laid_out(self, *, reduced: bool = False) -> Points:
        """Return the same with the unit of each column; see `perigee.store.points`.

        Raises:
            InputError: the study or a setting is wrong; the message names line and fix.
        """
        import polars as pl

        from perigee.engines.plan.native import native_plan
        from perigee.store.points import points_of

        with python_words():
            plan = native_plan(self.file, self.settings, reduced)
        points = [json.dumps(point["point"]) for point in plan.laid_out()["points"]]
        return points_of(pl.DataFrame({"run": range(len(points)), "point": points}))

    def run(
        self,
        engine: str = "sim",
        jobs: int | None = None,
        out: str | Path | None = None,
        progress: Progress | bool | None = None,
        reduced: bool = False,
    ) -> Results:
        """Carry it out, and return its results.

        Args:
            engine: `sim`: simulated; `emu`: real TCP over emulated links, in real time, as root; `live`: between real
                hosts.
            jobs: how many runs at a time; none: as many as there are cores.
            out: the results folder. One that has runs of the same study and settings already is continued. None: a
                temporary folder, which is removed when the results are closed, or with the process.
            progress: called now and then with the runs done so far (parts count) and the number of all. True: they are
                printed on the error stream.
            reduced: take the small size that the study declares.

        Raises:
            InputError: the study, a setting or the folder is wrong; nothing was run.
            RunError: a run failed.
            StorageError: the results cannot be written.
            InterruptedRunError: Ctrl-C; the runs that were done are kept in `out`.

        Examples:
            >>> study = Study.load("claypool-2021").set("rounds", 1).set("flow.size", "1 MB")
            >>> with study.vary("flow.cc", ["cubic", "hybla"]).run() as results:
            ...     results.flows["point.cc"].to_list()
            ['cubic', 'hybla']
        """
        from perigee.api.results import Results
        from perigee.engines import choice
        from perigee.engines.run.job import Job
        from perigee.engines.run.runner import carry_out

        def watch(done: float, total: int, /, outlook: tuple[str, float | None] | None = None) -> None:
            if callable(progress):
                progress(done, total)
            elif progress:
                ends = "\n" if done >= total else ""
                print(f"\r{self.name}: {int(done)} of {counted(total, 'run')}", end=ends, file=sys.stderr, flush=True)

        temporary = None
        if out is None:
            temporary = Path(tempfile.mkdtemp(prefix=native.scratch_prefix("results")))
        folder = Path(out) if out is not None else Path(str(temporary)) / "results"
        try:
            with python_words():
                job = Job(self.file, choice.engine(engine, _LOG.warning), self.settings, reduced, folder, jobs)
                done = carry_out(job, watch, _LOG.warning)
            if done.warnings:
                _LOG.warning("%s", done.warnings.rstrip())
            return Results(folder, temporary=temporary)
        except BaseException:
            if temporary:
                shutil.rmtree(temporary, ignore_errors=True)
            raise

    def _check(self, settings: Sequence[str]) -> None:
        """Refuse settings that are wrong by themselves: beside the earlier ones, and in the study as it stands."""
        from perigee.engines.plan.native import native_plan

        for chosen in (self.settings, settings):
            try:
                native_plan(self.file, chosen, False)
            except InputError as error:
                # Other errors of the study may go with later settings.
                if not str(error).startswith(tuple(f"--set {one}" for one in settings)):
                    return
                found = error
            else:
                return
        with python_words():
            raise found

    def __repr__(self) -> str:
        changed = f": {', '.join(self.settings)}" if self.settings else ""
        return f"<Study {self.name or self.file.path}{changed}>"

    def _with(self, setting: str) -> Study:
        return replace(self, settings=(*self.settings, setting))

    def _repr_html_(self) -> str:
        from perigee.api.notebook import frame_html, heading, paragraph

        parts = [heading("Study", self.name, self.title), paragraph(self.about)]
        if self.settings:
            parts.append(paragraph(f"Changed: {'; '.join(self.settings)}"))
        try:
            points = self.laid_out()
        except PerigeeError as error:
            parts.append(paragraph(f"error: {error}"))
        else:
            shown = points.table.drop("run").rename({key: f"{key} ({unit})" for key, unit in points.units.items()})
            parts += [paragraph(counted(points.table.height, "point")), frame_html(shown) if shown.width else ""]
        return "".join(parts)


def _key(key: str) -> str:
    if not key.strip() or "=" in key:
        raise InputError(f"{key!r}: is no key path; write for example flow.cc")
    return key.strip()


def _list(key: str, values: Iterable[object]) -> str:
    if isinstance(values, str):
        raise InputError(f"{key}: {values!r} is one value; give a list")
    texts = [toml.setting(value, key) for value in values]
    if not texts:
        raise InputError(f"{key}: the list of values is empty; give one or more")
    return ",".join(texts)
