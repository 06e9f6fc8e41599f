# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files that a command writes at its end, looked at before it begins."""

from __future__ import annotations

import os
from pathlib import Path

from perigee.errors import InputError


def check_file(option: str, path: Path) -> None:
    """Refuse a file that could not be written after all the work.

    Raises:
        InputError: it is a folder, or its folder is missing or cannot be written.

    Examples:
        >>> check_file("--json", Path("/nowhere/found.json"))
        Traceback (most recent call last):
        perigee.errors.InputError: --json /nowhere/found.json: there is no folder /nowhere; make it first
    """
    if path.is_dir():
        raise InputError(f"{option} {path}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}; make it first")
    _check_writable(option, path, path.parent)


def check_folder(option: str, path: Path) -> None:
    """Refuse a folder that could be neither made nor written.

    Raises:
        InputError: it, or what it would be in, is a file, or cannot be written.
    """
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not there.is_dir():
        raise InputError(f"{option} {path}: {there} is no folder; name another one")
    _check_writable(option, path, there)


def _check_writable(option: str, path: Path, folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{option} {path}: {folder} cannot be written; write to another folder")
