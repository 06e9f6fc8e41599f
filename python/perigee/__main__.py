# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee`, which is `python -m perigee` too.

Signals are handled before anything slow is imported: Ctrl-C and SIGTERM end the command with one line and exit code 130
at whatever instant they come.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from typing import NoReturn

from perigee.errors import EXIT_INTERRUPTED
from perigee.interrupts import SIGNALS, handle

OBJECTS_PER_COLLECTION = 100_000
"""Objects made between two collections of cyclic garbage; Python's own number makes them a sixth of a report's time."""


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    open_standard_streams()
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    try:
        for number in SIGNALS:
            # A process started in the background of a script ignores SIGINT.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handle)
        from perigee.commands.app import carry_out

        sys.exit(carry_out(sys.argv[1:]))
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def open_standard_streams() -> None:
    """Open the null device in the place of standard streams that are closed: the next file would take their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or io.TextIOWrapper(io.FileIO(1, "w"), encoding="utf-8")
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w"), encoding="utf-8")


if __name__ == "__main__":
    main()
