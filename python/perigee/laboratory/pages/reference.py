# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page of the keys that a study can have, made of the schema: what messages of the editor lead to."""

from __future__ import annotations

import json

from starlette.responses import Response

from perigee.laboratory.own_studies import keys_of, schema
from perigee.laboratory.pages.visit import Visit


def reference(visit: Visit) -> Response:
    """List the keys of each table of a study, with default and meaning."""
    return visit.page("reference.html", tables=keys_of(json.loads(schema())))
