# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""An attack for programs. The same attack gives the same content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from perigee.attack.confirm import Confirmation
from perigee.attack.finding import Finding
from perigee.attack.running import Order
from perigee.version import __version__


def content(
    order: Order, findings: Sequence[Finding], replayed: Mapping[str, Confirmation] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the attack for programs.

    Args:
        order: what was attacked.
        findings: what was found, by goal.
        replayed: what the emulator did, by the name of the search.
    """
    return {
        "perigee": __version__,
        "candidate": {"name": order.candidate.name, "sha256": order.candidate.sha256},
        "references": list(order.references),
        "where": order.where,
        "seed": order.seed,
        "findings": [one.content() | _on_the_emulator(one, replayed.get(one.name)) for one in findings],
    }


def _on_the_emulator(one: Finding, replayed: Confirmation | None) -> dict[str, Any]:
    if replayed is None:
        return {}
    figures = {one.candidate.label: asdict(replayed.candidate), replayed.reference: asdict(replayed.other)}
    return {"emulated": {"excess": replayed.excess(one.goal), "figures": figures}}
