# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The places of a module's text that an import changes, each as it was in the kernel: no other line is touched."""

from __future__ import annotations

import re
from collections.abc import Iterator

from perigee.cc.foreign.licence import is_licence
from perigee.cc.foreign.module import OF_TCP_H, OPS, Foreign, is_set_by_loader, reachable
from perigee.cc.foreign.refused import RefusedError
from perigee.cc.foreign.text import Item, Token, prototype

Edit = tuple[int, int, str]
"""Where a change begins and ends, and what stands there instead."""

STATE = re.compile(r"struct\s+(\w+)\s*\*\s*\w+\s*=\s*inet_csk_ca\(")
_TO_RENO = re.compile(
    r"WRITE_ONCE\(\s*inet_csk\((\w+)\)->icsk_ca_ops,\s*&(\w+)\)|inet_csk\((\w+)\)->icsk_ca_ops\s*=\s*&(\w+)"
)
_CLAMP = re.compile(r"\b(\w+|tcp_sk\(\w+\))(->snd_cwnd_clamp\s*=(?!=)\s*)([^;]*)")
_SETTINGS = {"CONFIG_HZ": "KERNEL_HZ", "LINUX_KERNEL_VERSION": "LINUX_VERSION_CODE"}
"""Settings of the kernel that a program may read, by what stands for them."""
_TABLE = re.compile(r"\b(static)\s+const\b(?:[^;=(){}]|\{[^}]*\})*?\b(\w+)\s*\[[^;=()]*=")


def edits(found: Foreign) -> Iterator[Edit]:
    """Yield the places of the text that change."""
    in_use = reachable(found)
    functions = found.functions()
    for match in _TABLE.finditer(found.text):
        yield match.end(1), match.end(1), " KERNEL_TABLE"
    tables = {match[2] for match in _TABLE.finditer(found.text)}
    states = set(STATE.findall(found.text))
    members = {
        name
        for item in found.items
        if item.kind == "type" and states & set(item.names)
        for name in re.findall(r"\b(\w+)\s*\[\s*[2-4]\s*\]", found.text[item.start : item.end])
    }
    for item in found.items:
        words = item.words() if item.kind == "other" else set()
        if item.has("SEC") and '".maps"' in [token.text for token in item.tokens]:
            raise RefusedError(item.start, "it has a map", "keep the state in the struct that inet_csk_ca() returns")
        if item in found.own.types or (item.kind == "variable" and (item.has(OPS) or is_licence(item))):
            yield item.start, item.end, ""
        elif item.kind == "variable" and item.has("__kconfig"):
            yield item.start, item.end, _setting(found, item)
        elif item.kind == "variable" and found.memory & set(item.names):
            yield from _stored(item)
        elif item.kind == "variable" and is_set_by_loader(item):
            yield from _without(item, {"volatile"})
        elif item.kind == "variable" and not item.words() & {"static", "const", "extern"}:
            # Nothing writes it.
            yield item.start, item.start, "static "
        elif item.kind == "function" and item.names[0] not in in_use:
            yield item.start, item.start, "#if 0 /* not called */\n"
            yield item.end, item.end, "\n#endif"
        elif item.kind == "function" and not item.has("static"):
            yield item.start, item.start, "static "
        elif "__ksym" in words:
            if not words & OF_TCP_H:
                raise RefusedError(
                    item.start,
                    f"`{prototype(item)}` is a function that only some kernels lend to BPF",
                    f"take in what it does; all lend {', '.join(sorted(OF_TCP_H))}",
                )
            yield item.start, item.end, ""
        elif words & set(functions) and not item.has("static") and item.has("("):
            is_extern = item.tokens[0].text == "extern"
            yield item.start, item.start + len("extern") * is_extern, "static" + " " * (not is_extern)
        if item.kind == "function" and item.names[0] in in_use:
            yield from _left_to_reno(found, item)
            yield from _clamped(found, item)
            yield from _bounded(found, item, tables, members)


