# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reports know what a study varies: axes, colours and panels, for any number of groups; figures that a user chooses."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from conftest import Perigee
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.groups.factors import Level, factor
from perigee.groups.looks import Look
from perigee.groups.settings import Choice
from perigee.places import find_study
from perigee.report.answers import answers
from perigee.report.assemble import assemble
from perigee.report.charts.cumulative import Curve, draw
from perigee.report.charts.ends import ends_of
from perigee.report.charts.grid import grid
from perigee.report.charts.scales import lay_out
from perigee.report.choice import FIGURES, plots_of
from perigee.report.context import Context
from perigee.report.model import Plot, Report
from perigee.report.paper import numbers
from perigee.report.style import COLUMN_IN, WIDTH_IN, figure, styled
from perigee.report.writer import write_report
from perigee.statistics.expressions import parse
from perigee.statistics.metrics import metric, with_metric
from perigee.store.results import Results
from study_text import flow, link

STUDY = (
    """
name = "swept"
rounds = 2
nodes = ["a", "b"]
"""
    + link("l", "a b", rate="2 Mbit/s", delay="10 ms", queue="20 kB")
    + flow("f", "a b", duration="1500 ms")
    + '[vary]\n"flow.cc" = ["cubic", "reno"]\n'
)


def swept(folder: Path, *varied: str, report: str = "") -> Results:
    """Results of a study that varies the algorithm and these lines."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "study.toml"
    path.write_text(STUDY + "\n".join(varied))
    path.with_name("report.toml").write_text(report)
    carry_out(Job(find_study(str(path)), Simulator, out=folder / "results", workers=1))
    return Results(folder / "results")


@pytest.fixture(scope="module")
def two_numbers(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two numbers and the algorithm: 16 groups."""
    return swept(
        tmp_path_factory.mktemp("two"),
        '"links.l.loss" = ["0 %", "0.1 %", "1 %", "5 %"]',
        '"links.l.delay" = ["20 ms", "0.01 s"]',
    )


@pytest.fixture(scope="module")
def report(two_numbers: Results) -> Report:
    with styled():
        return assemble(two_numbers)


def plot(made: Report | list[Plot], name: str) -> Plot:
    found = made.plots() if isinstance(made, Report) else made
    return next(one for one in found if one.name == name)


def colours(figure: Figure) -> dict[str, str]:
    """The colour of each entry of a figure's legends, and of each name at the end of a line."""
    return {text.get_text(): to_hex(line.get_color()) for line, text in ends_of(figure)} | {
        text.get_text(): to_hex(handle.get_color())
        for legend in figure.legends
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
        if isinstance(handle, Line2D)
    }


def test_a_report_of_many_groups_has_every_figure(report: Report, two_numbers: Results) -> None:
    assert len(Context(two_numbers).groups) == 16
    names = {one.name for one in report.plots()}
    assert {"lines", "tradeoff", "rtt-distribution", "queue"} <= names
    assert "Shown are" not in plot(report, "tradeoff").caption
    assert "Shown are 4 of 8 combinations of what varies (not loss " in plot(report, "queue").caption


def test_of_more_groups_than_a_reader_tells_apart_eight_have_a_name(tmp_path: Path) -> None:
    variants = ", ".join(f'{{ name = "cubic", beta = "{share} %" }}' for share in range(50, 94, 4))
    study = STUDY.replace('["cubic", "reno"]', f"[{variants}]").replace("rounds = 2", "")
    (tmp_path / "study.toml").write_text(study + '"links.l.loss" = ["0 %", "2 %"]\n')
    carry_out(Job(find_study(str(tmp_path / "study.toml")), Simulator, out=tmp_path / "results", workers=1))
    context = Context(Results(tmp_path / "results"))
    for kind in ("scatter", "boxes", "cdf", "rtt", "lines", "bars"):
        with styled():
            made = plots_of(context, Choice(kind))[0]
        names = [text.get_text() for legend in made.figure.legends for text in legend.get_texts()]
        names += [text.get_text() for _, text in ends_of(made.figure)]
        told = re.search(r"Grey: (.*?)\.", made.caption)
        assert told, (kind, made.caption)
        assert len(set(names)) == 8, (kind, names)
        assert set(told[1].split("; ")).isdisjoint(names), kind
        assert len(told[1].split("; ")) == 3, kind
        looks = [
            (to_hex(one.get_color()), one.get_marker(), repr(vars(one)["_unscaled_dash_pattern"]))
            for legend in made.figure.legends
            for one in legend.get_lines()
        ]
        assert len(set(looks)) == len(looks), kind


