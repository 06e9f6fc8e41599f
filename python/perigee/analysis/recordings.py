# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures recordings of real transfers: captures, qlogs, iperf3's JSON, logs of pings and probes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from perigee.analysis import log, logs, outside, probe_logs, qlog, qlog_flows
from perigee.analysis.source import GZIP, Source
from perigee.analysis.together import Placed
from perigee.core import core_fingerprint, native
from perigee.errors import InputError
from perigee.files import printable
from perigee.measuring.probe import read_log
from perigee.numbers import counted, number
from perigee.store.folder import ResultsFolder
from perigee.store.identity import Identity
from perigee.store.schema import empty_table
from perigee.store.small_flows import is_small
from perigee.store.streams import frames_of, stream_of

if TYPE_CHECKING:
    from perigee._core import CaptureCounts

ENGINE = "capture"
"""Value of the column `engine` for all results of recordings."""

Kind = Literal["capture", "probe", "qlog"] | logs.Kind

GoOn = Callable[[float], bool]
"""Called with the share done; returns whether to go on."""


@dataclass(frozen=True)
class Options:
    """The measurements of a capture, as in a study's `[measure]`.

    Attributes:
        series: interval of the series.
        startup: end of the startup phase, a size or a time; `off`: there is none.
        steady: the steady phase is this last share of a flow's bytes; `off`: there is none.
        most: connections that are measured of each capture: the largest.
        sequences: flows of each capture whose time sequence is written: the largest.
        joined: the captures are the parts of one, in order.
    """

    series: str = "1 s"
    startup: str = "off"
    steady: str = "50 %"
    most: int = 100
    sequences: int = 1
    joined: bool = False


@dataclass(frozen=True)
class Run:
    """Results of one file: a run.

    Attributes:
        name: the file's name, with its folder where another file has the same.
        kind: what it is.
        system: the program that wrote it, as far as it says so; empty of a capture.
        tables: as every engine writes them; of a capture also `connections`, `losses` and `segments`.
        notes: notes on it for users.
        damage: where it is damaged; the notes say so too.
        began_s: time of day of the tables' time zero, s since 1970; none: the file does not say.
    """

    name: str
    kind: Kind
    tables: Mapping[str, pl.DataFrame]
    notes: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    system: str = ""
    began_s: float | None = None

    @property
    def placed(self) -> Placed:
        """Its place in time."""
        exchanges = self.tables.get("exchanges", empty_table("exchanges"))
        return Placed(self.name, self.system, self.began_s, self.tables.get("flows", empty_table("flows")), exchanges)


@dataclass(frozen=True)
class Analysis:
    """Results of several files.

    Attributes:
        study: what the tables call it.
        runs: in the order of the results: captures, then tests of iperf3, then pings.
        options: what was asked for.
    """

    study: str
    runs: tuple[Run, ...]
    options: Options

    @property
    def placed(self) -> list[Placed]:
        """The place of each run in time."""
        return [run.placed for run in self.runs]

    def table(self, name: str) -> pl.DataFrame:
        """Return a table of all runs; one without rows where no run has it.

        Examples:
            >>> Analysis("a", (), Options()).table("flows").is_empty()
            True
        """
        parts = [run.tables[name] for run in self.runs if name in run.tables]
        return pl.concat(parts) if parts else empty_table(name)


