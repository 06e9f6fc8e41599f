# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Logs of other programs: what each of them gives, what is assumed, and that damage is never read without a note."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Perigee
from perigee.analysis.recordings import Run, analyze
from perigee.errors import InputError

DATA = ROOT / "tests" / "data" / "logs"
LOST_OF_12: dict[str, object] = {"sent_packets": 12, "lost_packets": 5}
TEN_MBPS: dict[str, object] = {"retransmitted_packets": 1, "received_bytes": 12_000_000, "outcome": "completed"}


def windows(words: str, loss: str, *, encoding: str = "cp1252") -> bytes:
    """Three pings of Windows in a language: head, answer, no answer, statistics, counts."""
    head, answer, none, about, counts = words.split("|")
    lines = ["", head, answer.replace("#", "600"), none, answer.replace("#", "602"), "", about, counts.format(loss)]
    return "\r\n".join([*lines, ""]).encode(encoding)


GERMAN = (
    "Ping wird ausgeführt für sat.example [192.0.2.1] mit 32 Bytes Daten:|"
    "Antwort von 192.0.2.1: Bytes=32 Zeit=#ms TTL=50|Zeitüberschreitung der Anforderung.|"
    "Ping-Statistik für 192.0.2.1:|    Pakete: Gesendet = 3, Empfangen = 2, Verloren = 1 ({}"
)
FRENCH = (
    "Envoi d'une requête 'ping' sur sat.example [192.0.2.1] avec 32 octets de données :|"
    "Réponse de 192.0.2.1 : octets=32 temps=# ms TTL=50|Délai d'attente de la demande dépassé.|"
    "Statistiques Ping pour 192.0.2.1:|    Paquets : envoyés = 3, reçus = 2, perdus = 1 ({}"
)
SPANISH = (
    "Haciendo ping a sat.example [192.0.2.1] con 32 bytes de datos:|"
    "Respuesta desde 192.0.2.1: bytes=32 tiempo=#ms TTL=50|Tiempo de espera agotado para esta solicitud.|"
    "Estadísticas de ping para 192.0.2.1:|    Paquetes: enviados = 3, recibidos = 2, perdidos = 1 ({}"
)


def irtt(lost: str = "true", count: int = 200) -> bytes:
    """Pings of irtt, each 10 ms, of which four are lost; 25 ms up and 20 ms down."""
    trips = []
    for number in range(count):
        at = number * 10_000_000
        is_lost = number in (10, 50, 51, 199)
        trips.append({
            "seqno": number, "lost": lost if is_lost else "false",
            "timestamps": {"client": {"send": {"wall": 17 * 10**17 + at, "monotonic": at}}},
            "delay": {} if is_lost else {"receive": 20_000_000, "rtt": 45_000_000, "send": 25_000_000},
        })  # fmt: skip
    about = {"version": {"irtt": "0.9.1"}, "system_info": {"os": "linux"}, "config": {"interval": 10**7, "length": 60}}
    return json.dumps({**about, "stats": {"packets_sent": count, "packets_received": count - 4}, "round_trips": trips},
                      indent=1).encode()  # fmt: skip


def dish() -> bytes:
    """Four seconds of a dish, one of which lost all pings and one half of them; the header may be left out."""
    rows = ["0.0,31.5,1000000.0,8000.0", "1.0,,0.0,0.0", "0.5,40.5,2000000.0,8000.0", "0.0,30.0,1000000.0,8000.0"]
    return "".join(f"2026-05-01T10:00:0{at},{row},,True,False\n" for at, row in enumerate(rows)).encode()


def ring() -> bytes:
    """Seconds of `dish` as the dish's ring: it began in place 2, and has gone round."""
    values = ([0.5, 0.0, 0.0, 1.0], [40.5, 30.0, 31.5, 0.0], [2e6, 1e6, 1e6, 0.0], [8e3, 8e3, 8e3, 0.0])
    keys = ("popPingDropRate", "popPingLatencyMs", "downlinkThroughputBps", "uplinkThroughputBps")
    return json.dumps({"dishGetHistory": {"current": "42", **dict(zip(keys, values, strict=True))}}).encode()


def autorate() -> bytes:
    """Three lines of cake-autorate: 8 Mbit/s down, and 20 + 25 ms."""
    names = "LOG_DATETIME; LOG_TIMESTAMP; PROC_TIME_US; DL_ACHIEVED_RATE_KBPS; UL_ACHIEVED_RATE_KBPS; REFLECTOR; "
    lines = [f"DATA_HEADER; {names}SEQUENCE; DL_OWD_US; UL_OWD_US\n", "LOAD; x; 1; 2\n"]
    lines += [f"DATA; 2026; 1700000000.{at}; 1; 8000; 400; 192.0.2.{at}; {at}; 20000; 25000\n" for at in (1, 3, 5)]
    return "".join(lines).encode()


