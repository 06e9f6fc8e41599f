# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The compiler of authors' algorithms, which run in the page that asked."""

from __future__ import annotations

import base64
from typing import Any

from perigee.cc.skeleton import NAME_THERE, SKELETON
from perigee.laboratory import own_module
from perigee.laboratory.access import Person
from perigee.laboratory.api.visit import Visit


def offered(person: Person | None) -> dict[str, str]:
    """Return a text to begin with, `start`, and `why` nothing can be compiled for a person, or empty."""
    if person is None or not person.may("run"):
        return {"start": "", "why": "it needs a link by which one may run studies"}
    start = (SKELETON / f"{NAME_THERE}.c").read_text(encoding="utf-8")
    return {"start": start, "why": own_module.unavailable()}


def module(visit: Visit) -> dict[str, Any]:
    """Compile a C text to a module for the page: the module, or what is wrong and where.

    Raises:
        InputError: this machine has no compiler for it, or the file has a wrong name.
    """
    try:
        found = visit.laboratory.modules.of(visit.given("text"), visit.given("file"))
    except own_module.Wrong as wrong:
        errors = [{"line": each.line, "column": each.column, "said": each.said} for each in wrong.messages]
        return {"errors": errors}
    return {"errors": [], "module": base64.b64encode(found).decode()}
