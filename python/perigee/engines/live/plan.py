# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A run as commands of iperf3; settings that iperf3 cannot carry are refused by name before the start."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perigee.engines.live.client import Command
from perigee.errors import InputError
from perigee.headers import IPV4, IPV6, UDP

if TYPE_CHECKING:
    from perigee._core import LiveFlow, LiveRun, LiveSettings, Measure

SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 1.0
"""iperf3 reports no oftener; nothing is gained from more seldom."""
LONGEST_S = 86_400
"""iperf3's longest test."""
SMALLEST_DATAGRAM = 16


@dataclass(frozen=True)
class Hosts:
    """Which real hosts stand for the nodes.

    Attributes:
        here: the node that this host is.
        servers: host and port of other nodes' servers.
        cc_names: what congestion controls are called on the hosts, where not as in the study.
        own_tcp: the hosts' own TCP settings are taken for the study's.
        bind: address or device of this host.
        connect_timeout_s: longest wait for a server to answer.
    """

    here: str
    servers: Mapping[str, tuple[str, int]]
    cc_names: Mapping[str, str]
    own_tcp: bool
    bind: str | None
    connect_timeout_s: float

    @classmethod
    def of(cls, settings: LiveSettings, runs: Iterable[LiveRun]) -> Hosts:
        """Read the `[live]` of a study.

        Raises:
            InputError: it does not say which hosts the flows end at; the message has the settings to give.
        """
        servers = settings.servers
        flows = [flow for run in runs for flow in run.flows]
        ends = list(dict.fromkeys(node for flow in flows for node in (flow.from_node, flow.to_node)))
        senders = list(dict.fromkeys(flow.from_node for flow in flows))
        if not servers:
            missing = senders if len(senders) < len(ends) else [node for node in ends if node != settings.here][:1]
            raise InputError(
                "--engine live: the study does not say which hosts its nodes are. Start `iperf3 --server --json` on "
                "the hosts at the other end, and name them:\n"
                + "\n".join(f"  --set live.servers.{node}=HOST:5201" for node in missing)
            )
        here = settings.here or next((node for node in ends if node not in servers), None)
        if here is None:
            raise InputError(
                f"--engine live: all nodes with flows ({', '.join(ends)}) have servers; say which one this host is: "
                f"--set live.here={ends[-1] if ends else 'NODE'}"
            )
        return cls(here, servers, settings.cc_names, settings.own_tcp, settings.bind, settings.connect_timeout_ns / 1e9)

    def name_of(self, cc: str) -> str:
        """Return what a congestion control is called on the hosts."""
        return self.cc_names.get(cc, cc)


def check(runs: Iterable[LiveRun], hosts: Hosts) -> None:
    """Refuse what iperf3 cannot carry between these hosts.

    Raises:
        InputError: all of it, a line each.
    """
    problems: dict[str, None] = {}
    settings: dict[str, set[str]] = {}
    parameters: dict[str, set[str]] = {}
    for run in runs:
        for key in json.loads(run.point):
            if key.split(".")[0] in ("links", "link", "inputs"):
                problems[f"`{key}` varies, which a real path does not by itself; pin it: --set {key}=..."] = None
        for measured, is_asked in (("measure.events", run.events), ("measure.pcap", run.pcap)):
            if is_asked:
                problems[f"`{measured}`: iperf3 shows no packets; leave it out: --set {measured}=false"] = None
        if run.routes_change:
            problems["[[routes]] that hold at times: a real path has its own; leave them out"] = None
        for name in run.split_flows:
            problems[
                f"flow `{name}` is split by [[proxies]], which a real path does not have by itself; leave them out: "
                "--set proxy.enabled=false"
            ] = None
        for flow in run.flows:
            for problem in _refusals(flow, hosts):
                problems[problem] = None
            if flow.kind == "bulk":
                parameters.setdefault(flow.cc, set()).add(flow.cc_params)
                for node, differences in ((flow.from_node, flow.sender_tcp), (flow.to_node, flow.receiver_tcp)):
                    settings.setdefault(node, set()).update(set(differences) - _carried(flow))
    for node, names in settings.items():
        if names and not hosts.own_tcp:
            said = ", ".join(f"`{name}`" for name in sorted(names))
            problems[
                f"TCP settings of `{node}` ({said}): iperf3 cannot set them on a host; set there what you can, and "
                "take what the hosts have: --set live.tcp=hosts"
            ] = None
    for cc, texts in parameters.items():
        problems.update(dict.fromkeys(_cc_problems(cc, texts, hosts)))
    if problems:
        raise InputError("--engine live: " + "\n".join(problems))


def commands(run: LiveRun, hosts: Hosts) -> list[Command]:
    """Return the processes of a run; flows to the same server take its ports upwards."""
    made = []
    used: dict[str, int] = {}
    for flow in run.flows:
        other = flow.to_node if flow.from_node == hosts.here else flow.from_node
        host, base = hosts.servers[other]
        port = base + used.get(other, 0)
        used[other] = used.get(other, 0) + 1
        length = flow.length_ns
        made.append(
            Command(
                flow.name, tuple(arguments(flow, run.measure, hosts, host, port)), flow.start_ns / 1e9,
                None if length is None else length / 1e9, f"{host}, port {port}",
            )
        )  # fmt: skip
    return made


