# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Misspelt names: which of those that are known was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return what to write instead of a name: the one that was probably meant, or all of them where none is near.

    Args:
        word: what was written.
        known: the names there are.

    Examples:
        >>> suggestion("claypol-2021", ["gallery", "claypool-2021"])
        'did you mean `claypool-2021`?'
        >>> suggestion("bbrv3", ["cubic", "bbr"]), suggestion("lab", ["sim", "emu"])
        ('did you mean `bbr`?', 'use one of emu, sim')
    """
    from perigee.core import native

    return native.suggestion(word, sorted(known))