def ss() -> bytes:
    """Three samples of a socket, 2 s apart."""
    lines = []
    for at, acked in ((10, 1000), (12, 1_001_000), (14, 3_001_000)):
        lines += [f"17000000{at}.5\n", "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n",
                  "ESTAB 0 144800 192.0.2.1:5201 192.0.2.2:40000\n",
                  f"\t cubic wscale:7,7 rto:804 rtt:{600 + at}.5/1.2 mss:1448 cwnd:{at} bytes_acked:{acked} "
                  f"retrans:0/{at - 10} minrtt:599.5\n"]  # fmt: skip
    return "".join(lines).encode()


SPEEDTEST = {
    "type": "result", "timestamp": "2026-05-01T10:00:00Z", "ping": {"jitter": 2, "latency": 41.5, "low": 38.1},
    "download": {"bandwidth": 12_500_000, "bytes": 100_000_000, "elapsed": 10_000,
                 "latency": {"iqm": 90.5, "low": 40.0, "high": 300}},
    "upload": {"bandwidth": 1_250_000, "bytes": 10_000_000, "elapsed": 10_000, "latency": {"iqm": 60, "low": 39}},
    "packetLoss": 1.5, "isp": "Example", "server": {"host": "speed.example"},
}  # fmt: skip

FPING = b"".join(b"[17000000%02d.5] %s : [%d], 64 bytes, %d ms (6 avg, 0%% loss)\n" % (at, host, at, 40 + at)
                 for at in (0, 1, 3) for host in (b"a.example", b"b.example"))  # fmt: skip
MACOS6 = (
    b"PING6(56=40+8+8 bytes) 2001:db8::2 --> 2001:db8::1\n16 bytes from 2001:db8::1, icmp_seq=0 hlim=50 time=600.1 ms\n"
    b"Request timeout for icmp_seq=1\n16 bytes from 2001:db8::1, icmp_seq=2 hlim=50 time=601.5 ms\n\n"
    b"--- sat.example ping6 statistics ---\n3 packets transmitted, 2 packets received, 33.3% packet loss\n"
)
GERMAN_LINUX = (
    "PING sat.example (192.0.2.1) 56(84) Bytes an Daten.\n64 Bytes von 192.0.2.1: icmp_seq=1 ttl=50 Zeit=600 ms\n"
    "Von 192.0.2.9 icmp_seq=2 Zielhost nicht erreichbar\n\n--- sat.example ping-Statistik ---\n"
    "2 Pakete übertragen, 1 empfangen, +1 Fehler, 50% packet loss, Zeit 1001ms\n"
).encode()
UDP_TEXT = (
    b"Connecting to host 192.0.2.2, port 5201\nReverse mode, remote host 192.0.2.2 is sending\n"
    b"[  5] local 192.0.2.1 port 40000 connected to 192.0.2.2 port 5201\n"
    b"[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n"
    b"[  5]   0.00-1.00   sec   125 KBytes  1.02 Mbits/sec  0.500 ms  10/100 (10%)  \n"
    b"[  5]   1.00-2.00   sec   139 KBytes  1.14 Mbits/sec  0.300 ms  0/100 (0%)  \n- - -\n"
    b"[  5]   0.00-2.00   sec   278 KBytes  1.14 Mbits/sec  0.000 ms  0/200 (0%)  sender\n"
    b"[  5]   0.00-2.00   sec   264 KBytes  1.08 Mbits/sec  0.300 ms  10/200 (5%)  receiver\n"
)

