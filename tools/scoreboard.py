# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Scores every study that has a publication, and writes the scoreboard: its page, its files, and README's table.

    .venv/bin/python tools/scoreboard.py [STUDY=RESULTS ...]
    .venv/bin/python tools/scoreboard.py --pages

`make scoreboard` calls it. A study without results in `results/STUDY` is carried out; `STUDY=RESULTS` names another
folder. `--pages` writes the pages anew from `docs/scoreboard/scoreboard.json`, without any results.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perigee.console import say
from perigee.files import write_atomically
from perigee.report.csv_text import csv_text
from perigee.report.scored_study import scored_study
from perigee.scoring.reading import FILE
from perigee.scoring.registered import FILE as REGISTERED
from perigee.scoring.study import COUNTED, FORMAT, SIDES, ScoredStudy, as_frame, json_text
from perigee.version import __version__

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "scoreboard"
CONTENT = FOLDER / "scoreboard.json"
README, START, PAGE = ROOT / "README.md", ROOT / "docs" / "site" / "start.md", FOLDER / "README.md"
PLACE = re.compile(r"(<!-- scoreboard -->\n).*?(<!-- end -->)", re.DOTALL)
"""The part of a page that is written from the scoreboard."""

SENTENCE = re.compile(r"Of the numbers that the link was fitted to, .*? missed: [0-9/ -]+\.")
"""The sentence of the site's first page that is written from the scoreboard."""

Counts = Mapping[str, int]
Content = Mapping[str, Any]


def published() -> list[str]:
    """Return the studies of this repository that have a publication."""
    return sorted(path.parent.name for path in (ROOT / "studies").glob(f"*/{FILE}"))


def sum_of(path: Path) -> str:
    """Return the SHA-256 of a file; empty where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def carried_out(study: str, folder: Path) -> Path:
    """Return the results of a study, which is carried out if it has none."""
    if not (folder / "manifest.json").is_file() or '"complete"' not in (folder / "manifest.json").read_text():
        say(f"{study}: no results in {folder}; carrying it out")
        subprocess.run([sys.executable, "-m", "perigee", "run", study, "--out", str(folder)], cwd=ROOT, check=True)
    return folder


def entry(scored: ScoredStudy) -> dict[str, Any]:
    """Return what the scoreboard has of a study."""
    folder = ROOT / "studies" / scored.study
    sums = {"published_sha256": sum_of(folder / FILE), "registered_sha256": sum_of(folder / REGISTERED)}
    rows = [
        {
            "place": place,
            "what": scored.what(place),
            "reasons": scored.reasons(place),
            "counts": scored.counts_as_dicts(place),
        }
        for place in scored.places()
    ]
    return scored.as_json(__version__) | sums | {"places": rows}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def numbers(counts: Counts | None) -> str:
    """Return how many numbers are met, of how many.

    Examples:
        >>> numbers({"within": 3, "outside": 1}), numbers({"within": 0, "outside": 0}), numbers(None)
        ('3 of 4', '-', '-')
    """
    of = counts["within"] + counts["outside"] if counts else 0
    return f"{counts['within']} of {of}" if counts and of else "-"


def claims(counts: Counts | None) -> str:
    """Return how many claims are hit, in part, and missed.

    Examples:
        >>> claims({"hit": 2, "part": 1, "miss": 3}), claims(None)
        ('2 / 1 / 3', '-')
    """
    found = [counts[key] for key in ("hit", "part", "miss")] if counts else []
    return " / ".join(map(str, found)) if any(found) else "-"


def spread(counts: Counts | None) -> str:
    """Return how many numbers lie in the published spread, of how many."""
    return f"{counts['in_spread']} of {counts['of_spread']}" if counts and counts["of_spread"] else "-"


def of(one: Content, side: str, role: str) -> Counts | None:
    """Return the counts of a side; None where the study has none."""
    found: Counts | None = one["counts"].get(side, {}).get(role)
    return found


def summary(content: Content, to_studies: str) -> str:
    """Return the table of all studies, with links to their folders from where it stands."""
    rows = []
    for one in content["studies"]:
        link = f"[{one['study']}]({to_studies}/{one['study']}/README.md)"
        fitted = ([make(of(one, side, "fitted")) for make in (numbers, claims)] for side in SIDES)
        cells = ["; ".join(text for text in pair if text != "-") or "-" for pair in fitted]
        cells += [make(of(one, side, "predicted")) for make in (numbers, claims) for side in SIDES]
        rows.append([link, *cells])
    head = ["publication", "fitted, registered", "today", "other numbers, registered", "today"]
    return table([*head, "other claims (hit / part / missed), registered", "today"], rows)


def of_study(one: Content) -> Iterator[str]:
    """Yield the part of the page about a study, a row for each table, figure or passage of its publication."""
    work = one["publication"]
    yield f"\n## {one['study']}\n\n"
    if work:
        year = f", {work['year']}" if work["year"] and str(work["year"]) not in work["venue"] else ""
        yield f"- {', '.join(work['authors'])}: {work['title']}. {work['venue']}{year}.\n"
    for side, made in one["made"].items():
        runs = f"{made['runs']} runs, first seed {made['first_seed']}"
        yield f"- {side.capitalize()}: version {made['version']}, {made['date'][:10]}, {runs}.\n"
    if one["calibration"]:
        yield f"- Fitted: {one['calibration']}\n"
    rows = []
    for row in one["places"]:
        cells = [numbers(of(row, side, role)) for role in reversed(COUNTED) for side in SIDES]
        both = [[of(row, side, role) for role in COUNTED] for side in SIDES]
        cells += [claims(added(counts)) for counts in both]
        cells.append(spread(added(both[-1]) or added(both[0])))
        last = added(both[-1]) or added(both[0]) or {}
        missing = [f"{last[key]} {key.replace('_', ' ')}" for key in ("not_predicted", "not_measured") if last.get(key)]
        rows.append([row["place"], row["what"], *cells, "; ".join([*missing, *row["reasons"]])])
    head = ["place", "what", "fitted, registered", "today", "other, registered", "today", "claims, registered", "today"]
    yield "\n" + table([*head, "in spread", "left out"], rows)


def added(parts: Sequence[Counts | None]) -> Counts | None:
    """Return the sum of counts; None without any."""
    known = [one for one in parts if one is not None]
    return {key: sum(one[key] for one in known) for key in known[0]} if known else None


def page(text: str, content: Content) -> str:
    """Return the page with its generated part."""
    parts = [summary(content, "../../studies"), *(part for one in content["studies"] for part in of_study(one))]
    return replaced(PLACE, lambda found: f"{found[1]}{''.join(parts)}{found[2]}", text)


def with_summary(text: str, content: Content) -> str:
    """Return README with the table of all studies."""
    return replaced(PLACE, lambda found: f"{found[1]}{summary(content, 'studies')}{found[2]}", text)


def with_sentence(text: str, content: Content) -> str:
    """Return the site's first page with the counts of `claypool-2021` in its sentence."""
    one = next(one for one in content["studies"] if one["study"] == "claypool-2021")
    fitted, others = (of(one, "today", role) for role in ("fitted", "predicted"))
    all_claims = added([fitted, others])
    said = (
        f"Of the numbers that the link was fitted to, {numbers(fitted)} are within it, of the others "
        f"{numbers(others)}; claims hit, in part and missed: {claims(all_claims)}."
    )
    return replaced(SENTENCE, lambda _: said, text)


