# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Emulated links: real packets of this machine's own TCP/IP through a link of a profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.core import native
from perigee.engines.host.buffers import LinkSize
from perigee.places import ProfileFile

if TYPE_CHECKING:
    from perigee._core import DirectionSample, EndedProcess, ProgramReport, Undelivered

Begun = Callable[[str, str | None], None]
"""Called before the program starts: this host's address as the program sees it, and why it reaches no other, if so."""
Draining = Callable[["Undelivered"], None]
"""Called where something has not arrived a second after the program's end."""
Live = Callable[[float, "DirectionSample", "DirectionSample"], None]
"""Called once a second: seconds since the program began, and what the link has done down and up."""
DRAIN_S = 30.0
"""Longest time that a link goes on after the program's end."""


def run_behind(
    command: Sequence[str],
    down: ProfileFile,
    up: ProfileFile,
    *,
    settings: Sequence[tuple[str, str]] = (),
    seed: int = 1,
    mtu: int = 1500,
    drain_s: float = DRAIN_S,
    begun: Begun = lambda _near, _closed: None,
    draining: Draining = lambda _left: None,
    live: Live | None = None,
) -> ProgramReport:
    """Run a program behind an emulated link; it shares our terminal, and Ctrl-C is its own.

    SIGTERM, SIGHUP and SIGINT that are sent to this process are passed on to the program. After its end, the processes
    that it left are ended, and the link is driven until what was sent has arrived; a signal ends that at once.

    Args:
        command: the program and its arguments.
        down: the profile whose `down` leads to the program.
        up: the profile whose `up` leads away from it.
        settings: keys of the profile with their values as text, such as `("down.rate", "50 Mbit/s")`.
        seed: of the link's random processes.
        mtu: the largest packet, bytes.
        drain_s: how long, at the most, the link is driven on after the program's end.
        begun: called with what the program can reach.
        draining: called with the data still in flight, if delivering them takes longer than a second.
        live: called once a second with what the link has done so far; none: nobody is.

    Raises:
        InputError: the link or the command is wrong, or this machine or process cannot emulate.
        RunError: the emulation failed.
    """
    return native.run_behind(
        list(command), (down.text, str(down.path)), (up.text, str(up.path)), list(settings), _search(down, up), seed,
        mtu, drain_s, begun, draining, live,
    )  # fmt: skip


def link_size(down: ProfileFile, up: ProfileFile, settings: Sequence[tuple[str, str]] = ()) -> LinkSize:
    """Return what a link can hold in flight: its faster direction's mean rate, and its round trip without queues.

    Args:
        down: the profile whose `down` leads to the program.
        up: the profile whose `up` leads away from it.
        settings: keys of the profile with their values as text.

    Raises:
        InputError: the link is wrong.

    Examples:
        >>> from perigee.places import find_profile
        >>> geo = find_profile("geo")
        >>> link_size(geo, geo, [("down.rate", "20 Mbit/s")])
        LinkSize(rate_bps=100000000.0, rtt_s=0.6)
    """
    down_bps, up_bps, rtt_s = native.link_size(
        (down.text, str(down.path)), (up.text, str(up.path)), list(settings), _search(down, up)
    )
    return LinkSize(max(down_bps, up_bps), rtt_s)


def _search(down: ProfileFile, up: ProfileFile) -> list[str]:
    return list(dict.fromkeys(str(folder) for profile in (down, up) for folder in profile.search))


def clean() -> tuple[list[EndedProcess], list[Path]]:
    """End what killed emulators have left; return the processes that were ended and the folders that were removed.

    Raises:
        RunError: this process may not.
    """
    processes, folders = native.emu_clean()
    return processes, [Path(folder) for folder in folders]
