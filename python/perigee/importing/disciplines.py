# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The options of tbf, htb, cake, fq_codel and of plain queues, as their manual pages have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perigee.importing.link import Direction, Link
from perigee.importing.netem import kept_of_netem, read_netem
from perigee.importing.units import TC_RATES, TC_SIZES, TC_TIMES, rate, size, time
from perigee.importing.words import Words

TX_PACKETS = 1000
"""Packets of a plain queue: the transmit queue of an Ethernet device (tc-pfifo(8))."""
_CAKE_RTT = {
    "datacentre": 1e-4,
    "lan": 1e-3,
    "metro": 0.01,
    "regional": 0.03,
    "internet": 0.1,
    "oceanic": 0.3,
    "satellite": 1.0,
    "interplanetary": 3600.0,
}
"""Round trips by their words, s (tc-cake(8))."""
_CAKE_LEAST_BYTES = 4 << 20
"""The least memory of cake where no `memlimit` is given (observed: `tc -s qdisc` prints it)."""
_CAKE_WORDS = (
    "unlimited autorate-ingress diffserv3 diffserv4 diffserv8 besteffort precedence flowblind srchost dsthost hosts "
    "flows dual-srchost dual-dsthost triple-isolate nat nonat wash nowash split-gso no-split-gso ack-filter "
    "ack-filter-aggressive no-ack-filter ingress egress raw conservative ethernet ether-vlan atm noatm ptm docsis "
    "pppoe-vcmux pppoe-llcsnap pppoa-vcmux pppoa-llc bridged-vcmux bridged-llcsnap ipoa-vcmux ipoa-llcsnap"
)
_TBF = ("rate", "burst", "limit", "latency", "peakrate", "mtu", "mpu", "overhead", "linklayer")
_CLASS = ("rate", "ceil", "burst", "cburst", "prio", "quantum", "mtu", "mpu", "overhead", "linklayer")


def read_tbf(words: Words, way: Direction, link: Link) -> None:
    """Read a token bucket filter: `limit` is what waits, or `latency` with the rate and the burst gives it."""
    bps = burst = limit = latency = None
    while words.left:
        option = words.take("tbf")
        if option == "rate":
            bps = words.quantity(option, TC_RATES, "rate 10mbit")
        elif option in ("burst", "buffer", "maxburst"):
            burst = _with_cell(words, option)
        elif option == "limit":
            limit = words.quantity(option, TC_SIZES, "limit 100kb")
        elif option in ("latency", "lat"):
            latency = words.quantity(option, TC_TIMES, "latency 50ms")
        else:
            _skip(option, words, way, link, ("tbf", _TBF))
    if bps is None or burst is None or (limit is None and latency is None):
        missing = "rate" if bps is None else "burst" if burst is None else "latency"
        raise words.place.error(
            f"tbf without `{missing}`", "write `rate 10mbit burst 32kbit latency 400ms`; tc(8) needs all three"
        )
    way.set_rate(bps, f"tbf rate {rate(bps)}")
    way.set("burst", size(burst), f"tbf burst {size(burst)}")
    bytes_ = limit if limit is not None else bps * (latency or 0.0) / 8 + burst
    source = (
        "tbf limit" if limit is not None else f"tbf latency {time(latency or 0.0)}: rate times latency and the burst"
    )
    way.add_to_queue({"bytes": size(bytes_)}, source)


def kept_by_change(kind: str, before: list[str], now: list[str]) -> list[str]:
    """Return the options that a queue keeps when others are changed.

    netem keeps its rate, corruption, reordering, table and slots, all else returns to its default; CoDel, FQ-CoDel and
    cake keep whatever is not named; other kinds take all of their options each time.
    """
    if kind == "netem":
        return kept_of_netem(before, now)
    return before if kind in ("codel", "fq_codel", "cake") else []


