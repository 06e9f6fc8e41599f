# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Branches of `#if` that are not compiled, where the version of the kernel or a number decides."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator

from perigee.cc.foreign.text import Token, tokens_of

VERSION = (6, 18, 0)
"""The version of Linux that imported files are compiled for: `LINUX_VERSION_CODE` of `kernel.h`."""
_COMPARED = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_DIRECTIVE = re.compile(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b(.*)", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\\\n", re.DOTALL)


def active(text: str) -> str:
    r"""Return a text with spaces in place of what is not compiled; every place stays where it was.

    Both branches stay of a condition that is neither a number nor about the version of the kernel.

    Examples:
        >>> active("#if 0\na\n#else\nb\n#endif\n")
        '#if 0\n \n#else\nb\n#endif\n'
        >>> active("#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 1, 0)\na\n#endif\n").split("\n")[1]
        ' '
    """
    # For each open condition: whether what stands here is compiled, and whether an earlier branch was taken.
    is_open: list[tuple[bool, bool]] = []
    pieces: list[str] = []
    done = 0
    for token in tokens_of(text):
        match = _DIRECTIVE.match(token.text) if token.kind == "directive" else None
        if not match:
            continue
        before = text[done : token.start]
        pieces.append(before if all(here for here, _ in is_open) else re.sub(r"[^\n]", " ", before))
        pieces.append(token.text)
        done = token.end
        word, condition = match[1], match[2]
        if word == "endif":
            del is_open[-1:]
        elif word in ("elif", "else") and is_open:
            _, taken = is_open[-1]
            value = _decided(condition) if word == "elif" else True
            is_open[-1] = (not taken and value is not False, taken or (word == "elif" and value is True))
        else:
            value = _decided(condition) if word == "if" else None
            is_open.append((value is not False, value is True))
    return "".join(pieces) + text[done:]


def undecided(text: str) -> Iterator[Token]:
    """Yield the conditions of a text that are neither numbers nor about the version of the kernel."""
    for token in tokens_of(text):
        match = _DIRECTIVE.match(token.text) if token.kind == "directive" else None
        if match and (match[1] in ("ifdef", "ifndef") or (match[1] in ("if", "elif") and _decided(match[2]) is None)):
            yield token


def _decided(condition: str) -> bool | None:
    """Return what a condition of numbers and versions says; none: another kind."""
    condition = _COMMENT.sub(" ", condition)
    condition = re.sub(
        r"\bKERNEL_VERSION\s*\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)",
        lambda match: str(_code(int(match[1]), int(match[2]), int(match[3]))),
        condition,
    )
    condition = re.sub(r"\bLINUX_VERSION_CODE\b", str(_code(*VERSION)), condition)
    some: list[bool | None] = []
    for choice in condition.split("||"):
        terms = [_term(term) for term in choice.split("&&")]
        some.append(False if False in terms else None if None in terms else True)
    return True if True in some else None if None in some else False


def _term(term: str) -> bool | None:
    match = re.fullmatch(r"\s*(\(?)\s*(\d+)\s*(?:([<>]=?|[!=]=)\s*(\d+)\s*)?(\)?)\s*", term)
    if not match or len(match[1]) != len(match[5]):
        return None
    return bool(_COMPARED[match[3]](int(match[2]), int(match[4]))) if match[3] else int(match[2]) != 0


def _code(major: int, minor: int, patch: int) -> int:
    return (major << 16) + (minor << 8) + min(patch, 255)
