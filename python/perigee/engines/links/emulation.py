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
"""Called before the start with this host's address inside the link, and why no other host is reachable, if so."""
Draining = Callable[["Undelivered"], None]
"""Called if data are still in flight a second after the program's end."""
Live = Callable[[float, "DirectionSample", "DirectionSample"], None]
"""Called every second with the time since the start, s, and the link's counters down and up."""
DRAIN_S = 30.0
"""Maximum time that a link runs on after the program's end."""


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
    """Run a program behind an emulated link; it shares the terminal and receives Ctrl-C itself.

    SIGTERM, SIGHUP and SIGINT sent to this process are forwarded to the program. After its end, the processes
    that it left are ended, and the link is driven until what was sent has arrived; a signal ends that at once.

    Args:
        command: the program and its arguments.
        down: the profile whose `down` leads to the program.
        up: the profile whose `up` leads away from it.
        settings: keys of the profile with their values as text, such as `("down.rate", "50 Mbit/s")`.
        seed: seed of the link's random processes.
        mtu: maximum packet size, bytes.
        drain_s: maximum time that the link runs on after the program's end.
        begun: see `Begun`.
        draining: called with the data in flight if delivery takes longer than a second.
        live: called every second with the link's counters; None: not called.

    Raises:
        InputError: the link or the command is wrong, or this machine or process cannot emulate.
        RunError: the emulation failed.
    """
    return native.run_behind(
        list(command), (down.text, str(down.path)), (up.text, str(up.path)), list(settings), _search(down, up), seed,
        mtu, drain_s, begun, draining, live,
    )  # fmt: skip


def link_size(down: ProfileFile, up: ProfileFile, settings: Sequence[tuple[str, str]] = ()) -> LinkSize:
    """Return the mean rate of a link's faster direction and its round-trip time without queues.

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
    """Clean up after killed emulators; return the processes ended and the folders removed.

    Raises:
        RunError: this process lacks the permission.
    """
    processes, folders = native.emu_clean()
    return processes, [Path(folder) for folder in folders]
