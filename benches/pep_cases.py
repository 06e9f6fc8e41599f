# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Transfers in which a proxy may lose something: `CASES` has all, and `run` returns the outcome of each with a proxy.

Each case has its own network and proxy. It fails if a byte is lost or changed, if an end sees an orderly end of a
stream that has not ended, or if an end sees nothing. Without a proxy the same transfers show that the cases themselves
are right. `pep.py` prints the table.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pep_service_cases as service
from pep_ends import (
    MB,
    RESET,
    LostError,
    Work,
    await_closed,
    child,
    connected,
    darken,
    data,
    echo,
    exchange,
    expect,
    expect_reset,
    expect_whole,
    flood,
    lighten,
    pair,
    read,
    read_exactly,
    reset,
    send,
)
from pep_world import PATIENCE_S, PORT, SERVER, SERVER6, Proxy, running

LONG = data(8 * MB)
SHORT = data(100_000, 2)
CASE_S = 150


@dataclass(frozen=True)
class Case:
    """A case: what it is, what happens in it, which proxies it applies to, and their settings."""

    name: str
    act: Callable[[Proxy], None]
    kinds: tuple[str, ...] = ("direct", "perigee", "haproxy")
    settings: dict[str, dict[str, str]] = field(default_factory=dict)


def one_way(proxy: Proxy, what: bytes, *, upload: bool = False) -> None:
    """Send from one end; the other ends its own stream once it has everything."""
    with connected(proxy) as (client, server):
        sender, reader = (client, server) if upload else (server, client)
        exchange(sender, reader, what, b"", waits_s=0)


def both_ways(proxy: Proxy, up: bytes, down: bytes, address: str = SERVER) -> None:
    """Send from both ends at once, and expect all."""
    with connected(proxy, address) as ends:
        exchange(*ends, up, down)


def client_address(proxy: Proxy, address: str) -> None:
    """The server sees the client's address."""
    with connected(proxy, address) as (client, server):
        expect(server.getpeername()[0] == client.getsockname()[0], f"it sees {server.getpeername()[0]}")


def messages(proxy: Proxy, sizes: Sequence[int]) -> None:
    """Messages of these sizes, each answered."""
    with connected(proxy) as (client, server):
        for size in sizes:
            echo(client, server, LONG[:size])


def one_end_answers(proxy: Proxy, request: bytes, *, server_first: bool = False, pause_s: float = 0) -> None:
    """One end sends and ends its stream; the other answers once it has all of it."""
    with connected(proxy) as (client, server):
        first, second = (server, client) if server_first else (client, server)
        exchange(first, second, request, LONG, waits_s=pause_s)


def urgent_byte(proxy: Proxy) -> None:
    """An urgent byte amid an upload whose server reads late: it keeps its place, and nothing behind it is lost."""
    with connected(proxy) as (client, server):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)

        def work() -> None:
            client.sendall(LONG)
            client.send(b"!", socket.MSG_OOB)
            client.sendall(SHORT)
            client.shutdown(socket.SHUT_WR)

        sending = Work(work)
        time.sleep(1)
        expect_whole(read(server), LONG + b"!" + SHORT)
        sending.result()


def before_the_server(proxy: Proxy) -> None:
    """The client has sent and ended its stream before the server takes the connection."""
    with proxy.world.server.listen(SERVER) as listener, proxy.world.client.connect(SERVER) as client:
        client.sendall(SHORT)
        client.shutdown(socket.SHUT_WR)
        time.sleep(0.2)
        server, _ = listener.accept()
        with server:
            server.settimeout(PATIENCE_S)
            expect_whole(read(server), SHORT)
            server.sendall(SHORT)
        expect_whole(read(client), SHORT)


