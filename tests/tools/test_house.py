# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The house around the code: the count that closes `make test`, and the guide that a newcomer types along with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import LONG_PAGES, ROOT, environment, recording, tool
from forked import Forked
from perigee.groups.looks import name_of

GUIDE = ROOT / "docs" / "guide"


RUST = """\
running 3 tests
test kernel::every_cell_is_within_its_bound ... ok <0.100s>
test other::prints_a_table ... ok <12.345s>
test other::panics - should panic ... FAILED <0.020s>

successes:

---- kernel::every_cell_is_within_its_bound stdout ----
skipped: no recorded data in ../shared
skipped: no recorded data in ../shared

---- other::prints_a_table stdout ----
| a | b |

test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
"""


def test_a_rust_test_that_says_it_was_skipped_is_counted_once_and_not_as_passed() -> None:
    tally = tool("test").Tally()
    for line in RUST.splitlines():
        tally.read(line, "crate/test")
    # An ignored test of Rust is a long one, and is not counted.
    assert (tally.passed, tally.failed, tally.skipped) == (3, 2, 1)
    assert max(tally.times) == (12.345, "crate/test other::prints_a_table")
    assert (0.02, "crate/test other::panics") in tally.times
    assert tally.reasons == ["kernel::every_cell_is_within_its_bound: no recorded data in ../shared"]


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("12 passed in 3.41s", (12, 0, 0)),
        ("==== 1 failed, 12 passed, 2 skipped in 63.41s (0:01:03) ====", (12, 1, 2)),
        ("2 failed, 1 error in 0.10s", (0, 3, 0)),
        ("a test prints: 3 passed", (0, 0, 0)),
    ],
)
def test_the_closing_line_of_pytest_is_counted(line: str, counts: tuple[int, int, int]) -> None:
    tally = tool("test").Tally()
    tally.read(line)
    assert (tally.passed, tally.failed, tally.skipped) == counts


def test_what_tests_lack_is_said_in_one_line_with_the_command_that_gives_it() -> None:
    missing = tool("test").missing
    assert missing(["a: emulated links need root", "b: the recording is not at hand"]) == ""
    reasons = ["a: selenium, chromium or chromium-driver is not installed", "b: node is not installed"]
    wanted = "`tools/packages.sh chromium chromium-driver nodejs && make web` gives it"
    assert missing([*reasons, "c: the page is not built; make web"]) == f"Missing here: chromium, node; {wanted}"


def rust_program(folder: Path, said: str) -> Path:
    """A stand-in of a program of Rust tests, with one test that passed."""
    path = folder / "program"
    result = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s"
    path.write_text(f"#!/bin/sh\necho '---- a stdout ----'\n{said}\necho '{result}'\n")
    path.chmod(0o755)
    return path


def test_a_program_for_which_the_machine_was_too_busy_counts_as_it_comes_out_the_second_time(tmp_path: Path) -> None:
    test = tool("test")
    suite = test.Suite()
    program = test.Program("a", str(rust_program(tmp_path, f"echo '{test.TOO_BUSY} for it'")), tmp_path)
    assert suite.rust(program)
    assert (suite.tallies["a"].passed, suite.tallies["a"].skipped) == (0, 1)
    rust_program(tmp_path, "true")
    assert not suite.rust(program)
    assert (suite.tallies["a"].passed, suite.tallies["a"].skipped, suite.broken) == (1, 0, {})
    rust_program(tmp_path, "exit 3")
    suite.rust(program)
    assert suite.broken == {"a": 3}


def python_tests(folder: Path, said: str, code: int) -> list[str]:
    """The command of what looks like pytest, and keeps what it was asked for in a file."""
    path = folder / "pytest"
    path.write_text(f'#!/bin/sh\nfor one in "$@"; do echo "$one" >> {folder}/asked; done\necho "{said}"\nexit {code}\n')
    path.chmod(0o755)
    return [str(path)]