def test_the_number_that_varies_most_is_the_axis_and_the_other_the_panels(report: Report) -> None:
    lines = plot(report, "lines")
    panels = lines.figure.axes
    assert panels[0].get_xscale() == "symlog"
    assert [axes.get_title(loc="left") for axes in panels[:2]] == ["delay 0.01 s", "delay 20 ms"]
    assert {axes.get_xlabel() for axes in panels if axes.get_xlabel()} == {"Loss of l (%)"}
    drawn = [line for line in panels[0].lines if line.get_label() == "Cubic"]
    assert list(np.asarray(drawn[0].get_xdata())) == [0, 0.1, 1, 5]


def test_lines_are_the_means_of_the_flows_with_their_intervals(report: Report, two_numbers: Results) -> None:
    data = plot(report, "lines").data
    assert data is not None
    row = data.row(
        by_predicate=(pl.col("quantity") == "goodput_mbps") & (pl.col("cc") == "Reno")
        & (pl.col("point.loss") == "5 %") & (pl.col("point.delay") == "20 ms"), named=True,
    )  # fmt: skip
    flows = two_numbers.table("flows").filter(pl.col("cc") == "reno")
    point = {"links.l.loss": "5 %", "links.l.delay": "20 ms", "flow.cc": "reno"}
    own = flows.filter(pl.Series([json.loads(text) == point for text in flows["point"]]))
    assert own.height == row["flows"] == 2
    assert row["mean"] == pytest.approx(own["goodput_mbps"].to_numpy().mean())
    assert row["half_width_95"] == pytest.approx(
        12.7062 * own["goodput_mbps"].to_numpy().std(ddof=1) / 2**0.5, rel=1e-3
    )
    assert row["point.loss_number"] == 5.0


def test_an_algorithm_has_one_colour_in_every_figure(report: Report) -> None:
    seen: dict[str, set[str]] = {}
    for one in report.plots():
        for name, colour in colours(one.figure).items():
            seen.setdefault(name, set()).add(colour)
    assert {"Cubic", "Reno"} <= seen.keys()
    assert all(len(colour) == 1 for colour in seen.values()), seen


def test_two_numbers_are_lines_or_a_map_whose_cells_are_the_means(report: Report, two_numbers: Results) -> None:
    assert not [one.name for one in report.plots() if one.name.startswith("map-")]
    with styled():
        (found,) = plots_of(Context(two_numbers), Choice("heatmap"))
    assert found.data is not None
    meshes = [mesh for axes in found.figure.axes for mesh in axes.collections if isinstance(mesh, QuadMesh)]
    maps = [mesh.get_array() for mesh in meshes if mesh.get_array() is not None and mesh.get_array().size == 8]  # type: ignore[union-attr]
    assert len(maps) == 2
    drawn = sorted(float(value) for cells in maps for value in np.asarray(cells).ravel())
    assert drawn == pytest.approx(sorted(found.data["mean"].to_list()))


def test_no_panel_is_empty_and_no_legend_or_label_is_cut(report: Report) -> None:
    for one in report.plots():
        for width in (WIDTH_IN, COLUMN_IN) if one.name in ("lines", "tradeoff", "throughput-boxes") else (WIDTH_IN,):
            with styled():
                drawing = one.figure if width == WIDTH_IN or one.draw is None else one.draw(width)
            layout = drawing.get_layout_engine()
            assert layout is not None, one.name
            layout.execute(drawing)
            for axes in drawing.axes:
                assert axes.has_data() or axes.patches, one.name
            for legend in drawing.legends:
                box = legend.get_window_extent()
                assert box.x0 >= -1, one.name
                assert box.x1 <= drawing.bbox.width + 1, one.name


