# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Results of the same study beside each other, cell by cell: engines, versions or settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from perigee.comparison.changes import in_words as made_with
from perigee.comparison.changes import letters
from perigee.errors import InputError
from perigee.files import printable
from perigee.groups.group import Group
from perigee.groups.groups import Groups
from perigee.groups.settings import confidence_level
from perigee.numbers import counted, decimals, number, signed
from perigee.statistics.estimates import CONFIDENCE, at_level
from perigee.statistics.metrics import Metric, metric, with_metric
from perigee.statistics.pairing import Comparison, compare_groups, corrected, is_one_sample, method, share_draws
from perigee.store.lateness import LATE_US, late_runs
from perigee.store.outcomes import in_words
from perigee.store.results import Results

METRICS = (
    "goodput_mbps", "steady_goodput_mbps", "startup_goodput_mbps", "rtt_mean_ms", "rtt_p95_ms", "retransmitted_percent",
    "duration_s",
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One cell: a quantity of a group of flows in A and in another of the results.

    Attributes:
        groups: the groups in A and in the other.
        metric: the quantity.
        comparison: the other's values against A's; where they are paired, of the rounds that both have.
        other: which of the results the other is; 1: B.
        confidence: level of the interval of the difference.
        p: of the t test, corrected for all cells; none where there is no test.
        p_wilcoxon: of Wilcoxon's test, corrected for all cells; none where the values are not paired.
        late: number of late runs behind the mean in A, and behind the other's, see `perigee.store.lateness`.
    """

    groups: tuple[Group, Group]
    metric: Metric
    comparison: Comparison
    other: int = 1
    confidence: float = CONFIDENCE
    p: float | None = None
    p_wilcoxon: float | None = None
    late: tuple[int, int] = (0, 0)

    @property
    def letter(self) -> str:
        """The letter of the other results."""
        return letters(self.other + 1)[-1]

    @property
    def label(self) -> str:
        """Return the name of the group, or both where they are not called the same."""
        return label_of(self.groups, self.letter)

    @property
    def other_in_words(self) -> str:
        """The letter of the other results, and what people call the group there, where it is not what A's is called."""
        ours, theirs = (group.label for group in self.groups)
        return self.letter if ours == theirs else f"{self.letter} ({theirs})"

    @property
    def is_same(self) -> bool:
        """Whether every value is the same in both."""
        return np.array_equal(self.comparison.first, self.comparison.second)

    @property
    def a(self) -> float:
        """Mean in A."""
        return float(self.comparison.second.mean())

    @property
    def b(self) -> float:
        """Mean in the other."""
        return float(self.comparison.first.mean())

    @property
    def difference(self) -> float:
        """The other's mean minus A's."""
        return self.comparison.difference

    @property
    def half_width(self) -> float:
        """Half the width of the difference's confidence interval; NaN without a test."""
        return self.comparison.contrast.half_width if self.comparison.contrast else float("nan")

    @property
    def size(self) -> str:
        """How many values it rests on, in words: of A, then of the other."""
        if self.comparison.is_paired:
            return self.comparison.size
        return f"{len(self.comparison.second)} and {len(self.comparison.first)}"

    @property
    def means(self) -> tuple[str, str]:
        """The means of A and of the other for people; a dagger marks those with late runs."""
        marks = (" †" if count else "" for count in self.late)
        a, b = (f"{number(mean, self.digits)}{mark}" for mean, mark in zip((self.a, self.b), marks, strict=True))
        return a, b

    @property
    def remark(self) -> str:
        """Return a note: that both are the same, why there is no test, late runs; empty: nothing."""
        found = ["the same" if self.is_same else self.comparison.reason]
        for name, count in zip(("A", self.letter), self.late, strict=True):
            found += [f"{count} late in {name}"] if count else []
        return "; ".join(part for part in found if part)

    @property
    def digits(self) -> int:
        """With how many decimals it is written, so that both means and the difference can be read."""
        least = self.metric.digits
        values = (decimals(least, self.a), decimals(least, self.b))
        return max(*values, decimals(least, self.difference, self.half_width))

    @property
    def difference_in_words(self) -> str:
        """The difference; that of shares in percentage points."""
        points = " pp" if self.metric.unit == "%" else ""
        return signed(self.difference, self.digits) + points

    @property
    def percent(self) -> float:
        """The difference in % of A; NaN where A is zero."""
        return 100 * self.difference / self.a if self.a else float("nan")


def compare(
    a: Results, *others: Results, metrics: Sequence[str] = METRICS, confidence: float | None = None
) -> list[Difference]:
    """Compare results with others of the same study.

    Flows of the same round are compared as pairs where both results took the same random draws, see
    `perigee.statistics.pairing.compare_groups`; flows that failed are left out.

    Args:
        a: what the others are held against.
        others: one or more.
        metrics: what to compare; a quantity that one side lacks is left out, and so are durations that the study sets.
        confidence: level of the intervals; none: that of A's `report.toml`.

    Returns:
        A cell per group, quantity and other, in the order of the study.

    Raises:
        InputError: there is no other, one has no group of flows in common with `a`, or the level is out of range.
    """
    if not others:
        raise InputError(f"{a.path}: there is nothing to compare it with; give two results of the same study")
    letters(len(others) + 1)
    chosen = Groups(a).settings.confidence if confidence is None else confidence_level("--confidence", confidence)
    cells: dict[int, list[Difference]] = {}
    late_of_a = late_runs(a)
    for place, b in enumerate(others, 1):
        draws, late_of_b = share_draws(a, b), late_runs(b)
        for ours, theirs in pairs(a, b):
            own = cells.setdefault(ours.number, [])
            late = len(late_of_a & set(ours.flows["run"])), len(late_of_b & set(theirs.flows["run"]))
            for name in metrics:
                if name == "duration_s" and has_set_length(a, ours) and has_set_length(b, theirs):
                    continue
                mine, other = with_metric(ours.flows, name, a), with_metric(theirs.flows, name, b)
                found = compare_groups(other, mine, name, shared_draws=draws, confidence=chosen)
                if found is not None:
                    own.append(Difference((ours, theirs), metric(name), found, place, chosen, late=late))
    order = {name: place for place, name in enumerate(metrics)}
    flat = [cell for own in cells.values() for cell in sorted(own, key=lambda cell: order[cell.metric.name])]
    results = corrected([cell.comparison for cell in flat], chosen)
    return [
        replace(cell, comparison=one.comparison, p=one.p, p_wilcoxon=one.p_wilcoxon)
        for cell, one in zip(flat, results, strict=True)
    ]


def has_set_length(results: Results, group: Group) -> bool:
    """Whether the study says how long a group's flows last, so that their duration is no result."""
    if any(column.key.endswith(".size") for column in results.points.columns):
        return False
    flow = str(group.rows["flow"][0]).partition(".")[0]
    for one in results.setup().get("flows", ()):
        if one["name"].partition(".")[0] == flow:
            return any(key == "amount" and text.startswith("for ") for key, text in one["properties"])
    return False


def pairs(a: Results, b: Results) -> list[tuple[Group, Group]]:
    """Return the groups of flows that both results have, A's and B's, in the order of A.

    Groups belong together that are of one flow at one point of the study; of those left over, groups of the same flow
    and algorithm where all else that varies is the same; then those of the same algorithm.

    Raises:
        InputError: there is none.
    """
    ours, theirs = Groups(a).all_groups, Groups(b).all_groups
    found: dict[int, Group] = {}
    for identity in (_point, _factors, _algorithm):
        left = [group for group in ours if group.number not in found]
        taken = {group.number for group in found.values()}
        found |= _matches(left, [group for group in theirs if group.number not in taken], identity)
    common = [(group, found[group.number]) for group in ours if group.number in found]
    if not common:
        raise InputError(
            f"{a.path} ({a.study}) and {b.path} ({b.study}) have no flows in common; give two results of the same study"
        )
    return common


def label_of(groups: tuple[Group, Group], letter: str = "B") -> str:
    """Return what people call a group in A and in other results."""
    ours, theirs = (group.label for group in groups)
    return ours if ours == theirs else f"{ours} in A, {theirs} in {letter}"


def remarks(results: Sequence[Results], cells: Sequence[Difference]) -> list[str]:
    """Return notes on the cells, a sentence or two each."""
    names = letters(len(results))
    found = [
        f"{name}: all rounds gave the same results, nothing random came to bear: they are one sample, without a spread."
        for name, one in zip(names, results, strict=True)
        if is_one_sample(one.table("flows"))
    ]
    seen: set[str] = set()
    for letter, b in zip(names[1:], results[1:], strict=True):
        for ours, theirs in pairs(results[0], b):
            endings = [
                f"{name} {words}" for name, one in (("A", ours), (letter, theirs)) if (words := in_words(one.rows))
            ]
            said = f"{label_of((ours, theirs), letter)}: {'; '.join(endings)}. Flows that failed are in no mean."
            if endings and said not in seen:
                seen.add(said)
                found.append(said)
    return [
        *found,
        *_late(results, cells),
        *_the_same(cells, len(results)),
        method([cell.comparison for cell in cells]),
    ]


def _late(results: Sequence[Results], cells: Sequence[Difference]) -> Iterator[str]:
    """Explain the marks of late runs."""
    if not any(any(cell.late) for cell in cells):
        return
    counts = [(name, len(late_runs(one))) for name, one in zip(letters(len(results)), results, strict=True)]
    late = ", ".join(f"{name} has {counted(count, 'run')}" for name, count in counts if count)
    yield (
        f"† a mean with late runs: the machine released packets more than {LATE_US / 1000:g} ms late (99th "
        f"percentile), so that their delays are not the link's alone. {late}."
    )


def _the_same(cells: Sequence[Difference], count: int) -> Iterator[str]:
    """Say which cells do not differ at all: they are in no table for people."""
    for place in range(1, count):
        own = [cell for cell in cells if cell.other == place]
        same = [cell for cell in own if cell.is_same]
        if not same:
            continue
        where = f"The same in A and {same[0].letter}, flow by flow"
        if len(same) == len(own):
            yield f"{where}: all {len(own)} cells."
            continue
        parts = []
        for label in dict.fromkeys(cell.label for cell in same):
            titles = [cell.metric.title for cell in same if cell.label == label]
            is_all = len(titles) == sum(cell.label == label for cell in own)
            parts.append(f"{label}: {'all quantities' if is_all else ', '.join(titles)}")
        yield f"{where}. {'; '.join(parts)}."


def as_frame(results: Sequence[Results], cells: Sequence[Difference]) -> pl.DataFrame:
    """Return the cells as a table, those without a difference too.

    Its columns are `group` (its name in A), `quantity, unit, other` (`B`, `C`, ...), `a, b` (the means in A and in the
    other), `difference, difference_percent, half_width_95` (the number is the level of confidence), `paired, flows_a,
    flows_b` (how many values each mean is of), `p` (of the t test), `p_holm` (the same, corrected for all cells),
    `p_wilcoxon, p_wilcoxon_holm, remark, group_b` (its name in the other), and `results_a, results_b, made_a, made_b`:
    the folders, and how they were made.
    """
    folders = [(printable(one.path.name), made_with(one)) for one in results]
    rows = [
        {
            "group": cell.groups[0].name,
            "quantity": cell.metric.name,
            "unit": cell.metric.unit,
            "other": cell.letter,
            "a": cell.a,
            "b": cell.b,
            "difference": cell.difference,
            "difference_percent": cell.percent,
            at_level("half_width", cell.confidence): cell.half_width,
            "paired": cell.comparison.is_paired,
            "flows_a": len(cell.comparison.second),
            "flows_b": len(cell.comparison.first),
            "p": cell.comparison.contrast and cell.comparison.contrast.p,
            "p_holm": cell.p,
            "p_wilcoxon": cell.comparison.contrast and cell.comparison.contrast.p_wilcoxon,
            "p_wilcoxon_holm": cell.p_wilcoxon,
            "remark": cell.remark,
            "group_b": cell.groups[1].name,
            "results_a": folders[0][0],
            "results_b": folders[cell.other][0],
            "made_a": folders[0][1],
            "made_b": folders[cell.other][1],
        }
        for cell in cells
    ]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None))


def _matches(
    ours: Sequence[Group], theirs: Sequence[Group], identity: Callable[[Group], Hashable]
) -> Iterator[tuple[int, Group]]:
    """Return the number of each of our groups and their group of the same identity, which no other has."""
    counts = [Counter(identity(group) for group in groups) for groups in (ours, theirs)]
    others = {identity(group): group for group in theirs}
    for group in ours:
        key = identity(group)
        if key is not None and all(count[key] == 1 for count in counts):
            yield group.number, others[key]


def _point(group: Group) -> Hashable:
    row = group.rows.row(0, named=True)
    return row["point"], row["flow"]


def _factors(group: Group) -> Hashable:
    return tuple(sorted({**group.factors, "cc": group.cc}.items()))


def _algorithm(group: Group) -> Hashable:
    return group.cc or None
