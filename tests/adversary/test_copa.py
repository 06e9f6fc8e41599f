# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A flow of Copa alone never fills a queue, whatever the path: section 2.2 of its paper, with trains."""

from __future__ import annotations

from adversary.conftest import Attempts
from perigee.core import native
from perigee.places import headers
from perigee.store.streams import frame_of

RATES_MBPS = (1, 2, 3, 5, 10, 12, 15, 20, 30, 50, 100)
RTTS_MS = (10, 20, 30, 40, 50, 100, 600)
MEASURED_S = 30
PACKET_BITS = 12_000
FEW_PACKETS = 2.5 * 2
"""The paper's 2.5 / delta."""

STUDY = """
name = "alone"
nodes = ["a", "b"]
time_limit = "{end} s"
measure = {{ series = "1 s" }}
hosts = {{ rmem = ["4096 B", "131072 B", "100 MB"], wmem = ["4096 B", "16384 B", "100 MB"] }}
links = [{{ name = "path", between = ["a", "b"], rate = "{rate} Mbit/s", delay = "{delay} ms", queue = "5 MB" }}]
flows = [{{ name = "flow", from = "a", to = "b", duration = "{end} s", cc = "copa" }}]
"""


def test_copa_alone_never_fills_a_queue(attempts: Attempts) -> None:
    at = 0
    for number, chance in enumerate(attempts):
        # One cell after the other, from a random one on.
        at = chance.randrange(len(RATES_MBPS) * len(RTTS_MS)) if number == 0 else at + 1
        rate = RATES_MBPS[at % len(RATES_MBPS)]
        rtt = RTTS_MS[at // len(RATES_MBPS) % len(RTTS_MS)]
        assert_few_packets_wait(rate, rtt)


def assert_few_packets_wait(rate_mbps: float, rtt_ms: float) -> None:
    """Assert it of the time from 300 round trips on: over geostationary paths above 30 Mbit/s it takes that long."""
    begin = max(30, round(0.3 * rtt_ms))
    text = STUDY.format(end=begin + MEASURED_S, rate=rate_mbps, delay=rtt_ms / 2)
    done = native.Plan(text, "alone.toml", [], False, [], str(headers())).run(0, "sim", "", lambda *_: True)
    assert done is not None
    series = frame_of(done[0]["series"]).to_dicts()
    settled = [row for row in series if begin < row["t_s"] < begin + MEASURED_S]
    packet_ms = PACKET_BITS / (rate_mbps * 1e3)
    waiting = (sum(row["rtt_mean_ms"] for row in settled) / len(settled) - rtt_ms) / packet_ms - 1
    # Half of a train, too: what twice the rate sends in a millisecond leaves at once.
    most = FEW_PACKETS + rate_mbps * 1e6 * 1.024e-3 / PACKET_BITS
    assert waiting < most, f"{waiting:.1f} packets wait at {rate_mbps} Mbit/s x {rtt_ms} ms, and {most:.1f} may"
    share = sum(row["goodput_mbps"] for row in settled) / len(settled) / (rate_mbps * 1448 / 1500)
    assert share > 0.96, f"{share:.3f} of the rate at {rate_mbps} Mbit/s x {rtt_ms} ms"
