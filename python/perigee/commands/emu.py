# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee emu`: what emulators left behind."""

from __future__ import annotations

from perigee.commands.application import Application
from perigee.console import result, say
from perigee.engines.links import emulation

app = Application("Emulated links: tidy up.")


@app.command()
def clean() -> None:
    """End what emulators that were killed have left.

    Namespaces, devices and translated addresses vanish with the process that made them. What can be left are children
    of the program that ran behind a link, which are ended, and your folders of temporary files (of compilations and
    fits), which are removed. Emulators at work, and everything else, are not touched.

    [bold]Example[/bold]

      perigee emu clean
    """
    processes, folders = emulation.clean()
    for process in processes:
        result(f"ended {process.command} (process {process.pid})")
    for folder in folders:
        result(f"removed {folder}")
    if not processes and not folders:
        say("nothing was left")
