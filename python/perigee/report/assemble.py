# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Puts a report together: headline, numbers at the head, sections, and how it was made."""

from __future__ import annotations

import json

from perigee.numbers import number
from perigee.report import sections
from perigee.report.context import Context
from perigee.report.model import Fact, Report
from perigee.report.sections.published import facts as published_facts
from perigee.results import Results


def assemble(results: Results) -> Report:
    """Make the report of a finished study; figures are drawn, nothing is written."""
    context = Context(results)
    manifest = results.manifest
    flows = results.table("flows")
    rounds = flows["round"].n_unique()
    carried = float(flows["received_bytes"].sum() if "received_bytes" in flows.columns else flows["bytes"].sum())
    runs = Fact(str(manifest["runs"]), f"runs in {rounds} round{'s' if rounds > 1 else ''}")
    carried_where, incomplete_what = "carried over the links", "flows did not complete"
    if results.is_analysis:
        carried_where, incomplete_what = "of payload in them", "flows have no end in them"
        runs = Fact(str(flows.height), f"flow{'s' if flows.height > 1 else ''} in the files")
    facts = [
        runs,
        Fact(f"{number(carried / 1e9, 0 if carried > 1e10 else 2)} GB", carried_where),
        *published_facts(context),
    ]
    incomplete = flows.height - int(flows["completed"].sum())
    if incomplete:
        facts.append(Fact(f"{incomplete} of {flows.height}", incomplete_what))
    settings = ", ".join(manifest["settings"]) or "none"
    engine = {"sim": "simulated packet by packet", "emu": "emulated", "live": "measured"}.get(manifest["engine"], "")
    return Report(
        title=context.settings.title or results.study,
        question=context.settings.question,
        facts=facts,
        sections=sections.build(context),
        foot=_foot_of_files(results)
        if results.is_analysis
        else (
            f"Study {results.study}, {engine}; settings changed: {settings}"
            + ("; the study's reduced size" if manifest["reduced"] else "")
            + f"; {manifest['rounds']} seed{'s' if manifest['rounds'] > 1 else ''} from {manifest['first_seed']}.",
            f"Plan {manifest['study_hash'][:16]}, perigee {manifest['versions']['perigee']}, "
            f"format {manifest['version']}"
            + (
                "; the same study and seed give the same tables, byte for byte." if manifest["engine"] == "sim" else "."
            ),
        ),
    )


def _foot_of_files(results: Results) -> tuple[str, ...]:
    kept = results.file("files.json")
    files = [f"{about['name']} ({about['kind']})" for about in json.loads(kept[1])] if kept else []
    manifest = results.manifest
    settings = ", ".join(manifest["settings"])
    return (
        f"Measured from {', '.join(files)}; {settings}.",
        f"perigee {manifest['versions']['perigee']}, format {manifest['version']}; "
        "the same files give the same tables.",
    )
