# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries a short cell of wu-2008 out in ns-2 and in the simulator, and writes docs/models/validation-ns2.md."""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from perigee.store.results import Results

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "models" / "validation-ns2.md"

RATE_BPS = 10_000_000
WEB, WEB_BACK = 50, 12
FROM_S, UNTIL_S = 30, 70

ALGORITHMS = ("cubic", "htcp", "compound", "highspeed", "bic", "reno")
QUEUES = {42: "0.05 BDP", 167: "0.2 BDP", 833: "1 BDP"}
"""Packets that may wait, and as a bandwidth-delay product in packets of 1500 bytes."""
SIZES = (1024, 8192, 65536)
"""Response sizes on the page, bytes."""

MISSING = "validate-ns2: skipped: there is no `ns` here; `apt-get install ns2` brings it"


Cell = tuple[str, int]
"""The algorithm of the high-speed flows, and the queue in packets."""


@dataclass(frozen=True)
class Values:
    """One simulator's values of a cell, from 30 s to 70 s.

    Attributes:
        response_ms: mean response time of the probes that were completed, by the size of the response (bytes).
        voice_delay_ms: mean one-way delay of the call's packets.
        voice_lost_percent: their share that was lost.
        utilisation_percent: of the long link, forward.
        dropped_percent: share of the packets that its queue dropped.
        fast_mbps: goodput of the four high-speed flows together.
        hftp_mbps: goodput of the unlimited file transfer.
        cpu_s: seconds of CPU time of the run.
    """

    response_ms: Mapping[int, float]
    voice_delay_ms: float
    voice_lost_percent: float
    utilisation_percent: float
    dropped_percent: float
    fast_mbps: float
    hftp_mbps: float
    cpu_s: float


Reader = Callable[[Values], float]


def main() -> int:
    """Write the page; say so and do nothing where there is no ns-2."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kept", type=Path, help="folder for the output of ns-2 and the results; a cell that is there is not run again"
    )
    kept = parser.parse_args().kept
    if shutil.which("ns") is None:
        print(MISSING)
        return 0
    with tempfile.TemporaryDirectory() as own:
        folder = kept or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        cells = [(algorithm, queue) for algorithm in ALGORITHMS for queue in QUEUES]
        peer = {cell: ns2(*cell, folder) for cell in cells}
        PAGE.write_text(page(peer, simulated(folder)), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")
    return 0


def ns2(algorithm: str, queue: int, folder: Path) -> Values:
    """Run a cell in ns-2, and return what it says."""
    name = f"{algorithm}-{queue}"
    output, call = folder / f"{name}.txt", folder / f"{name}.call"
    if not output.exists():
        numbers = [algorithm, queue, RATE_BPS, WEB, WEB_BACK, UNTIL_S, FROM_S, call]
        begun = cpu_of_children()
        done = subprocess.run(
            ["ns", HERE / "cell.tcl", *map(str, numbers)], capture_output=True, text=True, check=True, cwd=folder
        )
        output.write_text(f"{done.stdout}cpu {cpu_of_children() - begun:.2f}\n", encoding="utf-8")
    return read_ns2(output.read_text(encoding="utf-8").splitlines(), call.read_text(encoding="utf-8").splitlines())


def cpu_of_children() -> float:
    """Return the CPU time of the processes that were started and have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read_ns2(lines: Iterable[str], call: Iterable[str]) -> Values:
    """Return the values of a cell from what `cell.tcl` printed, and from its trace of the call.

    Examples:
        >>> lines = ["probe 1024 31.0 2080.5", "probe 1024 9.0 9999", "link 40000000 30000 300", "flow fast.1 1000000",
        ...          "flow hftp 500000", "cpu 7.5"]
        >>> call = ["+ 30.5 4 1 exp 218 ------- 0 4.0 5.0 7 1", "r 31.1 2 5 exp 218 ------- 0 4.0 5.0 7 1",
        ...         "+ 31.5 4 1 exp 218 ------- 0 4.0 5.0 8 2"]
        >>> read_ns2(lines, call).response_ms[1024], read_ns2(lines, call).dropped_percent
        (2080.5, 1.0)
        >>> read_ns2(lines, call).utilisation_percent, round(read_ns2(lines, call).voice_delay_ms)
        (80.0, 600)
    """
    durations: dict[int, list[float]] = {}
    flows: dict[str, int] = {}
    link, cpu_s = [0, 0, 0], float("nan")
    for words in (line.split() for line in lines if line.strip()):
        if words[0] == "probe" and float(words[2]) >= FROM_S:
            durations.setdefault(int(words[1]), []).append(float(words[3]))
        elif words[0] == "flow":
            flows[words[1]] = int(words[2])
        elif words[0] == "link":
            link = [int(word) for word in words[1:4]]
        elif words[0] == "cpu":
            cpu_s = float(words[1])
    seconds = UNTIL_S - FROM_S
    delays, lost = _call(call)
    fast = sum(acked for name, acked in flows.items() if name.startswith("fast."))
    return Values(
        response_ms={size: sum(found) / len(found) for size, found in durations.items()},
        voice_delay_ms=1e3 * sum(delays) / len(delays) if delays else float("nan"),
        voice_lost_percent=100 * lost / max(1, lost + len(delays)),
        utilisation_percent=100 * 8 * link[0] / (RATE_BPS * seconds),
        dropped_percent=100 * link[2] / max(1, link[1]),
        fast_mbps=fast * 8e-6 / seconds,
        hftp_mbps=flows.get("hftp", 0) * 8e-6 / seconds,
        cpu_s=cpu_s,
    )


