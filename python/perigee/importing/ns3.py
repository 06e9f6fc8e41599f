# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Attributes of ns-3's point-to-point links: in C++ or Python, on the command line, or in a ConfigStore file."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from perigee.importing.link import Direction, Link, Place
from perigee.importing.units import NS3_TIMES, ns3_rate, quantity, rate, share, time

T = TypeVar("T")
_NAME = re.compile(r"(?:[\"']|::|--)(DataRate|Delay|MaxSize|MaxPackets|ErrorRate|ErrorUnit)\b[\"']?\s*[,= ]?\s*")
_VALUE = re.compile(
    r"(?:\w+(?:::|\.))?(?:\w+Value\s*\()?\s*(?:(?:\w+(?:::|\.))?(?:DataRate|Time|QueueSize)\s*\(\s*)?"
    r"(?:(Seconds|MilliSeconds|MicroSeconds)\s*\(\s*)?[\"']?"
    r"([0-9][0-9.eE+-]*\s*[A-Za-z/]*|\w*(?:::|\.)?EU_\w+|ERROR_UNIT_\w+)"
)
_TIME_UNITS = {"": "", "Seconds": "s", "MilliSeconds": "ms", "MicroSeconds": "us"}
_QUEUE = re.compile(r"ns3::(\w+?)(?:QueueDisc|Queue)(?:<\w+>)?\b")
DEFAULTS = ("32768 bit/s", "0 s", 100)
"""Rate, delay and packets of the queue of a point-to-point link that sets none (ns-3.46, their `GetTypeId`)."""
PPP_BYTES = 2
"""Bytes that the device adds to each packet (ns-3 model library, Point-to-Point: PPP)."""
_KINDS = {"FqCoDel": "fq-codel", "CoDel": "codel", "Pie": "pie", "Red": "red"}


def read_ns3(text: str, file: str) -> Link:
    """Read the attributes of one link.

    Raises:
        InputError: a value is wrong, or an attribute is there twice with two values.
    """
    link = Link("ns-3", Direction(), Direction())
    found: dict[str, tuple[str, Place]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0].strip()
        place = Place(file, number)
        end = 0
        for said in _NAME.finditer(code):
            if said.start() < end:
                # A type within the value before, such as `ns3::DataRate("5Mbps")`.
                continue
            name, match = said[1], _VALUE.match(code, said.end())
            if match is None:
                raise place.error(f"{name} without a value that can be read", f'write it as "{name}", "5Mbps" or alike')
            end = match.end()
            value = match[2].strip() + _TIME_UNITS[match[1] or ""]
            if name in found and found[name][0] != value:
                raise place.error(
                    f"a second {name}, {value}, beside {found[name][0]} of line {found[name][1].line}",
                    "give the lines of one link",
                )
            found[name] = (value, place)
        for kind in _QUEUE.findall(code):
            if kind in _KINDS:
                link.down.add_to_queue({"aqm": {"kind": _KINDS[kind]}}, f"ns3::{kind}QueueDisc, with the defaults here")
            elif kind != "DropTail":
                link.note(f"ns3::{kind} is left out: a queue that drops its arrivals stands for it")
    _set(found, link.down, link)
    link.up = link.down
    link.note("a point-to-point link of ns-3 is the same in both directions")
    if "aqm" not in link.down.values.get("queue", {}):
        link.note(
            "ns-3 puts FQ-CoDel with 10240 packets above a device once it has an address, unless the script sets "
            'another: queue = { packets = 10240, aqm = { kind = "fq-codel" } } is that'
        )
    return link


def _set(found: dict[str, tuple[str, Place]], way: Direction, link: Link) -> None:
    bps = _value(found, "DataRate", ns3_rate, "5Mbps")
    way.set("rate", DEFAULTS[0] if bps is None else rate(bps), _said("DataRate", found))
    delay = _value(found, "Delay", lambda word: quantity(word, NS3_TIMES), "300ms")
    way.set("delay", DEFAULTS[1] if delay is None else time(delay), _said("Delay", found))
    way.set("overhead", f"{PPP_BYTES} B", "The device's PPP header")
    size_name = "MaxPackets" if "MaxPackets" in found else "MaxSize"
    limit = _value(found, size_name, _limit, "100p")
    way.add_to_queue(limit or {"packets": DEFAULTS[2]}, _said(size_name, found))
    errors = _value(found, "ErrorRate", lambda word: quantity(word, {"": 1.0}), "0.00001")
    if errors:
        _add_errors(errors, found, way, link)


def _add_errors(errors: float, found: dict[str, tuple[str, Place]], way: Direction, link: Link) -> None:
    unit = found.get("ErrorUnit", ("EU_BYTE", None))[0]
    source = f"RateErrorModel, ErrorRate {errors:g} of ErrorUnit {unit}"
    if unit.upper().endswith(("PKT", "PACKET")):
        way.add_loss(share(errors), source)
        return
    if "ErrorUnit" not in found:
        link.note(
            "RateErrorModel without ErrorUnit counts bytes (EU_BYTE), so a packet of 1500 bytes is lost more often"
        )
    bytes_ = 1500 * (8 if unit.upper().endswith("BIT") else 1)
    loss = share(1 - (1 - min(errors, 1.0)) ** bytes_)
    way.add_loss({"kind": "bit-errors", "loss": loss, "size": "1500 B"}, source)


def _limit(word: str) -> dict[str, object] | None:
    match = re.fullmatch(r"([0-9]+)\s*([pPkKMG]?)(i?)([bB]?)(?:ackets)?", word)
    if match is None:
        return None
    if match[2] in ("p", "P", "") and not match[4]:
        return {"packets": int(match[1])}
    scale = (1024 if match[3] else 1000) ** " kMG".index(match[2].replace("K", "k") or " ")
    return {"bytes": f"{int(match[1]) * scale} B"}


def _value(found: dict[str, tuple[str, Place]], name: str, read: Callable[[str], T | None], like: str) -> T | None:
    if name not in found:
        return None
    word, place = found[name]
    value = read(word)
    if value is None:
        raise place.error(f"{name} = {word}: not a value of that attribute", f"write it as {like}")
    return value


def _said(name: str, found: dict[str, tuple[str, Place]]) -> str:
    return name if name in found else f"{name}: ns-3's default, since nothing sets it"