READ: dict[str, tuple[str, dict[str, object]]] = {
    "lost-at-both-ends.txt": ("ping of Linux (iputils)", {"sent_packets": 25, "lost_packets": 9}),
    "no-answer-yet.txt": ("ping of Linux (iputils)", LOST_OF_12 | {"duration_s": 12.0}),
    "macos.txt": ("ping of macOS or a BSD", LOST_OF_12),
    "busybox.txt": ("ping of BusyBox", LOST_OF_12),
    "windows.txt": ("ping of Windows", LOST_OF_12),
    "linux-ipv6.txt": ("ping of Linux (iputils)", LOST_OF_12 | {"duration_s": 11.017}),
    "fping.txt": ("fping", LOST_OF_12),
    "interrupted.json": ("iperf 3.12", {"received_bytes": 8_750_000, "goodput_mbps": 10.0, "outcome": "stopped"}),
    "text-after.json": ("iperf 3.12", TEN_MBPS),
    "text-before.json": ("iperf 3.12", TEN_MBPS),
    "stream-cut.json": ("iperf 3.12", {"received_bytes": 12_500_000, "duration_s": 10.0, "outcome": "stopped"}),
    "array.json": ("iperf 3.12", TEN_MBPS),
    "text.txt": ("iperf3 (text)", {"received_bytes": 11_953_766, "retransmitted_packets": 1, "rtt_mean_ms": None}),
    "rrul.flent.gz": ("flent, test rrul", {"received_bytes": 6_125_000, "goodput_mbps": 5.0}),
}
"""Files of `tests/data/logs`: the program that wrote each, and the row of its first flow."""
WRITTEN: dict[str, tuple[bytes, str, dict[str, object]]] = {
    "german": (windows(GERMAN, "33%"), "ping of Windows (German)", {"sent_packets": 3, "lost_packets": 1}),
    "french-utf16": (windows(FRENCH, "perte 33%", encoding="utf-16"), "ping of Windows (French)",
                     {"sent_packets": 3, "lost_packets": 1, "rtt_min_ms": 600.0}),
    "spanish-cp850": (windows(SPANISH, "33%", encoding="cp850"), "ping of Windows (Spanish)", {"lost_packets": 1}),
    "ping6-macos": (MACOS6, "ping of macOS or a BSD", {"sent_packets": 3, "lost_packets": 1}),
    "linux-german": (GERMAN_LINUX, "ping of Linux (iputils)", {"sent_packets": 2, "lost_packets": 1,
                                                               "duration_s": 1.001}),
    "fping-two-hosts": (FPING, "fping", {"sent_packets": 4, "lost_packets": 1, "duration_s": 3.0}),
    "irtt": (irtt(), "irtt 0.9.1 of linux", {"sent_packets": 200, "lost_packets": 4, "rtt_mean_ms": 45.0}),
    "dish": (dish(), "Starlink dish", {"flow": "dish down", "received_bytes": 500_000, "duration_s": 4.0}),
    "dish-ring": (ring(), "Starlink dish", {"flow": "dish down", "received_bytes": 500_000, "duration_s": 4.0}),
    "autorate": (autorate(), "cake-autorate", {"flow": "achieved down", "received_bytes": 400_000}),
    "ss": (ss(), "ss of Linux (iproute2)", {"received_bytes": 3_000_000, "duration_s": 4.0, "cc": "cubic",
                                            "retransmitted_packets": 4, "rtt_min_ms": 599.5}),
    "speedtest": (json.dumps(SPEEDTEST).encode(), "Ookla Speedtest", {"flow": "download", "goodput_mbps": 80.0,
                                                                      "rtt_min_ms": 40.0, "rtt_mean_ms": 90.5}),
    "udp-text": (UDP_TEXT, "iperf3 (text)", {"kind": "udp", "sent_packets": 200, "lost_packets": 10,
                                             "from_node": "server"}),
}  # fmt: skip
"""Written by tests: the content, the program, and the row of the first flow."""
ALL = {name: (lambda name=name: (DATA / name).read_bytes()) for name in READ} | {
    name: (lambda name=name: WRITTEN[name][0]) for name in WRITTEN
}


def runs_of(path: Path, content: bytes | None = None) -> tuple[Run, ...]:
    if content is not None:
        path.write_bytes(content)
    found = analyze([path])
    assert found is not None
    return found.runs


def row_of(run: Run, name: str | None = None) -> dict[str, Any]:
    rows = run.tables["flows"].to_dicts()
    return next(row for row in rows if name in (None, row["flow"]))


def matches(row: dict[str, Any], expected: dict[str, object]) -> None:
    assert {key: row[key] for key in expected} == {
        key: pytest.approx(value) if isinstance(value, float) else value for key, value in expected.items()
    }


@pytest.mark.parametrize("name", READ)
def test_a_log_as_people_have_it_gives_what_it_says(name: str) -> None:
    system, expected = READ[name]
    run, *others = runs_of(DATA / name)
    assert (run.system, len(others)) == (system, int(name == "array.json"))
    matches(row_of(run), expected)
    assert bool(run.damage) == (name == "stream-cut.json"), run.damage
    if expected == LOST_OF_12:
        lost = [
            number for number, took in run.tables["exchanges"].select("number", "duration_ms").rows() if took is None
        ]
        assert lost == [2, 6, 7, 10, 11]


