# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files of results that a browser takes: report, first figure, tables and archives."""

from __future__ import annotations

import re

from starlette.responses import FileResponse, Response, StreamingResponse

from perigee.errors import InputError
from perigee.laboratory.api.visit import Visit
from perigee.laboratory.findings import first_figure
from perigee.laboratory.result_files import POLICY_OF_REPORTS, archived, csv_of, report_of, table_of

OF_REPORT = {
    "content-security-policy": f"sandbox allow-scripts allow-downloads; {POLICY_OF_REPORTS}; frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
}
"""Headers of reports: their scripts run in a separate origin, without access to the laboratory."""
PICTURE = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "cache-control": "private, max-age=60",
}
"""Headers of figures that stand in pages as pictures, where no script of theirs runs."""


def report(visit: Visit) -> Response:
    """Return the report."""
    content = report_of(visit.laboratory.catalogue.path(visit.path["name"]))
    return StreamingResponse(content, media_type="text/html", headers=OF_REPORT)


def figure(visit: Visit) -> Response:
    """Return the first figure of the report as a picture."""
    folder = visit.laboratory.catalogue.path(visit.path["name"])
    return Response(first_figure(folder), media_type="image/svg+xml", headers=PICTURE)


def table(visit: Visit) -> Response:
    """Return a table as Parquet or CSV."""
    folder = visit.laboratory.catalogue.path(visit.path["name"])
    found = re.fullmatch(r"([a-z_]+)\.(parquet|csv)", visit.path["file"])
    if found is None:
        raise InputError(f"{visit.path['file'][:80]}: no such table")
    path = table_of(folder, found[1])
    name = f"{folder.name}-{visit.path['file']}"
    if found[2] == "parquet":
        return FileResponse(path, filename=name)
    return StreamingResponse(csv_of(path), media_type="text/csv; charset=utf-8", headers=_download(name))


def archive(visit: Visit) -> Response:
    """Return captures, or the figures and tables of the report, as one zip file."""
    name, content = archived(visit.laboratory.catalogue.path(visit.path["name"]), visit.path["what"])
    return StreamingResponse(content, media_type="application/zip", headers=_download(name))


def _download(name: str) -> dict[str, str]:
    # The names of folders that are shown have nothing that a header could not hold.
    return {"content-disposition": f'attachment; filename="{name}"'}
