# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes a module of the kernel, or a `struct_ops` program, as a file of Perigee, and says what it changed."""

from __future__ import annotations

import hashlib
import re
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from perigee.cc.compilers import messages_of
from perigee.cc.fault import near
from perigee.cc.foreign.edits import STATE, edits
from perigee.cc.foreign.module import CALLBACKS, Foreign, reachable, read
from perigee.cc.foreign.quotients import without_signed_division
from perigee.cc.foreign.refused import RefusedError
from perigee.cc.foreign.source import Place, gather, shown
from perigee.cc.foreign.text import arguments
from perigee.core import native
from perigee.errors import InputError
from perigee.places import headers

NAME_LENGTH = 15
_PROGRAM = re.compile(r'\bSEC\(\s*"(?:struct_ops[^"\n]*"\s*\)|[^"\n]*"\s*\)(?=[\w\s*]*\bBPF_(?:PROG|STRUCT_OPS)))')
_ARGUMENTS = re.compile(r"\bBPF_(?:PROG|STRUCT_OPS\w*)[ \t]*\([ \t]*(\w+)[ \t]*,[ \t]*")
_MISSING_FUNCTION = re.compile(r"implicit declaration of function ['\"](\w+)['\"]")
_MISSING_FIELD = re.compile(r"['\"](?:const )?struct (\w+)['\"] has no member named ['\"](\w+)['\"]")
_OWN_MEMORY = "it takes memory of its own: keep it in the struct that inet_csk_ca() returns, or in CC_STORAGE"
_WHY = {
    "kmalloc kzalloc kcalloc kvzalloc kfree": _OWN_MEMORY,
    "tcp_enter_cwr tcp_enter_recovery tcp_enter_loss": "only the kernel itself starts a reduction",
    "bpf_map_lookup_elem bpf_map_update_elem bpf_sk_storage_get": "it has a map: keep the state in CC_STORAGE",
}


@dataclass(frozen=True)
class Imported:
    """A file that an import makes.

    Attributes:
        name: of the algorithm.
        text: the file.
        report: what was mapped, renamed, kept and left out, a sentence each.
        kernel_error: why it does not compile for the kernel; none: it does, or see `kernel_unknown`.
        kernel_unknown: why this machine cannot say; none: it can.
        places: where each of its lines comes from.
    """

    name: str
    text: str
    report: list[str]
    kernel_error: str | None
    kernel_unknown: str | None
    places: list[Place]


def imported(path: Path) -> Imported:
    """Make a file for Perigee of a module's, or of a `struct_ops` program's; nothing of it is executed.

    Args:
        path: the C file; headers of its own lie beside it.

    Returns:
        The file, which compiles for the simulator.

    Raises:
        InputError: it cannot be read, or needs what neither the simulator nor BPF has; the message has file and line.
    """
    source = gather(path)
    programs = len(_ARGUMENTS.findall(source.text))
    # Neither changes a line's number.
    source.text = _ARGUMENTS.sub(r"\1(", _PROGRAM.sub("", source.text))
    try:
        found = read(source.text, str(path), source.spdx(path))
        if programs:
            found.notes.append("BPF_PROG: a function of its own, behind a callback")
        edited = source.edited(edits(found))
    except RefusedError as error:
        second = f" ({source.at(error.second)})" if error.second else ""
        raise InputError(f"{source.at(error.start)}{second}: {error}") from error
    name = _name(found)
    states = set(STATE.findall(found.text))
    report = list(_report(found, name))
    head = _head(path, found, report)
    tail = _tail(found, name)
    spdx = edited.text.split("\n", 1)[0] + "\n" if "SPDX-License-Identifier" in edited.text.split("\n", 1)[0] else ""
    text = spdx + head + edited.text.removeprefix(spdx) + tail
    first = [edited.places[0]] if spdx else []
    places: list[Place] = [*first, *[None] * head.count("\n"), *edited.places[len(first) :], *[None] * tail.count("\n")]
    state = next((item for item in found.items if item.kind == "type" and states & set(item.names)), found.ops)
    return _compiled(Imported(name, text, report, None, None, places), path, source.at(state.start))


