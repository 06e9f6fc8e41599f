# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reads `published.toml`, strictly: what is wrong is named with its line and the fix."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Self

from perigee.groups.settings import Kept
from perigee.groups.strict import StrictTable
from perigee.scoring import keys
from perigee.scoring.curve import OF_CURVE, RECOVERY, Place
from perigee.scoring.published import (
    WITHIN,
    Claim,
    ClaimTest,
    Looked,
    Published,
    PublishedTable,
    PublishedValue,
    Row,
    Work,
)
from perigee.scoring.quantity import OF_TWO, UNKNOWN, Cell, Quantity, metric_of
from perigee.scoring.samples import OF_SAMPLE
from perigee.statistics.expressions import parse
from perigee.statistics.metrics import Metric, numeric
from perigee.store.points import EXPERIMENT, as_text
from perigee.store.schema import empty_table

FILE = "published.toml"
"""Its name beside a study."""

EARLIEST, LATEST = 1900, 2200
"""Valid years of publications."""

OVER_TIME = "t_s"
"""The column that links are read along."""

MOST_CELLS = 10_000
"""Cells that a claim is checked in, at most."""


def published(results: Kept) -> Published | None:
    """Read `published.toml` kept with results, or beside a study; None if missing.

    Raises:
        InputError: the file is wrong; the message names it, the line and the fix.
    """
    kept = results.file(FILE)
    if kept is None:
        return None
    table = StrictTable.parse(*kept, keys.PUBLISHED, parse_float=Written)
    if table.has("ordering"):
        raise table.error(
            "[[ordering]]",
            "this is the form of an earlier version; put today's file in its place, or write `[[claim]]` and `rows`",
        )
    within = _positive(table, "within", WITHIN)
    experiments = results.declared_experiments()
    found = Published(
        source=table.text("source"),
        work=_work(table),
        calibration=table.text("calibration", ""),
        tables=tuple(_published_table(part, within, experiments) for part in table.tables("table", keys.TABLE)),
        notes=table.texts("notes"),
    )
    fitted = {value.name for one in found.tables for value in one.values if value.role == "fitted" and value.name}
    claims = tuple(_claim(part, fitted, experiments) for part in table.tables("claim", keys.CLAIM))
    _check_ids(table, claims)
    found = replace(found, claims=claims)
    table.end()
    has_fitted = any(value.role == "fitted" for one in found.tables for value in one.values)
    if found.calibration and not has_fitted:
        raise table.error("calibration", '`calibration` is of no number; give a table `role = "fitted"`')
    if has_fitted and not found.calibration:
        raise table.error('"fitted"', 'a table has `role = "fitted"`; say which link was fitted to it in `calibration`')
    return found


