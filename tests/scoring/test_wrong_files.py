# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Files and options that cannot be scored are refused with their place, and results of another study are said to be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Perigee
from perigee.engines.run.job import Job
from perigee.engines.run.runner import carry_out
from perigee.engines.sim.engine import Simulator
from perigee.errors import InputError
from perigee.places import find_study
from perigee.report.scored_study import scored_study
from perigee.report.writer import write_report
from perigee.scoring.study import as_frame
from study_text import flow, link

STUDY = (
    'name = "small"\nrounds = 2\nnodes = ["a", "b"]\n[measure]\nseries = "500 ms"\n'
    + link("first", "a b", rate="10 Mbit/s", delay="20 ms", queue="100 kB")
    + flow("download", "a b", cc="cubic", duration="2 s")
    + '[[experiments]]\nname = "loss"\n[experiments.vary]\n"flow.cc" = ["cubic", "hybla"]\n'
)
HEAD = 'source = "a book"\n[[table]]\nname = "t"\ncaption = "T"\nplace = "Table 1"\nform = "table"\n'
VALUE = '[[table.value]]\nmetric = "goodput_mbps"\ncell = { experiment = "loss" }\n'
ROWS = 'columns = ["cc", "value"]\nrows = [["cubic", 5.0]]\n'
CLAIM = (
    'source = "a book"\n[[claim]]\nclaim = "c"\nplace = "Section 2"\n[[claim.test]]\n'
    'metric = "goodput_mbps"\ncell = { experiment = "loss" }\n'
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with its results, what was registered of them, and a publication."""
    folder = tmp_path_factory.mktemp("wrong") / "small"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    carry_out(Job(find_study(str(folder)), Simulator, out=folder / "results", workers=1))
    write_report(folder / "results", folder / "report.html", ["csv"], register=folder / "registered.toml")
    (folder / "published.toml").write_text(HEAD + VALUE + ROWS)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the study, whose files a test may change."""
    made = tmp_path / "small"
    made.mkdir()
    for name in ("study.toml", "registered.toml", "published.toml"):
        (made / name).write_bytes((whole / name).read_bytes())
    (made / "results").symlink_to(whole / "results")
    return made


def test_results_of_another_study_are_said_to_be(folder: Path, tmp_path: Path, perigee: Perigee) -> None:
    assert scored_study(str(folder), folder / "results").warnings == ()
    study = folder / "study.toml"
    study.write_text(STUDY + "# a remark\n")
    assert scored_study(str(folder), folder / "results").warnings == ()

    study.write_text(STUDY.replace("20 ms", "30 ms"))
    done = perigee("score", folder, "--results", folder / "results", "--format", "text,json", "--out", tmp_path)
    assert done.returncode == 0
    assert "results are of another study.toml" in done.stderr
    (warning,) = json.loads((tmp_path / "small-score.json").read_text())["warnings"]
    assert "results are of another study.toml" in warning

    study.write_text(STUDY.replace("rounds = 2", "rounds = 3"))
    assert any(
        "of 2 rounds, and the study has 3" in one for one in scored_study(str(folder), folder / "results").warnings
    )


def test_results_with_settings_are_said_to_be(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "changed"
    carry_out(Job(find_study(str(folder)), Simulator, settings=("links.first.delay=5 ms",), out=out, workers=1))
    (warning,) = scored_study(str(folder), out).warnings
    assert "results are with links.first.delay=5 ms" in warning


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            'metric = "goodput_mbps"\ncell = { experiment = "loss", dely = "5 ms" }\n',
            "`dely` does not vary; factors are",
        ),
        ('table = "lins"\ncolumn = "y"\ncell = { experiment = "loss" }\n', "no table or figure of that name"),
        ('table = "links-main"\ncolumn = "y"\ncell = { experiment = "loss" }\n', "has no column `y`; it has "),
        (
            'link = "first.dwn"\ncolumn = "queue_bytes"\nat = { t_s = [0, 1] }\ncell = { experiment = "loss" }\n',
            "no link of that name; there are first.down, first.up",
        ),
    ],
)
def test_names_that_results_do_not_have_are_said(folder: Path, row: str, said: str) -> None:
    (folder / "published.toml").write_text(f'{HEAD}[[table.value]]\ntitle = "T"\n{row}{ROWS}')
    found = scored_study(str(folder), folder / "results")
    (warning,) = found.warnings
    assert said in warning
    assert [one["today_result"] for one in found.numbers()] == ["not predicted"]


def test_a_folder_without_results_leaves_what_was_registered(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "small").mkdir(parents=True)
    found = scored_study(str(folder))
    assert list(found.scores) == ["registered"]
    assert found.warnings == ("results/small: has no results, so that nothing of today is scored",)
    (folder / "registered.toml").unlink()
    with pytest.raises(InputError, match="no results there"):
        scored_study(str(folder))


@pytest.mark.parametrize(
    ("whole_text", "damaged", "said"),
    [
        ("[registered]\n", "[[registered]]\n", r"no table \[registered\]"),
        ("[registered]\n", "[registered]\n[other]\n", r"\[registered\] has no text `date`"),
        ('\ndate = "', '\nwhen = 2026-11-29\ndate = "', r"`when` of \[registered\] must be a text"),
        ('"cell", "mean"', '"mean"', r"row 1 of `cells` of \[\[quantity\]\] 1 must be a list of"),
        ('"flows", "perc', '"flown", "perc', "has no whole number `flows`"),
        ('"zero_percent", "factors"', '"zero_percent", "factor"', "has no table of texts `factors`"),
        (', "zero_percent"', ', "percentiles_1_2"', "`percentiles_1_2` of row 1 .* must be a list of 2"),
    ],
)
def test_a_damaged_registered_file_is_refused_with_its_place(
    folder: Path, whole_text: str, damaged: str, said: str
) -> None:
    path = folder / "registered.toml"
    assert whole_text in path.read_text()
    path.write_text(path.read_text().replace(whole_text, damaged))
    with pytest.raises(InputError, match=rf"registered\.toml: is no file of predictions \(.*{said}"):
        scored_study(str(folder), folder / "results")


