# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A client, a router and a server in network namespaces without names, and the proxies that run at the router.

client 10.1.0.2 - lan0 10.1.0.1 router 10.2.0.1 wan0 - 10.2.0.2 server, and the same with 2001:db8:1:: and 2001:db8:2::.
The kernel removes namespaces, devices and rules with the last process in them, and processes that are started here are
killed with the one that started them: nothing is left, however that one ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVICE = Path(os.environ.get("PERIGEE_PEP", ROOT / "target/release/perigee-pep"))
HAPROXY = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
TIED = ("setpriv", "--pdeathsig", "KILL")
"""In front of a command: it is killed when this process ends."""

CLIENT, SERVER, CLIENT6, SERVER6 = "10.1.0.2", "10.2.0.2", "2001:db8:1::2", "2001:db8:2::2"
PORT = 80
PATIENCE_S = 60.0
"""No operation takes as long, on whatever machine."""
DESCRIPTORS = min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
"""Limit of open files of a process."""

NEW_NETWORK, NEW_MOUNTS, NEW_PROCESSES = 0x40000000, 0x00020000, 0x20000000
OWN_FILES = "/dev/shm"  # noqa: S108 - a file system that only this process and those that it starts see
DEATH_SIGNAL = 1
LIBC = ctypes.CDLL(None, use_errno=True)

ALLOWED = (
    '[allow]\nsources = ["10.1.0.0/16", "2001:db8:1::/48"]\n'
    'destinations = ["10.2.0.0/16", "2001:db8:2::/48"]\n'
    '[transparent]\ninterfaces = ["lan0"]\n'
)
LIMITS = "[limits]\nconnections = 20000\n"
ROUTES = (
    "ip rule add fwmark 1 lookup 100",
    "ip route add local default dev lo table 100",
    "ip -6 rule add fwmark 1 lookup 100",
    "ip -6 route add local default dev lo table 100",
)
RULES = """table inet haproxy {
  chain prerouting {
    type filter hook prerouting priority mangle; policy accept;
    meta l4proto tcp socket transparent 1 meta mark set 1 accept
    iifname "lan0" ip daddr 10.2.0.0/16 meta l4proto tcp tproxy ip to 127.0.0.1:3129 meta mark set 1 accept
    iifname "lan0" ip6 daddr 2001:db8:2::/48 meta l4proto tcp tproxy ip6 to [::1]:3129 meta mark set 1 accept
  }
}
"""


def begin(*, alone: bool = False) -> None:
    """Have all that this process makes vanish with it: files, networks, processes; Ctrl-C and SIGTERM end it at once.

    Args:
        alone: go on as the first process of a namespace: the kernel also ends processes that nobody waits for.
    """
    if os.geteuid() != 0:
        sys.exit("network namespaces take root")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os._exit(128 + number))
    _call(LIBC.unshare(NEW_MOUNTS | (NEW_PROCESSES if alone else 0)), "unshare")
    if alone:
        if process := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            os._exit(code if code >= 0 else 128 - code)
        LIBC.prctl(DEATH_SIGNAL, signal.SIGKILL)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", OWN_FILES], check=True)
    if alone:
        subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    os.environ["TMPDIR"] = OWN_FILES
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


