# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Mahimahi: packet-delivery traces, and command lines of mm-link, mm-delay and mm-loss."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from perigee.importing.link import Direction, Link, Place
from perigee.importing.units import share, time
from perigee.importing.words import Words, commands
from perigee.names import suggestion

_SHELLS = ("mm-link", "mm-delay", "mm-loss")
_QUEUES = {"infinite": None, "droptail": "drop-tail", "drophead": "drop-front", "codel": "codel", "pie": "pie"}


def is_trace(text: str) -> bool:
    r"""Whether a text is a trace: a whole number in each line, none below the one before.

    Examples:
        >>> is_trace("0\n5\n5\n"), is_trace("5\n0\n"), is_trace("")
        (True, False, False)
    """
    words = text.split("\n")
    numbers = [int(word) for word in words if re.fullmatch(r"[0-9]+\s*", word)]
    return len(numbers) > 0 and len(numbers) == sum(bool(word.strip()) for word in words) and numbers == sorted(numbers)


def read_traces(files: list[Path], folder: Path) -> Link:
    """Return the link of traces: one for both directions, or that of the uplink and that of the downlink.

    Args:
        files: the traces.
        folder: where the profile will stand.
    """
    link = Link("Mahimahi", Direction(), Direction())
    _set_traces([str(file) for file in (files * 2)[:2]], link, folder)
    if len(files) == 1:
        link.note("one trace stands for both directions, as in `mm-link TRACE TRACE`")
    else:
        link.note(f"{files[0]} is the uplink and {files[1]} the downlink, in the order of mm-link")
    link.note("mm-link alone adds no delay, loses nothing and has a queue without limit: set what the path has")
    return link


def read_shells(text: str, file: str, folder: Path) -> Link:
    """Read a command line with shells in each other.

    Raises:
        InputError: a shell or its value is wrong.
    """
    link = Link("Mahimahi", Direction(), Direction())
    for words in commands(text, file):
        while words.left:
            shell = words.take("mm-link").rsplit("/", 1)[-1]
            if shell == "mm-delay":
                _read_delay(words, link)
            elif shell == "mm-loss":
                _read_loss(words, link)
            elif shell == "mm-link":
                _read_link(words, link, folder)
            elif shell.startswith("mm-"):
                raise words.place.error(f"`{shell}` is not read", suggestion(shell, _SHELLS))
            else:
                words.left = []
    return link


def _read_delay(words: Words, link: Link) -> None:
    ms = words.quantity("mm-delay", {"": 1.0}, "mm-delay 300")
    for way in (link.down, link.up):
        if "delay" in way.values:
            raise words.place.error("a second mm-delay", "add the delays in one")
        way.set("delay", time(ms / 1000), f"mm-delay {ms:g}: one way, ms")


def _read_loss(words: Words, link: Link) -> None:
    name = words.take("mm-loss")
    if name not in ("uplink", "downlink"):
        raise words.place.error(f"`mm-loss {name}`", "write `mm-loss uplink 0.01` or `mm-loss downlink 0.01`")
    loss = words.quantity(f"mm-loss {name}", {"": 1.0}, f"mm-loss {name} 0.01")
    if loss > 1:
        raise words.place.error(f"`mm-loss {name} {loss:g}`: a share above 1", "write 1 % as 0.01")
    (link.up if name == "uplink" else link.down).add_loss(share(loss), f"mm-loss {name} {loss:g}")


def _read_link(words: Words, link: Link, folder: Path) -> None:
    kinds: dict[str, str] = {}
    arguments: dict[str, str] = {}
    traces: list[str] = []
    while words.left and words.left[0] != "--" and (len(traces) < 2 or words.left[0].startswith("--")):
        word = words.take("mm-link")
        match = re.fullmatch(r"--(up|down)link-queue(-args)?(?:=(.*))?", word)
        if match is not None:
            (arguments if match[2] else kinds)[match[1]] = match[3] if match[3] is not None else words.take(word)
        elif word.startswith("--"):
            link.note(f"{word.split('=')[0]} of mm-link is left out: it logs or repeats nothing of the link")
        else:
            traces.append(word)
    if len(traces) < 2:
        raise words.place.error("mm-link needs two traces", "write `mm-link UPLINK DOWNLINK`")
    if words.left[:1] == ["--"]:
        words.take("mm-link")
    _set_traces(traces, link, folder)
    for name, way in (("up", link.up), ("down", link.down)):
        _set_queue(kinds.get(name, "infinite"), arguments.get(name, ""), way, words.place)


def _set_queue(kind: str, arguments: str, way: Direction, place: Place) -> None:
    if kind not in _QUEUES:
        raise place.error(f"queue `{kind}` of mm-link is not read", suggestion(kind, _QUEUES))
    if kind == "infinite":
        return
    pairs = dict(re.findall(r"(\w+)\s*=\s*([0-9.]+)", arguments))
    keys: dict[str, Any] = {} if kind in ("codel", "pie") else {"kind": _QUEUES[kind]}
    keys |= {"packets": int(pairs["packets"])} if "packets" in pairs else {}
    keys |= {"bytes": f"{pairs['bytes']} B"} if "bytes" in pairs else {}
    if kind in ("codel", "pie"):
        names = {"target": "target", "interval": "interval", "qdelay_ref": "target", "max_burst": "burst"}
        keys["aqm"] = {"kind": kind} | {names[key]: f"{pairs[key]} ms" for key in names if key in pairs}
    elif len(keys) == 1:
        raise place.error(f"queue `{kind}` without a limit", f'write --uplink-queue-args="packets=100" beside `{kind}`')
    way.add_to_queue(keys, f"mm-link: {kind} {arguments}".rstrip() + "")


def _set_traces(traces: list[str], link: Link, folder: Path) -> None:
    for trace, way in zip(traces, (link.up, link.down), strict=True):
        path = os.path.relpath(trace, folder)
        way.set("rate", {"trace": path}, "A packet of 1500 bytes may leave at each millisecond of the trace")
