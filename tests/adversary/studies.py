# SPDX-License-Identifier: GPL-2.0-only OR MIT
# ruff: noqa: E501 - a line of the study is a line here
"""Random studies of everything that the simulator carries, and the ways in which it carries them.

A study is derived from a source of random numbers alone. It is small: some thousand packets, a few seconds of virtual
time. The module needs nothing but the standard library, so that `tools/differential.py` can use it beside builds of
other commits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from adversary.parameters import congestion_control

SYSTEMS = (
    "linux-6.18",
    "linux-6.1",
    "linux-5.10",
    "linux-4.15",
    "linux-2.6.20",
    "windows-11",
    "macos-15",
    "rfc",
    "ns-2",
)
"""The presets of hosts."""

WAYS: Mapping[str, Sequence[str]] = {
    "fast": (),
    "plain": ("carriage=plain", "measure.events=true", "measure.pcap=true"),
    "events": ("measure.events=true",),
    "captures": ("measure.pcap=true",),
}
"""Settings of the ways in which a study is carried; what two of them write has to be the same."""


def number(chance: random.Random, least: float, most: float) -> float:
    """A number between two others, uniform in its logarithm."""
    return float(least * (most / least) ** chance.random())


def sometimes(chance: random.Random, share: float, text: Callable[[], str]) -> list[str]:
    """A text in a share of the cases; its random numbers are drawn in these only."""
    return [text()] if chance.random() < share else []


def study(chance: random.Random) -> str:
    """A study: a chain, a star or a tree of nodes, with a few more links, proxies, routes and flows of all kinds."""
    nodes = [f"n{place}" for place in range(chance.choice((2, 3, 3, 3, 4, 4, 5, 6)))]
    ends = _ends(chance, nodes)
    # Most often a flow is alone, which is when its receiver is asked ahead of time.
    flows = chance.choice((1, 1, 1, 1, 1, 2, 2, 3, 4, 5))
    names = [f"f{place}" for place in range(flows)]
    parts = [
        f"""\
name = "random"
nodes = {_words(nodes)}
seed = {chance.randrange(1 << 30)}
time_limit = "{number(chance, 1200, 20000):.0f} ms\""""
    ]
    parts.append("[measure]\n" + "\n".join(_measure(chance)))
    parts.append("[hosts]\n" + "\n".join(switches(chance)))
    if chance.random() < 0.2:
        parts.append(f"[hosts.{chance.choice(nodes)}]\n" + "\n".join(switches(chance)))
    parts += [_link(chance, f"l{place}", pair) for place, pair in enumerate(ends)]
    # Over the whole of a chain or a tree more often than between neighbours: rows need two links and more.
    pairs = [
        chance.choice(((nodes[0], nodes[-1]), (nodes[-1], nodes[0]), tuple(chance.sample(nodes, 2)))) for _ in names
    ]
    is_limited = not any("unlimited" in part for part in parts)
    texts = [_flow(chance, name, pair, is_limited) for name, pair in zip(names, pairs, strict=True)]
    passed = [_between(ends, pair) for pair, text in zip(pairs, texts, strict=True) if "cc = " in text]
    parts += [*texts, *_routes(chance, nodes, ends), *_proxies(chance, sorted(set().union(*passed)), ends)]
    return "\n".join(parts) + "\n"


