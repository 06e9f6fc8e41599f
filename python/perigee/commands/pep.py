# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee pep`: the proxy service, whose program is `perigee-pep`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perigee.commands.application import Application
from perigee.console import out_console, result
from perigee.engines.proxy.program import hand_over
from perigee.errors import EXIT_RUN_FAILED

if TYPE_CHECKING:
    from rich.console import Group

    from perigee.engines.proxy.state import ProxyState

app = Application("The proxy that splits TCP connections over satellite links: a front end of the program perigee-pep.")

Configuration = Annotated[Path, typer.Argument(metavar="FILE", help="Configuration of the service, in TOML.")]


@app.command()
def run(config: Configuration) -> None:
    """Run the service until SIGTERM, as root; SIGHUP reloads its configuration.

    [bold]Example[/bold]

      perigee pep run pep.toml
    """
    hand_over("run", str(config))


@app.command()
def check(config: Configuration) -> None:
    """Check a configuration and report its errors.

    [bold]Example[/bold]

      perigee pep check pep.toml
    """
    hand_over("check", str(config))


@app.command()
def rules(config: Configuration) -> None:
    """Print the firewall rules and routes of a configuration as a script, without changing anything.

    [bold]Example[/bold]

      perigee pep rules pep.toml
    """
    hand_over("rules", str(config))


@app.command()
def status(config: Configuration) -> None:
    """Print the state of the running service, read from its control socket.

    [bold]Example[/bold]

      perigee pep status /etc/perigee/pep.toml
    """
    hand_over("status", str(config))


@app.command()
def top(
    config: Configuration,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", help="Refresh interval.", min=0.1)] = 2.0,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", help="Exit after this number of refreshes. \\[default: at Ctrl-C]", min=1),
    ] = None,
) -> None:
    """Show the traffic of the running service by rule and by leg, until Ctrl-C.

    Rates and the mean round trip cover one refresh interval. If the output is not a terminal, each refresh prints new
    tables.

    [bold]Examples[/bold]

      perigee pep top /etc/perigee/pep.toml
      perigee pep top pep.toml --every 10 --count 6 > minute.txt
    """
    import contextlib
    import time

    from rich.live import Live

    from perigee.engines.proxy.state import read_state

    before = read_state(config)
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        live = stack.enter_context(Live(console=out_console, auto_refresh=False)) if out_console.is_terminal else None
        looks = 0
        while count is None or looks < count:
            time.sleep(every)
            after = read_state(config)
            shown = _tables(before, after)
            if live:
                live.update(shown, refresh=True)
            else:
                out_console.print(shown)
            before = after
            looks += 1


@dataclass(frozen=True)
class DoctorOptions:
    """Options and arguments of `perigee pep doctor`."""

    config: Configuration
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TARGET",
            help="Fetch this file too, directly and through the proxy: HOST:PORT/PATH or http://HOST:PORT/PATH.",
        ),
    ] = None
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", help="Number of transfers by each way.", min=1, max=100)
    ] = 2
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", help="Maximum duration of a transfer.", min=0.1, max=3600)
    ] = 10
    size: Annotated[str, typer.Option("--bytes", metavar="SIZE", help="Maximum size of a transfer.")] = "100 MB"
    client: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="ADDRESS",
            help="Client address, which selects the rule. \\[default: the first network of allow.sources]",
        ),
    ] = None
    interface: Annotated[
        str | None,
        typer.Option(
            "--interface",
            metavar="NAME",
            help="Interface at which the client's packets arrive. \\[default: the first of transparent.interfaces]",
        ),
    ] = None
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON: a list of objects; with --to an object of checks and comparison."),
    ] = False


@app.command()
def doctor(given: DoctorOptions) -> None:
    """Check that this host has what a configuration needs, and print fixes, without changing anything.

    Rules and routes are those of the running service, which only root can read. --to fetches a file from a web server
    by plain HTTP, directly with this host's settings, and through a forward inside the command with the matching rule
    of the configuration: the output compares both, including the bytes, and draws conclusions. The client leg of that
    forward is this host's loopback. The exit code is 1 if a requirement is missing or a transfer fails.

    [bold]Examples[/bold]

      perigee pep doctor /etc/perigee/pep.toml
      perigee pep doctor pep.toml --to 192.0.2.1:8000/large.bin
      perigee pep doctor pep.toml --to http://[2001:db8::1]/large.bin --seconds 30 --rounds 4
    """
    from perigee.commands.doctor import show
    from perigee.engines.host.checks import as_data
    from perigee.engines.proxy.checks import proxy_checks
    from perigee.engines.proxy.program import said

    found = proxy_checks(given.config)
    lacks = not all(one.ok for one in found)
    if given.to is None:
        show(found, as_json=given.as_json)
        if lacks:
            raise typer.Exit(EXIT_RUN_FAILED)
        return
    words = [
        "doctor",
        str(given.config),
        "--to",
        given.to,
        "--rounds",
        str(given.rounds),
        "--seconds",
        str(given.seconds),
        "--bytes",
        given.size,
    ]
    words += ["--from", given.client] if given.client else []
    words += ["--interface", given.interface] if given.interface else []
    if given.as_json:
        code, comparison = said(*words, "--json")
        compared = json.loads(comparison) if comparison else None
        result(json.dumps({"checks": as_data(found), "comparison": compared}, indent=2))
    else:
        show(found, as_json=False)
        result("")
        code, _ = said(*words, is_shown=True)
    if code or lacks:
        raise typer.Exit(code or EXIT_RUN_FAILED)


def _tables(before: ProxyState, after: ProxyState) -> Group:
    from rich.console import Group
    from rich.table import Table

    from perigee.engines.proxy.state import per_second, round_trip_ms

    totals = ", ".join(f"{name} {value}" for name, value in after.totals.items() if name != "running_s")
    table = Table(title=f"{after.state}: {totals}", title_justify="left")
    table.add_column("rule")
    for head in ("open", "new/s", "up Mbit/s", "down Mbit/s", "complete/s", "failed/s", "unreached/s", "aborted/s"):
        table.add_column(head, justify="right")

    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    def rate(rule: str, name: str, scale: float, form: str, leg: str = "") -> str:
        value = per_second(before, after, rule, name, leg)
        return shown(None if value is None else value * scale, form)

    for rule, counters in after.rules.items():
        ends = [rate(rule, end, 1, ".1f") for end in ("complete", "failed", "unreached", "aborted")]
        bits = [rate(rule, name, 8e-6, ".3f") for name in ("bytes_up", "bytes_down")]
        table.add_row(rule, str(counters.get("open", 0)), rate(rule, "accepted", 1, ".1f"), *bits, *ends)
    legs = Table()
    legs.add_column("rule")
    legs.add_column("leg")
    for head in ("sent Mbit/s", "round trip ms", "retransmitted/s"):
        legs.add_column(head, justify="right")
    for rule, leg in after.legs:
        sent, again = rate(rule, "sent_bytes", 8e-6, ".3f", leg), rate(rule, "retransmitted", 1, ".1f", leg)
        legs.add_row(rule, leg, sent, shown(round_trip_ms(before, after, rule, leg), ".1f"), again)
    return Group(table, legs)