def _name(found: Foreign) -> str:
    name = re.sub(r"\W", "_", found.name)
    name = f"m_{name}" if name[:1].isdigit() else name
    taken = {other for item in found.items if item is not found.ops for other in item.names if item.kind != "type"}
    while name in taken or name in ("jiffies", "param"):
        name += "_"
    if len(name) > NAME_LENGTH:
        raise InputError(
            f"{name}: the name of an algorithm has at most {NAME_LENGTH} characters", "shorten its `.name`"
        )
    return name


def _report(found: Foreign, name: str) -> Iterator[str]:
    if name != found.name:
        yield f"renamed: {found.name} is {name}"
    if found.licence_note:
        yield f"licence: {found.licence_note}"
    if found.parameters:
        yield f"parameters: {', '.join(one.name for one in found.parameters)}"
    if found.init:
        yield f"kept: the module's init, {found.init}, before the first callback of a connection"
    if written := sorted(found.memory - found.told - {one.variable for one in found.parameters}):
        yield f"kept: what it computes, {', '.join(written)}"
    if found.told:
        yield f"kept: {', '.join(sorted(found.told))}, which nothing of the file reads"
    if names := found.own.names():
        yield f"kept: its own {', '.join(names)}, in place of kernel.h's"
    if found.flags:
        yield f"kept: the flags {found.flags}"
    for note in found.notes:
        yield f"mapped: {note}"
    if found.text.find("tcp_call_bpf(") >= 0:
        yield "mapped: tcp_call_bpf() answers -1: no program of the machine is asked"
    if found.text.find("tcp_plb_") >= 0:
        yield "mapped: tcp_plb_*() do nothing, as where net.ipv4.tcp_plb_enabled is 0, its default"
    if types := [name for item in found.own.types for name in item.names or ["an enum"]]:
        yield f"left out: its own {', '.join(types)}, which tcp.h or kernel.h has"
    for what, why in found.left_out.items():
        yield f"left out: {what} ({why})"
    if unused := sorted(set(found.functions()) - reachable(found)):
        yield f"left out: functions that are called no more, {', '.join(unused)}"


def _head(path: Path, found: Foreign, report: list[str]) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    said = textwrap.fill(
        f"Written by `perigee cc import` from {path.name.replace('*/', '* /')} (SHA-256 {digest}...). "
        f"The text is its author's, under its licence ({found.licence}); what was changed:",
        110,
    ).splitlines()
    for line in report:
        said += textwrap.wrap(line.replace("*/", "* /"), 106, initial_indent="- ", subsequent_indent="  ")
    body = "\n".join(f" * {line}" for line in said)
    return f'/*\n{body}\n */\n#define CC_LICENSE "{found.licence}"\n#include "kernel.h"\n{found.own.before()}'