def switches(chance: random.Random) -> list[str]:
    """TCP settings other than the default; most often few of them, so that fast paths are taken."""
    every: list[Callable[[], str]] = [
        lambda: f'mss = "{chance.choice((88, 536, 1220, 1460, 1460, 8960, 30000, 65000))} B"',
        lambda: f"initial_window = {chance.choice((1, 2, 3, 4, 10, 30, 100))}",
        lambda: f'initial_window_cut = "{chance.choice(("any", "several"))}"',
        lambda: (
            f'rmem = ["4096 B", "{chance.choice((4096, 16384, 131072, 1000000))} B", "{chance.choice((1, 4, 60))} MB"]'
        ),
        lambda: f'wmem = ["4096 B", "16384 B", "{number(chance, 2e4, 6e7):.0f} B"]',
        lambda: "receive_autotuning = false",
        lambda: f'segment_memory = "{chance.choice((256, 1024, 4352, 9000))} B"',
        lambda: f'window_share = "{chance.choice(("half", "three-quarters"))}"',
        lambda: "timestamps = false",
        lambda: "window_scaling = false",
        lambda: chance.choice(("sack = false", "sack = false", "sack = false\nimpatient_newreno = true")),
        lambda: "nagle = true",
        lambda: "dsack = false",
        lambda: "rack = false",
        lambda: "tlp = false",
        lambda: "frto = false",
        lambda: chance.choice(("prr = false", "prr = false\nrate_halving = true")),
        lambda: "abc = false",
        lambda: "delayed_acks = false",
        lambda: f'delayed_ack_max = "{chance.choice((1, 10, 200, 500))} ms"',
        lambda: "ack_compression = false",
        lambda: "quick_acks = false",
        lambda: "slow_start_after_idle = false",
        lambda: "pacing = true",
        lambda: "segmentation_offload = false",
        lambda: "train_refill = false",
        lambda: "train_push = false",
        lambda: "short_train_waits = false",
        lambda: "late_ack_events = false",
        lambda: f'tick = "{chance.choice((1, 4, 10))} ms"',
        lambda: f'like = "{chance.choice(SYSTEMS)}"',
        lambda: f'receive_offload = "{number(chance, 1, 1000):.0f} us"',
        lambda: f'processing_time = "{number(chance, 1, 3000):.0f} us"',
        lambda: f'initial_rto = "{chance.choice((100, 300, 3000))} ms"',
        lambda: f'rto_min = "{chance.choice((1, 20, 1000))} ms"',
        lambda: 'rto_floor = "timeout"',
        lambda: f'rto_max = "{chance.choice((1, 5, 60))} s"',
        lambda: f"syn_retries = {chance.randint(1, 4)}",
        lambda: f"syn_linear_timeouts = {chance.randint(0, 3)}",
        lambda: f"synack_retries = {chance.randint(0, 4)}",
        lambda: f"retries2 = {chance.randint(1, 6)}",
        lambda: f"reordering = {chance.choice((1, 2, 10, 300))}",
        lambda: f"cwnd_clamp = {chance.choice((2, 3, 7, 20, 60, 300))}",
        lambda: chance.choice(("ecn = true", "ecn = true", "ecn = true\nl4s = true")),
        lambda: f'receiver_kind = "{chance.choice(("ack-splitting", "optimistic-ack", "hidden-loss", "ignore-ce"))}"',
    ]
    count = chance.choice((0, 0, 0, 1, 1, 2, 3, 8))
    return [one() for one in chance.sample(every, count)]


def _ends(chance: random.Random, nodes: list[str]) -> list[tuple[str, str]]:
    shape = chance.choice(("chain", "chain", "chain", "star", "tree"))
    before = {"chain": range(-1, 5), "star": [0] * 6, "tree": [chance.randrange(place or 1) for place in range(6)]}[
        shape
    ]
    ends = [(nodes[before[place]], node) for place, node in enumerate(nodes) if place]
    more = chance.choice((0, 0, 0, 0, 1, 2))
    for _ in range(more):
        first, second = chance.sample(nodes, 2)
        ends.append((first, second))
    # A link beside another one, for routes.
    return ends + ([(nodes[-1], nodes[-2])] if chance.random() < 0.12 else [])


def _measure(chance: random.Random) -> list[str]:
    # A short interval has many rows, and its ends part rows of acknowledgements.
    series = chance.choice(('"off"', '"1 s"', '"7 s"', '"100 ms"', '"100 ms"', f'"{number(chance, 5, 900):.0f} ms"'))
    lines = [f"series = {series}"]
    lines += sometimes(chance, 0.2, lambda: f'startup = "{chance.choice(("20 kB", "300 kB", "700 ms"))}"')
    lines += sometimes(chance, 0.2, lambda: 'steady = "off"')
    lines += sometimes(chance, 0.2, lambda: f'goodput_bin = "{number(chance, 10, 2000):.0f} ms"')
    lines += sometimes(
        chance, 0.2, lambda: f'milestones = {{ every = "{chance.randint(20, 90)} kB", upto = "700 kB" }}'
    )
    lines += sometimes(chance, 0.1, lambda: "rtt = false")
    lines += sometimes(chance, 0.15, lambda: f"capture = {_capture(chance)}")
    return lines


