# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs authors' code in a process of its own, and reports how that crashed, hung or filled its memory."""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from perigee.cc.fault import Library
from perigee.cc.limits import CodeLimits
from perigee.cc.messages import LENGTH, write_message
from perigee.core import native
from perigee.errors import InputError, RunError

if TYPE_CHECKING:
    from perigee._core import Noted

PROGRAM = "import sys; sys.path[:0] = [sys.argv[1]]; from perigee.cc.{} import main; main(*sys.argv[2:])"
PACKAGES = Path(__file__).resolve().parents[2]
"""The folder that `perigee` is imported from."""
LOOK_S = 0.05
"""Between two looks at a process that works."""
PIPE_BYTES = 1 << 20
RUNNING = "R"
"""The state of a process that has a processor, or waits for one."""
IDLE_FACTOR = 10
"""A process that uses no CPU time is ended after this multiple of the limit of CPU time."""
WHERE_S = 1.0
"""For how long a process that is to be ended is asked where it is."""
LOADING_FACTOR = 6
"""Reading a large study takes longer than any callback."""
DIVIDED = "it divided by zero, which traps here; in the kernel x / 0 is 0 and x % 0 is x, so test the divisor"
REAL_TIME_S = 2
"""Processor time without a pause that the kernel allows at real-time priority, as the core sets it."""
NEVER_PAUSED = f"had not paused for {REAL_TIME_S} s at real-time priority; look for a loop without end"
KILLED_AFTER_S = 1
"""Between the signal that ends a process for its processor time and the one that nothing survives."""
SAID_BYTES = 2000
HEAD_BYTES = 16 << 20
"""The head of an answer is shorter: it names tables, columns and captures."""


class LostError(Exception):
    """The process has no answer any more: it crashed, or stood still and was ended.

    Attributes:
        how: what happened, in words that follow the callback's name.
        noted: what it had noted.
        stalled: it stood still.
        fault: where it was.
        spent: it had used up its processor time.
    """

    def __init__(
        self,
        how: str,
        noted: Noted,
        *,
        stalled: bool = False,
        fault: tuple[int, list[int]] | None = None,
        spent: bool = False,
    ) -> None:
        super().__init__(how)
        self.how = how
        self.noted = noted
        self.fault = fault or noted.fault
        self.stalled = stalled
        self.spent = spent

    @property
    def sentence(self) -> str:
        """The callback and its time, or the code where it was in none, and what happened."""
        where = f"`{self.noted.callback}` at {self.noted.time_s:.6f} s" if self.noted.callback else "the code"
        return f"{where} {self.how}"


class StoppedError(Exception):
    """The caller asked for an end."""


