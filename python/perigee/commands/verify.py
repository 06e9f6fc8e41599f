# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee verify`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from perigee.errors import EXIT_RUN_FAILED, InputError


def command(
    results: Annotated[Path, typer.Argument(help="Results folder.", metavar="RESULT")],
    sums: Annotated[
        list[str] | None,
        typer.Option(
            "--sum",
            metavar="[TABLE=]SHA256",
            help="Sum to compare with: of all values, or of a table's. Repeatable.",
        ),
    ] = None,
) -> None:
    """Check that results are whole, and print the sums of their values, or compare them with published ones.

    The files are compared with the checksums in manifest.json. Then the values of all tables are read: the same study,
    seed and version give the same values on any machine, and the same values the same sum, whatever version of the
    Parquet library wrote the files. CLAIMS.md of a report has the sums of its results.

    The exit code is 1 where a sum differs.

    [bold]Examples[/bold]

      perigee verify results/claypool-2021                       its sums
      perigee verify results/claypool-2021 --sum 5d41402a...     whether they are those of a paper
      perigee verify results/claypool-2021 --sum flows=7d793037...
    """
    from perigee.console import result, say
    from perigee.store.results import Results
    from perigee.store.values import sum_of_sums

    wanted = [_read(text) for text in sums or ()]
    found = Results(results).value_sums()
    whole = sum_of_sums(found)
    if not wanted:
        for name, digest in found.items():
            result(f"{digest}  {name}")
        result(f"{whole}  all values")
        return
    differs = False
    for name, digest in wanted:
        if name and name not in found:
            raise InputError(f"--sum {name}: the results have no such table; they have {', '.join(found)}")
        here, what = (found[name], f"table {name}") if name else (whole, "all values")
        if here == digest:
            result(f"{what}: the same")
        else:
            differs = True
            say(f"{what}: differs, {here} here")
    if differs:
        raise typer.Exit(EXIT_RUN_FAILED)


def _read(text: str) -> tuple[str, str]:
    name, _, digest = text.rpartition("=")
    if not re.fullmatch("[0-9a-fA-F]{64}", digest):
        raise InputError(f"--sum {text}: is no SHA-256; give 64 hexadecimal digits, as `perigee verify` prints them")
    return name, digest.lower()
