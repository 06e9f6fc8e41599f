# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee advise`."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perigee.commands.advise_options import AdviseOptions, size
from perigee.commands.options import bits_per_second
from perigee.console import error_console, result, say
from perigee.core import native
from perigee.errors import EXIT_INTERRUPTED, InputError, InterruptedRunError, PerigeeError
from perigee.files import write_atomically

if TYPE_CHECKING:
    from perigee.advice.link import Hosts, Link
    from perigee.advice.trial import Tried, Watch
    from perigee.api.study import Progress


def command(given: AdviseOptions) -> None:
    """Say which settings gain over a path, and by which commands they are set and undone.

    A link is fitted to the files, as `perigee fit` does, or is a profile, or is measured: to HOST, and nowhere else,
    after a list of all that is sent, and your yes. A download over it is simulated as it is today, and with each of at
    most twelve settings: congestion controls, buffers, initial window, pacing, proxies, queues. Lines of advice have
    the gain in goodput with its interval, and what it costs: delay, losses, and what a Cubic flow beside it keeps.

    Nothing is changed on this host, unless --apply says which line, and --role which of its commands are for this host.

    [bold]Examples[/bold]

      perigee advise download.pcapng ping.txt
      perigee advise ping.txt --down "50 Mbit/s" --up "5 Mbit/s"
      perigee advise --profile starlink
      perigee advise --profile geo --queue-is-mine --explain advice.html
      perigee advise iperf3.json ping.txt --receive-buffer "1 MB" --json
      perigee advise server.example.org --iperf3 5201 --keep advice
      perigee advise advice --apply 1 --role client
      perigee advise --undo perigee-advise-undo.json
    """
    # Slow to import.
    from perigee.commands import advise_apply

    if given.undo is not None:
        if given.given or given.profile or given.apply is not None:
            raise InputError("--undo FILE stands alone")
        advise_apply.undo(given.undo)
        return
    advise_apply.check(given.apply, given.role, given.undo_file)
    if bool(given.given) == (given.profile is not None):
        raise InputError("give FILE..., HOST or --profile NAME, one of the three")
    if given.explain is not None and given.explain.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--explain {given.explain}: not an HTML file; give a name that ends in .html")
    kept = advise_apply.kept(given.given)
    advice = _made(given) if kept is None else kept
    if given.apply is not None:
        advise_apply.apply(advice, given.apply, given.role or "", given.device, given.undo_file)
    elif kept is not None:
        raise InputError(f"{(given.given or [''])[0]}: holds an advice; say which line of it with --apply")


def _made(given: AdviseOptions) -> dict[str, Any]:
    """Find the advice, print it, and return it."""
    from perigee.advice.link import Hosts, of_files, of_profile
    from perigee.advice.menu import menu
    from perigee.advice.trial import tried
    from perigee.cc.catalog import algorithms
    from perigee.commands import advise_apply, advise_host
    from perigee.commands.advice_text import as_dict, lines

    names = sorted(one.name for one in algorithms())
    if given.cc is not None and given.cc not in names and re.fullmatch(r"\w*", given.cc):
        raise InputError(f"--cc {given.cc}: there is no congestion control of this name; use one of {', '.join(names)}")
    hosts = Hosts(
        cc=given.cc or Hosts.cc,
        send_bytes=_bytes("--send-buffer", given.send_buffer),
        receive_bytes=_bytes("--receive-buffer", given.receive_buffer or "32 MiB"),
    )
    down, up = (
        None if rate is None else bits_per_second(option, rate)
        for option, rate in (("--down", given.down), ("--up", given.up))
    )
    survey = advise_host.survey(given) if given.given else None
    with _told_of_stop(given.keep), _folder(given.keep) as folder:
        if given.profile is not None:
            if given.down or given.up:
                raise InputError("--down, --up: are for files; change a copy of the profile, and give that")
            link = of_profile(given.profile)
        else:
            files = [Path(name) for name in given.given or ()]
            if survey is not None:
                files = advise_host.measure(survey, folder / "logs")
            link, seen = of_files(files, folder, hosts, down, up)
            hosts = replace(
                seen,
                cc=given.cc or seen.cc,
                receive_bytes=hosts.receive_bytes if given.receive_buffer else seen.receive_bytes,
            )
        with _watching() as watch:
            entries = menu(link, hosts, has_queue=given.queue_is_mine)
            downloads = _OF_GATEWAY if given.queue_is_mine else 1
            found = tried(link, hosts, entries, folder, watch, given.budget, downloads=downloads)
        advice = as_dict(link, hosts, found)
        if given.as_json:
            result(json.dumps(advice, indent=1))
        else:
            for line in lines(link, hosts, found):
                result(line)
        if given.explain is not None:
            _explain(link, hosts, found, given.explain)
        if given.keep is not None:
            write_atomically(folder / advise_apply.KEPT, (json.dumps(advice, indent=1) + "\n").encode())
            say(
                f"{folder}: the advice, for --apply, and its study of {found.rounds} rounds; perigee report "
                f"{found.results}"
            )
    return advice


def _explain(link: Link, hosts: Hosts, found: Tried, out: Path) -> None:
    """Write the report of the study with the advice as its answer."""
    from perigee import toml
    from perigee.api.results import load
    from perigee.commands.advice_text import short, unsure

    said = [text.replace("{", "(").replace("}", ")") for text in short(link, hosts, found)]
    places = 2 + link.is_split
    about = {
        "question": f"Which settings gain for a download over {link.name}?",
        "answer": " ".join(said[:places]),
        "caveats": [*said[places:], *unsure(link)],
        "headline": ["goodput_mbps"],
        "sections": ["figures", "summary", "throughput", "delay", "links", "setup"],
        "figure": [{"figure": "dots", "metric": ["goodput_mbps"], "flows": ["download"]}],
    }
    (found.results / "study" / "report.toml").write_text(toml.document(about), encoding="utf-8")
    with load(found.results) as results:
        say(f"{results.report(out)}: the report")


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix=native.scratch_prefix("advice")) as name:
            yield Path(name)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(f"--keep {keep}: is no empty folder; give a new one")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep


@contextlib.contextmanager
def _told_of_stop(keep: Path | None) -> Iterator[None]:
    """Say after Ctrl-C what is true here: a study would resume, an advice does not."""
    try:
        yield
    except InterruptedRunError:
        left = "" if keep is None else f" in another folder, for {keep} keeps its logs and what was simulated"
        raise _StoppedError(f"stopped: nothing is advised; the command begins anew{left}") from None


@contextlib.contextmanager
def _watching() -> Iterator[Watch]:
    """Yield what shows the progress of one study after the other, whose notes on small buffers are no news here."""
    from perigee.commands import progress

    log = logging.getLogger("perigee")
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as quiet:
        quiet.callback(log.setLevel, log.level)
        log.setLevel(logging.ERROR)

        def watch(title: str) -> Progress:
            stack.pop_all().close()
            return stack.enter_context(progress.bar(error_console, f"advise: {title}"))

        yield watch


def _bytes(option: str, text: str) -> int:
    value = size(option, text)
    if not _LEAST_BUFFER <= value <= _MOST_BUFFER:
        raise InputError(f"{option} {text}: a buffer is between 8 KiB and 2 GiB")
    return value


class _StoppedError(PerigeeError):
    """The user stopped it, and nothing of it resumes."""

    exit_code = EXIT_INTERRUPTED


_OF_GATEWAY = 4
"""Downloads at a time for the owner of a queue, which is that of several users."""
_LEAST_BUFFER, _MOST_BUFFER = 8 << 10, (2 << 30) - 1
