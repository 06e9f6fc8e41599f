# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee emu`: cleans up after killed emulators."""

from __future__ import annotations

from perigee.commands.application import Application
from perigee.console import result, say
from perigee.engines.links import emulation

app = Application("Emulated links: clean up.")


@app.command()
def clean() -> None:
    """End processes and remove temporary files that killed emulators left behind.

    Namespaces, devices and NAT rules vanish with the process that made them. Children of a program that ran behind a
    link can remain, and are ended; so can your temporary folders of compilations and fits, which are removed.
    Running emulators and everything else are not touched.

    [bold]Example[/bold]

      perigee emu clean
    """
    processes, folders = emulation.clean()
    for process in processes:
        result(f"ended {process.command} (process {process.pid})")
    for folder in folders:
        result(f"removed {folder}")
    if not processes and not folders:
        say("nothing to clean up")
