# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The files of the cases: path, traffic, events, checks; and the cells that each is carried out in."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from words import duration

FOLDER = Path(__file__).resolve().parent
CASES = FOLDER / "cases"

RTTS = {"1ms": 0.001, "20ms": 0.020, "100ms": 0.100, "600ms": 0.600, "1s": 1.0}
"""Round trips of the grid without any packet's own time, seconds."""

RATES = {"64k": 64e3, "1M": 1e6, "20M": 20e6, "500M": 500e6, "10G": 10e9}
"""Rates of the grid, bits/s of IP packets."""

HEADERS = 52
"""Bytes of IP and TCP headers with timestamps."""

FASTEST_FLIGHT = 450e6
"""Largest bandwidth-delay product, bytes: TCP's window ends at 1 GiB, and Startup needs two of them."""


class CaseError(ValueError):
    """A case file is wrong; the message names file and fix."""


@dataclass(frozen=True)
class Cell:
    """A path of the grid.

    Attributes:
        rtt: its name in `RTTS`.
        rate: its name in `RATES`.
    """

    rtt: str
    rate: str

    def __str__(self) -> str:
        """Its name, as in misses.toml."""
        return f"{self.rate}/{self.rtt}"

    @property
    def rtt_s(self) -> float:
        """Round trip without the time of packets, s."""
        return RTTS[self.rtt]

    @property
    def rate_bps(self) -> float:
        """Rate of the bottleneck, bits/s of IP packets."""
        return RATES[self.rate]

    @property
    def mtu(self) -> int:
        """Bytes of an IP packet; at high rates one stands for a train, as offloads hand it down and up."""
        return 60000 if self.rate_bps >= 1e9 else 9000 if self.rate_bps >= 100e6 else 1500

    @property
    def smss(self) -> int:
        """Payload of a full segment, bytes."""
        return self.mtu - HEADERS

    @property
    def packet_s(self) -> float:
        """Time of a full packet at the rate, s."""
        return self.mtu * 8 / self.rate_bps

    @property
    def payload(self) -> float:
        """Rate in bytes of payload per second."""
        return self.rate_bps / 8 * self.smss / self.mtu

    @property
    def base_s(self) -> float:
        """Round trip of a full packet without a queue, s."""
        return self.rtt_s + self.packet_s

    @cached_property
    def units(self) -> Mapping[str, float]:
        """Seconds of `rtt`, of `packet`, a packet's time, and of `round`, a round trip with the smallest flight."""
        return {"rtt": self.rtt_s, "round": self.base_s + 5 * self.packet_s, "packet": self.packet_s}

    @property
    def bdp_bytes(self) -> float:
        """Payload in flight without a queue, bytes."""
        return self.payload * self.base_s

    def shorter_s(self, times: int) -> float:
        """Return the delay of a path that is shorter by 1 % per time, and by two packets' times.

        The smallest round trip may be a handshake's, whose packets take less time than those with data. At most nine
        tenths of the delay go.
        """
        return max(self.rtt_s - 0.01 * times * self.rtt_s - 2 * self.packet_s, 0.1 * self.rtt_s)

    @property
    def constants(self) -> dict[str, float]:
        """Names of expressions: RATE and BDP are of payload; ONE is a packet's share of a flight."""
        return {
            "RATE": self.payload,
            "BDP": self.bdp_bytes,
            "SMSS": float(self.smss),
            "RTT": self.base_s,
            "ROUND": self.units["round"],
            "PACKET": self.packet_s,
            "ONE": self.smss / max(self.bdp_bytes, 6 * self.smss),
            "PACKETS": self.bdp_bytes / self.smss,
        }


GRID = [Cell(rtt, rate) for rate in RATES for rtt in RTTS]

QUICK = [Cell("20ms", "20M"), Cell("100ms", "20M"), Cell("600ms", "20M"), Cell("100ms", "1M"), Cell("20ms", "64k")]
"""The cells of the reduced grid."""


