# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The keys of `published.toml`; the reader takes these and no others, and `docs/reference/published.md` has them."""

from __future__ import annotations

from perigee.groups.keys import Key
from perigee.scoring.curve import OF_CURVE
from perigee.scoring.quantity import OF_TWO
from perigee.scoring.samples import OF_SAMPLE

FORMS = ("table", "text", "figure")
"""How a publication has a number."""

ROLES = ("predicted", "fitted", "input")
"""The parts that a number can have in the study."""

TESTS = ("bound", "order", "alike", "rises", "falls", "peak", "trough", "rank", "never")
"""How a claim is tested."""

HOLDS = ("all", "most", "some", "some_each")
"""How many comparisons of a test have to hold."""

SPREAD = ("sd", "low", "high", "n", "rounding")
"""Columns of numbers beside `value`."""

PUBLISHED = (
    Key("source", "text", "required", "What was measured or computed, and by whom."),
    Key("title", "text", "", "Title of the publication; the keys from `authors` to `doi` ask for it."),
    Key("authors", "list of texts", "[]", "Its authors, as `Given Family`."),
    Key("venue", "text", '""', "Where it appeared."),
    Key("year", "number", "", "When it appeared, 1900 to 2200."),
    Key("doi", "text", "", "Its DOI, as `10.1000/182`, without the address of a resolver."),
    Key(
        "calibration", "text", '""',
        "Which link was fitted to which of the numbers, and what agreement shows then; asks for a table or value with "
        "`role = \"fitted\"`.",
    ),
    Key("within", "number", "0.15", "Largest relative error that counts as met: 0.15 is 15 %."),
    Key("notes", "list of texts", "[]", "What a reader should know about its numbers; one paragraph each."),
    Key("table", "tables", "[]", "A table, figure or passage with numbers: `[[table]]`, see below."),
    Key("claim", "tables", "[]", "What the publication concludes, as tests: `[[claim]]`, see below."),
)  # fmt: skip
"""The head of `published.toml`."""

_PLACE = Key("place", "text", "required", "Where it stands in the publication: `Table 2`, `Figure 5`, `Section 4.1`.")
_CELL = (
    'Factors that all its cells have, as `{ experiment = "spike", cc = "bbr", "proxy.enabled" = true }`: '
    "`experiment`, `flow`, `cc`, and keys that vary, of which the last part is enough."
)
_NOT_MEASURED = "Why this study cannot have it; it is on the scoreboard with this reason, and in no count of hits."
_QUANTITY = (
    Key("metric", "metric", "", "What it is of: a metric, a column of `flows`, or arithmetic over them. Or `table`."),
    Key(
        "statistic", ", ".join(f'`"{name}"`' for name in dict.fromkeys([*OF_SAMPLE, *OF_TWO, *OF_CURVE])), "mean",
        "Over the flows of a cell, or the points of a curve in a range; `iqr` is the interquartile range, "
        "`zero_percent` the share with none, `below_percent` that below `below`, `sd_percent` the deviation relative "
        "to the mean. `glass_delta`, `cohens_d` and `t` are effects, of the cell against that of `minus`. Only of "
        "curves: `sum`, `least_at` and `most_at`, the places of extremes, and `recovery`.",
    ),
    Key("below", "number", "0", "Bound of `below_percent`, in the unit of the metric."),
    Key("across", '`"mean"`, `"sum"`', "", "For a cell with several kinds of flows: their mean, or their sum."),
    Key(
        "table", "name", "",
        "Instead of `metric`: a table or figure of this project's report, by the name of its CSV file without the "
        "experiment's, as `links-main`.",
    ),
    Key(
        "link", "name", "",
        "Instead of `metric`: a directed link, as `satellite.up`, of the results' table `links`: of each time the mean "
        "over the runs of the cell. A registered file has none.",
    ),
    Key(
        "column", "name", "",
        "The column of a table or link, or arithmetic over its columns, as `first_sd / first_mbps`; rows of a table "
        "are chosen by `cell`, whose keys may be columns too.",
    ),
    Key(
        "at", "table of numbers or ranges", "{}",
        "Of a curve or link: where it is read, as `{ rtt_ms = 2000 }`, interpolated, or over which range, as "
        "`{ t_s = [60, 120] }`.",
    ),
    Key(
        "over_at", "table of numbers or ranges", "{}",
        "Of a curve or link: where else it is read, for what it is divided by. Of `recovery` what it comes back to: "
        "the distance from the beginning of the range of `at` to the first point, from its lowest on, that is as high.",
    ),
)  # fmt: skip
"""Keys of the quantity of a value or claim."""

TABLE = (
    Key("name", "text", "required", "Name in file names: `published-NAME.csv`."),
    Key("caption", "text", "required", "Caption of the table."),
    _PLACE,
    Key("form", '`"table"`, `"text"`, `"figure"`', "required", "Numbers of a table, words, or read off a figure."),
    Key(
        "role", '`"predicted"`, `"fitted"`, `"input"`', "predicted",
        "`fitted`: a link of the study was fitted to these numbers, they count apart. `input`: they describe the "
        "network, the study took them, and they count nowhere.",
    ),
    Key("cell", "table", "{}", _CELL),
    Key("conditions", "text", '""', "Under which conditions it was measured, where the captions do not say."),
    Key("not_measured", "text", '""', _NOT_MEASURED),
    Key("value", "tables", "[]", "Its columns: `[[table.value]]`, see below; none of a figure that is not measured."),
)  # fmt: skip
"""A `[[table]]` of `published.toml`."""

