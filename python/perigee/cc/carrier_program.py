# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The process that carries a flow over QUIC of an emulated run, whose congestion control is an author's file.

Started by `perigee.cc.child`. It reads the study as the user who began the run, loads
the file as nobody, and is handed its sockets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perigee import _core
from perigee.cc.child_program import answer_all, plan_of, results
from perigee.cc.messages import Message


class _Carrier:
    """Answers requests, each by what those before it have made."""

    def __init__(self, memory: int, parent: int, note: int) -> None:
        self._limits = (memory, parent, note)
        self._plan: _core.Plan | None = None
        self._flow: _core.OwnFlow | None = None

    def plan(self, asked: Mapping[str, Any], blobs: Sequence[bytes]) -> Message:
        """Read a study; no code of an author is executed."""
        self._plan = plan_of(asked, blobs, None)
        return {}, []

    def load(self, asked: Mapping[str, Any], _blobs: Sequence[bytes]) -> Message:
        """Confine this process, and load the library of a flow."""
        assert self._plan, "a plan comes before its flows"  # noqa: S101 - the parent's promise
        self._flow = self._plan.own_flow(asked["index"], asked["flow"], _core.confine_carrier(*self._limits))
        return {"fingerprint": list(self._plan.fingerprint(asked["index"]))}, []

    def carry(self, asked: Mapping[str, Any], _blobs: Sequence[bytes]) -> Message:
        """Carry the flow until its run ends."""
        assert self._flow, "a flow is loaded before it is carried"  # noqa: S101 - the parent's promise
        return results(*self._flow.carry(asked["channel"]))


def main(parent: str, memory: str, note: str, requests: str, answers: str) -> None:
    """Answer requests until there are no more."""
    carrier = _Carrier(int(memory), int(parent), int(note))
    answer_all({"plan": carrier.plan, "load": carrier.load, "carry": carrier.carry}, requests, answers)
