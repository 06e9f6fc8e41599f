# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The live engine: runs one at a time, with retries for the failures between real hosts."""

from __future__ import annotations

import contextlib
import json
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perigee.analysis import iperf3, observations
from perigee.analysis.log import Flow
from perigee.analysis.observations import FlowDescription, Observation
from perigee.engines.host.settings import of_real_hosts, of_this_host
from perigee.engines.live.client import Command, TroubleError, captured, carry
from perigee.engines.live.plan import Agent, Hosts, captures, check, commands
from perigee.engines.live.remote import LOST, AgentError, Agents
from perigee.engines.live.timetable import Clock, RealClock, Say, Schedule, Timetable, beginnings, time_of_day
from perigee.engines.plan.contract import Output, Progress
from perigee.engines.plan.native import NativePlan
from perigee.engines.plan.runs import Runs, describe
from perigee.errors import InputError, RunError

if TYPE_CHECKING:
    from perigee._core import LiveFlow, LiveRun, LiveSettings
    from perigee.places import StudyFile

BROKEN_OFF = "control socket has closed unexpectedly"
INTERRUPTED = "interrupt"
FIRST_PAUSE_S = 2.0
"""Pause before the first retry of a run, s; doubled for each further one until a run succeeds."""


class Live(NativePlan):
    """A study between real hosts: one run at a time over a real path.

    Args:
        study: the study file.
        settings: `key=value` overrides.
        reduced: use the study's reduced size.
        say: prints a note.
        clock: source of time.

    Attributes:
        hosts: the hosts.
        schedule: start times of runs.
        distinct: details of the runs of the first round, see `details`.

    Raises:
        InputError: the study is wrong, or iperf3 cannot carry its flows between these hosts.
    """

    engine = "live"
    most_at_once = 1
    has_timetable = True
    is_real = True

    def __init__(
        self,
        study: StudyFile,
        settings: Sequence[str],
        reduced: bool,
        say: Say = lambda _text: None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(study, settings, reduced)
        live = self._core.live()
        self.distinct = [self.details(index) for index in range(len(self.runs.points))]
        self._agents = Agents()
        self.hosts = self._hosts_of(live)
        points = [{**point, "hosts": _identity(self.hosts)} for point in self.runs.points]
        self.runs = Runs(points, self.runs.rounds, self.runs.seed_of)
        self.setup |= _in_words(self.hosts)
        self._expected_of_point_s = [self._expected_s(details) for details in self.distinct]
        self.schedule = _schedule(live)
        self._retries = live.retries
        self._backoff_s = live.backoff_ns / 1e9
        self._pause_s = FIRST_PAUSE_S
        self._again = live.again
        self._timeout_s = live.timeout_ns / 1e9
        self._say = say
        self._clock = clock or RealClock()
        self._timetable = Timetable(self.schedule, self._clock, say)
        self._under_way: int | None = None
        self._took_s: float | None = None
        self._has_worked = False
        # Congestion controls of successful runs.
        self._worked: set[str] = set()
        self._told: set[str] = set()
        self._outlook: tuple[str, float | None] = ("", None)
        self._outlook_until = 0.0

    def _hosts_of(self, live: LiveSettings) -> Hosts:
        """Return the hosts once their agents are connected and all flows are checked."""
        with contextlib.ExitStack() as refused:
            refused.callback(self.close)
            hosts = Hosts.of(live, self.distinct, _agents(live, self._agents))
            if hosts.here and shutil.which("iperf3") is None:
                raise InputError(
                    "--engine live: iperf3 is not installed; install the package iperf3 (apt install iperf3)"
                )
            check(self.distinct, hosts)
            refused.pop_all()
        return hosts

    def details(self, index: int) -> LiveRun:
        """Return the details of a run."""
        return self._core.live_run(index)

    def commands(self, details: LiveRun) -> list[Command]:
        """Return the processes of a run."""
        return commands(details, self.hosts)

    def beginnings(self, now: float) -> list[float | None]:
        """Return the planned start of each run, Unix time; None: after the previous run; -1: never.

        Runs of a point are assumed to last as long as in the first round; random starts change little.
        """
        runs = self.runs
        took = self._expected_of_point_s * runs.rounds
        return beginnings(self.schedule, now, [runs.round_of(index) for index in range(len(runs))], took)

    def begin(self, since_s: float, *, resumed: bool) -> None:
        """Set when the study began, seconds of Unix time, and whether it is resumed."""
        self._has_worked = resumed
        if resumed:
            self._timetable.begin(since_s)

    def outlook(self) -> tuple[str, float | None]:
        """Return the current activity, and the seconds left; None: unknown."""
        now = self._clock.steady()
        if now >= self._outlook_until:
            self._outlook, self._outlook_until = self._look_ahead(), now + 1.0
        return self._outlook

    def _look_ahead(self) -> tuple[str, float | None]:
        index = self._under_way or 0
        rounds = [self.runs.round_of(each) for each in range(index, len(self.runs))]
        left = self._timetable.left_s(rounds, self._took_s or self._expected_s(self.details(index)))
        waiting = self._timetable.waiting_for
        return ("" if waiting is None else f"next run at {time_of_day(waiting)}"), left

    def execute(self, index: int, progress: Progress, captures: Path) -> Output | None:
        """Wait for the start time of a run and execute it with retries, see `Plan.execute`."""
        self._under_way = index
        run, details = self.runs[index], self.details(index)
        in_time = self._timetable.wait(run["round"], lambda: progress(0.0))
        if in_time is None:
            return None
        if not in_time:
            if "over" not in self._told:
                self._told.add("over")
                self._say("the time of `live.for` is over; what is left of the study is left out")
            return Output({}, files={_raw(index, "left-out"): b"{}\n"})
        try:
            return self._attempts(index, run, details, progress, captures)
        finally:
            self._timetable.ended()

    def close(self) -> None:
        """Have agents end their jobs, see `Plan.close`."""
        self._agents.close()

    def _attempts(
        self, index: int, run: Mapping[str, Any], details: LiveRun, progress: Progress, folder: Path
    ) -> Output | None:
        failures: list[dict[str, Any]] = []
        files: dict[str, bytes] = {}
        flows = self.commands(details)
        while True:
            began, begun_wall = self._clock.steady(), self._clock.wall()
            try:
                outputs = self._carried(index, details, flows, progress, folder)
                if outputs is None:
                    return None
                tables = self._measure(index, run, details, outputs)
            except TroubleError as trouble:
                text = self._explain(trouble, flows, details)
                where = f"run {index} ({describe(run)}), flow {trouble.flow}: {text}"
                if trouble.lasting:
                    raise RunError(where) from trouble
                failures.append({"began": time_of_day(begun_wall), "flow": trouble.flow, "error": trouble.text})
                for flow, output in trouble.outputs.items():
                    files[_raw(index, f"{flow}-failed-{len(failures)}")] = output
                if len(failures) > self._retries:
                    self._check_worth(len(failures), where, self._lacks(trouble, details))
                    record = {**run, "attempts": failures}
                    files[_raw(index, "failed")] = json.dumps(record, indent=1).encode()
                    return Output(self._measure(index, run, details, trouble.outputs, trouble), files=files)
                self._say(f"{where}; trying again in {self._pause_s:.0f} s")
                if not self._sleep(self._pause_s, progress):
                    return None
                # The pause keeps growing across runs, so that an hour without a server does not use up a study.
                self._pause_s = min(2 * self._pause_s, max(self._backoff_s, FIRST_PAUSE_S))
                continue
            self._pause_s = FIRST_PAUSE_S
            self._took_s = self._clock.steady() - began
            self._has_worked = True
            self._worked.update(flow.cc for flow in details.flows)
            files |= {_raw(index, flow): output for flow, output in outputs.items()}
            return Output(tables, files=files)

    def _carried(
        self, index: int, details: LiveRun, flows: Sequence[Command], progress: Progress, folder: Path
    ) -> dict[str, bytes] | None:
        """Carry the flows of a run with the captures of its nodes, see `carry`."""
        jobs = {folder / f"run-{index:06d}-{node}.pcap": job for node, job in captures(details, self.hosts).items()}
        watch = self._watch(details, progress)
        try:
            with captured(jobs, self._agents):
                return carry(flows, details.time_limit_ns / 1e9, self._timeout_s, watch, self._agents)
        except TroubleError as trouble:
            command = next(one for one in flows if one.flow == trouble.flow)
            lost = self._agents.lost((command.agent, command.listener))
            if lost is None:
                raise
            text = f"agent `{lost}`: {LOST}; {trouble.text}"
            raise TroubleError(trouble.flow, text, lasting=False, outputs=trouble.outputs) from trouble
        except AgentError as error:
            of_agent = (one.flow for one in flows if error.agent in (one.agent, one.listener))
            flow = next(of_agent, flows[0].flow)
            raise TroubleError(flow, str(error), lasting=False, outputs={}) from error

    def _check_worth(self, tries: int, where: str, lacks: bool) -> None:
        """Report that a run is given up, or raise if the study should stop.

        Raises:
            RunError: no run has succeeded yet, or the study repeats failed runs.
        """
        tried = "once" if tries == 1 else f"{tries} times"
        if not self._has_worked:
            raise RunError(f"{where}; tried {tried}, and nothing has come through yet, so the study is not begun")
        if self._again or lacks:
            raise RunError(f"{where}; tried {tried}; give the same command again to go on with this run")
        self._say(f"{where}; tried {tried}; its flows are kept as failed")

    def _measure(
        self, index: int, run: Mapping[str, Any], details: LiveRun, outputs: Mapping[str, bytes],
        trouble: TroubleError | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Read the output of the processes; for a failed run (`trouble`), the output available."""
        rows = []
        for flow in details.flows:
            name = flow.name
            try:
                carried = self._read(flow, outputs) if name in outputs else None
            except TroubleError:
                if trouble is None:
                    raise
                carried = None
            if carried is None:
                carried = Flow(name, flow.kind, True, "", Observation(0, []), "time_limit")
                if trouble:
                    failed = iperf3.outcome_of(trouble.text) if name == trouble.flow else None
                    carried = replace(carried, outcome=failed or "stopped")
            description = FlowDescription(
                self.study, name, flow.kind, flow.from_node, flow.to_node, flow.cc,
                flow.cc_params, self.engine, index, run["round"], run["seed"], details.point,
                outcome=carried.outcome, lost_packets=carried.lost_packets, jitter_ms=carried.jitter_ms,
            )  # fmt: skip
            asked = replace(carried.seen, start_ns=flow.start_ns, size=flow.size, length_ns=flow.length_ns)
            rows.append((description, details.measure, asked))
        return observations.tables(rows)

    def _read(self, flow: LiveFlow, outputs: Mapping[str, bytes]) -> Flow:
        """Read the output of a flow's process.

        Raises:
            TroubleError: the flow carried nothing, or not its size or time.
        """
        name = flow.name
        try:
            (test,) = iperf3.read(outputs[name], f"iperf3 of {name}", is_whole=True)
            (seen,) = test.flows
        except InputError as error:
            raise TroubleError(name, str(error), lasting=False, outputs=dict(outputs)) from error
        except ValueError as error:
            text = "iperf3 has written of several streams"
            raise TroubleError(name, text, lasting=True, outputs=dict(outputs)) from error
        self._check_cc(flow, seen, outputs)
        for note in test.notes:
            if note not in self._told and not test.error:
                self._told.add(note)
                self._say(f"note, flow {name}: {note}")
        # Only the run's time limit interrupts a running client.
        return replace(seen, outcome="time_limit") if INTERRUPTED in (test.error or "") else seen

    def _check_cc(self, flow: LiveFlow, seen: Flow, outputs: Mapping[str, bytes]) -> None:
        if flow.kind == "bulk" and seen.cc not in ("", self.hosts.name_of(flow.cc)):
            text = f"it was sent with `{seen.cc}`, not `{self.hosts.name_of(flow.cc)}`"
            raise TroubleError(flow.name, text, lasting=True, outputs=dict(outputs))

    def _explain(self, trouble: TroubleError, flows: Sequence[Command], details: LiveRun) -> str:
        server = next(command.server for command in flows if command.flow == trouble.flow)
        if "TCP_CONGESTION" in trouble.text or self._lacks(trouble, details):
            cc = _cc_of(trouble, details)
            name = self.hosts.name_of(cc)
            return (
                f"{server}: {trouble.text}; it seems that host has no congestion control `{name}`, or not for its "
                f"server's user; there, as root: perigee cc load {cc}, and for users other than root sysctl "
                "net.ipv4.tcp_allowed_congestion_control"
            )
        if "unable to connect" in trouble.text:
            return f"{server}: {trouble.text}; there: iperf3 --server --json --port {server.rsplit(' ', 1)[1]}"
        return f"{server}: {trouble.text}"

    def _lacks(self, trouble: TroubleError, details: LiveRun) -> bool:
        """True if a server closed before any data, as older ones do that lack the algorithm."""
        cc = _cc_of(trouble, details)
        if not cc or cc in self._worked or BROKEN_OFF not in trouble.text:
            return False
        try:
            return not json.loads(trouble.outputs.get(trouble.flow, b"{}")).get("intervals")
        except ValueError:
            return False

    def _watch(self, details: LiveRun, progress: Progress) -> Callable[[float], bool]:
        expected = self._expected_s(details) or self._took_s

        def tell(now: float) -> bool:
            return progress(0.0 if expected is None else min(now / expected, 0.99))

        return tell

    def _expected_s(self, details: LiveRun) -> float | None:
        """Return the duration of a run if it follows from the lengths of its flows."""
        ends = [None if flow.length_ns is None else (flow.start_ns + flow.length_ns) / 1e9 for flow in details.flows]
        known = [end for end in ends if end is not None]
        return max(known) if known and len(known) == len(ends) else None

    def _sleep(self, seconds: float, progress: Progress) -> bool:
        until = self._clock.steady() + seconds
        while (left := until - self._clock.steady()) > 0:
            if not progress(0.0):
                return False
            self._clock.sleep(min(left, 0.2))
        return True


def _identity(hosts: Hosts) -> dict[str, Any]:
    """Return the identity of the hosts, for which results hold."""
    own = {key: value for key, value in asdict(hosts).items() if key not in ("connect_timeout_s", "agents")}
    agents = {node: f"{one.name}@{one.address}" for node, one in hosts.agents.items()}
    return {**own, "agents": agents} if agents else own


def _in_words(hosts: Hosts) -> dict[str, Any]:
    """Return the hosts and the paths between them for the report, see `Plan.setup`."""
    paths = [(node, f"to the server {host}, port {port}") for node, (host, port) in hosts.servers.items()]
    paths += [(node, f"to the agent {one.name}, {one.address}") for node, one in hosts.agents.items()]
    own = {hosts.here: of_this_host()} if hosts.here else {}
    known = {**own, **{node: one.offer["settings"] for node, one in hosts.agents.items()}}
    kernels = [*([platform.release()] if own else []), *(one.offer["kernel"] for one in hosts.agents.values())]
    return {
        "links": [{"name": node, "properties": [["a real path", to]]} for node, to in paths],
        "hosts": of_real_hosts(known, hosts.servers),
        "kernel": ", ".join(dict.fromkeys(kernels)),
    }


def _cc_of(trouble: TroubleError, details: LiveRun) -> str:
    return next((flow.cc for flow in details.flows if flow.name == trouble.flow), "")


def _schedule(settings: LiveSettings) -> Schedule:
    def seconds(ns: int | None) -> float | None:
        return None if ns is None else ns / 1e9

    return Schedule(settings.pause_ns / 1e9, seconds(settings.every_ns), settings.by_round, seconds(settings.span_ns))


def _agents(settings: LiveSettings, agents: Agents) -> dict[str, Agent]:
    """Return the agents of a study by node."""
    wanted = settings.agents
    if not wanted:
        return {}
    offers = agents.offers([name for name, _ in wanted.values()])
    return {node: Agent.of(node, name, address, offers[name]) for node, (name, address) in wanted.items()}


def _raw(index: int, what: str) -> str:
    return f"raw/run-{index:06d}-{what}.json"