VALUE = (
    *_QUANTITY,
    Key("columns", "list of names", "required",
        "Of `rows`: `value`, and beside it factors (as in `cell`), `sd`, an interval `low` and `high`, `n`, "
        "`rounding`."),
    Key("rows", "list of lists", "required",
        "The numbers, a list per cell, as `[[\"bbr\", 95.8, 6.7], [\"cubic\", 91.0, 9.5]]`; `\"\"` is unknown."),
    Key("cell", "table", "{}", "Factors that all its rows have, beside those of the table."),
    Key(
        "minus", "table", "",
        "What differs in another cell whose value is subtracted, as `{ \"proxy.enabled\" = false }`.",
    ),
    Key("over", "table", "", "What differs in another cell by whose value it is divided."),
    Key("title", "text", '""', "What it is, for people; asked for where there is no metric."),
    Key("unit", "text", "", "Its unit, where it is not the metric's."),
    Key("form", '`"table"`, `"text"`, `"figure"`', "", "As of the table, which holds without it."),
    Key("role", '`"predicted"`, `"fitted"`, `"input"`', "", "As of the table, which holds without it."),
    Key("within", "number", "", "Largest relative error that counts as met. Without it: that of the file's head."),
    Key(
        "rounding", "number", "",
        "To what the publication rounds, as 5 for \"about 25\": half of it on either side is its reading precision. "
        "Without it: the last digit that the number is written with.",
    ),
    Key("not_measured", "text", '""', _NOT_MEASURED),
    Key("note", "text", '""', "What a reader should know about this column."),
)  # fmt: skip
"""A `[[table.value]]` of `published.toml`."""

CLAIM = (
    Key("id", "text", '""', "Its name, for places that refer to it; no two claims have the same."),
    Key("claim", "text", "required", "The statement, in our words."),
    _PLACE,
    Key("form", '`"table"`, `"text"`, `"figure"`', '""', "Where it is from: a table, words, or a figure in words."),
    Key("cell", "table", "{}", _CELL + " Those of a test add to them."),
    Key("reading", "text", '""', "How an unclear statement was read."),
    Key(
        "role", '`"predicted"`, `"fitted"`, `"input"`', "",
        "Without it: `fitted` where a fitted value has the metric of one of its tests.",
    ),
    Key("not_measured", "text", '""', _NOT_MEASURED + " Such a claim has no tests."),
    Key("note", "text", '""', "What a reader should know about it; what its tests leave out."),
    Key("test", "tables", "[]", "How it is tested: `[[claim.test]]`, see below."),
)  # fmt: skip
"""A `[[claim]]` of `published.toml`."""

TEST = (
    *_QUANTITY,
    Key("cell", "table", "{}", "Factors that all its cells have, beside those of the claim."),
    Key("title", "text", "", "What it is, for people, where the metric does not say."),
    Key("unit", "text", "", "Its unit, where it is not the metric's."),
    Key("over", "table", "", "For a ratio: what differs in the cell that it is divided by, as `{ cc = \"cubic\" }`."),
    Key("minus", "table", "", "For a difference or an effect: what differs in the cell that is subtracted."),
    Key(
        "each", "table of lists", "{}",
        "Checks the test in each of several cells, as `{ packets = [258, 646] }`: of several keys in all combinations.",
    ),
    Key("test", ", ".join(f'`"{name}"`' for name in TESTS), "required", "What is tested, see below."),
    Key("least", "number", "", "Of `bound` and `rank`: the smallest value for which it holds."),
    Key("most", "number", "", "Of `bound`: the largest."),
    Key(
        "much", "number", "",
        "The stricter number that the words ask for, as where they say \"much\": in place of `least`, of `most`, or of "
        "`factor`. What holds by the milder one alone holds weakly.",
    ),
    Key("along", "key", "cc", "Of the other tests: the factor along which cells are compared."),
    Key(
        "highest_first", "two or more lists", "",
        "Of `order`: values of that factor, highest first, as `[[\"hybla\"], [\"bbr\", \"cubic\"]]`; those within one "
        "list are not ordered.",
    ),
    Key("factor", "number", "1", "Of `order`: how many times each of the next list."),
    Key("values", "list", "[]", "Of the others but `never`: values of that factor, in order."),
    Key("where", "list", "[]", "Of `peak` and `trough`: the values one of which it has to be at."),
    Key(
        "slack", "number", "0",
        "Of `alike`: how much more the largest may be than the smallest, 0.1 is 10 %. Of `rises` and `falls`: the "
        "largest step against them, relative.",
    ),
    Key(
        "like", "table", "",
        "Of `rank`: another quantity by which `values` are ordered, instead of as they stand, as "
        "`{ metric = \"voice_lost_percent\", cell = { flow = \"voice\" } }`.",
    ),
    Key("holds", ", ".join(f'`"{name}"`' for name in HOLDS), "all", "How many comparisons have to hold, see below."),
    Key("note", "text", '""', "What a reader should know about it."),
)  # fmt: skip
"""A `[[claim.test]]` of `published.toml`."""

LIKE = (
    *_QUANTITY,
    Key("title", "text", "", "What it is, for people."),
    Key("cell", "table", "{}", "Factors of its cell, in the place of those of the test."),
)
"""The table `like` in a `[[claim.test]]`."""
