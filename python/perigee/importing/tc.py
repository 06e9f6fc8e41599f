# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Lines of tc(8), as commands or as `tc qdisc show` prints them: queues and rates of one or two devices as a link."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from perigee.errors import InputError
from perigee.importing.disciplines import READERS, SKIPPED, TX_PACKETS, kept_by_change, read_class, read_default
from perigee.importing.link import Direction, Link
from perigee.importing.netem import note_ceiling
from perigee.importing.words import Words, commands
from perigee.names import suggestion


@dataclass
class Node:
    """A queue or a class of a device.

    Attributes:
        kind: netem, htb and so on.
        handle: its handle or class, such as `1:10`; empty where none is given.
        parent: that of what it stands below, or `root`.
        words: its options.
        is_class: whether it is a class.
    """

    kind: str
    handle: str
    parent: str
    words: Words
    is_class: bool


@dataclass
class Device:
    """A device, with the queues that tc put on it."""

    name: str
    nodes: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Ways:
    """Devices of the directions, as the user named them; `both`: a device stands for both directions."""

    down: str | None = None
    up: str | None = None
    both: bool = False


def read_tc(text: str, file: str, ways: Ways) -> Link:
    """Read lines of tc.

    Raises:
        InputError: a line is wrong, with the line and its fix.
    """
    link = Link("tc", Direction(), Direction())
    devices: dict[str, Device] = {}
    others: list[str] = []
    if _SHOWN.search(text):
        text = _STATISTICS.sub("", text)
    for words in commands(text, file):
        first = words.left[0].rsplit("/", 1)[-1]
        if first in ("tc", "qdisc", "class", "filter"):
            _read_line(words, devices, link)
        else:
            others.append(first)
    if others:
        named = ", ".join(f"`{first}`" for first in list(dict.fromkeys(others))[:_MOST_NAMED])
        link.note(f"commands other than tc are skipped: {len(others)} ({named})")
    devices = {name: device for name, device in devices.items() if device.nodes}
    if not devices:
        raise InputError(f"{file}: no line of `tc qdisc` that shapes a link", "give those of netem, tbf, htb or cake")
    assign(devices, ways, link, lambda name, way: _build(devices[name], way, link))
    return link


def assign(devices: Iterable[str], ways: Ways, link: Link, build: Callable[[str, Direction], None]) -> None:
    """Build the direction of each device: as named, or an `ifb` down and the other up, or the first down.

    Raises:
        InputError: a named device is not there, or there are more than two.
    """
    names = list(devices)
    for option, name in (("--down", ways.down), ("--up", ways.up)):
        if name is not None and name not in names:
            raise InputError(f"{option} {name}: no line is about that device", suggestion(name, names))
    down, up = ways.down, ways.up
    free = [name for name in names if name not in (down, up)]
    if len(names) > 2 and (down is None or up is None):
        raise InputError(f"{len(names)} devices: {', '.join(names)}", "name that of each direction, by --down and --up")
    if down is None and up is None and len(free) > 1:
        free.sort(key=lambda name: not name.startswith("ifb"))
        link.note(f"{free[0]} is taken for the way down and {free[1]} for the way up; --down and --up say otherwise")
    down = down or (free.pop(0) if free else None)
    up = up or (free.pop(0) if free else None)
    for name, way in ((down, link.down), (up, link.up)):
        if name is not None:
            build(name, way)
    if ways.both and (down is None or up is None):
        link.down = link.up = link.up if down is None else link.down
        return
    if down is None or up is None:
        one, other = ("up", "down") if down is None else ("down", "up")
        link.note(
            f"one device shapes what leaves it: {down or up or 'it'} is taken for the way {one}, and the way {other} "
            "has no delay and no limit; --both takes it for both, --down and --up say which it is"
        )


