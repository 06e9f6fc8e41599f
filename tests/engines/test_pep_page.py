# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The page of the proxy's metrics in a browser: the rates that it computes of readings, and its bars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("httpx", reason="httpx is not installed")

from browsing import violations
from conftest import ROOT

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

SOURCES = ("python/perigee/data/look.css", "crates/perigee-pep/src/service/page.html")
READ = """
const texts = TEXTS, later = setTimeout;
globalThis.fetch = async () => ({ text: async () => texts.shift() });
// It is asked for each reading here.
globalThis.setTimeout = (work, ...rest) => (work === globalThis.look ? 0 : later(work, ...rest));
"""
DRAWN = """
const drawn = (row) => [
  ...[...row.children].map((one) => one.textContent),
  ...[...row.querySelectorAll("span")].map((one) => `${one.className} ${Math.round(parseFloat(one.style.width))} %`),
].filter(Boolean);
const part = (id) => [id, [...document.querySelectorAll(`#${id} tr`)].map(drawn)];
const state = document.getElementById("state").textContent;
return Object.fromEntries([...["uses", "waits", "gains"].map(part), ["state", state]]);
"""
HOME, INN = "home <b>1</b>", "inn"


def reading(running_s: float, *rows: tuple[str, str, float]) -> str:
    """Return a text of metrics: of each row the subscriber, the rest of a sample's name and labels, and the value."""
    lines = [f"perigee_pep_running_seconds {running_s}"]
    for subscriber, sample, value in rows:
        name, _, labels = sample.partition(" ")
        lines.append(f'perigee_pep_subscriber_{name}{{subscriber="{subscriber}",rule="all"{labels}}} {value}')
    return "\n".join(["# HELP of all", *lines, ""])


def moved(subscriber: str, down: float, up: float = 0) -> list[tuple[str, str, float]]:
    """Return the rows of a subscriber with an open connection, and its bytes so far."""
    by_direction = {"down": ("client", down), "up": ("server", up)}
    rows = [
        (subscriber, f'bytes_total ,direction="{direction}",leg="{leg}"', value)
        for direction, (leg, value) in by_direction.items()
    ]
    return [(subscriber, "connections", 1), *rows]


def waited(subscriber: str, **seconds: float) -> list[tuple[str, str, float]]:
    """Return the rows of a subscriber's waits so far: of `LEG_CAUSE`, and zero of the others."""
    places = [(leg, by) for leg in ("client", "server") for by in ("path", "reader", "arrival")]
    return [
        (subscriber, f'limited_seconds_total ,leg="{leg}",by="{by}"', seconds.get(f"{leg}_{by}", 0))
        for leg, by in places
    ]


def test_rates_are_means_of_readings_and_begin_anew_with_the_service(chrome: Chrome, tmp_path: Path) -> None:
    saved = [(HOME, "saved_seconds_sum", 0.5), (HOME, "saved_seconds_count", 2)]
    texts = [
        reading(100, *moved(HOME, 1_000_000), *waited(HOME, client_path=10), *saved),
        reading(102, *moved(HOME, 1_500_000), *moved(INN, 250_000), *waited(HOME, client_path=11)),
        reading(104, *moved(HOME, 1_750_000, 250_000), *moved(INN, 700_000), (INN, "queue_bytes", 4096), *saved,
                *waited(HOME, client_path=13, client_reader=1), *waited(INN, server_arrival=1)),
        # Another process of the service has counters of its own.
        reading(1, *moved(HOME, 40)),
        reading(3, *moved(HOME, 1_000_040)),
    ]  # fmt: skip
    page = tmp_path / "page.html"
    look, content = ((ROOT / source).read_text(encoding="utf-8") for source in SOURCES)
    page.write_text(f"<!doctype html><html lang=en><title>Proxy</title><style>{look}</style>{content}", "utf-8")
    script = READ.replace("TEXTS", json.dumps(texts))
    added = chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    chrome.get(page.as_uri())
    chrome.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)

    def drawn() -> Any:
        chrome.execute_script("return look()")
        return chrome.execute_script(DRAWN)

    assert drawn()["uses"] == [[HOME, "2.00", "1", "s0 100 %"], [INN, "1"]]
    third = drawn()
    # Since they were first seen: 1 MB in 4 s, and 450 kB in 2 s.
    assert third["uses"] == [
        [HOME, "2.00", "1", "s0 75 %", "s2 25 %"],
        [INN, "1.80", "1", "s0 90 %"],
    ]
    # The queue is known at once.
    assert third["waits"] == [[HOME, "1.00", "0.00", "0", "s0 75 %", "s1 25 %"], [INN, "4"]]
    assert third["gains"] == [[HOME, "250", "2", "s0 100 %"]]
    assert violations(chrome) == []
    assert drawn()["uses"] == third["uses"]
    last = drawn()
    assert last["uses"] == [[HOME, "4.00", "1", "s0 100 %"]]
    assert last["state"].startswith("Over the last 2 s,")