def late_reader(
    proxy: Proxy,
    *,
    upload: bool = False,
    late_s: float = 1.0,
    pause_s: float = 0.0,
    block: int = 65536,
    receive_buffer: int | None = None,
    count: int = 4 * MB,
) -> None:
    """One end sends and closes its socket; the other begins to read late, and reads slowly."""
    client, server = pair(proxy, receive_buffer=receive_buffer)
    sender, reader = (client, server) if upload else (server, client)

    def work() -> None:
        sender.sendall(LONG[:count])
        sender.close()

    with client, server:
        sending = Work(work)
        time.sleep(late_s)
        expect_whole(read(reader, block, lambda: time.sleep(pause_s)), LONG[:count])
        sending.result()


def stalled_other_way(proxy: Proxy) -> None:
    """The client reads nothing while it sends; its stream arrives, and then it reads."""
    with connected(proxy) as (client, server):
        sending = send(server, LONG)
        time.sleep(0.3)
        up = send(client, LONG)
        expect_whole(read(server), LONG)
        expect_whole(read(client), LONG)
        sending.result()
        up.result()


def killed_after_writing(proxy: Proxy) -> None:
    """The server's process is killed once it has written everything."""
    with proxy.world.server.listen(SERVER) as listener:

        def work() -> None:
            server, _ = listener.accept()
            server.settimeout(PATIENCE_S)
            server.sendall(SHORT)
            signal.raise_signal(signal.SIGKILL)

        with child(work), proxy.world.client.connect(SERVER) as client:
            expect_whole(read(client), SHORT)


def small_packets(proxy: Proxy) -> None:
    """Both directions over a link for packets of at most 600 bytes."""
    proxy.world.client.execute("ip link set eth0 mtu 600")
    proxy.world.router.execute("ip link set lan0 mtu 600")
    both_ways(proxy, LONG[:MB], LONG[:MB])


def reset_by(proxy: Proxy, who: str, after: bytes = b"", *, half_closed: bool = False) -> None:
    """One end sends something and resets the connection; the other sees the reset."""
    with connected(proxy) as (client, server):
        one, other = (client, server) if who == "client" else (server, client)
        if half_closed:
            other.shutdown(socket.SHUT_WR)
            expect_whole(read(one), b"")
        reading = Work(lambda: read(other))
        one.sendall(after)
        if after:
            time.sleep(0.1)
        reset(one)
        got = reading.result()
        if not isinstance(got, tuple):
            raise TypeError(got)
        expect_reset(got, after)


def reset_of_a_reader(proxy: Proxy) -> None:
    """The client resets in the middle of a download; the server sees the reset."""
    with connected(proxy) as (client, server):
        sending = Work(lambda: flood(server))
        read_exactly(client, MB)
        reset(client)
        expect(sending.result() == RESET, "the server is told nothing")


def closed_with_unread_bytes(proxy: Proxy) -> None:
    """The server closes without having read the request; the client sees the reset."""
    client, server = pair(proxy)
    with client:
        with server:
            client.sendall(SHORT)
            server.recv(1, socket.MSG_PEEK)
        expect_reset(read(client))


def reset_at_once(proxy: Proxy) -> None:
    """The client resets as soon as it is connected; the server sees it, if it accepts the connection."""
    with proxy.world.server.listen(SERVER) as listener:
        reset(proxy.world.client.connect(SERVER))
        listener.settimeout(1)
        try:
            server, _ = listener.accept()
        except TimeoutError:
            return
        with server:
            server.settimeout(PATIENCE_S)
            expect_reset(read(server))


def both_reset(proxy: Proxy) -> None:
    """Both ends reset a hundred connections; the proxy keeps no socket of them."""
    before = proxy.descriptors("socket")
    for _ in range(100):
        client, server = pair(proxy)
        client.sendall(SHORT)
        reset(server)
        reset(client)
    await_closed(proxy, before)


def unreached(proxy: Proxy, how: str, *, as_such: bool = False) -> None:
    """The server refuses, is unreachable or silent; the client sees it before any orderly end."""
    address = SERVER
    if how == "unreachable":
        address = "10.2.0.99"
        proxy.world.router.execute(f"ip route add unreachable {address}")
    if how == "silent":
        darken(proxy.world.server)
    try:
        client = proxy.world.client.connect(address)
    except TimeoutError:
        raise LostError("the client is told nothing") from None
    except OSError as error:
        # A client that is woken late finds its connection reset already.
        expect(not as_such or isinstance(error, ConnectionRefusedError), "a reset after the handshake")
        return
    with client:
        expect_reset(read(client))
        expect(not as_such, "a reset after the handshake")


