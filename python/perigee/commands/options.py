# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Shared by commands: options, quantities with units, limits of authors' code, and when to stop."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from perigee.cc.limits import CodeLimits
from perigee.console import result
from perigee.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Study = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study: its name in studies/, its folder, or its TOML file.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the study; may be given several times."),
]
Profile = Annotated[str, typer.Argument(metavar="PROFILE", help="Name of a profile in profiles/, or its file.")]
ProfileSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the profile; may be given several times."),
]
KnownDown = Annotated[
    str | None, typer.Option("--down", metavar="RATE", help="Known rate towards the user, instead of the measured one.")
]
KnownUp = Annotated[
    str | None, typer.Option("--up", metavar="RATE", help="Known rate away from the user, instead of the measured one.")
]
FIGURES = (".png", ".pdf", ".svg")


def _figure_file(out: Path | None) -> Path | None:
    """Refuse a file name without the ending of a format of figures."""
    if out is not None and out.suffix.lower() not in FIGURES:
        raise InputError(f"--out {out}: unknown format of figures; use a name that ends in {', '.join(FIGURES)}")
    return out


FigureFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Figure to write: a `.png`, `.pdf` or `.svg`. \\[default: the name, with .png]",
        callback=_figure_file,
    ),
]
Reduced = Annotated[bool, typer.Option("--reduced", help="Use the small size that the study declares for tests.")]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", metavar="N", min=1, help="Number of concurrent runs. \\[default: one per core]"),
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard", metavar="I/N", help="Run only every Nth run from the Ith on; `perigee merge` joins all shards."
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over, replacing results in the folder.")]
CcStall = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="CPU time that your own congestion controls may take without progress before the run is ended.",
    ),
]
CcMemory = Annotated[
    str, typer.Option(metavar="SIZE", help="Address space of each process that runs your own congestion controls.")
]
Confidence = Annotated[
    float | None,
    typer.Option(
        help="Level of all confidence intervals, such as 0.9. \\[default: that of report.toml]", metavar="LEVEL"
    ),
]
DEFAULT_STALL = "10 s"
DEFAULT_MEMORY = "4 GiB"

_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS_BYTES = {"MB": 10**6, "GB": 10**9, "MiB": 1 << 20, "GiB": 1 << 30}
_LEAST_MEMORY = "512 MiB"
_UNITS_BPS = {"bit/s": 1, "kbit/s": 1_000, "Mbit/s": 1_000_000, "Gbit/s": 1_000_000_000}


def seconds(option: str, text: str, least: float) -> float:
    """Read a time with its unit.

    Examples:
        >>> seconds("--interval", "200 ms", 0.001), seconds("--timeout", "1min", 0.001)
        (0.2, 60.0)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s|min|h|d)\s*", text)
    if found is None:
        raise InputError(f'{option} {text}: not a time with a unit; write "200 ms"')
    value = float(found[1]) * _UNITS_S[found[2]]
    if value < least:
        raise InputError(f"{option} {text}: less than {least * 1000:g} ms")
    return value


def code_limits(stall: str, memory: str) -> CodeLimits:
    """Read the limits of authors' code.

    Examples:
        >>> code_limits(DEFAULT_STALL, DEFAULT_MEMORY) == CodeLimits()
        True
        >>> code_limits("2 s", "100 MB")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --cc-memory 100 MB: less than 512 MiB, which the simulator itself needs
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(MB|GB|MiB|GiB)\s*", memory)
    if found is None:
        raise InputError(f'--cc-memory {memory}: not a size with a unit; write "{DEFAULT_MEMORY}"')
    memory_bytes = round(float(found[1]) * _UNITS_BYTES[found[2]])
    if memory_bytes < 512 << 20:
        raise InputError(f"--cc-memory {memory}: less than {_LEAST_MEMORY}, which the simulator itself needs")
    return CodeLimits(stall_s=seconds("--cc-stall", stall, 0.1), memory_bytes=memory_bytes)