def replaced(place: re.Pattern[str], made: Callable[[re.Match[str]], str], text: str) -> str:
    """Return a page with its one place replaced.

    Raises:
        ValueError: it has none, or several.
    """
    found, count = place.subn(made, text)
    if count != 1:
        raise ValueError(f"the page has {count} places like {place.pattern!r}, and needs one; put it back")
    return found


PAGES = {PAGE: page, README: with_summary, START: with_sentence}
"""The pages that the scoreboard is written to, and what writes each."""


def write_pages(content: Content) -> None:
    """Write the scoreboard into its page, README and the site."""
    for path, make in PAGES.items():
        write_atomically(path, make(path.read_text(encoding="utf-8"), content).encode())


def folders(arguments: Sequence[str]) -> dict[str, Path]:
    """Return the results folders that arguments name, by study."""
    found = {}
    for text in arguments:
        study, equals, folder = text.partition("=")
        if not equals or not folder:
            raise SystemExit(f"{text}: must be STUDY=RESULTS, as claypool-2021=results/variant; or --pages alone")
        if study not in published():
            raise SystemExit(f"{study}: is no study with a publication; there are {', '.join(published())}")
        found[study] = Path(folder)
    return found


def main() -> None:
    """Score the studies, and write all files."""
    if sys.argv[1:] == ["--pages"]:
        write_pages(json.loads(CONTENT.read_text(encoding="utf-8")))
        return
    elsewhere = folders(sys.argv[1:])
    scored = []
    for study in published():
        folder = elsewhere.get(study, ROOT / "results" / study)
        say(f"{study}: scoring")
        scored.append(scored_study(str(ROOT / "studies" / study), carried_out(study, folder)))
        if warnings := scored[-1].warnings:
            raise SystemExit(f"{'; '.join(warnings)}; the scoreboard has studies as they stand")
    content = {"format": FORMAT, "perigee": __version__, "studies": [entry(one) for one in scored]}
    write_atomically(CONTENT, json_text(content).encode())
    for kind, frame in zip(("numbers", "claims"), as_frame(scored, __version__), strict=True):
        write_atomically(FOLDER / f"{kind}.csv", csv_text(frame).encode())
    write_pages(content)
    print(summary(content, "studies"), end="")


if __name__ == "__main__":
    main()
