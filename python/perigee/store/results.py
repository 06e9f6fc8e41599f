# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A finished results folder, read: checked against its manifest, tables as data frames."""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from perigee.errors import InputError
from perigee.files import MIB, read_bounded, sha256_of
from perigee.places import COMPANIONS
from perigee.store.manifest import read_manifest
from perigee.store.points import EXPERIMENT, PREFIX, Points, points_of, without_experiment
from perigee.store.room import check_room
from perigee.store.schema import empty_table
from perigee.store.shard_names import shards_in

STUDY_FILE_BYTES = 64 * MIB
"""Largest file in `study/`: the links of a study with many of them, in words, are the longest."""


def experiments_in(study: Mapping[str, Any]) -> list[str]:
    """Return the names of the experiments of a study file.

    Examples:
        >>> experiments_in({"experiments": [{"name": "alone"}, {"name": "spike"}]})
        ['alone', 'spike']
    """
    listed = study.get("experiments")
    names = (one.get("name") for one in (listed if isinstance(listed, list) else []) if isinstance(one, dict))
    return [name for name in names if isinstance(name, str)]


class Results:
    """The tables of a finished study.

    Args:
        path: the folder that `perigee run` made.
        check: whether all files are compared with their checksums, which reads them, and there have to be flows.

    Attributes:
        path: the folder.
        manifest: what `manifest.json` says.
        experiment: the experiment that these are the results of; empty: of the whole study.

    Raises:
        InputError: the folder is not perigee's, not finished, or damaged.
    """

    experiment: str = ""

    def __init__(self, path: Path, *, check: bool = True) -> None:
        self.path = path
        self._kept: dict[str, pl.DataFrame] = {}
        self._ends: dict[str, pl.DataFrame] = {}
        self.manifest: dict[str, Any] = read_manifest(path)
        if self.manifest["state"] != "complete":
            done = len(shards_in(path / "shards"))
            raise InputError(
                f"{path}: not finished ({done} of {self.manifest['runs']} runs); give the same `perigee run` command "
                "again to go on"
            )
        if not check:
            return
        for name, about in self.manifest["tables"].items():
            self._check(path / f"{name}.parquet", about["sha256"])
        for name, sha256 in self.manifest["study_files"].items():
            if name not in COMPANIONS:
                self._check(path / "study" / name, sha256)
        if self.table("flows").is_empty():
            raise InputError(f"{path}: the study has no flows, so there is nothing to report; run one that has")

    @property
    def study(self) -> str:
        """The study's name."""
        return str(self.manifest["study"])

    @property
    def title(self) -> str:
        """The study's title; empty where it has none."""
        return self._said("title")

    @property
    def about(self) -> str:
        """The study's description of itself, in one paragraph; empty where it has none."""
        return self._said("about")

    def _said(self, key: str) -> str:
        text = self._declared().get(key, "")
        return " ".join(text.split()) if isinstance(text, str) else ""

    def _declared(self) -> dict[str, Any]:
        """Return the study file, or a campaign's manifest, as tables; empty where it cannot be read."""
        kept = self.file("study.toml") or self.file("campaign.toml")
        try:
            return tomllib.loads(kept[1]) if kept else {}
        except (ValueError, RecursionError):
            return {}

    @property
    def is_analysis(self) -> bool:
        """Whether the results were measured from files that others wrote, not carried out by an engine."""
        return bool(self.manifest["engine"] == "capture")

    def table(self, name: str) -> pl.DataFrame:
        """Return a table, with flows from end to end; one without rows where the study did not write it."""
        return self._end_to_end(name).clone()

    def _end_to_end(self, name: str) -> pl.DataFrame:
        if name not in self._ends:
            table = self._read(name)
            whole = table.filter(pl.col("leg").is_null()).drop("leg") if "leg" in table.columns else table
            self._ends[name] = whole
        return self._ends[name]

    def legs(self, name: str) -> pl.DataFrame:
        """Return the rows of a table for the legs of flows that proxies split; without rows where there are none."""
        table = self._read(name)
        return table.filter(pl.col("leg").is_not_null()) if "leg" in table.columns else table.clear()

    def _read(self, name: str) -> pl.DataFrame:
        if name not in self._kept:
            self._kept[name] = self._loaded(name)
        return self._kept[name]

    def _loaded(self, name: str) -> pl.DataFrame:
        if name not in self.manifest["tables"]:
            return empty_table(name)
        # Opened here: polars takes names of files in UTF-8 only.
        path = self.path / f"{name}.parquet"
        check_room(path)
        with path.open("rb") as file:
            return pl.read_parquet(file)

    def has(self, name: str) -> bool:
        """Whether a table is there and has rows."""
        return not self._read(name).is_empty()

    def value_sums(self) -> dict[str, str]:
        """Return the sums of the values of all tables that have rows, see `perigee.store.values`.

        Raises:
            InputError: a table cannot be read.
        """
        from perigee.store.values import table_sum

        there = [name for name, about in sorted(self.manifest["tables"].items()) if about["rows"]]
        return {name: table_sum(self.path / f"{name}.parquet", name) for name in there}

    @functools.cached_property
    def points(self) -> Points:
        """The values that vary between the runs, as typed columns."""
        return points_of(self._read("flows"))

    @functools.cached_property
    def experiments(self) -> tuple[str, ...]:
        """The names of the experiments of the study, in its order; empty where it has none."""
        columns = (column for column in self.points.columns if column.key == EXPERIMENT)
        return tuple(text for column in columns for text in column.texts)

    def declared_experiments(self) -> list[str]:
        """Return the names of all experiments that the study has, whether they were carried out or not."""
        return experiments_in(self._declared())

    def of_experiment(self, name: str) -> Results:
        """Return the results of one experiment alone, as if it had been a study.

        Raises:
            InputError: the study has no such experiment.
        """
        if name not in self.experiments:
            there = f"; the experiments are: {', '.join(self.experiments)}" if self.experiments else ", and no other"
            raise InputError(f"{self.path}: there is no experiment `{name}`{there}")
        return _OfExperiment(self, name)

    @property
    def whole(self) -> Results:
        """The results of the whole study, of which these may be those of one experiment."""
        return self

    def with_points(self, name: str) -> pl.DataFrame:
        """Return a table with the columns of `points` added; one without rows where the study did not write it."""
        return self.points.join(self.table(name))

    def file(self, name: str) -> tuple[Path, str] | None:
        """Return a file that was kept with the results from beside the study, and its text.

        Those of `COMPANIONS` may have been changed since, or added: they say only how results are shown.

        Raises:
            InputError: it cannot be read as text.
        """
        path = self.path / "study" / name
        if name not in {*self.manifest["study_files"], *COMPANIONS} or not path.is_file():
            return None
        try:
            return path, read_bounded(path, STUDY_FILE_BYTES, "a file of results").decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not a text file (byte {error.start} is no UTF-8); save it as UTF-8") from error

    def authored(self) -> list[tuple[str, str]]:
        """Return the files of authors' congestion controls that the runs were made with, and their texts."""
        files = [self.path / "study" / name for name in sorted(self.manifest["study_files"]) if name.endswith(".c")]
        texts = (read_bounded(path, STUDY_FILE_BYTES, "a file of results") for path in files)
        return [(path.name, text.decode("utf-8", errors="replace")) for path, text in zip(files, texts, strict=True)]

    def setup(self) -> dict[str, Any]:
        """Return links, hosts and flows of the first run in words, as the engine resolved them, and the networks."""
        kept = self.file("setup.json")
        return json.loads(kept[1]) if kept else {}

    def files(self) -> list[dict[str, Any]]:
        """Return of each file that was analysed its `name`, `kind`, `notes` and `began_s`; nothing of a study.

        Those of a campaign have their `run`, `round`, `flow`, time (`began_unix_s`) and all their `parts`, too.
        """
        kept = self.file("files.json")
        return json.loads(kept[1]) if kept else []

    @staticmethod
    def _check(path: Path, sha256: str) -> None:
        try:
            found = sha256_of(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}; run the study again with --fresh") from error
        if found != sha256:
            raise InputError(f"{path}: damaged or changed since it was written; run the study again with --fresh")


