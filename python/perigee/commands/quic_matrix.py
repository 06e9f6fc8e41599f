# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee quic matrix`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perigee.commands.options import Stopped
from perigee.console import result, say
from perigee.errors import EXIT_RUN_FAILED, InputError, InterruptedRunError, RunError
from perigee.numbers import counted, number, span

if TYPE_CHECKING:
    from perigee.matrix.cells import Cell
    from perigee.matrix.running import Order, Record


@dataclass(frozen=True)
class MatrixOptions:
    """Options of `perigee quic matrix`."""

    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the results, a file for each cell.")
    ] = Path("results/quic-matrix")
    stacks: Annotated[
        Path | None,
        typer.Option(
            "--stacks",
            "--into",
            metavar="FOLDER",
            help="Folder of installed stacks. \\[default: that of `perigee quic install`]",
        ),
    ] = None
    whole: Annotated[
        bool, typer.Option("--whole", help="All pairs, controls and twelve links, three rounds each: some nights.")
    ] = False
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="STACK", help="Only cells of this stack, or between these; may be given several times."),
    ] = None
    cell: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CELL", help="Only SERVER/CLIENT/LINK/CONTROL, as --list has them; may be given several times."
        ),
    ] = None
    again: Annotated[bool, typer.Option("--again", help="Measure cells that have a result, too.")] = False
    rounds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Downloads of each cell. \\[default: 1; with --whole 3]"),
    ] = None
    remaining: Annotated[
        bool, typer.Option("--list", help="Only list the cells that remain, and how long they take about.")
    ] = False
    compare: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Only hold the results against another run's, cell by cell."),
    ] = None


def matrix(given: MatrixOptions) -> None:
    """Measure QUIC stacks of others over emulated satellite links, beside TCP and Perigee's own QUIC.

    A cell is a download: a server, a client, a link and the server's congestion control. The small matrix has each
    stack with its own client, its default control and its best, over four links: a geostationary one without and with
    1 % of loss, a low orbit with a change of slots, an outage of a second. Other clients, and larger windows, are
    tried over the first link. `--list` estimates the time. Each cell is a file: the same command resumes after Ctrl-C.
    The page, a table and the results as JSON and CSV are written at the end.

    Programs of others are confined, in a network of their own; nothing leaves this machine. A program that fails is a
    finding with the command that repeats it, and has no number. Needs root and tcpdump, and the stacks that
    `perigee quic install` installs; cells of others are left out.

    [bold]Examples[/bold]

      perigee quic matrix
      perigee quic matrix --only ngtcp2 --only quic-go
      perigee quic matrix --cell ngtcp2/quic-go/geo/bbr2 --again
      perigee quic matrix --whole --list
      perigee quic matrix --out second && perigee quic matrix --out second --compare results/quic-matrix
    """
    if given.compare is not None:
        _compare(given.out, given.compare)
        return
    from perigee.matrix import cells, running
    from perigee.stacks.install import default_folder

    if given.cell and given.only:
        raise InputError("--cell and --only: they exclude each other; give one of them")
    asked = [cells.called(name) for name in given.cell or ()]
    asked = asked or cells.only(cells.whole() if given.whole else cells.small(), given.only or ())
    rounds = given.rounds or (3 if given.whole else 1)
    order = running.Order(given.out, given.stacks or default_folder(), rounds)
    if missing := running.absent(asked, order.stacks):
        say(f"note: not installed, so without their cells: {', '.join(missing)} (perigee quic install)")
        asked = [cell for cell in asked if not {cell.server.name, cell.client.name} & set(missing)]
    if not asked:
        raise InputError("no cell is left; install the stacks with: perigee quic install")
    todo = asked if given.again else running.remaining(asked, order)
    _tell_damaged(order.folder)
    if given.remaining:
        for cell in todo:
            result(cell.name)
        _tell_left(asked, todo, order)
        return
    if todo:
        running.check()
    failed = _measure(asked, todo, order)
    _write(order.folder, len(asked) - len(running.remaining(asked, order)), len(asked))
    if failed:
        raise typer.Exit(EXIT_RUN_FAILED)


