# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The report of an attack as Markdown, and its content for programs. The same attack gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perigee.attack.confirm import Confirmation
from perigee.attack.figures import GOALS
from perigee.attack.finding import Finding
from perigee.attack.running import Order
from perigee.attack.space import WHERE
from perigee.version import __version__

LEGEND = (
    "In the tables below are means over the rounds, and higher is worse: `utilisation` is the unused part of the "
    "flow's share, `delay` the mean wait in round trips, `loss` the part of retransmissions, `starvation` what another "
    "flow lacks of its share, `stall` the longest time without an arrival, in retransmission timeouts."
)


def report(
    order: Order,
    findings: Sequence[Finding],
    folder: Path,
    replayed: Mapping[str, Confirmation] = MappingProxyType({}),
    not_replayed: str = "",
) -> str:
    """Return the report.

    Args:
        order: what was attacked.
        findings: what was found, by goal.
        folder: where the studies of the findings are.
        replayed: what the emulator did, by the name of the search.
        not_replayed: why it was not asked.
    """
    least, most = WHERE[order.where]
    lines = [
        f"# What {order.candidate.name} does worst",
        "",
        f"{order.candidate.title}. A search over links, traffic and their changes, with round trips of {least:g} "
        f"to {most:g} ms, compared with {' and '.join(order.references)} in the same trials (seed {order.seed}; "
        f"Perigee {__version__}). "
        "Simulated: a finding says where to look, and no finding does not prove that there is nothing.",
        "",
        "`plain`: one flow over a link with a drop-tail queue, beside others where it is about them; otherwise with "
        "any complications.",
        "",
        "| search | finding | trials |",
        "|---|---|---:|",
    ]
    for one in findings:
        said = one.sentence if one.is_one else f"nothing found: {_nothing(one)}"
        lines.append(f"| {one.name} | {said} | {one.trials} |")
    lines += ["", LEGEND]
    for one in findings:
        if one.is_one:
            lines += ["", *_section(one, folder, replayed.get(one.name))]
    if not_replayed:
        lines += ["", f"Nothing was replayed on the emulator: {not_replayed}."]
    missing = [name for name in order.goals if name not in {one.name for one in findings}]
    if missing or not all(one.is_whole for one in findings):
        lines += ["", f"The search was interrupted{': no ' + ', '.join(missing) if missing else ''}."]
    return "\n".join(lines) + "\n"


def _nothing(one: Finding) -> str:
    if one.result is None or one.result.fault:
        return "nothing was tried"
    return (
        f"at worst, {one.candidate.name} {one.mean_in_words(None)}, where {one.result.best(one.goal)} "
        f"{one.mean_in_words(one.result.best(one.goal))}"
    )


def _section(one: Finding, folder: Path, replayed: Confirmation | None) -> list[str]:
    assert one.result is not None, "a finding has a result"  # noqa: S101 - only those are written
    lines = [f"## {one.name}: {one.candidate.name} {one.goal.title}", "", one.sentence, ""]
    if one.before and one.before.trial != one.result.trial:
        lines += [f"Found with: {one.before.trial.words}.", ""]
    if not one.result.fault:
        lines += [f"| | goodput Mbit/s | {' | '.join(GOALS)} |", f"|---|{'---:|' * (1 + len(GOALS))}"]
        for name in (None, *one.result.references):
            figures = one.result.candidate if name is None else one.result.references[name]
            goodput = sum(each.goodput_mbps for each in figures) / len(figures)
            cells = [f"{one.result.mean(goal, name):.3f}" for goal in GOALS.values()]
            lines.append(f"| {name or one.candidate.label} | {goodput:.2f} | {' | '.join(cells)} |")
        lines.append("")
    if one.around:
        lines += [one.around.sentence, ""]
    if one.edges:
        lines += [one.edges.sentence, ""]
    if replayed:
        lines += [_upper(replayed.sentence(one.candidate.name, one.goal)), ""]
    return [*lines, f"`perigee run {one.file}`:", "", "```toml", one.study(folder).rstrip(), "```"]


def _upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def content(
    order: Order, findings: Sequence[Finding], replayed: Mapping[str, Confirmation] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the attack for programs."""
    return {
        "perigee": __version__,
        "candidate": {"name": order.candidate.name, "sha256": order.candidate.sha256},
        "references": list(order.references),
        "where": order.where,
        "seed": order.seed,
        "findings": [one.content() | _on_the_emulator(one, replayed.get(one.name)) for one in findings],
    }


def _on_the_emulator(one: Finding, replayed: Confirmation | None) -> dict[str, Any]:
    if replayed is None:
        return {}
    figures = {one.candidate.label: asdict(replayed.candidate), replayed.reference: asdict(replayed.other)}
    return {"emulated": {"excess": replayed.excess(one.goal), "figures": figures}}
