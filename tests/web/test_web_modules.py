# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The modules of the laboratory in a browser tab, without a browser: addresses, archives, tables, and their page."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
import zipfile
import zlib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import ROOT, program
from perigee.engines.plan.native import native_plan
from perigee.laboratory import page
from perigee.places import StudyFile, data_roots

MODULES = ROOT / "tests" / "web" / "modules.mjs"
ROWS = pl.DataFrame({"run": [0, 1], "flow": ["a", 'b "c", d'], "value": [1.5, None]})


def called(name: str, given: Any = None) -> Any:
    """Return what a call of `modules.mjs` answers."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    command = [node, "--no-warnings", str(MODULES), name]
    ran = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def packed(content: bytes) -> str:
    """Return a study as addresses have it."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.urlsafe_b64encode(compressor.compress(content) + compressor.flush()).decode().rstrip("=")


def test_an_address_holds_its_study_and_is_refused_where_it_is_broken_or_too_large() -> None:
    text = 'name = "a"\ntitle = "Über Satelliten"\n'
    of_python = page.fragment(text).removeprefix("#study=")
    bomb = packed(b"x" * 40_000_000)
    assert len(bomb) < 65536
    codes = [of_python, bomb, "a" * 100_000, "!!", "AAAA", packed(b"\xff\xfe")]
    (same, too_long, too_large, *broken), made = called("addresses", {"codes": codes, "texts": [text, "y" * 200_000]})
    assert same == text
    assert made == [text, "y" * 200_000]
    assert too_long == "refused: it is longer than 256 KiB"
    assert too_large == "refused: it is longer than 64 KiB"
    assert all(each.startswith("refused: ") for each in broken)


def test_names_of_an_address_lead_to_nothing_outside_their_route() -> None:
    assert called("paths", ["results/a b/graphs", "results/..b/%2e%2e"]) == [
        "results/a%20b/graphs",
        "results/..b/%252e%252e",
    ]
    wrong = ["studies/../../pwn", "results/./me", "..", "results/a\\..\\b"]
    assert called("paths", wrong) == [f"refused: {path}: leads elsewhere" for path in wrong]


def test_controls_are_read_back_from_their_own_text_and_from_no_other() -> None:
    named = [["bbr", "reno"], 0.1, 100, 20, 1000]
    assert called("forms") == [[True] * 9, named, None, None, None, None]


def test_means_over_a_round_trip_are_a_window_per_round_trip_however_its_packets_arrive() -> None:
    interval_s, trip_s, bunch_s, mbps = 0.01, 0.6103, 0.08, 100.0
    instants = [number * interval_s for number in range(1, 1501)]
    shares = [(sent(at, trip_s, bunch_s) - sent(at - interval_s, trip_s, bunch_s)) / interval_s for at in instants]
    given = {"t": instants, "v": [mbps * share for share in shares], "span": trip_s}
    means = called("means", given)
    steady = [mean for at, mean in zip(instants, means, strict=True) if at > trip_s]
    assert all(abs(mean - mbps * bunch_s / trip_s) < 0.5 for mean in steady), (min(steady), max(steady))
    assert called("means", given | {"v": [5.0] * len(instants)})[-1] == pytest.approx(5.0)


def sent(at: float, trip_s: float, bunch_s: float) -> float:
    """How long a sender has sent by an instant that begins each round trip with a bunch."""
    return at // trip_s * bunch_s + min(bunch_s, at % trip_s)


def test_a_few_extremes_do_not_flatten_the_rest_and_are_named() -> None:
    rest = [float(value) for value in range(1000)]
    flat, steady, empty = called("tops", [[rest, [*rest, 60_000.0]], [rest, [1500.0] * 1000], [[], [None, 0.0]]])
    assert flat["beyond"] == 60_000.0
    assert 999 < flat["top"] < 2000
    assert steady == {"top": 1500.0, "beyond": None}
    assert empty == {"top": 0, "beyond": None}


def test_lists_of_values_are_split_at_their_commas_and_at_no_others() -> None:
    texts = ["cubic, bbr", '{name = "bbr", beta = "50 %"},cubic', '"a, b","c\\", d"', "[[1, 2], [3]]", " , "]
    assert called("lists", texts) == [
        ["cubic", "bbr"],
        ['{name = "bbr", beta = "50 %"}', "cubic"],
        ['"a, b"', '"c\\", d"'],
        ["[[1, 2], [3]]"],
        [],
    ]


