# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tables as Arrow IPC streams: as these the core returns them, shards hold them, and workers of a cluster send them."""

from __future__ import annotations

import io
from collections.abc import Mapping

import polars as pl

from perigee.store.schema import empty_table, is_table

Streams = Mapping[str, bytes]
"""Tables that have rows, by name."""


def frame_of(stream: bytes) -> pl.DataFrame:
    """Return the table of a stream.

    Raises:
        polars.exceptions.PolarsError: it is damaged.
    """
    return pl.read_ipc_stream(stream)


def frames_of(streams: Streams) -> dict[str, pl.DataFrame]:
    """Return the tables of streams."""
    return {name: frame_of(stream) for name, stream in streams.items()}


def checked_frame(name: str, stream: bytes) -> pl.DataFrame:
    """Return the table of a stream out of a process whose memory faulty code may have overwritten.

    Raises:
        ValueError: it is damaged.
    """
    try:
        frame = frame_of(stream)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    known = empty_table(name).schema
    # A run adds columns to a table at the most.
    if not is_table(name) or list(frame.schema.items())[: len(known)] != list(known.items()):
        raise ValueError("its columns are not those of the table")
    return frame


def stream_of(frame: pl.DataFrame) -> bytes:
    """Return a table as a stream.

    Examples:
        >>> frame_of(stream_of(pl.DataFrame({"cwnd": [7, None]}))).to_dicts()
        [{'cwnd': 7}, {'cwnd': None}]
    """
    sink = io.BytesIO()
    frame.write_ipc_stream(sink)
    return sink.getvalue()
