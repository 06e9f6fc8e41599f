# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Checks of this host for a configuration of the proxy: rules, routes, sysctls, congestion controls, descriptors."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perigee.engines.host.buffers import LinkSize, command, host_buffers, too_small
from perigee.engines.host.checks import Check
from perigee.engines.proxy.program import PROGRAM, find_program
from perigee.errors import EXIT_BAD_INPUT, InputError

TABLE = 7065
CONNECTIONS = 10_000
"""Defaults of `transparent.table` and `limits.connections`."""
PATIENCE_S = 30
INTERCEPTION = "interception"
NETWORK = "network"
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13}
"""Capabilities for the TUN device and ICMP messages, with their bits (capabilities(7))."""
STRICT = "1"
"""Strict mode of `rp_filter`, which drops packets with an asymmetric route."""

UNITS = {
    "bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "B/s": 8.0, "kB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9,
    "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
}  # fmt: skip
"""Bits per second and seconds."""


def proxy_checks(config: Path, root: Path = Path("/")) -> list[Check]:
    """Check this host in this network namespace without changing it.

    Args:
        config: configuration accepted by the program.
        root: root of the file system for sysctls.

    Raises:
        InputError: the configuration is wrong, or the program is missing.
    """
    program = find_program()
    done = _said(str(program), "check", str(config))
    if done.returncode:
        line = done.stderr.strip().removeprefix(f"{PROGRAM}: ")
        raise InputError(line) if done.returncode == EXIT_BAD_INPUT else InputError(f"{program}: {line}")
    content = tomllib.loads(config.read_text(encoding="utf-8"))
    transparent, rules = content.get("transparent"), content.get("rules", [])
    return [
        Check("program", True, str(program), "the service"),
        *_interception(transparent, config),
        *(_host(str(program), config) if transparent is not None else ()),
        *_device(transparent or {}, rules, root),
        *_connect_first(rules, root),
        *_legs(content.get("legs", {}), root),
        _descriptors(content.get("limits", {}).get("connections", CONNECTIONS)),
    ]


def _interception(transparent: dict[str, Any] | None, config: Path) -> Iterator[Check]:
    if transparent is None:
        return
    for name, package in (("nft", "nftables"), ("ip", "iproute2")):
        where = _program(name)
        yield Check(
            name, where is not None, where or "not installed", INTERCEPTION, "" if where else f"apt install {package}"
        )
    begin = f"start the service as root: perigee pep run {config}; if it runs, another program removes it (its log)"
    if nft := _program("nft"):
        done = _said(nft, "list", "table", "inet", "perigee_pep")
        there = done.returncode == 0
        found = "table inet perigee_pep is there" if there else (done.stderr.strip() or "nft fails").splitlines()[0]
        yield Check("rules", there, found, INTERCEPTION, "" if there else begin)
        yield _forward(_said(nft, "-j", "list", "ruleset"), through=transparent.get("through_forward", False))
    if ip := _program("ip"):
        table = transparent.get("table", TABLE)
        for version in ("-4", "-6"):
            there = f"lookup {table}" in _said(ip, version, "rule", "list").stdout
            found = f"{'a' if there else 'no'} rule leads to table {table}"
            yield Check(f"policy route, IPv{version[1]}", there, found, INTERCEPTION, "" if there else begin)


def _host(program: str, config: Path) -> Iterator[Check]:
    """Say which network the service is in, and check what it needs there, as the lines of the program's doctor."""
    done = _said(program, "doctor", str(config))
    for line in done.stdout.splitlines():
        name, _, told = line.partition(": ")
        found, _, fix = (told, "", "") if name == NETWORK else told.partition("; ")
        if told:
            yield Check(name, not fix, found, INTERCEPTION, fix)
        else:
            yield Check("rules and routes of this host", True, line, INTERCEPTION)


def _device(transparent: dict[str, Any], rules: list[dict[str, Any]], root: Path) -> Iterator[Check]:
    """Check what first packets need that return from the device of the service."""
    if not transparent.get("through_forward") and not any(rule.get("connect_first") for rule in rules):
        return
    value = _read(root / "proc/sys/net/ipv4/conf/all/rp_filter")
    fix = "sudo sysctl -w net.ipv4.conf.all.rp_filter=2" if value == STRICT else ""
    yield Check("rp_filter, all", not fix, value or "not there", "first packets that wait for their server", fix)


