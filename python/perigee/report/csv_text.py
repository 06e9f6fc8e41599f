# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tables as CSV that a spreadsheet takes for data only."""

from __future__ import annotations

import polars as pl

_FORMULA = r"^[=+\-@\t\r]"


def csv_text(table: pl.DataFrame) -> str:
    """Return a table as CSV; a text that a spreadsheet would run as a formula begins with an apostrophe.

    Examples:
        >>> print(csv_text(pl.DataFrame({"flow": ["=1+1", "a"], "difference": [-2.0, 1.0]})), end="")
        flow,difference
        '=1+1,-2.0
        a,1.0
    """
    texts = [name for name, kind in table.schema.items() if kind == pl.String]
    safe = [
        pl.when(pl.col(name).str.contains(_FORMULA)).then("'" + pl.col(name)).otherwise(name).alias(name)
        for name in texts
    ]
    return table.with_columns(safe).write_csv()
