# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Takes addresses, names of hosts and names of files out of an analysis; each has the same stand-in everywhere."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass, field, replace

import polars as pl

from perigee.analysis.recordings import Analysis

STUDY = "analysis"
"""Name of an analysis that would be named after its first file."""


@dataclass
class _StandIns:
    """Stand-ins of what was met so far."""

    files: dict[str, str]
    hosts: dict[str, str] = field(default_factory=dict)

    def in_text(self, text: str) -> str:
        """Return a text without any of them."""
        for name in sorted(self.files, key=len, reverse=True):
            text = text.replace(name, self.files[name])
        text = _V6.sub(lambda found: self._host(found[0]) if _is_address(found[0]) else found[0], text)
        text = _V4.sub(lambda found: self._host(found[0]), text)
        return _NAME.sub(lambda found: self._host(found[0].lower()), text)

    def _host(self, name: str) -> str:
        return self.hosts.setdefault(name, f"host-{len(self.hosts) + 1}")


def anonymous(analysis: Analysis, *, is_named: bool) -> Analysis:
    """Return an analysis in which no address and no name of a host or a file is left.

    Args:
        analysis: the analysis.
        is_named: whether its user named it; otherwise its name is that of a file.
    """
    study = analysis.study if is_named else STUDY
    known = _StandIns({run.name: f"file-{place}" for place, run in enumerate(analysis.runs, 1)})
    runs = []
    for place, run in enumerate(analysis.runs, 1):
        point = json.dumps({"file": f"file-{place}"}) if len(analysis.runs) > 1 else "{}"
        tables = {}
        for name, table in run.tables.items():
            own = table.with_columns(pl.col(pl.String).map_elements(known.in_text, return_dtype=pl.String))
            if name == "flows":
                own = own.with_columns(study=pl.lit(study), point=pl.lit(point), engine=table["engine"],
                                       outcome=table["outcome"], cc_params=table["cc_params"])  # fmt: skip
            tables[name] = own
        notes = tuple(known.in_text(note) for note in run.notes)
        damage = tuple(known.in_text(said) for said in run.damage)
        runs.append(replace(run, name=f"file-{place}", tables=tables, notes=notes, damage=damage))
    return Analysis(study, tuple(runs), analysis.options)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


_V4 = re.compile(r"(?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9.]*[0-9])")
_V6 = re.compile(r"(?<![0-9a-fA-F:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:\.[0-9.]+)?(?![0-9a-fA-F:])")
_NAME = re.compile(r"(?<![\w.-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}(?![\w-])", re.IGNORECASE)
"""Names with a dot: those of hosts, and of files too."""