class Host:
    """A network namespace."""

    def __init__(self) -> None:
        here = _open_own()
        _call(LIBC.unshare(NEW_NETWORK), "unshare")
        self.descriptor = _open_own()
        _enter(here)
        os.close(here)
        self.execute("ip link set lo up")
        # Until a device's address is known to be its own, a second or two, a proxy cannot find its neighbours there.
        for name in ("all", "default"):
            self.set(f"ipv6/conf/{name}/accept_dad", "0")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Have this thread's new sockets and processes in the namespace."""
        before = _open_own()
        _enter(self.descriptor)
        try:
            yield
        finally:
            _enter(before)
            os.close(before)

    def execute(self, line: str, text: str | None = None) -> str:
        """Carry out a command line of plain words, and return what it printed.

        Raises:
            RuntimeError: it failed.
        """
        with self.entered():
            done = subprocess.run(line.split(), input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{line}: {done.stderr.strip()}")
        return done.stdout

    def set(self, name: str, value: str) -> None:
        """Set a variable below /proc/sys/net."""
        with self.entered():
            Path("/proc/sys/net", name).write_text(value)

    def listen(self, address: str, port: int = PORT, receive_buffer: int | None = None) -> socket.socket:
        """Return a socket that listens."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with self.entered():
            listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        listener.bind((address, port))
        listener.listen(4096)
        listener.settimeout(PATIENCE_S)
        return listener

    def connect(self, address: str, port: int = PORT, receive_buffer: int | None = None) -> socket.socket:
        """Return a connection; operations on it fail after a minute instead of waiting for ever."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with self.entered():
            connection = socket.socket(family)
        connection.settimeout(PATIENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            connection.connect((address, port))
        except OSError:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Give the namespace up."""
        os.close(self.descriptor)


class World:
    """The three hosts, and a folder for files."""

    def __init__(self) -> None:
        self.client, self.router, self.server = Host(), Host(), Host()
        self.folder = Path(tempfile.mkdtemp(prefix="perigee-bench-"))
        for host, device, net in ((self.client, "lan0", 1), (self.server, "wan0", 2)):
            there = f"/proc/{os.getpid()}/fd/{host.descriptor}"
            self.router.execute(f"ip link add {device} type veth peer name eth0 netns {there}")
            for end, name, own in ((self.router, device, 1), (host, "eth0", 2)):
                end.execute(f"ip address add 10.{net}.0.{own}/24 dev {name}")
                end.execute(f"ip address add 2001:db8:{net}::{own}/64 dev {name} nodad")
                end.execute(f"ip link set {name} up")
            host.execute(f"ip route add default via 10.{net}.0.1")
            host.execute(f"ip -6 route add default via 2001:db8:{net}::1")
        for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            self.router.set(name, "1")
        for host in (self.client, self.router, self.server):
            host.set("core/somaxconn", "16384")
            host.set("ipv4/tcp_max_syn_backlog", "16384")
            host.set("ipv4/ip_local_port_range", "2000 65535")

    def close(self) -> None:
        """Remove what the process would else keep."""
        for host in (self.client, self.router, self.server):
            host.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Proxy:
    """A program at the router that connections go through. This one is none: the router forwards."""

    name = "direct"

    def __init__(self, world: World, **_: str) -> None:
        self.world = world
        self.process: subprocess.Popen[str] | None = None

    def close(self) -> None:
        """End it at once, and remove its rules."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to it."""
        if self.process:
            self.process.send_signal(number)

    def reload(self) -> None:
        """Have it read its configuration again, and return when it has."""

    def drain(self) -> None:
        """Have it take no new connections, and end once there are none."""

    def cpu_s(self) -> float:
        """Processor time that its threads have taken so far, seconds; of softirqs what fell into it."""
        if not self.process:
            return 0.0
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def memory_mb(self) -> float:
        """Its memory (Pss), MB."""
        if not self.process:
            return 0.0
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(text.partition("\nPss:")[2].split()[0]) * 1024 / 1e6

    def sockets_mb(self) -> float:
        """The kernel's memory for what is in its sockets, MB: packets that arrived, and those to be sent."""
        text = self.world.router.execute("ss -Htmn state established")
        return sum(int(size) for size in re.findall(r"[(,][rtwfo](\d+)", text)) / 1e6

    def descriptors(self, kind: str) -> int:
        """Count its open descriptors of a kind: `socket` or `pipe`."""
        found = 0
        for path in Path(f"/proc/{self.process.pid}/fd").iterdir() if self.process else ():
            with contextlib.suppress(FileNotFoundError):
                found += str(path.readlink()).startswith(f"{kind}:")
        return found

    def log(self) -> str:
        """Return its output so far."""
        path = self._log
        return path.read_text() if path.exists() else ""

    @property
    def _log(self) -> Path:
        return self.world.folder / f"{self.name}.log"

    def _start(self, *command: str) -> subprocess.Popen[str]:
        with self.world.router.entered(), self._log.open("a") as log:
            return subprocess.Popen([*TIED, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True)


class Perigee(Proxy):
    """The service perigee-pep.

    Args:
        world: where it runs.
        core: the processor it is confined to.
        workers: its threads that carry connections.
        descriptors: limit of its open files.
        under: a command in front of the program.
        service: more lines of `[service]`.
        legs: lines of the legs' settings, and more legs.
        client: the leg to clients.
        more: more tables.
    """

    name = "perigee-pep"

    def __init__(
        self,
        world: World,
        *,
        core: str = "",
        workers: str = "1",
        descriptors: str = str(DESCRIPTORS),
        under: str = "",
        service: str = "",
        legs: str = "",
        client: str = "any",
        more: str = LIMITS,
    ) -> None:
        super().__init__(world)
        self.path = world.folder / "pep.toml"
        # A program that runs it has system calls of its own.
        confined = "confine = false\n" if under else ""
        self.text = (
            f"[service]\nworkers = {workers}\n{confined}{service}\n"
            f"{ALLOWED}[legs.any]\n{legs}\n"
            f'[[rules]]\nname = "all"\nclient = "{client}"\nserver = "any"\nconnect_timeout = "2 s"\n{more}'
        )
        self.path.write_text(self.text)
        placed = ("taskset", "-c", core) if core else ()
        limited = ("prlimit", f"--nofile={descriptors}")
        self.command = (*limited, *placed, *under.split(), str(SERVICE), "run", str(self.path))
        self.start()

    def start(self) -> None:
        """Start it, and return when it is ready."""
        count = self.log().count("ready")
        self.process = self._start(*self.command)
        self._await(lambda: self.log().count("ready") > count)

    def reload(self) -> None:
        """As above."""
        count = self.log().count("reloaded")
        self.signal(signal.SIGHUP)
        self._await(lambda: self.log().count("reloaded") > count)

    def drain(self) -> None:
        """As above."""
        self.signal(signal.SIGTERM)
        self._await(lambda: "draining" in self.log())

    def _await(self, is_so: Callable[[], bool]) -> None:
        await_that(is_so, lambda: f"perigee-pep: {self.log().strip()}", self.process)


class Haproxy(Proxy):
    """HAProxy in TCP mode: transparent towards both ends, one thread, splicing where it finds it worthwhile.

    Args:
        world: where it runs.
        core: the processor it is confined to.
        under: a command in front of the program.
        descriptors: limit of its open files.
        lines: more lines of `defaults`.
        dark: milliseconds for which a leg may be dark.
        maxconn: connections at a time; empty for as many as it finds descriptors for.
    """

    name = "HAProxy"

    def __init__(
        self,
        world: World,
        *,
        core: str = "",
        under: str = "",
        descriptors: str = str(DESCRIPTORS),
        lines: str = "",
        dark: str = "600000",
        maxconn: str = str(DESCRIPTORS // 2 - 150),
    ) -> None:
        super().__init__(world)
        self.path = world.folder / "haproxy.cfg"
        self.path.write_text(
            f"global\n  nbthread 1\n  maxpipes 20\n{f'  maxconn {maxconn}' if maxconn else ''}\n"
            f"defaults\n  mode tcp\n  option splice-auto\n  timeout connect 2s\n  retries 0\n"
            "  timeout client 10m\n  timeout server 10m\n"
            f"  option tcpka\n  clitcpka-idle 1s\n  clitcpka-intvl 1s\n  srvtcpka-idle 1s\n  srvtcpka-intvl 1s\n{lines}"
            f"listen all\n  bind 0.0.0.0:3129 transparent tcp-ut {dark}\n"
            f"  bind [::]:3129 transparent v6only tcp-ut {dark}\n"
            f"  server origin * source 0.0.0.0 usesrc clientip tcp-ut {dark}\n"
        )
        for route in ROUTES:
            world.router.execute(route)
        world.router.execute("nft -f -", RULES)
        confined = ("taskset", "-c", core) if core else ()
        limited = ("prlimit", f"--nofile={descriptors}")
        self.command = (*limited, *confined, *under.split(), str(HAPROXY), "-db", "-f", str(self.path))
        self.former: list[subprocess.Popen[str]] = []
        self.start()

    def start(self, *more: str) -> None:
        """Start it, and return when it listens."""
        self.process = process = self._start(*self.command, *more)
        await_that(lambda: self._listens(process.pid), lambda: f"HAProxy: {self.log().strip()}", process)

    def close(self) -> None:
        """As above."""
        super().close()
        for process in self.former:
            process.kill()
            process.wait()
        self.former.clear()
        for route in ROUTES:
            self.world.router.execute(route.replace(" add ", " delete "))
        self.world.router.execute("nft delete table inet haproxy")

    def reload(self) -> None:
        """As above: a second process takes over, and the first ends with its connections."""
        if self.process:
            self.former.append(self.process)
            self.start("-sf", str(self.process.pid))

    def drain(self) -> None:
        """As above."""
        self.signal(signal.SIGUSR1)
        await_that(lambda: ":3129" not in self.world.router.execute("ss -Hltn"), self.log)

    def _listens(self, pid: int) -> bool:
        return f"pid={pid}," in self.world.router.execute("ss -Hltnp")


PROXIES: dict[str, type[Proxy]] = {"direct": Proxy, "perigee": Perigee, "haproxy": Haproxy}


@contextlib.contextmanager
def running(kind: str, **settings: str) -> Iterator[Proxy]:
    """A network with a proxy of a kind: `direct`, `perigee` or `haproxy`; both are gone after the block."""
    world = World()
    try:
        proxy = PROXIES[kind](world, **settings)
        try:
            yield proxy
        finally:
            proxy.close()
    finally:
        world.close()


def available(kinds: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the kinds of proxies that this host has, and for each of the others why not."""
    reasons = {}
    if not SERVICE.exists():
        reasons["perigee"] = "perigee: cargo build --release -p perigee-pep builds it"
    if not HAPROXY:
        reasons["haproxy"] = "HAProxy is not compared: apt install haproxy"
    return [kind for kind in kinds if kind not in reasons], [reasons[kind] for kind in kinds if kind in reasons]


def tie_to(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; for processes that `os.fork` made."""
    LIBC.prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def await_that(
    is_so: Callable[[], bool],
    what: Callable[[], str],
    process: subprocess.Popen[str] | None = None,
    patience_s: float = PATIENCE_S,
) -> None:
    """Wait until something is so.

    Raises:
        RuntimeError: it is not so in time, or the process has ended.
    """
    deadline = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() > deadline or (process and process.poll() is not None and not is_so()):
            raise RuntimeError(what())
        time.sleep(0.005)


def _open_own() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _enter(descriptor: int) -> None:
    _call(LIBC.setns(descriptor, NEW_NETWORK), "setns")


def _call(result: int, name: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
