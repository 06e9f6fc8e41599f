# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The laboratory in a browser tab, where it has been built, and the compiler of algorithms for it."""

from __future__ import annotations

import base64

from starlette.responses import HTMLResponse, JSONResponse, Response

from perigee.cc.skeleton import NAME_THERE, SKELETON
from perigee.errors import InputError
from perigee.laboratory import own_module, tab
from perigee.laboratory.pages.visit import Visit, at

MODULE = "tab/module"
"""The address that compiles."""


def page(visit: Visit) -> Response:
    """Send the page.

    Raises:
        InputError: nobody has built it.
    """
    path = tab.built()
    if path is None:
        raise InputError(tab.ABSENT)
    may_run = visit.person.may("run")
    compiler = {
        "at": at(MODULE),
        "forms": visit.person.forms,
        "start": (SKELETON / f"{NAME_THERE}.c").read_text(encoding="utf-8"),
        "why": own_module.unavailable() if may_run else "who may only look can compile nothing on the server",
    }
    text, headers = tab.with_compiler(path.read_text(encoding="utf-8"), compiler)
    return HTMLResponse(text, headers=headers)


def module(visit: Visit) -> Response:
    """Compile a C text to a module for the page: the module, or what is wrong and where.

    Raises:
        InputError: this machine has no compiler for it, or the file has a wrong name.
    """
    try:
        found = own_module.compiled(visit.given("text"), visit.given("file"))
    except own_module.Wrong as wrong:
        errors = [{"line": each.line, "column": each.column, "said": each.said} for each in wrong.messages]
        return JSONResponse({"errors": errors})
    return JSONResponse({"errors": [], "module": base64.b64encode(found).decode()})
