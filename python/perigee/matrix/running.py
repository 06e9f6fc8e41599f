# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures cells one after the other, each in namespaces of its own, and keeps each in a file."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from perigee.errors import InputError, RootNeededError, RunError
from perigee.files import storage_errors, write_atomically
from perigee.matrix.cells import Cell
from perigee.matrix.figures import LATE_US, MEDIANS
from perigee.matrix.studies import seed_of_run, study
from perigee.stacks.table import Settings, client_command, installed, server_command
from perigee.version import __version__

FORMAT = 1
"""Version of a cell's JSON."""
COMMAND = "perigee quic matrix"
CELLS = "cells"
FILE = "download.bin"
ADDRESS, PORT = "100.64.0.1", 4433
"""The server's: the near end of a link in a network of its own."""
MEMORY = Path("MEMORY")
"""Stands in commands for the folder in memory with the certificate and the files, which ends with its cell."""
KEYS = frozenset(("cell", "server", "client", "link", "control", "is_tuned", "size_bytes", "limit_s", "inputs"))
KEYS |= {"date", "versions", "took_s", "cores", "again", "rounds", "fault"}
"""Keys of each result."""
ROUND_KEYS = frozenset((*MEDIANS, "completed", "late_p99_us", "load_before"))
"""Keys of each of its rounds."""
ANY = "0.0.0.0"  # noqa: S104 - in a network of its own
"""Where it listens, since that end comes with the link."""
WINDOW = 6_000_000
"""Flow-control window of a tuned client, bytes: twice what path and queue of the link `geo` hold."""
BEYOND_S = 120.0
"""Time beyond that of a download after which a cell is given up."""
TRIES = 3
"""Most measurements of a round that this machine was too busy for."""
USUAL_S = 15.0
"""Time that a download takes with all around it, where none is known yet."""
PROGRAMS = ("tcpdump", "ip", "unshare", "setpriv", "mount")

Record = dict[str, Any]
"""The result of a cell, as it is kept."""


@dataclass(frozen=True)
class Order:
    """An order of measurements, and where they are kept.

    Attributes:
        folder: of the results.
        stacks: the folder in which stacks are installed.
        rounds: downloads of each cell, which differ by the seed of the link.
    """

    folder: Path
    stacks: Path
    rounds: int = 1

    def path(self, cell: Cell) -> Path:
        """Return where a cell is kept."""
        return self.folder / CELLS / cell.file


def check() -> None:
    """Check that this machine and process can measure.

    Raises:
        InputError: something is missing.
    """
    if os.geteuid() != 0:
        raise RootNeededError(f"{COMMAND} makes network namespaces, which needs root")
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        raise InputError(f"{', '.join(missing)}: not on this host; apt install tcpdump iproute2 util-linux")
    if not Path("/dev/net/tun").exists():
        raise InputError("/dev/net/tun is missing; load it with: modprobe tun")


def absent(cells: Sequence[Cell], folder: Path) -> list[str]:
    """Return the names of the stacks of cells that are not installed."""
    there = installed(folder)
    asked = (party for cell in cells for party in (cell.server, cell.client))
    return list(dict.fromkeys(one.name for one in asked if one.stack and one.name not in there))


def remaining(cells: Sequence[Cell], order: Order) -> list[Cell]:
    """Return the cells that have no result yet of these programs, links and rounds."""
    return [cell for cell in cells if kept(cell, order) is None]


def kept(cell: Cell, order: Order) -> Record | None:
    """Return the result of a cell; None: it has none, or one of other programs, another link or fewer rounds."""
    found = _read(order.path(cell))
    is_same = found is not None and found["inputs"] == inputs(cell)
    return found if found and is_same and (found["fault"] or len(found["rounds"]) >= order.rounds) else None


def records(folder: Path) -> list[Record]:
    """Return all results in a folder, by name, without those of `damaged`.

    Raises:
        InputError: there are none.
    """
    found = [record for path in _paths(folder) if (record := _read(path))]
    if not found:
        command = f"{COMMAND} --out {shlex.quote(str(folder))}"
        raise InputError(f"{folder}: no cells of a matrix; measure them with: {command}")
    return found


def damaged(folder: Path) -> list[Path]:
    """Return the files of a folder that are no results, or those of another version: their cells remain."""
    return [path for path in _paths(folder) if _read(path) is None]


def _paths(folder: Path) -> list[Path]:
    return sorted((folder / CELLS).glob("*.json"))


