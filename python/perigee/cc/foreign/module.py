# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reads what a module or a `struct_ops` program says of itself: name, licence, parameters, callbacks, memory."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from perigee.cc.foreign.branches import active, undecided
from perigee.cc.foreign.licence import licence_of
from perigee.cc.foreign.refused import RefusedError
from perigee.cc.foreign.text import Item, Token, arguments, items_of, joined, split
from perigee.errors import InputError

OPS = "tcp_congestion_ops"
LEFT_OUT = {
    "get_info": "what `ss -i` prints of it: the kernel takes none from BPF",
    "tso_segs": "no kernel from kernel.org has it",
    "owner": "",
    "key": "",
    "list": "",
}
"""Members of the table of callbacks that an import leaves out, and why; those without a reason are not told."""
CALLBACKS: Mapping[str, tuple[str, str]] = {
    "init": ("void", ""),
    "release": ("void", ""),
    "ssthresh": ("u32", ""),
    "cong_avoid": ("void", "u32 ack, u32 acked"),
    "set_state": ("void", "u8 new_state"),
    "cwnd_event": ("void", "enum tcp_ca_event event"),
    "in_ack_event": ("void", "u32 flags"),
    "pkts_acked": ("void", "const struct ack_sample *sample"),
    "min_tso_segs": ("u32", ""),
    "cong_control": ("void", "u32 ack, int flag, const struct rate_sample *rs"),
    "undo_cwnd": ("u32", ""),
    "sndbuf_expand": ("u32", ""),
}
"""Callbacks of both hosts: what each returns, and what it is given beside the socket."""
OF_TCP_H = {"tcp_reno_cong_avoid", "tcp_reno_ssthresh", "tcp_reno_undo_cwnd", "tcp_slow_start", "tcp_cong_avoid_ai"}
"""Functions of the kernel that both hosts have."""
_LARGEST = {
    "bool": "1",
    "int": "2147483647",
    "long": "9223372036854775807",
    "uint": "4294967295",
    "ulong": "18446744073709551615",
    "ullong": "18446744073709551615",
    "short": "32767",
    "ushort": "65535",
    "byte": "255",
}
_WRITES = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"}
_WRITING_MACROS = {"do_div", "swap", "memset", "memcpy", "get_random_bytes", "WRITE_ONCE"}


@dataclass
class Parameter:
    """A parameter: name, variable, default as C, unit, least and largest value, and its text, a string of C."""

    name: str
    variable: str
    default: str
    unit: str = "1"
    least: str = "0"
    largest: str = "2147483647"
    doc: str = '""'


@dataclass
class Foreign:
    """A file that was written for the kernel's headers.

    Attributes:
        text: what is left of it, local headers included.
        items: its top level.
        ops: the table of callbacks that is imported.
        name: of the algorithm.
        licence: in the kernel's words.
        licence_note: where it is from, if no macro states it, or that the kernel loads none with it.
        title: its description, a string of C; empty: it has none.
        init: the function that begins the module; empty: none.
        parameters: its parameters.
        callbacks: function by callback.
        flags: the flags of the table, as C.
        memory: variables that the module's init writes, and parameters.
        left_out: members of the table that are left out, with their functions.
        notes: what else is changed, for the report.
    """

    text: str
    items: list[Item]
    ops: Item
    name: str = ""
    licence: str = ""
    licence_note: str = ""
    title: str = ""
    init: str = ""
    parameters: list[Parameter] = field(default_factory=list)
    callbacks: dict[str, str] = field(default_factory=dict)
    flags: str = ""
    memory: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def functions(self) -> dict[str, Item]:
        """Return its functions by name."""
        return {item.names[0]: item for item in self.items if item.kind == "function"}


def read(text: str, name: str, spdx: str) -> Foreign:
    """Read a file.

    Args:
        text: its text, local headers included.
        name: of the file, for messages.
        spdx: the expression of its SPDX line; empty: it has none.

    Raises:
        InputError: it has no table of callbacks.
        RefusedError: what it says cannot be imported.
    """
    items = items_of(active(text))
    tables = {item.names[0]: item for item in items if item.kind == "variable" and item.has(OPS) and item.body}
    if not tables:
        raise InputError(
            f"{name}: has no `struct {OPS} ... = {{ ... }}`, with which a module or a program registers its callbacks",
            "name the C file that has it",
        )
    registered = _registered(active(text))
    chosen = [table for table in tables if table in registered] or list(tables)
    if len(chosen) > 1:
        second = tables[chosen[1]]
        raise RefusedError(second.start, f"it registers {', '.join(chosen)}", "leave one of them in the file")
    found = Foreign(text, items, tables[chosen[0]])
    found.licence, found.licence_note = licence_of(items, spdx, found.ops.start)
    _read_calls(found)
    _read_table(found)
    _read_memory(found)
    for table in tables:
        if table != chosen[0]:
            found.left_out[table] = "a second table, of the connections that it leaves to Reno"
    return found