class Written(float):
    """A number of a file, with the digits that it is written with."""

    def __new__(cls, text: str) -> Self:
        """Read a number."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def last_digit(value: float) -> float:
    """Return the unit of the last digit that a number is written with.

    Examples:
        >>> last_digit(Written("0.50")), last_digit(827), last_digit(Written("1.2e3"))
        (0.01, 1.0, 100.0)
    """
    text = value.text.replace("_", "") if isinstance(value, Written) else str(value)
    exponent = Decimal(text).as_tuple().exponent
    return float(Decimal(1).scaleb(exponent)) if isinstance(exponent, int) else 0.0


def _work(table: StrictTable) -> Work | None:
    """Read the publication; None without a title."""
    found = Work(
        title=table.text("title", ""),
        authors=table.texts("authors"),
        venue=table.text("venue", ""),
        year=table.take("year", int, 0),
        doi=table.text("doi", ""),
    )
    if found.year and not EARLIEST <= found.year <= LATEST:
        raise table.error("year", f"`year` must be from {EARLIEST} to {LATEST}, not {found.year}")
    if found.doi and not re.fullmatch(r"10\.\d{4,9}/[!-~]+", found.doi):
        raise table.error("doi", f'`doi` must be as "10.1000/182", without an address before it, not "{found.doi}"')
    if not found.title and found != Work(""):
        raise table.error("", "the publication has no `title`; add one")
    return found if found.title else None


def _published_table(table: StrictTable, within: float, experiments: Sequence[str]) -> PublishedTable:
    name, caption, place = (table.text(key) for key in ("name", "caption", "place"))
    form = _one_of(table, "form", keys.FORMS, None)
    role = _one_of(table, "role", keys.ROLES, "predicted")
    not_measured = table.text("not_measured", "")
    made = PublishedTable(
        name=name, caption=caption, place=place, conditions=table.text("conditions", ""),
        not_measured=not_measured, role=role, values=(),
    )  # fmt: skip
    cell = _cell(table, "cell")
    values = []
    for part in table.tables("value", keys.VALUE):
        columns, rows = part.texts("columns"), part.take("rows", list, None)
        looked = _looked(
            part, place, cell, _one_of(part, "role", keys.ROLES, role), part.text("not_measured", not_measured)
        )
        looked |= {key: part.text(key, looked[key]) for key in ("title", "unit", "note")}
        own, bound, rounding = (
            _one_of(part, "form", keys.FORMS, form), _positive(part, "within", within),
            _not_negative(part, "rounding", None),
        )  # fmt: skip
        value = PublishedValue(**looked, form=own, within=bound, rows=_rows(part, columns, rows, rounding))
        _check_looked(part, value, experiments)
        _check_given(part, [row.cell for row in value.rows], experiments)
        if not value.title:
            raise part.error("", f"{part.where} has no `metric` to be named by; add a `title`")
        values.append(value)
        part.end()
    table.end()
    if not values and not not_measured:
        raise table.error(made.name, "the table has no `[[table.value]]`; add one, or say why in `not_measured`")
    return replace(made, values=tuple(values))


def _rows(table: StrictTable, columns: Sequence[str], rows: Any, rounding: float | None) -> tuple[Row, ...]:
    if "value" not in columns:
        raise table.error("columns", f"`columns` has no `value`; there may be {', '.join(keys.SPREAD)} beside it")
    if not isinstance(rows, list) or not rows:
        raise table.error("rows", "`rows` must be a list of rows, each a list as long as `columns`")
    found = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, list) or len(row) != len(columns):
            raise table.error("rows", f"row {number} of `rows` must be a list of {len(columns)}: {', '.join(columns)}")
        named = dict(zip(columns, row, strict=True))
        numbers = {key: _known(table, number, key, named.pop(key)) for key in ("value", *keys.SPREAD) if key in named}
        if numbers["value"] is None:
            raise table.error("rows", f"row {number} of `rows` has no number as `value`; leave the row out")
        own = numbers.pop("rounding", None)
        written = rounding if rounding is not None else last_digit(row[list(columns).index("value")])
        known = {key: value for key, value in numbers.items() if value is not None}
        _check_spread(table, number, known, own)
        n = int(known.pop("n", 0))
        found.append(Row(_values_of(table, named), n=n, rounding=written if own is None else own, **known))
    return tuple(found)


def _check_spread(table: StrictTable, number: int, known: Mapping[str, float], rounding: float | None) -> None:
    """Refuse numbers beside a value that cannot be."""
    for key, value in (("sd", known.get("sd")), ("rounding", rounding)):
        if value is not None and value < 0:
            raise table.error("rows", f"row {number} of `rows` has a `{key}` of {value:g}; it must be 0 or more")
    if known.get("low", -math.inf) > known.get("high", math.inf):
        raise table.error("rows", f"row {number} of `rows` has a `low` above its `high`; put the smaller one first")
    if (n := known.get("n", 1)) < 1 or n != int(n):
        raise table.error("rows", f"row {number} of `rows` has an `n` of {n:g}; it must be a whole number, 1 or more")


def _known(table: StrictTable, number: int, key: str, value: object) -> float | None:
    if value == "":
        return None
    return table.finite(f"rows.{number}.{key}", value)


def _claim(table: StrictTable, fitted: set[str], experiments: Sequence[str]) -> Claim:
    place, cell = table.text("place"), _cell(table, "cell")
    role = _one_of(table, "role", keys.ROLES, "")
    made = Claim(
        name=table.text("id", ""),
        claim=table.text("claim"),
        place=place,
        form=_one_of(table, "form", keys.FORMS, ""),
        reading=table.text("reading", ""),
        role=role,
        not_measured=table.text("not_measured", ""),
        note=table.text("note", ""),
        tests=tuple(_test(part, place, cell, experiments) for part in table.tables("test", keys.TEST)),
    )
    table.end()
    if made.tests and made.not_measured:
        raise table.error("not_measured", "a claim that is not measured has no `[[claim.test]]`; keep one of both")
    if not made.tests and not made.not_measured:
        raise table.error(made.claim, "the claim has no `[[claim.test]]`; add one, or say why in `not_measured`")
    is_fitted = any(test.name in fitted for test in made.tests)
    return made if role else replace(made, role="fitted" if is_fitted else "predicted")


def _check_ids(table: StrictTable, claims: Sequence[Claim]) -> None:
    names = [one.name for one in claims if one.name]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise table.error(name, f"two claims have the `id` `{name}`; change one")


def _test(table: StrictTable, place: str, cell: Cell, experiments: Sequence[str]) -> ClaimTest:
    given = [key for key in _OF_SOME_TESTS if table.has(key)]
    looked = _looked(table, place, cell, "", "")
    looked |= {key: table.text(key, looked[key]) for key in ("title", "unit", "note")}
    made = ClaimTest(
        **looked,
        kind=_one_of(table, "test", keys.TESTS, None),
        each=_each(table),
        least=_bound(table, "least"),
        most=_bound(table, "most"),
        much=_bound(table, "much"),
        along=table.text("along", "cc"),
        tiers=_tiers(table),
        factor=_not_negative(table, "factor", UNKNOWN),
        values=_plain(table, "values"),
        where=_plain(table, "where"),
        slack=_not_negative(table, "slack", 0.0),
        like=_like(table, place, cell, looked["cell"], experiments),
        holds=_one_of(table, "holds", keys.HOLDS, "all"),
    )
    table.end()
    _check_looked(table, made, experiments)
    compared = [*made.values, *itertools.chain(*made.tiers)] if made.along == EXPERIMENT else []
    _check_given(table, [*made.each, *({EXPERIMENT: one} for one in compared)], experiments)
    _check_test(table, made, given)
    return replace(made, factor=1.0) if math.isnan(made.factor) else made


def _like(table: StrictTable, place: str, of_claim: Cell, of_test: Cell, experiments: Sequence[str]) -> Looked | None:
    part = table.table("like", keys.LIKE)
    if part is None:
        return None
    for key in ("minus", "over"):
        if part.has(key):
            raise part.error(key, f"`like` takes no `{key}`; take it out")
    looked = _looked(part, place, of_claim if part.has("cell") else of_test, "", "")
    made = Looked(**looked | {"title": part.text("title", looked["title"])})
    part.end()
    if made.quantity is None:
        raise table.error("like", "`like` has neither `metric` nor `table`; add one")
    _check_given(part, [made.cell], experiments)
    return made


_OF_QUANTITY = ("statistic", "below", "across", "minus", "over")
"""Keys of the quantity of each test but `never`."""

_TAKES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bound": ((), ("least", "most", "much", *_OF_QUANTITY)),
    "order": (("highest_first",), ("factor", "much", "along", *_OF_QUANTITY)),
    "alike": (("values",), ("slack", "along", *_OF_QUANTITY)),
    "rises": (("values",), ("slack", "along", *_OF_QUANTITY)),
    "falls": (("values",), ("slack", "along", *_OF_QUANTITY)),
    "peak": (("values", "where"), ("along", *_OF_QUANTITY)),
    "trough": (("values", "where"), ("along", *_OF_QUANTITY)),
    "rank": (("values", "least"), ("much", "like", "along", *_OF_QUANTITY)), "never": ((), ()),
}  # fmt: skip
"""Keys that each test needs, and those that it takes beside them."""

_OF_SOME_TESTS = ("slack", "along", *_OF_QUANTITY)
"""Keys with a default that not every test takes."""


def _check_test(table: StrictTable, test: ClaimTest, of_some: Sequence[str]) -> None:
    """Refuse a test without what it needs, and with what it does not have."""
    numbers = [key for key in ("least", "most", "much", "factor") if not math.isnan(getattr(test, key))]
    given = [*of_some, *numbers, *(key for key in ("values", "where", "like") if getattr(test, key))]
    given += ["highest_first"] if test.tiers else []
    needed, others = _TAKES[test.kind]
    for key in needed:
        if key not in given:
            raise table.error("", f"the test `{test.kind}` needs `{key}`; add it")
    bounds = [key for key in ("least", "most") if key in given]
    if test.kind == "bound" and not bounds:
        raise table.error("", "the test `bound` needs `least`, `most`, or both; add one")
    if test.kind == "bound" and len(bounds) > 1 and "much" in given:
        raise table.error("much", "`much` is in the place of one bound; keep `least` or `most`")
    if test.kind == "never" and not (test.quantity and test.quantity.metric):
        raise table.error("never", "the test `never` is of a `metric`; name one")
    for key in given:
        if key not in (*needed, *others):
            raise table.error(key, f"the test `{test.kind}` takes no `{key}`; take it out")
    if test.values and len(test.values) < 2:
        raise table.error("values", "`values` must be two or more, since they are compared with each other")
    if unknown := [as_text(one) for one in test.where if one not in test.values]:
        raise table.error("where", f"`where` has {unknown[0]}, which is not among `values`")
    if test.factor == 0:
        raise table.error("factor", "`factor` must be more than 0")
    if test.least > test.most:
        raise table.error("least", f"`least` is {test.least:g} and `most` {test.most:g}; put the smaller one first")
    _check_different(table, "values", [as_text(one) for one in test.values])
    _check_different(table, "highest_first", [", ".join(sorted(map(as_text, tier))) for tier in test.tiers])
    for tier in test.tiers:
        _check_different(table, "highest_first", [as_text(one) for one in tier])
    _check_much(table, test)


def _check_different(table: StrictTable, key: str, names: Sequence[str]) -> None:
    """Refuse what would be compared with itself."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise table.error(key, f"`{key}` has {name} twice; keep one")


