# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Candidates as a program might write them: of varied quality, some of them broken; the same for the same seed."""

from __future__ import annotations

import random
from pathlib import Path
from string import Template

HEAD = '#include "tcp.h"\n#define PARAMETERS(P)\nCC_PARAMETERS(PARAMETERS)\n'
REGISTER = """
CC_CALLBACK(u32, own_undo_cwnd, struct sock *sk) { return tcp_reno_undo_cwnd(sk); }
CC_REGISTER($name, "Written: $kind", PARAMETERS,
	.ssthresh = OP(own_ssthresh), .cong_avoid = OP(own_cong_avoid), .undo_cwnd = OP(own_undo_cwnd))
"""
REDUCE = """
CC_CALLBACK(u32, own_ssthresh, struct sock *sk) { return max32(tcp_sk(sk)->snd_cwnd * $keep / 16, 2); }
"""
GROW = """
CC_CALLBACK(void, own_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	$first
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh)
		acked = tcp_slow_start(tp, acked);
	if (acked)
		$then
}
"""
KINDS = {
    "additive": "tcp_cong_avoid_ai(tp, max32(tp->snd_cwnd / $rate, 1), acked);",
    "multiplicative": "tp->snd_cwnd += acked / $rate + 1;",
    "bounded": "if (tp->snd_cwnd < 10 * $rate) tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);",
    "by root": "tcp_cong_avoid_ai(tp, max32(tp->snd_cwnd / max32(tp->snd_cwnd / 64, 1), 2), acked);",
}
FAULTS = {
    "unknown field": "tp->snd_cwmd = 2;",
    "no C": "if if",
    "null": "*(volatile int *)0 = 1;",
    "loop": 'for (;;) __asm__ volatile("");',
    "division": "volatile u32 zero = 0; tp->snd_cwnd = 10 / zero;",
}
FAULTY = 0.15
"""Share of the candidates that are broken."""


def text(name: str, kind: str, *, keep: int = 8, rate: int = 1, first: str = "") -> str:
    """Return one candidate.

    Args:
        name: its name.
        kind: a key of `KINDS`.
        keep: what a loss leaves of the window, in sixteenths.
        rate: how fast it grows.
        first: statements before anything else on each acknowledgement.
    """
    words = {"name": name, "kind": kind, "keep": keep, "rate": rate, "first": first}
    words["then"] = Template(KINDS[kind]).substitute(words)
    return HEAD + "".join(Template(part).substitute(words) for part in (REDUCE, GROW, REGISTER))


def write(folder: Path, count: int, seed: int = 1) -> list[Path]:
    """Write candidates into a folder, and return their files."""
    rolled = random.Random(seed)  # noqa: S311 - a test repeats
    paths = []
    for place in range(count):
        kind = rolled.choice(list(KINDS))
        fault = rolled.choice(list(FAULTS)) if rolled.random() < FAULTY else ""
        written = text(
            f"own_{place}",
            kind,
            keep=rolled.randint(1, 15),
            rate=rolled.choice([1, 1, 2, 4, 8, 16]),
            first=FAULTS.get(fault, ""),
        )
        path = folder / f"own_{place}.c"
        path.write_text(written, encoding="utf-8")
        paths.append(path)
    return paths
