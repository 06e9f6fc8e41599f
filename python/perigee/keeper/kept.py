# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files that keep what was computed, by names that say of what, and folders for results that are kept or not."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from perigee.core import native
from perigee.engines.run.crew import Watch
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.own_runs import AGAIN
from perigee.errors import EXIT_INTERRUPTED, InterruptedRunError, PerigeeError, RunError
from perigee.files import storage_errors, write_atomically
from perigee.store.results import Results

KEEPING = "; with --keep FOLDER the results of the studies are kept, and the same command resumes"


Bar = Callable[[str], AbstractContextManager[Watch]]
"""Shows the progress of one study, whose title it is given."""
Say = Callable[[str], None]
"""Prints a note."""


def read(path: Path) -> Any:
    """Return what a file keeps; none: it is not there, or not whole."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def write(path: Path, content: Any) -> None:
    """Keep something, in a folder that is made where it is missing.

    Raises:
        StorageError: it cannot be written.
    """
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False).encode())


def results_of(
    job: Job, watch: Watch = lambda _done, _total, outlook=None: None, say: Say = lambda _text: None
) -> Results:
    """Carry out the missing runs of a job, and return its results. Raises what `carry_out` does."""
    carry_out(job, watch, say)
    return Results(job.folder.path)


class NothingKeptError(PerigeeError):
    """The user stopped what had a folder that is not kept, so that nothing resumes it."""

    exit_code = EXIT_INTERRUPTED


@contextlib.contextmanager
def results_folder(keep: Path | None, keeping: str = KEEPING) -> Iterator[Path]:
    """Return the folder for results: the one to keep, else one that is removed at the end.

    Args:
        keep: the folder to keep; none: it is removed.
        keeping: how to keep them, at the end of a message.

    Raises:
        NothingKeptError: the user stopped what was done with a folder that is removed.
        RunError: a run failed; it says that nothing is kept where that is so.
    """
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix=native.scratch_prefix("evaluation")) as temporary:
        try:
            yield Path(temporary)
        except InterruptedRunError:
            raise NothingKeptError(f"stopped: nothing is kept{keeping}") from None
        except RunError as error:
            if AGAIN not in str(error):
                raise
            again = f"the same command repeats it from the beginning{keeping}"
            raise RunError(str(error).replace(AGAIN, again)) from error
