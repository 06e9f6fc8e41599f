# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`--apply` and `--undo` of `perigee advise`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perigee.advice.apply import ROLES
from perigee.advice.apply import apply as carry_out
from perigee.advice.apply import undo as take_back
from perigee.advice.steps import Step
from perigee.console import say
from perigee.errors import InputError
from perigee.files import read_bounded

KEPT = "advice.json"
"""The advice in a folder of --keep."""


def check(number: int | None, role: str | None, undo_file: Path) -> None:
    """Refuse options before anything takes time."""
    if (number is None) != (role is None):
        raise InputError("--apply N and --role go together: the commands of one line that are for this host")
    if role is not None and role not in ROLES:
        raise InputError(f"--role {role}: one of {', '.join(ROLES)}")
    if number is not None and undo_file.exists():
        raise InputError(
            f"{undo_file}: is there already; undo that first (--undo {undo_file}), or give another --undo-file"
        )


def kept(given: Sequence[str] | None) -> dict[str, Any] | None:
    """Return the advice of a folder that --keep wrote; None: it is no such folder that is given."""
    if given is None or len(given) != 1 or not Path(given[0]).is_dir():
        return None
    file = Path(given[0], KEPT)
    try:
        advice = json.loads(read_bounded(file, _MOST_BYTES, "an advice"))
        for one in advice["tried"]:
            tuple(Step(**step) for step in one["steps"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: not an advice that --keep wrote") from error
    return dict(advice)


def apply(advice: Mapping[str, Any], number: int, role: str, device: str | None, undo_file: Path) -> None:
    """Carry out a line of an advice on this host."""
    advised = [one for one in advice["tried"] if one["is_advised"]]
    if advice.get("unexplained"):
        raise InputError(f"--apply {number}: {advice['unexplained']}")
    if number > len(advised):
        there = (
            f"this advice has {len(advised)} lines" if advised else "nothing gains, so that there is nothing to apply"
        )
        raise InputError(f"--apply {number}: {there}")
    chosen = advised[number - 1]
    steps = [Step(**step) for step in chosen["steps"]]
    carry_out(chosen["name"], steps, role, device, undo_file, say)
    others = [step for step in steps if step.at != role]
    say(f"{chosen['name']}: set on this host, until it restarts")
    if others:
        say(f"still to do at the {' and '.join(dict.fromkeys(step.at for step in others))}:")
        for step in others:
            for text in step.commands:
                say(f"  {text}")


def undo(file: Path) -> None:
    """Take back what a file says was set."""
    count = take_back(file, say)
    say(f"{file}: removed; {count} {'step is' if count == 1 else 'steps are'} undone")


_MOST_BYTES = 1 << 22
