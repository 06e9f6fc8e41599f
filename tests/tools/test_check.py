# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`make check` chooses the tests that are nearest to a change, and has an answer in the time there is."""

from __future__ import annotations

import time

import pytest

from conftest import tool


def test_the_tests_of_a_change_are_those_that_import_it_with_its_examples() -> None:
    check = tool("check")
    chosen = check.python_tests(["python/perigee/statistics/signed_ranks.py", "docs/models/statistics.md"])
    assert chosen == [
        "python/perigee/statistics/signed_ranks.py",
        "tests/statistics/test_statistics.py",
        "tests/tools/test_layers.py",
    ]
    many = check.python_tests(["python/perigee/store/results.py"])
    folders = [name.split("/")[1] for name in many]
    assert folders[0] == "perigee"
    assert folders.index("adversary") > folders.count("store") > 1, "those of its own folder come first"
    assert check.python_tests(["tools/starlink.py"]) == ["tests/tools/test_house.py"]
    assert "tests/measuring/test_probe.py" in check.python_tests(["tests/probed.py"])
    assert check.python_tests(["tests/store/test_values.py"]) == ["tests/store/test_values.py"]
    assert check.crates(["crates/perigee-link/src/lib.rs", "crates/perigee-py/src/lib.rs", "crates/README.md"]) == [
        "perigee-link"
    ]


@pytest.mark.parametrize(("said", "is_well"), [("so far so good", True), ("FAILED tests/test_a.py::test_b", False)])
def test_a_step_that_takes_longer_is_ended_and_counts_by_what_it_has_said(
    said: str, is_well: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    command = ["sh", "-c", f"trap 'echo {said}; exit 130' INT; sleep 300 & wait"]
    assert tool("check").run("a step", command, started + 1.0) == is_well
    assert time.monotonic() - started < 100
    shown = capsys.readouterr().out
    assert ("not all of it in the time there is" in shown) == is_well
    assert ("== a step: FAILED" in shown) == (not is_well)