@pytest.mark.parametrize(("width_in", "is_shared"), [(WIDTH_IN, True), (WIDTH_IN, False), (COLUMN_IN, True)])
def test_titles_of_panels_do_not_touch_and_keep_numbers_with_their_units(width_in: float, *, is_shared: bool) -> None:
    titles = [f"satellite down loss {loss} %, initial window 40" for loss in ("1", "0.1", "0.01")]
    with styled():
        drawing = grid(width_in, 1, titles, {(0, column) for column in range(3)}, share_y=is_shared)
        for axes in drawing.panels.values():
            axes.plot([0, 1])
        drawing.figure.canvas.draw()
        shown = [axes.title if axes.title.get_text() else axes._left_title for axes in drawing.panels.values()]  # type: ignore[attr-defined]
        boxes = sorted((title.get_window_extent() for title in shown), key=lambda box: (-box.y0, box.x0))
        edge = drawing.figure.bbox.x1
    assert all(one.x1 < other.x0 or other.y1 < one.y0 for one, other in pairwise(boxes))
    assert all(box.x1 <= edge for box in boxes)
    if width_in == WIDTH_IN and is_shared:
        assert all(f"{loss} %,\n" in title.get_text() for loss, title in zip(("1", "0.1", "0.01"), shown, strict=True))


def test_three_numbers_are_small_multiples(tmp_path: Path) -> None:
    results = swept(
        tmp_path,
        '"links.l.loss" = ["0.1 %", "1 %", "5 %"]',
        '"links.l.delay" = ["10 ms", "20 ms"]',
        '"links.l.rate" = ["1 Mbit/s", "2 Mbit/s"]',
        report="sections = ['sweep']\nsummary = ['goodput_mbps']\n",
    )
    with styled():
        made = assemble(results)
    (lines,) = made.plots()
    assert len(lines.figure.axes) == 4
    assert lines.data is not None
    assert lines.data.height == 2 * 3 * 2 * 2


def test_values_of_a_setting_are_not_compared_as_rivals(tmp_path: Path) -> None:
    varied = '"links.l.delay" = ["20 ms", "10 ms"]\n"links.l.loss" = ["1 %", "0 %", "5 %"]'
    study = STUDY.replace('"flow.cc" = ["cubic", "reno"]', varied)
    path = tmp_path / "study.toml"
    path.write_text(study)
    carry_out(Job(find_study(str(path)), Simulator, settings=("rounds=4",), out=tmp_path / "out", workers=1))
    results = Results(tmp_path / "out")
    said = answers(Context(results)).lines
    means = {
        (delay, loss): float(part["goodput_mbps"].mean())  # type: ignore[arg-type]
        for (delay, loss), part in results.points.join(results.table("flows")).group_by("point.delay", "point.loss")
    }
    changes = sorted(100 * (means[20, loss] / means[10, loss] - 1) for loss in (0, 1, 5))
    ends = " to ".join(f"{end:+.0f}".replace("-", "−") for end in (changes[0], changes[-1]))
    assert said[0] == f"Throughput against delay 10 ms in 3 settings: delay 20 ms {ends} %."
    assert not any(word in " ".join(said) for word in ("highest", "lowest", "Highest", "Lowest", "best"))
    with styled():
        legends = {text.get_text() for plot in assemble(results).plots() for text in _legend_texts(plot.figure)}
    assert {"10 ms", "20 ms"}.isdisjoint(legends)
    assert legends & {"delay 10 ms", "delay 20 ms"}


def _legend_texts(figure: Figure) -> list[Text]:
    return [text for legend in figure.legends for text in legend.get_texts()]