def test_a_link_is_read_over_time_only(folder: Path) -> None:
    link_value = VALUE.replace('metric = "goodput_mbps"', 'link = "first.forward"\ncolumn = "sent_bytes"\ntitle = "x"')
    for at in ("{ time = 1 }", "{ run = 1 }"):
        (folder / "published.toml").write_text(f"{HEAD}{link_value}at = {at}\n{ROWS}")
        with pytest.raises(InputError, match=r"published\.toml:\d+: `at` of a `link` is along `t_s`"):
            scored_study(str(folder), folder / "results")


def test_a_file_is_no_folder_for_others(folder: Path, perigee: Perigee) -> None:
    for out in (folder / "study.toml", folder / "study.toml" / "scores"):
        done = perigee("score", folder, "--results", folder / "results", "--format", "csv", "--out", out)
        assert (done.returncode, "choose a folder with --out" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--simulated", "5"), "--simulated: is a model's"),
        (("--rounds", ""), "--rounds: is a model's"),
        (("--format", ""), "--format: names no format"),
    ],
)
def test_an_option_without_effect_is_refused(
    folder: Path, perigee: Perigee, options: tuple[str, str], said: str
) -> None:
    done = perigee("score", folder, "--results", folder / "results", *options)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


UNKNOWN_EXPERIMENT = "the study has no experiment `los`; the experiments are loss"
BOUND, RISES = 'test = "bound"\nleast = 1\n', 'test = "rises"\nvalues = ["cubic", "hybla"]\n'
NEVER, RANK = 'test = "never"\n', 'test = "rank"\nvalues = ["cubic", "hybla"]\nleast = 0.5\n'
ORDER = 'test = "order"\nhighest_first = [["hybla"], ["cubic"]]\n'


def rows(columns: str, row: str) -> str:
    """A publication with one row of numbers."""
    return f'{HEAD}{VALUE}columns = ["cc", "value", {columns}]\nrows = [["cubic", 5.0, {row}]]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (rows('"experiment"', '"los"'), UNKNOWN_EXPERIMENT),
        (CLAIM + BOUND + 'each = { experiment = ["loss", "los"] }\n', UNKNOWN_EXPERIMENT),
        (CLAIM + 'test = "rises"\nalong = "experiment"\nvalues = ["loss", "los"]\n', UNKNOWN_EXPERIMENT),
        (
            CLAIM + 'test = "order"\nalong = "experiment"\nhighest_first = [["loss"], ["los"]]\n',
            UNKNOWN_EXPERIMENT,
        ),
        (
            CLAIM + RANK + 'like = { metric = "goodput_mbps", cell = { experiment = "los" } }\n',
            UNKNOWN_EXPERIMENT,
        ),
        (CLAIM + RANK + 'like = { metric = "goodput_mbps", minus = { cc = "cubic" } }\n', "`like` takes no `minus`"),
        (HEAD + VALUE + "rounding = -1\n" + ROWS, "`rounding` must be 0 or more, not -1"),
        (rows('"rounding"', "-1"), "row 1 of `rows` has a `rounding` of -1"),
        (rows('"sd"', "-2"), "row 1 of `rows` has a `sd` of -2"),
        (rows('"low", "high"', "6, 4"), "row 1 of `rows` has a `low` above its `high`"),
        (rows('"n"', "2.5"), "row 1 of `rows` has an `n` of 2.5; it must be a whole number"),
        (rows('"n"', "0"), "row 1 of `rows` has an `n` of 0"),
        (CLAIM + RISES + "slack = -0.1\n", "`slack` must be 0 or more, not -0.1"),
        (CLAIM + ORDER + "factor = -2\n", "`factor` must be 0 or more, not -2"),
        (CLAIM + ORDER + "factor = 0\n", "`factor` must be more than 0"),
        (CLAIM + BOUND + "most = 0.5\n", "`least` is 1 and `most` 0.5"),
        (CLAIM + RISES.replace("hybla", "cubic"), "`values` has cubic twice; keep one"),
        (CLAIM + ORDER.replace("hybla", "cubic"), "`highest_first` has cubic twice; keep one"),
        (CLAIM + BOUND + "slack = 0.1\n", "the test `bound` takes no `slack`; take it out"),
        (CLAIM + BOUND + 'along = "loss"\n', "the test `bound` takes no `along`; take it out"),
        (CLAIM + NEVER + 'minus = { cc = "cubic" }\n', "the test `never` takes no `minus`; take it out"),
        (CLAIM + NEVER + 'statistic = "max"\n', "the test `never` takes no `statistic`; take it out"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(folder: Path, text: str, said: str) -> None:
    (folder / "published.toml").write_text(text)
    with pytest.raises(InputError) as error:
        scored_study(str(folder), folder / "results")
    assert said in str(error.value)
    assert str(error.value).startswith(f"{folder / 'published.toml'}:")


def test_a_table_without_rows_has_its_head(folder: Path) -> None:
    texts = HEAD + VALUE + ROWS, CLAIM + RISES
    frames = []
    for text in texts:
        (folder / "published.toml").write_text(text)
        frames.append(as_frame([scored_study(str(folder), folder / "results")], "1"))
    (numbers, no_claims), (no_numbers, claims) = frames
    assert no_claims.is_empty()
    assert (no_numbers.columns, no_claims.columns) == (numbers.columns, claims.columns)
