# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A working congestion control to begin with, with its study and its tests: copies of `data/skeleton`, renamed."""

from __future__ import annotations

import re
from pathlib import Path

from perigee.cc.catalog import algorithms
from perigee.errors import InputError
from perigee.files import write_new_folder
from perigee.places import headers

SKELETON = Path(__file__).resolve().parent.parent / "data" / "skeleton"
NAME_THERE = "mycc"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,14}")
_WORDS_OF_C = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long main "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "asm typeof linux unix"
)


def create(name: str, folder: Path) -> Path:
    """Write the skeleton of a congestion control into a new folder of its name.

    Args:
        name: what it will be called, also in the kernel.
        folder: where its folder is made.

    Returns:
        The new folder; in it are `NAME.c`, `README.md`, `report.toml`, `study.toml`, `test_NAME.py`.

    Raises:
        InputError: the name cannot be one, or there is something of that name already.
        StorageError: the files cannot be written.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(path.name for path in create("halver", Path(folder)).iterdir())
        ['README.md', 'halver.c', 'report.toml', 'study.toml', 'test_halver.py']
        >>> create("9lives", Path("."))
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: 9lives: is no name of an algorithm; use 1 to 15 of a-z, 0-9 and _, a letter first
    """
    _check(name)
    target = folder / name
    sources = [path for path in sorted(SKELETON.iterdir()) if path.is_file()]
    texts = {_renamed(path.name, name): _renamed(path.read_text(encoding="utf-8"), name) for path in sources}
    write_new_folder(target, texts)
    return target


def _renamed(text: str, name: str) -> str:
    return text.replace(NAME_THERE, name).replace(NAME_THERE.capitalize(), name.capitalize())


def _check(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name}: is no name of an algorithm; use 1 to 15 of a-z, 0-9 and _, a letter first")
    if name in {one.name for one in algorithms()}:
        raise InputError(f"{name}: is the name of a built-in algorithm; choose another")
    # The name becomes a struct and a variable of the file, which includes these headers.
    texts = [path.read_text(encoding="utf-8") for path in (headers() / "tcp.h", *headers().glob("host/*.h"))]
    if name in _WORDS_OF_C.split() or any(re.search(rf"\b{name}\b", text) for text in texts):
        raise InputError(f"{name}: means something else in C or in tcp.h; choose another")