def test_labels_of_uneven_numbers_do_not_touch() -> None:
    numbers = (10.0, 11.0, 12.0, 40.0, 60.0)
    rate = factor("point.rate", "links.l.rate", [Level(f"{one:g} Mbit/s", one) for one in numbers], "Mbit/s")
    with styled():
        drawing = figure(2.0, 3.0)
        axes = drawing.subplots()
        axes.plot(numbers, numbers)
        lay_out(axes, rate, 2.5)
        drawing.canvas.draw()
        labels = [label for label in axes.get_xticklabels() if label.get_text()]
        boxes = [label.get_window_extent() for label in labels]
    assert [label.get_text() for label in labels] == ["10", "40", "60"]
    assert axes.get_xscale() == "linear"
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))


def test_keys_that_vary_together_are_one_axis(tmp_path: Path) -> None:
    linked = [{"links.l.rate": f"{n} Mbit/s", "links.l.queue": f"{10 * n} kB"} for n in (1, 2, 4)]
    inline = ", ".join("{ " + ", ".join(f'"{k}" = "{v}"' for k, v in one.items()) + " }" for one in linked)
    context = Context(swept(tmp_path, f"linked = [{inline}]"))
    assert [one.name for one in context.factors(context.groups)] == ["cc", "point.rate"]


def test_requests_beside_a_download_come_first_and_by_what_varies(tmp_path: Path) -> None:
    web = """
    [[flows]]
    name = "web"
    kind = "request"
    from = "a"
    to = "b"
    request = "500 B"
    response = "10 kB"
    think = "100 ms"
    repeat = 2
    """
    study = STUDY.replace("[vary]", web + "\n[vary]").replace('"flow.cc"', '"flows.f.cc"').replace("    ", "")
    path = tmp_path / "study.toml"
    path.write_text(study + '"links.l.queue" = ["5 kB", "20 kB"]\n')
    carry_out(Job(find_study(str(path)), Simulator, out=tmp_path / "results", workers=1))
    with styled():
        made = assemble(Results(tmp_path / "results"))
    assert made.sections[0].name == "exchanges"
    (first,) = made.short.plots
    assert first.name == "lines-exchange-ms"
    assert set(colours(first.figure)) == {"Cubic", "Reno"}
    exchanges = next(one for one in made.tables() if one.name == "exchanges")
    assert exchanges.head[:2] == ["Algorithm of f", "Queue"]
    assert [[cell.text for cell in row[:2]] for row in exchanges.rows] == [
        ["Cubic", "5 kB"], ["Cubic", "20 kB"], ["Reno", "5 kB"], ["Reno", "20 kB"],
    ]  # fmt: skip
    assert exchanges.head[-3:] == ["least", "most", "mdev"]
    least, mean, most, mdev = (exchanges.data[name] for name in ("least_ms", "mean_ms", "most_ms", "mdev_ms"))
    assert ((least <= mean) & (mean <= most) & (mdev <= (most - least) / 2)).all()


@pytest.mark.parametrize("kind", FIGURES)
def test_every_kind_of_figure_can_be_chosen(two_numbers: Results, kind: str) -> None:
    with styled():
        made = plots_of(Context(two_numbers), Choice(kind, ("goodput_mbps / rtt_mean_ms",)))
        for one in made:
            one.figure.draw_without_rendering()
            assert one.data is not None
            assert not one.data.is_empty()


