# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Advice beside this machine's kernel: is the first that `perigee advise` names the best of its menu?

    advise.py                  the paths that have no result yet (as root; 4 to 8 minutes each), and the page
    advise.py --paths 1-5,9    these of them
    advise.py --again          their advice anew from the logs that are there, held against what was measured

A path is drawn, emulated, and measured with ping, irtt and iperf3. `perigee advise` gets these logs and no more. Then
the study of its menu is carried out by the engine `emu` over the drawn path.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from perigee.api.results import load

FOLDER = Path(__file__).resolve().parent
sys.path += [str(FOLDER.parent), str(FOLDER)]

import paths  # noqa: E402
from beside import ROOT, perigee  # noqa: E402

PAGE = ROOT / "docs" / "models" / "validation-advise.md"
SEED, PATHS = 2, 20
GATEWAY = "100.64.0.1"
"""The near end of the link, as `perigee exec` has it in a network of its own."""
WITHIN, SLOWER = 0.95, 1.10
"""Least share of the best goodput, and most of its 95th percentile of delay, that count as a hit."""
CLOSE, MOST_CLOSE = 0.90, 3
"""Share of the best goodput from which settings have two more rounds, and how many of them beside the advised one."""
NOW = "as it is"

SERVERS = """ip link set lo up
iperf3 --server --json > iperf3-server.json &
if command -v irtt > /dev/null; then irtt server > irtt-server.txt 2>&1 & fi
sleep 1
exec {perigee} exec --quiet --link ./link.toml --drain "2 s" -- sh -eu logs.sh
"""
LOGS = f"""ping -n -D -i 0.05 -c 1200 {GATEWAY} > ping.txt &
if command -v irtt > /dev/null; then irtt client -i 50ms -d 60s -Q -o irtt.json {GATEWAY} > irtt.txt || true; fi
wait
sleep 2
iperf3 -c {GATEWAY} -R -C cubic -t 20 --json --get-server-output > down.json
sleep 2
iperf3 -c {GATEWAY} -C cubic -t 10 --json --get-server-output > up.json
sleep 2
iperf3 -c {GATEWAY} -u -R -b 200M -t 10 --json > udp.json || true
"""