class _OfExperiment(Results):
    """The results of one experiment of a study; a point no longer names it."""

    def __init__(self, whole: Results, name: str) -> None:  # the folder was checked when the whole was read
        self.path = whole.path
        self._kept, self._ends = {}, {}
        self._whole = whole
        self.experiment = name
        table = whole.points.table
        self._runs = table.filter(pl.col(PREFIX + EXPERIMENT) == name)["run"]
        self.manifest = {**whole.manifest, "runs": self._runs.len()}

    def _loaded(self, name: str) -> pl.DataFrame:
        table = self._whole._read(name)
        if "run" in table.columns:
            table = table.filter(pl.col("run").is_in(self._runs.implode()))
        if "point" not in table.columns:
            return table
        points = table["point"].unique().drop_nulls().to_list()
        return table.with_columns(pl.col("point").replace({point: without_experiment(point) for point in points}))

    def _declared(self) -> dict[str, Any]:
        declared = self._whole._declared().get("experiments", [])
        return next((one for one in declared if one.get("name") == self.experiment), {})

    @property
    def whole(self) -> Results:
        return self._whole

    def declared_experiments(self) -> list[str]:
        return self._whole.declared_experiments()

    def setup(self) -> dict[str, Any]:
        setup: dict[str, Any] = self._whole.setup().get("experiments", {}).get(self.experiment, {})
        networks = [
            {**network, "points": [without_experiment(point) for point in network["points"]]}
            if "points" in network
            else network
            for network in setup.get("networks", [])
        ]
        return {**setup, "networks": networks} if setup else {}