@pytest.mark.parametrize("name", WRITTEN)
def test_logs_of_other_systems_and_languages(tmp_path: Path, name: str) -> None:
    content, system, expected = WRITTEN[name]
    run, *others = runs_of(tmp_path / "log", content)
    assert (run.system, len(others)) == (system, int(name == "fping-two-hosts"))
    matches(row_of(run), expected)
    assert run.damage == ()


@pytest.mark.parametrize(("words", "seen"), [(GERMAN, "602ms"), (SPANISH, "<1m")])
def test_counts_of_windows_that_break_before_the_share_are_read(tmp_path: Path, words: str, seen: str) -> None:
    content = (
        windows(words, "33 %")
        .replace(b" (33", b"\r\n    (33")
        .replace(b"=602ms", f"={seen}".replace("=<", "<").encode())
    )
    (run,) = runs_of(tmp_path / "log", content)
    matches(row_of(run), {"sent_packets": 3, "lost_packets": 1, "rtt_min_ms": 0.5 if "<" in seen else 600.0})
    assert not any("without a summary" in note or "not understood" in note for note in run.notes)


def test_a_line_around_json_is_a_note_and_nan_is_unknown(tmp_path: Path) -> None:
    assert any("iperf3: error - unable to send" in note for note in runs_of(DATA / "text-after.json")[0].notes)
    assert any("warning: Ignoring nonsense" in note for note in runs_of(DATA / "text-before.json")[0].notes)
    content = (DATA / "text-after.json").read_bytes().replace(b'"max_rtt": 600000', b'"max_rtt": -nan')
    for encoding in ("utf-8", "utf-16", "utf-16-le"):
        (run,) = runs_of(tmp_path / "a.json", content.decode().encode(encoding))
        matches(row_of(run), TEN_MBPS)


def test_round_trips_of_fping_side_by_side_are_pings(tmp_path: Path) -> None:
    one, other = runs_of(tmp_path / "a", b"192.0.2.1 : 30.1 30.2 - 30.4\nsat.example    : 600 - - 601\n")
    matches(row_of(one), {"sent_packets": 4, "lost_packets": 1, "rtt_min_ms": 30.1})
    matches(row_of(other), {"sent_packets": 4, "lost_packets": 2, "rtt_mean_ms": 600.5})
    # Behind lines of their own they say the same again.
    (run,) = runs_of(tmp_path / "b", (DATA / "fping.txt").read_bytes() + b"sat.example : 600 - 601\n")
    matches(row_of(run), LOST_OF_12)


def test_the_servers_part_of_a_clients_text_is_not_counted_again(tmp_path: Path) -> None:
    content = (DATA / "text.txt").read_bytes()
    server = content.replace(b"Connecting to host", b"Accepted connection from")
    (alone,) = runs_of(tmp_path / "a", content)
    (run,) = runs_of(tmp_path / "b", content + b"\nServer output:\n" + server)
    assert run.tables["series"].equals(alone.tables["series"])
    assert any("--get-server-output" in note for note in run.notes)


def test_irtt_has_the_delay_of_each_direction_and_losses_where_the_server_knows_them(tmp_path: Path) -> None:
    (run,) = runs_of(tmp_path / "a.json", irtt())
    assert [row_of(run, way)["delay_mean_ms"] for way in ("up", "down")] == [25.0, 20.0]
    assert [row_of(run, way)["lost_packets"] for way in ("up", "down")] == [None, None]
    (run,) = runs_of(tmp_path / "b.json", irtt("true_down"))
    assert [row_of(run, way)["lost_packets"] for way in ("up", "down")] == [0, 4]
    assert any("rest on both hosts' clocks" in note for note in run.notes)


def test_what_a_log_cannot_say_is_empty_and_told(tmp_path: Path) -> None:
    (run,) = runs_of(tmp_path / "a.log", autorate())
    row = row_of(run, "ping")
    assert (row["sent_packets"], row["lost_packets"], row["rtt_mean_ms"]) == (None, None, 45.0)
    assert any("how many were sent and lost is not known" in note for note in run.notes)
    (run,) = runs_of(tmp_path / "dish.csv", dish())
    row = row_of(run, "ping")
    assert (row["sent_packets"], row["lost_packets"]) == (4, 2)
    assert any("each second counts as one" in note for note in run.notes)
    (run,) = runs_of(tmp_path / "s.json", json.dumps(SPEEDTEST).encode())
    assert any("Ookla says download 100 Mbit/s and upload 10 Mbit/s" in note for note in run.notes)