def analyze(
    files: Sequence[Path], options: Options | None = None, go_on: GoOn = lambda _done: True, study: str | None = None
) -> Analysis | None:
    """Measure files: captures, and logs of the programs that `docs/reference/files.md` names.

    Args:
        files: the files, each for itself; captures of both ends of a connection are also held against each other.
        options: what to write down.
        go_on: called with the share done, a few times a second.
        study: its name in the tables; none: after the first file.

    Returns:
        What they gave, or none where `go_on` said no.

    Raises:
        InputError: a file cannot be read, is nothing of these, or holds nothing to measure.
    """
    options = options or Options()
    if not files:
        raise InputError("no file is given; `perigee analyze FILE...` takes captures, qlogs and logs")
    study = study or printable(files[0].name).split(".")[0] or "analysis"
    kinds = {path: kind_of(path) for path in files}
    names = dict(zip(files, map(printable, names_of(files)), strict=True))
    runs: list[Run] = []
    idle: list[str] = []
    if captures := [path for path in files if kinds[path] == "capture"]:
        sources = [(names[path], [path]) for path in captures]
        if options.joined:
            sources = [(names[captures[0]], captures)]
        found = capture_runs(sources, study, options, go_on)
        if found is None:
            return None
        runs += found
    for path in files:
        if kinds[path] in LOGS:
            runs += _logs(path, kinds[path], names[path], study)
        elif kinds[path] == "qlog":
            made_of, nothing = _qlog(path, names[path], study)
            runs, idle = runs + made_of, idle + nothing
        elif kinds[path] == "probe":
            made, notes = probe_logs.tables(path, study)
            began = float(read_log(path)[0].record["began_unix_s"])
            runs.append(Run(names[path], "probe", frames_of(made), notes, system="perigee probe", began_s=began))
    if idle and not runs:
        raise InputError(f"{'; '.join(idle)}; take the qlog of a transfer")
    if idle:
        runs[0] = replace(runs[0], notes=(*runs[0].notes, *idle))
    return Analysis(study, tuple(_named(run, number, len(runs)) for number, run in enumerate(runs)), options)


def keep(analysis: Analysis, files: Sequence[Path], out: Path, *, fresh: bool = False) -> None:
    """Write an analysis as a folder of results, which `perigee report` shows.

    Args:
        analysis: what to keep.
        files: what it was made of.
        out: the folder.
        fresh: replace results that are there already.

    Raises:
        InputError: the folder holds other results, or something else.
        StorageError: it cannot be written.
    """
    about = [
        {"name": run.name, "kind": run.kind, "system": run.system, "notes": list(run.notes), "began_s": run.began_s}
        for run in analysis.runs
    ]
    options = asdict(analysis.options)
    identity = Identity(
        study=analysis.study,
        engine=ENGINE,
        plan=_fingerprint(files, options),
        build=core_fingerprint(),
        settings=tuple(f"{key}={_shown(value)}" for key, value in options.items()),
        reduced=False,
        runs=len(analysis.runs),
        rounds=1,
        first_seed=0,
    )
    folder = ResultsFolder(out)
    with folder.open(identity, {"files.json": json.dumps(about, indent=1).encode()}, fresh=fresh) as manifest:
        if manifest.is_complete:
            return
        for index, run in enumerate(analysis.runs):
            folder.keep(index, {name: stream_of(table) for name, table in run.tables.items()}, {})
        folder.finish(manifest)


