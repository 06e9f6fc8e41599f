# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Time-sequence graphs of captures and of studies with a log of TCP, and small connections of captures."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.places import find_study
from perigee.report.assemble import assemble
from perigee.report.context import Context
from perigee.report.html import render
from perigee.report.model import Plot, Report, Table
from perigee.report.sections import time_sequence
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "sequence"
nodes = ["a", "b"]
[measure]
pcap = ["a"]
events = true
series = "500 ms"
"""
    + link("link", "a b", rate="10 Mbit/s", delay="50 ms", loss="0.5 %")
    + flow("download", "a b", size="3 MB")
    + flow("control", "a b", size="2 kB")
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a simulated run with a large flow, a small one, a log of TCP, and the sender's capture."""
    from perigee.engines.sim.engine import Simulator

    folder = tmp_path_factory.mktemp("sequence")
    (folder / "study.toml").write_text(STUDY)
    carry_out(Job(find_study(str(folder / "study.toml")), Simulator, out=folder / "results"))
    return folder / "results"


@pytest.fixture(scope="module")
def analysis(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of an analysis of that capture."""
    from perigee.analysis.recordings import analyze, keep

    out = tmp_path_factory.mktemp("analysis") / "kept"
    files = [study / "captures" / "run-000000-a.pcapng"]
    found = analyze(files)
    assert found is not None
    keep(found, files, out)
    return out


def sequences_of(results: Path) -> dict[str, pl.DataFrame]:
    return {one.flow: one.rows for one in time_sequence.sequences(Context(Results(results)))}


def test_the_capture_of_a_sender_has_the_time_sequence_of_its_own_log(study: Path, analysis: Path) -> None:
    (captured,) = sequences_of(analysis).values()
    logged = sequences_of(study)["download"]
    for event in ("sent", "retransmitted", "ack"):
        own, other = (rows.filter(pl.col("event") == event) for rows in (captured, logged))
        assert own["sequence"].to_list() == other["sequence"].to_list(), event
        assert own["segment_bytes"].to_list() == other["segment_bytes"].to_list(), event
        assert (own["t_s"] - other["t_s"]).abs().max() < 0.001, event  # type: ignore[operator]
    assert captured.filter(pl.col("event") == "retransmitted").height > 3
    blocks = captured.filter(pl.col("event") == "sack")
    assert blocks.height > 3
    assert blocks["segment_bytes"].min() > 0  # type: ignore[operator]


def test_a_report_draws_each_sequence_with_its_curves_in_numbers(study: Path, analysis: Path) -> None:
    for results, flows in ((study, 2), (analysis, 1)):
        section = time_sequence.section(Context(Results(results)))
        assert section is not None
        plots = [block for block in section.blocks if isinstance(block, Plot)]
        assert len(plots) == flows
        for plot in plots:
            assert plot.data is not None
            assert {"t_s", "event", "sequence", "segment_bytes"} <= set(plot.data.columns)
            assert "retransmitted" in plot.alt
            whole, close = plot.figure.axes
            start, end = close.get_xlim()
            again = plot.data.filter(pl.col("event") == "retransmitted")["t_s"]
            assert not len(again) or start <= again[0] <= end
            assert whole.get_ylim()[0] == 0
    assert any(section.name == "time_sequence" for section in assemble(Results(analysis)).sections)


def test_a_study_without_a_log_has_no_graph(tmp_path: Path) -> None:
    from perigee.engines.sim.engine import Simulator

    (tmp_path / "study.toml").write_text(STUDY.replace("events = true", "").replace('pcap = ["a"]', ""))
    carry_out(Job(find_study(str(tmp_path / "study.toml")), Simulator, out=tmp_path / "results"))
    assert time_sequence.section(Context(Results(tmp_path / "results"))) is None


def test_small_connections_are_one_row_and_have_a_table_of_their_own(analysis: Path) -> None:
    report = assemble(Results(analysis))
    tables = {table.name: table for table in report.tables()}
    rows = tables["connections"].rows
    assert [row[0].text for row in rows][1:] == ["and 1 small connection"]
    assert tables["small-connections"].folded
    assert len(tables["small-connections"].rows) == 1
    drawn = [block for section in report.sections for block in section.blocks if isinstance(block, Table)]
    small = tables["small-connections"].rows[0][0].text
    others = [table for table in drawn if table.name != "small-connections"]
    assert not any(small in cell.text for table in others for row in table.rows for cell in row[:1])


def test_the_command_folds_small_connections_and_chooses_sequences(
    study: Path, tmp_path: Path, perigee: Perigee
) -> None:
    capture = study / "captures" / "run-000000-a.pcapng"
    done = perigee("analyze", capture, "--time-sequences", "0", "--out", tmp_path / "none")
    assert done.returncode == 0, done.stderr
    assert "and 1 small connection" in done.stdout
    assert not Results(tmp_path / "none").has("segments")
    done = perigee("analyze", capture, "--time-sequences", "2", "--out", tmp_path / "two")
    assert done.returncode == 0, done.stderr
    assert Results(tmp_path / "two").table("segments")["flow"].n_unique() == 2


def test_the_pages_script_is_given_every_segment_and_groups_them_away_from_the_close_view(study: Path) -> None:
    section = time_sequence.section(Context(Results(study)))
    assert section is not None
    (plot, *_) = [block for block in section.blocks if isinstance(block, Plot)]
    assert plot.data is not None
    given = json.loads(plot.sequence)
    kinds = {kind["name"]: kind["marks"] for kind in given["kinds"]}
    for name, event in (("Sent", "sent"), ("Retransmitted", "retransmitted"), ("Acknowledged", "ack")):
        rows = plot.data.filter(pl.col("event") == event)
        assert sum(mark[4] for mark in kinds[name]) == rows.height
        t, low = (list(accumulate(mark[column] for mark in kinds[name])) for column in (0, 2))
        alone = [(at, byte) for at, byte, mark in zip(t, low, kinds[name], strict=True) if mark[4] == 1]
        assert len(alone) > 3
        times: dict[int, list[float]] = {}
        for at, byte in rows.select("t_s", "sequence").iter_rows():
            times.setdefault(byte, []).append(at)
        assert all(min(abs(at - 1e5 * known) for known in times[byte]) <= 0.51 for at, byte in alone)
    page = render(Report("", "", [], [section]))
    assert page.count("data-sequence=") == 2


def test_a_flow_that_proxies_split_has_a_sequence_per_leg_from_one_time_zero(tmp_path: Path) -> None:
    from perigee.engines.sim.engine import Simulator

    text = STUDY[: STUDY.index("[[flows]]")].replace('["a", "b"]\n[measure]', '["a", "b", "c"]\n[measure]')
    text += """
[[links]]
name = "wire"
between = ["b", "c"]
rate = "10 Mbit/s"
delay = "10 ms"
[[flows]]
name = "download"
from = "a"
to = "c"
size = "1 MB"
[[proxies]]
name = "pep"
node = "b"
flows = ["download"]
[proxies.sides.link]
cc = "cubic"
[proxies.sides.wire]
cc = "cubic"
"""
    (tmp_path / "study.toml").write_text(text)
    carry_out(Job(find_study(str(tmp_path / "study.toml")), Simulator, out=tmp_path / "results"))
    context = Context(Results(tmp_path / "results"))
    first, second = time_sequence.sequences(context)
    assert (first.leg, second.leg) == (1, 2)
    assert first.label.endswith("leg 1")
    for one in (first, second):
        ends = one.rows.filter(pl.col("event") == "sent").select(pl.col("sequence") + pl.col("segment_bytes"))
        assert ends.to_series().max() == 1_000_000
    assert min(one.rows["t_s"][0] for one in (first, second)) == 0.0
    began = [one.rows.filter(pl.col("event") == "sent")["t_s"][0] for one in (first, second)]
    assert began[0] + 0.05 <= began[1], "the second leg carries what has come over 50 ms of the first"
    assert second.rtt_s < first.rtt_s
    section = time_sequence.section(context)
    assert section is not None
    assert len({block.name for block in section.blocks if isinstance(block, Plot)}) == 2
