# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The commands `perigee cc rule`: which congestion control new connections begin with."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from perigee.cc import kernel
from perigee.commands.application import Application
from perigee.console import out_console, result, say
from perigee.errors import InputError

app = Application("Rules that choose the congestion control of new connections by destination, cgroup and interface.")


@app.command()
def add(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name by which sockets select it, see `perigee cc status`.")
    ],
    to: Annotated[
        str | None, typer.Option("--to", metavar="PREFIX", help="Connections with a peer of this prefix, or address.")
    ] = None,
    cgroup: Annotated[
        str | None, typer.Option("--cgroup", metavar="PATH", help="Connections of this cgroup and of those below it.")
    ] = None,
    interface: Annotated[
        str | None,
        typer.Option(
            "--interface", metavar="NAME", help="Connections over this interface of the current network namespace."
        ),
    ] = None,
) -> None:
    """Add a rule for new connections, opened or accepted, until it is removed, its algorithm unloaded, or a reboot.

    A connection has to meet all conditions of a rule. Of several rules, those of the deepest cgroup decide; among them
    the longest prefix; at equal prefixes, one with an interface. The interface is that of the route to the peer when
    the connection begins. A program that selects an algorithm itself and a route with one (`congctl`) take precedence.
    Prefixes and cgroups hold in all network namespaces. A rule with the same conditions is replaced. Prints the number.

    [bold]Examples[/bold]

      perigee cc rule add hybla --to 198.51.100.0/24
      perigee cc rule add bbr3 --cgroup system.slice/nginx.service
      perigee cc rule add hybla --interface wan0 --to 2001:db8::/32
    """
    added = kernel.add_rule(name, to=to, cgroup=cgroup, interface=interface)
    if added.replaced:
        say(f"replaced the rule with these conditions, which chose {added.replaced}")
    for thing in added.absent:
        say(f"note: there is no {thing} now; the rule holds once there is")
    result(str(added.number))


@app.command("list")
def list_all(as_json: Annotated[bool, typer.Option("--json", help="Print the rules as JSON.")] = False) -> None:
    """List the rules, with the number of connections that each has chosen for.

    [bold]Examples[/bold]

      perigee cc rule list
      perigee cc rule list --json
    """
    found = kernel.rules()
    if as_json:
        result(json.dumps(found, indent=2))
    elif found:
        out_console.print(as_table(found))
    else:
        result("there are no rules")


@app.command()
def remove(
    number: Annotated[
        int | None, typer.Argument(metavar="NUMBER", min=1, max=2**32 - 1, help="Number of `perigee cc rule list`.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all rules.")] = False,
) -> None:
    """Remove a rule. Connections keep what it chose for them until they close, or until that is unloaded.

    [bold]Examples[/bold]

      perigee cc rule remove 1
      perigee cc rule remove --all
    """
    if everything == (number is not None):
        raise InputError("give either the NUMBER of a rule, or --all")
    removed = kernel.remove_rules(number)
    for rule in removed:
        say(f"rule {rule['number']} removed: {rule['cc']}, {_conditions(rule)}")
    if not removed:
        say("there are no rules")


def as_table(found: list[dict[str, Any]]) -> Table:
    """Rules as a table."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Rule", justify="right")
    for heading in ("Congestion control", "For connections"):
        table.add_column(heading)
    table.add_column("Chosen for", justify="right")
    for rule in found:
        missing = "" if rule["is_in_kernel"] else " (not in the kernel)"
        table.add_row(
            str(rule["number"]), escape(f"{rule['cc']}{missing}"), escape(_conditions(rule)), str(rule["connections"])
        )
    return table


def _conditions(rule: dict[str, Any]) -> str:
    parts = [f"to {rule['to']}"] if rule["to"] else []
    if rule["cgroup"]:
        parts.append(f"of cgroup {rule['cgroup']}")
    if rule["interface"]:
        where = f" in namespace {rule['namespace']}" if rule["namespace"] else ""
        parts.append(f"over {rule['interface']}{where}")
    return ", ".join(parts)
