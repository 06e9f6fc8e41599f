# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files of the same minutes: their order, and pings apart by what was transferred beside them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conftest import Perigee
from perigee.analysis.ping_lines import time_of
from perigee.analysis.recordings import analyze, keep
from perigee.analysis.system_ping import read
from perigee.analysis.together import as_json, in_words
from perigee.report.assemble import assemble
from perigee.store.results import Results

LOGS = Path(__file__).parents[1] / "data/logs"
BEGAN_S = 1_700_000_000
"""When the transfer of `text-before.json` began; it lasts ten seconds."""


_LINE = "64 bytes from 192.0.2.1: icmp_seq={} ttl=9 time=2 ms\n"


def _pings(count: int, *, before_s: float, dates: str) -> str:
    """Pings each 0.5 s from before the transfer on: 40 ms, beside it 140 ms, and every tenth of these is lost."""
    lines = ["PING there (192.0.2.1) 56(84) bytes of data."]
    for place in range(count):
        sent_s = BEGAN_S - before_s + place / 2
        is_loaded = BEGAN_S <= sent_s <= BEGAN_S + 10
        if is_loaded and place % 10 == 0:
            continue
        rtt_ms = 140 if is_loaded else 40
        at_s = sent_s + rtt_ms / 1000
        stamp = {"-D": f"[{at_s:.6f}] ", "ts": f"{datetime.fromtimestamp(at_s, UTC).isoformat()} ", "": ""}[dates]
        lines.append(f"{stamp}64 bytes from 192.0.2.1: icmp_seq={place + 1} ttl=64 time={rtt_ms}.0 ms")
    return "\n".join(lines) + "\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "pings.txt").write_text(_pings(60, before_s=10.25, dates="-D"))
    (tmp_path / "transfer.json").write_bytes((LOGS / "text-before.json").read_bytes())
    (tmp_path / "alone.txt").write_text(_pings(60, before_s=10.25, dates=""))
    return [tmp_path / name for name in ("alone.txt", "transfer.json", "pings.txt")]


def test_pings_beside_a_transfer_are_told_from_those_before_it(files: list[Path]) -> None:
    found = analyze(files)
    assert found is not None
    time = as_json(found.placed)
    assert [one["file"] for one in time["order"]] == ["pings.txt", "transfer.json"]
    assert time["order"][0]["began_unix_s"] == pytest.approx(BEGAN_S - 10.25, abs=0.1)
    assert time["common"]["began_unix_s"] == BEGAN_S
    assert time["common"]["ended_unix_s"] == pytest.approx(BEGAN_S + 10, abs=1)
    assert time["without_time_of_day"] == ["alone.txt"]
    (pings,) = time["pings"]
    assert (pings["file"], pings["beside"]) == ("pings.txt", ["transfer.json"])
    # Pings twice a second for ten seconds, without the last second before the transfer.
    assert pings["idle"] == {"sent": 19, "lost": 0, "median_ms": 40.0, "p95_ms": 40.0}
    assert (pings["loaded"]["median_ms"], pings["loaded"]["lost"]) == (140.0, 1)
    assert pings["after"]["median_ms"] == 40.0
    said = " ".join(in_words(found.placed))
    assert "pings.txt, ping: idle: median 40.0 ms" in said
    assert "without a time of day, so beside none of the others: alone.txt" in said


def test_transfers_of_one_name_are_told_by_their_files(tmp_path: Path, files: list[Path], perigee: Perigee) -> None:
    (tmp_path / "again.json").write_bytes(files[1].read_bytes())
    said = " ".join(perigee("analyze", files[1], tmp_path / "again.json").stdout.split())
    assert all(f"stream.1 ({name}.json): What held it" in said for name in ("transfer", "again"))


def test_dates_of_ts_place_a_log_too(tmp_path: Path, files: list[Path]) -> None:
    (tmp_path / "ts.txt").write_text(_pings(60, before_s=10.25, dates="ts"))
    found = analyze([tmp_path / "ts.txt", files[1]])
    assert found is not None
    (pings,) = as_json(found.placed)["pings"]
    assert (pings["idle"]["median_ms"], pings["loaded"]["median_ms"]) == (40.0, 140.0)


def test_a_date_without_year_and_zone_is_this_hosts_last_one_before_the_file(tmp_path: Path) -> None:
    log = tmp_path / "x"
    log.write_text("")
    now = datetime.fromtimestamp(log.stat().st_mtime)
    assert time_of(f"{now:%b %d %H:%M:%S}".encode(), log) == (float(int(now.timestamp())), False)
    later = datetime(now.year, 12, 31, 23, 59, 58)
    if (later - now).days > 1:
        at = time_of(b"Dec 31 23:59:58", log)
        assert at is not None
        assert datetime.fromtimestamp(at[0]).year == now.year - 1
    assert time_of(b"2023-02-31 10:00:00", log) is None
    with_seconds = "".join(f"2023-11-14T22:{13 + n // 60}:{n % 60:02}Z {_LINE.format(2 * n + 1)}" for n in range(120))
    log.write_text(with_seconds)
    (found_log,) = read(log)
    assert found_log.pings is not None
    assert found_log.pings.interval_s == pytest.approx(0.5)
    assert next(iter(found_log.pings.entries()))[0] == 1_699_999_980
    log.write_text("".join(f"Feb 31 10:00:00 {_LINE.format(number)}" for number in (1, 2)))
    found = analyze([log])
    assert found is not None
    assert found.runs[0].began_s is None
    log.write_text(
        "".join(f"Feb 03 10:00:0{n} 64 bytes from 192.0.2.1: icmp_seq={n} ttl=9 time=2 ms\n" for n in (1, 2))
    )
    found = analyze([log])
    assert found is not None
    assert any("its dates have no time zone" in note for note in found.runs[0].notes)


def test_the_page_and_json_have_them(perigee: Perigee, tmp_path: Path, files: list[Path]) -> None:
    done = perigee("analyze", *files, "--json")
    printed = json.loads(done.stdout)
    assert [(one["name"], one["clock"]) for one in printed["files"]] == [
        ("alone.txt", "none"), ("transfer.json", "time of day"), ("pings.txt", "time of day"),
    ]  # fmt: skip
    assert printed["time"]["pings"][0]["loaded"]["median_ms"] == 140.0
    assert "common to these: 2023-11-14 22:13:20 to 22:13:3" in perigee("analyze", *files).stdout
    found = analyze(files)
    assert found is not None
    keep(found, files, tmp_path / "out")
    section = next(one for one in assemble(Results(tmp_path / "out")).sections if one.name == "together")
    assert [row[4].text for row in section.blocks[-1].rows] == ["40.0", "140.0", "40.0"]  # type: ignore[union-attr]
