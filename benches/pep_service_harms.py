# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A hostile operator's harm to the service: configurations, its disk, upgrades, signals; each harm undoes itself."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pep_box import MODEM, Box
from pep_ends import expect
from pep_host_harms import Field
from pep_world import SERVICE, await_that


def reloads(field: Field) -> None:
    """Broken and good configurations follow each other."""
    box, good = field.box, field.box.text()
    for _ in field.some(8, 25):
        limits, source = f'held = "{field.draw.randint(2, 64)} MiB"', f'send = "{field.draw.randint(5, 900)} Mbit/s"'
        texts = (good, good[: len(good) // 2], "", box.text(limits, source=source))
        box.path.write_bytes(field.draw.choice((_damaged(field, good), *(text.encode() for text in texts))))
        box.signal(signal.SIGHUP)
        field.pause(0.0, 0.15)


def _damaged(field: Field, text: str) -> bytes:
    damaged = bytearray(text.encode())
    for _ in field.some(1, 4):
        at = field.draw.randrange(len(damaged))
        damaged[at : at + field.draw.choice((0, 1, 20))] = field.draw.randbytes(field.draw.choice((0, 1, 3)))
    return bytes(damaged)


def narrow(field: Field) -> None:
    """A limit falls below what is open."""
    for at_limit in field.draw.sample(("wait", "pass"), 2):
        most = field.draw.randint(1, 12)
        limits = f'connections = {most}\nper_client = {most}\nat_limit = "{at_limit}"'
        field.box.path.write_text(field.box.text(limits=limits))
        field.box.signal(signal.SIGHUP)
        field.pause(0.5, 2)


def full_disk(field: Field) -> None:
    """The disk of log, accounting and control socket is full, amid a reload or an upgrade."""
    with _filled(field.box.disk):
        field.pause(0.2, 1.5)
        field.draw.choice((field.box.reload, field.box.upgrade))()
        field.pause(0.2, 1.5)


@contextmanager
def _filled(disk: Path) -> Iterator[None]:
    filler = disk / "filler"
    try:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield
    finally:
        filler.unlink()


def upgrade(field: Field) -> None:
    """An upgrade as it should be."""
    field.box.upgrade()


def failed_upgrades(field: Field) -> None:
    """Upgrades that fail: the program is gone, of a wrong kind, cut off, or has no room, or a wrong configuration."""
    for what in field.draw.sample(("gone", "wrong", "cut", "memory", "descriptors", "input", "taken"), 3):
        box, before, copy = field.box, field.box.pid, field.box.world.folder / f"{SERVICE.name}-next"
        shutil.copy(SERVICE, copy)
        # The kernel's name of a program that somebody has removed while it runs.
        gone = Path(f"{copy} (deleted)")
        program: tuple[str, ...] = (str(SERVICE),)
        if what in ("gone", "wrong"):
            program = ("sh", "-c", 'exec 3< "$0"; rm "$0"; exec /proc/self/fd/3 "$@"', str(copy))
        if what == "wrong":
            does = field.draw.choice(("exit 0", "kill -9 $$", "echo ready 1 9.9", "echo 2 no", "yes | head -c 100000"))
            gone.write_text(f"#!/bin/sh\n{does}\n")
            gone.chmod(0o755)
        elif what == "cut":
            os.truncate(copy, field.draw.randrange(100, copy.stat().st_size // 4))
            program = (str(copy),)
        elif what == "memory":
            program = ("prlimit", f"--as={field.draw.randint(4, 80) * 1_000_000}", *program)
        elif what == "descriptors":
            program = ("prlimit", f"--nofile={field.draw.randint(4, 60)}", *program)
        elif what == "input":
            box.path.write_text(box.text() + "nonsense = 1\n")
        elif what == "taken":
            box.path.write_text(box.text(metrics=f"{MODEM[0]}:{MODEM[1]}"))
        said: object = ""
        # The kernel refuses some programs.
        with suppress(OSError):
            said = box.ask("upgrade", *program)
        copy.unlink(missing_ok=True)
        gone.unlink(missing_ok=True)
        box.await_running()
        box.path.write_text(box.text())
        if box.pid != before:
            expect(what == "memory", f"an upgrade ({what}) has replaced the service: {said}")
            # It has so little room only.
            box.upgrade()


def killed_upgrades(field: Field) -> None:
    """The new process is killed at some time, maybe after it has taken over: then as the service itself."""
    box = field.box
    for _ in field.some(1, 3):
        there = box.processes()
        with box.world.router.entered():
            upgrading = subprocess.Popen([SERVICE, "upgrade", box.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        field.pause(0.0, 0.25)
        for process in set(box.processes()) - {*there, upgrading.pid}:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        upgrading.communicate()
        if "state running" not in box.status():
            box.start()
        box.await_running()


def strange_successors(field: Field) -> None:
    """Programs that do not know the language ask to take over, and stop at any step."""
    words = ([b"offer 9.9"], [b"offer 9.9", b"ready"], [b"garbage"], [b"ready"], [b"offer"], [bytes(9000)])
    steps = field.draw.choice(words)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.settimeout(1)
        stranger.connect(f"{field.box.disk}/control.upgrade")
        with suppress(OSError):
            for step in steps:
                stranger.send(step)
                field.pause(0.0, 0.3)


def accounts_gone(field: Field) -> None:
    """The folder of accounting is moved, removed, or something else; the configuration is read again meanwhile."""
    folder, away = field.box.accounts, field.box.disk / "away"
    folder.rename(away)
    try:
        if field.draw.random() < 0.5:
            shutil.rmtree(away)
        if field.draw.random() < 0.3:
            folder.write_text("no folder")
        field.pause(0.0, 1.5)
        field.box.reload()
        field.pause(0.0, 1.5)
    finally:
        folder.unlink(missing_ok=True)
        if away.exists():
            away.rename(folder)
        else:
            field.box.make_accounts()
        field.box.reload()


def halted(field: Field) -> None:
    """The process is stopped, and goes on."""
    field.box.signal(signal.SIGSTOP)
    try:
        field.pause(0.1, 4)
    finally:
        field.box.signal(signal.SIGCONT)


def few_descriptors(field: Field) -> None:
    """The process may open hardly more than it has; one of another user, which only some may limit, begins with few."""
    box, files = field.box, resource.RLIMIT_NOFILE
    few = len([*Path(f"/proc/{box.pid}/fd").iterdir()]) + field.draw.randint(-5, 8)
    try:
        had = resource.prlimit(box.pid, files)
        resource.prlimit(box.pid, files, (few, had[1]))
        field.pause(0.5, 3)
        resource.prlimit(box.pid, files, had)
    except PermissionError:
        box.ask("upgrade", "prlimit", f"--nofile={few + 60}", str(SERVICE))
        field.pause(0.5, 3)
        box.await_running()
        box.upgrade()


def killed(field: Field) -> None:
    """The process is killed; another one is started."""
    _end([field.box.pid], signal.SIGKILL, field.box)
    field.pause(0.0, 1)
    field.box.choose()
    field.box.start()


def stopped(field: Field) -> None:
    """The service is stopped, with its last connections, and started."""
    _end(field.box.processes(), signal.SIGTERM, field.box)
    field.box.choose()
    field.box.start()


def _end(processes: list[int], number: int, box: Box) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)
    await_that(lambda: not set(processes) & set(box.processes()), lambda: f"it does not end: {box.log()[-2000:]}")