def _registered(text: str) -> set[str]:
    return set(re.findall(r"tcp_register_congestion_control\s*\(\s*&\s*(\w+)", text))


def _read_calls(found: Foreign) -> None:
    """Take what macros say: parameters, description, init."""
    variables = {name: item for item in found.items if item.kind == "variable" for name in item.names}
    texts: dict[str, str] = {}
    for item in found.items:
        if item.kind != "call":
            continue
        given = arguments(item)
        match item.names[0]:
            case "MODULE_DESCRIPTION":
                found.title = joined(given[0])
            case "MODULE_PARM_DESC":
                texts[joined(given[0])] = joined(given[1])
            case "module_init" | "late_initcall":
                found.init = joined(given[0])
            case "module_param":
                found.parameters += _parameter(found, item, joined(given[0]), joined(given[1]), variables)
            case "module_param_named":
                kind, variable = joined(given[2]), joined(given[1])
                found.parameters += _parameter(found, item, joined(given[0]), kind, variables, variable)
            case "module_param_cb" | "module_param_array":
                _check_alike(item, given)
                found.parameters += _bounded(found, item, given, variables)
            case macro if re.search(rf"^[ \t]*#[ \t]*define\s+{macro}\(.*\bmodule_param", found.text, re.MULTILINE):
                found.left_out[joined(item.tokens[:-1])] = "a parameter that a macro declares: write its module_param()"
    for parameter in found.parameters:
        parameter.doc = texts.get(parameter.name, '"parameter of the module"')


def _parameter(
    found: Foreign, item: Item, name: str, kind: str, variables: Mapping[str, Item], variable: str = ""
) -> Iterator[Parameter]:
    variable = variable or name
    if kind not in _LARGEST:
        raise RefusedError(
            item.start, f"the parameter `{name}` is of type `{kind}`", f"parameters here are of {', '.join(_LARGEST)}"
        )
    if variable not in variables:
        raise RefusedError(item.start, f"the parameter `{name}` has no variable `{variable}`", "give it one")
    if name == "sk" or (name != variable and any(name in other.names for other in found.items if other.kind != "type")):
        raise RefusedError(item.start, f"the parameter `{name}` has the name of something else", "rename one of them")
    default = _initial(variables[variable], variable)
    if default.startswith("-"):
        found.notes.append(f"`{name}` stays {default}: parameters here are not negative")
        return
    yield Parameter(name, variable, default, "switch" if kind == "bool" else "1", largest=_LARGEST[kind])


def _check_alike(item: Item, given: list[list[Token]]) -> None:
    name = joined(given[0])
    variable = joined(given[-2]).lstrip("& ")
    if item.names[0] == "module_param_array" or variable != name:
        raise RefusedError(item.start, f"the parameter `{name}` is not a variable of that name", "give it one")


def _bounded(
    found: Foreign, item: Item, given: list[list[Token]], variables: Mapping[str, Item]
) -> Iterator[Parameter]:
    """Yield a parameter that is set by a function of the module's, which may state its bounds."""
    name = joined(given[0])
    set_by = re.search(rf"\b{joined(given[1]).lstrip('& ')}\b[^;]*?\.set\s*=\s*(\w+)", found.text)
    body = re.search(rf"\b{set_by.group(1)}\s*\([^;]*?\{{(.*?)\n\}}", found.text, re.DOTALL) if set_by else None
    bounds = re.search(r"param_set_uint_minmax\s*\(\s*\w+,\s*\w+,\s*(\w+),\s*(\w+)\)", body.group(1) if body else "")
    for one in _parameter(found, item, name, "uint", variables):
        if bounds:
            one.least, one.largest = bounds.groups()
        else:
            found.notes.append(f"`{name}`: the module's function that sets it is not asked")
        yield one


def _initial(item: Item, name: str) -> str:
    for part in split(item.tokens[:-1]):
        texts = [token.text for token in part]
        if name in texts and "=" in texts:
            return joined(part[texts.index("=") + 1 :])
    return "0"