@pytest.mark.parametrize("passes", [True, False])
def test_what_failed_beside_other_tests_counts_as_it_comes_out_by_itself(
    passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tool("test")
    suite = test.Suite()
    late, program = "tests/test_a.py::test_b[c d]", test.Program("a", str(rust_program(tmp_path, "exit 3")), tmp_path)
    monkeypatch.setattr(
        test, "PYTEST", python_tests(tmp_path, f"FAILED {late} - assert 5 < 4\n1 failed, 7 passed in 3.41s", 1)
    )
    suite.pytest("Python")
    assert suite.rust(program)
    if passes:
        rust_program(tmp_path, "true")
        monkeypatch.setattr(test, "PYTEST", python_tests(tmp_path, "1 passed in 0.10s", 0))
    suite.repeat([program])
    assert (tmp_path / "asked").read_text() == f"{late}\n"
    test.report(suite, 1.0)
    said = capsys.readouterr().out
    if passes:
        assert (suite.broken, suite.passed_alone) == ({}, ["a", late])
        assert said.endswith(f"passed by themselves:\n  a\n  {late}\n9 passed, 0 failed, 0 skipped\n")
    else:
        assert (suite.broken, suite.passed_alone) == ({"a": 3, "Python": 1}, [])
        # The program ended before its test's line.
        assert said.endswith("a: failed, see above\nPython: failed, see above\n14 passed, 1 failed, 0 skipped\n")


def test_many_failures_and_those_of_programs_that_only_compute_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = tool("test")
    suite = test.Suite()
    assert not suite.rust(test.Program("laws", str(rust_program(tmp_path, "exit 3")), tmp_path, core=True))
    lines = "".join(f"ERROR tests/test_a.py::test_{number}\n" for number in range(test.FEW + 1))
    monkeypatch.setattr(test, "PYTEST", python_tests(tmp_path, f"{lines}{test.FEW + 1} errors in 3.41s", 1))
    suite.pytest("Python")
    suite.repeat([])
    assert not (tmp_path / "asked").exists()
    assert suite.broken == {"laws": 3, "Python": 1}


def test_each_program_runs_once_and_what_needs_the_whole_machine_comes_last() -> None:
    test: Any = tool("test")
    kernel, busy, laws = (test.Program(name, name, ROOT, core=name == "laws") for name in (*test.ALONE, "busy", "laws"))
    ran: list[str] = []

    class Recorded(test.Suite):  # type: ignore[misc]
        """Carries nothing out."""

        def build(self) -> list[Any]:
            return [laws, kernel, busy]

        def rust(self, program: Any) -> bool:
            ran.append(program.name)
            return bool(program is busy)

        def doc_tests(self) -> None:
            ran.append("doc-tests")

        def pytest(self, name: str, *_options: str) -> None:
            ran.append(name)

    test.run(Recorded())
    assert ran[-2:] == ["busy", "Python, one by one"]
    # Tests that only compute run beside all that comes before.
    ran.remove("laws")
    assert set(ran[:3]) == {"busy", "doc-tests", "Python"}
    assert ran[3:-2] == [kernel.name]
    quiet = [Path(path).name for path in test.marked("quiet")[2:]]
    kernel_s = ["test_drop_front.py", "test_switches.py", "test_validation_kernel.py"]
    assert quiet == ["test_analysis_emulated.py", "test_live.py", "test_rrul.py", *kernel_s]


def test_python_tests_keep_bytecode_outside_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = tool("test")
    monkeypatch.setattr(test, "BYTECODE", tmp_path / "kept")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "part.py").write_text("")
    env = {**test.python_environment(), "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "import part"], env=env, check=True)
    assert [path.name.partition(".")[0] for path in (tmp_path / "kept").rglob("part.*.pyc")] == ["part"]
    assert not (tmp_path / "__pycache__").exists()


def test_an_interrupt_ends_what_runs_and_what_it_has_started(tmp_path: Path) -> None:
    test = tool("test")
    suite = test.Suite()
    program = rust_program(tmp_path, "sh -c 'echo $$ > new; mv new pid; exec sleep 60'")
    running = threading.Thread(target=suite.rust, args=[test.Program("a", str(program), tmp_path)])
    running.start()
    wait_until((tmp_path / "pid").exists)
    child = Path("/proc") / (tmp_path / "pid").read_text().strip() / "stat"
    assert child.exists()
    suite.interrupt()
    running.join(300)
    assert not running.is_alive()
    # A process closes its files, which the thread waits for, before it is a zombie.
    wait_until(lambda: ended(child))


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, up to five minutes."""
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def ended(stat: Path) -> bool:
    """Whether a process is a zombie or gone."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("page", ["report.md", "campaign.md", "metrics.md", "hosts.md"])
def test_the_reference_on_file_is_that_of_the_code(page: str) -> None:
    reference = tool("reference")
    text = (reference.FOLDER / page).read_text(encoding="utf-8")
    assert reference.updated(page, text) == text, f"{page} is stale; run `.venv/bin/python tools/reference.py`"


def test_a_page_of_the_reference_that_lacks_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"metrics\.md: has the tables columns; it needs columns, ratios"):
        tool("reference").updated("metrics.md", "<!-- keys: columns -->\n<!-- end -->\n")