def kind_of(path: Path) -> Kind:
    """Say what a file is, by its first bytes.

    Raises:
        InputError: it cannot be read, or is nothing that can be analysed.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; give the file's name") from error
    if qlog.is_qlog(path, head):
        return "qlog"
    if head.startswith((*_CAPTURES, *_PACKED)) or (head.startswith(GZIP) and _holds_capture(path)):
        return "capture"
    if head.startswith(probe_logs.MAGIC):
        return "probe"
    if (found := logs.format_of(path)) is not None:
        return found.kind
    what = "it is empty" if not head else "it begins like none of them"
    raise InputError(
        f"{path}: neither a capture (pcap, pcapng) nor a qlog nor a log of ping, fping, irtt, iperf3, flent, ss, "
        f"cake-autorate, a Starlink dish, Ookla's Speedtest or perigee ({what}); give one of these"
    )


def _holds_capture(path: Path) -> bool:
    """Whether a packed file is a capture, or so damaged that nothing else can be in it."""
    source = Source(path)
    begin = source.head(_MAGIC_BYTES, is_text=False)
    return begin[:_MAGIC_BYTES] in _CAPTURES or not begin


def names_of(files: Sequence[Path]) -> list[str]:
    """Return what to call each file: its name, after as many of its folders as tell it from others of that name.

    Examples:
        >>> names_of([Path("monday/x.pcapng"), Path("tuesday/x.pcapng"), Path("y.pcapng")])
        ['monday/x.pcapng', 'tuesday/x.pcapng', 'y.pcapng']
    """
    parts = [Path.cwd().joinpath(path).parts for path in files]
    alike: dict[str, set[tuple[str, ...]]] = {}
    for own in parts:
        alike.setdefault(own[-1], set()).add(own)
    names = []
    for own in parts:
        others = alike[own[-1]] - {own}
        depth = next((n for n in range(1, len(own)) if all(other[-n:] != own[-n:] for other in others)), len(own))
        names.append("/".join(own[-depth:]))
    return names


def capture_runs(
    sources: Sequence[tuple[str, Sequence[Path]]], study: str, options: Options, go_on: GoOn
) -> list[Run] | None:
    """Measure captures; those of one connection from two places are also held against each other.

    Args:
        sources: name and files of each; several files are the parts of one capture, in order.
        study: its name in the tables.
        options: what to write down; `joined` has no meaning here.
        go_on: called with the share done, a few times a second, on this thread.

    Returns:
        A run each, or none where `go_on` said no.

    Raises:
        InputError: a file cannot be read, is no capture, or holds nothing to measure.
    """
    given = [(name, [str(path) for path in files]) for name, files in sources]
    found = native.analyze_captures(
        given, study, options.series, options.startup, options.steady, options.most, options.sequences, go_on
    )
    if found is None:
        return None
    runs = []
    for (name, _), (tables, counts) in zip(given, found, strict=True):
        made = frames_of(tables)
        runs.append(
            Run(name, "capture", made, tuple(_notes(counts, made)), tuple(_damage(counts)), began_s=_began(made))
        )
    return runs


def _began(tables: Mapping[str, pl.DataFrame]) -> float | None:
    """Return the time of day of a capture's first packet; none without a connection, and of a simulation's clock."""
    if "flows" not in tables or "connections" not in tables:
        return None
    begins = tables["flows"].join(tables["connections"].select("flow", "began_unix_s"), on="flow")
    began_s = next(iter((begins["began_unix_s"] - begins["start_s"]).drop_nulls()), None)
    return None if began_s is None or began_s < _FIRST_DAY_S else began_s


def _logs(path: Path, kind: Kind, called: str, study: str) -> list[Run]:
    found = logs.read(path)
    runs = []
    for place, one in enumerate(found, 1):
        name = called if len(found) == 1 else f"{called}, {'test' if kind == 'iperf3' else 'part'} {place}"
        tables, more = log.tables(one, study, str(path))
        notes = tuple(dict.fromkeys((*one.notes, *more)))
        runs.append(Run(name, kind, tables, notes, one.damage, one.system, one.time_zero_s))
    return runs


def _qlog(path: Path, called: str, study: str) -> tuple[list[Run], list[str]]:
    """Return a run of each connection that carried something, and a note on each other one."""
    traces = qlog.read(path)
    runs, idle = [], []
    for place, trace in enumerate(traces, 1):
        name = called if len(traces) == 1 else f"{called}, trace {place}"
        made, notes = qlog_flows.tables(trace, name, study)
        if made:
            runs.append(Run(name, "qlog", made, notes, began_s=trace.began_s))
        else:
            idle.append(f"{name}: no stream carried anything in it")
    return runs, idle


def _named(run: Run, place: int, among: int) -> Run:
    """Return a run with its number in all tables, and its file where there are several."""
    point = json.dumps({"file": run.name}) if among > 1 else "{}"
    tables = {}
    for name, table in run.tables.items():
        texts = {"point": pl.lit(point), "engine": pl.lit(ENGINE)} if name == "flows" else {}
        tables[name] = table.with_columns(run=pl.lit(place, pl.UInt32), **texts)
    return replace(run, tables=tables)


def _notes(counts: CaptureCounts, tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """Return notes on a capture, a sentence each without its full stop."""
    notes = [f"{damage}; what stands before was read" for damage in _damage(counts)]
    if counts.clock_jumps:
        times = "once" if counts.clock_jumps == 1 else f"{counts.clock_jumps} times"
        notes.append(
            f"the clock of the capture's host was set {times}; time goes on from the packet "
            "before, so that instants behind it are only relative"
        )
    if counts.disordered:
        notes.append(f"{counts.disordered} packets stand behind later ones; each was taken at the later one's time")
    notes += _notes_on_packets(counts)
    if counts.unknown_link:
        frames, link = counts.unknown_link
        notes.append(f"{frames} packets of link type {link} were left out, which is not known")
    tcp = counts.connections - counts.udp
    quic = [(name, count) for name, count in counts.quic if count]
    if not tcp:
        notes.append("there is no TCP in it; of UDP, what passed is counted")
    if quic:
        said = ", ".join(f"{counted(count, 'connection')} of {outside.version_of(name)}" for name, count in quic)
        notes.append(
            f"{said}: from outside, datagrams, their bytes, rate and pauses, and the handshake can be told; numbers of "
            "packets, and with them what was lost and sent again, streams and windows are encrypted, and stand in a "
            "qlog of either end"
        )
        notes += _spin_bits(tables.get("quic", empty_table("quic")))
    if counts.connections > counts.measured:
        left = counts.connections - counts.measured
        share = number(counts.other_payload_bytes / 1e6, 2)
        notes.append(f"the {counts.measured} largest of {counts.connections} connections were measured; the other "
                     f"{left} carried {share} MB")  # fmt: skip
    if counts.pushed_out:
        notes.append(f"too many connections at a time: {counts.pushed_out}, silent for longest, were taken as ended")
    if counts.rows_left_out:
        notes.append(f"the series is cut: {counts.rows_left_out} rows were left out; give a longer --series")
    if cut := counts.segments_left_out:
        notes.append(f"the time sequence is cut: {cut} segments and acknowledgements were left out at its end")
    if counts.unlike:
        notes.append(
            f"{counted(counts.unlike, 'connection')} with the addresses, ports and first sequence numbers of one in "
            "another of these files carried other packets, or at other times (as another run does): they are taken for "
            "two, and not compared"
        )
    connections = tables.get("connections", empty_table("connections"))
    if unknown := _of_unknown_side(tables) - counts.unseen_flows:
        flows = "1 flow" if unknown == 1 else f"{unknown} flows"
        notes.append(
            f"the capture does not tell at which side of {flows} it was taken, so that no round trip is measured but "
            "the handshake's; give the capture of the other side along with it"
        )
    if merged := _sum(connections, "merged_packets"):
        notes.append(
            f"{merged} packets are larger than a segment: the host cut them up or joined them beside the capture; each "
            "is counted as so many segments"
        )
    if twice := _sum(connections, "duplicated_packets"):
        notes.append(f"{twice} packets were captured twice and are counted once")
    if missed := _sum(connections, "unseen_packets"):
        notes.append(f"{missed} data packets were acknowledged but are not in the capture, which has lost packets")
    if sent := _sum(connections, "matched_packets"):
        lost, answers = _sum(connections, "matched_lost_packets"), _sum(connections, "matched_acknowledgements")
        notes.append(
            f"with the capture of the other side: of {sent} data packets {lost} were lost between them "
            f"({number(100 * lost / sent, 3)} %), of {answers} acknowledgements "
            f"{_sum(connections, 'matched_lost_acknowledgements')}"
        )
    opened = connections["opened_by"].to_list()
    if late := opened.count(""):
        notes.append(f"the beginning of {late} of {len(opened)} flows is not in the capture")
    return notes


def _spin_bits(seen: pl.DataFrame) -> list[str]:
    """Return notes on where the round trips of flows over QUIC come from, and where they have none."""
    turning = seen.filter(pl.col("spin_turns") > 0).height
    still = seen.filter(pl.col("spin_bit").is_in(["constant", "drawn"])).height
    notes = []
    if turning:
        notes.append(
            f"round trips of {counted(turning, 'flow')} over QUIC are the times between changes of the spin bit, and "
            "longer where an end had nothing to send"
        )
    if still:
        notes.append(
            f"the spin bit of {counted(still, 'flow')} over QUIC stands still or is drawn for each datagram, as both "
            "ends may choose: no round trip is measured but the handshake's"
        )
    return notes


def _damage(counts: CaptureCounts) -> list[str]:
    return [f"{Path(file).name} is damaged at byte {offset} ({why})" for file, offset, why in counts.broken]


def _notes_on_packets(counts: CaptureCounts) -> list[str]:
    """Return notes on packets that were read through another's headers, or that the capture lacks."""
    notes = []
    notes += [
        f"{counted(packets, 'packet')} came through {name}; what is inside was measured"
        for name, packets in sorted(counts.tunnelled.items())
    ]
    if counts.tunnelled_cut_off:
        notes.append(
            f"{counts.tunnelled_cut_off} packets of a tunnel were captured without the headers "
            "inside: what is measured is the tunnel; capture at least 160 bytes of each packet"
        )
    if (cut := counts.cut_off)[0]:
        notes.append(
            f"{counted(cut[0], 'packet')} cut off within the headers (at {cut[1]} bytes at most) and left out; capture "
            "at least 128 bytes of each packet (tcpdump -s 128)"
        )
    unread = counts.not_ip + max(counts.other - counts.fragments, 0)
    if unread > _MUCH * counts.frames:
        notes.append(
            f"{unread} of {counts.frames} packets are neither TCP nor UDP over IP (other protocols, or within a "
            "tunnel, a label or encryption) and were left out"
        )
    if left := counts.fragments - counts.joined_fragments:
        what = f"{counted(left, 'fragment')} of IP packets {'was' if left == 1 else 'were'} left out"
        notes.append(f"{what}: other fragments of the packet are missing")
    if joined := counts.joined_fragments:
        notes.append(f"{joined} fragments of IP packets were put together; a packet passes with its last fragment")
    if counts.one_way:
        one_way = counted(counts.one_way, "connection")
        notes.append(f"of {one_way} one direction only is in the capture, so that no round trip is measured")
    if unseen := counts.unseen_flows:
        notes.append(
            f"the data of {counted(unseen, 'flow')} are not in the capture: what arrived, and when, is what "
            "acknowledgements say; packets sent, sent again and lost are unknown"
        )
    return notes


