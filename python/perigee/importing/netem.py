# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The options of netem, as tc-netem(8) has them."""

from __future__ import annotations

from perigee.importing.link import JITTER_EVERY, Direction, Link
from perigee.importing.units import SHARES, TC_RATES, TC_SIZES, TC_TIMES, rate, share, size, time
from perigee.importing.words import Words

LIMIT = 1000
"""Packets that netem holds where no `limit` is given (tc-netem(8))."""
_OPTIONS = ("limit", "delay", "loss", "rate", "distribution", "duplicate", "corrupt", "reorder", "gap", "slot", "seed")
_KEPT = ("rate", "corrupt", "reorder", "distribution", "slot", "seed")
"""Options that a change which does not name them leaves as they are."""
_LABELS = {"p", "r", "1-h", "1-k", "p13", "p31", "p32", "p23", "p14", "random"}
_MAY_FOLLOW = 3
"""Values that may follow a rate: overhead of a packet, size and overhead of a cell."""


def read_netem(words: Words, way: Direction, link: Link) -> None:
    """Read the options into a direction; what a link here does not do is noted.

    Raises:
        InputError: an option or its value is wrong.
    """
    limit, delay_s, jitter_s, table = LIMIT, 0.0, 0.0, "uniform"
    while words.left:
        option = words.take("netem")
        if option == "limit":
            limit = words.count(option)
        elif option in ("delay", "latency"):
            like = "delay 300ms"
            delay_s = words.quantity(option, TC_TIMES, like)
            jitter_s = words.optional(TC_TIMES, option, like) or 0.0
            if words.optional(SHARES, option, "delay 300ms 20ms 25%"):
                link.note(
                    "netem's correlation of delays is left out: the jitter here is drawn anew each "
                    f"{JITTER_EVERY}, and `memory` gives it one in time"
                )
        elif option == "distribution":
            table = words.take(option)
        elif option in ("loss", "drop"):
            _read_loss(words, way, link)
        elif option == "rate":
            _read_rate(words, way, link)
        elif option == "corrupt":
            way.add_loss(
                share(words.quantity(option, SHARES, "corrupt 0.1%")),
                "netem corrupt: a receiver's checksum drops such packets",
            )
            words.optional(SHARES, option, "corrupt 0.1%")
        elif option in ("duplicate", "reorder", "gap", "slot", "seed"):
            _leave_out(option, words, link)
        elif option != "ecn":
            raise words.unknown(option, "netem", _OPTIONS)
    _set_delay(way, delay_s, jitter_s, table, link)
    if "aqm" not in way.values.get("queue", {}):
        way.add_to_queue({"aqm": {"kind": "netem", "packets": limit}}, _of_limit(limit))


def kept_of_netem(before: list[str], now: list[str]) -> list[str]:
    """Return the options of before that `tc qdisc change` of Linux leaves as they are.

    Examples:
        >>> kept_of_netem("delay 300ms rate 10mbit loss 1%".split(), "delay 100ms".split())
        ['rate', '10mbit']
    """
    kept: list[str] = []
    option = ""
    for word in before:
        option = word if word in (*_OPTIONS, "latency", "drop", "ecn") else option
        kept += [word] if option in _KEPT and option not in now else []
    return kept


def note_ceiling(way: Direction, link: Link) -> None:
    """Say what netem's limit leaves of a rate, where it carries less: the packets that it holds, once a delay."""
    aqm = way.values.get("queue", {}).get("aqm", {})
    if aqm.get("kind") != "netem" or not way.delay_s:
        return
    bps = aqm["packets"] * FULL_BITS / way.delay_s
    if way.rate_bps is None or bps < way.rate_bps:
        link.note(
            f"netem's limit of {aqm['packets']} packets lets {rate(bps)} through at most, since it counts those in "
            f"the air, too: a limit of rate times delay and the queue lifts that"
        )


FULL_BITS = 12_000
"""A full packet, 1500 bytes."""


def _of_limit(limit: int) -> str:
    default = ", the default" if limit == LIMIT else ""
    return f"netem limit {limit}{default}: packets that wait and those in the air count"


