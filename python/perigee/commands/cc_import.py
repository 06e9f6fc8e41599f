# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command `perigee cc import`: makes a file of Perigee of a kernel module, or of a `struct_ops` program."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from perigee.console import result, say
from perigee.errors import InputError
from perigee.files import write_atomically


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="C file of a kernel module, or of a struct_ops program.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write; by default NAME.c, after the algorithm.")
    ] = None,
) -> None:
    """Import a congestion control that was written for the kernel: it simulates, checks and loads as your own does.

    Takes a module (`net/tcp.h`, `tcp_register_congestion_control()`) or a struct_ops program (`vmlinux.h`,
    `BPF_PROG`), and writes one file on top of `kernel.h`. Headers of its own lie beside it. `module_param`s become
    parameters, the module's init is kept, the licence and all other text stay the author's. Says what was mapped,
    renamed and left out. Compiles the file for both hosts; nothing of it is executed. What needs memory of its own, or
    fields or callbacks of a patched kernel, is refused with its line. An existing file is never replaced.

    [bold]Examples[/bold]

      perigee cc import linux/net/ipv4/tcp_illinois.c
      perigee cc import ./mymod.c --out mymod-perigee.c
      perigee cc check illinois.c
    """
    from perigee.cc.foreign.writing import imported

    if out and not out.parent.is_dir():
        raise InputError(f"{out.parent}: is no folder", "make it, or name another file with --out")
    made = imported(file)
    target = out or Path(f"{made.name}.c")
    if target.exists():
        raise InputError(f"{target}: is there already", "name another file with --out")
    write_atomically(target, made.text.encode())
    for line in made.report:
        say(line)
    if made.kernel_unknown:
        say(f"not checked: whether it compiles for the kernel: {made.kernel_unknown}")
    elif made.kernel_error:
        say(f"it simulates; the kernel would not take it:\n{made.kernel_error}")
    else:
        say("it compiles for the simulator and for the kernel")
    say(f"next: perigee cc check {shlex.quote(str(target))}")
    result(str(target))
