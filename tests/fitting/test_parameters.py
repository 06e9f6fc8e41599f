# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`--json` of `perigee fit` and `perigee profiles import`: each parameter, and what is not known."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from conftest import Perigee
from perigee.fitting.intervals import Interval
from perigee.fitting.parameters import estimates, parameters


def _by_key(printed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["key"]: one for one in printed["parameters"]}


def test_a_fit_prints_each_parameter_of_the_profile_it_wrote_and_what_is_not_known(
    perigee: Perigee, tmp_path: Path
) -> None:
    drawn = np.random.default_rng(1)
    lines = ["PING there (192.0.2.1) 56(84) bytes of data."]
    for place in range(1500):
        rtt = 600 + drawn.normal(0, 8)
        if drawn.random() > 0.01:
            at = 1.7e9 + 0.2 * place + rtt / 1000
            lines.append(f"[{at:.6f}] 64 bytes from 192.0.2.1: icmp_seq={place + 1} ttl=64 time={rtt:.3f} ms")
    (tmp_path / "ping.txt").write_text("\n".join(lines) + "\n")
    done = perigee("fit", "ping.txt", "--up", "5 Mbit/s", "--out", "x.toml", "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    printed = json.loads(done.stdout)
    found, written = _by_key(printed), tomllib.loads((tmp_path / "x.toml").read_text())
    assert f"{found['up.rate']['value']:g} {found['up.rate']['unit']}" == written["up"]["rate"]
    body = found["up.delay.body.sd"]
    assert f"{body['value']} ms" == written["up"]["delay"]["body"]["sd"]
    low, high = body["interval"]
    assert low < 8 < high
    assert {key: found[key]["known"] for key in ("up.rate", "down.rate", "up.queue.time", "up.delay.base")} == {
        "up.rate": "given", "down.rate": "assumed", "up.queue.time": "assumed", "up.delay.base": "measured",
    }  # fmt: skip
    assert found["down.rate"]["interval"] is None
    assert all(one["source"] for one in found.values())
    assert {one["name"] for one in printed["estimates"]} >= {"least round trip", "loss of pings"}
    assert any(said.startswith("not measured: down.queue") for said in printed["not_known"])
    assert any(said.startswith("how the round trip divides") for said in printed["not_known"])
    assert {row["what"] for row in printed["comparison"]} >= {"ping: median"}


def test_an_import_prints_what_the_tool_was_told_and_what_was_assumed(perigee: Perigee, tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text("tc qdisc add dev eth0 root netem delay 100ms 10ms loss 1%\n")
    done = perigee("profiles", "import", "s.sh", "--both", "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    printed = json.loads(done.stdout)
    found = _by_key(printed)
    base, loss, rate = (found[key] for key in ("up.delay.base", "down.loss", "down.rate"))
    assert (base["value"], base["unit"], base["known"]) == (90.0, "ms", "configured")
    assert (loss["value"], loss["unit"], loss["source"]) == (1.0, "%", "netem loss 1 %.")
    assert (rate["value"], rate["unit"], rate["known"]) == (1.0, "Gbit/s", "assumed")
    assert any("nothing says it" in note for note in printed["notes"])
    assert tomllib.loads(printed["text"])["up"]["loss"] == "1 %"
    assert perigee("profiles", "import", "s.sh", "--both", "--json", "--out", "s.toml").returncode == 0
    assert (tmp_path / "s.toml").read_text().splitlines()[3:] == printed["text"].splitlines()[3:]


def test_an_interval_has_the_unit_of_its_parameter_and_an_open_end_is_null() -> None:
    text = '[up]\n# A.\nrate = { kind = "fluctuating", mean = "900 kbit/s" }\n# B.\nqueue = "1.5 MB"\n'
    known = [
        Interval("up.rate", "Mbit/s", 0.9, 0.8, 1.0, "9 seconds"),
        Interval("up.queue", "kB", 1500.0, 1400.0, None, "it grew"),
        Interval("delay tail shape", "", 2.0, None, None, "too few"),
    ]
    found = _by_key({"parameters": parameters(text, "measured", ["up.queue"], known)})
    assert found["up.rate.mean"]["interval"] == [800.0, 1000.0]
    assert found["up.rate.kind"] == {
        "key": "up.rate.kind", "value": "fluctuating", "unit": None, "interval": None, "known": "measured",
        "source": "A.",
    }  # fmt: skip
    assert (found["up.queue"]["interval"], found["up.queue"]["known"]) == ([1.4, None], "assumed")
    assert estimates(known)[2]["interval"] == [None, None]
