# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Carries the steps of an advice out on this host, all or none of them, and takes them back by a file.

Commands come from a file that others may have written, and run as root: each has one of a few forms, and no shell.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perigee.advice.steps import BEFORE, DEVICE, Step
from perigee.errors import InputError, RootNeededError, RunError
from perigee.files import atomic_file, read_bounded, storage_errors

ROLES = ("server", "client", "gateway")
UNDO_FILE = Path("perigee-advise-undo.json")
"""Where what was there before is kept, unless another file is named."""

Tell = Callable[[str], None]
"""Called with each command before it is run."""


@dataclass
class _Entry:
    """One change: what makes it, what takes it back, and whether it was made (`done`) or may have been (`begun`)."""

    set: list[str]
    undo: list[str]
    state: str = "begun"


def apply(name: str, steps: Sequence[Step], role: str, device: str | None, file: Path, tell: Tell) -> None:
    """Carry out the steps that are for a host of this role; after a failure none of them is in force.

    Args:
        name: the setting, for people who read the file.
        steps: of the setting, at all hosts.
        role: which of the hosts this one is.
        device: the interface that stands for `DEV`.
        file: a new file, which has what undoes each step before the step is made.
        tell: gets each command before it is run.

    Raises:
        InputError: they are none that can be carried out here; nothing was changed.
        RunError: one failed; those before it were undone, or the file says which were not.
    """
    if any(step.set.startswith("perigee-pep") for step in steps):
        raise InputError(
            f"{name}: a proxy is not set up from here: pep.toml has interfaces and sources that are yours to fill in "
            "(docs/guide/deploy-pep.md)"
        )
    own = [step for step in steps if step.at == role]
    if not own:
        places = " and ".join(dict.fromkeys(step.at for step in steps))
        raise InputError(f"{name}: has no command for a {role}; it is set at the {places}")
    prepared = [_prepared(name, step, device) for step in own]
    if os.geteuid() != 0:
        raise RootNeededError("needs root to change this host")
    _check(name, prepared)
    entries: list[_Entry] = []
    _begin(file)
    tell(f"{file}: takes back what follows, by: perigee advise --undo {file}")
    try:
        for step in prepared:
            before = _kept(step)
            _refuse_less(step, before)
            entries.append(_Entry(_words(step.set, before), _words(step.undo, before)))
            _write(file, name, role, entries)
            tell(shlex.join(entries[-1].set))
            _run(entries[-1].set)
            entries[-1].state = "done"
            _write(file, name, role, entries)
    except BaseException as error:
        left = _taken_back(entries, tell)
        if left:
            _write(file, name, role, left)
            said = f"; not undone: {'; '.join(shlex.join(one.undo) for one in left)}: see {file}"
        else:
            file.unlink(missing_ok=True)
            said = "; nothing is changed: what was done before it is undone"
        if isinstance(error, RunError | InputError):
            raise RunError(f"{name}: {error}{said}") from error
        raise


def undo(file: Path, tell: Tell) -> int:
    """Take back what a file says was set, and remove the file; return how many steps that were.

    Raises:
        InputError: it is no such file, others can write to it, it was made in another network namespace, or a value
            was changed since; nothing is undone.
        RunError: a step could not be taken back; the file keeps those.
    """
    content = _read(file)
    if os.geteuid() != 0:
        raise RootNeededError("needs root to change this host")
    if content["boot"] != _boot():
        file.unlink()
        tell("this host has started anew since, which undid it all")
        return 0
    if content["network"] != _network():
        raise InputError(f"{file}: was made in another network namespace; enter that first")
    entries = [_Entry(**entry) for entry in content["entries"]]
    _refuse_changed(file, entries)
    left = _taken_back(entries, tell)
    if left:
        _write(file, content["setting"], content["role"], left)
        raise RunError(f"{file}: not undone: {'; '.join(shlex.join(one.undo) for one in left)}; the file keeps these")
    file.unlink()
    return len(entries)


def _refuse_changed(file: Path, entries: Sequence[_Entry]) -> None:
    """Refuse to take back a value that somebody has changed since it was set.

    Raises:
        InputError: somebody has.
    """
    for entry in entries:
        found = re.fullmatch(r"sysctl -w ([^=]+)=(.*)", " ".join(entry.set))
        if found is None or entry.state != "done":
            continue
        now, before = _run(["sysctl", "-n", found[1]]).split(), entry.undo[-1].partition("=")[2].split()
        if now not in (found[2].split(), before):
            raise InputError(
                f"{file}: nothing is undone: {found[1]} was set to {found[2]}, and is {' '.join(now)} now; to undo "
                f'all of it, first give `sysctl -w {found[1]}="{found[2]}"`; to keep what is set now, remove the file'
            )


def _prepared(name: str, step: Step, device: str | None) -> Step:
    """Return a step with this host's interface in it."""
    if DEVICE not in step.set.split():
        return step
    if device is None:
        raise InputError(f"{name}: give the interface{step.note.replace(f', {DEVICE}', '')} with --dev")
    if device not in (name for _, name in socket.if_nameindex()):
        raise InputError(f"--dev {device}: this host has no such interface; `ip link` lists them")
    named = (re.sub(rf"\b{DEVICE}\b", device, text) for text in (step.set, step.undo))
    return Step(step.at, next(named), next(named), step.keep)