def test_the_profile_starlink_is_made_from_the_statistics_of_its_study() -> None:
    starlink = tool("starlink")
    made = starlink.synthesise(tomllib.loads(starlink.STATISTICS.read_text()))
    assert made == starlink.LINK.read_text(), "run `python3 tools/starlink.py synthesise`"
    assert made != starlink.synthesise(tomllib.loads(starlink.STATISTICS.read_text()), seed=1)


def test_the_statistics_of_the_study_are_those_of_the_recording() -> None:
    starlink = tool("starlink")
    measured = starlink.measure(*recording())
    assert starlink.STATISTICS.read_text().endswith(measured)


def test_the_profile_with_slots_has_what_was_measured_on_the_recording() -> None:
    measured = tomllib.loads(tool("leo").measure(*recording()))
    down = tomllib.loads((ROOT / "profiles" / "starlink-thesis-2022.toml").read_text())["down"]
    rate, delay = down["rate"], down["delay"]

    def number(text: str) -> float:
        return float(text.split()[0])

    spikes, outage = delay["spikes"], rate["outage"]["length"]
    profile = {
        "slot_rate_sd_percent": 100 * number(rate["sd"]) / number(rate["mean"]),
        "ripple_percent": number(rate["ripple"]),
        "grants_every_ms": number(rate["grants"]["every"]),
        "grants_burst_ms": number(rate["grants"]["burst"]),
        "rise_ms": number(rate["outage"]["rise"]),
        "outage_median_ms": number(outage["median"]),
        "outage_sigma": outage["sigma"],
        "slot_delay_mean_ms": number(delay["mean"]),
        "slot_delay_sd_ms": number(delay["sd"]),
        "jitter_sd_ms": number(delay["jitter"]["body"]["sd"]),
        "spike_after_median_ms": number(spikes["after"]["median"]),
        "spike_length_median_ms": number(spikes["length"]["median"]),
        "spike_height_median_ms": number(spikes["height"]["median"]),
        "spike_height_sigma": spikes["height"]["sigma"],
        "spike_begin_percent": number(spikes["begin"]),
        "spike_peak_percent": number(spikes["peak"]),
    }
    assert profile == pytest.approx({key: measured[key] for key in profile}, rel=0.02)
    assert (measured["outage_least_ms"], measured["outage_most_ms"]) == (58, 134)
    # The spike is as much longer as the outage, so that its peak is at the end of that.
    assert measured["spike_correlation_with_outages"] == pytest.approx(0.94, abs=0.005)
    assert spikes["after"]["sigma"] == spikes["length"]["sigma"] == outage["sigma"]
    # A correlation below this does not differ from none over nine slots.
    assert max(measured["slot_rate_correlation_of_neighbours"], measured["slot_delay_correlation_of_neighbours"]) < 0.3


def test_the_moving_dish_differs_from_starlink_2022_by_its_outages_alone() -> None:
    moving = tomllib.loads((ROOT / "profiles" / "starlink-moving.toml").read_text())
    still = tomllib.loads((ROOT / "profiles" / "starlink-thesis-2022.toml").read_text())
    for link in (moving, still):
        for key in ("name", "title", "source", "held", "limits"):
            del link[key]
        for direction in ("down", "up"):
            outages = link[direction]["loss"].pop()
            assert outages["kind"] == "outages"
    assert moving == still


def test_the_tables_of_the_low_orbit_page_are_those_of_the_model() -> None:
    page = (ROOT / "docs" / "models" / "leo.md").read_text(encoding="utf-8")
    tables = tool("leo").compare(*recording())
    assert tables in page, f"docs/models/leo.md is stale; it should have\n{tables}"


