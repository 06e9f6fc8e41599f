# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Authors' code in a separate process: faults become errors, and correct code gives the results of this process."""

from __future__ import annotations

import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl
import pytest

from conftest import Perigee, environment, next_line, running
from perigee.core import native
from perigee.places import headers
from study_text import flow, link

SOURCE = """
#include "tcp.h"
#define PARAMETERS(P) P(keep, "1/1024", 512, 1, 1023, "window kept on a loss")
CC_PARAMETERS(PARAMETERS)
extern void *malloc(unsigned long);
extern void *memset(void *, int, unsigned long);
extern int creat(const char *, unsigned);
extern unsigned sleep(unsigned);
TOP
CC_CALLBACK(void, own_init, struct sock *sk) { INIT }
CC_CALLBACK(u32, own_ssthresh, struct sock *sk)
{
	LOSS
	return max32((u32)((u64)tcp_sk(sk)->snd_cwnd * param(sk, keep) >> 10), 2);
}
CC_CALLBACK(void, own_cong_avoid, struct sock *sk, u32 ack, u32 acked) { tcp_reno_cong_avoid(sk, ack, acked); }
CC_CALLBACK(u32, own_undo_cwnd, struct sock *sk) { return tcp_reno_undo_cwnd(sk); }
CC_REGISTER(own, "Own", PARAMETERS, .init = OP(own_init), .ssthresh = OP(own_ssthresh),
	.cong_avoid = OP(own_cong_avoid), .undo_cwnd = OP(own_undo_cwnd))
"""
STUDY = (
    """
name = "own"
time_limit = "1 min"
rounds = 2
nodes = ["server", "client"]

[measure]
series = "100 ms"
events = true
pcap = true

"""
    + link("link", "server client", rate="10 Mbit/s", delay="20 ms", queue="50 kB", loss="0.1 %")
    + flow("ping", "server client", kind="ping", interval="100 ms", repeat=3, packet="100 B")
    + flow("download", "server client", duration="3 s", cc="./own.c")
)
LOOP = 'for (;;) __asm__ volatile("");'
NULL = "*(volatile int *)0 = 1;"
DIVIDE = "volatile u32 zero = 0; tcp_sk(sk)->snd_ssthresh += 10 / zero;"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study with an algorithm beside it, and a private folder of temporary files."""
    write(tmp_path)
    (tmp_path / "own.toml").write_text(STUDY, encoding="utf-8")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


def write(folder: Path, *, loss: str = "", init: str = "", top: str = "", name: str = "own.c") -> None:
    """Write the algorithm with these statements in it."""
    text = SOURCE.replace("LOSS", loss).replace("INIT", init).replace("TOP", top)
    (folder / name).write_text(text, encoding="utf-8")


@contextmanager
def started(folder: Path, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process group of its own, killed at the end of the block if it still lives."""
    process = subprocess.Popen(
        [sys.executable, "-m", "perigee", *arguments],
        cwd=folder,
        env={**environment(), **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


def children(pid: int) -> list[int]:
    """All descendants of a process; any of them may end during the search."""
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *children(child)]
    return found


def wait_for_child(pid: int, name: str) -> int:
    """The child with this word in its command line, once it is busy."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        for child in children(pid):
            command, busy = b"", 0
            with suppress(OSError):
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                busy = sum(map(int, Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]))
            if name.encode() in command and (busy > 30 or name != "child_program"):
                return child
        time.sleep(0.02)
    raise AssertionError(f"no {name} was started")


def is_gone(pid: int) -> bool:
    """Whether a process ends within seconds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (NULL, "crashed: it used memory that is not its own (SIGSEGV)"),
        (DIVIDE, "crashed: it divided by zero, which traps here; in the kernel x / 0 is 0 and x % 0 is x"),
        (LOOP, "had not returned after 0.2 s of processor time (--cc-stall); look for a loop without end"),
        ("sleep(1000);", "had not returned after 2 s (--cc-stall); look for what it waits for"),
    ],
)
def test_wrong_code_ends_as_an_error_that_names_file_callback_and_what_was_going_on(
    perigee: Perigee, folder: Path, loss: str, said: str
) -> None:
    write(folder, loss=loss)
    done = perigee("run", "own.toml", "--cc-stall", "0.2 s", "--jobs", "1", "--out", "results")
    assert done.returncode == 1
    line = 1 + SOURCE.split("LOSS")[0].count("\n")
    # Where a function of the C library waits, its frames hide the author's.
    place = "own.c" if "sleep" in loss else f"own.c:{line}"
    assert f"error: run 0 (round 0): {place}" in done.stderr
    called = r": `ssthresh`, called at [0-9.]+ s for flow `download`, as call [0-9]+ of the run, "
    assert re.search(called + re.escape(said), done.stderr), done.stderr
    assert "the same command repeats it" in done.stderr
    assert "Traceback" not in done.stderr
    done = perigee("cc", "check", "own.c", "--cc-stall", "0.2 s")
    assert done.returncode == 1
    assert re.search(rf"error: {place}[:0-9]*: `ssthresh` {re.escape(said)}", done.stderr), done.stderr
    found = re.search(r"of the events of sequence (\d+),\n  \d+: Loss\nrepeat it: (.*)$", done.stderr.rstrip())
    assert found, f"no more events than it takes: {done.stderr}"
    assert found[2] == f"perigee cc check own.c --sequence {found[1]}"
    again = perigee("cc", "check", "own.c", "--sequence", found[1], "--cc-stall", "0.2 s")
    assert again.stderr == done.stderr
    assert list((folder / "tmp").iterdir()) == []


