# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The licence of a module or of a `struct_ops` program, as its author states it: nothing is assumed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perigee.cc.foreign.refused import RefusedError
from perigee.cc.foreign.text import Item, arguments, joined

LOADED = ("GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL")
"""Licences, in the kernel's words, with which it loads a congestion control."""
_DUAL = {"BSD": "Dual BSD/GPL", "MIT": "Dual MIT/GPL", "MPL": "Dual MPL/GPL"}


def licence_of(items: Sequence[Item], spdx: str, table: int) -> tuple[str, str]:
    """Return the licence in the kernel's words, and a note for the report (empty: none).

    Args:
        items: the top level of the file.
        spdx: the expression of its SPDX line; empty: it has none.
        table: the place of the table of callbacks.

    Raises:
        RefusedError: it states none, two that differ, or one that is no text.
    """
    stated: list[tuple[str, Item]] = []
    for item in items:
        if is_licence(item):
            stated.append((joined(item.tokens[item.body + 1 : -1]), item))
        elif item.kind == "call" and item.names == ["MODULE_LICENSE"]:
            stated.append((" ".join(joined(part) for part in arguments(item)), item))
    for text, item in stated:
        if not re.fullmatch(r'"[^"\\]+"', text):
            raise RefusedError(item.start, f"the licence is `{text}`", 'write it as a text, MODULE_LICENSE("GPL")')
        if text != stated[0][0]:
            what = f"the licence is {stated[0][0]} at one place and {text} at another"
            raise RefusedError(stated[0][1].start, what, "leave one of them in the file", item.start)
    if not stated and not spdx:
        raise RefusedError(
            table,
            "the file states no licence",
            'add its licence, MODULE_LICENSE("..."), or a first line `// SPDX-License-Identifier: ...`',
        )
    licence = stated[0][0].strip('"') if stated else of_spdx(spdx)
    if licence not in LOADED:
        return licence, f"{licence}: it simulates; the kernel loads only {', '.join(LOADED)}"
    return licence, "" if stated else f"of the SPDX line, {spdx}: {licence} to the kernel"


def is_licence(item: Item) -> bool:
    """Whether a variable is the licence of a program: whatever its name, it is in the section `license`."""
    return item.kind == "variable" and item.has("SEC") and '"license"' in [token.text for token in item.tokens]


def of_spdx(expression: str) -> str:
    """Return the kernel's words for an SPDX expression; one that it has no words for stays as it is.

    Examples:
        >>> of_spdx("GPL-2.0-or-later"), of_spdx("(GPL-2.0-only OR BSD-3-Clause)"), of_spdx("Apache-2.0")
        ('GPL', 'Dual BSD/GPL', 'Apache-2.0')
    """
    # The exception is for programs that call the kernel.
    plain = re.sub(r"\s+WITH\s+Linux-syscall-note", "", expression)
    choices = [one.strip("() ") for one in re.split(r"\s+OR\s+", plain)]
    gpl = [one for one in choices if re.fullmatch(r"GPL-2\.0(-only|-or-later|\+)?|GPL-1\.0(-or-later|\+)", one)]
    others = [one for one in choices if one not in gpl]
    if not gpl or any("(" in one or " " in one for one in others):
        return expression
    return next((_DUAL[one[:3]] for one in others if one[:3] in _DUAL), "GPL")
