# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The folders of a laboratory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perigee.files import storage_errors


@dataclass(frozen=True)
class Place:
    """A working folder: `results/` and `studies/` as commands use them, and `laboratory/` for the queue.

    Attributes:
        root: the working folder.

    Examples:
        >>> Place(Path("/srv/lab")).queue
        PosixPath('/srv/lab/laboratory/queue.sqlite')
    """

    root: Path

    @property
    def results(self) -> Path:
        """Results folders, one per entry of the queue, and those of `perigee run`."""
        return self.root / "results"

    @property
    def studies(self) -> Path:
        """The user's own studies, a folder each."""
        return self.root / "studies"

    @property
    def private(self) -> Path:
        """The folder that only the laboratory reads and writes."""
        return self.root / "laboratory"

    @property
    def queue(self) -> Path:
        """The database of the queue."""
        return self.private / "queue.sqlite"

    @property
    def lock(self) -> Path:
        """The file that the process holds that serves the laboratory, with its address."""
        return self.private / "lock"

    @property
    def agents(self) -> Path:
        """Certificates of the laboratory and its agents."""
        return self.private / "agents"

    def entry(self, number: int) -> Path:
        """The folder through which the laboratory and the process of an entry speak."""
        return self.private / "entries" / str(number)

    def make(self) -> None:
        """Make the folders that are not there; nobody else may read the laboratory's own.

        Raises:
            StorageError: they cannot be made.
        """
        with storage_errors(self.root):
            for folder in (self.results, self.studies):
                folder.mkdir(parents=True, exist_ok=True)
            self.private.mkdir(mode=0o700, exist_ok=True)
            self.private.chmod(0o700)
            (self.private / "entries").mkdir(exist_ok=True)
