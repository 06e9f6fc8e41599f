# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The study of a criterion behind a splitting proxy that uses the candidate (RFC 9743, 5.3.2)."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

from perigee.evaluation.criterion import Criterion
from perigee.places import StudyFile
from perigee.toml import document

LEFT_OUT = {
    "5.3.2": "Its study compares with such a proxy already.",
    "7.11": "A data centre has no such proxy.",
}
"""Why the study of a criterion is not run behind a proxy."""
PROXY, NODE, ACCESS = "proxy", "proxy-site", "access"
"""Names of the proxy, of the node that it is given, and of the link between it and the server."""
ACCESS_RATE, ACCESS_DELAY = "10 Gbit/s", "500 us"
"""The proxy is near the server: a round trip of 1 ms is nothing beside those of the studies, and no rate is limited."""
RECEIVER = "receiver"
"""The setting of 7.6 that is the client's alone: the proxy does not cheat the server."""
READ_AHEAD = {"rmem": ["4096 B", "131072 B", "4 MB"]}
"""Buffer in which the proxy keeps what it has not read."""


def behind_proxy(criterion: Criterion, study: StudyFile, key: str, values: list[str]) -> StudyFile:
    """Return a study with a proxy in front of the link `path`, whose two sides use the candidate.

    It splits the flow `candidate`, or all flows where all are of its kind. Other flows pass unsplit.

    Args:
        criterion: whose study it is.
        study: the study, which is about the link `path`.
        key: the key that puts a congestion control into it.
        values: the congestion controls to run.
    """
    content: dict[str, Any] = copy.deepcopy(study.content)
    path = next(link for link in content["links"] if link["name"] == "path")
    near = path["between"][0]
    candidate = next(flow for flow in content["flows"] if flow["name"] == "candidate")
    if near == candidate["from"]:
        content["nodes"].append(NODE)
        path["between"][0] = near = NODE
        access = {"name": ACCESS, "between": [candidate["from"], NODE], "rate": ACCESS_RATE, "delay": ACCESS_DELAY}
        content["links"].append(access)
    sides = [link["name"] for link in content["links"] if near in link["between"]]
    tcp = candidate.get("tcp", {})
    proxy: dict[str, Any] = {
        "name": PROXY,
        "node": near,
        # It holds what a window of the study may.
        "buffer": content["hosts"]["wmem"][2],
        "sides": {side: {"cc": "cubic", "tcp": tcp | (READ_AHEAD if side != "path" else {})} for side in sides},
    }
    if key != "flow.cc":
        proxy["flows"] = ["candidate"]
    content["proxies"] = [proxy]
    del content["vary"][key]
    controls = (key, *(f"proxies.{PROXY}.sides.{side}.cc" for side in sides))
    content["vary"] = {"linked": [dict.fromkeys(controls, value) for value in values], **content["vary"]}
    for settings in _settings_of(content):
        for flow in ("flow", "flows.candidate"):
            for switch, value in settings.pop(f"{flow}.tcp", {}).items():
                settings[f"{flow}.tcp.{switch}"] = value
                if switch != RECEIVER:
                    settings |= {f"proxies.{PROXY}.sides.{side}.tcp.{switch}": value for side in sides}
    return StudyFile(study.path, document(content), study.search)


def _settings_of(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the settings of variants and experiments of a study, by key paths."""
    experiments = content.get("experiments", [])
    for table in (content, *experiments):
        for value in itertools.chain.from_iterable(table.get("vary", {}).values()):
            if isinstance(value, dict):
                yield value
    yield from (one["set"] for one in experiments if "set" in one)