@dataclass(frozen=True)
class Event:
    """A change of the path or the application.

    Attributes:
        name: for instants.
        at: when, an instant.
        changes: what: `rate`, `app` (shares of the cell's rate), `shorter` (see `Cell.shorter_s`), `drop`, `hold`,
            `detour`.
    """

    name: str
    at: str
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A case, in one of its variants.

    Attributes:
        number: in the draft's list.
        name: its name.
        variant: the variant's name; empty for the only one.
        says: what is to be seen, a sentence.
        length: how long a run is, a text of time.
        path: keys of the path: `queue` (in bandwidth-delay products, at least 20 packets, from 10 products on 200),
            `rate` at the beginning, `burst`, `acks`.
        app: what the application offers, as a share of the rate; none: always more than can be sent.
        events: in their order.
        checks: what is judged.
        exceptions: conditions on cells, with reasons.
    """

    number: int
    name: str
    variant: str
    says: str
    length: str
    path: Mapping[str, Any]
    app: float | None
    events: Sequence[Event]
    checks: Sequence[Mapping[str, Any]]
    exceptions: Sequence[Mapping[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        """Its name, as in misses.toml."""
        return f"{self.number:02}-{self.name}" + (f"/{self.variant}" if self.variant else "")

    def length_s(self, cell: Cell) -> float:
        """How long a run is, s."""
        return duration(self.length, cell.units)

    def exception(self, cell: Cell) -> str | None:
        """Why the case is not carried out in a cell; none if it is."""
        if cell.bdp_bytes > FASTEST_FLIGHT:
            return "TCP's window ends at 1 GiB, below the two bandwidth-delay products that Startup needs"
        for one in self.exceptions:
            rtts, rates = one.get("rtt", list(RTTS)), one.get("rate", list(RATES))
            few, many = one.get("packets_below", float("inf")), one.get("packets_above", 0.0)
            longest = duration(one["round_above"], cell.units) if "round_above" in one else 0.0
            packets = cell.bdp_bytes / cell.smss
            if cell.rtt in rtts and cell.rate in rates and many < packets < few and cell.units["round"] > longest:
                return str(one["reason"])
        return None


_KEYS = {"number", "name", "says", "length", "path", "app", "event", "check", "except", "variant"}
_EVENT_KEYS = {"name", "at", "rate", "shorter", "app", "drop", "hold", "detour"}
_CHECK_KEYS = {"says", "in", "from", "to", "where", "holds", "missing"}
_EXCEPT_KEYS = {"reason", "rtt", "rate", "round_above", "packets_below", "packets_above"}


def read(path: Path) -> list[Case]:
    """Return the variants of a case file.

    Raises:
        CaseError: it is wrong; the message names file, key and fix.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise CaseError(f"{path}: {error}") from None
    _known(path, "", content, _KEYS)
    variants = content.pop("variant", {"": {}})
    return [_variant(path, content, name, changes) for name, changes in variants.items()]


def _variant(path: Path, content: Mapping[str, Any], name: str, changes: Mapping[str, Any]) -> Case:
    """Return a variant: the file's keys, with those of the variant; lists of the variant follow the file's."""
    whole = copy.deepcopy(dict(content))
    for key, value in changes.items():
        if key == "set":
            for event, change in value.items():
                next(e for e in whole["event"] if e["name"] == event).update(change)
        elif isinstance(value, list):
            whole[key] = [*whole.get(key, []), *value]
        elif isinstance(value, dict):
            whole[key] = {**whole.get(key, {}), **value}
        else:
            whole[key] = value
    _known(path, f"variant.{name}.", {k: v for k, v in changes.items() if k != "set"}, _KEYS)
    for kind, known in (("event", _EVENT_KEYS), ("check", _CHECK_KEYS), ("except", _EXCEPT_KEYS)):
        for one in whole.get(kind, []):
            _known(path, f"{kind}.", one, known)
    try:
        events = [
            Event(e["name"], e["at"], {k: v for k, v in e.items() if k not in ("name", "at")})
            for e in whole.get("event", [])
        ]
        for check in whole["check"]:
            if "says" not in check or "holds" not in check:
                raise CaseError(f"{path}: a check needs `says` and `holds`")
        return Case(
            number=whole["number"],
            name=whole["name"],
            variant=name,
            says=whole["says"],
            length=whole["length"],
            path=whole.get("path", {}),
            app=whole.get("app"),
            events=events,
            checks=whole["check"],
            exceptions=whole.get("except", []),
        )
    except KeyError as error:
        raise CaseError(f"{path}: the key {error} is missing") from None


def _known(path: Path, where: str, table: Mapping[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            raise CaseError(f"{path}: unknown key `{where}{key}`; known are {', '.join(sorted(known))}")


def cases(folder: Path = CASES) -> list[Case]:
    """Return all cases, in order, variant after variant."""
    return [case for path in sorted(folder.glob("*.toml")) for case in read(path)]
