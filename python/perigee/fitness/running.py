# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Scores files of congestion controls, several at a time; one that fails does not keep the others."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from perigee.cc.catalog import built_in
from perigee.cc.compilers import Message, messages_of
from perigee.cc.kernel import is_file
from perigee.cc.limits import CodeLimits
from perigee.cc.skeleton import SKELETON
from perigee.core import native
from perigee.errors import InputError
from perigee.files import TEXT_BYTES, read_bounded
from perigee.fitness.cells import CELLS
from perigee.fitness.harm import Harm, first_harm
from perigee.fitness.marks import REFERENCES, Marked, marked
from perigee.fitness.references import Kept, key_of, references
from perigee.fitness.trying import LIMITS, EndedError, Trying
from perigee.interrupts import held_back
from perigee.keeper.runs import in_order
from perigee.places import headers

SCORED, UNREAD, UNCOMPILED, REFUSED = "scored", "cannot be read", "does not compile", "refused"


@dataclass
class Scored:
    """A candidate with what is known of it.

    Attributes:
        file: its file as it was named, or the name of an algorithm.
        status: `scored`, `cannot be read`, `does not compile`, `refused` (it compiles, and registers
            nothing that can be run), `crashed`, `hung` or `out of time`.
        name: its name; empty where it is not known.
        title: what it is.
        sha256: digest of its file; empty where it is built in.
        error: what went wrong; empty: nothing.
        place: `FILE:LINE` of that; empty where it is not known.
        for_kernel: whether it compiles for the kernel; none: unknown, as without a compiler for it.
        messages: what the compilers said.
        found: its figures, up to the cell in which it failed.
        harm: the first harm, shown small; none: it fails nothing.
    """

    file: str
    status: str = SCORED
    name: str = ""
    title: str = ""
    sha256: str = ""
    error: str = ""
    place: str = ""
    for_kernel: bool | None = None
    messages: Sequence[Message] = ()
    found: list[Marked] = field(default_factory=list)
    harm: Harm | None = None


def scores(
    what: Sequence[str],
    limits: CodeLimits = LIMITS,
    workers: int | None = None,
    watch: Callable[[int], None] = lambda _done: None,
) -> Iterator[Scored]:
    """Score candidates, and yield each in the order given as soon as it and those before it are done.

    Args:
        what: C files, or names of algorithms.
        limits: what each may take.
        workers: number of candidates at a time; none: one per core.
        watch: called now and then with the number of candidates that are done.

    Raises:
        InputError: there is no such algorithm, or this machine has no compiler.
        KeyboardInterrupt: the user stopped it; processes of candidates are ended.
    """
    for one in what:
        if not is_file(one):
            built_in(one)
    stopped = threading.Event()

    def goes_on() -> bool:
        return not stopped.is_set()

    with (
        held_back() as answer_interrupts,
        ThreadPoolExecutor(workers or os.cpu_count() or 1, thread_name_prefix="score") as pool,
    ):
        try:
            kept = pool.submit(references, goes_on)
            futures = [pool.submit(_scored, one, kept, limits, goes_on) for one in what]

            def waiting() -> None:
                answer_interrupts()
                watch(sum(one.done() for one in futures))

            yield from in_order(futures, waiting)
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _scored(what: str, computed: Future[Kept], limits: CodeLimits, goes_on: Callable[[], bool]) -> Scored:
    scored = Scored(what)
    algorithm, library = what, None
    if is_file(what):
        path = Path(what).resolve()
        algorithm = str(path)
        try:
            content = _content(path)
        except InputError as error:
            scored.status, scored.error = UNREAD, str(error).replace(algorithm, what)
            return scored
        scored.sha256 = hashlib.sha256(content).hexdigest()
        try:
            checked = native.check_of(algorithm, str(headers()))
        except InputError as error:
            _have_compiler()
            # As the caller named it: what is said of a file does not depend on where it lies.
            scored.error = str(error).replace(algorithm, what)
            scored.status = UNCOMPILED if UNCOMPILED in scored.error.splitlines()[0] else REFUSED
            scored.messages = messages_of("simulator", scored.error)
            scored.place = next((one.place for one in scored.messages if one.severity != "warning"), "")
            return scored
        library = checked.library
        scored.name, scored.title = checked.algorithm.name, checked.algorithm.title
        scored.for_kernel = None if checked.kernel_unknown else not checked.kernel_error
        said = {"simulator": checked.warnings, "kernel": checked.kernel_error or ""}
        scored.messages = [one for target in said for one in messages_of(target, said[target].replace(algorithm, what))]
    else:
        scored.name = what
        scored.title = built_in(what).title
        scored.for_kernel = True
    kept = computed.result()
    try:
        with Trying(algorithm, library, limits, goes_on) as trying:
            for cell in CELLS:
                beside = {name: kept[name][key_of(cell.name, cell.lengths_s[0])] for name in REFERENCES}
                scored.found += marked(cell, trying.figures(cell, cell.lengths_s[0]), beside)
            scored.harm = first_harm(algorithm, _called(scored), scored.found, kept, trying)
    except EndedError as ended:
        scored.status, scored.error, scored.place = ended.status, ended.said, ended.place
    return scored


def _content(path: Path) -> bytes:
    """Read a candidate's file.

    Raises:
        InputError: it cannot be read, is too large, or is a pipe: without a writer that is never even opened.
    """
    if path.is_fifo():
        raise InputError(f"{path}: cannot be read: it is a pipe, which may never end; give a file")
    return read_bounded(path, TEXT_BYTES, "a congestion control")


def _called(scored: Scored) -> str:
    """Return a name that no candidate of other code has.

    Examples:
        >>> _called(Scored("reno", name="reno")), _called(Scored("a.c", name="mine", sha256="0123456789abcdef"))
        ('reno', 'mine-01234567')
    """
    return f"{scored.name}-{scored.sha256[:8]}" if scored.sha256 else scored.name


def _have_compiler() -> None:
    """Check that what compiles anywhere does here.

    Raises:
        InputError: it does not: this machine has no compiler.
    """
    native.algorithm_of(str(SKELETON / "mycc.c"), str(headers()))
