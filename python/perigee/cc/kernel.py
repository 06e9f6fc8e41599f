# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Congestion controls in the running Linux kernel: load, unload, status, sockets, on the whole machine."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from perigee.cc.begun import check_loaded
from perigee.core import native
from perigee.errors import InUseError, KernelError, RunError
from perigee.places import headers

if TYPE_CHECKING:
    from perigee._core import Loaded, Unloaded

WAIT_S = 0.5
"""How long the kernel is asked at a time, so that Ctrl-C is heard."""


class Prefixes(NamedTuple):
    """Lengths of the prefixes of peers' addresses by which connections remember paths.

    Attributes:
        v4: of IPv4, 1 to 32.
        v6: of IPv6, 1 to 128.
    """

    v4: int = 24
    v6: int = 48


def load(
    what: str,
    settings: list[tuple[str, str]],
    *,
    name: str | None = None,
    make_default: bool = False,
    remember: Prefixes | None = None,
) -> Loaded:
    """Load a built-in algorithm, or an author's C file, into the kernel; it outlives this process.

    Args:
        what: a name of `perigee.cc.catalog.algorithms`, or the path of a C file (it has a `/` or ends in `.c`).
        settings: parameters with their values as text, with units.
        name: what sockets ask for, at most 15 characters. By default the algorithm's own name, or `p_` and that where
            the kernel has an algorithm of that name.
        make_default: make it the machine's default.
        remember: let its connections remember paths, for Careful Resume.

    Raises:
        InputError: the choice is wrong, a module does not begin with its parameters, or this machine or process cannot.
        RunError: the kernel refused it; nothing is loaded.
    """
    if is_file(what):
        check_loaded(Path(what), settings)
    try:
        include = str(headers()) if is_file(what) else None
        return native.cc_load(what, settings, name, make_default, remember, include)
    except KernelError as error:
        if error.log is None:
            raise
        raise RunError(f"{what}: {error}\nall that the kernel said is in {_kept(error.log, what)}") from error


def unload(name: str, *, wait_s: float | None = None, force: bool = False) -> Unloaded:
    """Take an algorithm out of the kernel, and put the defaults back where they still are this one.

    Args:
        name: its name in the kernel, or the argument of `load` if that became `p_NAME` or is a C file.
        wait_s: maximum time to wait for sockets that use it to close.
        force: unload it in any case; sockets that use it keep it until they close.

    Raises:
        InputError: it was not loaded by us, or this process cannot.
        RunError: sockets use it (the message names them), or the kernel refused.
    """
    deadline = time.monotonic() + (wait_s or 0)
    while True:
        left = max(deadline - time.monotonic(), 0)
        try:
            return native.cc_unload(name, None if wait_s is None else min(left, WAIT_S), force)
        except InUseError:
            if left == 0:
                raise


def status() -> dict[str, Any]:
    """Return what is loaded, and who uses it.

    Returns:
        `loaded`: each with `name`, `algorithm`, `parameters`, `origin`, `source_sha256`, `loaded_s`, `default_before`,
        `is_default`, `sockets`; `others`: the kernel's own names; `default`; `detached`: sockets with an algorithm that
        was unloaded; `unseen_processes`. A socket has `cc`, `namespace`, `local`,
        `peer`, `state`, `phase`, `pid`, `process`, `cookie`, and figures with their unit in the name.

    Raises:
        InputError: this process may not look.
        RunError: the kernel does not say.
    """
    return native.cc_status()


def sockets(*, everything: bool = False) -> dict[str, Any]:
    """Return connections of all network namespaces, with the state of each.

    Args:
        everything: those of all algorithms, not only of loaded ones.

    Returns:
        `sockets`, each as `status` has them; `unseen_processes`.

    Raises:
        InputError: this process may not look.
        RunError: the kernel does not say.
    """
    return native.cc_sockets(everything)


def memory() -> list[dict[str, Any]]:
    """Return what loaded algorithms remember of paths.

    Returns:
        each with `cc`, `to` (a prefix), `window_packets`, `rtt_us`, `age_s`, and `is_claimed`: a connection begins with
        it now.

    Raises:
        InputError: this process may not look.
        RunError: the kernel does not say.
    """
    return native.cc_memory()


def forget(name: str | None = None, to: str | None = None) -> list[dict[str, Any]]:
    """Forget what the algorithm of a name remembers, or what all do; return it, as `memory` has it.

    Args:
        name: its name in the kernel.
        to: only of networks within this prefix.

    Raises:
        InputError: the prefix is wrong, or this process may not.
        RunError: the kernel refused.
    """
    return native.cc_forget(name, to)


def remember(name: str, to: str, *, window_packets: int, rtt_us: int) -> None:
    """Write what a connection would have saved of its path.

    Args:
        name: name of a loaded algorithm that remembers paths.
        to: prefix of the peers' addresses, of the length that it was loaded with.
        window_packets: packets that the path holds.
        rtt_us: its least round trip.

    Raises:
        InputError: the prefix is wrong, no algorithm of this name remembers paths, or this process may not.
        RunError: the kernel refused.
    """
    native.cc_remember(name, to, window_packets, rtt_us)


def is_file(what: str) -> bool:
    """Whether an algorithm is named by its C file.

    Examples:
        >>> is_file("hybla"), is_file("./mycc"), is_file("mycc.c")
        (False, True, True)
    """
    return "/" in what or what.endswith(".c")


def _kept(log: str, what: str) -> str:
    """Write what the kernel said at length to a file; return its name."""
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"perigee-{Path(what).stem}-", suffix=".verifier.log", delete=False
    ) as file:
        file.write(log)
    return file.name
