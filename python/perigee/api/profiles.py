# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Link profiles: found, sampled over time, drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perigee import toml
from perigee.errors import PerigeeError
from perigee.places import ProfileFile, find_profile, profiles

if TYPE_CHECKING:
    import polars as pl

    from perigee.report.style import Drawing

__all__ = ["Profile", "profiles"]


@dataclass(frozen=True)
class Profile:
    """A link, described by its processes: rate, queue, loss and delay of both directions.

    Attributes:
        file: the profile's file: its text, and where its recordings are looked for.
        settings: what was changed: keys and values as text.

    Examples:
        >>> Profile.load("geo").title
        'A plain geostationary link: 100 Mbit/s, 600 ms round trip, a queue of one bandwidth-delay product'
    """

    file: ProfileFile
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def load(cls, name_or_path: str | Path) -> Profile:
        """Return the profile of this name in `profiles/`, or in this TOML file.

        Raises:
            InputError: there is none, or it cannot be read.
        """
        return cls(find_profile(str(name_or_path)))

    @property
    def name(self) -> str:
        """Its name, by which a study finds it."""
        return self.file.head("name")

    @property
    def title(self) -> str:
        """The title, in a line."""
        return self.file.head("title")

    @property
    def source(self) -> str:
        """Where its numbers come from."""
        return self.file.head("source")

    def set(self, key: str, value: object) -> Profile:
        """Return the profile with a value changed, as `perigee exec --set` does.

        Args:
            key: a key path: `down.rate`, `up.loss`, `down.queue`.
            value: text, a number or a table.

        Raises:
            InputError: the value is of another type.

        Examples:
            >>> Profile.load("geo").set("down.rate", "20 Mbit/s").sample(1.0)["rate_mbps"].unique().sort().to_list()
            [20.0, 100.0]
        """
        return replace(self, settings=(*self.settings, (key, toml.setting(value, key))))

    def sample(self, seconds: float = 60.0, every: float = 0.1, seed: int = 1) -> pl.DataFrame:
        """Return what the link does over time without traffic, from the model that simulator and emulator run.

        Args:
            seconds: for how long.
            every: from one sample to the next, s.
            seed: of its random processes.

        Returns:
            A row per direction and sample: `direction` (`down`: towards the user, `up`), `t_s`, `rate_mbps` (mean until
            the next sample; infinite without a limit), `delay_ms` (one way, of a packet of 40 bytes; null: it was lost)
            and `lost`. What the link does only under load (queueing, delay under load) is not in it.

        Raises:
            InputError: a number is out of range, or the profile is wrong.

        Examples:
            >>> Profile.load("geo").sample(seconds=10.0, every=0.5).shape
            (40, 5)
        """
        from perigee.engines.links.sampling import sample_profile

        return sample_profile(self.file, seconds, every, seed, self.settings)

    def draw(self, seconds: float = 60.0, every: float = 0.1, seed: int = 1) -> Drawing:
        """Return a figure of what `sample` gives: rate and delay over time, losses, the distribution of the delays.

        Raises:
            InputError: as `sample`.
        """
        from perigee.report.link_figure import draw_link
        from perigee.report.style import styled

        with styled():
            return draw_link(self.sample(seconds, every, seed), self.title)

    def _repr_html_(self) -> str:
        from perigee.api.notebook import heading, image, paragraph

        parts = [heading("Profile", self.name, self.title), paragraph(f"Source: {self.source}")]
        if self.settings:
            parts.append(paragraph(f"Changed: {'; '.join(f'{key}={value}' for key, value in self.settings)}"))
        try:
            parts.append(image(self.draw()._repr_png_()))
        except PerigeeError as error:
            parts.append(paragraph(f"error: {error}"))
        return "".join(parts)
