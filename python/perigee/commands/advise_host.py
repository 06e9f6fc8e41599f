# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`perigee advise HOST`: tells what will be sent, asks, and measures."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from perigee.advice.survey import Survey
from perigee.commands.advise_options import AdviseOptions, size
from perigee.console import error_console, say
from perigee.errors import InputError
from perigee.measuring.tokens import secret


def survey(given: AdviseOptions) -> Survey | None:
    """Return what is to be sent where a host is given, told and agreed to; None where files are given.

    Raises:
        InputError: nothing would measure the rates, or nobody agreed.
    """
    names = given.given or []
    if len(names) != 1 or Path(names[0]).exists() or Path(names[0]).suffix in _LOGS or "/" in names[0]:
        if given.iperf3 is not None or given.token_file is not None or given.yes:
            raise InputError("--iperf3, --token-file, --yes: are for one HOST, and files are given")
        return None
    most = size("--most", given.most)
    if not _LEAST_BYTES <= most <= _MOST_BYTES:
        raise InputError(f"--most {given.most}: between 20 MB and 100 GB")
    token = None if given.token_file is None else secret(None, given.token_file)
    made = Survey(names[0], most, given.iperf3, given.probe_port, token)
    if given.iperf3 is None and token is None and not (given.down and given.up):
        raise InputError(
            f"{made.host}: is no file that can be read; to measure the path to a host of this name, say what it runs "
            "(--iperf3 PORT or --token-file FILE), or give the rates with --down and --up: pings do not tell them"
        )
    say(f"{made.host}: is no file here, and taken for a host. This will be sent:")
    for text in made.told:
        say(f"- {text}")
    if not given.yes:
        if not sys.stdin.isatty():
            raise InputError(f"{made.host}: nothing was sent; agree with --yes")
        if not typer.confirm("Send it?", err=True):
            raise InputError(f"{made.host}: nothing was sent")
    return made


def measure(agreed: Survey, folder: Path) -> list[Path]:
    """Measure, with its progress on standard error, and return the logs."""
    with error_console.status("") as line:

        def watch(what: str, share: float) -> bool:
            line.update(f"{agreed.host}: {what}, {100 * share:.0f} %")
            return True

        return agreed.measure(folder, watch)


_LOGS = (".txt", ".json", ".jsonl", ".csv", ".log", ".gz", ".pcap", ".pcapng", ".toml", ".qlog", ".sqlog")
"""Ends of names that are no hosts': a misspelt file is not looked up."""
_LEAST_BYTES, _MOST_BYTES = 2 * 10**7, 10**11
