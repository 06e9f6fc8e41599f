# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The process in which authors' congestion controls run. Started by `perigee.isolated`, as a script of its own.

It has the compiled module and Python's standard library, nothing else of the package: it begins in hundredths of a
second. Requests come through one pipe and answers go through another, each a message of `read_message`.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

LENGTH = struct.Struct("<Q")

Message = tuple[dict[str, Any], list[bytes]]


def write_message(stream: BinaryIO, head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Write a message: the length of a JSON object, the object, and blobs of the lengths that are its `sizes`."""
    text = json.dumps({**head, "sizes": [len(blob) for blob in blobs]}).encode()
    stream.write(LENGTH.pack(len(text)) + text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def read_message(stream: BinaryIO) -> Message | None:
    """Read a message of `write_message`; none: there are no more."""
    length = stream.read(LENGTH.size)
    if len(length) < LENGTH.size:
        return None
    head = json.loads(stream.read(*LENGTH.unpack(length)))
    return head, [stream.read(size) for size in head["sizes"]]


class _Worker:
    """Answers requests, with a plan or a trial that an earlier one made."""

    def __init__(self, core: Any, note: Any) -> None:
        self._core = core
        self._note = note
        self._plan: Any = None
        self._trial: Any = None

    def plan(self, asked: Mapping[str, Any], blobs: Sequence[bytes]) -> Message:
        """Read a study, and load its authors' libraries."""
        libraries = list(zip(asked["paths"], blobs[::2], blobs[1::2], strict=True))
        self._plan = self._core.Plan(*asked["arguments"], False, (libraries, self._note))
        return {}, []

    def run(self, asked: Mapping[str, Any], _blobs: Sequence[bytes]) -> Message:
        """Carry out a run."""

        def progress(share: float) -> bool:
            self._note.beat(share)
            return True

        tables, captures = self._plan.run(asked["index"], "sim", "", progress)
        shapes: dict[str, Any] = {}
        blobs: list[bytes] = []
        for name, (rows, columns) in tables.items():
            heads = [[column, cell, [part is not None for part in parts]] for column, cell, *parts in columns]
            shapes[name] = [rows, heads]
            blobs += [part for _, _, *parts in columns for part in parts if part is not None]
        blobs += captures.values()
        fingerprint = list(self._plan.fingerprint(asked["index"]))
        return {"tables": shapes, "captures": list(captures), "fingerprint": fingerprint}, blobs

    def trial(self, asked: Mapping[str, Any], blobs: Sequence[bytes]) -> Message:
        """Load the library of one file."""
        self._trial = self._core.Trial((asked["path"], *blobs), self._note)
        return {}, []

    def sequences(self, asked: Mapping[str, Any], _blobs: Sequence[bytes]) -> Message:
        """Try random sequences of events."""
        return {"broken": self._trial.sequences(asked["count"])}, []

    def attempt(self, asked: Mapping[str, Any], _blobs: Sequence[bytes]) -> Message:
        """Try some events of a sequence."""
        return {"broken": self._trial.attempt(asked["sequence"], asked["places"])}, []

    def answer(self, asked: Mapping[str, Any], blobs: Sequence[bytes]) -> Message:
        """Do what is asked; an error is an answer too."""
        known: dict[str, Callable[[Mapping[str, Any], Sequence[bytes]], Message]] = {
            "plan": self.plan,
            "run": self.run,
            "trial": self.trial,
            "sequences": self.sequences,
            "attempt": self.attempt,
        }
        try:
            return known[asked["do"]](asked, blobs)
        except self._core.StudyError as error:
            return {"wrong_input": str(error)}, []
        except self._core.SimulationError as error:
            return {"failed": str(error)}, []
        except MemoryError:
            return {"out_of_memory": True}, []


def main(module: str, parent: str, memory: str, note: str, requests: str, answers: str) -> None:
    """Confine this process, then answer requests until there are no more."""
    loader = importlib.machinery.ExtensionFileLoader("perigee._core", module)
    spec = importlib.util.spec_from_file_location("perigee._core", module, loader=loader)
    if spec is None:
        raise ImportError(module)
    core = importlib.util.module_from_spec(spec)
    loader.exec_module(core)
    shared = core.confine(int(memory), int(parent), int(note))
    worker = _Worker(core, shared)
    with os.fdopen(int(requests), "rb") as asked, os.fdopen(int(answers), "wb") as answered:
        while message := read_message(asked):
            write_message(answered, *worker.answer(*message))


if __name__ == "__main__":
    main(*sys.argv[1:])
