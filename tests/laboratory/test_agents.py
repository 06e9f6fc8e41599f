# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Agents of a laboratory: their certificates and requests, and live studies between hosts in network namespaces."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from conftest import environment, free_port, next_line, running
from namespaces import Lab, wait_until
from perigee.agents.certificates import CONTROLLER, Authority, Identity
from perigee.engines.live.engine import Live
from perigee.engines.live.jobs import Client, Server, checked
from perigee.engines.live.messages import LENGTH_BYTES, MOST_BYTES, Message, MessageError, offer_of, packed, received
from perigee.errors import InputError
from perigee.laboratory.agents import Hub
from perigee.laboratory.entries import Entry, Queue
from perigee.laboratory.place import Place
from perigee.places import find_study
from study_text import flow, link

PERIGEE = [sys.executable, "-m", "perigee"]
NODES = ("first", "second", "third")
STUDY = (
    """
name = "three"
rounds = 1
nodes = ["first", "second", "third", "middle"]
[measure]
series = "500 ms"
goodput_bin = "500 ms"
startup = "10 kB"
pcap = ["first", "second", "third"]
"""
    + link("a", "first middle", rate="20 Mbit/s", delay="1 ms")
    + link("b", "second middle", rate="20 Mbit/s", delay="1 ms")
    + link("c", "third middle", rate="20 Mbit/s", delay="1 ms")
    + flow("bulk", "first third", size="2 MB", cc="reno")
    + flow("voice", "second third", kind="udp", rate="1 Mbit/s", packet="500 B", duration="1 s")
    + """
[live.agents]
first = "first"
second = "second@10.77.2.1"
third = "third"
"""
)
LONG = STUDY.replace('size = "2 MB"', 'duration = "4 s"')


