# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A run as iperf3 commands; settings that iperf3 cannot carry are refused by name before the start."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perigee.engines.live.client import Command
from perigee.engines.live.jobs import Capture, Client
from perigee.errors import InputError
from perigee.headers import IPV4, IPV6, UDP

if TYPE_CHECKING:
    from perigee._core import LiveFlow, LiveRun, LiveSettings, Measure

SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.1, 1.0
"""Shortest and longest reporting interval: the limit of iperf3, and the longest useful one."""
LONGEST_S = 86_400
"""Maximum duration of a test in iperf3, s."""
SMALLEST_DATAGRAM = 16
DEVICES = Path("/sys/class/net")


FIRST_PORT, MOST_FLOWS = 5201, 64
"""First port of the servers that agents start; each flow of a run takes the next one."""


@dataclass(frozen=True)
class Agent:
    """The agent of a node.

    Attributes:
        name: its name.
        address: address of its host for the flows.
        device: interface with that address.
        offer: features of its host.
    """

    name: str
    address: str
    device: str = field(compare=False)
    offer: Mapping[str, Any] = field(compare=False, repr=False)

    @classmethod
    def of(cls, node: str, name: str, address: str | None, offer: Mapping[str, Any]) -> Agent:
        """Find the interface of a node's flows.

        Raises:
            InputError: the host has no such address, or several.
        """
        devices = {each: one["name"] for one in offer["interfaces"] for each in one["addresses"]}
        there = ", ".join(devices) or "none"
        if address is not None:
            if address not in devices:
                raise InputError(f"live.agents.{node}: agent `{name}` has no address {address}; it has: {there}")
            return cls(name, address, devices[address], offer)
        families = [[each for each in devices if (":" in each) == v6] for v6 in (False, True)]
        usable = families[0] or families[1]
        if len(usable) != 1:
            raise InputError(
                f"live.agents.{node}: agent `{name}` has the addresses: {there}",
                f"say which one flows use: --set live.agents.{node}={name}@ADDRESS",
            )
        return cls(name, usable[0], devices[usable[0]], offer)


@dataclass(frozen=True)
class Hosts:
    """The real hosts of the nodes.

    Attributes:
        here: node of this host; empty if all nodes have agents or servers.
        servers: host and port of the servers at other nodes.
        cc_names: names of congestion controls on the hosts that differ from the study's.
        own_tcp: accept the hosts' TCP settings in place of the study's.
        bind: local address or device.
        connect_timeout_s: maximum wait for a server, s.
        agents: agents by node.
    """

    here: str
    servers: Mapping[str, tuple[str, int]]
    cc_names: Mapping[str, str]
    own_tcp: bool
    bind: str | None
    connect_timeout_s: float
    agents: Mapping[str, Agent] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: LiveSettings, runs: Iterable[LiveRun], agents: Mapping[str, Agent]) -> Hosts:
        """Read the section `[live]` of a study whose nodes have these agents.

        Raises:
            InputError: the hosts of the flows are not defined; the message has the settings to give.
        """
        servers = settings.servers
        flows = [flow for run in runs for flow in run.flows]
        ends = list(dict.fromkeys(node for flow in flows for node in (flow.from_node, flow.to_node)))
        senders = list(dict.fromkeys(flow.from_node for flow in flows))
        if not servers and not agents:
            missing = senders if len(senders) < len(ends) else [node for node in ends if node != settings.here][:1]
            raise InputError(
                "--engine live: the study does not say which hosts its nodes are. Start `iperf3 --server --json` on "
                "the hosts at the other end, and name them:\n"
                + "\n".join(f"  --set live.servers.{node}=HOST:5201" for node in missing)
            )
        here = settings.here or next((node for node in ends if node not in servers and node not in agents), None)
        if here is None and agents:
            here = ""
        if here is None:
            raise InputError(
                f"--engine live: all nodes with flows ({', '.join(ends)}) have servers; say which one this host is: "
                f"--set live.here={ends[-1] if ends else 'NODE'}"
            )
        return cls(
            here, servers, settings.cc_names, settings.own_tcp, settings.bind, settings.connect_timeout_ns / 1e9, agents
        )

    def client_of(self, flow: LiveFlow) -> str | None:
        """Return the node that runs the client of a flow: this host's, or an agent's.

        The receiver is preferred, since it knows when all data have arrived.
        """
        ends = (flow.to_node, flow.from_node)
        return next(
            (node for node in (self.here, *ends) if node in ends and (node == self.here or node in self.agents)), None
        )

    def name_of(self, cc: str) -> str:
        """Return the name of a congestion control on the hosts."""
        return self.cc_names.get(cc, cc)