def _check_much(table: StrictTable, test: ClaimTest) -> None:
    """Refuse a `much` that is milder than what it is in the place of."""
    if math.isnan(test.much):
        return
    mild = (1.0 if math.isnan(test.factor) else test.factor) if test.kind == "order" else test.least
    is_milder = test.much > test.most if math.isnan(mild) else test.much < mild
    if is_milder:
        raise table.error("much", f"`much` must be stricter than the other bound, not {test.much:g}")


def _looked(table: StrictTable, place: str, cell: Cell, role: str, not_measured: str) -> dict[str, Any]:
    """Read what is looked up, as fields of `Looked`; `_check_looked` checks that they suit each other."""
    quantity, wanted = _quantity(table)
    minus, over = (_cell(table, key) if table.has(key) else None for key in ("minus", "over"))
    if minus is not None and over is not None:
        raise table.error("minus", "`minus` and `over` exclude each other; keep one")
    statistic = quantity.statistic if quantity else "mean"
    return {
        "quantity": quantity,
        "cell": {**cell, **_cell(table, "cell")},
        "other": minus if over is None else over,
        "is_ratio": over is not None,
        "title": _title(wanted, quantity, minus, over) if wanted and quantity else quantity.name if quantity else "",
        "unit": _unit(wanted, statistic, over),
        "digits": _digits(wanted, statistic, over),
        "role": role,
        "not_measured": not_measured,
        "note": "",
        "place": place,
    }


