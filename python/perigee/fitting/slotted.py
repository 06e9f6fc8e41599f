# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The text of a profile with slots, each number with its source."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perigee.fitting import profile
from perigee.fitting.profile import Value, comment, plain, quoted
from perigee.fitting.recording import Recording
from perigee.fitting.slots import LogNormal, Slotted, Spikes
from perigee.numbers import number


@dataclass(frozen=True)
class SlottedProfile:
    """A profile made of a recording.

    Attributes:
        name: its name.
        recording: what it was made from.
        slotted: what that has.
        down_bps: mean rate towards the user, where it is known otherwise.
        up_bps: mean rate away from the user, where it is known.
        notes: what a reader should know of the recording.
        unknown: parts of the link that a recording cannot tell.
    """

    name: str
    recording: Recording
    slotted: Slotted
    down_bps: int | None = None
    up_bps: int | None = None
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ("queues and losses: a recording of what a link carried has none",)

    @property
    def text(self) -> str:
        """The profile's file."""
        bw, delay = self.recording.bw.name, self.recording.delay.name
        source = f"perigee fit: {bw} and {delay}, {self.recording.seconds:g} s recorded"
        lines = [
            f"name = {quoted(self.name)}",
            f"title = {quoted(f'{self.name}: slots, as on a recorded link')}",
            f"source = {quoted(source)}",
            "",
            *comment(("Slots begin at seconds 12, 27, 42 and 57 of a minute; the recording does not say at which.",)),
        ]
        for way in ("down", "up"):
            lines += ["", f"[{way}]", *_lines("queue", self._queue), *_lines("loss", self._loss)]
            lines += ["", f"[{way}.rate]", 'kind = "slots"']
            for key, value in self._rate(way).items():
                lines += _lines(key, value)
            lines += ["", f"[{way}.delay]", 'kind = "slots"']
            for key, value in self._delay.items():
                lines += _lines(key, value)
        return "\n".join(lines) + "\n"

    @property
    def assumed(self) -> dict[str, Value]:
        """The values that were not recorded, by their keys."""
        found = {
            f"{way}.{key}": value
            for way in ("down", "up")
            for key, value in (("queue", self._queue), ("loss", self._loss), ("rate.mean", self._rate(way)["mean"]))
        }
        return {key: value for key, value in found.items() if not value.measured}

    @property
    def _queue(self) -> Value:
        return Value('{ time = "200 ms" }', ("Default: 200 ms of the rate, since a recording has no queue.",), False)

    @property
    def _loss(self) -> Value:
        return Value('"0 %"', ("Default: none, since a recording has no losses.",), False)

    def _mean(self, way: str) -> tuple[float, Value]:
        bps = 1e6 * self.slotted.rate_mbps if self.down_bps is None else self.down_bps
        source = f"{self.recording.bw.name}: mean of {self.slotted.slots} slots, without their begins."
        if way == "down" and self.down_bps is not None:
            return bps, Value(profile.rate(bps), ("Given with --down.",))
        if way == "down":
            return bps, Value(profile.rate(bps), (source,))
        if self.up_bps is not None:
            return self.up_bps, Value(profile.rate(self.up_bps), ("Given with --up.",))
        return bps, Value(
            profile.rate(bps), ("Default: that of down, since the recording has one rate; give it with --up.",), False
        )

    def _rate(self, way: str) -> dict[str, Value]:
        slotted, bw = self.slotted, self.recording.bw.name
        bps, mean = self._mean(way)
        found = {
            "mean": mean,
            "sd": Value(
                profile.rate(bps * slotted.rate_sd),
                (f"{bw}: the means of slots have a standard deviation of {_percent(slotted.rate_sd)}.",),
            ),
            "min": Value(
                profile.rate(bps * max(1 - 3 * slotted.rate_sd, _LEAST_RATE)),
                ("Three standard deviations to either side, but a tenth of the mean at least.",),
            ),
            "max": Value(profile.rate(bps * (1 + 3 * slotted.rate_sd)), ()),
        }
        found |= _memory(slotted, slotted.rate_correlation, "rates")
        of_bursts = "" if slotted.grants is None else f"; {_percent(slotted.grants.sd(20))} of it are of the bursts"
        found["ripple"] = Value(
            profile.share(slotted.ripple),
            (f"{bw}: steps of 20 ms vary by {_percent(slotted.ripple_measured)} of their slot's rate{of_bursts}.",),
        )
        found["every"] = Value('"20 ms"', ())
        if slotted.grants is not None:
            every, burst = slotted.grants.every_ms, slotted.grants.burst_ms
            wait = (every - burst) ** 2 * 7 / 12 / every
            found["grants"] = Value(
                f"{{ every = {profile.time(every)}, burst = {profile.time(burst)} }}",
                (
                    f"{bw}: a burst each {number(every, 2)} ms, and a wait of {number(wait, 2)} ms of a lone packet on "
                    "average, as for bursts of this length at any place in a frame.",
                ),
            )
        if slotted.outage_ms is not None:
            found["outage"] = Value(
                f"{{ length = {_per_slot(slotted.outage_ms)}, rise = {profile.time(slotted.rise_ms)}, both = true }}",
                (
                    f"{bw}: no opportunity at the begin of slots for up to {number(slotted.outage_ms.most, 0)} ms; "
                    "half of what the rise would carry at the mean rate is lacking. Chosen: a change of the path stops "
                    "both directions.",
                ),
            )
        return found

    @property
    def _delay(self) -> dict[str, Value]:
        slotted, log = self.slotted, self.recording.delay.name
        found = {
            "mean": Value(profile.time(slotted.delay_ms), (f"{log}: mean of {slotted.slots} slots.",)),
            "sd": Value(profile.time(slotted.delay_sd_ms), (f"{log}: standard deviation of the means of slots.",)),
            "min": Value(
                profile.time(max(slotted.delay_ms - 3 * slotted.delay_sd_ms, slotted.least_delay_ms)),
                ("Three standard deviations to either side, but the shortest recorded delay at least.",),
            ),
            "max": Value(profile.time(slotted.delay_ms + 3 * slotted.delay_sd_ms), ()),
        }
        found |= _memory(slotted, slotted.delay_correlation, "delays")
        memory = f", memory = {profile.time(slotted.jitter_memory_ms)}" if slotted.jitter_memory_ms else ""
        found["jitter"] = Value(
            f'{{ body = {{ kind = "normal", sd = {profile.time(slotted.jitter_sd_ms)} }}, every = "10 ms"{memory}, '
            f"floor = {profile.time(slotted.least_delay_ms)} }}",
            (
                f"{log}: standard deviation within slots; a correlation of {plain(slotted.jitter_correlation)} after "
                "10 ms; the shortest delay.",
            ),
        )
        if slotted.spikes is not None:
            found["spikes"] = self._spikes(slotted.spikes)
        return found

    def _spikes(self, spikes: Spikes) -> Value:
        outage = self.slotted.outage_ms
        after, length, what, with_outage = spikes.after_ms, spikes.length_ms, "", ""
        if outage is not None and spikes.follow_outages:
            after, length = (replace(values, sigma=outage.sigma) for values in (after, length))
            what = (
                f" The logarithms of heights and outages have a correlation of {plain(spikes.outage_correlation)}: one "
                "draw makes both, and the peak is at the outage's end."
            )
            with_outage = ", with_outage = true"
        toml = (
            f"{{ share = {profile.share(spikes.share)}, after = {_per_slot(after)}, length = {_per_slot(length)}, "
            f"height = {_per_slot(spikes.height_ms)}, begin = {profile.share(spikes.begin)}, "
            f"peak = {profile.share(spikes.peak)}{with_outage} }}"
        )
        log = self.recording.delay.name
        return Value(
            toml,
            (f"{log}: delays of more than 5 ms above the slot's median after its begin, and their mean shape.{what}",),
        )


def _memory(slotted: Slotted, correlation: float, what: str) -> dict[str, Value]:
    memory_s = slotted.memory_s(correlation)
    if not memory_s:
        return {}
    source = f"The {what} of neighbouring slots have a correlation of {plain(correlation)}."
    return {"memory": Value(profile.time(1000 * memory_s), (source,))}


def _per_slot(values: LogNormal) -> str:
    return (
        f"{{ median = {profile.time(values.median)}, sigma = {plain(values.sigma)}, "
        f"max = {profile.time(values.most * _BEYOND)} }}"
    )


def _lines(key: str, value: Value) -> list[str]:
    return [*comment(value.source), f"{key} = {value.toml}"]


def _percent(share: float) -> str:
    return f"{plain(100 * share)} %"


_LEAST_RATE = 0.1
_BEYOND = 1.5
"""The largest value of few slots is not the largest there can be."""