def test_a_choice_sets_axis_colours_and_panels(two_numbers: Results) -> None:
    with styled():
        context = Context(two_numbers)
        (made,) = plots_of(context, Choice("lines", ("rtt_mean_ms",), ("delay",), "loss", ("cc",)))
    assert [axes.get_title(loc="left") for axes in made.figure.axes] == ["Cubic", "Reno"]
    assert set(colours(made.figure)) == {"loss 0 %", "loss 0.1 %", "loss 1 %", "loss 5 %"}
    assert made.figure.axes[0].get_xlabel() == "Delay of l (ms)"
    assert made.figure.axes[0].get_ylabel().endswith("← lower is better")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice("line"), r"--figure line: there is no such figure; did you mean lines\? There are lines, heatmap"),
        (Choice("lines", x=("los",)), r"--x los: does not vary in these results; did you mean loss\? There vary"),
        (Choice("lines", hue="rate"), r"--hue rate: does not vary in these results; "),
        (Choice("boxes", ("goodputmbps",)), r"`goodputmbps` is no metric; did you mean `goodput_mbps`\?"),
        (Choice("boxes", ("goodput_mbps /",)), "something is missing at the end"),
        (Choice("boxes", ("exchange_ms",)), "no flow of these results has a value of it"),
    ],
)
def test_a_wrong_choice_is_an_error_that_lists_the_right_ones(
    two_numbers: Results, choice: Choice, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        plots_of(Context(two_numbers), choice)


def test_chosen_figures_are_written_in_both_widths_with_their_numbers(two_numbers: Results, tmp_path: Path) -> None:
    choice = [Choice("lines", ("goodput_mbps",))]
    write_report(two_numbers.path, tmp_path / "f.html", ["html", "pdf", "png", "csv"], choice)
    names = {path.name for path in (tmp_path / "f-files").iterdir()}
    stem = "lines-goodput-mbps"
    assert names == {f"{stem}.pdf", f"{stem}-column.pdf", f"{stem}.png", f"{stem}-curves.csv"}
    assert (tmp_path / "f.html").read_text().count("<figure") == 1


def test_the_command_draws_a_chosen_figure(two_numbers: Results, tmp_path: Path, perigee: Perigee) -> None:
    arguments: list[Any] = ["report", two_numbers.path, "--out", tmp_path / "x.html", "--format", "csv"]
    done = perigee(*arguments, "--figure", "lines", "--metric", "goodput_mbps", "--x", "loss", "--facet", "delay")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x-files" / "lines-goodput-mbps-curves.csv").exists()
    wrong = perigee(*arguments, "--metric", "goodput_mbps")
    assert wrong.returncode == 2
    assert "choose it with --figure" in wrong.stderr


def test_figures_of_report_toml_are_drawn_and_checked(two_numbers: Results, tmp_path: Path) -> None:
    settings = "sections = ['figures']\n[[figure]]\nfigure = 'cdf'\nmetric = ['Load (B) = bytes']\n"
    results = swept(tmp_path, '"links.l.loss" = ["0 %", "5 %"]', report=settings)
    with styled():
        (made,) = assemble(results).plots()
    assert made.figure.axes[0].get_xlabel() == "Load (B)"
    (results.path / "study" / "report.toml").write_text("[[figure]]\nfigure = 'lines'\nfacets = ['loss']\n")
    with pytest.raises(InputError, match=r"report.toml:3: unknown key `facets`; did you mean `facet`\?"):
        Context(results)


def test_a_figure_of_report_toml_over_what_is_pinned_is_left_out_with_a_note(tmp_path: Path, perigee: Perigee) -> None:
    settings = "sections = ['figures', 'summary']\n"
    settings += "".join(
        f"[[figure]]\nfigure = 'lines'\n{key}\n" for key in ("x = ['rate']", "metric = ['exchange_ms']")
    )
    results = swept(tmp_path, '"links.l.loss" = ["0 %", "5 %"]', report=f"{settings}[[figure]]\nfigure = 'cdf'\n")
    with styled():
        report = assemble(results)
    assert len(list(report.plots())) == 1
    rate, exchange = report.asides
    assert rate.startswith("the figure lines of report.toml is left out: x rate: does not vary in these results; ")
    assert exchange.startswith("the figure lines of report.toml is left out: metric exchange_ms: no flow ")
    done = perigee("report", results.path)
    assert "note: the figure lines of report.toml is left out: x rate" in done.stderr.replace("\n", " ")
    assert "left out" not in (results.path / "report.html").read_text()
    asked = perigee("report", results.path, "--figure", "lines", "--x", "rate", "--format", "csv")
    assert (asked.returncode, "--x rate: does not vary" in asked.stderr) == (2, True), asked.stderr


def test_every_curve_has_its_numbers(report: Report) -> None:
    names = [name for name, _ in numbers(report)]
    assert len(names) == len(set(names))
    assert {"rtt-distribution-curves", "queue-curves", "lines-curves", "tradeoff-curves"} <= set(names)
    without = {one.name for one in report.plots() if one.data is None}
    assert without == set(), without


def test_arithmetic_is_that_of_the_columns(two_numbers: Results) -> None:
    flows = two_numbers.table("flows")
    text = "min(goodput_mbps, 1) * (rtt_mean_ms - rtt_min_ms) / -2 + sqrt(abs(bytes))"
    seen = with_metric(flows, metric(text, flows.columns).name, two_numbers)[metric(text, flows.columns).name]
    columns = {name: flows[name].cast(pl.Float64).to_numpy() for name in ("goodput_mbps", "rtt_mean_ms", "bytes")}
    queueing = columns["rtt_mean_ms"] - flows["rtt_min_ms"].to_numpy()
    expected = np.minimum(columns["goodput_mbps"], 1) * queueing / -2 + np.sqrt(columns["bytes"])
    assert seen.to_numpy() == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "a.b(1)", "1 +", "a b", "(a", "a)", "f(a)", "min(a)", "a ** b", "a[0]", "", "1 + 2", 60 * "("],
)
def test_text_that_is_no_arithmetic_is_an_error(text: str) -> None:
    with pytest.raises(InputError):
        parse(text)