def _check_looked(table: StrictTable, looked: Looked, experiments: Sequence[str]) -> None:
    """Refuse what cannot be looked up."""
    if looked.not_measured:
        return
    if looked.quantity is None:
        raise table.error(
            "", f"{table.where} has neither `metric` nor `table` nor `link`; add one, or say why in `not_measured`"
        )
    if looked.statistic in OF_TWO and (looked.other is None or looked.is_ratio):
        raise table.error(
            "statistic", f"`{looked.statistic}` compares two cells; say in `minus` what differs in the other"
        )
    _check_experiment(table, [looked.cell, {**looked.cell, **(looked.other or {})}], experiments)


def _quantity(table: StrictTable) -> tuple[Quantity | None, Metric | None]:
    """Read what is looked up, and its metric; neither of what has no `metric` and no `table`."""
    name, rows, link, column = (table.text(key, "") for key in ("metric", "table", "link", "column"))
    quantity = Quantity(
        metric=name,
        statistic=_one_of(table, "statistic", OF_CURVE if rows or link else (*OF_SAMPLE, *OF_TWO), "mean"),
        below=float(table.number("below", 0.0)),
        across=_one_of(table, "across", ("mean", "sum"), ""),
        table=rows,
        link=link,
        column=column,
        at=_places(table, "at"),
        over_at=_places(table, "over_at"),
    )
    if sum(map(bool, (name, rows, link))) > 1:
        raise table.error("metric", "`metric`, `table` and `link` exclude each other; keep one")
    if bool(rows or link) != bool(column):
        raise table.error("table", "`table` or `link` and `column` belong together; give both, or neither")
    if column:
        table.guard(column, lambda: parse(column))
    _check_places(table, quantity)
    if not name:
        return (quantity if rows or link else None), None
    wanted = table.guard(name, lambda: metric_of(name))
    return quantity, wanted


