# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Downloads that stand beside those of other stacks: studies of the emulator, with QUIC of ours or the kernel's TCP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perigee.engines.plan.native import native_plan
from perigee.matrix.cells import Cell
from perigee.matrix.links import Link
from perigee.matrix.parties import BESIDE
from perigee.places import StudyFile, data_roots
from perigee.toml import document

SATELLITE = "exec"
"""Name of the link, which `perigee exec` gives its own: with the same seed it draws the same."""

BUFFERS = ["4096 B", "131072 B", "60 MB"]
"""TCP's memory: it limits no window over these links."""


def study(cell: Cell, seed: int, window: int) -> str:
    """Return a study of one download, as the cell of a program has it.

    Args:
        cell: the cell.
        seed: of the link's random processes.
        window: flow-control window of a tuned cell, bytes.
    """
    is_split = cell.server.name == "tcp-proxy"
    link = cell.link
    flow: dict[str, Any] = {"name": "download", "from": "server", "to": "client", "size": f"{link.size} B"}
    flow["cc"] = "cubic" if is_split else cell.control
    if cell.server.name == "perigee":
        flow["transport"] = "quic"
        flow |= {"quic": {"initial_max_stream_data": f"{window} B"}} if cell.is_tuned else {}
    near = "gateway" if is_split else "server"
    satellite = {"name": SATELLITE, "between": [near, "client"], "profile": link.profile, **link.changes}
    content: dict[str, Any] = {
        "name": "matrix",
        "seed": seed,
        "rounds": 1,
        "time_limit": f"{link.limit_s:g} s",
        "nodes": ["server", "gateway", "client"] if is_split else ["server", "client"],
        "hosts": {"rmem": BUFFERS, "wmem": BUFFERS},
        "links": [satellite],
        "flows": [flow],
    }
    if is_split:
        # Beside it, as an operator's proxy stands.
        content["links"] += [
            {"name": "wire", "between": ["server", "gateway"], "rate": "1 Gbit/s", "delay": "1 ms", "queue": "1 MB"}
        ]
        sides = {"wire": {"cc": "cubic"}, SATELLITE: {"cc": cell.control}}
        content["proxies"] = [{"name": "pep", "node": "gateway", "buffer": "15 MB", "sides": sides}]
    return document(content)


def seed_of_run(link: Link, seed: int) -> int:
    """Return the seed that a study's run has for a link, so that programs meet the same rates and losses."""
    tcp = next(party for party in BESIDE if party.name == "tcp")
    text = study(Cell(tcp, tcp, link, tcp.default), seed, 0)
    return native_plan(StudyFile(Path("<toml>"), text, tuple(data_roots())), [], False).seed(0)
