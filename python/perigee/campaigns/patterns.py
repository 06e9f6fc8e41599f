# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Patterns of file names in which words in braces say what a file is: `{round}/{cc}-{place}.pcap`."""

from __future__ import annotations

import re

from perigee.errors import InputError

Pattern = re.Pattern[str]

_PART = re.compile(r"\{([^{}]*)\}|(\*\*/)|(\*)|(\?)|([^{}*?]+)|([{}])")
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_NUMBERS = {"round": r"[0-9]+", "part": r"[0-9]*"}
"""Words whose values are numbers; the first part of a rotated capture has none."""


def compiled(pattern: str) -> Pattern:
    """Return a pattern as a regular expression with a group for each word.

    Raises:
        InputError: it is none.

    Examples:
        >>> compiled("{round}/{cc}-*.pcap").fullmatch("07/bbr-a.pcap").groupdict()
        {'round': '07', 'cc': 'bbr'}
        >>> compiled("**/{cc}.pcap").fullmatch("monday/late/cubic.pcap")["cc"], compiled("*.json").fullmatch("a/b.json")
        ('cubic', None)
        >>> compiled("{round.pcap")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: `{round.pcap`: a brace is alone; words stand in pairs of them, as `{round}`
    """
    if re.search(r"\*\*(?!/)", pattern):
        raise InputError(f"`{pattern}`: `**` stands for folders, before a `/`; write `**/*`")
    made, known = [], set()
    for word, folders, rest, letter, plain, brace in _PART.findall(pattern):
        if brace:
            raise InputError(f"`{pattern}`: a brace is alone; words stand in pairs of them, as `{{round}}`")
        if folders:
            made.append(r"(?:[^/]+/)*")
        elif rest:
            made.append(r"[^/]*")
        elif letter:
            made.append(r"[^/]")
        elif plain:
            made.append(re.escape(plain))
        elif not _WORD.fullmatch(word):
            raise InputError(
                f"`{pattern}`: `{{{word}}}` is no word; write small letters, digits and `_`, as `{{proxy}}`"
            )
        elif word in known:
            made.append(f"(?P={word})")
        else:
            known.add(word)
            made.append(f"(?P<{word}>{_NUMBERS.get(word, r'[^/]+?')})")
    return re.compile("".join(made))


def words_in(pattern: Pattern) -> tuple[str, ...]:
    """Return the words of a pattern in their order."""
    return tuple(pattern.groupindex)