class Child:
    """A process that runs authors' code; it never outlives this one, nor the thread that started it.

    Args:
        limits: what the code may take.
        program: the module of `perigee.cc` that it executes.
        inherited: descriptors that it gets, by the same numbers.
    """

    def __init__(
        self,
        limits: CodeLimits,
        program: Literal["child_program", "carrier_program"] = "child_program",
        inherited: Sequence[int] = (),
    ) -> None:
        self._limits = limits
        self._is_carrier = program == "carrier_program"
        self._waited_s = 0.0
        self._note = os.memfd_create("perigee-note")
        os.ftruncate(self._note, native.note_bytes())
        self._said = os.memfd_create("perigee-said")
        asked, self._requests = os.pipe()
        self._answers, answered = os.pipe()
        arguments = [PACKAGES, os.getpid(), limits.memory_bytes, self._note, asked, answered]
        try:
            # A group of its own: Ctrl-C is for this process, which then ends that one.
            self._process = subprocess.Popen(  # noqa: S603 - our own script, no shell
                [sys.executable, "-I", "-S", "-c", PROGRAM.format(program), *map(str, arguments)],
                pass_fds=(self._note, asked, answered, *inherited),
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                process_group=0,
            )
        finally:
            os.close(asked)
            os.close(answered)
        if limits.processor_s is not None:
            # It has no code of an author yet. Beyond the first number comes SIGXCPU, beyond the second SIGKILL.
            resource.prlimit(
                self._process.pid, resource.RLIMIT_CPU, (limits.processor_s, limits.processor_s + KILLED_AFTER_S)
            )

    def ask(
        self,
        head: Mapping[str, Any],
        blobs: Sequence[bytes] = (),
        *,
        stall_s: float | None = None,
        watch: Callable[[float], bool] = lambda _share: True,
    ) -> tuple[dict[str, Any], list[memoryview]]:
        """Ask for something and wait for the answer.

        Args:
            head: what is asked for.
            blobs: bytes that belong to it.
            stall_s: processor time without progress after which the process is ended; none: that of the limits.
            watch: called with the share done, a few times a second; returns whether to go on.

        Raises:
            LostError: the process crashed or stood still.
            StoppedError: `watch` said no.
            InputError: what was asked for is wrong.
            RunError: it could not be done.
        """
        still = _Standstill(self._process.pid, stall_s or self._limits.stall_s)
        try:
            with open(self._requests, "wb", closefd=False) as stream:
                write_message(stream, head, blobs)
        except BrokenPipeError:
            raise self._lost() from None
        (length,) = LENGTH.unpack(self._read(LENGTH.size, still, watch))
        if length > HEAD_BYTES:
            raise self._garbled()
        answer = self._head(bytes(self._read(length, still, watch)))
        parts = [self._read(size, still, watch) for size in answer["sizes"]]
        self._waited_s += still.waited_s
        if "wrong_input" in answer:
            raise InputError(answer["wrong_input"])
        if "failed" in answer:
            raise RunError(answer["failed"])
        if "out_of_memory" in answer:
            raise LostError(f"needs more memory than {self._memory()}; raise it with --cc-memory", self.noted())
        return answer, parts

    def plan(
        self,
        arguments: Sequence[Any],
        libraries: Sequence[Library],
        *,
        stall_s: float | None = None,
        watch: Callable[[float], bool] = lambda _share: True,
    ) -> None:
        """Have a study read, and its authors' libraries loaded: the next to run. Raises what `ask` does.

        Args:
            arguments: the first arguments of the core's `Plan`.
            libraries: authors' files, compiled.
            stall_s: see `ask`.
            watch: see `ask`.
        """
        head = {"do": "plan", "arguments": arguments, "paths": [str(path) for path, _, _ in libraries]}
        blobs = [blob for _, source, library in libraries for blob in (source, library)]
        self.ask(head, blobs, stall_s=stall_s, watch=watch)

    def noted(self) -> Noted:
        """Return what the process noted last."""
        noted = native.noted(os.pread(self._note, native.note_bytes(), 0))
        if noted is None:
            raise RunError("the shared memory of authors' code was cut short; give the same command again")
        return noted

    def close(self) -> None:
        """End the process, whatever it does, and forget it."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        for descriptor in (self._note, self._said, self._requests, self._answers):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._note = self._said = self._requests = self._answers = -1

    def _read(self, size: int, still: _Standstill, watch: Callable[[float], bool]) -> memoryview:
        content = memoryview(bytearray(size))
        done = 0
        while done < size:
            if select.select([self._answers], [], [], LOOK_S)[0]:
                count = os.readv(self._answers, [content[done : done + PIPE_BYTES]])
                if count == 0:
                    raise self._lost()
                done += count
            noted = self.noted()
            if not watch(noted.share):
                self._process.kill()
                raise StoppedError
            if why := still.why((noted.beats, done)) or self._waits(still):
                # A call of the system returns when it is asked, and the callback with it: what was noted before counts.
                fault = self._whereabouts()
                self._process.kill()
                raise LostError(why, noted, stalled=True, fault=fault)
        return content

    def _waits(self, still: _Standstill) -> str | None:
        """Return why a process that waits again and again should be ended; none: it should not."""
        limit_s = IDLE_FACTOR * (self._limits.processor_s or math.inf)
        if self._waited_s + still.waited_s <= limit_s:
            return None
        return f"had waited for {limit_s:g} s in all; look for what it waits for"

    def _whereabouts(self) -> tuple[int, list[int]] | None:
        """Ask a process that makes no progress which instruction it executes; it may not be able to answer."""
        os.kill(self._process.pid, native.where_signal())
        until = time.monotonic() + WHERE_S
        while (fault := self.noted().fault) is None and time.monotonic() < until:
            time.sleep(LOOK_S / 10)
        return fault

    def _head(self, text: bytes) -> dict[str, Any]:
        """Read the head of an answer, which announces no more than the process could have held."""
        try:
            answer: dict[str, Any] = json.loads(text)
            sizes = answer["sizes"]
            if min(sizes, default=0) >= 0 and sum(sizes) <= self._limits.memory_bytes:
                return answer
        except (ValueError, TypeError, KeyError):
            pass
        raise self._garbled()

    def _garbled(self) -> LostError:
        """Say that there is no answer to be found in what came."""
        self._process.kill()
        return LostError("wrote to a file descriptor that is not its own; its answer cannot be read", self.noted())

    def _lost(self) -> LostError:
        """Say how the process ended."""
        # One that has only closed the pipe lives; one that is ending keeps its reason.
        os.kill(self._process.pid, signal.SIGKILL)
        is_spent = self._is_spent()
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        limit_s, spent_s, noted = self._limits.processor_s, usage.ru_utime + usage.ru_stime, self.noted()
        was_killed = self._process.returncode == -signal.SIGKILL
        if limit_s is not None and (spent_s >= limit_s or (is_spent and was_killed)):
            return LostError(f"had used the {limit_s} s of processor time that it may in all", noted, spent=True)
        # A carrier's limit of real time asks where the code is before it kills; while a library is loaded, none knows.
        is_known = noted.fault is not None or (not noted.callback and spent_s >= REAL_TIME_S)
        ran_on = self._is_carrier and was_killed and is_known
        how = NEVER_PAUSED if ran_on else _how(self._process.returncode)
        # The kernel counts in KiB.
        if usage.ru_maxrss * 1024 > self._limits.memory_bytes // 2:
            how += f"; it had used {usage.ru_maxrss >> 10} MiB of the {self._memory()} that it may (--cc-memory)"
        said = os.pread(self._said, SAID_BYTES, max(os.fstat(self._said).st_size - SAID_BYTES, 0))
        if words := said.decode("utf-8", "replace").strip():
            how += f"\nit said last: {words}"
        return LostError(how, self.noted())

    def _is_spent(self) -> bool:
        """Whether the kernel has told a process that ended, and is not waited for, that its processor time is used up.

        The kernel then raises the limit by 1 s. It counts whole ticks, which may be more than the time that it reports
        for the process afterwards: that alone tells nothing.
        """
        limit_s = self._limits.processor_s
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        return limit_s is not None and resource.prlimit(self._process.pid, resource.RLIMIT_CPU)[0] > limit_s

    def _memory(self) -> str:
        return f"{self._limits.memory_bytes >> 20} MiB"


class _Standstill:
    """Measures for how long a process has made no progress, in processor time: a busy machine is no standstill.

    Attributes:
        waited_s: for how long it was neither at work nor in want of a processor.
    """

    def __init__(self, pid: int, limit_s: float) -> None:
        self._pid = pid
        self._limit_s = limit_s
        self._progress: tuple[int, int] | None = None
        self._since_cpu_s = self._idle_s = self.waited_s = 0.0
        self._looked = time.monotonic()

    def why(self, progress: tuple[int, int]) -> str | None:
        """Return why a process that is so far should be ended; none: it should not."""
        now, (state, cpu_s) = time.monotonic(), _state(self._pid)
        if progress != self._progress:
            self._progress, self._since_cpu_s, self._idle_s = progress, cpu_s, 0.0
        # One that waits for a processor is not idle. A long time between two looks is one in which this process did
        # nothing either.
        if state != RUNNING:
            self._idle_s += min(now - self._looked, 10 * LOOK_S)
            self.waited_s += min(now - self._looked, 10 * LOOK_S)
        self._looked = now
        if cpu_s - self._since_cpu_s > self._limit_s:
            took = f"{self._limit_s:g} s of processor time"
            return f"had not returned after {took} (--cc-stall); look for a loop without end"
        if self._idle_s > IDLE_FACTOR * self._limit_s:
            return f"had not returned after {IDLE_FACTOR * self._limit_s:g} s (--cc-stall); look for what it waits for"
        return None


def _state(pid: int) -> tuple[str, float]:
    """Return the state of a process and its processor time, s: fields 3, 14 and 15 of proc(5)'s `stat`.

    One that is gone has no state, and no processor time.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", 0.0
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _how(code: int) -> str:
    """Say how a process ended.

    Examples:
        >>> _how(-signal.SIGSEGV)
        'crashed: it used memory that is not its own (SIGSEGV)'
        >>> _how(3)
        'ended the process (exit code 3)'
    """
    reasons = {
        signal.SIGSEGV: "it used memory that is not its own",
        signal.SIGBUS: "it used memory that is not there",
        signal.SIGFPE: DIVIDED,
        # The trap that the compiler places behind its test of a divisor, by processor.
        signal.SIGILL: DIVIDED,
        signal.SIGTRAP: DIVIDED,
        signal.SIGABRT: "it aborted",
        signal.SIGKILL: "it was killed, perhaps by the system for want of memory",
    }
    if code >= 0:
        return f"ended the process (exit code {code})"
    by = signal.Signals(-code) if -code in set(signal.Signals) else None
    name = by.name if by else f"signal {-code}"
    return f"crashed: {reasons[by]} ({name})" if by in reasons else f"crashed ({name})"
