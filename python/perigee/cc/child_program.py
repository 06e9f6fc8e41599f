# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The process in which authors' congestion controls run, started by `perigee.cc.child`.

It has the compiled module and its exceptions, nothing else of the package or of others: it begins in hundredths of a
second. Requests come through one pipe and answers go through another, each a message of `read_message`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perigee import _core
from perigee.cc.messages import Message, read_message, write_message
from perigee.errors import InputError, RunError

Known = Mapping[str, Callable[[Mapping[str, Any], Sequence[bytes]], Message]]
"""A process's answers, by what is asked."""


class _Worker:
    """Answers requests, with a plan or a trial that an earlier one made."""

    def __init__(self, note: _core.Note) -> None:
        self._note = note
        self._plan: _core.Plan | None = None
        self._trial: _core.Trial | None = None

    def plan(self, asked: Mapping[str, Any], blobs: Sequence[bytes]) -> Message:
        """Read a study, and load its authors' libraries."""
        self._plan = plan_of(asked, blobs, self._note)
        return {}, []

    def run(self, asked: Mapping[str, Any], _blobs: Sequence[bytes]) -> Message:
        """Carry out a run."""

        def progress(share: float, *_: object) -> bool:
            self._note.beat(share)
            return True

        assert self._plan, "a plan comes before its runs"  # noqa: S101 - the parent's promise
        self._note.begin()
        done = self._plan.run(asked["index"], "sim", "", progress)
        assert done, "nobody stops a run here"  # noqa: S101 - as `progress` says
        return results(*done, fingerprint=list(self._plan.fingerprint(asked["index"])))

    def trial(self, asked: Mapping[str, Any], blobs: Sequence[bytes]) -> Message:
        """Load the library of one file."""
        self._trial = _core.Trial((asked["path"], blobs[0], blobs[1]), self._note)
        return {}, []

    def begin(self, asked: Mapping[str, Any], _blobs: Sequence[bytes]) -> Message:
        """Have the module begin with parameters."""
        assert self._trial, "a trial comes before its beginning"  # noqa: S101 - the parent's promise
        self._trial.begin([(key, value) for key, value in asked["settings"]])
        return {}, []

    def sequences(self, asked: Mapping[str, Any], _blobs: Sequence[bytes]) -> Message:
        """Try random sequences of events."""
        assert self._trial, "a trial comes before its events"  # noqa: S101 - the parent's promise
        return {"broken": self._trial.sequences(asked["first"], asked["count"])}, []

    def attempt(self, asked: Mapping[str, Any], _blobs: Sequence[bytes]) -> Message:
        """Try some events of a sequence."""
        assert self._trial, "a trial comes before its events"  # noqa: S101 - the parent's promise
        return {"broken": self._trial.attempt(asked["sequence"], asked["places"])}, []


def main(parent: str, memory: str, note: str, requests: str, answers: str) -> None:
    """Confine this process, then answer requests until there are no more."""
    worker = _Worker(_core.confine(int(memory), int(parent), int(note)))
    known: Known = {
        "plan": worker.plan,
        "run": worker.run,
        "trial": worker.trial,
        "begin": worker.begin,
        "sequences": worker.sequences,
        "attempt": worker.attempt,
    }
    answer_all(known, requests, answers)


def answer_all(known: Known, requests: str, answers: str) -> None:
    """Answer requests until there are no more."""
    with os.fdopen(int(requests), "rb") as asked, os.fdopen(int(answers), "wb") as answered:
        while message := read_message(asked):
            write_message(answered, *_answer(known, *message))


def _answer(known: Known, asked: Mapping[str, Any], blobs: Sequence[bytes]) -> Message:
    """Do what is asked; an error is an answer too."""
    try:
        return known[asked["do"]](asked, blobs)
    except InputError as error:
        return {"wrong_input": str(error)}, []
    except (RunError, OSError) as error:
        return {"failed": str(error)}, []
    except MemoryError:
        return {"out_of_memory": True}, []


def plan_of(asked: Mapping[str, Any], blobs: Sequence[bytes], note: _core.Note | None) -> _core.Plan:
    """Read a study, and load its authors' libraries; without a note describe them."""
    libraries = list(zip(asked["paths"], blobs[::2], blobs[1::2], strict=True))
    text, path, settings, reduced, search, headers = asked["arguments"]
    return _core.Plan(text, path, settings, reduced, search, headers, confined=(libraries, note))


def results(tables: Mapping[str, bytes], captures: Mapping[str, bytes], **more: object) -> Message:
    """Return tables and files as an answer, with more about them."""
    return {"tables": list(tables), "captures": list(captures), **more}, [*tables.values(), *captures.values()]
