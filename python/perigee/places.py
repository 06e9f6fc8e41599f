# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Where studies and profiles are: a path, the checkout, or the installed package's data."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perigee.errors import InputError
from perigee.files import TEXT_BYTES, read_bounded
from perigee.names import suggestion

COMPANIONS = ("published.toml", "report.toml")
"""Files beside a `study.toml` that the report reads; they travel with its results."""


@dataclass(frozen=True)
class TomlFile:
    """A file as found on the disk.

    Attributes:
        path: the TOML file.
        text: its content.
        search: folders to search for profiles and recordings; the first match wins.
    """

    path: Path
    text: str
    search: tuple[Path, ...]

    @property
    def content(self) -> dict[str, Any]:
        """The file as plain TOML; empty if it is wrong, which its reader reports."""
        try:
            return tomllib.loads(self.text)
        except (ValueError, RecursionError):
            return {}

    def head(self, key: str) -> str:
        """Return the text of a key at the head of the file; empty if missing or wrong."""
        value = self.content.get(key, "")
        return value if isinstance(value, str) else ""


class StudyFile(TomlFile):
    """A study."""

    def companions(self) -> dict[str, bytes]:
        """Return the files beside the study that the report reads, by name."""
        if self.path.name != "study.toml":
            return {}
        found = {name: self.path.parent / name for name in COMPANIONS}
        return {name: read_bounded(path, TEXT_BYTES, name) for name, path in found.items() if path.is_file()}


def data_roots() -> tuple[Path, ...]:
    """Return the folders that hold `studies/` and `profiles/`, nearest first.

    The working directory comes first (a user's own), then the package's: in a checkout links to the repository's own
    folders, in an installed wheel copies of them.
    """
    candidates = (Path.cwd(), Path(__file__).resolve().parent / "data")
    roots = [path for path in candidates if (path / "studies").is_dir() or (path / "profiles").is_dir()]
    return tuple(dict.fromkeys(roots))


def headers() -> Path:
    """Return the folder of `tcp.h`, which every congestion control includes, and of those that are built in.

    Examples:
        >>> (headers() / "tcp.h").is_file()
        True
    """
    return Path(__file__).resolve().parent / "data" / "algorithms"


def evaluations() -> Path:
    """Return the folder of the studies by which congestion controls are evaluated: the package's, never a user's own.

    Examples:
        >>> (evaluations() / "5.1.1-collapse.toml").is_file()
        True
    """
    return Path(__file__).resolve().parent / "data" / "studies" / "rfc9743"


def studies() -> dict[str, Path]:
    """Return the study files that can be run by name.

    Examples:
        >>> all(path.name == "study.toml" for path in studies().values())
        True
    """
    found: dict[str, Path] = {}
    for root in data_roots():
        for path in sorted((root / "studies").glob("*/study.toml")):
            found.setdefault(path.parent.name, _near(path.resolve()))
    return found


def collections() -> tuple[Path, ...]:
    """Return the folders of smaller studies, each a file of its own, that are run by their path.

    Examples:
        >>> [folder.name for folder in collections()]
        ['answers', 'findings', 'rfc9743']
    """
    folders = (folder for root in data_roots() for folder in sorted((root / "studies").glob("*/")))
    found = {folder.name: _near(folder.resolve()) for folder in folders if _is_collection(folder)}
    return tuple(found.values())


def _is_collection(folder: Path) -> bool:
    return not (folder / "study.toml").exists() and any(folder.glob("*.toml"))


def find_study(name_or_path: str) -> StudyFile:
    """Find and read a study by its name in `studies/`, its folder, or its file.

    Raises:
        InputError: there is no such study, or its file cannot be read as text.
    """
    path = _resolve(name_or_path)
    search = (path.parent, *data_roots())
    return StudyFile(path, _text_of(path, "study"), tuple(dict.fromkeys(search)))


class ProfileFile(TomlFile):
    """A link profile."""

    @property
    def current(self) -> str | None:
        """The name that the profile has now, if it was found by an old one.

        Examples:
            >>> find_profile("starlink-2026").current, find_profile("starlink").current
            ('starlink', None)
        """
        name = self.head("name")
        is_old = name != self.path.stem and (self.path.parent / f"{name}.toml").is_file()
        return name if is_old else None


def profiles() -> dict[str, Path]:
    """Return the files of the link profiles that can be taken by name, old names too.

    Examples:
        >>> "geo" in profiles(), "starlink-2026" in profiles()
        (True, True)
    """
    found: dict[str, Path] = {}
    for root in data_roots():
        for path in sorted((root / "profiles").glob("*.toml")):
            # A link to a profile keeps its name.
            found.setdefault(path.stem, _near(path.parent.resolve() / path.name))
    return found


def current_profiles() -> dict[str, Path]:
    """Return the files of the link profiles by the names that they have now.

    Examples:
        >>> "starlink" in current_profiles(), "starlink-2026" in current_profiles()
        (True, False)
    """
    return {name: path for name, path in profiles().items() if find_profile(name).current is None}


def find_profile(name_or_path: str) -> ProfileFile:
    """Find and read a link profile by its name in `profiles/`, or its file.

    Raises:
        InputError: there is no such profile, or its file cannot be read as text.
    """
    given = Path(name_or_path)
    path = given if given.suffix == ".toml" or "/" in name_or_path else None
    known = profiles()
    path = path or known.get(name_or_path)
    if path is None:
        raise InputError(f"{name_or_path}: no profile of that name", suggestion(name_or_path, known))
    return ProfileFile(path, _text_of(path, "profile"), tuple(dict.fromkeys((path.parent, *data_roots()))))


def _text_of(path: Path, kind: str) -> str:
    try:
        return read_bounded(path, TEXT_BYTES, f"a {kind}").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file (byte {error.start} is no UTF-8); give a {kind} in TOML") from error


def _near(path: Path) -> Path:
    """Return a path as seen from the working directory, where it is below that."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _resolve(name_or_path: str) -> Path:
    given = Path(name_or_path)
    if given.is_dir():
        if (given / "study.toml").is_file():
            return given / "study.toml"
    elif given.exists():
        return given
    known = studies()
    if name_or_path in known:
        return known[name_or_path]
    raise InputError(f"{name_or_path}: no such study file, and no study of that name", suggestion(name_or_path, known))