def _forward(done: subprocess.CompletedProcess[str], *, through: bool) -> Check:
    """Check whether the firewall drops forwarded packets; intercepted connections are not forwarded."""
    needed_for = "forward rules that hold for intercepted connections"
    if done.returncode:
        said = (done.stderr.strip() or "nft fails").splitlines()[0]
        return Check("forward rules", False, said, needed_for, "run this as root")
    chains = restricting(json.loads(done.stdout or "{}"))
    if not chains:
        return Check("forward rules", True, "none drops or rejects packets", needed_for, "")
    found = f"{', '.join(chains)} may drop packets"
    if through:
        return Check("forward rules", True, f"{found}, and decides on first packets", needed_for, "")
    fix = "connections pass by it: through_forward = true in [transparent], or the same limits in [allow] and `ports`"
    return Check("forward rules", False, found, needed_for, fix)


def restricting(ruleset: dict[str, Any]) -> list[str]:
    """Return the base chains at hook forward that drop or reject packets: by policy, rule or jump.

    Args:
        ruleset: what `nft -j list ruleset` prints.

    Examples:
        >>> chain = {"family": "inet", "table": "f", "name": "c", "hook": "forward", "policy": "drop"}
        >>> restricting({"nftables": [{"chain": chain}]})
        ['inet f c']
    """
    items: list[dict[str, Any]] = ruleset.get("nftables", [])
    chains = [item["chain"] for item in items if "chain" in item]
    rules: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for item in items:
        if rule := item.get("rule"):
            key = rule["family"], rule["table"], rule["chain"]
            rules.setdefault(key, []).extend(each for each in rule.get("expr", []) if isinstance(each, dict))

    def restricts(family: str, table: str, name: str, seen: frozenset[str] = frozenset()) -> bool:
        for each in rules.get((family, table, name), []):
            if {"drop", "reject"} & each.keys():
                return True
            target = (each.get("jump") or each.get("goto") or {}).get("target")
            if target and target not in seen and restricts(family, table, target, seen | {name}):
                return True
        return False

    return [
        f"{one['family']} {one['table']} {one['name']}"
        for one in chains
        if one.get("hook") == "forward"
        and (one.get("policy") == "drop" or restricts(one["family"], one["table"], one["name"]))
    ]


def _connect_first(rules: list[dict[str, Any]], root: Path) -> Iterator[Check]:
    names = [str(rule["name"]) for rule in rules if rule.get("connect_first")]
    if not names:
        return
    device = root / "dev/net/tun"
    fix = "" if device.exists() else "sudo modprobe tun, or give the container /dev/net/tun"
    found = f"{device} is there" if not fix else f"no {device}: clients are accepted first"
    needed_for = f"rule {', '.join(names)}"
    yield Check("connect_first", not fix, found, needed_for, fix)
    status = _read(root / "proc/self/status") or ""
    held = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    for name, bit in CAPABILITIES.items():
        there = bool(held >> bit & 1)
        fix = "" if there else f"start the service as root, or with AmbientCapabilities={name} in the unit"
        yield Check(name, there, "this process has it" if there else "this process lacks it", needed_for, fix)


def _legs(legs: dict[str, dict[str, Any]], root: Path) -> Iterator[Check]:
    sysctls = root / "proc/sys/net/ipv4"
    available = (_read(sysctls / "tcp_available_congestion_control") or "").split()
    for name, leg in legs.items():
        asked = leg.get("congestion", [])
        wanted = [asked] if isinstance(asked, str) else list(asked)
        if wanted:
            first = wanted[0]
            used = next((each for each in wanted if each in available), "the route's or host's")
            fix = "" if first in available else f"sudo modprobe tcp_{first}, or as root perigee cc load {first}"
            yield Check(f"congestion, {name}", not fix, f"{used} is used", f"{first} on leg {name}", fix)
        if "bandwidth" in leg and "round_trip" in leg:
            link = LinkSize(quantity(leg["bandwidth"]), quantity(leg["round_trip"]))
            buffers = host_buffers(sysctls)
            small = too_small(link, buffers)
            for buffer in buffers:
                fix = command(link, [buffer]) if buffer in small else ""
                needed_for = f"one connection to fill leg {name} ({link.product_bytes / 1e6:.1f} MB in flight)"
                largest = f"ends at {buffer.sizes[2] / 1e6:.1f} MB"
                yield Check(f"{buffer.name}, {name}", not fix, largest, needed_for, fix)


def _descriptors(connections: int) -> Check:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    holds = limit // 2
    fix = "" if holds > connections else f"LimitNOFILE={2 * connections + 100} in the unit, or fewer limits.connections"
    return Check("descriptors", not fix, f"{limit} for this process", f"{connections} connections", fix)


def quantity(text: str) -> float:
    """Return a rate of a configuration in bit/s, or a time in seconds.

    Examples:
        >>> quantity("20 Mbit/s"), quantity("600 ms"), quantity("1.5 s")
        (20000000.0, 0.6, 1.5)
    """
    value, _, unit = text.strip().partition(" ")
    return float(value) * UNITS[unit.strip()]


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _said(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)  # noqa: S603 - no shell