def _measure(asked: list[Cell], todo: list[Cell], order: Order) -> int:
    """Measure cells, with a line for each; return how many this machine could not carry out."""
    from perigee.matrix import running

    stopped, failed = Stopped(), 0
    done = [record for cell in asked if cell not in todo and (record := running.kept(cell, order))]
    for place, cell in enumerate(todo, 1):
        if stopped:
            raise InterruptedRunError(f"interrupted; {_remain(len(todo) - place + 1)}")
        try:
            record = running.measure(cell, order)
        except RunError as error:
            say(f"{place} of {len(todo)}: {cell.name}: not measured: {error}")
            failed += 1
            continue
        done.append(record)
        left = running.left_s(todo[place:], done, order.rounds)
        say(f"{place} of {len(todo)}: {cell.name}: {_said(record)}; {f'{span(left)} left' if left else 'the last one'}")
    return failed


def _said(record: Record) -> str:
    from perigee.matrix.figures import figures

    if record["fault"]:
        return f"fault: {record['fault']['fault']}"
    found = figures(record)
    if found.completed:
        size = f"{number(record['size_bytes'] / 1e6, 0)} MB"
        how = f"{size} in {number(found.completion_s, 2)} s, goodput {number(found.goodput_mbps, 1)} Mbit/s"
    else:
        how = f"cut after {record['limit_s']:g} s, {number(found.throughput_mbps, 1)} Mbit/s arrived until then"
    trip = "" if found.handshake_ms is None else f", handshake {number(found.handshake_ms, 0)} ms"
    return f"{how}{trip}{', on a busy machine' if found.is_late else ''}"


def _tell_left(asked: list[Cell], todo: list[Cell], order: Order) -> None:
    from perigee.matrix import running

    done = [record for cell in asked if (record := running.kept(cell, order))]
    left = f"; about {span(running.left_s(todo, done, order.rounds))}" if todo else ""
    say(f"of {counted(len(asked), 'cell')} {_remain(len(todo))}{left}")


def _remain(count: int) -> str:
    return f"{count} {'remains' if count == 1 else 'remain'}"


def _tell_damaged(folder: Path) -> None:
    from perigee.matrix.running import damaged

    for path in damaged(folder):
        say(f"note: {path}: damaged, or of another version: its cell remains to be measured")


def _write(folder: Path, done: int, of: int) -> None:
    """Write the page, its text, and all results as one file of each form."""
    from perigee.files import write_atomically
    from perigee.matrix.running import records
    from perigee.report.pages.quic_matrix import headline, written

    command, found = shlex.join(["perigee", *sys.argv[1:]]), records(folder)
    texts = written(found, done, of, command)
    result(headline(found))
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
        result(str(folder / name))


def _compare(folder: Path, other: Path) -> None:
    from perigee.matrix.figures import WITHIN, differences
    from perigee.matrix.running import records

    if folder.resolve() == other.resolve():
        raise InputError(f"--compare {other}: the folder of the results itself; give another run's")
    ours, theirs = records(folder), records(other)
    for each in (folder, other):
        _tell_damaged(each)
    found = differences(ours, theirs)
    if not found:
        raise InputError(f"{folder}, {other}: no cell is in both; give two runs of the same matrix")
    alike = sum(one.repeats for one in found)
    result(f"{alike} of {counted(len(found), 'cell')} within {number(100 * WITHIN, 0)} %")
    for each, several in ((folder, ours), (other, theirs)):
        if more := len(several) - len(found):
            result(f"not compared: {counted(more, 'cell')} of {each} alone")
    for one in found:
        if not one.repeats:
            rates = f"{number(one.ours, 2)} and {number(one.theirs, 2)} Mbit/s"
            share = "a fault in one" if one.share is None else f"{number(100 * one.share, 0)} % apart"
            full = "; the client's socket was full" if one.is_full else ""
            result(f"chaotic: {one.cell}: {rates}, {share}{full}")
