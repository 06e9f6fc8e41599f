# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Servers and clients of cells: stacks of others, and flows of a study that stand beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perigee.stacks.table import Stack, stacks


@dataclass(frozen=True)
class Party:
    """A server, a client or both.

    Attributes:
        name: its name in cells.
        title: for people.
        controls: congestion controls of the server.
        default: the one that it has when nothing is said.
        best: the one that is tried beside it in the small matrix.
        speaks: servers and clients that speak the same reach each other.
        has_windows: whether the client's flow-control windows can be set.
        stack: the stack of others; None: a flow of a study.
    """

    name: str
    title: str
    controls: Sequence[str]
    default: str
    best: str
    speaks: str
    has_windows: bool
    stack: Stack | None = None


BESIDE = (
    Party(
        "perigee", "Perigee's QUIC", ("cubic", "bbr3", "hybla", "bbr", "reno"), "cubic", "bbr3",
        "perigee", has_windows=True,
    ),
    Party("tcp", "TCP", ("cubic", "bbr"), "cubic", "bbr", "tcp", has_windows=False),
    Party(
        "tcp-proxy", "TCP with a proxy", ("cubic", "bbr", "hybla"), "cubic", "bbr",
        "tcp-proxy", has_windows=False,
    ),
)  # fmt: skip
"""Flows that stand beside the stacks of others; a proxy has the control towards the satellite."""


def parties() -> tuple[Party, ...]:
    """Return all of them, stacks of others first."""
    return (*(_of_stack(stack) for stack in stacks()), *BESIDE)


def _of_stack(stack: Stack) -> Party:
    speaks = "HTTP/3" if stack.http3 else stack.name
    windows = bool(stack.client.window)
    return Party(stack.name, stack.title, stack.controls, stack.default, stack.best, speaks, windows, stack)
