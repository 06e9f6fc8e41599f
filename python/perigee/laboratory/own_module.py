# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Compiles an author's C text to a module for browsers. Nothing of it is executed here: the page that asked does that.

The text may be anybody's who may run studies. The compiler sees the project's headers and this text, and no other
file: its file system is a list. Assembler, which could name files beside it, is refused in the preprocessed text.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perigee.core import native
from perigee.errors import InputError
from perigee.places import headers

MOST_SOURCE = 256 << 10
"""Bytes of the text."""
MOST_FILE = 4 << 20
"""Bytes of each file that the compiler writes: the preprocessed text, the module, its messages."""
MOST_MEMORY = 2 << 30
"""Bytes of the compiler's address space."""
MOST_S = 10.0
"""Seconds for all."""
MOST_MESSAGES = 20
TOO_MUCH = "the compiler gave up: the text takes too much time, memory or output"
NAME = re.compile(r"[A-Za-z][\w-]{0,40}\.c", re.ASCII)

_FLAGS = ("compile_flags.txt", "compile_flags_wasm.txt")
_ROOT = "/perigee"
_QUIET = (
    "-nostdinc",
    "-fno-caret-diagnostics",
    "-fno-crash-diagnostics",
    f"-ferror-limit={MOST_MESSAGES}",
    # The linker would take any name for one of the host's, and its message has no line.
    "-Werror=implicit-function-declaration",
)
_SAID = re.compile(
    r"(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>fatal error|error|warning): (?P<said>.*)"
)
_ASSEMBLER = re.compile(rb"\b(?:__)?asm(?:__)?\b")
_MARKER = re.compile(rb'# (\d+) "(.*?)"')


@dataclass(frozen=True)
class Message:
    """What is wrong with a text.

    Attributes:
        line: in the author's text; 0: nowhere in it.
        column: from 1; 0: the whole line.
        said: what.
    """

    line: int
    column: int
    said: str


