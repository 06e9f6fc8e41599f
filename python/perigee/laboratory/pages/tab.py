# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The laboratory in a browser tab, where it has been built."""

from __future__ import annotations

from starlette.responses import FileResponse, Response

from perigee.errors import InputError
from perigee.laboratory import tab
from perigee.laboratory.pages.visit import Visit


def page(_visit: Visit) -> Response:
    """Send the page.

    Raises:
        InputError: nobody has built it.
    """
    path = tab.built()
    if path is None:
        raise InputError("The laboratory in a browser tab is not built here; `make web` in a checkout builds it.")
    return FileResponse(path, media_type="text/html", headers=tab.HEADERS)
