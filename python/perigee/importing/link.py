# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A link as another tool describes it, and the profile that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perigee.errors import InputError
from perigee.fitting.profile import comment, quoted
from perigee.importing.units import rate, time
from perigee.toml import inline

DEVICE_BPS = 1e9
"""The rate of a direction whose configuration names none: that of an Ethernet card."""
_KEYS = ("rate", "burst", "overhead", "delay", "queue", "loss")


@dataclass
class Direction:
    """One direction of a link.

    Attributes:
        rate_bps: its rate; `None` where nothing says it.
        values: other keys of the profile's direction, with their values.
        losses: loss processes.
        sources: for each key the words of the tool that it comes from.
        delay_s: its mean delay.
    """

    rate_bps: float | None = None
    values: dict[str, Any] = field(default_factory=dict)
    losses: list[Any] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0

    def set(self, key: str, value: Any, source: str) -> None:
        """Set a key."""
        self.values[key], self.sources[key] = value, source

    def delay(self, seconds: float, jitter_s: float, source: str) -> None:
        """Set a delay, constant or even between `seconds` - `jitter_s` and `seconds` + `jitter_s`, never below zero."""
        self.delay_s = seconds
        low = max(seconds - jitter_s, 0.0)
        body = {"kind": "uniform", "width": time(seconds + jitter_s - low)}
        jitter = {"kind": "jitter", "base": time(low), "body": body, "every": JITTER_EVERY}
        self.set("delay", jitter if jitter_s else time(seconds), source)

    def set_rate(self, bps: float, source: str) -> None:
        """Set the rate, or lower it: of two limits in a row the lower one holds."""
        if self.rate_bps is None or bps < self.rate_bps:
            self.rate_bps, self.sources["rate"] = bps, source

    def add_loss(self, loss: Any, source: str) -> None:
        """Add a loss process."""
        self.losses.append(loss)
        self.sources["loss"] = "; ".join(filter(None, (self.sources.get("loss"), source)))

    def add_to_queue(self, keys: Mapping[str, Any], source: str) -> None:
        """Add limits of the queue, or its management."""
        self.values["queue"] = {**self.values.get("queue", {}), **keys}
        self.sources["queue"] = "; ".join(filter(None, (self.sources.get("queue"), source)))

    def lines(self, device_bps: float | None, assumed: list[str]) -> list[str]:
        """Return the keys of the profile, each below its source; add what nothing says to `assumed`."""
        values = dict(self.values)
        values.setdefault("delay", "0 s")
        if "rate" not in values:
            values["rate"] = rate(DEVICE_BPS if device_bps is None else device_bps)
            if self.rate_bps is not None:
                values["rate"] = rate(self.rate_bps)
            elif device_bps is None:
                assumed.append(f"rate = {values['rate']}")
        if self.losses:
            values["loss"] = self.losses[0] if len(self.losses) == 1 else self.losses
        lines = []
        for key in (key for key in _KEYS if key in values):
            lines += comment((f"{self.sources.get(key, 'Nothing says it: assumed')}.",))
            lines.append(f"{key} = {inline(values[key], key)}")
        return lines


JITTER_EVERY = "10 ms"
"""The interval at which a jitter is drawn anew, where the tool draws one for each packet: chosen."""


@dataclass
class Link:
    """A link that was read.

    Attributes:
        tool: the tool whose configuration it is.
        down: towards the user.
        up: away from the user.
        notes: what a profile cannot say, and what was assumed.
    """

    tool: str
    down: Direction
    up: Direction
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def profile(self, name: str, source: str, device_bps: float | None) -> str:
        """Return the text of the profile; adds what is assumed to the notes.

        Args:
            name: its name.
            source: where the configuration comes from.
            device_bps: the rate of a direction whose configuration names none; `None`: 1 Gbit/s, said as assumed.
        """
        body: list[str] = []
        for way, direction in (("down", self.down), ("up", self.up)):
            assumed: list[str] = []
            body += ["", f"[{way}]", *direction.lines(device_bps, assumed)]
            for value in assumed:
                self.note(f"assumed: {way}.{value}, since nothing says it; --rate sets it")
        head = [
            f"name = {quoted(name)}",
            f"title = {quoted(f'{name}: a link as {self.tool} makes it')}",
            f"source = {quoted(f'perigee profiles import: {source}')}",
        ]
        notes = ["", *comment(tuple(f"Note: {note}." for note in self.notes))] if self.notes else []
        return "\n".join([*head, *notes, *body]) + "\n"

    @property
    def assumed(self) -> list[str]:
        """Keys that the configuration says nothing of."""
        return [
            f"{way}.{key}"
            for way, direction in (("down", self.down), ("up", self.up))
            for key in _KEYS
            if key not in direction.sources
        ]


@dataclass(frozen=True)
class Place:
    """A line of a file, for errors."""

    file: str
    line: int

    def error(self, message: str, fix: str) -> InputError:
        """Return the error of something wrong there."""
        return InputError(f"{self.file}:{self.line}: {message}", fix)