def test_combinations_that_a_study_leaves_out_have_no_figure(tmp_path: Path) -> None:
    study = STUDY.partition("[vary]")[0] + '[[flows]]\nname = "g"\nfrom = "a"\nto = "b"\nduration = "1 s"\n'
    pairs = (("cubic", "cubic"), ("bbr", "bbr"), ("cubic", "bbr"), ("hybla", "cubic"), ("hybla", "bbr"))
    linked = ", ".join(f'{{ "flows.f.cc" = "{one}", "flows.g.cc" = "{other}" }}' for one, other in pairs)
    varied = f'cc = "reno"\ncount = 2\nstagger = "2 s"\n[vary]\nlinked = [{linked}]\n'
    study = study.replace('duration = "1500 ms"\n', 'duration = "1 s"\ncount = 2\nstagger = "2 s"\n')
    (tmp_path / "study.toml").write_text(study + varied)
    (tmp_path / "report.toml").write_text("sections = ['sweep']\n")
    out = tmp_path / "results"
    carry_out(Job(find_study(str(tmp_path)), Simulator, out=out))
    with styled():
        made = assemble(Results(out))
    # No flow is beside its own algorithm, and not every pair of algorithms is in the study.
    assert "sweep" not in [section.name for section in made.sections]


def test_a_link_is_not_measured_by_flows_shorter_than_its_interval(tmp_path: Path) -> None:
    path = tmp_path / "short.toml"
    short = STUDY.replace('duration = "1500 ms"', 'size = "20 kB"')
    path.write_text(short + '"links.l.rate" = ["1 Mbit/s", "2 Mbit/s"]\n')
    carry_out(Job(find_study(str(path)), Simulator, out=tmp_path / "results"))
    with styled():
        names = [one.name for one in assemble(Results(tmp_path / "results")).plots()]
    assert [name for name in names if "link_utilisation" in name] == []
    assert "lines" in names


def test_curves_go_on_to_the_end_of_the_axes_and_one_of_zeros_is_not_their_edge() -> None:
    def drawn(*values: float) -> Axes:
        axes = Figure().add_subplot()
        curve = Curve(
            "a", Look("tab:blue", "-", "o", ""), np.array(values), np.arange(1, len(values) + 1) / len(values)
        )
        draw(axes, [curve], 1.0, begins_at_zero=True)
        return axes

    for axes, most in ((drawn(0.0, 0.0), 0.0), (drawn(0.0, 3.0), 3.0)):
        (left, right), (x, y) = axes.get_xlim(), np.asarray(axes.lines[0].get_data())
        assert left < -0.01 * right
        assert right > most
        assert x[-1] == pytest.approx(right)
        assert y[-1] == 1.0
