# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Simulated runs on the workers of a Dask cluster; plan, progress, results and resuming stay on the user's machine."""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perigee.engines.cluster.files import files_of
from perigee.engines.plan.contract import Output, Progress
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError, MissingPackagesError, RunError
from perigee.files import printable
from perigee.places import StudyFile

if TYPE_CHECKING:
    from perigee.engines.cluster.worker import Answer

CONNECT_S = 30.0
"""Maximum time to wait for an answer of the scheduler, s."""
POLL_S = 0.1
AHEAD = 2
"""Runs in flight for each worker thread: one that runs and one that follows at once."""
LEAST, MOST = 16, 512
"""Bounds of the runs in flight: the lower serves workers that join later, the upper limits the scheduler's memory."""


class ClusterSimulator(Simulator):
    """A study whose runs the workers of a cluster simulate.

    Args:
        study: the study file.
        settings: `key=value` overrides.
        reduced: use the study's reduced size.
        address: address of the scheduler, such as `tcp://scheduler:8786`.

    Raises:
        InputError: the study is wrong, or has a congestion control of its own.
    """

    def __init__(self, study: StudyFile, settings: Sequence[str], reduced: bool, address: str) -> None:
        super().__init__(study, settings, reduced)
        if self.sources:
            raise InputError(
                f"--cluster: the study has a congestion control of its own ({', '.join(self.sources)}), which runs on "
                "this machine only; use --shard to divide it between machines"
            )
        self.most_together = 1
        self._address = address
        self._client: Any = None
        self._given = study, tuple(settings), reduced
        self._name = f"perigee-{uuid.uuid4().hex}"

    def prepare(self) -> None:
        """Hand the study to the workers, see `Plan.prepare`.

        Raises:
            InputError: no scheduler answers, or it has no workers.
        """
        self._client = _connected(self._address)
        try:
            from perigee.engines.cluster.worker import Request, StudyOnWorker

            self.most_at_once = min(max(AHEAD * _threads(self._client, self._address), LEAST), MOST)
            study, settings, reduced = self._given
            request = Request(
                name=self._name,
                path=printable(study.path),
                text=study.text,
                files=files_of(study, settings),
                settings=settings,
                reduced=reduced,
                build=self.build,
                digest=self.runs.digest,
            )
            self._client.register_plugin(StudyOnWorker(request), name=self._name)
        except BaseException:
            self._client.close()
            raise

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Execute a run on a worker, see `Plan.execute`; a run whose worker dies is restarted on another one."""
        from distributed import KilledWorker

        from perigee.engines.cluster.worker import run

        ended = threading.Event()
        future = self._client.submit(run, self._name, index, key=f"{self._name}-{index}", pure=False)
        future.add_done_callback(lambda _future: ended.set())
        try:
            while not ended.wait(POLL_S):
                if not progress(0.0):
                    return None
            return _output(future.result())
        except KilledWorker:
            raise RunError(
                f"run {index}: each worker that was given it died; their logs say why: they may have too little memory"
            ) from None
        except (CancelledError, OSError) as error:
            raise RunError(
                f"--cluster {self._address}: the scheduler is gone; runs that are done are kept: repeat the command"
            ) from error
        finally:
            # Cancel runs that nobody waits for.
            future.release()

    def close(self) -> None:
        """Remove the study from the workers and disconnect."""
        if self._client is None:
            return
        if self._client.status == "running":
            # The cluster may have ended meanwhile, and removed the study with it.
            with contextlib.suppress(OSError, ValueError, CancelledError):
                self._client.unregister_worker_plugin(self._name)
        self._client.close()


def _connected(address: str) -> Any:
    """Return a client of the scheduler at an address."""
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise MissingPackagesError("--cluster", error, "cluster") from None
    # Errors are reported in one line at the end.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--cluster {address}: no scheduler answers there ({str(error).splitlines()[0]}); write "
            "--cluster tcp://HOST:8786, with the address that `dask scheduler` has printed"
        ) from None


def _threads(client: Any, address: str) -> int:
    """Return the total number of threads of the workers."""
    threads = sum(int(worker["nthreads"]) for worker in client.scheduler_info(-1)["workers"].values())
    if not threads:
        raise InputError(f"--cluster {address}: the scheduler has no worker; start some with `dask worker {address}`")
    return threads


def _output(answer: Answer) -> Output:
    return Output(answer.tables, answer.captures, answer.files)
