# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The manifest of a campaign, `campaign.toml`: which files there are, and what each of them is."""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from perigee.campaigns.keys import CAMPAIGN, DIRECTIONS, MEASURE, PLACES, RECORDINGS
from perigee.campaigns.patterns import Pattern, compiled, words_in
from perigee.core import native
from perigee.errors import InputError
from perigee.files import TEXT_BYTES, read_bounded
from perigee.groups.strict import StrictTable

NAME = "campaign.toml"
"""The manifest's name in a results folder."""
OWN = ("cc", "round", "direction", "place", "time", "part")
"""Words of names that have a meaning of their own; every other one is what varies."""

ROUNDS = range(1 << 32)
"""Numbers that a round may have."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Recordings:
    """Files of one kind of name.

    Attributes:
        place: its number among the manifest's `[[recordings]]`, from 1.
        pattern: the pattern of their names, as it is written.
        files: the same, compiled.
        leave_out: patterns of those that are left out.
        flow: name of the flow; empty: by what a file is.
        said: what holds for all of them, by word.
        names: of a word what its values stand for.
        time: form of the time in names; empty: there is none.
        port: port of the server; none: any.
        count: transfers in each file.
    """

    place: int
    pattern: str
    files: Pattern
    leave_out: tuple[Pattern, ...]
    flow: str
    said: Mapping[str, str]
    names: Mapping[str, Mapping[str, str]]
    time: str
    port: int | None
    count: int


@dataclass(frozen=True)
class Manifest:
    """A manifest.

    Attributes:
        path: its file.
        text: its content.
        name: name of the campaign.
        user: networks of the user's side; empty: not said.
        zone: zone of times in names.
        time_within_s: how far these may be from the file's own, s.
        series: interval of the series.
        startup: end of the start-up phase.
        steady: share of the steady phase.
        recordings: the files.
    """

    path: Path
    text: str
    name: str
    user: tuple[Network, ...]
    zone: ZoneInfo
    time_within_s: float
    series: str
    startup: str
    steady: str
    recordings: tuple[Recordings, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words beside the manifest's own that say what varies, in their order."""
        found = [word for one in self.recordings for word in (*words_in(one.files), *one.said)]
        return tuple(word for word in dict.fromkeys(found) if word not in OWN)


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        InputError: it cannot be read or is wrong; the message names the line and the fix.
    """
    content = read_bounded(path, TEXT_BYTES, "a manifest")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file (byte {error.start} is no UTF-8); save it as UTF-8") from error
    table = StrictTable.parse(path, text, CAMPAIGN)
    name = table.text("name")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise table.error(name, f"`{name}` is no name; use letters, digits, `-`, `_` and `.`")
    table.text("title", "")
    table.text("about", "")
    measure = StrictTable(path, text, table.take("measure", dict, {}), MEASURE, "measure")
    found = Manifest(
        path=path,
        text=text,
        name=name,
        user=tuple(table.guard(word, lambda word=word: _network(word)) for word in table.texts("user")),
        zone=_zone(table),
        time_within_s=_time_within(table),
        series=_measured(measure, "series", "1 s", ("ms",), 'a time of 1 ms or more, as "1 s"'),
        startup=_measured(measure, "startup", "off", ("B", "ms"), 'a size, a time or off, as "50 MB"'),
        steady=_measured(measure, "steady", "50 %", ("%",), 'a share or off, as "50 %"'),
        recordings=tuple(map(_recordings, table.tables("recordings", RECORDINGS), itertools.count(1))),
    )
    measure.end()
    table.end()
    if not found.recordings:
        raise table.error("", 'there are no [[recordings]]; add one with `files = "{round}/{cc}.pcap"`')
    return found


def _recordings(table: StrictTable, place: int) -> Recordings:
    pattern = table.text("files")
    files = table.guard(pattern, lambda: compiled(pattern))
    said = table.words("set")
    for word in said:
        if word in OWN or not re.fullmatch(r"[a-z][a-z0-9_]*", word):
            hint = f"write `{word} = ...` outside of it" if word in OWN else "use small letters, digits and `_`"
            raise table.error(word, f"`set.{word}`: is none of your own words; {hint}")
    said |= {key: table.text(key, "") for key in ("cc", "direction", "place")}
    rounds = table.take("round", int, None)
    said = {word: value for word, value in said.items() if value} | ({} if rounds is None else {"round": str(rounds)})
    names = {word: _words(table, word, of) for word, of in table.take("names", dict, {}).items()}
    made = Recordings(
        place=place,
        pattern=pattern,
        files=files,
        leave_out=tuple(table.guard(one, lambda one=one: compiled(one)) for one in table.texts("except")),
        flow=table.text("flow", ""),
        said=said,
        names=names,
        time=table.text("time", ""),
        port=table.take("port", int, None),
        count=table.take("count", int, 1),
    )
    table.end()
    _check(table, made)
    return made


def _check(table: StrictTable, made: Recordings) -> None:
    """Refuse what contradicts itself before any file is looked at."""
    words, pattern = words_in(made.files), made.pattern
    if twice := [word for word in words if word in made.said]:
        raise table.error(pattern, f"`{twice[0]}` is in the names and set beside them; keep one")
    if unknown := [word for word in made.names if word not in words]:
        raise table.error(unknown[0], f"`names.{unknown[0]}`: no name has `{{{unknown[0]}}}`; the names have "
                          f"{', '.join(words) or 'no words'}")  # fmt: skip
    if ("time" in words) != bool(made.time):
        fix = 'give `time = "%Y%m%d-%H%M%S"`, its form' if "time" in words else "put `{time}` into `files`"
        raise table.error(pattern, f"`{{time}}` and `time` belong together; {fix}")
    for word, values in (("direction", DIRECTIONS), ("place", PLACES)):
        for value in (*filter(None, [made.said.get(word)]), *made.names.get(word, {}).values()):
            if value not in values:
                raise table.error(value, f"`{word}` must be one of {', '.join(values)}, not `{value}`")
    if made.port is not None and not 1 <= made.port <= 65535:
        raise table.error("port", f"`port` must be from 1 to 65535, not {made.port}")
    if not 1 <= made.count <= _MOST_TRANSFERS:
        raise table.error("count", f"`count` must be from 1 to {_MOST_TRANSFERS}, not {made.count}")
    if int(made.said.get("round", 0)) not in ROUNDS:
        raise table.error("round", f"`round` must be from 0 to {ROUNDS[-1]}")
    for word in ("round", "part"):
        for key, value in made.names.get(word, {}).items():
            if not re.fullmatch("[0-9]{1,10}", value) or int(value) not in ROUNDS:
                raise table.error(key, f"`names.{word}`: `{value}` must be a number from 0 to {ROUNDS[-1]}")
    if re.search(r"\.[0-9]+$", made.flow):
        raise table.error(
            made.flow, f"`flow`: `{made.flow}` ends like the several transfers of one file; write it without the number"
        )


def _words(table: StrictTable, word: str, of: object) -> dict[str, str]:
    if not isinstance(of, dict) or not all(isinstance(value, str) for value in of.values()):
        raise table.error(word, f'`names.{word}` must be a table of texts, as {{ a = "cubic" }}')
    return of


def _measured(table: StrictTable, key: str, default: str, units: tuple[str, ...], form: str) -> str:
    """Return a quantity of `[measure]` as it is written; `off` where that is a value of the key."""
    text = table.text(key, default)
    found = native.quantity(text)
    least = _LEAST_SERIES_MS if key == "series" else 0
    if not (text == "off" and key != "series") and (found is None or found[1] not in units or found[0] < least):
        raise table.error(key, f'`{key}` must be {form}, not "{text}"')
    return text


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise InputError(f"`{text}` is no address or network; write it as `10.0.0.0/8`") from error


def _zone(table: StrictTable) -> ZoneInfo:
    name = table.text("zone", "UTC")
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise table.error(name, f"`{name}` is no time zone of this machine; write it as `Europe/Berlin`") from error


def _time_within(table: StrictTable) -> float:
    text = table.text("time_within", "10 min")
    found = native.quantity(text)
    if found is None or found[1] != "ms" or not 0 < found[0] <= _MOST_WITHIN_MS:
        raise table.error(text, f'`time_within` must be a time up to 12 h, as "10 min", not "{text}"')
    return found[0] / 1000


_MOST_TRANSFERS = 100
_LEAST_SERIES_MS = 1
_MOST_WITHIN_MS = 12 * 3600 * 1000