def read_htb(words: Words, way: Direction, link: Link) -> None:
    """Read the root of a hierarchy of token buckets, which shapes nothing itself."""
    while words.left:
        option = words.take("htb")
        if option not in ("default", "r2q", "direct_qlen", "direct_packets_stat", "offload", "ver"):
            raise words.unknown(option, "htb", ("default", "r2q", "direct_qlen"))
        if option != "offload":
            words.take(option)


def read_default(words: Words) -> str | None:
    """Return the minor number of htb's default class, as it stands in `classid`; its words are kept."""
    if "default" not in words.left[:-1]:
        return None
    return words.left[words.left.index("default") + 1].removeprefix("0x")


def read_class(words: Words, way: Direction, link: Link) -> None:
    """Read a class of htb: it sends at `ceil`, where nobody else takes what its parent has."""
    bps = ceil = burst = None
    while words.left:
        option = words.take("class")
        if option in ("rate", "ceil"):
            value = words.quantity(option, TC_RATES, f"{option} 10mbit")
            bps, ceil = (value, ceil) if option == "rate" else (bps, value)
        elif option == "cburst":
            burst = _with_cell(words, option)
        elif option in ("burst", "buffer"):
            _with_cell(words, option)
        else:
            _skip(option, words, way, link, ("a class of htb", _CLASS))
    if bps is None:
        raise words.place.error("a class of htb without `rate`", "write `htb rate 10mbit`")
    if ceil is not None and ceil > bps:
        link.note(f"htb: a class sends at its ceil, {rate(ceil)}, since no other class is in use")
    most = bps if ceil is None else ceil
    way.set_rate(most, f"htb {'rate' if ceil is None else 'ceil'} {rate(most)}")
    if burst is not None and way.rate_bps == most:
        way.set("burst", size(burst), f"htb cburst {size(burst)}")


def read_cake(words: Words, way: Direction, link: Link) -> None:
    """Read cake: its shaper, and FQ-CoDel with its interval in place of its COBALT."""
    bps, rtt, memory = None, _CAKE_RTT["internet"], None
    while words.left:
        option = words.take("cake")
        if option == "bandwidth":
            bps = None if words.left[:1] == ["unlimited"] else words.quantity(option, TC_RATES, "bandwidth 20mbit")
            words.left = words.left[1:] if bps is None else words.left
        elif option == "rtt":
            rtt = words.quantity(option, TC_TIMES, "rtt 600ms")
        elif option in _CAKE_RTT:
            rtt = _CAKE_RTT[option]
        elif option == "memlimit":
            memory = words.quantity(option, TC_SIZES, "memlimit 4mb")
        elif option == "overhead":
            way.set("overhead", size(words.quantity(option, TC_SIZES, "overhead 38")), "cake overhead")
        elif option in ("mpu", "fwmark", "atm-cell"):
            words.take(option)
        elif option not in _CAKE_WORDS.split():
            known = ("bandwidth", "rtt", "overhead", "memlimit", "mpu", *_CAKE_RTT, *_CAKE_WORDS.split())
            raise words.unknown(option, "cake", known)
    link.note(
        "cake is taken for a shaper with FQ-CoDel: its tins, its fairness between hosts, its filter of "
        "acknowledgements and its link layers are left out"
    )
    if bps is not None:
        way.set_rate(bps, f"cake bandwidth {rate(bps)}")
        memory = memory or max(4 * bps * rtt / 8, _CAKE_LEAST_BYTES)
    # A flow's target is a twentieth of its interval, as RFC 8289, 4.4 recommends and tc-cake(8) has it.
    codel = {"target": time(rtt / 20), "interval": time(rtt), "ecn": True}
    way.set("queue", {"aqm": {"kind": "fq-codel", **codel}}, f"cake, rtt {time(rtt)}")
    if memory is not None:
        way.add_to_queue(
            {"bytes": size(memory)}, "Its memory: 4 rate times rtt, at least 4 MiB, unless memlimit says it"
        )