def _check(name: str, steps: Sequence[Step]) -> None:
    """Refuse what could not be undone.

    Raises:
        InputError: a program is missing, an algorithm is there already, or an interface has a queue of its own.
    """
    for step in steps:
        words = _words(step.set, "")
        program = words[0]
        if program != "perigee" and shutil.which(program) is None:
            raise InputError(f"{name}: `{program}` is not installed")
        if program == "perigee":
            loaded = words[words.index("--as") + 1] if "--as" in words else words[3]
            if loaded in _available():
                raise InputError(
                    f"{name}: {loaded} is loaded already, and would be replaced; `perigee cc unload` it first"
                )
        if program == "tc" and "root" in words:
            device = words[words.index("dev") + 1]
            held = json.loads(_run(["tc", "-j", "qdisc", "show", "dev", device, "root"]) or "[]")
            if any(one.get("handle", "0:") != "0:" for one in held):
                raise InputError(
                    f"--dev {device}: has a queue of your own ({held[0]['kind']}), which no undo would bring back"
                )


def _available() -> list[str]:
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii").split()


def _kept(step: Step) -> str:
    """Return what was there before a step."""
    if not step.keep:
        return ""
    lines = _run(shlex.split(step.keep.partition("|")[0])).splitlines()
    if not lines or not lines[0].strip():
        raise InputError(f"`{step.keep}` says nothing: there is none here that could be changed")
    return lines[0].strip()


def _refuse_less(step: Step, before: str) -> None:
    """Refuse a buffer that this host's own is not smaller than.

    Raises:
        InputError: it is not.
    """
    found = re.fullmatch(r'sysctl -w (\S+)="\d+ \d+ (\d+)"', step.set)
    if found and int(before.split()[-1]) >= int(found[2]):
        raise InputError(
            f"{found[1]} ends at {before.split()[-1]} on this host, no less than in this advice; say so with "
            "--receive-buffer or --send-buffer, and ask again"
        )


def _words(text: str, before: str) -> list[str]:
    """Return a command as words, with what was there before in its place.

    Examples:
        >>> _words('sysctl -w net.ipv4.tcp_wmem="{before}"', "1 2 3")
        ['sysctl', '-w', 'net.ipv4.tcp_wmem=1 2 3']
        >>> _words("rm -rf /", "")
        Traceback (most recent call last):
        ...
        perigee.errors.InputError: rm -rf /: no command of an advice
    """
    words = shlex.split(text.replace(BEFORE, before))
    if words and not any(form.fullmatch(" ".join(words)) for form in _FORMS):
        raise InputError(f"{text}: no command of an advice")
    return words


def _run(words: Sequence[str]) -> str:
    """Run a command, and return what it printed.

    Raises:
        RunError: it failed.
    """
    line = [sys.executable, "-m", "perigee", *words[1:]] if words[0] == "perigee" else words
    done = subprocess.run(line, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RunError(f"`{shlex.join(words)}` failed: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout


def _taken_back(entries: Sequence[_Entry], tell: Tell) -> list[_Entry]:
    """Undo changes, the last one first; return those that could not be, in order."""
    left = []
    for entry in reversed(entries):
        if not entry.undo:
            continue
        tell(shlex.join(entry.undo))
        try:
            _run(entry.undo)
        except RunError:
            # One that was only begun may not have been made.
            if entry.state == "done":
                left.append(entry)
    return left[::-1]


def _begin(file: Path) -> None:
    """Make the file, which nobody else can write."""
    with storage_errors(file):
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise InputError(
                f"{file}: is there already; undo that first (--undo {file}), or give another --undo-file"
            ) from None


def _write(file: Path, name: str, role: str, entries: Sequence[_Entry]) -> None:
    content = {
        _MARK: 1, "setting": name, "role": role, "made": datetime.datetime.now(tz=datetime.UTC).isoformat(),
        "boot": _boot(), "network": _network(), "entries": [asdict(entry) for entry in entries],
    }  # fmt: skip
    with atomic_file(file) as made:
        made.write((json.dumps(content, indent=1) + "\n").encode())


def _read(file: Path) -> dict[str, Any]:
    """Read a file that `apply` wrote.

    Raises:
        InputError: it is none, or others could have written it.
    """
    try:
        content = json.loads(read_bounded(file, 1 << 20, "what undoes an advice"))
        entries = [_Entry(**entry) for entry in content["entries"]]
        is_whole = content[_MARK] == 1 and all(
            isinstance(word, str)
            for word in (
                *(content[key] for key in ("setting", "role", "boot", "network")),
                *(word for entry in entries for word in (entry.state, *entry.set, *entry.undo)),
            )
        )
        for entry in entries:
            _words(shlex.join(entry.undo), "")
    except (ValueError, KeyError, TypeError, AttributeError):
        is_whole, content = False, {}
    if not is_whole:
        raise InputError(f"{file}: not what `perigee advise --apply` wrote")
    stat = file.stat()
    if stat.st_uid not in (0, os.geteuid()) or stat.st_mode & 0o022:
        raise InputError(f"{file}: others can write to it; root runs no command of theirs")
    return dict(content)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _network() -> str:
    return str(Path("/proc/self/ns/net").readlink())


_MARK = "perigee_advise_undo"
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"sysctl -w net\.ipv4\.tcp_(rmem|wmem|congestion_control)=[a-z0-9_\s]*",
        r"ip route change [^-].*",
        r"tc (qdisc|class) (replace|del) dev \S+ .*",
        r"perigee cc (load|unload) [a-z0-9_]+( --\S+( [a-z0-9_=]+)?)*",
    )
)
"""All that is ever run: a command with its words joined."""
