# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Python's values as TOML, for studies that a program makes."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from perigee.core import native
from perigee.errors import InputError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_WORD = re.compile(r"[A-Za-z_./][\w./-]*", re.ASCII)
_NO_TEXT = ("true", "false", "inf", "nan")
"""Words that TOML reads as something else than text."""


def document(content: Mapping[str, Any]) -> str:
    """Return a table as a TOML document: a line per key, and a block per table of a list of tables.

    Raises:
        InputError: a value is of a type that TOML does not have.

    Examples:
        >>> print(document({"name": "a", "links": [{"delay": "1 ms"}], "vary": {"flow.cc": ["bbr", "reno"]}}), end="")
        name = "a"
        <BLANKLINE>
        [[links]]
        delay = "1 ms"
        <BLANKLINE>
        [vary]
        "flow.cc" = ["bbr", "reno"]
    """
    plain: dict[str, Any] = {}
    blocks = []
    for key, value in content.items():
        if isinstance(value, Mapping):
            blocks.append(f"[{_key(key)}]\n{lines(value, f'{key}.')}")
        elif _is_list(value) and value and all(isinstance(item, Mapping) for item in value):
            blocks += [f"[[{_key(key)}]]\n{lines(item, f'{key}.')}" for item in value]
        else:
            plain[key] = value
    return "\n".join([lines(plain), *blocks])


def lines(content: Mapping[str, Any], within: str = "") -> str:
    """Return a table as TOML of one line per key, whatever its value is.

    Args:
        content: the table.
        within: what comes before its keys in messages.

    Raises:
        InputError: a value is of a type that TOML does not have.

    Examples:
        >>> print(lines({"links": [{"delay": "1 ms"}], "rounds": 3}), end="")
        links = [{ delay = "1 ms" }]
        rounds = 3
    """
    return "".join(f"{_key(key)} = {inline(value, f'{within}{key}')}\n" for key, value in content.items())


def inline(value: Any, key: str = "value") -> str:
    """Return a value as TOML has it behind an equals sign.

    Args:
        value: text, a path, a switch, a number, a list or a table.
        key: what it is the value of, for messages.

    Raises:
        InputError: it is of another type.

    Examples:
        >>> print(inline({"name": "cubic", "beta": "50 %", "fast": True}), inline([1, 2.5, "a"]))
        { name = "cubic", beta = "50 %", fast = true } [1, 2.5, "a"]
        >>> inline(None, "flow.cc")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: flow.cc: None is no value of a study; give text, a number, a list or a table
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return _quoted(value, key)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real) and math.isfinite(float(value)):
        return repr(float(value))
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(name)} = {inline(item, key)}" for name, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if _is_list(value):
        return "[" + ", ".join(inline(item, key) for item in value) + "]"
    raise InputError(f"{key}: {value!r} is no value of a study; give text, a number, a list or a table")


def setting(value: Any, key: str = "value") -> str:
    """Return a value as `--set` takes it: text without quotes where it is read as text all the same.

    Examples:
        >>> setting("0.1 %"), setting("./mycc.c"), setting("true"), setting("a, b"), setting(True)
        ('0.1 %', './mycc.c', '"true"', '"a, b"', 'true')
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        is_word = _WORD.fullmatch(value) is not None and value not in _NO_TEXT
        if is_word or (native.quantity(value) is not None and value == value.strip() and "," not in value):
            return value
    return inline(value, key)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key, "key")


def _quoted(text: str, key: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{key}: {text!a} has letters that UTF-8 has not; give another text") from error
    # TOML's basic strings escape as JSON's, and the character DEL besides.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