def study_settings(
    settings: Sequence[str] | None,
    vary: Sequence[str] | None,
    also: Sequence[str] | None,
    experiments: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Return what is changed in a study as one list of settings: values, then what varies, then the experiments.

    Examples:
        >>> study_settings(["rounds=1"], ["flow.cc=cubic,bbr"], ["flow.cc=./mycc.c"])
        ('rounds=1', 'vary.flow.cc=cubic,bbr', 'vary.flow.cc=+./mycc.c')
        >>> study_settings(None, ["cubic,bbr"], None)
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: --vary cubic,bbr: the key or `=` is missing; write --vary flow.cc=cubic,bbr
    """
    found = [*(settings or ())]
    for option, mark, given in (("--vary", "", vary), ("--also", "+", also)):
        for text in given or ():
            key, equals, values = text.partition("=")
            if not equals or not key.strip():
                raise InputError(f"{option} {text}: the key or `=` is missing", f"write {option} flow.cc=cubic,bbr")
            found.append(f"vary.{key.strip()}={mark}{values.strip()}")
    return (*found, *([f"experiments={','.join(experiments)}"] if experiments else []))


def write_figure(out: Path, draw: Callable[[], Figure]) -> None:
    """Draw a figure in the style of reports, write it, and print where it is."""
    from perigee.files import atomic_file
    from perigee.report.style import styled

    with styled():
        drawing = draw()
        with atomic_file(out) as file:
            drawing.savefig(file, format=out.suffix[1:].lower())
    result(str(out))


def profile_setting(setting: str) -> tuple[str, str]:
    """Split a `--set KEY=VALUE` for a profile.

    Examples:
        >>> profile_setting("down.rate=50 Mbit/s")
        ('down.rate', '50 Mbit/s')
    """
    key, equals, value = setting.partition("=")
    if not key.strip() or not equals:
        raise InputError(f"--set {setting}: the key or `=` is missing; write --set down.rate='50 Mbit/s'")
    return key.strip(), value


def bits_per_second(option: str, text: str) -> int:
    """Read a rate with its unit.

    Examples:
        >>> bits_per_second("--rate", "0.5 Mbit/s"), bits_per_second("--rate", "64kbit/s")
        (500000, 64000)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kMG]?bit/s)\s*", text)
    if found is None:
        raise InputError(f'{option} {text}: not a rate with a unit; write "2 Mbit/s"')
    value = round(float(found[1]) * _UNITS_BPS[found[2]])
    if not 1_000 <= value <= 100_000_000_000:
        raise InputError(f"{option} {text}: a rate is between 1 kbit/s and 100 Gbit/s")
    return value


def host_and_port(text: str, port: int) -> tuple[str, int]:
    """Split `HOST[:PORT]`; an IPv6 address with a port stands in brackets.

    Examples:
        >>> host_and_port("example.org:7000", 7301), host_and_port("[2001:db8::1]:7000", 7301)
        (('example.org', 7000), ('2001:db8::1', 7000))
        >>> host_and_port("2001:db8::1", 7301), host_and_port("example.org", 7301)
        (('2001:db8::1', 7301), ('example.org', 7301))
    """
    found = re.fullmatch(r"\[([^\]]+)\](?::([0-9]+))?|([^:]+):([0-9]+)", text)
    if found is None:
        return text, port
    given = found[2] or found[4]
    if given is not None and not 0 < int(given) < 1 << 16:
        raise InputError(f"{text}: a port is between 1 and 65535")
    return found[1] or found[3], port if given is None else int(given)


class Stopped:
    """True once SIGINT (Ctrl-C) or SIGTERM has arrived."""

    def __init__(self) -> None:
        self._stopped = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopped = True

    def __bool__(self) -> bool:
        return self._stopped


def say_profile(out: Path) -> None:
    """Say what a written profile is for."""
    link = out if out.suffix == ".toml" or "/" in str(out) else f"./{out}"
    result(f"{out}: a profile for `perigee exec --link {link}` and `profile =` of a study")