def _capture(chance: random.Random) -> str:
    first = chance.randint(0, 300)
    least = chance.choice((0, 0, 40, 400))
    begin = sometimes(chance, 0.5, lambda: f'first = "{chance.choice((0, 1, 20, 200))} kB", ')
    return (
        f'{{ startup = "{number(chance, 100, 3000):.0f} ms", {"".join(begin)}from = "{first} kB",'
        f' upto = "{first + chance.randint(1, 900)} kB", least = "{least} ms" }}'
    )


def _link(chance: random.Random, name: str, ends: tuple[str, str]) -> str:
    lines = [f'[[links]]\nname = "{name}"\nbetween = ["{ends[0]}", "{ends[1]}"]']
    lines += sometimes(chance, 0.12, lambda: f'mtu = "{chance.choice((576, 1280, 1500, 9000))} B"')
    # Lines between ends are fast where the link is none that matters.
    is_quick = chance.random() < 0.3
    for direction in ("down", "up"):
        lines.append(f"[links.{direction}]")
        lines += _direction(chance, is_quick)
    return "\n".join(lines)


def _direction(chance: random.Random, is_quick: bool) -> list[str]:
    if is_quick:
        lines = [f'rate = "{chance.choice((20, 100, 1000))} Mbit/s"', f'delay = "{number(chance, 0.01, 20):.3f} ms"']
        return lines + sometimes(chance, 0.2, lambda: f"queue = {_queue(chance)}")
    rate = _rate(chance)
    lines = [f"rate = {rate}", f"delay = {_delay(chance)}"]
    if "tdma" in rate:
        lines += sometimes(chance, 0.5, lambda: f'queue = "{number(chance, 3e3, 3e5):.0f} B"')
    else:
        lines += sometimes(chance, 0.75, lambda: f"queue = {_queue(chance)}")
        lines += sometimes(chance, 0.08, lambda: f'burst = "{number(chance, 2e3, 1e5):.0f} B"')
    lines += sometimes(chance, 0.2, lambda: f"loss = {_losses(chance)}")
    has_share = "tdma" not in rate and "unlimited" not in rate
    lines += sometimes(chance, 0.1, lambda: f"states = {_states(chance, has_share)}")
    lines += sometimes(chance, 0.15, lambda: f'overhead = "{chance.randint(1, 200)} B"')
    loaded = (
        '{ above = "300 kbit/s", window = "100 ms", delay = "40 ms", sd = "15 ms", every = "50 ms", memory = "90 ms" }'
    )
    lines += sometimes(chance, 0.08, lambda: f"loaded = {loaded}")
    treatments = ("compatibility", "ignore-outer", "bleach", "drop")
    return lines + sometimes(chance, 0.08, lambda: f'ecn = "{chance.choice(treatments)}"')


def _states(chance: random.Random, has_share: bool) -> str:
    """States of a direction; `has_share`: they may have a share of its rate."""
    states = ['{ stay = "400 ms" }']
    for _ in range(chance.choice((1, 1, 1, 2))):
        rate = sometimes(chance, 0.7 if has_share else 0, lambda: f', rate = "{chance.choice((3, 50, 90))} %"')
        states.append(
            f'{{ stay = "{chance.choice((20, 90, 300))} ms", delay = "{chance.choice((0, 30))} ms", '
            f'loss = "{chance.choice((0, 2, 100))} %"{"".join(rate)} }}'
        )
    return f"[{', '.join(states)}]"