def vanished(proxy: Proxy, who: str, sender: str) -> None:
    """An end falls silent forever, while one of the two sends; the other end sees a failure."""
    with connected(proxy) as (client, server):
        echo(client, server)
        end = server if who == "client" else client
        told = Work((lambda: read(end)[1]) if sender == who else (lambda: flood(end)))
        darken(proxy.world.client if who == "client" else proxy.world.server)
        how = told.result()
        expect(how == RESET, f"{how} instead of a reset")


def dark_leg(proxy: Proxy, seconds: float, *, upload: bool = False) -> None:
    """The server's leg is dark in the middle of a transfer; everything arrives."""
    with connected(proxy) as (client, server):
        one, other = (client, server) if upload else (server, client)
        one.sendall(LONG[:SMALL])
        beginning = read_exactly(other, SMALL)
        darken(proxy.world.server)
        sending = send(one, LONG[SMALL:])
        reading = Work(lambda: read(other))
        time.sleep(seconds)
        lighten(proxy.world.server)
        got = reading.result()
        sending.result()
        if not isinstance(got, tuple):
            raise TypeError(got)
        expect_whole((beginning + got[0], got[1]), LONG)


def client_dscp(proxy: Proxy) -> None:
    """The client's differentiated services code point is on packets to the server."""
    proxy.world.server.execute("nft -f -", COUNTED)
    with proxy.world.server.listen(SERVER) as listener, proxy.world.client.entered():
        client = socket.socket()
        with client:
            client.settimeout(PATIENCE_S)
            client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 46 << 2)
            client.connect((SERVER, PORT))
            listener.accept()[0].close()
    expect("packets 0" not in proxy.world.server.execute("nft list table inet seen"), "another code point")


COUNTED = """table inet seen {
  chain input {
    type filter hook input priority 0
    tcp dport 80 ip dscp ef counter
  }
}
"""
SMALL = 50_000
SIZES = (1, 100, 1447, 16384, 49151, 49152, 49153, 65535, 65536, 65537, 262143, 262144, 262145, 1_000_000)
FIRST = {"perigee": {"more": "connect_first = true\n"}}
HELD = {"perigee": {"legs": 'outage_grace = "10 min"'}}
CUT = {
    "perigee": {"legs": 'outage_grace = "2 s"\nkeep_alive = "1 s"'},
    "haproxy": {"dark": "2000"},
}
PROXIED = ("perigee", "haproxy")

