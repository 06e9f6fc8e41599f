# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The study wu-2008 at its reduced size, and its report: figures of named flows, and the link over what varies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex

from conftest import ROOT, Perigee, environment, tool
from forked import MODULE, Forked
from perigee.errors import InputError
from perigee.groups.settings import Choice
from perigee.report.choice import plots_of
from perigee.report.context import Context
from perigee.report.model import Plot
from perigee.report.sections import link_sweep, schedule
from perigee.report.style import styled
from perigee.statistics.metrics import metric, with_metric
from perigee.store.results import Results

VARIED = ("--vary", "algorithm=Cubic,Reno", "--vary", "links.satellite.down.queue.packets=33,667")


@pytest.fixture(scope="module")
def ran(forked: Forked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wu")
    out = folder / "out"
    study = str(ROOT / "studies" / "wu-2008")
    command = (MODULE, "run", study, "--reduced", "--experiment", "base", *VARIED, "--out", str(out))
    done = forked.run(list(command), folder, environment(), timeout=300)
    assert done.returncode == 0, done.stderr
    return out


def test_every_run_has_every_flow_of_the_study(ran: Path) -> None:
    flows = Results(ran).table("flows")
    names = ["web", "web-back", "probe", "voice", "ftp", "hftp", *(f"fast-{one}" for one in (1, 2, 3, 4))]
    assert flows["flow"].to_list() == names * 4
    assert (flows["outcome"] == "completed").all()
    # The initial timeout of 2008, 3 s, is longer than the round trip: no SYN of a probe is retransmitted spuriously.
    probes = flows.filter(pl.col("flow") == "probe")
    assert (probes["rto_count"] < 0.5 * 280).all()


def test_the_report_shows_every_measure_of_the_study(ran: Path, perigee: Perigee) -> None:
    done = perigee("report", ran, "--format", "html,csv")
    assert done.returncode == 0, done.stderr
    files = ran / "report-files"
    shown = pl.concat([pl.read_csv(path) for path in files.glob("base-lines*.csv")], how="diagonal_relaxed")
    sizes = [f"response_{2**power}_b_ms" for power in range(10, 18)]
    voice = ["voice_delay_ms", "voice_jitter_ms", "voice_lost_percent"]
    link = ["link_utilisation_percent", "link_dropped_percent", "link_queue_mb"]
    # Some runs of this size complete none of the largest responses: a window of 20 segments takes 13 round trips.
    for name in [*sizes[:-1], *voice, *link, "steady_goodput_mbps"]:
        assert shown.filter(pl.col("quantity") == name).height >= 4, name
    assert shown.filter(pl.col("quantity") == sizes[-1]).height > 0
    of_ftp = shown.filter((pl.col("quantity") == "steady_goodput_mbps") & (pl.col("flow") == "ftp"))
    assert set(of_ftp["point.algorithm"].to_list()) == {"Cubic", "Reno"}


def test_flows_that_do_not_vary_are_coloured_by_the_algorithm_beside_them(ran: Path) -> None:
    with styled():
        context = Context(Results(ran))
        (made,) = plots_of(context, Choice("lines", ("steady_goodput_mbps",), flows=("hftp",)))
        axes = made.figure.axes[0]
        colours = {to_hex(line.get_color()) for line in axes.lines if np.size(line.get_xdata()) == 2}
    assert len(colours) == 2
    assert axes.get_xlabel() == "Queue packets of satellite, downlink"


COUNTED = """
name = "counted"
nodes = ["a", "b"]
links = [{ name = "l", between = ["a", "b"], rate = "1 Mbit/s", delay = "1 ms" }]
flows = [
  { name = "ftp", from = "a", to = "b", size = "1 kB" },
  { name = "fast", from = "a", to = "b", size = "1 kB", count = 3, start = "1 s", stagger = "2 s" },
]
"""


@pytest.fixture(scope="module")
def counted(forked: Forked, tmp_path_factory: pytest.TempPathFactory) -> Context:
    folder = tmp_path_factory.mktemp("counted")
    (folder / "counted.toml").write_text(COUNTED, encoding="utf-8")
    done = forked.run([MODULE, "run", "counted.toml", "--out", "out"], folder, environment(), timeout=60)
    assert done.returncode == 0, done.stderr
    return Context(Results(folder / "out"))


def test_a_name_stands_for_all_flows_of_a_count(counted: Context) -> None:
    names = {str(group.rows["flow"][0]) for group in counted.groups_named(["fast"])}
    assert names == {"fast.1", "fast.2", "fast.3"}
    assert {str(group.rows["flow"][0]) for group in counted.groups_named(["fast.2"])} == {"fast.2"}
    with pytest.raises(InputError, match=r"flows = fats: there is no such flow in these results; there are ftp, fast"):
        counted.groups_named(["fats"])


def test_the_schedule_has_when_each_flow_begins_and_ends(counted: Context) -> None:
    made = schedule.section(counted)
    assert made is not None
    (plot,) = made.blocks
    assert isinstance(plot, Plot) and plot.data is not None
    assert plot.data["flow"].to_list() == ["ftp", "fast.1", "fast.2", "fast.3"]
    assert plot.data["start_s"].to_list() == [0, 1, 3, 5]
    assert ((plot.data["end_s"] - plot.data["start_s"]) < 1).all()


def test_the_link_is_measured_in_the_steady_phase_of_a_flow(ran: Path) -> None:
    results = Results(ran)
    with styled():
        made = link_sweep.blocks(Context(results), "satellite.down")
    data = next(one.data for one in made if isinstance(one, Plot) and one.name == "lines")
    assert data is not None
    flow = results.table("flows").filter((pl.col("flow") == "ftp") & (pl.col("run") == 3)).row(0, named=True)
    until = flow["start_s"] + flow["duration_s"]
    links = results.table("links").filter(
        (pl.col("run") == 3) & (pl.col("link") == "satellite.down") & (pl.col("t_s") <= until)
        & (pl.col("t_s") > until - flow["steady_s"])
    )  # fmt: skip
    first = data.filter((pl.col("point.algorithm") == "Reno") & (pl.col("point.packets") == "667"))
    value = {row["quantity"]: row["mean"] for row in first.iter_rows(named=True)}
    of = {name: links[name].to_numpy().astype(float) for name in links.columns if links[name].dtype.is_numeric()}
    dropped = 100 * of["dropped_queue_full_packets"].sum() / of["offered_packets"].sum()
    assert value["link_dropped_percent"] == pytest.approx(dropped)
    assert value["link_queue_mb"] == pytest.approx(of["queue_bytes"].mean() / 1e6)
    # As the report says: arrivals less the growth of the queue, and less the drops as packets of the mean size.
    run = results.table("links").filter((pl.col("run") == 3) & (pl.col("link") == "satellite.down"))
    mean_bytes = float(run["offered_bytes"].sum()) / float(run["offered_packets"].sum())
    waited = float(run.filter(pl.col("t_s") <= until - flow["steady_s"])["queue_bytes"][-1])
    carried = of["offered_bytes"].sum() - mean_bytes * of["dropped_queue_full_packets"].sum()
    carried -= of["queue_bytes"][-1] - waited
    assert value["link_utilisation_percent"] == pytest.approx(100 * 8e-6 * carried / (8.0 * links.height), rel=0.02)


def test_lost_speech_is_a_share_of_the_packets_that_are_measured(ran: Path) -> None:
    results = Results(ran)
    flows = with_metric(results.table("flows").filter(pl.col("kind") == "voice"), "voice_lost_percent", results)
    voice = results.table("voice")
    wanted = (100 * voice["lost_packets"] / voice["sent_packets"]).to_list()
    assert flows["voice_lost_percent"].to_list() == pytest.approx(wanted)
    assert metric("voice_lost_percent").heading == "Speech that was lost on its way (%)"


def test_intervals_of_the_table_hold_the_mean_in_95_percent_of_correlated_runs() -> None:
    table = tool("wu_2008")
    draws = np.random.default_rng(1)
    for correlation in (0.0, 0.3, 0.6):
        noise = draws.normal(size=(2160, table.STRETCHES))
        runs = noise.copy()
        for stretch in range(1, table.STRETCHES):
            runs[:, stretch] = correlation * runs[:, stretch - 1] + np.sqrt(1 - correlation**2) * noise[:, stretch]
        found = table.correlation_of(runs)
        assert found == pytest.approx(correlation, abs=0.05)
        held = [abs(run.mean()) < table.half_interval(run, found) for run in runs]
        assert np.mean(held) == pytest.approx(0.95, abs=0.025), correlation


def test_the_factor_between_seeds_is_that_of_the_draws() -> None:
    table = tool("wu_2008")
    sigma = 0.4
    draws = np.exp(np.random.default_rng(1).normal(1.0, sigma, size=(2, 20_000)))
    one, other = ({(float(place), "reno"): value for place, value in enumerate(seed)} for seed in draws.tolist())
    assert table.factor_between_seeds(one, other) == pytest.approx(np.exp(1.96 * sigma), rel=0.02)
    # Cells that only one of them has do not count.
    other = {place: value for place, value in other.items() if place[0] < 10_000} | {(0.5, "bic"): 1e9}
    assert table.factor_between_seeds(one, other) == pytest.approx(np.exp(1.96 * sigma), rel=0.03)
