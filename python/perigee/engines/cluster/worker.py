# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The Dask worker of `perigee run --cluster`: reads the study once and simulates the runs assigned to it."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin, get_worker

from perigee.core import core_fingerprint, native
from perigee.engines.sim.engine import Simulator
from perigee.errors import PerigeeError, RunError
from perigee.places import StudyFile, data_roots

if TYPE_CHECKING:
    from perigee.engines.plan.contract import Output, Plan


@dataclass(frozen=True)
class Request:
    """A study as it is sent to workers.

    Attributes:
        name: unique name on the cluster.
        path: path of the study file on the user's machine, for messages.
        text: its content.
        files: the profiles and recordings it refers to, by name.
        settings: `key=value` overrides.
        reduced: use the study's reduced size.
        build: fingerprint of the user's simulator.
        digest: digest of the runs, which the worker compares with its own.
    """

    name: str
    path: str
    text: str
    files: Mapping[str, bytes]
    settings: tuple[str, ...]
    reduced: bool
    build: str
    digest: str


@dataclass(frozen=True)
class Answer:
    """The results of a run as sent to the user's machine.

    Attributes:
        tables: each table as an Arrow stream.
        captures: packet captures by node.
        files: further files by their path in the results folder.
    """

    tables: Mapping[str, bytes]
    captures: Mapping[str, bytes]
    files: Mapping[str, bytes]

    @classmethod
    def of(cls, output: Output) -> Answer:
        """Return the answer with the output of a run."""
        return cls(dict(output.tables), dict(output.captures), dict(output.files))


class StudyOnWorker(WorkerPlugin):  # type: ignore[misc] # Dask has no types here
    """A Dask plugin that gives the study to every worker, including those that join later.

    Args:
        request: the study.
    """

    def __init__(self, request: Request) -> None:
        self.request = request

    def setup(self, worker: Any) -> None:
        """Remember the worker's folder; the study is read at its first run."""
        self._address = worker.address
        self._lock = threading.Lock()
        self._plan: Plan | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def teardown(self, worker: Any) -> None:
        """Remove the study's files."""
        with self._lock:
            folder, self._folder = self._folder, None
        if folder:
            folder.cleanup()

    def run(self, index: int) -> Answer:
        """Carry a run out.

        Raises:
            RunError: it failed, or the worker has another version of perigee than the user.
            InputError: the study refers to a missing file.
        """
        with self._lock:
            if self._plan is None:
                self._plan = self._read()
            plan, folder = self._plan, self._folder
        output = plan.execute(index, lambda *_: True, Path(folder.name if folder else "."))
        if output is None:
            raise RunError(f"worker {self._address}: run {index} was stopped; give the same command again")
        return Answer.of(output)

    def _read(self) -> Plan:
        asked = self.request
        if core_fingerprint() != asked.build:
            raise RunError(
                f"worker {self._address}: its perigee is another build than yours; install the same wheel everywhere"
            )
        self._folder = tempfile.TemporaryDirectory(prefix=native.scratch_prefix("worker"))
        root = Path(self._folder.name)
        for name, content in asked.files.items():
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise RunError(
                    f"worker {self._address}: {name} leads out of the study's folder; give the file a plain name"
                )
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        study = StudyFile(Path(asked.path), asked.text, (root, *data_roots()))
        try:
            plan = Simulator(study, asked.settings, asked.reduced)
        except PerigeeError as error:
            raise type(error)(f"worker {self._address}: {error}") from error
        if plan.runs.digest != asked.digest:
            raise RunError(
                f"worker {self._address}: its runs differ from yours; a profile or a recording was changed while "
                "the study was running: give the same command again"
            )
        return plan


def run(name: str, index: int) -> Answer:
    """Execute a run of the named study on the worker that Dask has chosen."""
    study: StudyOnWorker = get_worker().plugins[name]
    return study.run(index)