def _rate(chance: random.Random) -> str:
    rate = number(chance, 1e5, 6e7)
    kind = chance.choice(("constant",) * 7 + ("fluctuating", "fluctuating", "slots", "tdma", "tdma", "acm"))
    if kind == "acm":
        return (
            f'{{ kind = "acm", median_db = {number(chance, 0.5, 8):.2f}, sigma = 1.2, memory = "1 s", length = "30 s", seed = {chance.randint(1, 99)}, '
            f'clear_sky_db = {chance.randint(4, 18)}, symbol_rate_mbaud = {max(0.1, rate / 2e6):.2f}, modcods = "{chance.choice(("dvb-s2", "dvb-s2x"))}", '
            f'signalling = "{chance.choice((0, 30, 600))} ms" }}'
        )
    if kind == "fluctuating":
        return (
            f'{{ kind = "fluctuating", mean = "{rate:.0f} bit/s", sd = "{rate * 0.3:.0f} bit/s", min = "{rate * 0.2:.0f} bit/s", '
            f'max = "{rate * 1.6:.0f} bit/s", every = "{chance.choice((1, 7, 30, 400))} ms", memory = "{chance.choice((0, 50))} ms" }}'
        )
    if kind == "slots":
        outage = chance.choice(("", ', outage = { length = "30 ms", rise = "20 ms" }'))
        return (
            f'{{ kind = "slots", mean = "{rate:.0f} bit/s", sd = "{rate * 0.3:.0f} bit/s", min = "{rate * 0.3:.0f} bit/s", '
            f'max = "{rate * 1.6:.0f} bit/s", ripple = "{chance.choice((0, 5))} %", period = "1 s"{outage} }}'
        )
    if kind == "tdma":
        carriers, terminals = chance.choice((1, 1, 1, 2, 3)), chance.randint(1, 4)
        slots = carriers * chance.randint(6, 60)
        requests = chance.choice(("rate", "volume", "both", "none"))
        background = sometimes(chance, 0.2, lambda: 'background = "40 kbit/s"')
        least = 0 if requests in ("volume", "both") and not background else 1
        more = [
            f"carriers = {carriers}",
            f"terminals = {terminals}",
            f"fixed = {chance.randint(least, max(least, min(slots // terminals // 2, slots // carriers)))}",
        ]
        more.append(f'requests = "{requests}"')
        more += sometimes(chance, 0.4, lambda: "free = true")
        more += sometimes(chance, 0.4, lambda: 'terminal = "flow"')
        more += sometimes(chance, 0.3, lambda: f'propagation = "{chance.choice((5, 260, 540))} ms"')
        more += sometimes(chance, 0.3, lambda: f'guard = "{chance.randint(1, 20)} us"')
        more += sometimes(chance, 0.3, lambda: f"multiframes = {chance.randint(2, 8)}")
        more += background
        more += (
            sometimes(chance, 0.5, lambda: f'busy = "{_waits(chance)} ms", idle = "{_waits(chance)} ms"')
            if background
            else []
        )
        more += sometimes(chance, 0.2, lambda: f"moves = {chance.randrange(slots // carriers)}")
        more += _by_rate(chance) if requests in ("rate", "both") else []
        more += sometimes(chance, 0.2, lambda: 'slow_payload = "40 B"') if least else []
        return (
            f'{{ kind = "tdma", superframe = "{chance.choice((10, 26, 90))} ms", slots = {slots}, '
            f'payload = "{chance.choice((50, 200, 298, 1600))} B", {", ".join(more)} }}'
        )
    return f'"{rate:.0f} bit/s"' if chance.random() < 0.95 else '"unlimited"'


def _by_rate(chance: random.Random) -> list[str]:
    """Keys of requests by rate."""
    return [
        *sometimes(chance, 0.2, lambda: 'drain = "2 s"'),
        *sometimes(chance, 0.2, lambda: f'memory = "{_waits(chance)} ms"'),
        *sometimes(chance, 0.2, lambda: f'memory_falling = "{_waits(chance)} ms"'),
        *sometimes(chance, 0.2, lambda: f'margin = "{chance.choice((1, 30))} %"'),
        *sometimes(chance, 0.3, lambda: 'follows = "growth"'),
    ]


def _waits(chance: random.Random) -> int:
    """A time constant of a TDMA channel, ms."""
    return chance.choice((5, 40, 300, 2000))


def _delay(chance: random.Random) -> str:
    delay = number(chance, 0.01, 300)
    kind = chance.choice(("constant",) * 6 + ("jitter", "jitter", "slots"))
    if kind == "jitter":
        body = chance.choice((
            '{ kind = "normal", sd = "3 ms" }', '{ kind = "uniform", width = "6 ms" }', '{ kind = "triangular", width = "20 ms" }',
            '{ kind = "log-normal", median = "2 ms", sigma = 0.7 }',
        ))  # fmt: skip
        tail = chance.choice((
            "", ', tail = { kind = "pareto", share = "10 %", every = "30 ms", max = "300 ms", min = "10 ms", shape = 1.5 }',
            ', tail = { kind = "log-normal", share = "3 %", every = "70 ms", max = "200 ms", median = "20 ms", sigma = 1.1 }',
        ))  # fmt: skip
        shape = chance.choice(("", ', shape = "linear"'))
        every, memory = chance.choice((1, 7, 50, 400)), chance.choice((0, 40))
        return f'{{ kind = "jitter", base = "{delay:.3f} ms", every = "{every} ms", memory = "{memory} ms", body = {body}{shape}{tail} }}'
    if kind == "slots":
        more = chance.choice((
            "", ', jitter = { body = { kind = "normal", sd = "1 ms" }, every = "5 ms" }', ', spikes = { length = "50 ms", height = "30 ms" }',
        ))  # fmt: skip
        return f'{{ kind = "slots", mean = "{delay:.3f} ms", sd = "{delay * 0.2:.3f} ms", period = "1 s"{more} }}'
    return f'"{delay:.3f} ms"'