def _read_line(words: Words, devices: dict[str, Device], link: Link) -> None:
    if words.left[0].rsplit("/", 1)[-1] == "tc":
        words.take("tc")
        while words.left and words.left[0].startswith("-"):
            words.take("tc")
    what = words.left[0] if words.left else ""
    if what == "filter":
        link.note("filters are not read: all traffic is taken to go through what is shaped")
        return
    if what not in ("qdisc", "class"):
        raise words.place.error(
            f"`{' '.join(words.left[:3])}`: no line of tc", "give lines of `tc qdisc` and `tc class`"
        )
    words.take("tc")
    verb = words.left[0] if words.left else ""
    shown = verb not in ("add", "replace", "change", "del", "delete", "show")
    if not shown:
        words.take(what)
    if verb == "show":
        return
    kind, handle = "", ""
    if shown:
        kind, handle = words.take(what), words.take(what)
    name, parent = "", "root"
    while words.left and (not kind or words.left[0] in _PLACES):
        word = words.take(what)
        if word == "dev":
            name = words.take(word)
        elif word in ("root", "ingress"):
            parent = word
        elif word == "parent":
            parent = words.take(word)
        elif word in ("handle", "classid"):
            handle = words.take(word)
        elif word in ("refcnt", "leaf"):
            words.take(word)
        elif verb in ("del", "delete") or word in _PLACES:
            continue
        else:
            kind = word
    device = devices.setdefault(name, Device(name))
    if verb in ("del", "delete"):
        device.nodes = [node for node in device.nodes if parent not in ("root", node.parent)]
        return
    if not name and not shown:
        raise words.place.error(f"`tc {what} {verb}` names no device", "write `dev NAME`")
    if parent == "ingress":
        return
    if not kind:
        raise words.place.error(f"`tc {what} {verb}` names no queue", f"use one of {', '.join(READERS)}")
    if kind in SKIPPED:
        return
    words.kind = kind
    node = Node(kind, handle.rstrip(":"), parent.rstrip(":"), words, what == "class")
    if kind not in READERS or (node.is_class and kind != "htb"):
        raise words.place.error(f"`{kind}` is not read", f"use one of {', '.join(READERS)}")
    if verb in ("change", "replace"):
        _replace(node, device, verb)
    else:
        device.nodes = [other for other in device.nodes if not handle or other.handle != node.handle]
        device.nodes.append(node)


def _replace(node: Node, device: Device, verb: str) -> None:
    """Put a queue or class in the place of the one that is there.

    One of the same kind is changed, as Linux does, by `replace` too unless that names another handle.
    """
    there = next((one for one in device.nodes if _is_in_place_of(node, one)), None)
    if there is not None and there.kind == node.kind and (verb == "change" or node.handle in ("", there.handle)):
        node.handle, node.parent = there.handle, there.parent
        node.words.left = kept_by_change(node.kind, there.words.left, node.words.left) + node.words.left
        device.nodes[device.nodes.index(there)] = node
        return
    if node.parent == "root":
        device.nodes = []
    device.nodes = [one for one in device.nodes if not _is_in_place_of(node, one)]
    device.nodes.append(node)


def _is_in_place_of(node: Node, other: Node) -> bool:
    if node.is_class or other.is_class:
        return node.is_class == other.is_class and node.handle == other.handle
    return other.parent == node.parent or node.handle in (other.handle or None,)


_SHOWN = re.compile(r"^(?:qdisc|class) ", re.MULTILINE)
_STATISTICS = re.compile(r"^[ \t]+(?!tc\b|qdisc\b|class\b).*$", re.MULTILINE)
"""Lines of `tc -s` below that of a queue."""
_MOST_NAMED = 5
_PLACES = ("dev", "root", "parent", "handle", "classid", "refcnt", "leaf", "estimator")


def _build(device: Device, way: Direction, link: Link) -> None:
    """Read the queues from the root of a device to the leaf that traffic takes."""
    chain = _chain(device, link)
    for node in chain:
        if node.is_class:
            read_class(node.words, way, link)
        else:
            READERS[node.kind](node.words, way, link)
    if chain[-1].is_class:
        way.add_to_queue({"packets": TX_PACKETS}, "htb: a class without a queue of its own has 1000 packets")
    note_ceiling(way, link)


def _chain(device: Device, link: Link) -> list[Node]:
    """Return the nodes from the root to the leaf that traffic takes: the default class, or the first leaf."""
    paths = [_path(node, device) for node in device.nodes]
    inner = {id(node) for path in paths for node in path[:-1]}
    paths = [path for path in paths if id(path[-1]) not in inner]
    minors = [read_default(node.words) for node in device.nodes if node.kind == "htb" and not node.is_class]
    ends = tuple(f":{minor}" for minor in minors if minor is not None)
    chosen = [path for path in paths if any(node.is_class and node.handle.endswith(ends) for node in path)]
    path = (chosen or paths)[0]
    if len(chosen or paths) > 1:
        leaf = path[-1].handle or path[-1].parent
        link.note(
            f"{device.name}: of {len(chosen or paths)} queues `{leaf}` is taken; leave out the lines of the others"
        )
    return path


def _path(node: Node, device: Device) -> list[Node]:
    """Return the nodes from the root to one."""
    path = [node]
    while (above := _above(path[0], device)) is not None and above not in path:
        path.insert(0, above)
    return path


def _above(node: Node, device: Device) -> Node | None:
    """Return what a node stands below: its parent, or the queue of a class without a line (`1:1` of netem's `1:`)."""
    for handle in (node.parent, node.parent.split(":")[0]):
        found = [other for other in device.nodes if other is not node and handle and other.handle == handle]
        if found:
            return found[0]
    return None