def _places(table: StrictTable, key: str) -> dict[str, Place]:
    """Read where a curve is read: a number along a column, or a range as a list of two."""
    places: dict[str, Place] = {}
    for name, value in table.take(key, dict, {}).items():
        ends = value if isinstance(value, list) else [value]
        numbers = [table.finite(f"{key}.{name}", one) for one in ends]
        if len(numbers) > 2 or len(numbers) != len(set(numbers)) or numbers != sorted(numbers) or not numbers:
            raise table.error(key, f"`{key}.{name}` must be a number, or a range as [60, 120]")
        places[name] = (numbers[0], numbers[1]) if len(numbers) == 2 else numbers[0]
    return places


def _check_places(table: StrictTable, quantity: Quantity) -> None:
    """Refuse places that do not suit what is read there."""
    is_curve = bool(quantity.table or quantity.link)
    if len(quantity.at) > is_curve or (quantity.link and not quantity.at):
        raise table.error("at", "`at` is along one column of a `table` or `link`, as { rtt_ms = 2000 }")
    if quantity.link and OVER_TIME not in quantity.at:
        raise table.error("at", f"`at` of a `link` is along `{OVER_TIME}`, as {{ {OVER_TIME} = [60, 120] }}")
    if quantity.over_at and quantity.over_at.keys() != quantity.at.keys():
        raise table.error("over_at", "`over_at` is along the column of `at`; name that")
    over_range = any(isinstance(one, tuple) for one in quantity.at.values())
    if is_curve and quantity.statistic != "mean" and not over_range:
        raise table.error(
            "statistic", f"`{quantity.statistic}` of a curve needs a range in `at`, as {{ t_s = [60, 120] }}"
        )
    if quantity.statistic == RECOVERY and not quantity.over_at:
        raise table.error("statistic", "`recovery` needs `over_at`, to the height at which the curve comes back")
    if quantity.link and quantity.column not in numeric(empty_table("links")):
        raise table.error("column", f"the table `links` has no numbers `{quantity.column}`")


def _title(wanted: Metric, quantity: Quantity, minus: Cell | None, over: Cell | None) -> str:
    """Return what a number is, for people."""
    noun = wanted.title.lower()
    titles = {
        "zero_percent": f"Flows with none {noun}",
        "below_percent": f"Flows with {noun} below {quantity.below:g} {wanted.unit}".rstrip(),
        "max": f"Largest {noun}",
        "min": f"Smallest {noun}",
        "median": f"Median over flows of {noun}",
        "iqr": f"Interquartile range of {noun}",
        "sd": f"Standard deviation of {noun}",
        "sd_percent": f"Relative standard deviation of {noun}",
        "glass_delta": f"Glass's Δ of {noun}",
        "cohens_d": f"Cohen's d of {noun}",
        "t": f"t of {noun}",
    }
    if quantity.statistic in OF_TWO:
        return titles[quantity.statistic]
    percentile = f"{quantity.statistic} over flows of {noun}"
    title = wanted.title if quantity.statistic == "mean" else titles.get(quantity.statistic, percentile)
    if minus is not None:
        return f"{title}, more than with {_said(minus)}"
    return f"{title}, over that with {_said(over)}" if over is not None else title


