# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Reads what a module or a `struct_ops` program says of itself: name, licence, parameters, callbacks, memory."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from perigee.cc.foreign.branches import active, undecided
from perigee.cc.foreign.licence import licence_of
from perigee.cc.foreign.own import Own, own_of
from perigee.cc.foreign.refused import RefusedError
from perigee.cc.foreign.text import Item, Token, arguments, items_of, joined, split, tokens_of
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
    "cwnd_event_tx_start": ("void", ""),
    "in_ack_event": ("void", "u32 flags"),
    "pkts_acked": ("void", "const struct ack_sample *sample"),
    "min_tso_segs": ("u32", ""),
    "cong_control": ("void", "u32 ack, int flag, const struct rate_sample *rs"),
    "undo_cwnd": ("u32", ""),
    "sndbuf_expand": ("u32", ""),
}
"""Callbacks of both hosts: what each returns, and what it is given beside the socket."""
_NEEDED = (("ssthresh",), ("undo_cwnd",), ("cong_avoid", "cong_control"))
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
_KINDS = {
    "byte": r"_*u(int)?8(_t)?|unsigned char",
    "ushort": r"_*u(int)?16(_t)?|unsigned short( int)?",
    "uint": r"_*u(int)?32(_t)?|unsigned( int)?",
    "ulong": r"_*u(int)?64(_t)?|unsigned long( long)?( int)?",
    "short": r"_*(s|int)16(_t)?|(signed )?short( int)?",
    "int": r"_*(s|int)32(_t)?|(signed )?int",
    "long": r"_*(s|int)64(_t)?|(signed )?long( long)?( int)?",
    "bool": r"bool|_Bool",
}
"""Types of C by that of a module's parameter."""
_WRITES = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"}
_MOST_MACROS = 8
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
        memory: variables that the module's init writes, parameters, and what is written for others to read.
        told: those of `memory` that nothing of the file reads.
        own: names that it defines and the headers too.
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
    told: set[str] = field(default_factory=set)
    own: Own = field(default_factory=Own)
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
        chosen = [table for table in chosen if _is_whole(tables[table])] or chosen
    if len(chosen) > 1:
        second = tables[chosen[1]]
        raise RefusedError(second.start, f"it registers {', '.join(chosen)}", "leave one of them in the file")
    found = Foreign(text, items, tables[chosen[0]])
    found.licence, found.licence_note = licence_of(items, spdx, found.ops.start)
    found.own = own_of(items)
    _read_calls(found)
    _read_constants(found)
    _read_table(found)
    _read_memory(found)
    for table in tables:
        if table in registered or table == chosen[0]:
            continue
        found.left_out[table] = (
            "a second table, of the connections that it leaves to Reno"
            if registered
            else "a table without callbacks that Linux needs"
        )
    return found


def _is_whole(table: Item) -> bool:
    """Whether a table has all callbacks without which Linux refuses it."""
    return all(table.words() & set(needed) for needed in _NEEDED)


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


def _read_constants(found: Foreign) -> None:
    """Take the constants of a `struct_ops` program that its loader sets, `const volatile`, for parameters."""
    for item in found.items:
        if item.kind != "variable" or not is_set_by_loader(item):
            continue
        variables = dict.fromkeys(item.names, item)
        for name in item.names:
            kind = kind_of(item, name)
            if kind in _LARGEST:
                for one in _parameter(found, item, name, kind, variables):
                    one.doc = '"constant of the program"'
                    found.parameters.append(one)
            else:
                found.notes.append(f"`{name}` stays as it is: parameters here are integers")


def is_set_by_loader(item: Item) -> bool:
    """Whether the loader of a program sets a variable: libbpf's constants."""
    return item.has("const") and item.has("volatile") and not item.has("extern")


def kind_of(item: Item, name: str) -> str:
    """Return the type of an integer as `module_param` has it; empty: it is none, or an array or a pointer.

    Examples:
        >>> [kind_of(item, "a") for item in items_of("const volatile __u16 b, a = 1; long a; int *a; u8 a[2];")]
        ['ushort', 'long', '', '']
    """
    first, *others = ([token.text for token in part] for part in split(item.tokens[:-1]))
    texts = next(texts for texts in (first, *others) if name in texts)
    before = first[: first.index(item.names[0])]
    if "*" in [*before, *texts[: texts.index(name)]] or texts[texts.index(name) + 1 : texts.index(name) + 2] == ["["]:
        return ""
    words = " ".join(word for word in before if word not in ("static", "const", "volatile"))
    return next((kind for kind, words_of in _KINDS.items() if re.fullmatch(words_of, words)), "")


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
            found.name = _text(found, part[3:])
        elif member == "flags":
            found.flags = value
        elif member in LEFT_OUT:
            if LEFT_OUT[member]:
                found.left_out[member] = LEFT_OUT[member]
        elif member in CALLBACKS:
            if {token.text for token in part[3:]} - {"(", ")", "void", "*"} not in ({"NULL"}, {"0"}):
                found.callbacks[member] = _called(found, part[3:], member)
        else:
            raise RefusedError(
                part[0].start,
                f"`{member}` is no callback of Linux's: it needs a patched kernel",
                f"those of Linux are {', '.join(CALLBACKS)}",
            )
    if "cwnd_event_tx_start" in found.callbacks:
        found.notes.append("cwnd_event_tx_start, a callback of newer kernels: called by cwnd_event, for its event")
    if not found.name:
        raise RefusedError(found.ops.start, "the table has no `.name`", "give it one")
    for needed in _NEEDED:
        if not found.callbacks.keys() & set(needed):
            lacking = " or ".join(f"`.{member}`" for member in needed)
            raise RefusedError(found.ops.start, f"the table has no {lacking}", "give it one: Linux needs it too")


