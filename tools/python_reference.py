# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes docs/reference/python.md, a page of the site, from the docstrings of what `import perigee` offers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import perigee

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "python.md"

HEAD = """\
# Python

[The guide](../guide/python.md) shows how the
names are used, [schema/results.md](../../schema/results.md) has the columns of the tables.

"""

ORDER = (
    "run", "load", "studies", "profiles", "algorithms", "Study", "Results", "Comparison", "Profile",
    "PerigeeError", "InputError", "NothingToDrawError", "RunError",
)  # fmt: skip
LISTS = ("Args", "Attributes", "Raises")
SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Examples):$")
ANNOTATION = re.compile(r": '([^']*)'")
ITEM = re.compile(r"^ {4}(\w[\w.]*): (.*)$")


def page() -> str:
    """The whole page."""
    return HEAD + "\n".join(part for name in ORDER for part in described(name, getattr(perigee, name)))


def described(name: str, what: object) -> Iterator[str]:
    """The description of a function, or of a class with all that is public in it."""
    if not inspect.isclass(what):
        yield f"## {name}\n\n```python\n{signature(f'perigee.{name}', what)}\n```\n\n{markdown(what)}"
        return
    yield f"## {name}\n\n{markdown(what)}"
    if issubclass(what, Exception):
        return
    tables = []
    for own, value in vars(what).items():
        if own.startswith("_") or own in what.__dict__.get("__dataclass_fields__", {}):
            continue
        if isinstance(value, property):
            yield f"### {name}.{own}\n\n{markdown(value)}"
        elif isinstance(value, classmethod) or inspect.isfunction(value):
            function = value.__func__ if isinstance(value, classmethod) else value
            yield f"### {name}.{own}\n\n```python\n{signature(f'{name}.{own}', function)}\n```\n\n{markdown(function)}"
        else:
            tables.append(f"- `{own}`: {value.__doc__}\n")
    if tables:
        yield f"### Tables of {name}\n\n" + "".join(tables)


def signature(name: str, function: object) -> str:
    """How a function is called, on one line."""
    found = inspect.signature(function)  # type: ignore[arg-type]
    parameters = [one for one in found.parameters.values() if one.name not in ("self", "cls")]
    returns = "" if found.return_annotation in ("None", inspect.Signature.empty) else f" -> {found.return_annotation}"
    shown = str(found.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    # Annotations are text, which `inspect` quotes; defaults keep their quotes.
    return name + ANNOTATION.sub(r": \1", shown) + returns


def markdown(what: object) -> str:
    """A docstring as Markdown: its sections as lists, its examples as code."""
    lines = inspect.cleandoc(getattr(what, "__doc__", None) or "").splitlines()
    made: list[str] = []
    section = ""
    for line in lines:
        if found := SECTION.match(line):
            section = found[1]
            made += [f"**{section}**\n", "```pycon"] if section == "Examples" else [f"**{section}**\n"]
        elif section in LISTS and (item := ITEM.match(line)):
            made.append(f"- `{item[1]}`: {item[2]}")
        elif section in LISTS and line.strip():
            made.append(f"  {line.strip()}")
        else:
            made.append(line.removeprefix("    ") if section else line)
    if section == "Examples":
        while not made[-1].strip():
            made.pop()
        made.append("```")
    return "\n".join(made).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
