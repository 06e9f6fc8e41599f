# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One download by two programs over an emulated link, as the first process of namespaces of its own.

`running.py` starts it with a job on standard input, and reads what was measured from its standard output, both JSON.
Files are in memory, mounted over the folder of the job: they end with the namespaces, and so does each program.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perigee.engines.links.emulation import run_behind
from perigee.errors import PerigeeError, RunError
from perigee.matrix.client import CAPTURE, DONE, SAID, Fault, ending, started
from perigee.places import find_profile

LISTENS_S = 20.0
"""Time in which a server must listen."""
SAID_BYTES = 2000
"""Most that is kept of what a program wrote last."""
SERVER_SAID = Path("server.txt")

Job = Mapping[str, Any]


def main() -> None:
    """Carry out the job."""
    job = json.load(sys.stdin)
    try:
        _mount(Path(job["folder"]))
        print(json.dumps(_studied(job["study"]) if "study" in job else _download(job)))
    except Fault as error:
        print(json.dumps({"fault": str(error), "said": _said()}))
    except PerigeeError as error:
        print(json.dumps({"failed": str(error)}))


def _mount(folder: Path) -> None:
    """Mount the memory, and work there."""
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "perigee-matrix", str(folder))
    os.chdir(folder)
    _run("ip", "link", "set", "lo", "up")


def _studied(text: str) -> dict[str, Any]:
    """Return what a study of one download measured, by the columns of its flow."""
    from perigee.store.results import Results

    Path("study.toml").write_text(text, "utf-8")
    _run(sys.executable, "-m", "perigee", "run", "study.toml", "--engine", "emu", "--out", "results", "--force")
    results = Results(Path("results"))
    flow = results.table("flows").row(0, named=True)
    # The last leg of a split flow is that of the satellite.
    legs = results.legs("flows").sort("leg")
    sender = flow if legs.is_empty() else legs.row(-1, named=True)
    again = sender["retransmitted_packets"]
    return {
        "completed": flow["completed"],
        "completion_s": flow["duration_s"] if flow["completed"] else None,
        "goodput_mbps": flow["goodput_mbps"] if flow["completed"] else None,
        "throughput_mbps": flow["goodput_mbps"],
        "handshake_ms": flow["handshake_ms"],
        "lost_percent": None,
        "retransmitted_percent": None if again is None else 100 * again / sender["sent_packets"],
        "late_p99_us": results.table("releases")["late_p99_us"].max(),
    }


def _prepare(job: Job) -> None:
    """Put the file, the certificate and the folders into the memory."""
    Path("job.json").write_text(json.dumps(job), "utf-8")
    for name in ("www", "got"):
        Path(name).mkdir()
    _file(job).write_bytes(random.Random(job["size"]).randbytes(job["size"]))  # noqa: S311 - no secret
    # A leaf: rustls takes no certificate of an authority as one of a server.
    openssl = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost "
        f"-addext subjectAltName=DNS:localhost,IP:{job['address']} -addext basicConstraints=critical,CA:FALSE "
        "-keyout key.pem -out certificate.pem"
    )
    _run(*openssl.split())


def _run(*words: str) -> None:
    """Run a program of this host to its end.

    Raises:
        RunError: it failed.
    """
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - our words
    if done.returncode:
        raise RunError(f"{words[0]}: {done.stderr.strip()[-SAID_BYTES:]}")


def _file(job: Job) -> Path:
    return Path("www", job["file"])


def _download(job: Job) -> dict[str, Any]:
    """Return what was measured.

    Raises:
        Fault: a program failed.
        RunError: this machine cannot emulate.
    """
    _prepare(job)
    profile, settings = find_profile(job["profile"]), [(key, value) for key, value in job["settings"]]
    with _server(job):
        command = [sys.executable, "-m", "perigee.matrix.client"]
        link = run_behind(command, profile, profile, settings=settings, seed=job["seed"], drain_s=0.0)
    if not DONE.is_file():
        raise RunError(f"the capture failed, exit code {link.exit_code}")
    done = json.loads(DONE.read_text("utf-8"))
    is_whole = _is_whole(job)
    if done["exit_code"]:
        raise Fault(f"the client ended with {ending(done['exit_code'])}")
    if done["exit_code"] is not None and not is_whole:
        raise Fault("the client ended without an error, and has not the file")
    dropped = sum(link.down.dropped.values())
    return {
        "completed": is_whole,
        **_seen(job, done["took_s"], is_whole=is_whole),
        "lost_percent": 100 * dropped / link.down.packets if link.down.packets else None,
        "retransmitted_percent": None,
        "socket_drops": done["socket_drops"],
        "late_p99_us": max(link.down.lateness_p99_us, link.up.lateness_p99_us),
    }


@contextlib.contextmanager
def _server(job: Job) -> Iterator[None]:
    """Run the server while the block runs, which begins when the server listens."""
    readable = [*map(Path, job["readable"]), *(Path(name).resolve() for name in ("www", "key.pem", "certificate.pem"))]
    with SERVER_SAID.open("wb") as said, started(job["server"], readable, [], said) as server:
        until = time.monotonic() + LISTENS_S
        while not _is_listening(job["port"]):
            if server.poll() is not None:
                raise Fault(f"the server ended with {ending(server.returncode)} before it listened")
            if time.monotonic() > until:
                raise Fault(f"the server did not listen at port {job['port']} within {LISTENS_S:g} s")
            time.sleep(0.02)
        yield
        if server.poll():
            raise Fault(f"the server ended with {ending(server.returncode)} during the download")


def _is_listening(port: int) -> bool:
    """Whether a socket of this network has a port; the second column of the kernel's tables is its own address."""
    rows = (
        line.split()
        for name in ("udp", "udp6", "tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text("ascii").splitlines()[1:]
    )
    return any(row[1].endswith(f":{port:04X}") for row in rows)


def _is_whole(job: Job) -> bool:
    """Whether the client has the file, byte by byte."""
    got = Path("got", job["file"])
    return got.is_file() and _digest(got) == _digest(_file(job))


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _seen(job: Job, took_s: float, *, is_whole: bool) -> dict[str, float | None]:
    """Return what the capture shows at the client, from its first packet on; what it does not show is empty.

    Raises:
        Fault: no packet came from the server.
    """
    from perigee.analysis.recordings import analyze

    found = analyze([CAPTURE])
    if found is None or (flows := found.table("flows").filter(from_node=job["address"])).is_empty():
        raise Fault("no packet came from the server")
    flow = flows.sort("received_bytes", descending=True).row(0, named=True)
    # Packets that arrive after the client's end are not of its download.
    length_s = min(flow["duration_s"], took_s)
    return {
        "completion_s": length_s if is_whole else None,
        "goodput_mbps": 8e-6 * job["size"] / length_s if is_whole else None,
        "throughput_mbps": 8e-6 * flow["received_bytes"] / length_s,
        "handshake_ms": flow["handshake_ms"],
    }


def _said() -> str:
    """Return what the programs wrote last."""
    parts = []
    for name, path in (("server", SERVER_SAID), ("client", SAID)):
        with contextlib.suppress(OSError):
            text = path.read_bytes()[-SAID_BYTES:].decode(errors="replace").strip()
            parts += [f"{name}: {text}"] if text else []
    return "\n".join(parts)


if __name__ == "__main__":
    main()
