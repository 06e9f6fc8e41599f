# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""toxiproxy's JSON: a proxy with its toxics, as its configuration and `GET /proxies` have it."""

from __future__ import annotations

import json
from typing import Any

from perigee.errors import InputError
from perigee.importing.link import Direction, Link, Place
from perigee.importing.units import rate, time
from perigee.names import suggestion

KB_PER_S = 8000.0
"""`rate` of the toxic `bandwidth`, KB/s of 1000 bytes, in bit/s (README of toxiproxy, Toxics)."""
_LEFT_OUT = ("slow_close", "timeout", "reset_peer", "slicer", "limit_data", "down")
_WHOLE = 1.0


def read_toxiproxy(text: str, file: str) -> Link:
    """Read the toxics of one proxy.

    Raises:
        InputError: it is no JSON of toxiproxy, or several proxies have toxics.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise Place(file, error.lineno).error(f"not JSON: {error.msg}", "give the file whole") from None
    proxies = [proxy for proxy in _proxies(content) if proxy.get("toxics")]
    if len(proxies) != 1:
        what = "no proxy has toxics" if not proxies else f"{len(proxies)} proxies have toxics"
        names = ", ".join(str(proxy.get("name")) for proxy in proxies) or "NAME"
        raise InputError(f"{file}: {what}", f"give the JSON of one, as GET /proxies/NAME answers it ({names})")
    link = Link("toxiproxy", Direction(), Direction())
    for toxic in proxies[0]["toxics"]:
        _add(toxic, link, _Where(text, file))
    link.note(
        "toxiproxy delays what TCP carries, behind the acknowledgements of its own sockets: two connections, no lost "
        "packet; here one connection has the delay, and `[[proxies]]` of a study splits it"
    )
    return link


class _Where:
    """Where a word stands in the file."""

    def __init__(self, text: str, file: str) -> None:
        self._lines, self._file = text.splitlines(), file

    def of(self, word: object) -> Place:
        """Return the first line with a word in quotes."""
        found = (number for number, line in enumerate(self._lines, 1) if json.dumps(word) in line)
        return Place(self._file, next(found, 1))


def _proxies(content: Any) -> list[dict[str, Any]]:
    """Return the proxies of a list of them, of `{NAME: PROXY}`, or the one; toxics alone are one, too."""
    if isinstance(content, dict):
        if "type" in content:
            return [{"toxics": [content]}]
        content = [content] if "toxics" in content else list(content.values())
    if isinstance(content, list) and content and all(isinstance(item, dict) and "type" in item for item in content):
        return [{"toxics": content}]
    return [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []


def _add(toxic: dict[str, Any], link: Link, where: _Where) -> None:
    kind, stream = toxic.get("type"), toxic.get("stream", "downstream")
    place = where.of(kind)
    if stream not in ("downstream", "upstream"):
        raise where.of(stream).error(f"stream {stream!r}", 'write "downstream" or "upstream"')
    way = link.down if stream == "downstream" else link.up
    if toxic.get("toxicity", _WHOLE) != _WHOLE:
        link.note(f"toxicity {toxic['toxicity']} of {kind} is left out: it is of connections, and here all have it")
    attributes = toxic.get("attributes", {})
    if kind == "latency":
        latency, jitter = (_number(attributes, key, place) / 1000 for key in ("latency", "jitter"))
        said = f", jitter {time(jitter)} to either side" if jitter else ""
        way.delay(latency, jitter, f"toxic latency: {time(latency)}{said}")
    elif kind == "bandwidth":
        bps = _number(attributes, "rate", place) * KB_PER_S
        way.set_rate(bps, f"toxic bandwidth: {rate(bps)}")
    elif kind in _LEFT_OUT:
        link.note(f"the toxic {kind} is left out: it ends or cuts connections, and is no link")
    else:
        raise place.error(f"{kind!r} is no toxic", suggestion(str(kind), ("latency", "bandwidth", *_LEFT_OUT)))


def _number(attributes: dict[str, Any], key: str, place: Place) -> float:
    value = attributes.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise place.error(f'"{key}": {json.dumps(value)}', "write a number, in ms or KB/s")
    return float(value)
