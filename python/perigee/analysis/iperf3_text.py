# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The text that iperf3 prints without `--json`, as a document of the same form: three digits of each number."""

from __future__ import annotations

import re
from typing import Any

_ROW = re.compile(
    r"\[ *(?P<id>[0-9]+|SUM)\](?:\[(?P<role>TX|RX)-[CS]\])? +(?P<from>[0-9.]+)- *(?P<to>[0-9.]+) +sec +"
    r"(?P<amount>[0-9.]+) (?P<unit>[KMGT]?)Bytes +"
    r"(?P<rate>[0-9.]+) (?P<scale>[KMGT]?)(?P<what>bits|Bytes)/sec(?P<rest>.*)"
)
_CONNECTED = re.compile(r"\[ *([0-9]+)\] local \S+ port ([0-9]+) connected (?:to|with) \S+ port ([0-9]+)")
_UDP = re.compile(r"(?:(?P<jitter>[0-9.]+) ms +)?(?:(?P<lost>-?[0-9]+)/)?(?P<packets>[0-9]+)(?= |$)")
_TCP = re.compile(r" +(?P<again>[0-9]+)(?: +(?P<window>[0-9.]+) (?P<unit>[KMGT]?)Bytes)?")
_HEAD = re.compile(r"^(?:\S.{0,40})?\[ *ID\](?:\[Role\])? Interval +Transfer", re.MULTILINE)
_LOST = re.compile(r"Lost/Total|Total Datagrams")
_VERSION = re.compile(r"^iperf 3\S*", re.MULTILINE)
_ERROR = re.compile(r"^iperf3: (?:error - )?(.*)$", re.MULTILINE)
_BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

DIGITS = "read from iperf3's text, which has three digits of each number and no round trips (`--json` has all)"
CUT = "its summary is missing: the text is cut off, or iperf3 was ended"
SERVER = "the server's part (`--get-server-output`) tells of the same seconds, and is left out"
_SERVER_OUTPUT = re.compile(r"^Server output:\s*$", re.MULTILINE)


def is_of_iperf3(text: str) -> bool:
    """Whether a text is iperf3's.

    Examples:
        >>> is_of_iperf3("[ ID] Interval           Transfer     Bitrate")
        True
    """
    return _HEAD.search(text) is not None


def document(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a text as the document that `--json` would have written, as far as it says so, and notes."""
    # Behind it stands the server's own log, of the same seconds (`--get-server-output`).
    server_output = _SERVER_OUTPUT.search(text)
    text = text[: server_output.start()] if server_output else text
    is_server = "Accepted connection from" in text
    is_reverse = "Reverse mode" in text
    is_udp = _LOST.search(text) is not None
    sends = is_reverse == is_server
    connected = [
        {"socket": int(socket), "local_port": int(own), "remote_port": int(other)}
        for socket, own, other in _CONNECTED.findall(text)
    ]
    version = _VERSION.search(text)
    start: dict[str, Any] = {
        "connected": connected,
        "version": version[0] if version else "iperf3 (text)",
        "test_start": {"protocol": "UDP" if is_udp else "TCP", "reverse": int(is_reverse), "blksize": 0},
    }
    if is_server:
        start["accepted_connection"] = {}
    made: dict[str, Any] = {"start": start, "intervals": [], "end": {"streams": []}}
    summaries: dict[int, dict[str, Any]] = {}
    notes = [DIGITS, *([SERVER] if server_output else [])]
    for place, line in enumerate(text.splitlines(), 1):
        found = _ROW.search(line)
        if found is None or found["id"] == "SUM":
            if found is None and _HALF.search(line):
                notes.append(f"line {place} is not whole, and is left out")
            continue
        point = _point(found, sends=found["role"] == "TX" if found["role"] else sends, is_udp=is_udp)
        if "sender" in found["rest"] or "receiver" in found["rest"]:
            side = "sender" if "sender" in found["rest"] else "receiver"
            summaries.setdefault(point["socket"], {})[side] = point
        else:
            made["intervals"].append({"streams": [point]})
    made["end"]["streams"] = [_end(sides, sends=sends, is_udp=is_udp) for sides in summaries.values()]
    if is_udp and summaries:
        ends = [end["udp"] for end in made["end"]["streams"] if end["udp"].get("packets")]
        start["test_start"]["blksize"] = round(ends[0]["bytes"] / ends[0]["packets"]) if ends else 0
    if not summaries:
        notes.append(CUT)
    if said := _ERROR.search(text):
        made["error"] = said[1]
    return made, tuple(notes)


def _point(found: re.Match[str], *, sends: bool, is_udp: bool) -> dict[str, Any]:
    began, ended = float(found["from"]), float(found["to"])
    scale = _DECIMAL[found["scale"]] if found["what"] == "bits" else 8 * _BINARY[found["scale"]]
    point: dict[str, Any] = {
        "socket": int(found["id"]), "start": began, "end": ended, "seconds": ended - began, "sender": sends,
        "bytes": round(float(found["amount"]) * _BINARY[found["unit"]]),
        "bits_per_second": float(found["rate"]) * scale, "omitted": "(omitted)" in found["rest"],
    }  # fmt: skip
    if is_udp and (udp := _UDP.search(found["rest"])):
        point |= {"packets": int(udp["packets"])}
        point |= {} if udp["jitter"] is None else {"jitter_ms": float(udp["jitter"])}
        point |= {} if udp["lost"] is None else {"lost_packets": int(udp["lost"])}
    elif not is_udp and (tcp := _TCP.match(found["rest"])):
        point["retransmits"] = int(tcp["again"])
        if tcp["window"] is not None:
            point["snd_cwnd"] = round(float(tcp["window"]) * _BINARY[tcp["unit"]])
    return point


def _end(sides: dict[str, dict[str, Any]], *, sends: bool, is_udp: bool) -> dict[str, Any]:
    if is_udp:
        return {"udp": {**sides.get("sender", {}), **sides.get("receiver", {}), "sender": sends}}
    return {name: {**side, "sender": sends} for name, side in sides.items()}


_HALF = re.compile(r"^\[ *(?:[0-9]+|SUM)\](?! local)")
