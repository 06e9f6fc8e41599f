# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Provenance of a report's results, for reproduction; and works to cite."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from perigee.numbers import counted
from perigee.report.context import Context
from perigee.report.model import Citation
from perigee.scoring.published import Published, Work
from perigee.store.results import Results

TITLE = "Perigee: a testbed for TCP over satellite links"
AUTHORS = "The Perigee contributors"

NAME = "campaign.toml"
"""The manifest of a campaign."""
_FILES_OF = {"iperf3": "iperf3 file", "ping": "ping log", "probe": "probe log"}
_BIBTEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def made(context: Context) -> list[tuple[str, str]]:
    """Return the provenance of the results: a name and a text each."""
    results, manifest = context.results, context.results.manifest
    versions = manifest["versions"]
    found = []
    if results.is_analysis:
        files = ", ".join(f"{about['name']} ({about.get('system') or about['kind']})" for about in results.files())
        found += [("Measured from", files), ("Settings", ", ".join(manifest["settings"]))]
    elif manifest["engine"] == "campaign":
        found += _campaign(results)
    else:
        rounds, seed = manifest["rounds"], manifest["first_seed"]
        engine = context.found + (" packet by packet" if manifest["engine"] == "sim" else "")
        found += [
            ("Study", f"{results.study}, {engine}" + ("; the study's reduced size" if manifest["reduced"] else "")),
            ("Command", command_line(manifest)),
            ("Settings changed", ", ".join(manifest["settings"]) or "none"),
            ("Seeds", f"{rounds} from {seed}, one per round" if rounds > 1 else str(seed)),
        ]
    found += [
        ("Date", _date(manifest)),
        ("Versions", f"perigee {versions['perigee']}, Python {versions['python']}, engine {manifest['build'][:12]}"),
    ]
    if manifest["engine"] in ("emu", "live"):
        found.append(("Host", f"{manifest['host']['system']}, {manifest['host']['machine']}"))
    again = {
        "sim": "The same study, version and seed give the same values in all tables.",
        "capture": "The same files give the same tables.",
        "campaign": "The same files and manifest give the same tables.",
    }
    found.append(("Plan", f"{manifest['study_hash'][:16]}. {again.get(manifest['engine'], '')}".strip()))
    return found


def _campaign(results: Results) -> list[tuple[str, str]]:
    manifest, counts = results.manifest, Counter(about["kind"] for about in results.files())
    files = ", ".join(counted(count, _FILES_OF.get(kind, kind)) for kind, count in sorted(counts.items()))
    return [
        ("Campaign", f"{results.study}, measured; {counted(manifest['rounds'], 'round')}"),
        ("Measured from", files),
        ("Command", command_line(manifest)),
        *(("Note", note) for note in manifest.get("notes", ())),
    ]


def command_line(manifest: Mapping[str, Any]) -> str:
    """Return the command that reproduces the results.

    Examples:
        >>> manifest = {"study": "gallery", "engine": "emu", "reduced": True, "settings": ["flow.cc=bbr"]}
        >>> command_line(manifest)
        'perigee run gallery --engine emu --reduced --set flow.cc=bbr'
    """
    if manifest["engine"] == "campaign":
        return shlex.join(["perigee", "campaign", "DIR", "--manifest", manifest.get("study_file") or NAME])
    parts = ["perigee", "run", manifest.get("study_file") or manifest["study"]]
    parts += ["--engine", manifest["engine"]] if manifest["engine"] != "sim" else []
    parts += ["--reduced"] if manifest["reduced"] else []
    for setting in manifest["settings"]:
        parts += ["--set", setting]
    return shlex.join(parts)


def _date(manifest: Mapping[str, Any]) -> str:
    """Return the time of the runs, in UTC."""
    began, ended = (datetime.fromisoformat(manifest[key]) for key in ("started", "finished"))
    if began.date() == ended.date():
        return f"{began:%Y-%m-%d}, {began:%H:%M} to {ended:%H:%M} UTC"
    return f"{began:%Y-%m-%d %H:%M} to {ended:%Y-%m-%d %H:%M} UTC"


def citations(published: Published | None, *versions: str) -> list[Citation]:
    """Return the works to cite with the report: the program, and the publication compared with.

    Args:
        published: the publication of the study.
        versions: those of the program that made the results.
    """
    version = " and ".join(dict.fromkeys(versions))
    program = Citation(
        what="this program",
        text=f"{AUTHORS}: {TITLE}, version {version}.",
        bibtex=_entry("software", "perigee", {"author": f"{{{AUTHORS}}}", "title": f"{{{TITLE}}}", "version": version}),
    )
    work = published.work if published else None
    return [program] if work is None else [program, cited(work)]


def cited(work: Work) -> Citation:
    r"""Return a publication as a reference.

    Examples:
        >>> work = Work("Fast & far", ("Ann Lee", "Bo Ek"), "PAM 2021", 2021, "10.1/x")
        >>> cited(work).text
        'Ann Lee, Bo Ek: Fast & far. PAM 2021.'
        >>> print(cited(work).bibtex)
        @misc{lee2021,
          author = {Ann Lee and Bo Ek},
          title = {{Fast \& far}},
          howpublished = {PAM 2021},
          year = {2021},
          doi = {10.1/x},
        }
    """
    names = work.authors[0].split() if work.authors else ["publication"]
    key = re.sub(r"[^a-z]", "", names[-1].lower()) or "publication"
    fields = {
        "author": " and ".join(_escape(name) for name in work.authors),
        "title": f"{{{_escape(work.title)}}}",
        "howpublished": _escape(work.venue),
        "year": str(work.year or ""),
        "doi": work.doi,
    }
    by = f"{', '.join(work.authors)}: " if work.authors else ""
    where = ", ".join(part for part in (work.venue, str(work.year or "")) if part)
    if work.year and str(work.year) in work.venue:
        where = work.venue
    return Citation(
        what="the publication",
        text=f"{by}{work.title}." + (f" {where}." if where else ""),
        bibtex=_entry("misc", f"{key}{work.year or ''}", fields),
        url=f"https://doi.org/{work.doi}" if work.doi else "",
    )


def _entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])


def _escape(text: str) -> str:
    return "".join(_BIBTEX.get(letter, letter) for letter in text)