def check(runs: Iterable[LiveRun], hosts: Hosts) -> None:
    """Refuse flows that iperf3 cannot carry between these hosts.

    Raises:
        InputError: the flows are refused; the message has a line per reason.
    """
    problems: dict[str, None] = {}
    settings: dict[str, set[str]] = {}
    parameters: dict[str, set[str]] = {}
    lacking: dict[str, None] = {}
    for run in runs:
        for key in json.loads(run.point):
            if key.split(".")[0] in ("links", "link", "inputs"):
                problems[f"`{key}` varies, which a real path does not by itself; pin it: --set {key}=..."] = None
        if run.events:
            problems["`measure.events`: iperf3 shows no packets; leave it out: --set measure.events=false"] = None
        if run.states:
            problems["`measure.states`: iperf3 shows no state; leave it out: --set measure.states=off"] = None
        for node in run.pcap:
            if problem := _capture_problem(node, hosts):
                problems[problem] = None
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
                lacking.update(dict.fromkeys(_lacking(flow, hosts)))
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
    problems.update(lacking)
    if problems:
        raise InputError("--engine live: " + "\n".join(problems))


def commands(run: LiveRun, hosts: Hosts) -> list[Command]:
    """Return the processes of a run; flows to the same server use consecutive ports."""
    made = []
    used: dict[str, int] = {}
    for flow in run.flows:
        mine = hosts.client_of(flow)
        other = flow.to_node if flow.from_node == mine else flow.from_node
        listener = hosts.agents.get(other)
        host, base = (listener.address, FIRST_PORT) if listener else hosts.servers[other]
        port = base + used.get(other, 0)
        used[other] = used.get(other, 0) + 1
        length = flow.length_ns
        agent = hosts.agents.get(mine or "")
        made.append(
            Command(
                flow.name, client(flow, run.measure, hosts, host, port), flow.start_ns / 1e9,
                None if length is None else length / 1e9, f"{host}, port {port}",
                agent.name if agent else None, listener.name if listener else None,
            )
        )  # fmt: skip
    return made


def captures(run: LiveRun, hosts: Hosts) -> dict[str, tuple[str, Capture]]:
    """Return the agent and the capture job of a run by node."""
    found = {node: hosts.agents[node] for node in run.pcap}
    # All ports that flows of the run use at their servers.
    bases = [FIRST_PORT, *(base for _, base in hosts.servers.values())]
    first, last = min(bases), max(bases) + MOST_FLOWS - 1
    return {node: (agent.name, Capture(agent.device, first, min(last, 65_535))) for node, agent in found.items()}


def client(flow: LiveFlow, measure: Measure, hosts: Hosts, host: str, port: int) -> Client:
    """Return the client of a flow."""
    bins = [ns / 1e9 for ns in (measure.series_ns, measure.goodput_bin_ns) if ns]
    interval = min(max(min(bins), SHORTEST_INTERVAL_S), LONGEST_INTERVAL_S)
    mine = hosts.client_of(flow)
    is_v6 = flow.v6 or ":" in host
    bind = hosts.agents[mine].address if mine is not None and mine in hosts.agents else hosts.bind
    is_device = mine not in hosts.agents and bind is not None and "/" not in bind and (DEVICES / bind).exists()
    is_udp = flow.kind == "udp"
    payload = flow.packet - (IPV6 if is_v6 else IPV4) - UDP
    mss = flow.sender_tcp.get("mss")
    return Client(
        host,
        port,
        is_v6,
        reverse=flow.to_node == mine,
        interval_ms=round(interval * 1000),
        connect_timeout_ms=round(hosts.connect_timeout_s * 1000),
        bind=None if is_device else bind,
        bind_device=bind if is_device else None,
        bitrate_bps=round(flow.rate_bps * payload / flow.packet) if is_udp else None,
        datagram=payload if is_udp else None,
        tos=flow.tos if is_udp else 0,
        congestion=None if is_udp else hosts.name_of(flow.cc),
        mss=mss - (IPV6 - IPV4 if is_v6 else 0) if isinstance(mss, int) and not is_udp else None,
        window=None if is_udp else _window(flow),
        size=flow.size,
        time_s=0 if flow.size is not None else (flow.length_ns or 0) // 10**9,
    )


