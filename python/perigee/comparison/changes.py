# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Differences between results of a study: settings, size, engine, versions, files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perigee.errors import InputError
from perigee.store.origins import ORIGINS
from perigee.store.results import Results

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The names of compared results, in order."""

AS_WRITTEN = "as in the study"
SHOWN_OF_HASH = 10


@dataclass(frozen=True)
class Change:
    """One thing that is not the same in all results.

    Attributes:
        what: which, for people: a key of the study, `size`, `engine`, the name of a file.
        values: what it is in each of the results, in their order.
    """

    what: str
    values: tuple[str, ...]


def letters(count: int) -> str:
    """Return the letters of `count` results.

    Raises:
        InputError: there are more than letters.
    """
    if count > len(LETTERS):
        raise InputError(f"{count} results are too many to compare; give up to {len(LETTERS)}")
    return LETTERS[:count]


def changes(results: Sequence[Results]) -> list[Change]:
    """Return what differs in how results were made, beginning with what was changed on purpose."""
    found: list[tuple[str, list[str]]] = [("study", [one.study for one in results])]
    settings = [_settings(one) for one in results]
    # Rounds and first seed have rows of their own below.
    keys = dict.fromkeys(key for own in settings for key in own if key not in ("rounds", "seed"))
    found += [(key, [own.get(key, AS_WRITTEN) for own in settings]) for key in keys]
    found.append(("size", ["reduced" if one.manifest["reduced"] else "whole" for one in results]))
    found.append(("engine", [ORIGINS[one.manifest["engine"]].numbers for one in results]))
    found.append(("rounds", [str(one.manifest["rounds"]) for one in results]))
    found.append(("first seed", [str(one.manifest["first_seed"]) for one in results]))
    found += _files(results)
    found.append(("perigee", [one.manifest["versions"]["perigee"] for one in results]))
    if len({one.manifest["engine"] for one in results}) == 1:
        found.append(("build of the program", [one.manifest["build"][:SHOWN_OF_HASH] for one in results]))
    return [Change(what, tuple(values)) for what, values in found if len(set(values)) > 1]


def in_words(results: Results) -> str:
    """Return how results were made: engine, settings, size.

    It is what tells results of one study apart in a table that has a column for it.
    """
    manifest = results.manifest
    size = ["reduced"] if manifest["reduced"] else []
    return "; ".join([str(manifest["engine"]), *size, *(f"{key}={value}" for key, value in _settings(results).items())])


def _settings(results: Results) -> dict[str, str]:
    """Return the settings by key, the last of each."""
    pairs = (setting.partition("=") for setting in results.manifest["settings"])
    return {key.strip(): value.strip() for key, _, value in pairs}


def _files(results: Sequence[Results]) -> list[tuple[str, list[str]]]:
    """Return the study and the authors' congestion controls, by the beginnings of their checksums."""
    kept = [one.manifest["study_files"] for one in results]
    names = [name for name in dict.fromkeys(name for files in kept for name in files) if name.endswith((".toml", ".c"))]
    return [
        (name, [files[name][:SHOWN_OF_HASH] if name in files else "not used" for files in kept])
        for name in names
        if name == "study.toml" or name.endswith(".c")
    ]
