# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs the command `perigee` in a process of its own, which is forked from one that has imported everything already.

An interpreter that starts afresh takes up to two seconds of processor time to import numpy, matplotlib and polars,
and up to 0.2 s for pydantic and the modules of `perigee`, which is more than most commands under test take
themselves. `Forked.run` does what `subprocess.run` does with `python -m perigee`: arguments, working directory,
environment, output and exit code are the command's own. Tests of what a command imports start an interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, TextIO

MODULE = "perigee"
LIBRARIES = (
    "numpy", "polars", "matplotlib.figure",
    "matplotlib.layout_engine", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "typer",
    "pydantic.types", "pydantic.type_adapter", "pydantic.json_schema", "rich.progress", "rich.table", "jinja2",
)  # fmt: skip
"""Modules that commands import, some of them only as they run."""
SHIM = "shim"
"""The first argument of the program that shells have."""
MESSAGE = 1 << 20
"""Bytes of the longest request."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "_RJEM_MALLOC_CONF": "background_thread:false"}
"""Variables that keep libraries from starting threads, which a forked process would not have."""
SKETCHES = "PERIGEE_SKETCHES"
"""A variable of commands whose reports have no drawings, see `sketches`."""
READ_AT_ONCE = ("PYTHON", "LANG", "LC_", "MPL")
"""How variables begin that an interpreter or one of the libraries reads as it starts."""


class Forked:
    """A process to fork commands from; it ends with this one.

    Args:
        env: an environment of commands.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = _read_at_once(env)
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env={**env, **ONE_THREAD},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def suits(self, env: Mapping[str, str]) -> bool:
        """Whether commands of this environment can be forked."""
        return _read_at_once(env) == self._env

    def run(
        self, program: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Carry a command out.

        Args:
            program: a module's name or the path of a file, then arguments.
            cwd: its working directory.
            env: its environment, of those that `suits` says yes to.
            timeout: seconds that it may take.

        Raises:
            subprocess.TimeoutExpired: it took longer, and was killed.
        """
        with Path(os.devnull).open() as none, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
            streams = [none.fileno(), out.fileno(), error.fileno()]
            pid, answers = _ask(self._requests, program, cwd, env, streams, timeout)
            with answers:
                answers.settimeout(timeout)
                try:
                    code = int(answers.recv(MESSAGE))
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(list(program), timeout) from None
            said = [_text(stream) for stream in (out, error)]
        return subprocess.CompletedProcess([*program], code, *said)

    def shim(self, folder: Path) -> int:
        """Write a program `perigee` for shells, which forks the command.

        Returns:
            The descriptor that a process needs which starts the program.
        """
        descriptor = self._requests.fileno()
        path = folder / MODULE
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {__file__} {SHIM} {descriptor} "$@"\n')
        path.chmod(0o755)
        return descriptor

    def close(self) -> None:
        """End the process; commands that run go on."""
        self._requests.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)


def _ask(
    requests: socket.socket,
    program: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    streams: Sequence[int],
    timeout: float | None = None,
) -> tuple[int, socket.socket]:
    """Have a command forked; return its process and where its exit code comes.

    Raises:
        TimeoutError: no process was forked within `timeout`, seconds.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        request = json.dumps({"program": list(program), "cwd": str(cwd), "env": dict(env)})
        socket.send_fds(requests, [request.encode()], [*streams, theirs.fileno()])
    ours.settimeout(timeout)
    return int(ours.recv(MESSAGE)), ours


def _shim(descriptor: int, arguments: Sequence[str]) -> int:
    """Have a command forked that has this process's streams, folder and environment; return its exit code."""
    with socket.socket(fileno=descriptor) as requests:
        _, answers = _ask(requests, [MODULE, *arguments], Path.cwd(), os.environ, [0, 1, 2])
    code = int(answers.recv(MESSAGE))
    return code if code >= 0 else 128 - code


def _read_at_once(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_ONCE)}


def _text(stream: Any) -> str:
    """Return what a command wrote; a name of a file that is no UTF-8 is in it as `os.fsdecode` has it."""
    stream.seek(0)
    text: str = os.fsdecode(stream.read())
    return text.replace("\r\n", "\n")


def _serve(requests: socket.socket) -> list[str]:
    """Fork a process per request until there are no more; return, in each of them, its program and arguments."""
    own = (module.name for module in walk_packages(import_module(MODULE).__path__, f"{MODULE}."))
    for name in (*LIBRARIES, *(name for name in own if not name.endswith(".__main__")), "sketches"):
        import_module(name)
    # Objects that the collector does not visit stay shared with the forked processes.
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, MESSAGE, 4)
        # The processor time of a process that nobody waits for is in no account of its parents.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not request:
            os._exit(0)
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    requests.close()
    *streams, answers = descriptors
    if pid := os.fork():
        os.write(answers, str(pid).encode())
        _, status = os.waitpid(pid, 0)
        os.write(answers, str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    os.close(answers)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # The parent's objects remember whether its own streams are seekable, and their readers.
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), sys.stdin.encoding, sys.stdin.errors)
    sys.stdout, sys.stderr = _writer(1, sys.stdout), _writer(2, sys.stderr)
    asked = json.loads(request)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    program: list[str] = asked["program"]
    return program


def _writer(descriptor: int, like: TextIO) -> TextIO:
    """Return a stream to a descriptor that encodes as another does."""
    buffer = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    return io.TextIOWrapper(buffer, like.encoding, like.errors, line_buffering=like.line_buffering)  # type: ignore[arg-type]


def _carry_out(program: list[str]) -> int:
    """Run a program as the interpreter does; return its exit code."""
    sys.argv = program
    if SKETCHES in os.environ:
        import_module("sketches").begin()
    try:
        if program[0] == MODULE:
            sys.path[0] = str(Path.cwd())
            runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(program[0]).parent)
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Be a process to fork from, and then what was forked; or the program that asks for it."""
    if sys.argv[1] == SHIM:
        sys.exit(_shim(int(sys.argv[2]), sys.argv[3:]))
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        program = _serve(requests)
    code = _carry_out(program)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = 120
    # The interpreter would free each object of the libraries, and copy its page first.
    os._exit(code)


if __name__ == "__main__":
    main()
