# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Congestion controls in the running Linux kernel: load, unload, status. All act on the whole machine."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from perigee.engines import native_core
from perigee.errors import InputError, RunError
from perigee.places import headers

WAIT_S = 0.5
"""How long the kernel is asked at a time, so that Ctrl-C is heard."""


def load(
    what: str, settings: list[tuple[str, str]], *, name: str | None = None, make_default: bool = False
) -> tuple[dict[str, Any], str]:
    """Load a built-in algorithm, or an author's C file, into the kernel; it outlives this process.

    Args:
        what: a name of `perigee.engines.algorithms`, or the path of a C file (it has a `/` or ends in `.c`).
        settings: parameters with their values as text, with units.
        name: what sockets ask for, at most 15 characters. By default the algorithm's own name, or `p_` and that where
            the kernel has an algorithm of that name.
        make_default: make it the machine's default.

    Returns:
        `name`, `algorithm`, `parameters`, `replaced` (an earlier version), `sockets_on_earlier`, `default_before`; and
        what the compiler warned of.

    Raises:
        InputError: the choice is wrong, or this machine or process cannot.
        RunError: the kernel refused it; nothing is loaded.
    """
    native = native_core()
    try:
        loaded, warnings = native.cc_load(what, is_file(what), settings, name, make_default, str(headers()))
    except native.CcInputError as error:
        raise InputError(str(error)) from error
    except native.KernelError as error:
        raise _kernel_error(error, what) from error
    return json.loads(loaded), warnings


def unload(name: str, *, wait_s: float | None = None, force: bool = False) -> dict[str, Any]:
    """Take an algorithm out of the kernel, and put the defaults back where they still are this one.

    Args:
        name: what it was loaded as; or what `load` was given, where it became `p_NAME` or is a C file.
        wait_s: wait so long for the end of sockets that use it.
        force: unload it in any case; sockets that use it keep it until they close.

    Returns:
        `name`, `default` (what was put back), `namespaces` (whose default was put back), `sockets_left`.

    Raises:
        InputError: it was not loaded by us, or this process cannot.
        RunError: sockets use it (the message names them), or the kernel refused.
    """
    native = native_core()
    deadline = time.monotonic() + (wait_s or 0)
    while True:
        left = max(deadline - time.monotonic(), 0)
        try:
            unloaded: dict[str, Any] = json.loads(
                native.cc_unload(name, None if wait_s is None else min(left, WAIT_S), force)
            )
        except native.CcInputError as error:
            raise InputError(str(error)) from error
        except native.CcInUseError as error:
            if left == 0:
                raise _kernel_error(error, name) from error
        except native.KernelError as error:
            raise _kernel_error(error, name) from error
        else:
            return unloaded


def status() -> dict[str, Any]:
    """Return what is loaded, and who uses it.

    Returns:
        `loaded`: each with `name`, `algorithm`, `parameters`, `origin`, `source_sha256`, `loaded_s`, `default_before`,
        `is_default`, `sockets`; `others`: the kernel's own names; `default`; `detached`: sockets with an algorithm that
        was unloaded; `unseen_processes`. A socket has `cc`, `namespace`, `local`, `peer`, `state`, `pid`, `process`,
        and figures with their unit in the name.

    Raises:
        InputError: this process may not look.
        RunError: the kernel does not say.
    """
    native = native_core()
    try:
        found: dict[str, Any] = json.loads(native.cc_status())
    except native.CcInputError as error:
        raise InputError(str(error)) from error
    except native.KernelError as error:
        raise _kernel_error(error, "") from error
    return found


def is_file(what: str) -> bool:
    """Whether an algorithm is named by its C file.

    Examples:
        >>> is_file("hybla"), is_file("./mycc"), is_file("mycc.c")
        (False, True, True)
    """
    return "/" in what or what.endswith(".c")


def _kernel_error(error: Any, what: str) -> RunError:
    """Turn a refusal into one for the user; what the kernel said at length goes to a file."""
    message, log = error.args
    if not log:
        return RunError(message)
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"perigee-{Path(what).stem}-", suffix=".verifier.log", delete=False
    ) as file:
        file.write(log)
    return RunError(f"{what}: {message}\nall that the kernel said is in {file.name}")