def _stored(item: Item) -> Iterator[Edit]:
    """Yield what makes a variable one that module_start() writes."""
    yield from _without(item, {"const", "volatile"})
    is_static = item.tokens[0].text == "static"
    yield item.start, item.start + len("static") * is_static, "static KERNEL_GLOBAL" + " " * (not is_static)


def _without(item: Item, words: set[str]) -> Iterator[Edit]:
    for token in item.tokens[: item.body or None]:
        if token.text in words:
            # The space behind it, too.
            yield token.start, token.end + 1, ""


def _setting(found: Foreign, item: Item) -> str:
    """Return a macro in place of a setting of the kernel that a program reads."""
    name = item.names[0]
    if name not in _SETTINGS:
        raise RefusedError(
            item.start,
            f"`{name}` is a setting of the kernel that the simulator does not have",
            f"it has {' and '.join(_SETTINGS)}",
        )
    words = [token.text for token in item.tokens if token.kind == "word" and not token.text.startswith("__")]
    kind = " ".join(word for word in words if word not in ("extern", name))
    _note(found, f"{name}, a setting of the kernel: {_SETTINGS[name]}")
    return f"\n#define {name} (({kind}){_SETTINGS[name]})\n"


def _left_to_reno(found: Foreign, function: Item) -> Iterator[Edit]:
    for match in _TO_RENO.finditer(found.text, function.start, function.end):
        table = next((item for item in found.items if item.names == [match[2] or match[4]] and item.body), None)
        called = {word for word in table.words() if word.startswith("tcp_")} if table else set()
        if table is None or called - OF_TCP_H - {OPS}:
            raise RefusedError(
                match.start(), "it changes the connection's algorithm", "leave_to_reno(sk) leaves it to Reno"
            )
        found.notes.append(f"`{table.names[0]}`: leave_to_reno(), which gives the connection the kernel's own Reno")
        yield match.start(), match.end(), f"leave_to_reno({match[1] or match[3]})"


def _clamped(found: Foreign, function: Item) -> Iterator[Edit]:
    """Yield the places that set the largest window, which BPF does by an option of the socket."""
    for match in _CLAMP.finditer(found.text, function.start, function.end):
        _note(
            found, "a largest window, snd_cwnd_clamp: tcp_snd_cwnd_clamp_set(), in the kernel an option of the socket"
        )
        yield match.start(), match.end(1), f"tcp_snd_cwnd_clamp_set({match[1]}"
        yield match.end(1), match.end(2), ", "
        yield match.end(3), match.end(3), ")"


def _bounded(found: Foreign, function: Item, tables: set[str], members: set[str]) -> Iterator[Edit]:
    """Yield what the kernel's verifier has to see of loops, and of places in tables and in arrays of the state."""
    tokens = function.tokens
    for at in range(function.body, len(tokens) - 1):
        word, opening = tokens[at], tokens[at + 1]
        end = _closing(tokens, at + 1) if opening.text in ("(", "[") else tokens[-1]
        if word.text == "while" and opening.text == "(" and tokens[at - 1].text != "}":
            _note(found, "loops: in the kernel they end after some millions of rounds")
            yield opening.end, opening.end, "("
            yield end.start, end.start, ") && KERNEL_AGAIN"
        elif opening.text != "[" or word.kind != "word" or tokens[at + 2].kind == "number" or tokens[at + 2] is end:
            continue
        elif word.text in tables and tokens[at - 1].text not in (".", "->"):
            _note(found, "places in tables: in the kernel, one behind the end is the first")
            yield opening.end, opening.end, f"KERNEL_INDEX({word.text}, "
            yield end.start, end.start, ")"
        elif word.text in members and tokens[at - 1].text == "->" and tokens[at - 2].kind == "word":
            _note(found, "arrays of the state: in the kernel, each element has a branch of its own")
            first = tokens[at - 2].start
            yield first, first, "(*KERNEL_MEMBER("
            yield opening.start, opening.end, ", "
            yield end.start, end.end, "))"


def _closing(tokens: list[Token], opening: int) -> Token:
    depth = 0
    for token in tokens[opening:]:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth == 0:
            return token
    return tokens[-1]


def _note(found: Foreign, note: str) -> None:
    if note not in found.notes:
        found.notes.append(note)