def arguments(flow: LiveFlow, measure: Measure, hosts: Hosts, host: str, port: int) -> list[str]:
    """Return the command line of a flow."""
    bins = [ns / 1e9 for ns in (measure.series_ns, measure.goodput_bin_ns) if ns]
    interval = min(max(min(bins), SHORTEST_INTERVAL_S), LONGEST_INTERVAL_S)
    line = ["iperf3", "--client", host, "--port", str(port), "--json", "--get-server-output"]
    line += ["--interval", f"{interval:g}", "--connect-timeout", str(round(hosts.connect_timeout_s * 1000))]
    if flow.to_node == hosts.here:
        line.append("--reverse")
    if hosts.bind is not None:
        is_device = (Path("/sys/class/net") / hosts.bind).exists() and "/" not in hosts.bind
        line += ["--bind-dev" if is_device else "--bind", hosts.bind]
    is_v6 = flow.v6 or ":" in host
    line.append("--version6" if is_v6 else "--version4")
    if flow.kind == "udp":
        payload = flow.packet - (IPV6 if is_v6 else IPV4) - UDP
        bitrate = round(flow.rate_bps * payload / flow.packet)
        line += ["--udp", "--bitrate", str(bitrate), "--length", str(payload)]
        line += ["--tos", str(flow.ecn)] if flow.ecn else []
    else:
        line += ["--congestion", hosts.name_of(flow.cc)]
        mss = flow.sender_tcp.get("mss")
        if isinstance(mss, int):
            line += ["--set-mss", str(mss - (IPV6 - IPV4 if is_v6 else 0))]
        if window := _window(flow):
            line += ["--window", str(window)]
    if flow.size is not None:
        return [*line, "--bytes", str(flow.size)]
    return [*line, "--time", str((flow.length_ns or 0) // 10**9)]


def _refusals(flow: LiveFlow, hosts: Hosts) -> Iterable[str]:
    name, ends = flow.name, (flow.from_node, flow.to_node)
    if flow.kind not in ("bulk", "udp"):
        instead = ", and `perigee ping` measures round trips" if flow.kind == "ping" else ""
        yield (f"flow `{name}`: iperf3 has no `{flow.kind}`{instead}; leave it out: --set flows.{name}.count=0")
        return
    if hosts.here not in ends:
        yield f"flow `{name}` leads from `{ends[0]}` to `{ends[1]}`, and this host is `{hosts.here}` (live.here)"
        return
    other = ends[1] if ends[0] == hosts.here else ends[0]
    if other not in hosts.servers:
        yield f"flow `{name}` needs a server at `{other}`: --set live.servers.{other}=HOST:5201"
    elif flow.v6 and re.fullmatch(r"[0-9.]+", hosts.servers[other][0]):
        yield f"flow `{name}`: `ip` is v6, and the server {hosts.servers[other][0]} has an address of IPv4; name it"
    length = flow.length_ns
    if length is not None and (length % 10**9 or length > LONGEST_S * 10**9):
        yield (
            f"flow `{name}`: `duration` = {length / 1e9:g} s, but iperf3 takes whole seconds up to {LONGEST_S}: "
            f'--set flows.{name}.duration="{min(max(round(length / 1e9), 1), LONGEST_S)} s"'
        )
    if flow.kind == "udp" and flow.packet < IPV6 + UDP + SMALLEST_DATAGRAM:
        yield f"flow `{name}`: packets of {flow.packet} B are too small for iperf3's own numbers in them"
    if flow.kind == "bulk" and flow.sender_tcp.get("mss") != flow.receiver_tcp.get("mss"):
        yield f"flow `{name}`: iperf3 sets one `mss` for both ends; give `{ends[0]}` and `{ends[1]}` the same"


def _carried(flow: LiveFlow) -> set[str]:
    """Return the TCP settings that iperf3 has an option for."""
    return {"mss", "receive_autotuning", "rmem", "wmem"} if _window(flow) else {"mss"}


def _window(flow: LiveFlow) -> int | None:
    """Return the size of fixed buffers, where the study fixes them; iperf3 has one size for both ends and ways."""
    if flow.receiver_tcp.get("receive_autotuning") is not False:
        return None
    receive, send = flow.receiver_tcp.get("rmem"), flow.sender_tcp.get("wmem")
    if not isinstance(receive, list):
        return None
    return receive[1] if not isinstance(send, list) or send[1] == receive[1] else None


def _cc_problems(cc: str, parameters: set[str], hosts: Hosts) -> Iterable[str]:
    is_renamed = cc in hosts.cc_names
    if is_renamed and len(parameters) > 1:
        yield f"`{cc}` has {len(parameters)} sets of parameters in the study, and `live.cc_names` one name for it"
        return
    told = [text for text in parameters if text != "{}"]
    if told and not is_renamed:
        sets = " ".join(f"--set {key}={_plain(value)}" for key, value in json.loads(told[0]).items())
        yield (
            f"`{cc}` with parameters: load it on both hosts (as root: perigee cc load {cc} --as my_{cc} {sets}) and "
            f"name it with --set live.cc_names.{cc}=my_{cc}; or take the hosts' own: --set live.cc_names.{cc}={cc}"
        )
        return
    name = hosts.name_of(cc)
    if reason := _unusable(name):
        yield (
            f"`{name}` {reason}, and iperf3 asks for it at both ends. Load it on both hosts, as root: perigee cc load "
            f"{cc}; where it is called otherwise: --set live.cc_names.{cc}=NAME"
        )


def _plain(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) and " " in value else str(value).lower()


def _unusable(name: str) -> str | None:
    """Say why a socket of this host cannot have a congestion control; none where it can."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except PermissionError:
        return "is only for root on this host (sysctl net.ipv4.tcp_allowed_congestion_control)"
    except OSError:
        return "is not in this host's kernel"
    return None
