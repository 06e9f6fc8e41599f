# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The configuration of whichever tool: told by its words, and read."""

from __future__ import annotations

import re
from pathlib import Path

from perigee.errors import InputError
from perigee.importing.comcast import read_comcast
from perigee.importing.link import Link
from perigee.importing.mahimahi import is_trace, read_shells, read_traces
from perigee.importing.ns3 import read_ns3
from perigee.importing.tc import Ways, read_tc
from perigee.importing.toxiproxy import read_toxiproxy

KNOWN = (
    "lines of `tc qdisc` and `tc class`, attributes of an ns-3 link (DataRate, Delay), a trace or a command line of "
    "Mahimahi, toxiproxy's JSON, or a command line of comcast"
)


def read_link(texts: dict[str, str], ways: Ways, folder: Path) -> Link:
    """Read a link.

    Args:
        texts: the configuration, by the name of each file; of several, all are read as one, but for traces.
        ways: devices of the directions, for tools that have them.
        folder: where the profile will stand, for the recordings it names.

    Raises:
        InputError: a line is wrong, or it is of no tool that is known.
    """
    if all(is_trace(text) for text in texts.values()):
        if len(texts) > 2:
            raise InputError(f"{len(texts)} traces", "give that of the uplink, then that of the downlink")
        return read_traces([Path(name) for name in texts], folder)
    file, text = next(iter(texts.items()))
    if len(texts) > 1:
        file, text = " + ".join(texts), "\n".join(texts.values())
    if text.lstrip()[:1] in ("{", "["):
        return read_toxiproxy(text, file)
    if re.search(r"(^|[\s/])comcast\s", text, re.MULTILINE):
        return read_comcast(text, file, ways)
    if re.search(r"(^|[\s/])mm-(link|delay|loss)\s", text, re.MULTILINE):
        return read_shells(text, file, folder)
    if re.search(r"\bDataRate\b|\bns3::|Set(Device|Channel)Attribute", text):
        return read_ns3(text, file)
    if re.search(r"(^|[\s/])tc\s|^\s*(qdisc|class)\s", text, re.MULTILINE):
        return read_tc(text, file, ways)
    raise InputError(f"{file}: the configuration of no tool that is known", f"give {KNOWN}")
