# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of other programs, one reader a format: which format a file has, and what it holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from perigee.analysis import (
    autorate,
    dish,
    flent,
    fping,
    iperf3,
    iperf3_text,
    irtt,
    ookla,
    own_pings,
    ping_lines,
    sockets,
    system_ping,
)
from perigee.analysis.log import Entry, Log, Pings
from perigee.analysis.source import Source
from perigee.errors import InputError
from perigee.files import DOCUMENT_BYTES, MIB, printable

Kind = Literal["iperf3", "ping", "log"]
"""Kind of a log: tests of iperf3, pings, or anything that has both or summaries only."""


@dataclass(frozen=True)
class Format:
    """A format of logs.

    Attributes:
        kind: what its logs are.
        is_of: whether a file begins so.
        read: reads a file.
    """

    kind: Kind
    is_of: Callable[[bytes], bool]
    read: Callable[[Path], list[Log]]


def format_of(path: Path) -> Format | None:
    """Return the format of a log, by how it begins; none: it is none of them.

    Raises:
        InputError: it cannot be read.
    """
    source = Source(path)
    head = source.head()
    found = next((one for one in _FORMATS if one.is_of(head)), None)
    if found is not None or not _JSON.search(head):
        return found
    # Objects have their names in any order.
    head = source.head(_JSON_HEAD_BYTES)
    return next((one for one in _DOCUMENTS if one.is_of(head)), None)


def read(path: Path) -> list[Log]:
    """Read a log of any format.

    Raises:
        InputError: it cannot be read, is none, or is damaged so that nothing can be had of it.
    """
    found = format_of(path)
    if found is None:
        raise InputError(f"{path}: this is no log that is known; docs/reference/files.md has those that are")
    return found.read(path)


def pings_of(path: Path) -> tuple[Log, Pings]:
    """Return the log of a file that has most answered pings, and these; its notes say so where others have some.

    Raises:
        InputError: there are none, or it cannot be read.
    """
    found = [(log, log.pings) for log in read(path) if log.pings is not None]
    if len(found) > 1:
        log, pings = max(found, key=lambda one: sum(rtt is not None for _, rtt in one[1].entries()))
        left = f"of {len(found)} measurements that with most answers is taken; give the others in files of their own"
        return replace(log, notes=(*log.notes, left)), pings
    if found:
        return found[0]
    raise InputError(f"{path}: holds no pings; give a log of `ping`, fping or irtt")


def entries_of(path: Path) -> Iterator[Entry]:
    """Yield the pings of a log of any program; the instants of the system's `ping` are those of the answers.

    Raises:
        InputError: the log is damaged, or holds no pings.
    """
    return pings_of(path)[1].entries()


def _iperf3(path: Path) -> list[Log]:
    return iperf3.read(Source(path).text(DOCUMENT_BYTES, "iperf3's JSON"), printable(path.name))


def _has(*names: bytes) -> Callable[[bytes], bool]:
    key = re.compile(rb'"(?:' + b"|".join(names) + rb')"\s*:')
    return lambda head: key.search(head) is not None


_FORMATS = (
    Format("ping", lambda head: head.startswith(own_pings.MAGIC), own_pings.read),
    Format("ping", ping_lines.is_of_system, system_ping.read),
    Format("ping", fping.is_of_fping, fping.read),
    Format("log", autorate.is_of_autorate, autorate.read),
    Format("log", dish.is_of_dish, dish.read),
    Format("log", sockets.is_of_ss, sockets.read),
    Format("iperf3", lambda head: iperf3_text.is_of_iperf3(head.decode(errors="replace")), _iperf3),
)
_DOCUMENTS = (
    Format("ping", _has(b"round_trips", b"irtt"), irtt.read),
    Format("log", _has(b"x_values", b"SERIES_META", b"raw_values"), flent.read),
    Format("log", _has(b"dishGetHistory"), dish.read),
    Format("log", _has(b"packetLoss", b"isp"), ookla.read),
    Format("iperf3", lambda _head: True, _iperf3),
)
"""Formats of JSON, by names that only one of them has; all else is for iperf3's reader to refuse."""
_JSON = re.compile(rb"^\s*[\[{]\s*[\[{\"}\]]", re.MULTILINE)
_JSON_HEAD_BYTES = MIB
