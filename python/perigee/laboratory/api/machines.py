# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The machines of a laboratory: this one, and the hosts between which live studies run."""

from __future__ import annotations

from typing import Any

from perigee.laboratory.api.visit import Visit


def machines(visit: Visit) -> dict[str, Any]:
    """Return the agents that were invited, with what those that are connected have, and whether they may connect."""
    hub = visit.laboratory.hub
    return {"open": hub is not None, "agents": hub.listed() if hub else []}