def _tail(found: Foreign, name: str) -> str:
    rows = "".join(
        f' \\\n\tP({one.name}, "{one.unit}", ({one.default}), ({one.least}), ({one.largest}), {one.doc})'
        for one in found.parameters
    )
    states = list(dict.fromkeys(STATE.findall(found.text)))
    wanted = (
        f"struct {states[0]}" if len(states) == 1 else f"union {{ {' '.join(f'struct {s} {s}_;' for s in states)} }}"
    )
    named = [one for one in found.parameters if one.name != one.variable]
    shown_as = "".join(f"static KERNEL_GLOBAL __typeof__({one.variable}) {one.name};\n" for one in named)
    start = ", ".join([*(f"{one.variable} = {one.name}" for one in named), f"{found.init}()" if found.init else "0"])
    state = f"CC_STATE({wanted});\n" if states else ""
    text = (
        f"\n/* Parameters and callbacks, as Perigee registers them. */\n{found.own.behind()}"
        f"#define PARAMETERS(P){rows}\nCC_PARAMETERS(PARAMETERS)\n"
        f"{shown_as}{state}KERNEL_MODULE(PARAMETERS, ({start}))\n"
    )
    members = []
    callbacks = {"init": "", **found.callbacks}
    tx_start = callbacks.pop("cwnd_event_tx_start", "")
    if tx_start:
        callbacks.setdefault("cwnd_event", "")
    for callback, function in callbacks.items():
        returned, given = CALLBACKS[callback]
        names = ", ".join(["sk", *(word.split()[-1].lstrip("*") for word in given.split(", ") if word)])
        if callback == "cong_control" and _argument_count(found, function) == 2:
            names = "sk, rs"
        call = f"{'return ' if returned != 'void' else ''}{function}({names});" if function else ""
        if callback == "cwnd_event" and tx_start:
            call = f"if (event == CA_EVENT_TX_START)\n\t\t{tx_start}(sk);" + (f"\n\telse\n\t\t{call}" if call else "")
        enter = "module_start(sk);" if callback == "init" else "module_enter(sk);"
        arguments = ", ".join(["struct sock *sk", *([given] if given else [])])
        body = "\n".join(f"\t{line}" for line in (enter, call) if line)
        text += f"\nCC_CALLBACK({returned}, {name}_{callback}_, {arguments})\n{{\n{body}\n}}\n"
        members.append(f"\t.{callback} = OP({name}_{callback}_)")
    if found.flags:
        members.append(f"\t.flags = {found.flags}")
    title = found.title or f'"{name}, imported"'
    return f"{text}\nCC_REGISTER({name}, {title}, PARAMETERS,\n" + ",\n".join(members) + ")\n"


def _argument_count(found: Foreign, function: str) -> int:
    return len(arguments(found.functions()[function]))


def _compiled(made: Imported, path: Path, state: str) -> Imported:
    """Compile the file for both hosts; messages name the author's, and the place of its state."""
    with tempfile.TemporaryDirectory(prefix="perigee-import-") as folder:
        file = Path(folder) / f"{made.name}.c"
        text: str | None = made.text
        while text is not None:
            made = replace(made, text=text)
            file.write_text(text, encoding="utf-8")
            try:
                check = native.check_of(str(file), str(headers()))
            except InputError as error:
                if "state exceeds icsk_ca_priv" in str(error):
                    raise InputError(f"{state}: the state is too large", "keep to ICSK_CA_PRIV_SIZE bytes") from error
                said = "\n".join(_refusals(str(error), made.places))
                raise InputError(said.replace(str(file), str(near(path)))) from error
            text = without_signed_division(text, check.kernel_error or "")
    failed = check.kernel_error and ("\n".join(_original(check.kernel_error, made.places)) or check.kernel_error)
    return replace(made, kernel_error=failed, kernel_unknown=check.kernel_unknown)


def _original(messages: str, places: list[Place]) -> Iterator[str]:
    """Yield a compiler's errors at the lines of the file that was given."""
    for one in messages_of("simulator", messages):
        if "error" in one.severity and one.line <= len(places):
            yield f"{shown(places[one.line - 1])}: {one.severity}: {one.text}"


def _refusals(messages: str, places: list[Place]) -> Iterator[str]:
    """Yield why a file cannot be imported, one line for each name."""
    told: set[str] = set()
    for line in _original(messages, places):
        function, missing = _MISSING_FUNCTION.search(line), _MISSING_FIELD.search(line)
        at = line.split(": ", 1)[0]
        if function:
            why = next((why for names, why in _WHY.items() if function[1] in names.split()), None)
            said = f"`{function[1]}` is a function of the kernel that it does not lend to BPF; "
            said += why or "take in what it does"
        elif missing:
            said = (
                f"`{missing[2]}` of `struct {missing[1]}` is a patched kernel's, or one that tcp.h does not declare; "
                "use the fields that tcp.h has"
            )
        else:
            said = line.split(": ", 1)[1]
        # Flags of an allocation that is refused itself.
        if said not in told and "GFP_" not in said:
            told.add(said)
            yield f"{at}: {said}"
    if not told:
        yield messages