def _of_unknown_side(tables: Mapping[str, pl.DataFrame]) -> int:
    """Return how many flows were captured where nobody knows, small ones left out."""
    flows, connections = (tables.get(name, empty_table(name)) for name in ("flows", "connections"))
    seen = connections.filter(pl.col("side") == "unknown").select("flow")
    return flows.filter(~is_small()).join(seen, on="flow", how="semi").height


def _sum(table: pl.DataFrame, column: str) -> int:
    return sum(table[column].drop_nulls())


def _shown(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _fingerprint(files: Sequence[Path], options: Mapping[str, Any]) -> str:
    """Return what changes where a file or an option does."""
    stamps = [(printable(path.name), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(json.dumps([stamps, options], sort_keys=True).encode()).hexdigest()


_FIRST_DAY_S = 315_532_800.0
"""1980 began then, s since 1970: no capture is older, and one that says so has a simulation's time."""
_MUCH = 0.1
"""Share of the packets above which what could not be read may be the transfer."""
_CAPTURES = (
    b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a",
    b"\x34\xcd\xb2\xa1", b"\xa1\xb2\xcd\x34",
)  # fmt: skip
"""First bytes of pcap and pcapng."""
_PACKED = (b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")
"""First bytes of xz and Zstandard: logs are read as they are, or packed by gzip."""
_MAGIC_BYTES = 4
LOGS = ("iperf3", "ping", "log")
"""Kinds of files that `analysis.logs` reads."""
