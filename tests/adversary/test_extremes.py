# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Studies at the ends of every range are carried out, refused or interrupted, in bounded memory."""

from __future__ import annotations

import random
from pathlib import Path

from adversary.conftest import Attempts, Limited, answered

HEAD = """
name = "extreme"
nodes = ["a", "b"]
seed = {seed}
rounds = {rounds}
time_limit = "{time_limit}"
[measure]
series = "{series}"
goodput_bin = "{bin}"
rtt_bin = "{rtt_bin}"
events = {events}
[hosts]
mss = "{mss}"
initial_window = {window}
rmem = ["4096 B", "{rmem}", "{rmem}"]
[[links]]
name = "l"
between = ["a", "b"]
rate = "{rate}"
delay = "{delay}"
queue = "{queue}"
loss = "{loss}"
[[flows]]
name = "f"
from = "a"
to = "b"
count = {count}
cc = "{cc}"
{amount}
[vary]
"links.l.delay" = {points}
"""

ENDS = {
    "rounds": ["1", "2", "1000000"],
    "time_limit": ["1 ms", "1 s", "1 h", "720 h"],
    "series": ["1 ms", "1 s", "3600 s", "off"],
    "bin": ["1 ms", "3600 s"],
    "rtt_bin": ["1 us", "1 s"],
    "events": ["false", "false", "true"],
    "mss": ["88 B", "1460 B", "65495 B"],
    "window": ["1", "1000"],
    "rmem": ["4096 B", "6291456 B", "2000000000 B"],
    "rate": ["1 kbit/s", "10 kbit/s", "100 Mbit/s", "1000 Gbit/s", "unlimited"],
    "delay": ["0 ms", "1 ns", "300 ms", "3600 s"],
    "queue": ["1 B", "1500 B", "1000 GB"],
    "loss": ["0 %", "0.0001 %", "99 %", "100 %"],
    "count": ["1", "3", "10000"],
    "cc": ["reno", "cubic", "bbr", "vivace", "hybla", "vegas"],
    "amount": ['size = "1 B"', 'size = "1 MB"', 'size = "1000000 GB"', 'duration = "1 ms"', 'duration = "720 h"'],
}


def extreme(chance: random.Random) -> str:
    """A study of extreme values."""
    values = {key: chance.choice(ends) for key, ends in ENDS.items()}
    # The first seed, that of every day, has 500: a plan of 5000 takes ten seconds of processor time.
    points = chance.choice((1, 2, 5000, 500))
    return HEAD.format(seed=chance.choice((0, 2**53)), points=[f"{n} ms" for n in range(points)], **values).replace(
        "'", '"'
    )


def test_a_study_at_the_ends_of_every_range_stays_within_its_memory(
    attempts: Attempts, limited: Limited, tmp_path: Path
) -> None:
    for number, chance in enumerate(attempts):
        path = tmp_path / f"{number}.toml"
        path.write_text(text := extreme(chance))
        print(text[:1200])
        dry = limited("run", path, "--dry-run", seconds=30)
        answered(dry)
        assert dry.returncode != 130, "a dry run takes seconds"
        if dry.returncode == 0:
            answered(limited("run", path, "--jobs", "1", "--out", tmp_path / str(number), seconds=8))
