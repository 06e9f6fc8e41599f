# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The files of a campaign, each with what the manifest says of it, put together to runs."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from perigee.analysis.recordings import Kind, kind_of
from perigee.campaigns.keys import PLACES
from perigee.campaigns.manifest import ROUNDS, Manifest, Recordings
from perigee.campaigns.patterns import words_in
from perigee.errors import InputError
from perigee.files import printable

OF_KIND: Mapping[Kind, str] = {"capture": "transfer", "iperf3": "transfer", "ping": "ping", "probe": "probe"}
"""Names of flows where the manifest gives none."""


@dataclass(frozen=True)
class Recording:
    """A file of a campaign.

    Attributes:
        path: the file.
        name: its name below the campaign's folder, printable.
        kind: what it is.
        of: the manifest's table that has it.
        said: what its name and the manifest say of it, by word.
        began_unix_s: the time in its name; none: there is none.
        same: what it has in common with the other files of its run.
    """

    path: Path
    name: str
    kind: Kind
    of: Recordings
    said: Mapping[str, str]
    began_unix_s: float | None
    same: tuple[tuple[str, str], ...]

    @property
    def flow(self) -> str:
        """Name of the flow in it."""
        return self.of.flow or OF_KIND[self.kind]

    @property
    def stat(self) -> os.stat_result:
        """Size and time of the file, as they are now.

        Raises:
            InputError: it is not there any more.
        """
        try:
            return self.path.stat()
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be read: {error.strerror}; put it back, or read the campaign without it"
            ) from error

    @property
    def where(self) -> str:
        """The manifest's table, for messages."""
        return f"[[recordings]] {self.of.place}"


@dataclass(frozen=True)
class Plan:
    """The runs of a campaign.

    Attributes:
        manifest: the manifest.
        folder: the folder of the files.
        runs: the files of each run, those that stand for its flows first; in the order of their names.
        strangers: names of files that no pattern has.
        left_out: number of files that the manifest leaves out.
    """

    manifest: Manifest
    folder: Path
    runs: tuple[tuple[Recording, ...], ...]
    strangers: tuple[str, ...]
    left_out: int

    @property
    def recordings(self) -> list[Recording]:
        """All files."""
        return [one for run in self.runs for one in run]

    @property
    def fingerprint(self) -> str:
        """A sum that changes with a file or the way of measuring, and not with the settings that are said of one."""

        def stamp(one: Recording) -> tuple[object, ...]:
            stat = one.stat
            ways = (one.flow, one.said.get("part"), one.of.port, one.of.count)
            return one.name, stat.st_size, stat.st_mtime_ns, *ways

        files = [sorted(map(stamp, run), key=lambda each: str(each[0])) for run in self.runs]
        measure = (self.manifest.series, self.manifest.startup, self.manifest.steady, *map(str, self.manifest.user))
        return hashlib.sha256(json.dumps([files, measure]).encode()).hexdigest()


def plan(folder: Path, manifest: Manifest, apart: Path | None = None) -> Plan:
    """Find the files of a campaign.

    Args:
        folder: where they are.
        manifest: what they are.
        apart: a folder that is not looked into: that of the results.

    Raises:
        InputError: no file fits a pattern, a file is none that is read, or two say the same.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the one that has the recordings")
    found: list[Recording] = []
    strangers, left_out = [], 0
    for path in _files(folder, (apart or folder / ".none").absolute()):
        name = path.relative_to(folder).as_posix()
        fitting = [one for one in manifest.recordings if one.files.fullmatch(name)]
        kept = [one for one in fitting if not any(skip.fullmatch(name) for skip in one.leave_out)]
        if len(kept) > 1:
            raise InputError(
                f"{manifest.path}: {printable(name)} fits [[recordings]] {kept[0].place} and {kept[1].place}; make one "
                "of the patterns narrower, or leave the file out with its `except`"
            )
        if kept:
            found.append(_recording(path, name, manifest, kept[0]))
        elif fitting:
            left_out += 1
        elif path.absolute() != manifest.path.absolute():
            strangers.append(printable(name))
    empty = {one.place for one in manifest.recordings} - {one.of.place for one in found}
    if empty:
        pattern = manifest.recordings[min(empty) - 1].pattern
        others = f"; there are {', '.join(strangers[:_NAMED])}" if strangers else ""
        raise InputError(
            f"{manifest.path}: no file below {folder} fits `{pattern}`{others}; correct `files` of [[recordings]] "
            f"{min(empty)}, or take it out"
        )
    return Plan(manifest, folder, tuple(_runs(found)), tuple(strangers), left_out)


def _files(folder: Path, apart: Path) -> Iterator[Path]:
    """Yield all files below a folder in the order of their names, hidden ones left out."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and Path(root, one).absolute() != apart)
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(root, name)