def _set_delay(way: Direction, delay_s: float, jitter_s: float, table: str, link: Link) -> None:
    source = f"netem delay {time(delay_s)}"
    if jitter_s:
        source += f", jitter {time(jitter_s)}, {table}"
        link.note(
            "netem draws the delay of each packet alone, so that packets overtake each other unless it has a `rate`; "
            f"here the delay moves each {JITTER_EVERY} and packets keep their order"
        )
    way.delay(delay_s, jitter_s, source)
    if jitter_s and table != "uniform":
        body = {"kind": "normal", "sd": time(jitter_s)}
        way.set("delay", {"kind": "jitter", "base": time(delay_s), "body": body, "every": JITTER_EVERY}, source)
        if table != "normal":
            link.note(
                f"netem's table `{table}` is taken for a normal distribution of the same jitter: its tail is lost"
            )


def _read_loss(words: Words, way: Direction, link: Link) -> None:
    like = "loss 1%"
    kind = words.left[0] if words.left else ""
    values = []
    if kind in ("state", "gemodel", "random"):
        words.take("loss")
    while words.left and (words.left[0] in _LABELS or words.more()):
        if words.left[0] in _LABELS:
            words.take("loss")
        else:
            values.append(words.quantity("loss", SHARES, like))
    if not values:
        raise words.place.error("`loss` ends without its share", f"write it as `{like}`")
    if "ecn" in words.left:
        link.note("netem's `ecn` is left out: it marks in place of losing, and here those packets are lost")
    if kind == "gemodel":
        p, r, bad, good = (*values, *(None,) * (4 - len(values)))[:4]
        _add_two_states(way, (p or 0.0, 1 - (p or 0.0) if r is None else r), (good or 0.0, 1.0 if bad is None else bad))
    elif kind == "state":
        p13, p31, p32, _, p14 = (*values, *(None,) * (5 - len(values)))[:5]
        if p32:
            raise words.place.error(
                "`loss state` with p32: packets that pass within a burst are no loss model here",
                "write it as `loss gemodel P R 1-H`, where 1-H is the loss within a burst",
            )
        _add_two_states(way, (p13 or 0.0, 1 - (p13 or 0.0) if p31 is None else p31), (0.0, 1.0))
        if p14:
            way.add_loss(share(p14), "netem loss state, p14: single losses")
    else:
        way.add_loss(share(values[0]), f"netem loss {share(values[0])}")
        if len(values) > 1:
            link.note("netem's correlation of losses is left out; `loss gemodel` makes bursts, here too")


def _add_two_states(way: Direction, turns: tuple[float, float], losses: tuple[float, float]) -> None:
    keys = ("good_to_bad", "bad_to_good", "good_loss", "bad_loss")
    values = zip(keys, (share(value) for value in (*turns, *losses)), strict=True)
    way.add_loss({"kind": "gilbert-elliott", **dict(values)}, "netem loss in two states, one step a packet")


def _read_rate(words: Words, way: Direction, link: Link) -> None:
    bps = words.quantity("rate", TC_RATES, "rate 10mbit")
    way.set_rate(bps, f"netem rate {rate(bps)}")
    extra = [words.quantity("rate", TC_SIZES, "rate 10mbit 20") for _ in range(_MAY_FOLLOW) if words.more()]
    if extra and extra[0]:
        way.set("overhead", size(extra[0]), "netem rate: bytes added to each packet")
    if any(extra[1:]):
        link.note("netem's cells are left out: a packet takes its own bytes and its overhead")


def _leave_out(option: str, words: Words, link: Link) -> None:
    said = {
        "duplicate": "netem's duplicates are left out",
        "reorder": "netem's reordering is left out: a link here keeps the order of packets",
        "gap": "netem's reordering is left out: a link here keeps the order of packets",
        "slot": 'netem\'s slots are left out; `rate = { kind = "slots", grants = ... }` is a link that sends in bursts',
    }
    while words.more() or (option == "slot" and words.left and words.left[0] not in _OPTIONS):
        words.take(option)
    if option in said:
        link.note(said[option])
