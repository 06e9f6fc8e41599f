# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tables of the compiled module as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_CELLS = {
    "text": pa.large_string(),
    "bool": pa.bool_(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "f64": pa.float64(),
}
"""Arrow's types by the schema's names."""


Buffer = bytes | memoryview


def arrow_table(rows: int, columns: Sequence[tuple[str, str, Buffer | None, Buffer | None, Buffer]]) -> pa.Table:
    """Make an Arrow table of columns in Arrow's memory layout, without a copy.

    Args:
        rows: the number of rows.
        columns: of each: name, type (`text`, `bool`, `u32`, `u64`, `f64`), validity bits (none: all cells are there),
            64-bit offsets (of text only), and the values, little-endian.

    Examples:
        >>> arrow_table(2, [("cwnd", "u32", bytes([0b01]), None, bytes([7, 0, 0, 0, 0, 0, 0, 0]))]).to_pydict()
        {'cwnd': [7, None]}
    """
    arrays, fields = [], []
    for name, cell, validity, offsets, data in columns:
        parts = (validity, data) if offsets is None else (validity, offsets, data)
        buffers = [None if part is None else pa.py_buffer(part) for part in parts]
        arrays.append(pa.Array.from_buffers(_CELLS[cell], rows, buffers))
        fields.append(pa.field(name, _CELLS[cell], nullable=validity is not None))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