def _queue(chance: random.Random) -> str:
    size = f'bytes = "{number(chance, 3e3, 6e5):.0f} B"'
    ecn = chance.choice(("", ", ecn = true"))
    step = f', ce_threshold = "{chance.choice((0, 1, 10))} ms"'
    codel = f', target = "{chance.choice((1, 5, 30))} ms", interval = "{chance.choice((20, 100, 400))} ms"'
    return chance.choice([
        f"{{ {size} }}", f"{{ {size} }}", f"{{ packets = {chance.randint(1, 200)} }}", f'{{ time = "{chance.randint(1, 900)} ms" }}',
        f"{{ {size}, packets = {chance.randint(1, 200)} }}", '"0 B"', "{ bdp = 0.7 }",
        f'{{ kind = "priority", {size} }}', f'{{ kind = "drop-front", {size} }}', f'{{ kind = "drop-front", packets = 40, time = "{chance.randint(1, 900)} ms" }}',
        f'{{ {size}, aqm = {{ kind = "viasat2", threshold = "{chance.randint(10, 90)} %", drop = "{chance.randint(1, 60)} %" }} }}',
        f'{{ {size}, aqm = {{ kind = "red", min = "3 kB", max = "20 kB", max_probability = "20 %", weight = "1 %"{ecn} }} }}',
        f'{{ {size}, aqm = {{ kind = "red", target_delay = "20 ms", adaptive = true, weight = "1 %"{ecn} }} }}',
        f'{{ {size}, aqm = {{ kind = "pie"{ecn} }} }}',
        f'{{ {size}, aqm = {{ kind = "pie", target = "3 ms", update = "5 ms", burst = "20 ms"{ecn} }} }}',
        f'{{ {size}, aqm = {{ kind = "codel"{ecn} }} }}', f'{{ {size}, aqm = {{ kind = "codel"{codel}{ecn} }} }}',
        f'{{ kind = "drop-front", {size}, aqm = {{ kind = "codel"{codel}{ecn} }} }}',
        f'{{ {size}, aqm = {{ kind = "codel"{codel}{step} }} }}', f'{{ {size}, aqm = {{ kind = "fq-codel"{step} }} }}',
        f'{{ {size}, aqm = {{ kind = "fq-codel" }} }}',
        f'{{ packets = {chance.randint(5, 400)}, aqm = {{ kind = "netem" }} }}',
        f'{{ {size}, aqm = {{ kind = "fq-codel", queues = {chance.choice((1, 2, 64))}, quantum = "{chance.choice((64, 300, 1514, 9000))} B"{codel} }} }}',
        f'{{ {size}, aqm = {{ kind = "dualpi2" }} }}', f'{{ {size}, aqm = {{ kind = "dualpi2", target = "4 ms", update = "5 ms" }} }}',
    ])  # fmt: skip


def _losses(chance: random.Random) -> str:
    processes = [
        f'"{chance.choice((0, 0.1, 0.5, 1, 5, 20, 100))} %"', f'"{chance.choice((0.1, 0.5, 1))} %"',
        f'{{ kind = "gilbert-elliott", loss = "{chance.choice((0.5, 2))} %", burst = {chance.choice((1.5, 4, 8))} }}',
        '{ kind = "gilbert-elliott", good_to_bad = "0.3 %", bad_to_good = "20 %", good_loss = "0.1 %", bad_loss = "60 %" }',
        f'{{ kind = "outages", gap = "{chance.choice((300, 3000))} ms", length = "{chance.choice((3, 40, 300))} ms", '
        f'loss = "{chance.choice((30, 100))} %" }}',
        f'{{ kind = "bit-errors", loss = "{chance.choice((0.1, 1, 100))} %", size = "{chance.randint(40, 9000)} B" }}',
        f'{{ kind = "trains", loss = "1 %", packets = {chance.randint(1, 16)} }}',
        f'{{ kind = "periodic", period = "{chance.randint(200, 2000)} ms", length = "{chance.randint(1, 150)} ms" }}',
        '{ kind = "slots", after = "30 ms", loss = "50 %", period = "1 s" }',
    ]  # fmt: skip
    chosen = chance.sample(processes, chance.choice((1, 1, 1, 2, 3)))
    return chosen[0] if len(chosen) == 1 else f"[{', '.join(chosen)}]"


