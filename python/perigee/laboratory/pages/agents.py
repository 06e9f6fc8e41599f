# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page of agents: which hosts live studies can use, and what they have."""

from __future__ import annotations

from starlette.responses import Response

from perigee.laboratory.pages.visit import Visit


def agents(visit: Visit) -> Response:
    """List the agents that were invited."""
    hub = visit.laboratory.hub
    return visit.page("agents.html", open=hub is not None, agents=hub.listed() if hub else [])
