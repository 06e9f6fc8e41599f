# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The state of a running proxy service from its `status`, and rates between two states."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from perigee.engines.proxy.program import find_program
from perigee.errors import EXIT_BAD_INPUT, InputError, RunError

PATIENCE_S = 30


@dataclass(frozen=True)
class ProxyState:
    """Counters at an instant.

    Attributes:
        at_s: time of reading on a monotonic clock, s.
        state: `running` or `draining`.
        totals: counters of the whole service by name: `open`, `waiting`, `held_bytes`, `refused`, `no_room`, `paused`.
        rules: counters of each rule by name: `open`, `accepted`, `bytes_up`, `bytes_down`, `complete`, `failed`.
        legs: counters of each rule's legs, by rule and `client` or `server`: `sent_bytes`, `retransmitted`,
            `round_trips` (how many were read) and `round_trips_us` (their sum), `path_us`, `reader_us` and `arrival_us`
            (how long each has held transfers up).
    """

    at_s: float
    state: str
    totals: dict[str, int] = field(default_factory=dict)
    rules: dict[str, dict[str, int]] = field(default_factory=dict)
    legs: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)


def parsed(text: str, at_s: float) -> ProxyState:
    r"""Parse the output of `status`.

    Raises:
        RunError: the output is not a status.

    Examples:
        >>> state = parsed("state running\nopen 2\nrule web open 1 bytes_up 64\nput_back tables 0 routes 1\n", 5.0)
        >>> state.state, state.totals, state.rules
        ('running', {'open': 2}, {'web': {'open': 1, 'bytes_up': 64}})
        >>> parsed("hello world\n", 5.0)
        Traceback (most recent call last):
        perigee.errors.RunError: perigee-pep status printed `hello world`; install the program of this version
    """
    read = ProxyState(at_s, "")
    state = ""
    for line in text.splitlines():
        try:
            state = _read(line.split(), read) or state
        except ValueError:
            raise RunError(f"perigee-pep status printed `{line}`; install the program of this version") from None
    return replace(read, state=state)


def _read(words: list[str], into: ProxyState) -> str:
    """Add a line to the counters; return the state if the line has it, else None."""
    match words:
        case ["state", state]:
            return state
        case ["rule", name, *rest]:
            into.rules[name] = dict(zip(rest[::2], map(int, rest[1::2]), strict=True))
        case ["leg", rule, side, *rest]:
            into.legs[rule, side] = dict(zip(rest[::2], map(int, rest[1::2]), strict=True))
        case ["link" | "subscriber" | "put_back" | "interception_missing", *_]:
            pass
        case [name, value]:
            into.totals[name] = int(value)
        case _:
            raise ValueError(words)
    return ""


def read_state(config: Path) -> ProxyState:
    """Query the service that runs with a configuration.

    Raises:
        InputError: the configuration is wrong, or the program is missing.
        RunError: no service answers.
    """
    command = [str(find_program()), "status", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)  # noqa: S603 - ours
    if done.returncode:
        line = done.stderr.strip().removeprefix("perigee-pep: ")
        raise InputError(line) if done.returncode == EXIT_BAD_INPUT else RunError(line)
    return parsed(done.stdout, time.monotonic())


def per_second(before: ProxyState, after: ProxyState, rule: str, name: str, leg: str = "") -> float | None:
    """Return the growth per second of a counter of a rule or leg; None after a restart of the service.

    Examples:
        >>> first = ProxyState(1.0, "running", {}, {"web": {"accepted": 10}})
        >>> later = ProxyState(3.0, "running", {}, {"web": {"accepted": 15}})
        >>> per_second(first, later, "web", "accepted"), per_second(later, first, "web", "accepted")
        (2.5, None)
    """
    old, new = (state.legs.get((rule, leg), {}) if leg else state.rules.get(rule, {}) for state in (before, after))
    growth = new.get(name, 0) - old.get(name, 0)
    seconds = after.at_s - before.at_s
    return growth / seconds if growth >= 0 and seconds > 0 else None


def round_trip_ms(before: ProxyState, after: ProxyState, rule: str, leg: str) -> float | None:
    """Return a leg's mean round-trip time between two states, ms; None without samples.

    Examples:
        >>> first = ProxyState(1.0, "running", legs={("web", "server"): {"round_trips": 1, "round_trips_us": 500}})
        >>> later = ProxyState(3.0, "running", legs={("web", "server"): {"round_trips": 3, "round_trips_us": 8500}})
        >>> round_trip_ms(first, later, "web", "server"), round_trip_ms(later, later, "web", "server")
        (4.0, None)
    """
    read, us = (per_second(before, after, rule, name, leg) for name in ("round_trips", "round_trips_us"))
    return us / read / 1e3 if read and us is not None else None