class Wrong(Exception):  # noqa: N818 - no failure of the program
    """The text does not compile.

    Attributes:
        messages: why.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__(messages[0].said)
        self.messages = list(messages)


def unavailable() -> str:
    """Return why nothing can be compiled here; empty where it can."""
    missing = [name for name in ("clang", "wasm-ld") if not shutil.which(name)]
    return f"{' and '.join(missing)} of the packages clang and lld is not installed on the server" if missing else ""


def compiled(text: str, name: str, most_s: float = MOST_S) -> bytes:
    """Return the module of a C text.

    Args:
        text: the file.
        name: its name, for messages and in the study.
        most_s: seconds that the compiler may take.

    Raises:
        InputError: there is no compiler, or the name is none of a C file.
        Wrong: the text does not compile, or takes too much.
    """
    if why := unavailable():
        raise InputError(why)
    if not NAME.fullmatch(name):
        raise InputError(f"{name[:60]!r} is no name of a C file", "use letters, digits, - and _, as mycc.c")
    source = text.encode()
    if len(source) > MOST_SOURCE:
        raise Wrong([Message(0, 0, f"{len(source)} bytes are more than a file may have here ({MOST_SOURCE})")])
    with tempfile.TemporaryDirectory(prefix=native.scratch_prefix("own")) as folder:
        run = _Compiler(Path(folder), name, time.monotonic() + most_s)
        (run.folder / "files.json").write_text(json.dumps(_files()))
        flags = [flag for file in _FLAGS for flag in (headers() / file).read_text(encoding="utf-8").split()]
        without_linker = [flag for flag in flags if not flag.startswith("-Wl,")]
        names = ["-ivfsoverlay", "files.json", "-I", _ROOT]
        (run.folder / "given").write_bytes(f'#line 1 "{name}"\n'.encode() + source)
        run(*without_linker, *names, "-E", "-x", "c", "-o", "own.i", "-")
        _refuse_assembler((run.folder / "own.i").read_bytes(), name)
        run(*flags, "-x", "cpp-output", "-o", "own.wasm", "own.i")
        return (run.folder / "own.wasm").read_bytes()


def _files() -> dict[str, object]:
    """Return all files that the preprocessor can open, as its overlay of a file system."""
    folder = headers().resolve()
    contents = [
        {"name": str(path.relative_to(folder)), "type": "file", "external-contents": str(path)}
        for path in sorted(folder.rglob("*.h"))
    ]
    return {
        "version": 0,
        "case-sensitive": "true",
        "use-external-names": "false",
        "fallthrough": "false",
        "roots": [{"name": _ROOT, "type": "directory", "contents": contents}],
    }


@dataclass
class _Compiler:
    """The compiler of a text in a folder of its own."""

    folder: Path
    name: str
    until: float

    def __call__(self, *arguments: str) -> None:
        """Carry it out; what it is given is in the file `given`.

        Raises:
            Wrong: it refuses the text, or takes too much.
        """
        limits = f"ulimit -c 0; ulimit -t {int(MOST_S) + 1}; ulimit -v {MOST_MEMORY >> 10}; ulimit -f {MOST_FILE >> 9}"
        command = ("sh", "-c", f'{limits}; exec "$@"', "sh", "clang", *_QUIET, *arguments)
        with (self.folder / "said").open("w+b") as said, (self.folder / "given").open("rb") as given:
            process = subprocess.Popen(  # noqa: S603 - no text of the author among the arguments
                command,
                cwd=self.folder,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": str(self.folder), "LC_ALL": "C"},
            )
            try:
                process.wait(max(0.0, self.until - time.monotonic()))
            except subprocess.TimeoutExpired:
                # Its group is there until it is waited for: the linker goes with it.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise Wrong([Message(0, 0, TOO_MUCH)]) from None
            said.seek(0)
            errors = said.read(MOST_FILE).decode(errors="replace")
        if process.returncode:
            raise Wrong(messages(errors, self.name, str(self.folder)))


def messages(errors: str, name: str, folder: str = "") -> list[Message]:
    """Return what the compiler said of a text.

    Args:
        errors: its output.
        name: the file of the author.
        folder: what nobody needs to know.

    Examples:
        >>> messages("a.c:3:5: error: expected ';'", "a.c")
        [Message(line=3, column=5, said="expected ';'")]
        >>> messages("/perigee/tcp.h:9:1: error: what", "a.c")
        [Message(line=0, column=0, said='tcp.h:9: what')]
        >>> messages("clang: error: unable to execute command: Killed", "a.c")
        [Message(line=0, column=0, said='the compiler gave up: the text takes too much time, memory or output')]
    """
    found = []
    for match in _SAID.finditer(errors):
        file, line = match["file"], int(match["line"])
        if match["kind"] == "warning":
            continue
        if file == name:
            found.append(Message(line, int(match["column"]), match["said"]))
        else:
            found.append(Message(0, 0, f"{file.removeprefix(f'{_ROOT}/')}:{line}: {match['said']}"))
    linked = re.search(r"wasm-ld\S*: error: (?:\S+\.o: )?(.*)", errors)
    if not found and linked:
        found.append(Message(0, 0, linked[1].replace(folder, "") if folder else linked[1]))
    return found[:MOST_MESSAGES] or [Message(0, 0, TOO_MUCH)]


def _refuse_assembler(preprocessed: bytes, name: str) -> None:
    """Refuse assembler, whose directives read files.

    Raises:
        Wrong: there is some.
    """
    file, line = "", 0
    for each in preprocessed.split(b"\n"):
        if marker := _MARKER.match(each):
            file, line = marker[2].decode(errors="replace"), int(marker[1])
            continue
        if _ASSEMBLER.search(each):
            at = line if file == name else 0
            raise Wrong([Message(at, 0, "`asm` is no part of a congestion control; write it in C")])
        line += 1