def test_runs_done_before_a_crash_are_kept_and_the_same_command_resumes(perigee: Perigee, folder: Path) -> None:
    flag = folder / "flag"
    write(folder, top="extern int access(const char *, int);", loss=f'if (access("{flag}", 0)) {NULL}')
    study = STUDY + '[vary]\n"flows.download.cc" = ["reno", "./own.c"]\n'
    (folder / "own.toml").write_text(study.replace("rounds = 2", "rounds = 1"), encoding="utf-8")
    command = ("run", "own.toml", "--jobs", "1", "--out", "results")
    done = perigee(*command)
    assert done.returncode == 1
    assert re.search(r"run 1 \(round 0, flows.download.cc = ./own.c\): own.c:\d+: `ssthresh`", done.stderr), done.stderr
    flag.touch()
    done = perigee(*command)
    assert (done.returncode, "2 runs, 1 of them from before" in done.stderr) == (0, True), done.stderr


def test_code_that_fills_the_memory_ends_at_its_limit(perigee: Perigee, folder: Path) -> None:
    write(folder, init="for (;;) memset(malloc(1 << 24), 1, 1 << 24);")
    for command in (["run", "own.toml", "--jobs", "1"], ["cc", "check", "own.c"]):
        done = perigee(*command, "--cc-memory", "600 MB")
        assert done.returncode == 1
        assert "`init`" in done.stderr
        assert " MiB of the 572 MiB that it may (--cc-memory)" in done.stderr
    done = perigee("run", "own.toml", "--cc-memory", "600")
    assert (done.returncode, 'write "4 GiB"' in done.stderr) == (2, True)


def test_code_that_ends_the_process_is_told_so(perigee: Perigee, folder: Path) -> None:
    write(folder, top="extern void _exit(int);", loss="_exit(3);")
    done = perigee("run", "own.toml", "--jobs", "1")
    assert done.returncode == 1
    assert "ended the process (exit code 3)" in done.stderr


@pytest.mark.parametrize("head", [b"\xff" * 9, b'{"sizes": [9999999999999]}', b"[1, 2]", b"{"])
def test_code_that_writes_to_file_descriptors_of_ours_is_told_so(perigee: Perigee, folder: Path, head: bytes) -> None:
    message = head if head[0] == 255 else struct.pack("<Q", len(head)) + head
    content = ", ".join(map(str, message))
    loss = f"static const unsigned char text[] = {{ {content} }}; "
    loss += "for (int i = 3; i < 64; i++) write(i, text, sizeof(text));"
    write(folder, top="extern long write(int, const void *, unsigned long);", loss=loss)
    done = perigee("run", "own.toml", "--jobs", "1")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "wrote to a file descriptor that is not its own; its answer cannot be read" in done.stderr


def test_code_makes_no_processes_that_would_outlive_it(perigee: Perigee, folder: Path) -> None:
    write(folder, top="extern int fork(void), pause(void);", init="if (fork() == 0) for (;;) pause();")
    with subprocess.Popen(["sleep", "60"], cwd=folder) as other:  # noqa: S607
        assert working_in(folder) == {str(other.pid)}, "or else this test proves nothing"
        other.kill()
    # It is not for the kernel, where that can be told.
    for command, codes in ((["run", "own.toml", "--jobs", "1"], (0,)), (["cc", "check", "own.c"], (0, 2))):
        done = perigee(*command)
        assert done.returncode in codes, done.stderr
        assert "own.c:10: warning: it uses `fork` of this host" in done.stderr
    assert working_in(folder) == set()