def test_a_gap_of_a_dish_is_in_no_mean_and_a_second_that_is_told_twice_counts_once(tmp_path: Path) -> None:
    lines = dish().splitlines(keepends=True)
    (run,) = runs_of(tmp_path / "a.csv", b"".join(lines[:1] + lines[2:]))
    assert row_of(run)["goodput_mbps"] == pytest.approx(4 / 3)
    series = run.tables["series"]
    assert series.filter(series["flow"] == "dish down").select("t_s", "goodput_mbps").rows() == [(1, 1), (3, 2), (4, 1)]
    assert any("1 gaps" in note for note in run.notes)
    (run,) = runs_of(tmp_path / "b.csv", dish() * 2)
    matches(row_of(run), {"received_bytes": 500_000, "duration_s": 4.0})
    matches(row_of(run, "ping"), {"sent_packets": 4, "lost_packets": 2})
    assert any("4 lines are of a second that another line is of" in note for note in run.notes)


def test_json_has_every_figure_and_anonymise_leaves_no_address_and_no_name(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "router.example.org.txt").write_bytes((DATA / "macos.txt").read_bytes())
    (tmp_path / "sat.json").write_bytes(
        (DATA / "text-after.json").read_bytes() + b"iperf3: at sat.example, 2001:db8::1\n"
    )
    capture = ROOT / "fuzz" / "corpus" / "capture" / "good-pcap"
    files = ["router.example.org.txt", "sat.json", capture]
    done = perigee("analyze", *files, "--json")
    assert done.returncode == 0, done.stderr
    whole = json.loads(done.stdout)
    assert [one["system"] for one in whole["files"]] == ["", "ping of macOS or a BSD", "iperf 3.12"]
    assert whole["files"][1]["flows"][0]["lost_packets"] == 5
    hidden = perigee("analyze", *files, "--json", "--anonymise", "--out", "out")
    assert perigee("report", "out", "--format", "html", "--format", "csv").returncode == 0
    texts = [path.read_text() for path in (tmp_path / "out").rglob("*") if path.suffix in (".html", ".csv", ".json")]
    # Addresses in names of flows of the capture too.
    names = [name for file in json.loads(done.stdout)["files"] for flow in file["flows"]
             for name in re.findall(r"[0-9a-f.:]+(?=:[0-9]+)", flow["flow"])]  # fmt: skip
    for name in ("sat.example", "2001:db8", "router.example", "192.0.2.", *names):
        assert not [text for text in (hidden.stdout, *texts) if name in text], name
    assert "host-1" in hidden.stdout
    assert len(names) > 1


@pytest.mark.parametrize("name", ["autorate", "dish"])
def test_pings_beside_rates_without_round_trips_have_a_report(perigee: Perigee, tmp_path: Path, name: str) -> None:
    (tmp_path / "log").write_bytes({"autorate": autorate, "dish": dish}[name]())
    assert perigee("analyze", "log", "--out", "out").returncode == 0
    done = perigee("report", "out", "--format", "html")
    assert done.returncode == 0, done.stderr
    assert "Requests and pings" in (tmp_path / "out" / "report.html").read_text()


def said(runs: tuple[Run, ...]) -> list[dict[str, Any]]:
    """Rows of the runs, without their notes; sums of other order differ in the last digits."""
    rows = [row for run in runs for row in run.tables["flows"].to_dicts()]
    return [{key: round(value, 6) if isinstance(value, float) else value for key, value in row.items()} for row in rows]


def cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(1, len(content))]


def swapped(content: bytes, draw: random.Random) -> bytes:
    lines = re.split(rb"(?<=\n)", content)
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


@pytest.mark.parametrize("damage", [cut, swapped])
@pytest.mark.parametrize("name", ALL)
def test_a_damaged_log_is_refused_or_has_a_note_or_gives_the_same(
    tmp_path: Path, name: str, damage: Callable[[bytes, random.Random], bytes]
) -> None:
    content = ALL[name]()
    whole = runs_of(tmp_path / "log", content)
    draw = random.Random(61)  # noqa: S311 - for damage, not for secrets
    for _ in range(25):
        broken = damage(content, draw)
        try:
            runs = runs_of(tmp_path / "log", broken)
        except InputError:
            continue
        told = {note for run in runs for note in run.notes} - {note for run in whole for note in run.notes}
        assert told or said(runs) == said(whole), broken.decode(errors="replace")
