# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What a Dask worker does for `perigee run --cluster`: it reads the study once, and simulates the runs it is given."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from distributed import WorkerPlugin, get_worker

from perigee.core import core_fingerprint
from perigee.engines.sim.engine import Simulator
from perigee.errors import PerigeeError, RunError
from perigee.places import StudyFile, data_roots

if TYPE_CHECKING:
    from perigee.engines.plan.contract import Output, Plan


@dataclass(frozen=True)
class Request:
    """A study as workers get it.

    Attributes:
        name: a name that no other study on the cluster has.
        path: where the study file is on the user's machine, for messages.
        text: its content.
        files: the profiles and recordings it names, by these names.
        settings: `key=value` overrides.
        reduced: take the small size the study declares.
        build: fingerprint of the user's simulator.
        digest: that of the runs, which a worker has to come to as well.
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
    """The results of a run on their way to the user's machine.

    Attributes:
        tables: each table as a stream of Arrow's IPC format.
        captures: packet captures by node.
        files: further files by their path in the results folder.
    """

    tables: Mapping[str, bytes]
    captures: Mapping[str, bytes]
    files: Mapping[str, bytes]

    @classmethod
    def of(cls, output: Output) -> Answer:
        """Return the answer that carries the output of a run."""
        tables = {}
        for name, table in output.tables.items():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            tables[name] = sink.getvalue().to_pybytes()
        return cls(tables, dict(output.captures), dict(output.files))


class StudyOnWorker(WorkerPlugin):  # type: ignore[misc] # Dask has no types here
    """A study that the scheduler hands to every worker, those that come later too.

    Args:
        request: the study.
    """

    def __init__(self, request: Request) -> None:
        self.request = request

    def setup(self, worker: Any) -> None:
        """Remember where this worker is; the study is read when its first run comes."""
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
            RunError: it failed, or this worker's perigee is another one than the user's.
            InputError: the study names a file that is not there.
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
        self._folder = tempfile.TemporaryDirectory(prefix="perigee-")
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
    """Carry out a run of the study of this name, on the worker that Dask has chosen."""
    study: StudyOnWorker = get_worker().plugins[name]
    return study.run(index)