def _recording(path: Path, name: str, manifest: Manifest, of: Recordings) -> Recording:
    match = of.files.fullmatch(name)
    if match is None:
        raise AssertionError("the caller has looked")
    said = dict(of.said)
    shown = printable(name)
    if not path.is_file():
        raise InputError(f"{manifest.path}: {shown} is no regular file; take it away, or leave it out with `except`")
    for word in words_in(of.files):
        text = match[word]
        if printable(text) != text:
            raise InputError(f"{manifest.path}: {shown}: its `{word}` is no UTF-8; rename the file")
        names = of.names.get(word)
        if names is not None and text not in names:
            raise InputError(f"{manifest.path}: {shown}: `names.{word}` has no `{text}`; add it there")
        said[word] = text if names is None else names[text]
    if said.get("place", PLACES[0]) not in PLACES:
        raise InputError(
            f"{manifest.path}: {shown}: `{said['place']}` is no place; say what it stands for, as "
            f'`names = {{ place = {{ {said["place"]} = "client" }} }}` in [[recordings]] {of.place}'
        )
    if int(said.get("round", 0)) not in ROUNDS:
        raise InputError(f"{manifest.path}: {shown}: its round must be from 0 to {ROUNDS[-1]}; rename the file")
    began = _time(said["time"], shown, manifest, of) if "time" in said else None
    kind = kind_of(path)
    if kind not in OF_KIND:
        raise InputError(
            f"{path}: a campaign takes captures, files of iperf3, logs of pings and probes; leave it out with `except`"
        )
    return Recording(path, shown, kind, of, said, began, _same(name, said, match.span, of))


def _same(
    name: str, said: Mapping[str, str], span: Callable[[str], tuple[int, int]], of: Recordings
) -> tuple[tuple[str, str], ...]:
    """Return what files of one run have in common: all words but place, part and time; without a round the rest too."""
    own = {word: value for word, value in said.items() if word not in ("place", "part", "time")}
    if "round" in own:
        own["round"] = str(int(own["round"]))
        return tuple(sorted(own.items()))
    if "time" in said:
        return tuple(sorted({**own, "time": said["time"]}.items()))
    rest = name
    for begin, end in sorted((span(word) for word in ("place", "part") if word in words_in(of.files)), reverse=True):
        rest = rest[:begin] + rest[end:]
    return tuple(sorted({**own, "name": rest}.items()))


def _time(text: str, shown: str, manifest: Manifest, of: Recordings) -> float:
    try:
        time = datetime.strptime(text, of.time)
    # A form that has a directive twice is no regular expression.
    except (ValueError, re.error) as error:
        raise InputError(
            f"{manifest.path}: {shown}: `{text}` is no time of the form `{of.time}`; correct `time` of "
            f"[[recordings]] {of.place}"
        ) from error
    return (time if time.tzinfo else time.replace(tzinfo=manifest.zone)).timestamp()


def _runs(found: Sequence[Recording]) -> Iterator[tuple[Recording, ...]]:
    """Yield the files of each run, in the order of their first names."""
    runs: dict[tuple[tuple[str, str], ...], list[Recording]] = {}
    for one in found:
        runs.setdefault(one.same, []).append(one)
    for files in runs.values():
        ordered = sorted(files, key=lambda one: (one.of.place, _nearness(one), int(one.said.get("part") or 0)))
        seen: dict[tuple[str, ...], Recording] = {}
        for one in ordered:
            identity = (one.flow, one.kind, one.said.get("place", ""), one.said.get("part", "-"))
            other = seen.setdefault(identity, one)
            if other is not one:
                said = ", ".join(f"{word} {value}" for word, value in one.said.items()) or "nothing"
                raise InputError(
                    f"{one.name} and {other.name} are the same by the manifest ({said}); put a word into `files` of "
                    f"{one.where} that tells them apart, or leave one out with `except`"
                )
        yield tuple(ordered)


def _nearness(one: Recording) -> int:
    """Put the sender's capture first: it shows all that a flow has."""
    sender = "client" if one.said.get("direction") == "up" else "server"
    return 0 if one.said.get("place") == sender else 1


_NAMED = 3
"""Files that a message names of several."""
