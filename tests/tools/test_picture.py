# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The table of the site's first page: means and nothing else that is published of the same quantities."""

from __future__ import annotations

from types import SimpleNamespace as Plain
from typing import Any

import pytest

from conftest import tool

PAGE = "| simulated (published) | throughput Mbit/s | round trip ms |\n|---|---|---|\n| BBR+ | 1 (1) | 2 (2) |\n"


def test_a_row_has_the_means_of_its_algorithm_and_no_other_statistic(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = tool("picture")
    published: list[Any] = [
        Plain(value=Plain(name=name, statistic=statistic), numbers=numbers)
        for name, statistic, numbers in (
            ("capture_goodput_mbps", "mean", ("95.8", "97.8")),
            ("capture_goodput_mbps", "t", ("3.69", "5.65")),
            ("capture_rtt_mean_ms", "mean", ("827", "949")),
        )
    ]
    monkeypatch.setattr(picture, "Context", lambda results: results)
    monkeypatch.setattr(picture, "judged", lambda _: (published, []))
    monkeypatch.setattr(picture, "label", lambda *_: "BBR+")
    monkeypatch.setattr(picture, "pair", lambda one: one.numbers)
    assert picture.with_means(PAGE, None).splitlines()[-1] == "| BBR+ | 97.8 (95.8) | 949 (827) |"