def _flow(chance: random.Random, name: str, ends: tuple[str, ...], is_limited: bool) -> str:
    lines = [f'[[flows]]\nname = "{name}"\nfrom = "{ends[0]}"\nto = "{ends[1]}"']
    lines += sometimes(chance, 0.5, lambda: f'start = "{number(chance, 0.5, 1500):.3f} ms"')
    lines += sometimes(chance, 0.1, lambda: 'start_jitter = "300 ms"')
    lines += sometimes(chance, 0.1, lambda: f'count = {chance.randint(2, 3)}\nstagger = "{chance.randint(0, 300)} ms"')
    lines += sometimes(chance, 0.1, lambda: 'ip = "v6"')
    # Without a limit to the rate, a flow without a size is as large as the processor lets it be.
    kind = chance.choice(("size",) * 6 + ("duration" if is_limited else "size",) * 2 + tuple(_KINDS))
    if kind == "size":
        lines.append(f'size = "{number(chance, 3e3, 1.5e6):.0f} B"')
    elif kind == "duration":
        lines.append(f'duration = "{number(chance, 20, 1500):.0f} ms"')
    else:
        lines += [f'kind = "{kind}"', *_KINDS[kind](chance)]
    if kind in ("size", "duration"):
        lines += sometimes(chance, 0.3, lambda: 'opened_by = "sender"')
    if kind not in ("udp", "ping", "voice", "call"):
        lines.append(f"cc = {congestion_control(chance)}")
        settings = switches(chance) if chance.random() < 0.15 else []
        if settings:
            lines.append("[flows.tcp]\n" + "\n".join(settings))
    return "\n".join(lines)


def _request(chance: random.Random) -> list[str]:
    return [
        f'request = "{number(chance, 1, 3e4):.0f} B"\nresponse = "{number(chance, 1, 3e5):.0f} B"',
        f'repeat = {chance.randint(1, 9)}\nthink = "{chance.choice((0, 0, 3, 250, 900))} ms"',
    ]


def _transactions(chance: random.Random) -> list[str]:
    lines = [
        f'interval = "{chance.choice((5, 30, 200))} ms"\nrequest = "{chance.randint(1, 3000)} B"\nresponses = ["1 kB", "200 B", "20 kB"]'
    ]
    return [*lines, f'duration = "{chance.randint(100, 2000)} ms"', *_access(chance), *_warmup(chance)]


def _web(chance: random.Random) -> list[str]:
    return [
        f'connections_per_s = {chance.choice((1, 8, 40))}\nduration = "{chance.randint(100, 1500)} ms"',
        *_access(chance),
        *_warmup(chance),
    ]


def _pages(chance: random.Random) -> list[str]:
    lines = [
        f'duration = "{chance.randint(300, 4000)} ms"\npause = "{chance.choice((0, 200))} ms"',
        f"tls = {chance.randint(0, 2)}",
    ]
    lines.append(f'protocol = "{chance.choice(("http/1.1", "h2"))}"')
    lines.append(chance.choice(('page = "small"', 'responses = ["3 kB", "1 kB", "20 kB", "300 B"]')))
    return lines + _warmup(chance)


def _video(chance: random.Random) -> list[str]:
    lines = [
        f'duration = "{chance.choice((2, 6))} s"\nsegment = "{chance.choice((300, 1000))} ms"\nbuffer = "{chance.choice((2, 6))} s"'
    ]
    return [
        *lines,
        f'algorithm = "{chance.choice(("bola", "rate"))}"',
        'ladder = ["200 kbit/s", "700 kbit/s", "2 Mbit/s"]',
    ]