def working_in(folder: Path) -> set[str]:
    """The processes with this working directory; a command that leaves processes behind leaves them there."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if place.readlink() == folder:
                found.add(place.parent.name)
    return found


@pytest.mark.parametrize(
    "reaches",
    [
        "ptrace(16 /* PTRACE_ATTACH */, getppid(), 0, 0) == 0",
        "kill(getppid(), 0) == 0",
        'snprintf(name, sizeof(name), "/proc/%d/mem", getppid()) && open(name, 2) >= 0',
        "prlimit(getppid(), 7 /* RLIMIT_NOFILE */, limits, 0) == 0",
        'creat("written", 0600) >= 0',
        'chmod("own.c", 0777) == 0',
        "socket(2, 2, 0) >= 0",
    ],
)
def test_code_reaches_no_other_process_no_file_and_no_network(perigee: Perigee, folder: Path, reaches: str) -> None:
    declared = "extern long ptrace(int, ...); extern int kill(int, int), getppid(void), socket(int, int, int);"
    declared += "extern int snprintf(char *, unsigned long, const char *, ...), open(const char *, int, ...);"
    declared += (
        "extern int prlimit(int, int, const void *, void *), chmod(const char *, unsigned); extern void abort(void);"
    )
    does = "char name[64] = { 0 }; unsigned long limits[2] = { 64, 64 }; (void)name; (void)limits;"
    does += f" if ({reaches}) abort();"
    write(folder, top=f"{declared} __attribute__((constructor)) static void on_load(void) {{ {does} }}")
    done = perigee("run", "own.toml", "--jobs", "1", "--out", "results")
    assert done.returncode == 0, done.stderr


def test_constructors_run_in_the_other_process_and_only_where_runs_do(perigee: Perigee, folder: Path) -> None:
    write(folder, top="extern void abort(void); __attribute__((constructor)) static void on_load(void) { abort(); }")
    assert perigee("run", "own.toml", "--dry-run").returncode == 0
    live = ["--engine", "live", "--set", "live.servers.server=127.0.0.1:1", "--set", "flows.ping.repeat=1"]
    assert perigee("run", "own.toml", "--dry-run", *live, "--set", "links.link.loss=0 %").returncode in (0, 2)
    done = perigee("cc", "show", "own.c")
    assert (done.returncode, "window kept on a loss" in done.stdout) == (0, True)
    assert perigee("cc", "list").returncode == 0
    assert perigee("run", "own.toml", "--out", "results").returncode == 1, "or else this test proves nothing"
    write(folder, top=f"__attribute__((constructor)) static void on_load(void) {{ {LOOP} }}")
    done = perigee("run", "own.toml", "--cc-stall", "0.1 s", "--jobs", "1", "--out", "other")
    assert done.returncode == 1
    assert "own.c: while the code was loaded, before any callback, it had not returned" in done.stderr


def test_results_are_those_of_the_same_algorithm_in_our_own_process(perigee: Perigee, folder: Path) -> None:
    for part in [*headers().glob("hybla*"), *headers().glob("*.h")]:
        (shutil.copytree if part.is_dir() else shutil.copy)(part, folder / part.name)
    for out, cc in (("built-in", "hybla"), ("apart", "./hybla.c")):
        done = perigee("run", "own.toml", "--set", f"flows.download.cc={cc}", "--out", out)
        assert done.returncode == 0, done.stderr
    tables = sorted(path.name for path in (folder / "built-in").glob("*.parquet"))
    assert {"events.parquet", "flows.parquet", "series.parquet", "links.parquet"} <= set(tables)
    for table in tables:
        one, other = (pl.read_parquet(folder / out / table) for out in ("built-in", "apart"))
        if table == "flows.parquet":
            assert other["cc"].to_list()[1] == "hybla (./hybla.c)"
            one, other = one.drop("cc"), other.drop("cc")
        assert one.equals(other), table
        assert one.height > 0 or table not in ("events.parquet", "series.parquet")
    captures = sorted(path.name for path in (folder / "built-in").rglob("*.pcapng"))
    assert len(captures) == 4
    for capture in captures:
        found = [packets(next((folder / out).rglob(capture))) for out in ("built-in", "apart")]
        assert found[0] == found[1], capture


def packets(pcapng: Path) -> list[tuple[int, ...]]:
    """Interface, time, length, flags and window of each segment: ports and numbers differ between two algorithms."""
    blocks, found = pcapng.read_bytes(), []
    at = 0
    while at < len(blocks):
        kind, size = struct.unpack_from("<II", blocks, at)
        if kind == ENHANCED_PACKET:
            interface, *time, _, length = struct.unpack_from("<5I", blocks, at + 8)
            found.append((interface, *time, length, *struct.unpack_from("!HH", blocks, at + 28 + 14 + 20 + 12)))
        at += size
    assert found
    return found


ENHANCED_PACKET = 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", [("run", "own.toml", "--jobs", "1"), ("cc", "check", "own.c")])
def test_a_signal_ends_a_loop_without_end_at_once(folder: Path, command: tuple[str, ...], number: int) -> None:
    write(folder, loss=LOOP)
    with started(folder, *command, "--cc-stall", "1 h") as process:
        child = wait_for_child(process.pid, "child_program")
        sent = time.monotonic()
        process.send_signal(number)
        assert process.wait(20) == 130
        assert time.monotonic() - sent < 5
        assert is_gone(child)
    assert list((folder / "tmp").iterdir()) == []


def test_a_loop_without_end_does_not_outlive_a_command_that_is_killed(folder: Path) -> None:
    write(folder, loss=LOOP)
    with started(folder, "run", "own.toml", "--jobs", "1", "--cc-stall", "1 h") as process:
        child = wait_for_child(process.pid, "child_program")
        process.kill()
        assert is_gone(child)


def test_folders_of_a_killed_process_are_removed_by_who_makes_the_next_one(folder: Path) -> None:
    makes = "import os, signal, tempfile; from perigee.core import native; {}"
    killed = "tempfile.mkdtemp(prefix=native.scratch_prefix('evaluation')); os.kill(os.getpid(), signal.SIGKILL)"
    ours = Path(tempfile.mkdtemp(prefix=native.scratch_prefix("own"), dir=folder / "tmp"))
    subprocess.run([sys.executable, "-c", makes.format(killed)], env=environment(), check=False)
    assert len(list((folder / "tmp").iterdir())) == 2
    subprocess.run([sys.executable, "-c", makes.format("native.scratch_prefix('own')")], env=environment(), check=True)
    assert list((folder / "tmp").iterdir()) == [ours]


def test_a_compiler_that_hangs_is_ended_by_a_signal_with_all_that_it_started(folder: Path) -> None:
    compiler = folder / "slow-cc"
    compiler.write_text("#!/bin/sh\nsleep 1234 & sleep 4321\n", encoding="utf-8")
    compiler.chmod(0o755)
    for command in [("run", "own.toml"), ("cc", "show", "own.c"), ("cc", "check", "own.c")]:
        with started(folder, *command, CC=str(compiler)) as process:
            behind = wait_for_child(process.pid, "1234")
            process.terminate()
            assert process.wait(20) == 130
            assert is_gone(behind)
        assert list((folder / "tmp").iterdir()) == []


def test_the_second_signal_ends_a_process_that_does_not_answer_the_first() -> None:
    text = (
        "import signal, time\n"
        "from perigee import _core\n"
        "signal.signal(signal.SIGTERM, lambda number, frame: None)\n"
        "_core.end_at_second_signal()\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    pipe = subprocess.PIPE
    with running([sys.executable, "-c", text], env=environment(), stdout=pipe, stderr=pipe) as process:
        assert next_line(process.stdout) == "ready\n"
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.terminate()
        _, error = process.communicate(timeout=300)
        assert (process.returncode, error) == (130, "error: ended at the second signal\n")


def test_a_file_whose_name_looks_like_an_option_is_compiled_like_any_other(perigee: Perigee, folder: Path) -> None:
    for name in ("-oinj.c", "@inj.c"):
        write(folder, name=name)
        (folder / "inj.c").write_text("kept", encoding="utf-8")
        done = perigee("cc", "show", "--", name)
        assert (done.returncode, "window kept on a loss" in done.stdout) == (0, True), done.stderr
        assert perigee("cc", "check", "--", name).returncode == 0
        study = STUDY.replace("./own.c", name)
        (folder / "inj.toml").write_text(study, encoding="utf-8")
        done = perigee("run", "inj.toml", "--out", f"results/{name}")
        assert done.returncode == 0, done.stderr
        assert (folder / "inj.c").read_text(encoding="utf-8") == "kept"


def test_a_study_of_built_in_algorithms_starts_no_process(folder: Path) -> None:
    text = (
        "import subprocess\n"
        "subprocess.Popen = None\n"
        "from pathlib import Path\n"
        "from perigee.engines.choice import engine\n"
        "from perigee.places import find_study\n"
        "from perigee.engines.run.job import Job\n"
        "from perigee.engines.run.runner import carry_out\n"
        "carry_out(Job(find_study('own.toml'), engine('sim'), ['flows.download.cc=reno'], out=Path('out')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "out" / "flows.parquet").is_file()