CASES = (
    Case("download of 8 MB", lambda proxy: one_way(proxy, LONG)),
    Case("upload of 8 MB", lambda proxy: one_way(proxy, LONG, upload=True)),
    Case("8 MB both ways at once", lambda proxy: both_ways(proxy, LONG, LONG[::-1])),
    Case("download of one byte", lambda proxy: one_way(proxy, b"x")),
    Case("both ends close at once without a byte", lambda proxy: both_ways(proxy, b"", b"")),
    Case("8 MB both ways, IPv6", lambda proxy: both_ways(proxy, LONG, LONG[::-1], SERVER6)),
    Case("over a link for packets of 600 bytes", small_packets),
    Case("1000 messages of one byte", lambda proxy: messages(proxy, [1] * 1000)),
    Case("messages about the sizes of buffers", lambda proxy: messages(proxy, SIZES)),
    Case("server sees the client's address", lambda proxy: client_address(proxy, SERVER)),
    Case("server sees the client's address, IPv6", lambda proxy: client_address(proxy, SERVER6)),
    Case("server sees the client's code point (DSCP)", client_dscp),
    Case("request, half-close, reply of 8 MB", lambda proxy: one_end_answers(proxy, SHORT)),
    Case("request of 8 MB, half-close, reply", lambda proxy: one_end_answers(proxy, LONG)),
    Case("half-close without a byte, reply", lambda proxy: one_end_answers(proxy, b"")),
    Case("half-close, a second of silence, reply", lambda proxy: one_end_answers(proxy, SHORT, pause_s=1)),
    Case("server half-closes first, client answers", lambda proxy: one_end_answers(proxy, SHORT, server_first=True)),
    Case("half-closed before the server accepts", before_the_server),
    Case("download read 1 s after its sender closed", late_reader),
    Case("upload read 1 s after its sender closed", lambda proxy: late_reader(proxy, upload=True)),
    Case("slow reader of a closed download", lambda proxy: late_reader(proxy, late_s=0.2, pause_s=0.01, block=20_000)),
    Case(
        "slow reader of a closed upload",
        lambda proxy: late_reader(proxy, upload=True, late_s=0.2, pause_s=0.01, block=20_000),
    ),
    Case("reader with a buffer of 4 KiB", lambda proxy: late_reader(proxy, receive_buffer=4096, count=MB, late_s=0.2)),
    Case("reader that pauses for 3 s", lambda proxy: late_reader(proxy, late_s=3)),
    Case("upload while the download is not read", stalled_other_way),
    Case("upload with an urgent byte, read 1 s late", urgent_byte),
    Case("server killed after its last write", killed_after_writing),
    Case("server resets before any byte", lambda proxy: reset_by(proxy, "server")),
    Case("server resets after 1 MB", lambda proxy: reset_by(proxy, "server", LONG[:MB])),
    Case("server resets after the client's half-close", lambda proxy: reset_by(proxy, "server", half_closed=True)),
    Case("client resets before any byte", lambda proxy: reset_by(proxy, "client")),
    Case("client resets after 1 MB", lambda proxy: reset_by(proxy, "client", LONG[:MB])),
    Case("client resets after the server's half-close", lambda proxy: reset_by(proxy, "client", half_closed=True)),
    Case("client resets amid a download", reset_of_a_reader),
    Case("client resets at once", reset_at_once),
    Case("server closes with the request unread", closed_with_unread_bytes),
    Case("a hundred resets by both ends", both_reset),
    Case("server refuses: client is told", lambda proxy: unreached(proxy, "refused")),
    Case(
        "server refuses: client sees a refusal", lambda proxy: unreached(proxy, "refused", as_such=True), settings=FIRST
    ),
    Case("server unreachable: client is told", lambda proxy: unreached(proxy, "unreachable")),
    Case("server silent: client is told", lambda proxy: unreached(proxy, "silent"), PROXIED),
    Case("client vanishes amid a download", lambda proxy: vanished(proxy, "client", "server"), PROXIED, CUT),
    Case("client vanishes amid an upload", lambda proxy: vanished(proxy, "client", "client"), PROXIED, CUT),
    Case("server vanishes amid an upload", lambda proxy: vanished(proxy, "server", "client"), PROXIED, CUT),
    Case("server vanishes amid a download", lambda proxy: vanished(proxy, "server", "server"), PROXIED, CUT),
    Case("leg dark for 5 s (scaled: 0.1 s)", lambda proxy: dark_leg(proxy, 0.1), settings=HELD),
    Case("leg dark for 30 s (scaled: 0.6 s)", lambda proxy: dark_leg(proxy, 0.6), settings=HELD),
    Case("leg dark for 300 s (scaled: 6 s)", lambda proxy: dark_leg(proxy, 6), settings=HELD),
    Case("the same, upload", lambda proxy: dark_leg(proxy, 6, upload=True), settings=HELD),
    *(Case(*each) for each in service.CASES),
)
"""In the order of the table."""


def run(case: Case, kind: str) -> str:
    """Carry out a case with a kind of proxy; return `yes`, `-` where it does not apply, or what went wrong."""
    if kind not in case.kinds:
        return "-"

    def late(*_: object) -> None:
        raise LostError(f"it takes more than {CASE_S} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(CASE_S)
    try:
        with running(kind, **case.settings.get(kind, {})) as proxy:
            case.act(proxy)
    except LostError as lost:
        return str(lost)
    except (OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return "yes"
