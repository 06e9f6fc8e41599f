# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Signed divisions, which BPF had not before its fourth instruction set: a call, where the compiler refuses one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perigee.cc.foreign.text import Token, tokens_of

_REFUSED = re.compile(r"^[^:\n]+:(\d+):(\d+): error: signed division", re.MULTILINE)
_MACROS = {"/": "QUOTIENT", "%": "REMAINDER"}
_CLOSING = {")": "(", "]": "["}


def without_signed_division(text: str, messages: str) -> str | None:
    """Rewrite a division that a compiler for BPF refuses as `QUOTIENT(a, b)`, with those within its operands.

    Args:
        text: the file.
        messages: what the compiler said.

    Returns:
        The file with one division less; none: it refuses something else, or at a place of a header.

    Examples:
        >>> without_signed_division("x = 8 * (a + b) / f(c)[1];", "x.c:1:17: error: signed division")
        'x = QUOTIENT(8 * (a + b), f(c)[1]);'
        >>> without_signed_division("x = a / 3 / (b % c) / d;", "x.c:1:11: error: signed division")
        'x = QUOTIENT(QUOTIENT(a, 3), (REMAINDER(b, c))) / d;'
        >>> without_signed_division("x = -a->b % (s32)3 + 1;", "x.c:1:11: error: signed division")
        'x = REMAINDER(-a->b, (s32)3) + 1;'
        >>> without_signed_division("x = 1;", "x.c:1:1: error: something else")
    """
    found = _REFUSED.search(messages)
    if not found:
        return None
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: int(found[1]) - 1])) + int(found[2]) - 1
    tokens = tokens_of(text)
    at = next((at for at, token in enumerate(tokens) if token.start == start and token.text in _MACROS), None)
    if at is None:
        return None
    first, last = tokens[_left(tokens, at)], tokens[_right(tokens, at)]
    return text[: first.start] + _rewritten(text[first.start : last.end]) + text[last.end :]


def _rewritten(expression: str) -> str:
    tokens = tokens_of(expression)
    at = next((at for at, token in enumerate(tokens) if token.text in _MACROS), None)
    if at is None:
        return expression
    first, last = tokens[_left(tokens, at)], tokens[_right(tokens, at)]
    dividend = expression[first.start : tokens[at].start].rstrip()
    divisor = expression[tokens[at].end : last.end].strip()
    call = f"{_MACROS[tokens[at].text]}({dividend}, {divisor})"
    return _rewritten(expression[: first.start] + call + expression[last.end :])


def _left(tokens: Sequence[Token], operator: int) -> int:
    """Return where the dividend begins: it has all factors before the operator."""
    at = operator - 1
    while True:
        at = _unit_backwards(tokens, at)
        while at > 0 and _is_prefix(tokens, at - 1):
            at -= 1
        if at == 0 or tokens[at - 1].text not in ("*", "/", "%"):
            return at
        at -= 2


def _unit_backwards(tokens: Sequence[Token], at: int) -> int:
    """Return where an operand that ends at a token begins: a name, a number or a bracket, with what is before it."""
    while True:
        if tokens[at].text in _CLOSING:
            at = _opening(tokens, at)
        if at == 0:
            return at
        before = tokens[at - 1]
        if before.text in (".", "->"):
            at -= 2
        elif (
            tokens[at].text in ("(", "[") and before.kind == "word" and before.text != "return"
        ) or before.text in _CLOSING:
            # A call, an element, or a cast.
            at -= 1
        else:
            return at


def _opening(tokens: Sequence[Token], at: int) -> int:
    depth = 0
    for place in range(at, -1, -1):
        depth += (tokens[place].text in _CLOSING) - (tokens[place].text in _CLOSING.values())
        if depth == 0:
            return place
    return at


def _is_prefix(tokens: Sequence[Token], at: int) -> bool:
    """Whether an operator has one operand: there is none before it."""
    if tokens[at].text not in ("-", "~", "!", "*", "&"):
        return False
    before = tokens[at - 1] if at else None
    return before is None or before.text == "return" or (before.kind == "mark" and before.text not in _CLOSING)


def _right(tokens: Sequence[Token], operator: int) -> int:
    """Return where the divisor ends: one operand."""
    at = operator + 1
    while tokens[at].text in ("-", "~", "!", "*", "&"):
        at += 1
    if tokens[at].text == "(":
        at = _behind(tokens, at)
        if at + 1 < len(tokens) and (tokens[at + 1].kind in ("word", "number") or tokens[at + 1].text == "("):
            return _right(tokens, at)
    while at + 1 < len(tokens) and tokens[at + 1].text in ("(", "[", ".", "->"):
        at = _behind(tokens, at + 1) if tokens[at + 1].text in ("(", "[") else at + 2
    return at


def _behind(tokens: Sequence[Token], at: int) -> int:
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].text in _CLOSING.values()) - (tokens[place].text in _CLOSING)
        if depth == 0:
            return place
    return at