def _read(path: Path) -> Record | None:
    """Return the result in a file; None: it has none of this version."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    is_ours = isinstance(found, dict) and found.get("format") == FORMAT and found.keys() >= KEYS
    is_ours = is_ours and isinstance(found["rounds"], list) and isinstance(found["fault"], dict | None)
    is_whole = is_ours and all(isinstance(one, dict) and one.keys() >= ROUND_KEYS for one in found["rounds"])
    return found if is_whole else None


def inputs(cell: Cell) -> str:
    """Return a digest of what a cell measures: programs, link, size, windows."""
    link = cell.link
    parts = [
        *(f"{one.name} {one.stack.version if one.stack else ''}" for one in (cell.server, cell.client)),
        *_commands(cell, Path("stacks"), Path("work")).values(),
        link.file.text, link.changes, link.size, link.limit_s,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]


def measure(cell: Cell, order: Order) -> Record:
    """Measure a cell, and keep it: whole, or not at all.

    Raises:
        RunError: this machine could not carry it out.
        StorageError: the result cannot be written.
    """
    with storage_errors(order.folder):
        (order.folder / CELLS).mkdir(parents=True, exist_ok=True)
    record = _measured(cell, order)
    write_atomically(order.path(cell), json.dumps(record, indent=1, ensure_ascii=False).encode())
    return record


def left_s(cells: Sequence[Cell], done: Sequence[Record], rounds: int) -> float:
    """Return about how long cells take, by those that are done: of the same link where one is, or else of all."""
    by_link: dict[str, list[float]] = {}
    for record in done:
        by_link.setdefault(record["link"], []).append(record["took_s"] / max(len(record["rounds"]), 1))
    every = [took_s for several in by_link.values() for took_s in several] or [USUAL_S]
    return rounds * sum(fmean(by_link.get(cell.link.name, every)) for cell in cells)


def _measured(cell: Cell, order: Order) -> Record:
    begun = time.monotonic()
    rounds: list[Record] = []
    fault: Record | None = None
    for seed in range(1, order.rounds + 1):
        made = _on_time(cell, order, seed)
        if "fault" in made:
            fault = {**made, "seed": seed}
            break
        rounds.append({"seed": seed, **made})
    return {
        "format": FORMAT, "cell": cell.name, "server": cell.server.name, "client": cell.client.name,
        "link": cell.link.name, "control": cell.control, "is_tuned": cell.is_tuned, "size_bytes": cell.link.size,
        "limit_s": cell.link.limit_s, "inputs": inputs(cell),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"perigee": __version__, "kernel": platform.release(), **_versions(cell)},
        "took_s": round(time.monotonic() - begun, 1),
        "cores": os.cpu_count(),
        "commands": _commands(cell, order.stacks.resolve(), MEMORY),
        "again": again(cell, order),
        "rounds": [] if fault else rounds,
        "fault": fault,
    }  # fmt: skip


def _on_time(cell: Cell, order: Order, seed: int) -> Record:
    """Measure a round, again where this machine was late, and return the one that was least late."""
    tries: list[Record] = []
    while len(tries) < TRIES:
        load = os.getloadavg()[0]
        made = _carried_out(_job(cell, order, seed), cell.link.limit_s)
        if "fault" in made:
            return made
        tries.append({**made, "load_before": load})
        if made["late_p99_us"] <= LATE_US:
            break
    return {**min(tries, key=lambda one: one["late_p99_us"]), "tries": len(tries)}


def again(cell: Cell, order: Order) -> str:
    """Return the command that measures a cell once more, from any folder."""
    where = ["--stacks", str(order.stacks.resolve()), "--out", str(order.folder.resolve())]
    rounds = ["--rounds", str(order.rounds)] if order.rounds > 1 else []
    return shlex.join([*COMMAND.split(), "--cell", cell.name, "--again", *rounds, *where])


def _versions(cell: Cell) -> dict[str, str]:
    return {one.name: one.stack.version for one in (cell.server, cell.client) if one.stack}


def _commands(cell: Cell, folder: Path, work: Path) -> dict[str, str]:
    """Return the commands of a cell, for readers."""
    if cell.server.stack is None:
        return {"study": study(cell, 1, WINDOW)}
    link = shlex.join(["perigee", "exec", *cell.link.options])
    ends = {side: shlex.join(words) for side, words in _programs(cell, folder, work).items()}
    return {**ends, "link": link}


def _programs(cell: Cell, folder: Path, work: Path) -> dict[str, list[str]]:
    server, client = cell.server.stack, cell.client.stack
    if server is None or client is None:
        raise ValueError(f"{cell.name}: no programs")
    window = WINDOW if cell.is_tuned else None
    return {
        "server": server_command(
            server, folder / server.place, address=ANY, port=PORT,
            certificate=work / "certificate.pem", key=work / "key.pem", root=work / "www",
            settings=Settings(cell.control),
        ),
        "client": client_command(
            client, folder / client.place, address=ADDRESS, port=PORT, path=FILE,
            certificate=work / "authority.pem", out=work / "got",
            settings=Settings(window=window),
        ),
    }  # fmt: skip


def _job(cell: Cell, order: Order, seed: int) -> Record:
    # The folder of the results stays in sight of the programs: stacks, or a whole checkout, may be below it.
    work, link = (order.folder / CELLS).resolve(), cell.link
    if cell.server.stack is None:
        return {"folder": str(work), "study": study(cell, seed, WINDOW)}
    folder = order.stacks.resolve()
    places = {str(folder / one.stack.place) for one in (cell.server, cell.client) if one.stack}
    return {
        "folder": str(work), "profile": str(link.file.path.resolve()), "settings": link.pairs,
        "seed": seed_of_run(link, seed),
        "size": link.size, "limit_s": link.limit_s, "file": FILE, "address": ADDRESS, "port": PORT,
        "readable": sorted(places), **_programs(cell, folder, work),
    }  # fmt: skip


def _carried_out(job: Record, limit_s: float) -> Record:
    """Carry out a job in namespaces of its own, which end with this process, and all that is in them with them.

    Raises:
        RunError: it ended without a result.
    """
    words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--mount", "--fork", "--kill-child"]
    command = [*words, "--mount-proc", sys.executable, "-m", "perigee.matrix.inside"]
    # A group of its own: Ctrl-C in the terminal reaches this process only, whose end is theirs.
    with subprocess.Popen(  # noqa: S603 - our words
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        process_group=0,
    ) as process:  # fmt: skip
        try:
            said, errors = process.communicate(json.dumps(job), limit_s + BEYOND_S)
        except BaseException as error:
            process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise RunError(
                    f"nothing was measured within {limit_s + BEYOND_S:g} s; is this machine busy?"
                ) from error
            raise
    lines = said.splitlines()
    if process.returncode or not lines:
        raise RunError(f"the emulation ended with exit code {process.returncode}: {errors.strip()[-500:]}")
    made: Record = json.loads(lines[-1])
    if "failed" in made:
        raise RunError(made["failed"])
    return made