def _text(found: Foreign, value: list[Token]) -> str:
    """Return a text, which a macro may stand for."""
    for _ in range(_MOST_MACROS):
        if value and all(token.kind == "string" for token in value):
            return joined(value).strip('"')
        macros = [item for item in found.items if item.kind == "directive" and item.names == [joined(value)]]
        meant = (
            re.match(r"\s*#\s*define\s+\w+\s+(.*)", macros[0].tokens[0].text, re.DOTALL) if len(macros) == 1 else None
        )
        if meant is None:
            break
        value = tokens_of(meant[1])
    raise RefusedError(value[0].start, f"the name is `{joined(value)}`", 'write it as a text, .name = "..."')


def _called(found: Foreign, value: list[Token], member: str) -> str:
    function = [token for token in value if token.kind == "word" and token.text not in ("void", "NULL")]
    if len(function) != 1 or (function[0].text not in found.functions() and function[0].text not in OF_TCP_H):
        raise RefusedError(
            value[0].start,
            f"`{joined(value)}` is no function of this file, nor one that the kernel lends to all",
            f"define it in the file; the kernel's are {', '.join(sorted(OF_TCP_H))}",
        )
    name = function[0].text
    if name in found.functions():
        item = found.functions()[name]
        more = [word for word in CALLBACKS[member][1].split(", ") if word]
        takes, given = len(arguments(item)), 1 + len(more)
        # Before Linux 6.10, cong_control was given the socket and the sample.
        if takes != given and (member, takes) != ("cong_control", 2):
            raise RefusedError(
                item.start,
                f"`{name}` takes {takes} argument{'s' * (takes != 1)}, and Linux's `.{member}` is given {given}",
                f"give it those of today's kernels: {', '.join(['struct sock *sk', *more])}",
            )
    return name


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
    found.told = _told([item for name, item in found.functions().items() if name in in_use], names)
    found.memory |= found.told
    for function, item in found.functions().items():
        inner = item.tokens[item.body :] if function in in_use else []
        for token, following in itertools.pairwise(inner):
            if token.text == "static" and following.text != "const":
                raise RefusedError(
                    token.start,
                    f"`{function}` has a static variable, which all connections would share",
                    "keep it in the struct that inet_csk_ca() returns, or make it `static const`",
                )
        for token in _written(item, names - found.told) if function in in_use else ():
            if function != found.init:
                raise RefusedError(
                    token.start,
                    f"`{function}` changes `{token.text}`, which all connections would share",
                    "keep it in the struct that inet_csk_ca() returns",
                )
            found.memory.add(token.text)


def _told(functions: list[Item], names: set[str]) -> set[str]:
    """Return the variables that callbacks only write, in statements of their own: for the program that loaded them."""
    told: set[str] = set()
    read: set[str] = set()
    for function in functions:
        tokens = function.tokens
        for at, token in enumerate(tokens):
            if token.kind != "word" or token.text not in names or tokens[at - 1].text in (".", "->"):
                continue
            behind = _behind(tokens, at)
            first = at - 1 if tokens[at - 1].text in ("++", "--") else at
            is_written = first < at or tokens[behind].text in _WRITES
            (told if is_written and _is_statement(tokens, first) else read).add(token.text)
    return told - read


def _is_statement(tokens: list[Token], at: int) -> bool:
    """Whether a statement begins at a token."""
    before = at - 1
    if tokens[before].text != ")":
        return tokens[before].text in ("{", "}", ";", "else")
    depth = 0
    while depth or tokens[before].text == ")":
        depth += (tokens[before].text == ")") - (tokens[before].text == "(")
        before -= 1
        if depth == 0:
            break
    return tokens[before].text in ("if", "for", "while")


def _behind(tokens: list[Token], at: int) -> int:
    """Return the place behind a variable, its elements and members."""
    behind = at + 1
    while behind < len(tokens) and tokens[behind].text in ("[", ".", "->"):
        behind += 2 if tokens[behind].text != "[" else _bracket(tokens[behind:])
    return behind


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
        behind = _behind(tokens, at)
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