def read_codel(words: Words, way: Direction, link: Link) -> None:
    """Read CoDel or FQ-CoDel, with the defaults of tc-codel(8) and tc-fq_codel(8)."""
    is_fair = words.kind == "fq_codel"
    name = words.kind
    keys: dict[str, Any] = {"target": "5 ms", "interval": "100 ms", "ecn": is_fair}
    packets = 10_240 if is_fair else 1000
    if is_fair:
        keys |= {"queues": 1024, "quantum": "1514 B"}
    while words.left:
        option = words.take(name)
        if option == "limit":
            packets = words.count(option)
        elif option in ("target", "interval", "ce_threshold"):
            keys[option] = time(words.quantity(option, TC_TIMES, f"{option} 5ms"))
        elif option in ("ecn", "noecn"):
            keys["ecn"] = option == "ecn"
        elif option == "flows" and is_fair:
            keys["queues"] = words.count(option)
        elif option == "quantum" and is_fair:
            keys["quantum"] = size(words.quantity(option, TC_SIZES, "quantum 1514"))
        elif option in ("memory_limit", "drop_batch") and is_fair:
            words.take(option)
        else:
            raise words.unknown(option, name, ("limit", "target", "interval", "ecn", "noecn", "ce_threshold"))
    kind = "fq-codel" if is_fair else "codel"
    if way.values.get("queue", {}).get("aqm", {}).get("kind") == "netem":
        link.note(f"netem's limit is left out: {name} below it is the queue")
    way.set("queue", {"packets": packets, "aqm": {"kind": kind, **keys}}, f"{name}, limit {packets} packets")


def read_fifo(words: Words, way: Direction, link: Link) -> None:
    """Read a plain queue: `limit` in packets (pfifo), or in bytes (bfifo)."""
    keys: dict[str, Any] = {"packets": TX_PACKETS}
    name = words.kind
    while words.left:
        option = words.take(name)
        if option == "limit":
            is_bytes = name == "bfifo"
            keys = {"bytes": size(words.quantity(option, TC_SIZES, "limit 100kb"))} if is_bytes else {}
            keys |= {} if is_bytes else {"packets": words.count(option)}
        elif option in ("bands", "priomap", "multiqueue:"):
            words.left = []
        else:
            raise words.unknown(option, name, ("limit",))
    if name == "pfifo_head_drop":
        keys["kind"] = "drop-front"
    kept = {key: value for key, value in way.values.get("queue", {}).items() if key == "aqm"}
    way.set("queue", {**kept, **keys}, f"{name}")


def _with_cell(words: Words, option: str) -> float:
    """Take a size with an optional cell size behind it (`burst 32kbit/8`)."""
    words.left[:1] = [words.left[0].split("/")[0]] if words.left else []
    return words.quantity(option, TC_SIZES, f"{option} 32kbit")


def _skip(option: str, words: Words, way: Direction, link: Link, of: tuple[str, tuple[str, ...]]) -> None:
    """Pass over an option that a link here does not have; note it where it matters."""
    kind, known = of
    if option in ("overhead",):
        way.set("overhead", size(words.quantity(option, TC_SIZES, "overhead 14")), f"{kind}: overhead")
    elif option in ("peakrate", "mtu", "minburst", "mpu", "linklayer", "prio", "quantum", "level", "cell"):
        word = words.take(option)
        if option == "peakrate":
            link.note(f"tbf's peakrate, {word}, is left out: a burst leaves at once")
    else:
        raise words.unknown(option, kind, known)


Reader = Callable[[Words, Direction, Link], None]
READERS: dict[str, Reader] = {
    "netem": read_netem,
    "tbf": read_tbf,
    "htb": read_htb,
    "cake": read_cake,
    "fq_codel": read_codel,
    "codel": read_codel,
    "pfifo": read_fifo,
    "bfifo": read_fifo,
    "pfifo_fast": read_fifo,
    "pfifo_head_drop": read_fifo,
}
"""The queues that are read, by their names in tc."""
SKIPPED = ("noqueue", "mq", "ingress", "clsact")
"""Queues that shape nothing."""