def test_times_are_as_long_as_they_are_said() -> None:
    lengths, passed = called("times", {"lengths": [0.4, 7.2, 33, 87, 400, 5000, 1e5], "passed": [5, 120, 7300, 2e5]})
    assert lengths == ["1 s", "7 s", "35 s", "85 s", "7 min", "85 min", "28 h"]
    assert passed == ["just now", "2 min ago", "2 h ago", "2 d ago"]


def test_hosts_of_a_dumbbell_stand_on_the_side_of_their_router() -> None:
    pairs = [("a1", "left"), ("a2", "left"), ("left", "right"), ("right", "b1"), ("right", "b2")]
    nodes = ["a1", "left", "right", "b1", "a2", "b2"]
    network = {"nodes": nodes, "links": [{"ends": list(pair)} for pair in pairs]}
    (places,) = called("networks", [network])
    assert dict(places) == {
        "a1": [0, 0], "left": [1, 0.5], "right": [2, 0.5], "b1": [3, 0], "a2": [0, 1], "b2": [3, 1],
    }  # fmt: skip


def test_downloads_are_files_that_others_read() -> None:
    parts = (ROWS, ROWS.head(1))
    streams, columns = [], []
    for part in parts:
        buffer = io.BytesIO()
        part.write_ipc_stream(buffer)
        streams.append(list(buffer.getvalue()))
        columns.append({"rows": len(part), "columns": part.to_dict(as_series=False)})
    content = bytes(called("archive", {"streams": streams, "columns": columns}))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        arrow = pl.read_ipc_stream(archive.read("a.arrows"))
        csv = pl.read_csv(archive.read("ü.csv"))
    assert arrow.equals(pl.concat(parts))
    assert csv.equals(pl.concat(parts))


def test_the_reader_accepts_every_study_of_controls_and_lessons() -> None:
    texts = called("studies")
    assert len(texts) > 60
    for text in texts:
        native_plan(StudyFile(Path("lesson/study.toml"), text, tuple(data_roots())), [], reduced=False)


def test_live_figures_of_the_documentation_are_studies_of_what_their_comments_say() -> None:
    pattern = program(ROOT / "docs" / "site" / "conf.py").LIVE
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
    found = [address for text in texts.values() for address in pattern.findall(text)]
    comments = sum(line.startswith("<!-- live:") for text in texts.values() for line in text.splitlines())
    assert len(found) == comments >= 6
    for address, (text, form) in zip(found, called("named", found), strict=True):
        native_plan(StudyFile(Path("live/study.toml"), text, tuple(data_roots())), [], reduced=False)
        said = dict(part.split("=") for part in address.split("&"))
        assert form["cc"] == said["cc"].split(",")
        assert all(float(said[key]) == form[key] for key in ("loss", "duration", "rate") if key in said)
        assert form["aqm"] == said.get("aqm", "drop-tail")


def test_the_page_loads_nothing_and_its_policy_names_its_script_and_style() -> None:
    text = page.assembled(b"\0asm")
    script, style, policy = (
        re.search(pattern, text, re.DOTALL)
        for pattern in (
            r'<script type="module">(.*?)</script>',
            '<style nonce="([0-9a-f]+)">(.*?)</style>',
            r'Content-Security-Policy" content="([^"]*)"',
        )
    )
    assert script
    assert style
    assert policy
    assert page.digest(script[1]) in policy[1]
    assert f"style-src 'nonce-{style[1]}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    assert "'unsafe-inline'" not in policy[1]
    rest = text[: text.index("<style")] + text[text.index("</style>") : text.index("<script")]
    assert not re.search(r'(?:src|href)="(?!#|data:)', rest)
    assert "<!--" not in script[1], "a browser would read what follows otherwise"
    assert "url(" not in style[2]
    assert "@import" not in style[2]


def test_modules_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a\.js: does not export gone"):
        page.function(Path("a.js"), "export const here = 1;\n", ["gone"])
    with pytest.raises(FileNotFoundError, match=r"absent\.js: a\.js imports it, and it is in none of"):
        page.found("./absent.js", Path("a.js"))


MADE_OF_TEXT = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(")


def test_no_module_makes_html_of_text() -> None:
    sources = (page.WEB / "src").rglob("*.js")
    assert [path.name for path in sources if MADE_OF_TEXT.search(path.read_text(encoding="utf-8"))] == []
