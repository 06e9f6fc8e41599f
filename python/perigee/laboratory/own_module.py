# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Compiles an author's C text to a module for browsers. Nothing of it is executed here: the page that asked does that.

The text may be anybody's who may run studies, so the kernel confines the compiler: it reads the system's folders, the
project's headers and the folder of the text, and has no network (crate `perigee-cc-build`). Without Landlock nothing is
compiled.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from perigee.core import native
from perigee.errors import InputError
from perigee.places import headers

MOST_SOURCE = 256 << 10
"""Bytes of the text."""
MOST_S = 10.0
"""Seconds for all."""
MOST_KEPT = 64
"""Modules that are kept in memory."""
MOST_MESSAGES = 20
MOST_LINE = 2_000
"""Characters of a line of the compiler that are looked at: an author can choose what it says."""
UNCONFINED = "the server's kernel has no Landlock, which would keep the compiler from its files"
TOO_MUCH = "the compiler gave up: the text takes too much time, memory or output"
NAME = re.compile(r"[A-Za-z][\w-]{0,40}\.c", re.ASCII)

_SAID = re.compile(r"([^:]+):(\d+):(\d+): (?:fatal )?error: (.*)")
_LINKED = re.compile(r"wasm-ld\S*: error: (?:\S+\.o: )?(.*)")


@dataclass(frozen=True)
class Message:
    """An error in a text.

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
    if missing:
        return f"{' and '.join(missing)} of the packages clang and lld is not installed on the server"
    return "" if native.compilers_are_confined() else UNCONFINED


def compiled(text: str, name: str, most_s: float = MOST_S) -> bytes:
    """Return the module of a C text.

    Args:
        text: the file.
        name: its name, for messages and in the study.
        most_s: seconds that the compiler may take.

    Raises:
        InputError: there is no compiler that can be confined, or the name is none of a C file.
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
        file = Path(folder) / name
        file.write_bytes(source)
        module, errors = native.browser_module(file, headers(), most_s)
    if module is None:
        raise Wrong(messages(errors, name, folder))
    return module


class Modules:
    """Compiled modules by the hash of their text and name: a class that begins with one text compiles it once.

    Threads may share it. Texts that do not compile are not kept.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, Future[bytes]] = OrderedDict()
        """Who asked last comes last."""

    def of(self, text: str, name: str) -> bytes:
        """Return the module of a text, see `compiled`; who asks while it is compiled waits for the same one."""
        key = hashlib.sha256(f"{name}\0{text}".encode()).digest()
        with self._lock:
            found = self._kept.pop(key, None)
            future = self._kept[key] = found or Future()
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        if found is None:
            self._compile(key, future, text, name)
        return future.result()

    def _compile(self, key: bytes, future: Future[bytes], text: str, name: str) -> None:
        try:
            future.set_result(compiled(text, name))
        except BaseException as error:
            with self._lock:
                if self._kept.get(key) is future:
                    del self._kept[key]
            future.set_exception(error)


def messages(errors: str, name: str, folder: str = "") -> list[Message]:
    """Return what the compiler said of a text.

    Args:
        errors: its output.
        name: the file of the author.
        folder: what nobody needs to know.

    Examples:
        >>> messages("a.c:3:5: error: expected ';'", "a.c")
        [Message(line=3, column=5, said="expected ';'")]
        >>> messages("/usr/share/perigee/tcp.h:9:1: error: what", "a.c")
        [Message(line=0, column=0, said='tcp.h:9: what')]
        >>> messages("clang: error: unable to execute command: Killed", "a.c")
        [Message(line=0, column=0, said='the compiler gave up: the text takes too much time, memory or output')]
    """
    found, linked = [], ""
    if folder:
        errors = errors.replace(f"{folder}/", "")
    for line in errors.split("\n"):
        said = line[:MOST_LINE]
        if match := _SAID.match(said):
            file, row, column, what = match.groups()
            is_own = file == name
            found.append(
                Message(int(row), int(column), what) if is_own else Message(0, 0, f"{Path(file).name}:{row}: {what}")
            )
        elif not linked and (match := _LINKED.search(said)):
            linked = match[1]
    if not found and linked:
        found.append(Message(0, 0, linked))
    return found[:MOST_MESSAGES] or [Message(0, 0, TOO_MUCH)]
