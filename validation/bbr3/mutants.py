# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Wrong variants of bbr3.c, each of which has to fail a case: a suite that no fault trips proves nothing.

A mutant is a replacement in the algorithm's text that fits at exactly one place. `mutants.py` carries the cases out
that each has to
fail, and says which did; `mutants.py --find NAME` looks for all cases of the reduced grid that a mutant fails.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER))

from case import QUICK, Case, Cell  # noqa: E402
from grid import cell, chosen, known_misses, laid_out, outcome  # noqa: E402

ALGORITHMS = FOLDER.parents[1] / "algorithms"


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes:
        name: its name.
        old: the text it replaces, which the algorithm has once.
        new: the text in its place.
        case: a case that it fails, with the variant.
        cell: in this cell.
    """

    name: str
    old: str
    new: str
    case: str
    cell: str = "20M/20ms"


MUTANTS = [
    # Seen in the review of another implementation.
    Mutant(
        "a-loss-per-event",
        ".lost = tp->lost - then->lost",
        ".lost = min32(tp->lost - then->lost, 1)",
        "06",
        "20M/600ms",
    ),
    Mutant(
        "reno-rounds-in-bytes", "min32(target_inflight(sk, b), RENO", "min32(target_inflight(sk, b) * 1448, RENO", "05"
    ),
    Mutant(
        "first-acked-not-delivered",
        "s.delivered = (u32)rs->delivered;",
        "s.delivered = (u32)rs->delivered - 1;",
        "14",
        "64k/20ms",
    ),
    Mutant(
        "no-sample-of-first-flight",
        "if (rs->delivered > 0 &&",
        "if (rs->prior_delivered > 10 && rs->delivered > 0 &&",
        "01",
    ),
    # Gains.
    Mutant("startup-gain-289", "#define STARTUP_GAIN 277", "#define STARTUP_GAIN 289", "20"),
    Mutant("drain-gain-35", "#define DRAIN_GAIN 50", "#define DRAIN_GAIN 35", "03"),
    Mutant("down-gain-91", "#define DOWN_GAIN 90", "#define DOWN_GAIN 91", "08/unbounded"),
    Mutant("up-gain-115", "#define UP_GAIN 125", "#define UP_GAIN 115", "05"),
    Mutant("up-window-200", "#define UP_CWND_GAIN 225", "#define UP_CWND_GAIN 200", "05"),
    Mutant("probe-rtt-window-100", "#define PROBE_RTT_CWND_GAIN 50", "#define PROBE_RTT_CWND_GAIN 100", "10"),
    Mutant("no-margin", "#define PACING_PERCENT 99", "#define PACING_PERCENT 100", "03"),
    Mutant("smallest-window-2", "#define MIN_WINDOW 4", "#define MIN_WINDOW 2", "14", "64k/20ms"),
    # The full pipe.
    Mutant("full-after-2-rounds", "#define FULL_BW_ROUNDS 3", "#define FULL_BW_ROUNDS 2", "01"),
    Mutant("full-after-4-rounds", "#define FULL_BW_ROUNDS 3", "#define FULL_BW_ROUNDS 4", "01"),
    Mutant("full-below-10-percent", "#define FULL_BW_PERCENT 125", "#define FULL_BW_PERCENT 110", "15/unbounded"),
    Mutant("limited-samples-fill", "!b->round_start || s->is_app_limited)", "!b->round_start)", "07/startup"),
    # Losses.
    Mutant(
        "startup-exit-by-three",
        "#define STARTUP_LOSS_EVENTS 6",
        "#define STARTUP_LOSS_EVENTS 3",
        "02/five-places",
        "20M/100ms",
    ),
    Mutant(
        "startup-exit-never",
        "#define STARTUP_LOSS_EVENTS 6",
        "#define STARTUP_LOSS_EVENTS 250",
        "02/lossy",
        "20M/100ms",
    ),
    Mutant(
        "startup-exit-by-any-share",
        "b->loss_events >= STARTUP_LOSS_EVENTS && is_inflight_too_high(s)",
        "b->loss_events >= STARTUP_LOSS_EVENTS",
        "02/below-2-percent",
        "10G/100ms",
    ),
    Mutant("threshold-30-percent", "#define LOSS_PERCENT 2", "#define LOSS_PERCENT 30", "06"),
    Mutant(
        "longterm-by-limited",
        "if (!s->is_app_limited)\n\t\tb->inflight_longterm",
        "if (1)\n\t\tb->inflight_longterm",
        "06",
    ),
    Mutant(
        "longterm-below-beta",
        "max32(inflight, percent_of(target_inflight(sk, b), BETA))",
        "percent_of(target_inflight(sk, b), 40)",
        "21",
    ),
    Mutant(
        "shortterm-stays-at-refill", "b->state = PROBE_REFILL;\n\treset_shortterm(b);", "b->state = PROBE_REFILL;", "16"
    ),
    Mutant("no-shortterm", "if (b->loss_in_round && !is_probing(b))", "if (0)", "16"),
    # Cycles.
    Mutant(
        "one-cycle",
        "return max64(b->bw_this_cycle, b->bw_last_cycle);",
        "return b->bw_this_cycle ? b->bw_this_cycle : b->bw_last_cycle;",
        "09/cut-12",
        "20M/100ms",
    ),
    Mutant(
        "never-forgets",
        "b->bw_last_cycle = b->bw_this_cycle;\n\tb->bw_this_cycle = 0;",
        "b->bw_last_cycle = max_bw(b);\n\tb->bw_this_cycle = 0;",
        "16",
    ),
    Mutant(
        "limited-samples-lower",
        "if (!s->is_app_limited || s->bw >= max_bw(b))",
        "b->bw_last_cycle = 0;\n\tif (s->is_app_limited)\n\t\tb->bw_this_cycle = s->bw;\n\telse",
        "22",
    ),
    Mutant("no-headroom", "#define HEADROOM 15", "#define HEADROOM 0", "08/bounded"),
    Mutant("drain-of-6-rounds", "#define DRAIN_ROUNDS_MAX 3", "#define DRAIN_ROUNDS_MAX 6", "04/cut-50"),
    Mutant("drain-of-1-round", "#define DRAIN_ROUNDS_MAX 3", "#define DRAIN_ROUNDS_MAX 1", "04/cut-50"),
    Mutant("wait-of-1-s", "#define PROBE_WAIT_US 2000000", "#define PROBE_WAIT_US 1000000", "09/cut-12", "20M/100ms"),
    Mutant(
        "slope-does-not-double",
        "u32 growth = 1U << min32(b->up_rounds, UP_DOUBLINGS_MAX);",
        "u32 growth = 1U;",
        "15/bounded",
        "20M/100ms",
    ),
    # ProbeRTT, idle, undo, bursts.
    Mutant(
        "probe-rtt-each-10-s", 'P(probe_rtt_interval, "us", 5000000,', 'P(probe_rtt_interval, "us", 10000000,', "20"
    ),
    Mutant("probe-rtt-of-50-ms", 'P(probe_rtt_time, "us", 200000,', 'P(probe_rtt_time, "us", 50000,', "10"),
    Mutant(
        "probe-rtt-without-round", "if (b->probe_rtt_round_done)\n\t\tcheck", "if (1)\n\t\tcheck", "10", "20M/600ms"
    ),
    Mutant("probe-rtt-ends-in-up", "b->state = PROBE_CRUISE;\n}", "b->state = PROBE_UP;\n}", "10"),
    Mutant(
        "probe-rtt-ends-startup",
        "if (!b->full_bw_reached) {\n\t\tb->state = STARTUP;",
        "if (0) {\n\t\tb->state = STARTUP;",
        "20",
    ),
    Mutant("idle-restart-stays", "if (rs->delivered > 0)\n\t\tb->idle_restart = 0;", "", "11"),
    Mutant("idle-restart-unknown", "b->idle_restart = 1;", "", "11"),
    Mutant(
        "undo-takes-minima",
        "b->inflight_longterm = max32(b->inflight_longterm, b->undo_inflight_longterm);",
        "b->inflight_longterm = min32(b->inflight_longterm, b->undo_inflight_longterm);",
        "18/up",
        "20M/100ms",
    ),
    Mutant("undo-of-up-forgotten", "b->undo_state == PROBE_UP && b->state != PROBE_UP", "0", "18/up", "20M/100ms"),
    Mutant(
        "undone-losses-count",
        "b->lost_seen = tcp_sk(sk)->lost;\n\treset_full_bw(b);",
        "reset_full_bw(b);",
        "19",
        "64k/600ms",
    ),
    Mutant("bursts-have-no-room", "cwnd_gain(b)) + b->extra.best.value", "cwnd_gain(b))", "12", "20M/100ms"),
]


def text_of(mutant: Mutant | None = None) -> str:
    """Return the algorithm as one file: its own headers are put in their places; with the fault, if any.

    Raises:
        ValueError: the replaced text is there not once.
    """
    seen: set[str] = set()

    def inline(path: Path) -> str:
        def header(found: re.Match[str]) -> str:
            if found[1] in seen:
                return ""
            seen.add(found[1])
            return inline(ALGORITHMS / found[1])

        return re.sub(r'#include "(bbr3/[a-z_]+\.h)"\n', header, path.read_text(encoding="utf-8"))

    text = inline(ALGORITHMS / "bbr3.c")
    if mutant is None:
        return text
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: the algorithm has `{mutant.old}` {text.count(mutant.old)} times, not once")
    return text.replace(mutant.old, mutant.new)


def failed_checks(mutant: Mutant, jobs: Sequence[tuple[Case, Cell]]) -> list[str]:
    """Return a line per check that a mutant fails and the algorithm does not.

    Args:
        mutant: the fault.
        jobs: cases and cells.
    """
    known = {(miss.case, miss.cell) for miss in known_misses()}
    with tempfile.TemporaryDirectory(prefix="perigee-bbr3-") as name:
        file = Path(name) / "bbr3.c"
        file.write_text(text_of(mutant), encoding="utf-8")
        return [
            f"{case} {where}: {verdict}"
            for case, where in jobs
            if (str(case), str(where)) not in known
            for verdict in outcome(case, where, str(file)).missed
        ]


def _own(mutant: Mutant) -> list[str]:
    return failed_checks(mutant, [(case, cell(mutant.cell)) for case in chosen([mutant.case])])


def _any(mutant: Mutant) -> list[str]:
    return failed_checks(mutant, laid_out(chosen([]), QUICK))


def failed_by(mutants: Sequence[Mutant], workers: int = 2, find: bool = False) -> Iterator[tuple[Mutant, list[str]]]:
    """Yield each mutant with the checks that it fails of its case, or with `find` of the whole reduced grid."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from zip(mutants, pool.map(_any if find else _own, mutants), strict=True)


def main() -> int:
    """Say which mutants fail their case."""
    parser = argparse.ArgumentParser(description="Mutants of bbr3.c.")
    parser.add_argument("names", nargs="*", help="these only")
    parser.add_argument("--find", action="store_true", help="look in all cases of the reduced grid")
    options = parser.parse_args()
    survivors = []
    of = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    for mutant, failed in failed_by(of, find=options.find):
        print(f"{mutant.name}: {failed[0] if failed else 'SURVIVES'}")
        for line in failed[1:] if options.find else []:
            print(f"  {line}")
        if not failed:
            survivors.append(mutant.name)
    print(f"{len(survivors)} of {len(of)} survive" + (f": {', '.join(survivors)}" if survivors else ""))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