def _call(lines: Iterable[str]) -> tuple[list[float], int]:
    """Return the delays (s) of a call's packets, and how many were lost; those of the last 2 s may be on their way."""
    sent: dict[str, float] = {}
    arrived: dict[str, float] = {}
    for words in (line.split() for line in lines):
        if words[0] == "+" and words[-1] not in sent:
            sent[words[-1]] = float(words[1])
        elif words[0] == "r" and words[3] == words[9].split(".")[0]:
            arrived[words[-1]] = float(words[1])
    judged = {number: at for number, at in sent.items() if FROM_S <= at <= UNTIL_S - 3}
    delays = [arrived[number] - at for number, at in judged.items() if number in arrived]
    return delays, len(judged) - len(delays)


def simulated(folder: Path) -> dict[Cell, list[Values]]:
    """Run all cells in the simulator, and return what it says, a value per round."""
    out = folder / "simulated"
    begun = cpu_of_children()
    command = [sys.executable, "-m", "perigee", "run", str(HERE / "cell.toml"), "-j", "1", "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    cpu_s = cpu_of_children() - begun
    results = Results(out)
    points = {row["run"]: json.loads(row["point"]) for row in results.table("flows").iter_rows(named=True)}
    found: dict[Cell, list[Values]] = {}
    for run, point in points.items():
        cell = (point["sender"]["name"], point["links.satellite.down.queue.packets"])
        found.setdefault(cell, []).append(read_run(results, run, cpu_s / len(points)))
    return found


def read_run(results: Results, run: int, cpu_s: float) -> Values:
    """Return the values of a run of `cell.toml`."""
    own = {name: results.table(name).filter(pl.col("run") == run) for name in ("responses", "voice", "links", "series")}
    probe = own["responses"].filter(pl.col("flow") == "probe")
    whole = own["links"].filter((pl.col("link") == "satellite.down") & (pl.col("t_s") <= UNTIL_S)).sort("t_s")
    link = whole.filter(pl.col("t_s") > FROM_S)
    before = whole.filter(pl.col("t_s") <= FROM_S)
    # The table counts what arrived at the link: what still waits has not been sent yet.
    waiting = float(link["queue_bytes"][-1]) - float(before["queue_bytes"][-1])
    total = {name: float(link[name].sum()) for name in ("offered_packets", "dropped_packets", "delivered_bytes")}
    voice = own["voice"].row(0, named=True)
    seconds = UNTIL_S - FROM_S
    return Values(
        response_ms=dict(zip(probe["least_bytes"].to_list(), probe["mean_ms"].to_list(), strict=True)),
        voice_delay_ms=voice["delay_mean_ms"],
        voice_lost_percent=100 * voice["lost_packets"] / voice["sent_packets"],
        utilisation_percent=100 * 8 * (total["delivered_bytes"] - waiting) / (RATE_BPS * seconds),
        dropped_percent=100 * total["dropped_packets"] / total["offered_packets"],
        fast_mbps=_goodput(own["series"].filter(pl.col("flow").str.starts_with("fast."))),
        hftp_mbps=_goodput(own["series"].filter(pl.col("flow") == "hftp")),
        cpu_s=cpu_s,
    )


def _goodput(series: pl.DataFrame) -> float:
    """Return the goodput of flows together while the link is measured, in Mbit/s."""
    within = series.filter((pl.col("t_s") > FROM_S) & (pl.col("t_s") <= UNTIL_S))
    before = series.filter(pl.col("t_s") <= FROM_S).group_by("flow").agg(pl.col("acked_bytes").max().alias("before"))
    after = within.group_by("flow").agg(pl.col("acked_bytes").max()).join(before, on="flow")
    return float((after["acked_bytes"] - after["before"]).sum()) * 8e-6 / (UNTIL_S - FROM_S)


def page(peer: Mapping[Cell, Values], own: Mapping[Cell, Sequence[Values]]) -> str:
    """Return the page: a row per cell, each quantity of ns-2 beside ours; what stands below the tables is kept."""
    notes = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    _, mark, explained = notes.partition(EXPLAINED)
    theirs = sum(one.cpu_s for one in peer.values()) / len(peer)
    ours = sum(one.cpu_s for rounds in own.values() for one in rounds) / sum(len(rounds) for rounds in own.values())
    made = HEAD.format(
        date=f"{datetime.datetime.now(tz=datetime.UTC):%-d %B %Y}", theirs=f"{theirs:.1f}", ours=f"{ours:.2f}"
    )
    for title, columns in TABLES.items():
        made += f"## {title}\n\n{_head(['algorithm', 'queue', *columns])}\n"
        for cell, value in peer.items():
            numbers = [_pair(read, digits, value, own[cell]) for read, digits in columns.values()]
            made += f"| {cell[0]} | {QUEUES[cell[1]]} | {' | '.join(numbers)} |\n"
        made += "\n"
    return made + EXPLAINED + (explained if mark else "\n")


def _pair(read: Reader, digits: int, theirs: Values, ours: Sequence[Values]) -> str:
    """Return two cells of a table: ns-2's value; the mean of ours, with the least and the largest of the rounds."""
    own = [read(one) for one in ours]
    least, mean, most = (f"{value:.{digits}f}" for value in (min(own), sum(own) / len(own), max(own)))
    return f"{read(theirs):.{digits}f} | {mean} ({least} to {most})"


def _response(size: int) -> Reader:
    return lambda values: values.response_ms.get(size, float("nan"))


def _head(titles: Sequence[str]) -> str:
    shown = [*titles[:2], *(text for title in titles[2:] for text in (f"{title}: ns-2", "here"))]
    return f"| {' | '.join(shown)} |\n|---|---|{'---:|' * (len(shown) - 2)}"


TABLES: Mapping[str, Mapping[str, tuple[Reader, int]]] = {
    "Mean response time of a probe, ms": {f"{size // 1024} KiB": (_response(size), 0) for size in SIZES},
    "The call and the link": {
        "voice delay, ms": (lambda values: values.voice_delay_ms, 0),
        "voice lost, %": (lambda values: values.voice_lost_percent, 2),
        "utilisation, %": (lambda values: values.utilisation_percent, 1),
        "dropped, %": (lambda values: values.dropped_percent, 2),
    },
    "The transfers, Mbit/s": {
        "four flows": (lambda values: values.fast_mbps, 2),
        "HFTP": (lambda values: values.hftp_mbps, 2),
    },
}
"""For each title: the columns, each with where its value is and its decimals."""

HEAD = """\
# The simulator beside ns-2

`make validate-ns2` carries a short cell of the study [wu-2008](../../studies/wu-2008/README.md) out in ns-2 and in
the simulator, and writes the tables of this page. ns-2 is Debian's 2.35, with `Agent/TCP/Linux` and PackMimeHTTP, the
tools of the publication. The cell is `validation/ns2/cell.toml`; `validation/ns2/cell.tcl` says the same to ns-2. It
is narrower and shorter than the study, since ns-2 is slow: 10 Mbit/s, a round trip of 1000 ms between the access
points, 50 and 12 new web connections per second, and from 10 s on probes, a call, an FTP, an HFTP and four high-speed
flows. Values are those from 30 s to 70 s: of ns-2 one run, of the simulator the mean of five rounds, with the least
and the largest.

Of {date}. A cell took ns-2 {theirs} s of CPU time, and the simulator {ours} s.

"""
EXPLAINED = "## What differs, and why\n"


if __name__ == "__main__":
    sys.exit(main())