def _refusals(flow: LiveFlow, hosts: Hosts) -> Iterable[str]:
    name, ends = flow.name, (flow.from_node, flow.to_node)
    if flow.kind not in ("bulk", "udp"):
        instead = ", and `ping` measures round trips" if flow.kind == "ping" else ""
        yield (f"flow `{name}`: iperf3 has no `{flow.kind}`{instead}; leave it out: --set flows.{name}.count=0")
        return
    mine = hosts.client_of(flow)
    if mine is None:
        yield (
            f"flow `{name}` leads from `{ends[0]}` to `{ends[1]}`, and "
            + (f"this host is `{hosts.here}` (live.here)" if hosts.here else "neither has an agent (live.agents)")
        )
        return
    other = ends[1] if ends[0] == mine else ends[0]
    if other in hosts.agents:
        yield from _address_problems(flow, hosts.agents[other], hosts.agents.get(mine))
    elif other not in hosts.servers:
        yield f"flow `{name}` needs a server at `{other}`: --set live.servers.{other}=HOST:5201"
    elif flow.v6 and re.fullmatch(r"[0-9.]+", hosts.servers[other][0]):
        yield f"flow `{name}`: `ip` is v6, and the server {hosts.servers[other][0]} has an address of IPv4; name it"
    if flow.has_rate:
        yield f"flow `{name}`: `offered` is not iperf3's, which writes blocks of its own; remove it from the study"
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


def _address_problems(flow: LiveFlow, listener: Agent, agent: Agent | None) -> Iterable[str]:
    for one in (listener, agent):
        if one is not None and "iperf3" not in one.offer["programs"]:
            yield f"flow `{flow.name}`: agent `{one.name}` has no iperf3; install it on its host (apt install iperf3)"
    versions = {ipaddress.ip_address(one.address).version for one in (listener, agent) if one is not None}
    if flow.v6:
        versions.add(6)
    if len(versions) > 1:
        yield f"flow `{flow.name}` has IPv4 at one end and IPv6 at the other; give other addresses: AGENT@ADDRESS"


def _capture_problem(node: str, hosts: Hosts) -> str | None:
    agent = hosts.agents.get(node)
    if agent is None:
        return f"`measure.pcap`: iperf3 shows no packets, and `{node}` has no agent; give --set measure.pcap=false"
    if not agent.offer["captures"]:
        return f"`measure.pcap`: agent `{agent.name}` cannot capture packets; it needs tcpdump, and root or CAP_NET_RAW"
    return None


def _lacking(flow: LiveFlow, hosts: Hosts) -> Iterable[str]:
    """Report the agents that lack the congestion control of a flow."""
    name = hosts.name_of(flow.cc)
    for node in (flow.from_node, flow.to_node):
        agent = hosts.agents.get(node)
        if agent is not None and name not in agent.offer["algorithms"]:
            there = ", ".join(agent.offer["algorithms"])
            load = f"there, as root: perigee cc load {flow.cc}"
            yield f"agent `{agent.name}` has no congestion control `{name}`; it has: {there}; {load}"


def _carried(flow: LiveFlow) -> set[str]:
    """Return the TCP settings for which iperf3 has an option."""
    return {"mss", "receive_autotuning", "rmem", "wmem"} if _window(flow) else {"mss"}


def _window(flow: LiveFlow) -> int | None:
    """Return the size of fixed buffers, if any; iperf3 has one size for both ends and directions."""
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
    if hosts.here and (reason := _unusable(name)):
        yield (
            f"`{name}` {reason}, and iperf3 asks for it at both ends. Load it on both hosts, as root: perigee cc load "
            f"{cc}; where it is called otherwise: --set live.cc_names.{cc}=NAME"
        )


def _plain(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) and " " in value else str(value).lower()


def _unusable(name: str) -> str | None:
    """Return why a socket of this host cannot use a congestion control; None if it can."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except PermissionError:
        return "is only for root on this host (sysctl net.ipv4.tcp_allowed_congestion_control)"
    except OSError:
        return "is not in this host's kernel"
    return None
