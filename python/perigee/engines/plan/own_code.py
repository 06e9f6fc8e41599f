# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Answers of processes of users' code for a run, and what is said of those that do not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from perigee.cc.child import LostError
from perigee.cc.fault import line_of, near
from perigee.core import native
from perigee.engines.plan.contract import Output
from perigee.errors import RunError
from perigee.store.streams import checked_frame, frame_of

OVERWRITES = "the code overwrites memory"


def check_unchanged(plan: native.Plan, index: int, answer: Mapping[str, Any]) -> None:
    """Check by its fingerprint that a process has read the same run.

    Raises:
        RunError: it has not.
    """
    if answer["fingerprint"] != list(plan.fingerprint(index)):
        raise RunError(
            "a profile, a recording or a congestion control was changed while the study was running; "
            "give the same command again"
        )


def output_of(answer: Mapping[str, Any], blobs: Sequence[memoryview]) -> Output:
    """Return the results that are in an answer.

    Raises:
        RunError: a table is damaged.
    """
    left = iter(blobs)
    tables = {name: bytes(next(left)) for name in answer["tables"]}
    for name, stream in tables.items():
        try:
            checked_frame(name, stream)
        except ValueError as error:
            raise RunError(f"table {name} came back damaged ({error}); {OVERWRITES}") from None
    return Output(tables, {name: bytes(next(left)) for name in answer["captures"]})


def check_own(output: Output, index: int, flow: str) -> None:
    """Check that results from the process of one flow are of this flow alone.

    Args:
        output: the results.
        index: the run.
        flow: the flow's name.

    Raises:
        RunError: there are rows of another run or flow, or a log that this flow does not have.
    """
    for name, stream in output.tables.items():
        frame = frame_of(stream)
        # How late its ends were is in the table of links.
        flows = frame.get_column("link" if name == "releases" else "flow", default=None)
        is_own = flows is not None and "run" in frame.columns
        if not (is_own and frame["run"].eq_missing(index).all() and flows.eq_missing(flow).all()):
            raise RunError(f"table {name} came back with rows of another flow than `{flow}`; {OVERWRITES}")
    own = re.compile(rf"[^/\0]+-{re.escape(flow)}(\.[0-9]+)?\.sqlog")
    for name in output.captures:
        if not own.fullmatch(name):
            raise RunError(f"flow `{flow}` came back with a log {name!r}, which is none of its own; {OVERWRITES}")


def how_lost(plan: native.Plan, index: int, lost: LostError, again: str, *, loaded: bool) -> str:
    """Say how a process was lost: the code, the callback and its time, and what happened.

    Args:
        plan: the plan of the run.
        index: the run.
        lost: what is known of it.
        again: what to do, where a callback was to blame.
        loaded: its code was loaded.
    """
    flows = plan.own_flows(index)
    if loaded and lost.noted.callback:
        for number, name, path in flows:
            if number == lost.noted.flow:
                at = f"called at {lost.noted.time_s:.6f} s for flow `{name}`, as call {lost.noted.calls} of the run"
                place = line_of(lost.fault, plan.compiled()) or str(near(path))
                return f"{place}: `{lost.noted.callback}`, {at}, {lost.how}\n{again}"
    files = ", ".join(dict.fromkeys(str(near(path)) for _, _, path in flows))
    if not loaded:
        return f"{files}: while the code was loaded, before any callback, it {lost.how}"
    return f"{files}: outside of the callbacks the process with this code in it {lost.how}"