def measured(folder: Path) -> list[Path]:
    """Write the logs that a user of the path would have; this network and all in it end with the program."""
    (folder / "logs.sh").write_text(LOGS, encoding="utf-8")
    script = SERVERS.format(perigee=f"{sys.executable} -m perigee")
    apart = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-eu", "-c", script]
    done = subprocess.run(apart, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{folder}: no logs:\n{done.stderr}")
    return logs_of(folder)


def logs_of(folder: Path) -> list[Path]:
    """Return the logs of a folder that hold something."""
    names = ("ping.txt", "irtt.json", "down.json", "up.json", "udp.json")
    found = [folder / name for name in names if (folder / name).is_file()]
    return [
        file for file in found if file.stat().st_size and not (file.suffix == ".json" and '"error"' in file.read_text())
    ]


def advised(logs: Sequence[Path], kept: Path) -> tuple[dict[str, Any], float]:
    """Return the advice on logs, as JSON, and how long it took, s."""
    shutil.rmtree(kept, ignore_errors=True)
    buffers = (("--receive-buffer", "rmem"), ("--send-buffer", "wmem"))
    ours = [word for option, table in buffers for word in (option, f"{_largest(table)} B")]
    began = time.monotonic()
    command = [sys.executable, "-m", "perigee", "advise", *map(str, logs), "--json", "--keep", str(kept), *ours]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{kept.parent}: no advice:\n{done.stderr}")
    return json.loads(done.stdout), time.monotonic() - began


def _largest(table: str) -> str:
    return Path(f"/proc/sys/net/ipv4/tcp_{table}").read_text(encoding="ascii").split()[2]


def carried_out(
    kept: Path, profile: Path, folder: Path, chosen: str
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Return goodput and delay of each setting over the drawn path, by the kernel and by the simulator."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(kept / "study.toml", folder / "study.toml")
    shutil.copy(profile, folder / "link.toml")
    run = ["run", str(folder / "study.toml"), "--out"]
    perigee([*run, str(folder / "sim"), "--rounds", "10"])
    emu = ["--engine", "emu", "--force", "--nearest"]
    perigee([*run, str(folder / "emu"), "--rounds", "1", *emu])
    found = figures(folder / "emu")
    ranked = sorted(found, key=lambda name: -found[name]["goodput_mbps"])
    least = CLOSE * found[ranked[0]]["goodput_mbps"]
    close = [name for name in ranked[:MOST_CLOSE] if found[name]["goodput_mbps"] >= least]
    close += [chosen] if chosen not in close and found[chosen]["goodput_mbps"] >= least else []
    if len(close) > 1:
        more = ["--set", "seed=2", "--vary", f"setting={','.join(close)}"]
        perigee([*run, str(folder / "close"), "--rounds", "2", *emu, *more])
        for name, one in figures(folder / "close").items():
            found[name] = {key: (found[name][key] + 2 * one[key]) / 3 for key in one}
    return found, figures(folder / "sim")


def figures(results: Path) -> dict[str, dict[str, float]]:
    """Return goodput of the download and 95th percentile of the ping's delay, by setting."""
    with load(results) as made:
        means = made.flows.group_by("point.setting", "flow", maintain_order=True).agg(
            pl.col("goodput_mbps", "rtt_p95_ms").mean()
        )
    found: dict[str, dict[str, float]] = {}
    for row in means.iter_rows(named=True):
        one = found.setdefault(row["point.setting"], {})
        one |= {"goodput_mbps": row["goodput_mbps"]} if row["flow"] == "download" else {"delay_ms": row["rtt_p95_ms"]}
    return found


def first_of(advice: dict[str, Any]) -> str:
    """Return the first advised setting; today's where none is advised."""
    return next((one["name"] for one in advice["tried"] if one["is_advised"]), NOW)


def judged(advice: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Hold the first advice against the best of the menu.

    Examples:
        >>> now, bbr = {"goodput_mbps": 4.0, "delay_ms": 90.0}, {"goodput_mbps": 9.0, "delay_ms": 99.0}
        >>> found = {"as it is": now, "BBR": bbr}
        >>> judged({"tried": [{"name": "BBR", "is_advised": True}]}, found)["is_hit"]
        True
        >>> judged({"tried": [{"name": "BBR", "is_advised": False}]}, found)["is_hit"]
        False
    """
    chosen = first_of(advice)
    best = max(found, key=lambda name: found[name]["goodput_mbps"])
    goodput, delay = (found[chosen][key] / found[best][key] for key in ("goodput_mbps", "delay_ms"))
    return {
        "advised": chosen, "best": best, "goodput_share": goodput, "delay_share": delay,
        "is_hit": goodput >= WITHIN and delay <= SLOWER,
    }  # fmt: skip


def carry_out(path: paths.Path, folder: Path, *, again: bool) -> dict[str, Any]:
    """Measure, advise, and try the menu on one path; `again` keeps what was measured."""
    profile = folder / "link.toml"
    if not again:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        profile.write_text(path.profile, encoding="utf-8")
    logs = logs_of(folder) if again else measured(folder)
    advice, took_s = advised(logs, folder / "advice")
    if again:
        before = json.loads(folder.with_suffix(".json").read_text(encoding="utf-8"))
        found, simulated, date = before["measured"], before["simulated"], before["date"]
    else:
        found, simulated = carried_out(folder / "advice", profile, folder / "truth", first_of(advice))
        date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return {
        "path": path.number, "said": path.said, "date": date, "kernel": os.uname().release,
        "advice_s": round(took_s, 1), "logs": [log.name for log in logs], **judged(advice, found),
        "fitted": {key: advice["link"][key] for key in ("rate_mbps", "rtt_ms")},
        "drawn": {"rate_mbps": path.down_mbps, "rtt_ms": path.rtt_ms},
        "measured": found, "simulated": simulated,
        "expected": {one["name"]: one["goodput_mbps"] for one in [{"name": NOW, **advice["now"]}, *advice["tried"]]},
    }  # fmt: skip


def written(results: Sequence[dict[str, Any]]) -> str:
    """Return the page: `page.txt`, which says why, with the table of these paths."""
    rows = [
        f"| {one['path']} | {one['said']} | {one['fitted']['rate_mbps']:.3g} Mbit/s, {one['fitted']['rtt_ms']:.0f} ms "
        f"| {one['advised']} | {one['best']} | {100 * one['goodput_share']:.0f} % | {100 * one['delay_share']:.0f} % "
        f"| {'yes' if one['is_hit'] else '**no**'} | {one['advice_s']:.0f} s | {one['date']} |\n"
        for one in results
    ]
    hits = sum(one["is_hit"] for one in results)
    text = (FOLDER / "page.txt").read_text(encoding="utf-8")
    return text.replace("TABLE\n", "".join(rows)).replace("HITS", f"{hits} of {len(results)}")


def numbers(text: str) -> Iterator[int]:
    """Yield the numbers of a list with spans.

    Examples:
        >>> list(numbers("1-3,7"))
        [1, 2, 3, 7]
    """
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def missing() -> str | None:
    """Return what this needs and this machine lacks; none: nothing."""
    for program in ("ping", "iperf3", "unshare"):
        if shutil.which(program) is None:
            return f"there is no `{program}` here"
    if os.geteuid() != 0:
        return "it needs root, for `perigee exec` and the engine `emu`"
    return None if Path("/dev/net/tun").exists() else "there is no /dev/net/tun here"


def main() -> None:
    """Carry out what has no result yet, and write the page of all that have one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", default=f"1-{PATHS}", help=f"which of them, such as 1-5,9 (all: 1-{PATHS})")
    parser.add_argument("--seed", type=int, default=SEED, help="of the draw")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "validation-advise", help="where results go")
    parser.add_argument("--again", action="store_true", help="advise anew on the logs of the paths that were measured")
    options = parser.parse_args()
    if reason := missing():
        print(f"validate-advise: skipped: {reason}")
        return
    if shutil.which("irtt") is None:
        print("there is no `irtt` here (apt install irtt): paths are known by ping and iperf3 alone", file=sys.stderr)
    for number in numbers(options.paths):
        path, folder = paths.drawn(options.seed, number), options.out / f"path-{number:02d}"
        done = folder.with_suffix(".json")
        if done.exists() == options.again:
            print(f"path {number}: {path.said}", file=sys.stderr, flush=True)
            made = carry_out(path, folder, again=options.again)
            done.with_suffix(".part").write_text(json.dumps(made, indent=1), encoding="utf-8")
            done.with_suffix(".part").rename(done)
    results = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(options.out.glob("path-*.json"))]
    if options.seed == SEED and results:
        PAGE.write_text(written(results), encoding="utf-8")
        print(PAGE)


if __name__ == "__main__":
    main()
