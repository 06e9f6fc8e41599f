# SPDX-License-Identifier: GPL-2.0-only OR MIT
# ruff: noqa: E501 - an algorithm is a few lines here
"""Parameters of the congestion controls of random studies: usual values near the default, and now and then a bound.

Like `studies.py` it needs the standard library only; a test holds it against what the algorithms declare.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

SLOW_START = ("slow_start", "saved_window", "saved_rtt", "saved_age", "lifetime", "max_ssthresh 100 2 1000000 packets")
"""Parameters of algorithms with a choice of slow starts."""
SLOW_STARTS = ("classic", "hystart", "hystart++", "search", "rapid", "careful", "careful", "limited")
HYSTART = ("ack_train on off", "delay on off", "low_window 16 2 1000000 packets")
CUBIC = ("fast_convergence on off", "tcp_friendliness on off")

PARAMETERS: Mapping[str, Sequence[str]] = {
    "reno": SLOW_START,
    "cubic": (
        "beta 70 50 99.9 %", "growth_limit 160 0 1000000 packets", "first_growth 5 0.1 50 %", "initial_ssthresh 100 0 1000000000 packets",
        *CUBIC, *HYSTART, *SLOW_START,
    ),
    "sicc": (
        "period 15000 1000 600000 ms", "tolerance 0 0 10000 ms", "whole_seconds on off", "burst 2000 0 60000 ms", "rule pseudocode equation", "memory 16 1 32",
        "beta_periodic 100 50 100 %", "beta_congestion 70 50 99.9 %", "beta_random 90 50 100 %", "periodic_growth continues restarts", "undo largest before",
        *CUBIC, *HYSTART, *SLOW_START,
    ),
    "compound": (
        "alpha 12.5 0.1 100 %", "beta 50 0.1 99.9 %", "k 75 10 100 %", "gamma 30 1 1000000 packets", "zeta 100 0.1 400 %", "tuning on off",
        "lambda 80 0.1 100 %", "gamma_least 5 1 1000000 packets", "low_window 41 2 1000000 packets", "form draft module",
    ),
    "westwood": ("adaptive_start on off", "stability 10 0 100"),
    "westwood_plus": ("rtt sample smoothed", "reduction half estimate", *SLOW_START),
    "highspeed": SLOW_START,
    "bic": (
        "beta 80 50 99.9 %", "low_window 14 0 1000000 packets", "max_increment 16 1 1000000 packets", "smooth_part 20 1 1000",
        "fast_convergence on off", "initial_ssthresh 100 0 1000000000 packets", *SLOW_START,
    ),
    "htcp": ("delta_l 1000 0 60000 ms", "rtt_scaling on off", "bandwidth_switch on off", "smoothed on off", *SLOW_START),
    "vegas": ("alpha 2 0 1000000 packets", "beta 4 0 1000000 packets", "gamma 1 0 1000000 packets", "alternate on off",
              "backlog window sent", "slow_start_end threshold final"),
    "hybla": ("rtt0 25 1 1000 ms", "pacing on off", "estimate on off", "train 4 2 1000 packets", *SLOW_START),
    "bbr": ("extra_acked on off", "probe_rtt_interval 10000 1000 600000 ms", "probe_rtt_time 200 0 10000 ms"),
    "bbr3": (
        "probe_rtt_interval 5000 1000 600000 ms", "probe_rtt_time 200 0 10000 ms", "min_rtt_window 10000 1000 600000 ms", "ecn on off", "probe_rtt_cycle on off",
    ),
    "fast": ("alpha 200 1 100000 packets", "gamma 50 0.1 100 %"),
    "illinois": (
        "alpha_min 30 0.1 100 %", "alpha_max 10 1 1000", "beta_min 12.5 0.1 50 %", "beta_max 50 0.1 99.9 %",
        "threshold 10 0 1000000 packets", "theta 5 1 100", *SLOW_START,
    ),
    "ledbat_pp": ("target 60 1 10000 ms", "slowdowns on off"),
    "dctcp": ("gain 6.25 0.1 100 %", "initial_alpha 100 0 100 %"),
    "copa": ("packets 2 1 1000 packets", "competitive on off", "rtt_min_window 10000 1000 600000 ms"),
    "vivace": (
        "exponent 90 10 100 %", "latency 900 0 100000", "loss 1135 0 1000000 %", "drain_reward on off", "initial 25 2 10000 packets",
        "start_gain 200 110 400 %", "probe 5 0.5 25 %", "step 100 0.1 102400 %", "boundary 5 0.5 100 %", "boundary_step 10 0.5 100 %",
        "gradient_floor 1 0 100 %", "trend_floor 1.5 0 100 %", "initial_rate 4000000 0 1000000000 bit/s", "start ahead waits",
        "start_utility whole rise", "interval base smoothed", "gradient regression ends", "noise learned floor",
        "moves both_ways upwards", "confidence paper linear", "window base smoothed", "limited ignored counted",
        "timeout halves keeps",
    ),
}  # fmt: skip
"""Each algorithm's parameters: a choice with its words, or a number with default, bounds and unit."""


def congestion_control(chance: random.Random) -> str:
    """An algorithm as a value of `cc`: in half of the cases with a few of its parameters."""
    name = chance.choice(list(PARAMETERS))
    parameters = PARAMETERS[name]
    count = min(chance.choice((0, 0, 0, 1, 2, 4)), len(parameters))
    given = dict(_drawn(chance, one) for one in chance.sample(parameters, count))
    if given.get("slow_start") == '"careful"':
        given |= {
            "saved_window": str(chance.choice((10, 100, 1000))),
            "saved_rtt": f'"{chance.choice((20, 200, 600))} ms"',
        }
    if given.keys() >= {"initial", "initial_rate"}:
        del given["initial"]
    if not given:
        return f'"{name}"'
    return f'{{ name = "{name}", {", ".join(f"{key} = {value}" for key, value in given.items())} }}'


def _drawn(chance: random.Random, parameter: str) -> tuple[str, str]:
    if parameter in SLOW_START and " " not in parameter:
        if parameter == "slow_start":
            return parameter, f'"{chance.choice(SLOW_STARTS)}"'
        if parameter == "saved_window":
            return parameter, str(chance.choice((0, 10, 300)))
        return parameter, f'"{chance.choice((0, 20, 600, 60_000))} ms"'
    name, *words = parameter.split()
    if not words[0][0].isdigit():
        return name, f'"{chance.choice(words)}"'
    default, least, most = map(float, words[:3])
    near = min(max(default * 4 ** chance.uniform(-1, 1), least), most)
    number = chance.choice((near, near, near, least, most))
    unit = words[3] if len(words) > 3 else ""
    if unit == "ms":
        return name, f'"{number:.2f} ms"'
    if unit == "bit/s":
        return name, f'"{number:.0f} bit/s"'
    if unit == "%":
        # Shares above one are written without their unit only.
        return name, f"{number / 100:.4f}"
    return name, f"{number:.0f}"