def _said(cell: Cell) -> str:
    return ", ".join(f"{key} = {as_text(value)}" for key, value in cell.items())


def _unit(wanted: Metric | None, statistic: str, over: Cell | None) -> str:
    if wanted is None or over is not None or statistic in OF_TWO:
        return ""
    return "%" if statistic.endswith("_percent") else wanted.unit


def _digits(wanted: Metric | None, statistic: str, over: Cell | None) -> int:
    if over is not None or statistic in OF_TWO:
        return 2
    return 0 if statistic.endswith("_percent") else wanted.digits if wanted else 2


def _cell(table: StrictTable, key: str) -> Cell:
    return _values_of(table, table.take(key, dict, {}))


def _values_of(table: StrictTable, cell: Mapping[str, Any]) -> Cell:
    for key, value in cell.items():
        if not isinstance(value, str | bool | int | float):
            raise table.error(key, f"the factor `{key}` must be a text, a number, true or false")
    # A number with digits of its own is the same factor.
    return {key: float(value) if type(value) is Written else value for key, value in cell.items()}


def _check_experiment(table: StrictTable, cells: Sequence[Cell], experiments: Sequence[str]) -> None:
    for cell in cells:
        name = cell.get(EXPERIMENT)
        if experiments and name not in experiments:
            said = (
                f"the study has no experiment `{name}`"
                if name
                else f"{table.where} names no `experiment` in its `cell`"
            )
            raise table.error(str(name or ""), f"{said}; the experiments are {', '.join(experiments)}")
        if name and not experiments:
            raise table.error(str(name), "the study has no experiments; take `experiment` out of the `cell`")


def _check_given(table: StrictTable, cells: Sequence[Cell], experiments: Sequence[str]) -> None:
    """Refuse an unknown experiment in cells that may leave it to others."""
    _check_experiment(table, [cell for cell in cells if EXPERIMENT in cell], experiments)


def _each(table: StrictTable) -> tuple[Cell, ...]:
    """Read the cells in which a claim is checked: all combinations."""
    lists = table.take("each", dict, {})
    for key, values in lists.items():
        if not isinstance(values, list) or not values:
            raise table.error("each", f"`each.{key}` must be a list of values of that factor")
        for value in values:
            _values_of(table, {key: value})
    cells = tuple(
        dict(zip(lists, one, strict=True))
        for one in itertools.islice(itertools.product(*lists.values()), MOST_CELLS + 1)
    )
    if len(cells) > MOST_CELLS:
        raise table.error("each", f"`each` makes more than {MOST_CELLS} cells; name fewer")
    return tuple(_values_of(table, cell) for cell in cells)


def _tiers(table: StrictTable) -> tuple[tuple[object, ...], ...]:
    tiers = table.take("highest_first", list, [])
    if tiers and (len(tiers) < 2 or not all(isinstance(tier, list) and tier for tier in tiers)):
        raise table.error("highest_first", '`highest_first` must be two or more lists, as [["a"], ["b", "c"]]')
    return tuple(tuple(_values_of(table, {"highest_first": one})["highest_first"] for one in tier) for tier in tiers)


def _plain(table: StrictTable, key: str) -> tuple[object, ...]:
    return tuple(_values_of(table, {key: value})[key] for value in table.take(key, list, []))


def _bound(table: StrictTable, key: str) -> float:
    value = table.number(key, None)
    return UNKNOWN if value is None else float(value)


def _one_of(table: StrictTable, key: str, there: Sequence[str], default: str | None) -> str:
    """Take one of several words out; without a default it must be there."""
    word = table.text(key, default)
    if word != default and word not in there:
        raise table.error(f'"{word}"', f"`{word}` is no `{key}`; there are {', '.join(there)}")
    return word


def _not_negative(table: StrictTable, key: str, default: float | None) -> Any:
    """Take a number out that is not below 0."""
    value = table.number(key, None)
    if value is None:
        return default
    if value < 0:
        raise table.error(key, f"`{key}` must be 0 or more, not {value:g}")
    return value


def _positive(table: StrictTable, key: str, default: float) -> float:
    value = float(table.number(key, default))
    if value < 0:
        raise table.error(key, f"`{key}` must be a share of the number, 0 or more, not {value:g}")
    return value
