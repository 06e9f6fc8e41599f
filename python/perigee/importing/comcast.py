# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""comcast's command line, which on Linux is htb with netem below it."""

from __future__ import annotations

from perigee.errors import InputError
from perigee.importing.link import Direction, Link
from perigee.importing.netem import LIMIT, note_ceiling
from perigee.importing.tc import Ways, assign
from perigee.importing.units import SHARES, quantity, rate, share, time
from perigee.importing.words import Words, commands

_FLAGS = ("device", "latency", "target-bw", "default-bw", "packet-loss")
_IGNORED = ("target-addr", "target-port", "target-proto", "dry-run", "stop", "version")


def read_comcast(text: str, file: str, ways: Ways) -> Link:
    """Read command lines of comcast, one for each device.

    Raises:
        InputError: a flag or its value is wrong.
    """
    link = Link("comcast", Direction(), Direction())
    lines: dict[str, tuple[dict[str, str], Words]] = {}
    for words in commands(text, file):
        if words.take("comcast").rsplit("/", 1)[-1] == "comcast" and "stop" not in (flags := _flags(words, link)):
            lines[flags.get("device", "eth0")] = (flags, words)
    if not lines:
        raise InputError(f"{file}: no line of comcast that shapes a link", "give the one that began it")
    assign(lines, ways, link, lambda name, way: _build(*lines[name], way, link))
    return link


def _flags(words: Words, link: Link) -> dict[str, str]:
    flags = {}
    while words.left:
        word = words.take("comcast")
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in (*_FLAGS, *_IGNORED):
            raise words.unknown(word, "comcast", [f"--{flag}" for flag in (*_FLAGS, *_IGNORED)])
        is_switch = name in ("dry-run", "stop", "version")
        flags[name] = value if equals or is_switch else words.take(word)
    if any(name.startswith("target-") and name != "target-bw" for name in flags):
        link.note("comcast's targets are not read: all traffic is taken to be shaped")
    return flags


def _build(flags: dict[str, str], words: Words, way: Direction, link: Link) -> None:
    kbit, ms = (_number(flags, name, words) for name in ("target-bw", "latency"))
    if kbit is None:
        kbit = _number(flags, "default-bw", words)
    if kbit:
        way.set_rate(1000 * kbit, f"comcast: {rate(1000 * kbit)}, in kbit/s on its command line")
    if ms:
        way.delay(ms / 1000, 0.0, f"comcast --latency: {time(ms / 1000)}")
    loss = quantity(flags.get("packet-loss", "0"), SHARES)
    if loss is None:
        raise _wrong("packet-loss", flags, words, "--packet-loss=10%")
    if loss:
        way.add_loss(share(loss), f"comcast --packet-loss: {share(loss)}")
    way.add_to_queue({"aqm": {"kind": "netem", "packets": LIMIT}}, "netem's limit, whose default comcast leaves")
    note_ceiling(way, link)


def _number(flags: dict[str, str], name: str, words: Words) -> float | None:
    value = quantity(flags.get(name, ""), {"": 1.0})
    if value is None and flags.get(name, "-1") != "-1":
        raise _wrong(name, flags, words, f"--{name}=250")
    return value


def _wrong(name: str, flags: dict[str, str], words: Words, like: str) -> InputError:
    return words.place.error(f"--{name}={flags[name]}: not a number that it takes", f"write it as `{like}`")
