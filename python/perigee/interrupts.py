# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Ctrl-C and SIGTERM, which end a command, held back where an exception could come between a lock and its release.

Python raises `KeyboardInterrupt` between any two of its instructions. In a `threading.Condition`, and so in every wait
for threads at work, that can leave a lock taken for ever: the threads that need it never end, and nor does the process.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _State:
    held = False
    came = False


def handle(_signal: int, _frame: FrameType | None) -> None:
    """Handle a signal: raise `KeyboardInterrupt`, or note it while it is held back."""
    if not _State.held:
        raise KeyboardInterrupt
    _State.came = True


def answer() -> None:
    """Raise `KeyboardInterrupt` if a signal came while they were held back."""
    if _State.came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Hold Ctrl-C back, and SIGTERM in a command, on the main thread; elsewhere none comes.

    Yields:
        A function that raises `KeyboardInterrupt` if one has come; it is called where that does no harm.

    Raises:
        KeyboardInterrupt: one came after the last such call.

    Examples:
        >>> with held_back() as answer_interrupts:
        ...     answer_interrupts()
    """
    if _State.held or threading.current_thread() is not threading.main_thread():
        yield answer
        return
    # In a command `handle` is there already. Elsewhere only Python's own handler is replaced, no caller's.
    own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    _State.held, _State.came = True, False
    if own:
        signal.signal(signal.SIGINT, handle)
    try:
        yield answer
    finally:
        if own:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        came, _State.held, _State.came = _State.came, False, False
    if came:
        raise KeyboardInterrupt