def _udp(chance: random.Random) -> list[str]:
    return [
        f'rate = "{number(chance, 1e4, 2e6):.0f} bit/s"\nduration = "{chance.randint(100, 3000)} ms"\npacket = "{chance.randint(48, 576)} B"',
        *_marks(chance),
    ]


def _voice(chance: random.Random) -> list[str]:
    lines = [f'duration = "{chance.randint(500, 4000)} ms"', *_marks(chance), *_warmup(chance)]
    return lines + sometimes(chance, 0.3, lambda: 'off = "0 s"')


def _call(chance: random.Random) -> list[str]:
    lines = [f'rate = "{number(chance, 5e4, 2e6):.0f} bit/s"\nduration = "{chance.randint(300, 2000)} ms"']
    return [*lines, 'packet = "500 B"', *_marks(chance), *_warmup(chance)]


def _ping(chance: random.Random) -> list[str]:
    return [
        f'interval = "{number(chance, 1, 900):.0f} ms"\nrepeat = {chance.randint(1, 60)}\npacket = "{chance.randint(48, 576)} B"'
    ]


def _access(chance: random.Random) -> list[str]:
    least = chance.choice((0, 0, 10))
    return sometimes(
        chance, 0.5, lambda: f'access_least = "{least} ms"\naccess_most = "{least + chance.choice((0, 5, 60))} ms"'
    )


def _warmup(chance: random.Random) -> list[str]:
    return sometimes(chance, 0.2, lambda: 'warmup = "200 ms"')


def _marks(chance: random.Random) -> list[str]:
    ecn = sometimes(chance, 0.3, lambda: chance.choice(("ecn = true", "ecn = true\nl4s = true")))
    return ecn + sometimes(chance, 0.3, lambda: 'priority = "low"')


_KINDS: Mapping[str, Callable[[random.Random], list[str]]] = {
    "request": _request, "transactions": _transactions, "web": _web, "pages": _pages, "video": _video, "udp": _udp, "voice": _voice,
    "call": _call, "ping": _ping,
}  # fmt: skip


def _routes(chance: random.Random, nodes: list[str], ends: list[tuple[str, str]]) -> list[str]:
    """Routes over a link beside another one, at times only or while that is dark."""
    first, second = nodes[-2:]
    ways = [f"l{place}" for place, pair in enumerate(ends) if set(pair) == {first, second}]
    if len(ways) < 2:
        return []
    hold = chance.choice(
        (
            f'start = "{chance.randint(0, 900)} ms"\nend = "{chance.randint(901, 4000)} ms"',
            f'while_dark = "{ways[0]}"\ndetect = "20 ms"',
            "",
        )
    )
    return [
        f'[[routes]]\nnode = "{node}"\nto = "{to}"\nvia = "{ways[1]}"\n{hold}'
        for node, to in ((first, second), (second, first))
    ]


def _between(ends: list[tuple[str, str]], pair: tuple[str, ...]) -> set[str]:
    """The nodes between two on the way of fewest links."""
    ways = [[pair[0]]]
    seen = {pair[0]}
    for way in ways:
        if way[-1] == pair[1]:
            return set(way[1:-1])
        for one, other in ends:
            for node, following in ((one, other), (other, one)):
                if node == way[-1] and following not in seen:
                    seen.add(following)
                    ways.append([*way, following])
    return set()


def _proxies(chance: random.Random, between: list[str], ends: list[tuple[str, str]]) -> list[str]:
    """A proxy or two at nodes that TCP flows pass."""
    found = []
    for node in chance.sample(between, min(len(between), chance.choice((0, 0, 0, 0, 1, 2)))):
        lines = [f'[[proxies]]\nname = "p{node}"\nnode = "{node}"']
        lines += sometimes(chance, 0.5, lambda: 'handshake = "connect-first"')
        lines += sometimes(chance, 0.5, lambda: f'buffer = "{number(chance, 3e3, 3e6):.0f} B"')
        lines += sometimes(chance, 0.3, lambda: f'memory = "{number(chance, 1e4, 3e6):.0f} B"')
        for place, pair in enumerate(ends):
            if node in pair:
                lines.append(f"[proxies.sides.l{place}]\ncc = {congestion_control(chance)}")
                settings = switches(chance) if chance.random() < 0.2 else []
                if settings:
                    lines.append(f"[proxies.sides.l{place}.tcp]\n" + "\n".join(settings))
        found.append("\n".join(lines))
    return found


def _words(names: list[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