class Site:
    """A laboratory in one namespace, and hosts with an agent each in others, each joined to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.center = Lab(folder)
        self.hosts = {name: Lab(folder) for name in NODES}
        self.agents: dict[str, subprocess.Popen[str]] = {}
        Place(folder).make()
        self.queue = Queue(Place(folder).queue)

    def begin(self) -> None:
        """Join the hosts, and start the laboratory and the agents."""
        self.center.run(["sysctl", "-w", "net.ipv4.ip_forward=1"])
        for number, (name, host) in enumerate(self.hosts.items(), 1):
            own = ["name", "eth", "netns", str(host._home.pid)]
            of_center = [f"v{number}", "netns", str(self.center._home.pid)]
            subprocess.run(["ip", "link", "add", *of_center, "type", "veth", "peer", *own], check=True)  # noqa: S607
            center = f"10.77.{number}.254"
            self.center.run(["ip", "address", "add", f"{center}/24", "dev", f"v{number}"])
            self.center.run(["ip", "link", "set", f"v{number}", "up"])
            host.run(["ip", "address", "add", f"10.77.{number}.1/24", "dev", "eth"])
            host.run(["ip", "link", "set", "eth", "up"])
            # The rate of the study. A kernel without the discipline sends as fast as the processor can.
            bucket = ["tbf", "rate", "20mbit", "burst", "30kb", "limit", "60kb"]
            host.run(["tc", "qdisc", "add", "dev", "eth", "root", *bucket])
            host.run(["ip", "route", "add", "default", "via", center])
            Authority(Place(self.folder).agents).invite(name, f"{center}:8701", self.folder / f"{name}.agent")
        self.serve()
        for name in NODES:
            self.join(name)

    def serve(self) -> None:
        """Start the laboratory."""
        self.server = self.center.start([*PERIGEE, "serve", str(self.folder), "--agents", "0.0.0.0:8701"])
        if "token=" not in next_line(self.server.stdout):
            pytest.fail(self.server.communicate(timeout=60)[1])

    def join(self, name: str) -> None:
        """Start an agent, and wait until it is connected."""
        self.agents[name] = self.hosts[name].start([*PERIGEE, "agent", "run", f"{name}.agent"])
        said = ""
        while "is connected to" not in said:
            line = next_line(self.agents[name].stderr)
            assert line, said
            said += line

    def put(self, text: str, *settings: str) -> int:
        """Put a study into the queue."""
        return self.queue.add(Entry("three", "live", due=0.0, text=text, settings=settings))

    def ended(self, number: int) -> Entry:
        """Wait for the end of an entry."""
        wait_until(lambda: self.queue.get(number).state in ("done", "failed"), 120)
        return self.queue.get(number)

    def machines(self) -> dict[str, Any]:
        """Return what each agent has that is connected, by its name; nothing of others."""
        token = (Place(self.folder).private / "token-look").read_text().strip()
        program = (
            "import urllib.request as u; r = u.Request('http://127.0.0.1:8700/api/machines', "
            f"headers={{'authorization': 'Bearer {token}'}}); print(u.urlopen(r).read().decode())"
        )
        found = json.loads(self.center.run([sys.executable, "-c", program]).stdout)
        return {one["name"]: one["offer"] for one in found["agents"]}

    def programs(self) -> list[str]:
        """The programs that agents started and that go on."""
        homes = {Path(f"/proc/{host._home.pid}/ns/net").readlink() for host in self.hosts.values()}
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                name = (process / "comm").read_text().strip()
                if name in ("iperf3", "tcpdump") and (process / "ns/net").readlink() in homes:
                    found.append(name)
            except OSError:
                continue
        return found

    def end(self) -> None:
        """End all of it."""
        self.queue.close()
        for one in (*self.hosts.values(), self.center):
            one.end()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A laboratory with three agents, which each test leaves connected."""
    if os.geteuid() != 0:
        pytest.skip("namespaces of one's own need root")
    needed = ("iperf3", "nsenter", "ip", "ss", "tcpdump", "setpriv")
    if missing := [program for program in needed if shutil.which(program) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:  # noqa: S607
        pytest.skip("no network namespaces")
    site = Site(tmp_path_factory.mktemp("site"))
    try:
        site.begin()
        yield site
    finally:
        site.end()


def test_a_study_between_three_hosts_comes_back_with_captures_and_its_agents_are_told(site: Site) -> None:
    agents = site.machines()
    assert agents.keys() == set(NODES)
    for number, name in enumerate(NODES, 1):
        (device,) = agents[name]["interfaces"]
        assert (device["name"], f"10.77.{number}.1" in device["addresses"][0]) == ("eth", True)
        assert "reno" in agents[name]["algorithms"]
    entry = site.ended(site.put(STUDY))
    assert (entry.state, entry.message) == ("done", "")
    folder = site.folder / "results" / entry.results
    flows = pl.read_parquet(folder / "flows.parquet")
    assert flows["flow"].to_list() == ["bulk", "voice"]
    assert flows["completed"].all()
    assert flows["received_bytes"][0] >= 2_000_000
    assert flows["rtt_min_ms"][0] is not None
    assert {path.name for path in (folder / "raw").iterdir()} == {"run-000000-bulk.json", "run-000000-voice.json"}
    packets = {}
    for name in NODES:
        read = ["tcpdump", "-n", "-r", str(folder / f"captures/run-000000-{name}.pcap")]
        lines = subprocess.run(read, capture_output=True, text=True, check=True).stdout.splitlines()
        packets[name] = lines
        # The agents' own connections; an instant may have these digits too.
        assert not [line for line in lines if re.search(r"\.8701[ :]", line)]
    # 2 MB are 1381 segments of 1448 bytes, which a capture shows larger where the device takes them so.
    assert len(packets["first"]) > 30
    assert len(packets["third"]) > len(packets["first"])
    assert any("10.77.2.1" in line and "UDP" in line for line in packets["third"])
    setup = json.loads((folder / "study/setup.json").read_text())
    assert [host["name"] for host in setup["hosts"]] == list(NODES)
    assert site.programs() == []
    site.agents["first"].send_signal(signal.SIGTERM)
    assert site.agents["first"].wait(20) == 0
    wait_until(lambda: site.machines()["first"] is None, 20)
    site.join("first")


def test_an_agent_that_is_killed_fails_its_run_with_the_reason_and_the_queue_goes_on(site: Site) -> None:
    lost, after = site.put(LONG, "live.retries=0"), site.put(STUDY)
    wait_until(lambda: site.programs().count("iperf3") == 4, 60)
    site.agents["third"].kill()
    failed = site.ended(lost)
    assert failed.state == "failed"
    assert "agent `third`: " in failed.message
    site.join("third")
    assert site.ended(after).state == "done"
    assert site.programs() == []


def test_a_run_is_tried_again_when_the_laboratory_was_killed_and_is_there_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = site.put(LONG, "live.retries=60", "live.backoff=2 s")
    wait_until(lambda: site.programs().count("iperf3") == 4, 60)
    site.server.kill()
    wait_until(lambda: site.programs() == [], 20)
    assert "no laboratory with agents answers in this folder; start it" in error(site, monkeypatch)
    site.serve()
    entry = site.ended(number)
    assert (entry.state, entry.message) == ("done", "")
    flows = pl.read_parquet(site.folder / "results" / entry.results / "flows.parquet")
    assert flows["completed"].all()
    assert "its connection was lost" in (raw := log_of(site, number)) or "server is gone" in raw, raw


def log_of(site: Site, number: int) -> str:
    return (Place(site.folder).entry(number) / "log").read_text()


def error(site: Site, monkeypatch: pytest.MonkeyPatch, *settings: str) -> str:
    """Why a study with these settings cannot begin."""
    file = site.folder / "three.toml"
    file.write_text(STUDY)
    monkeypatch.chdir(site.folder)
    monkeypatch.setattr("perigee.engines.live.remote.ARRIVAL_S", 0.5)
    with pytest.raises(InputError) as refused:
        Live(find_study(str(file)), settings, False)
    return str(refused.value)


def test_an_agent_or_an_algorithm_that_is_not_there_ends_a_study_before_it_begins(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting, why in (
        ("live.agents.first=other", "agent `other` is not connected; connected are: first, second, third"),
        ("live.agents.first=first@10.77.9.9", "agent `first` has no address 10.77.9.9; it has: 10.77.1.1"),
        ("live.agents.first=third", "is another node already"),
    ):
        assert why in error(site, monkeypatch, setting)
    said = error(site, monkeypatch, "live.cc_names.reno=nonesuch")
    assert "agent `first` has no congestion control `nonesuch`; it has: " in said
    assert "agent `third` has no congestion control `nonesuch`" in said


class Controller:
    """A laboratory's end of one agent's connection, in the hands of a test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self, ask: str, values: object) -> Message:
        """Ask, and return the answer."""
        self.writer.write(packed({"ask": ask, "number": 7, "values": values}))
        while True:
            message = await asyncio.wait_for(received(self.reader), 30)
            if "answer" in message:
                return message


def test_an_agent_does_what_is_on_its_list_and_refuses_all_else_and_ends_with_its_jobs(tmp_path: Path) -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    authority, port, served = Authority(tmp_path / "agents"), free_port(), free_port()
    file = tmp_path / "moon.agent"
    authority.invite("moon", f"127.0.0.1:{port}", file)
    connections: asyncio.Queue[Controller] = asyncio.Queue()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await connections.put(Controller(reader, writer))

    async def converse(agent: subprocess.Popen[str]) -> None:
        async with await asyncio.start_server(connected, "127.0.0.1", port, ssl=authority.context()):
            controller = await asyncio.wait_for(connections.get(), 60)
            for ask, values, error in (
                ("shell", {"line": "id"}, "'shell' is nothing that an agent does"),
                (None, {}, "'None' is nothing that an agent does"),
                ("iperf3-server", {"address": "127.0.0.1 --daemon", "port": served}, "address: "),
                ("iperf3-server", {"address": "127.0.0.1", "port": "1"}, "port: '1' is refused"),
                ("iperf3-server", {"address": "127.0.0.1", "port": served, "logfile": "/x"}, "there is no 'logfile'"),
                ("capture", {"device": "-z/bin/sh", "first_port": 1, "last_port": 2}, "device: "),
                ("read", {"job": 9, "stream": "output", "offset": 0}, "there is no job 9"),
                ("read", {"job": 9, "stream": "../x", "offset": 0}, "stream: "),
            ):
                answer = await controller.answer(str(ask) if ask else "None", values)
                assert error in answer["error"].replace('"1"', "'1'"), answer
            assert "job" in await controller.answer(
                "iperf3-server", {"address": "127.0.0.1", "port": served, "interval_ms": 100}
            )
            with socket.create_connection(("127.0.0.1", served)):
                pass
            controller.writer.write((MOST_BYTES + 1).to_bytes(LENGTH_BYTES, "big"))
            # It ends the connection and what it has started, and comes back.
            again = await asyncio.wait_for(connections.get(), 60)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", served))
            assert "job" in await again.answer(
                "iperf3-server", {"address": "127.0.0.1", "port": served, "interval_ms": 100}
            )
            agent.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(agent.wait, 30) == 0
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", served))

    command = [*PERIGEE, "agent", "run", str(file)]
    with running(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as agent:
        asyncio.run(converse(agent))
        assert agent.stderr is not None
        said = agent.stderr.read()
    assert "refused: 'shell' is nothing that an agent does" in said
    assert "1048577 bytes" in said


def context_of(authority: Authority, folder: Path, name: str, trusted: str) -> ssl.SSLContext:
    """The context of an agent of one authority that trusts another one's controller."""
    authority.invite(name, "127.0.0.1:1", folder / f"{name}.agent")
    context = ssl.create_default_context(cadata=trusted)
    context.load_cert_chain(folder / f"{name}.agent")
    return context


def test_a_laboratory_refuses_strangers_removed_agents_and_messages_that_are_none_and_logs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path)
    place.make()
    authority, port = Authority(place.agents), free_port()
    trusted = (place.agents / "authority.pem").read_text()
    stranger = context_of(Authority(tmp_path / "other"), tmp_path, "stranger", trusted)
    removed = context_of(authority, tmp_path, "removed", trusted)
    (place.agents / "removed.pem").unlink()
    known = context_of(authority, tmp_path, "known", trusted)
    hub = Hub(place.agents)

    async def ends(context: ssl.SSLContext | None, content: bytes) -> bool:
        """Whether the laboratory ends a connection."""
        name = CONTROLLER if context else None
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        try:
            writer.write(content)
            return await asyncio.wait_for(reader.read(), 20) == b""
        except OSError:
            return True
        finally:
            writer.transport.abort()

    async def try_all() -> None:
        async with hub.listening("127.0.0.1", port):
            assert [one["name"] for one in hub.listed()] == ["known"]
            for context, content in (
                (None, b"GET / HTTP/1.1\r\n\r\n"),
                (stranger, b""),
                (removed, b""),
                (known, (MOST_BYTES + 1).to_bytes(LENGTH_BYTES, "big")),
                (known, packed({"event": "offer", "offer": {"interfaces": "none"}})),
                (known, packed({"answer": "x"})),
                (known, b"\0\0\0\2{["),
            ):
                assert await ends(context, content), content
            assert hub.listed()[0]["offer"] is None
            mode = (tmp_path / "laboratory/agents.sock").stat().st_mode & 0o777
            assert mode == 0o600
        assert not (tmp_path / "laboratory/agents.sock").exists()

    asyncio.run(try_all())
    said = " | ".join(record.getMessage() for record in caplog.records)
    for why in (
        "no agent of this laboratory: CERTIFICATE_VERIFY_FAILED",
        "its certificate was removed or replaced",
        "refused: a message of 1048577 bytes",
        "refused: an offer that is none",
        "refused: a message that no agent sends",
        "refused: a message that is no JSON",
    ):
        assert why in said, said


def test_an_agent_of_another_laboratory_says_so_and_the_file_of_an_agent_is_its_owners_only(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    port = free_port()
    file = tmp_path / "moon.agent"
    other.invite("moon", f"127.0.0.1:{port}", file)
    for path in (file, *(tmp_path / "b").iterdir()):
        assert path.stat().st_mode & 0o777 == 0o600, path

    async def refuse(agent: subprocess.Popen[str]) -> str:
        async with await asyncio.start_server(
            lambda _reader, _writer: None, "127.0.0.1", port, ssl=authority.context()
        ):
            return await asyncio.to_thread(next_line, agent.stderr)

    command = [*PERIGEE, "agent", "run", str(file)]
    with running(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as agent:
        said = asyncio.run(refuse(agent))
    assert "the controller's certificate is not of this agent's laboratory" in said
    with pytest.raises(InputError, match="exists already"):
        other.invite("moon", "127.0.0.1:1", file)
    with pytest.raises(InputError, match="no name for an agent"):
        other.invite("../moon", "127.0.0.1:1", tmp_path / "x")
    file.chmod(0o644)
    with pytest.raises(InputError, match="other users can read the key"):
        Identity.read(file)
    (tmp_path / "none").write_text("nothing\n")
    (tmp_path / "none").chmod(0o600)
    with pytest.raises(InputError, match="not the file of an agent"):
        Identity.read(tmp_path / "none")


def test_values_of_jobs_cannot_become_options() -> None:
    values: dict[str, Any] = {
        "host": "10.0.0.1", "port": 5201, "v6": False, "reverse": False, "interval_ms": 1000, "connect_timeout_ms": 1,
        "congestion": "cubic", "time_s": 3,
    }  # fmt: skip
    assert checked(Client, values).line()[-4:] == ["--congestion", "cubic", "--time", "3"]
    for key, value in (
        ("host", "-h"),
        ("congestion", "--file"),
        ("port", True),
        ("port", 0),
        ("time_s", -1),
        ("v6", 1),
    ):
        with pytest.raises(ValueError, match=f"{key}: "):
            checked(Client, {**values, key: value})
    with pytest.raises(ValueError, match="values are missing"):
        checked(Server, {"port": 1})
    with pytest.raises(MessageError):
        offer_of({"version": "1"})