def test_links_to_nothing_and_whatever_the_site_would_fetch_from_another_host_are_found(tmp_path: Path) -> None:
    docs = tool("docs")
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    second.write_text('<h1 id="there">Second</h1>', encoding="utf-8")
    first.write_text(
        '<a href="second.html#there">good</a> <a href="https://example.org/">good</a> <img src="data:image/png,">'
        '<a href="second.html#gone">no place</a> <a href="third.html">no page</a>'
        '<script src="https://example.org/x.js"></script>',
        encoding="utf-8",
    )
    pages = {file: docs.Page(file.read_text(encoding="utf-8")) for file in (first, second)}
    assert list(docs.faults(pages)) == [
        f"{first}: links to second.html#gone, which has no such place",
        f"{first}: links to third.html, which is not there",
        f"{first}: loads https://example.org/x.js; a page may load only files of the site",
    ]


BLOCK = re.compile(r"^```(sh|toml|python)\n(.*?)^```\n(?:\n^```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
"""Language and content of a block, and of the block of text after it: what it prints."""
SAVE_AS = re.compile(r"as\s+`([\w.-]+\.toml)`")
# Steps that a guide tells readers to do once, and that are done where this test runs.
DONE_ALREADY = ("make setup", "source .venv/bin/activate")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path.name, marks=[pytest.mark.long] if path.name in LONG_PAGES else [])
        for path in sorted(GUIDE.glob("*.md"))
        if path.name != "README.md"
    ],
)
def test_every_command_of_the_guide_works(
    page: str, tmp_path: Path, forked: Forked, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = (GUIDE / page).read_text(encoding="utf-8")
    programs = tmp_path_factory.mktemp("programs")
    descriptor = forked.shim(programs)
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
    for block in BLOCK.finditer(text):
        language, content, printed = block.groups()
        if language == "toml":
            names = SAVE_AS.findall(text[: block.start()])
            assert names, "the text before a study does not say under which name to save it"
            (tmp_path / names[-1]).write_text(content, encoding="utf-8")
            continue
        if language == "sh":
            lines = [line for line in content.splitlines() if line not in DONE_ALREADY]
            command = ["bash", "-euc", "\n".join(lines)]
            done = subprocess.run(
                command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
                pass_fds=[descriptor],
            )  # fmt: skip
        else:
            program = programs / "block.py"
            program.write_text(content, encoding="utf-8")
            done = forked.run([str(program)], tmp_path, {**environment(), "PATH": path}, timeout=500)
        assert done.returncode == 0, f"{content}\n{done.stdout}\n{done.stderr}"
        assert printed in (None, done.stdout), f"{content}\n{done.stdout}"


def test_the_messages_that_troubleshooting_explains_are_those_of_the_program() -> None:
    of_others = {"sudo: perigee: command not found", "the server is busy running a test", "unable to connect to server"}
    sources = [*(ROOT / "python" / "perigee").rglob("*.py"), *(ROOT / "crates").glob("*/src/**/*.rs")]
    written = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    headings = re.findall(r"^## (.*)$", (GUIDE / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE)
    messages = [message for heading in headings for message in re.findall(r"`(.+?)`", heading)]
    assert len(messages) > 10
    # A capital letter alone stands for what the message fills in.
    parts = [part for message in messages if message not in of_others for part in re.split(r"\b[A-Z]\b", message)]
    assert [part for part in parts if part not in written] == []


def test_documentation_starts_perigee_as_root_so_that_sudo_finds_it() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "python" / "perigee").rglob("*.py")]
    assert [path for path in pages if re.search(r"\bsudo perigee\b", path.read_text(encoding="utf-8"))] == []


def test_the_moving_picture_is_that_of_the_tabs_first_study_and_loads_nothing() -> None:
    drawn = tool("moving_picture")
    text = drawn.PICTURE.read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text and "prefers-reduced-motion" in text
    assert len(text) < 40_000 and not re.search(r"<script|href|url\((?!#)", text)
    if not shutil.which("node"):
        pytest.skip("skipped: no Node, which reads the study of the tab")
    results = drawn.simulated()[0]
    means = [f"{name_of(cc)}: {mean:.1f} Mbit/s" for cc, mean in results.flows.select("cc", "goodput_mbps").rows()]
    assert [line for line in means if line not in text] == []
