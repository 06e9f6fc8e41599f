# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Check before the first run that this machine can emulate a study in real time, and report its duration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perigee.engines.plan.forecast import real_seconds
from perigee.errors import InputError
from perigee.numbers import number, span

if TYPE_CHECKING:
    from perigee._core import Outlook

TOO_MUCH = 1.5
"""Load above which a run cannot keep real time, with a margin for the error of the estimate."""

TIGHT = 0.75
"""Load above which a run may be late at times."""


def foresee(outlook: Outlook, names: Sequence[str], say: Callable[[str], None], *, force: bool = False) -> None:
    """Report the duration of a study, and the runs that this machine is too slow for.

    Args:
        outlook: the core's estimates of the runs.
        names: names of the runs of the first round.
        say: prints a line.
        force: start even if a run cannot keep real time.

    Raises:
        InputError: a run cannot keep real time.

    Examples:
        >>> from types import SimpleNamespace as Known
        >>> run = {"load": 0.2, "packets_per_s": 4e4, "least_s": 50.0, "most_s": 600.0}
        >>> def machine(*runs):
        ...     return Known(ends_us=2.0, hop_us=3.0, quic_us=10.0, rounds=1, runs=[Known(**each) for each in runs])
        >>> foresee(machine(run, run), ["a", "b"], print)
        2 runs in real time, one after the other: at least 1 min 40 s
        a flow over QUIC takes a core for 10.0 us a data packet, with TLS and sockets: at most 100,000 packets/s
        >>> foresee(machine(run, run | {"load": 1.2, "packets_per_s": 2.4e5}), ["a", "b"], print)
        2 runs in real time, one after the other: at least 1 min 40 s
        a flow over QUIC takes a core for 10.0 us a data packet, with TLS and sockets: at most 100,000 packets/s
        warning: 1 of 2 runs may be late: b asks for up to 120 % of what this machine can move (240,000 packets/s)
        >>> foresee(machine(run | {"load": 3.0}), ["a"], print)
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: this machine is too slow for 1 of 1 runs: a asks for up to 300 % of what it can \
move (40,000 packets/s, of which each link takes 3.0 us); lower the rates of its links (--set link.NAME.rate=...), \
take another machine, or begin all the same with --force
    """
    runs, rounds = outlook.runs, outlook.rounds
    total = rounds * len(runs)
    say(f"{total} runs in real time, one after the other: at least {span(real_seconds(outlook))}")
    if outlook.quic_us > 0:
        say(
            f"a flow over QUIC takes a core for {number(outlook.quic_us, 1)} us a data packet, with TLS and sockets: "
            f"at most {1e6 / outlook.quic_us:,.0f} packets/s"
        )
    heavy = [index for index, run in enumerate(runs) if run.load >= TIGHT]
    if not heavy:
        return
    worst = max(heavy, key=lambda index: runs[index].load)
    load, rate = runs[worst].load, f"{runs[worst].packets_per_s:,.0f}"
    what = f"{names[worst]} asks for up to {number(100 * load, 0)} %"
    if load < TOO_MUCH or force:
        say(
            f"warning: {rounds * len(heavy)} of {total} runs may be late: {what} of what this machine can move "
            f"({rate} packets/s)"
        )
        return
    slow = rounds * sum(run.load >= TOO_MUCH for run in runs)
    raise InputError(
        f"this machine is too slow for {slow} of {total} runs: {what} of what it can move ({rate} packets/s, of "
        f"which each link takes {number(outlook.hop_us, 1)} us); lower the rates of its links "
        "(--set link.NAME.rate=...), take another machine, or begin all the same with --force"
    )