def _read_table(found: Foreign) -> None:
    """Take the callbacks of the table."""
    for condition in undecided(found.text[found.ops.start : found.ops.end]):
        raise RefusedError(
            found.ops.start + condition.start,
            f"`{condition.text.strip()}` decides on members of the table",
            "keep the branch that you want: only numbers and LINUX_VERSION_CODE decide here",
        )
    braces = found.ops.tokens[found.ops.body + 1 :]
    for part in split(braces[1:-2]):
        texts = [token.text for token in part]
        if texts[0] != "." or len(texts) < 4 or texts[2] != "=":
            raise RefusedError(part[0].start, "a member of the table without its name", "write `.member = function`")
        member, value = texts[1], joined(part[3:])
        if member in found.callbacks:
            raise RefusedError(part[0].start, f"the table has `.{member}` twice", "leave one of them")
        if member == "name":
            found.name = value.strip('"')
        elif member == "flags":
            found.flags = value
        elif member in LEFT_OUT:
            if LEFT_OUT[member]:
                found.left_out[member] = LEFT_OUT[member]
        elif member in CALLBACKS:
            found.callbacks[member] = _called(found, part[3:])
        else:
            raise RefusedError(
                part[0].start,
                f"`{member}` is no callback of Linux's: it needs a patched kernel",
                f"those of Linux are {', '.join(CALLBACKS)}",
            )
    if not found.name:
        raise RefusedError(found.ops.start, "the table has no `.name`", "give it one")
    for needed in (("ssthresh",), ("undo_cwnd",), ("cong_avoid", "cong_control")):
        if not found.callbacks.keys() & set(needed):
            lacking = " or ".join(f"`.{member}`" for member in needed)
            raise RefusedError(found.ops.start, f"the table has no {lacking}", "give it one: Linux needs it too")


def _called(found: Foreign, value: list[Token]) -> str:
    function = [token for token in value if token.kind == "word" and token.text not in ("void", "NULL")]
    if len(function) != 1 or (function[0].text not in found.functions() and function[0].text not in OF_TCP_H):
        raise RefusedError(
            value[0].start,
            f"`{joined(value)}` is no function of this file, nor one that the kernel lends to all",
            f"define it in the file; the kernel's are {', '.join(sorted(OF_TCP_H))}",
        )
    return function[0].text


def _read_memory(found: Foreign) -> None:
    """Take the variables that init writes; one that anything else writes is refused."""
    found.memory = {parameter.variable for parameter in found.parameters}
    names = {
        name
        for item in found.items
        if item.kind == "variable" and not item.has("const") and not item.has(OPS)
        for name in item.names
    }
    in_use = reachable(found)
    for function, item in found.functions().items():
        inner = item.tokens[item.body :] if function in in_use else []
        for token, following in itertools.pairwise(inner):
            if token.text == "static" and following.text != "const":
                raise RefusedError(
                    token.start,
                    f"`{function}` has a static variable, which all connections would share",
                    "keep it in the struct that inet_csk_ca() returns, or make it `static const`",
                )
        for token in _written(item, names) if function in in_use else ():
            if function != found.init:
                raise RefusedError(
                    token.start,
                    f"`{function}` changes `{token.text}`, which all connections would share",
                    "keep it in the struct that inet_csk_ca() returns",
                )
            found.memory.add(token.text)


def _written(function: Item, names: set[str]) -> Iterator[Token]:
    """Yield the places at which a function changes one of these variables, or takes its address."""
    tokens = function.tokens
    own = {
        after.text
        for before, after in itertools.pairwise(tokens)
        if after.text in names and (before.kind == "word" and before.text not in ("return", "else", "sizeof"))
    }
    for at, token in enumerate(tokens):
        if token.text not in names - own or token.kind != "word" or tokens[at - 1].text in (".", "->"):
            continue
        behind = at + 1
        while behind < len(tokens) and tokens[behind].text in ("[", ".", "->"):
            behind += 2 if tokens[behind].text != "[" else _bracket(tokens[behind:])
        is_first = tokens[at - 1].text == "(" and tokens[at - 2].text in _WRITING_MACROS
        address = tokens[at - 1].text == "&" and tokens[at - 2].kind == "mark" and tokens[at - 2].text not in ")]"
        if tokens[behind].text in _WRITES or tokens[at - 1].text in ("++", "--") or is_first or address:
            yield token


def _bracket(tokens: list[Token]) -> int:
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.text == "[") - (token.text == "]")
        if depth == 0:
            return at + 1
    return len(tokens)


def reachable(found: Foreign) -> set[str]:
    """Return the functions that are called from callbacks or the module's init, or named outside of functions."""
    functions = found.functions()
    tables = [item for item in found.items if item.kind == "variable" and item.has(OPS)]
    open_items = [item for item in found.items if item.kind in ("variable", "directive") and item not in tables]
    wanted = {*found.callbacks.values(), found.init, *(word for item in open_items for word in item.words())}
    reached: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in functions and name not in reached:
            reached.add(name)
            wanted |= functions[name].words()
    return reached
