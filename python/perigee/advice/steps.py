# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Steps: commands that set something at one host, keep what was there before, and bring it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BEFORE = "{before}"
"""Stands in `set` and `undo` for what `keep` printed."""
DEVICE = "DEV"
"""Stands for the interface of a host, which nothing here can know."""


@dataclass(frozen=True)
class Step:
    """A change of one host.

    Attributes:
        at: where: `server`, `client`, `gateway`, or words for two of them.
        set: the command that makes it.
        undo: the command that takes it back; empty where that of the step before does.
        keep: the command whose first line of output is kept; empty: nothing is.
        file: where printed commands keep it.
        note: what a reader has to know beside it.
    """

    at: str
    set: str
    undo: str = ""
    keep: str = ""
    file: str = ""
    note: str = ""

    @property
    def commands(self) -> Iterator[str]:
        """The commands for a shell that make it."""
        if self.keep:
            yield f"{self.keep} > {self.file}"
        yield self.set.replace(BEFORE, f"$(cat {self.file})")

    @property
    def undoing(self) -> Iterator[str]:
        """The commands for a shell that take it back."""
        if self.undo:
            yield self.undo.replace(BEFORE, f"$(cat {self.file})")


def sysctl(at: str, key: str, value: str) -> Step:
    """Return the step that sets a sysctl.

    Examples:
        >>> print(*sysctl("server", "net.ipv4.tcp_wmem", '"1 2 3"').commands, sep=chr(10))
        sysctl -n net.ipv4.tcp_wmem > tcp_wmem.before
        sysctl -w net.ipv4.tcp_wmem="1 2 3"
    """
    file = f"{key.rpartition('.')[2]}.before"
    return Step(at, f"sysctl -w {key}={value}", f'sysctl -w {key}="{BEFORE}"', f"sysctl -n {key}", file)


def printed(steps: Iterable[Step], *, is_undone: bool = False) -> list[str]:
    """Return the commands of steps; the first at each place says where it is."""
    found: list[str] = []
    place = ""
    for step in steps:
        for text in step.undoing if is_undone else step.commands:
            note = "" if is_undone else step.note
            said = f"   # at the {step.at}{note}" if step.at != place else ""
            place = step.at
            found.append(text + said)
    return found
