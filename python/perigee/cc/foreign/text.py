# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The text of a C file as tokens and as items at its top level: as much of the language as an import needs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
    |(?P<directive>^[ \t]*\#(?:\\\r?\n|/\*.*?\*/|[^\n])*)
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<word>[A-Za-z_]\w*)
    |(?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)
    |(?P<space>\n|[^\S\n]+)
    |(?P<mark>->|&&|\|\||\+\+|--|<<=|>>=|<<|>>|[-+*/%&|^=!<>]=|.)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_TYPES = {"struct", "union", "enum", "typedef"}


class Token(NamedTuple):
    """A token: its kind (`word`, `number`, `string`, `directive`, `mark`), its text, and the place in the file."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The place behind it."""
        return self.start + len(self.text)


@dataclass
class Item:
    """A definition, declaration, macro call or directive at the top level.

    Attributes:
        kind: `function`, `variable`, `type`, `call` (of a macro), `directive` or `other` (a prototype, for one).
        names: what it defines, or the macro that it calls.
        tokens: all of its tokens.
        body: where among them a function's braces or an initializer begin.
    """

    kind: str
    names: list[str]
    tokens: list[Token]
    body: int = field(default=0)

    @property
    def start(self) -> int:
        """The place of its first token."""
        return self.tokens[0].start

    @property
    def end(self) -> int:
        """The place behind its last token."""
        return self.tokens[-1].end

    def words(self) -> set[str]:
        """Return the identifiers in it; of a directive, all of its words."""
        if self.kind == "directive":
            return set(re.findall(r"[A-Za-z_]\w*", self.tokens[0].text))
        return {token.text for token in self.tokens if token.kind == "word"}

    def has(self, word: str) -> bool:
        """Whether a word is part of its head, outside of all brackets."""
        return any(token.text == word for token in _outside(self.tokens))


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text, without comments and spaces.

    Examples:
        >>> [token.text for token in tokens_of("a->b /* c */ += 'd';")]
        ['a', '->', 'b', '+=', "'d'", ';']
    """
    found = (Token(str(match.lastgroup), match.group(), match.start()) for match in _TOKEN.finditer(text))
    return [token for token in found if token.kind not in ("comment", "space")]


def items_of(text: str) -> list[Item]:
    r"""Return what is at the top level of a text, in order.

    Examples:
        >>> text = "#define A 1\nstatic int b = A;\nmodule_param(b, int, 0);\nstatic u32 f(u32 x) { return x; }"
        >>> [(item.kind, item.names) for item in items_of(text)]
        [('directive', ['A']), ('variable', ['b']), ('call', ['module_param']), ('function', ['f'])]
    """
    items = []
    pending: list[Token] = []
    depth = 0
    for token in tokens_of(text):
        if token.kind == "directive":
            if depth == 0 and not pending:
                named = re.match(r"\s*#\s*define\s+(\w+)", token.text)
                items.append(Item("directive", [named.group(1)] if named else [], [token]))
            continue
        pending.append(token)
        depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "mark" else 0
        if depth > 0 or token.text not in (";", "}"):
            continue
        depth = 0
        if token.text == ";" or _is_function(pending):
            items.append(_item(pending))
            pending = []
    if pending:
        items.append(Item("other", [], pending))
    return items


def split(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split at the commas outside of all brackets; a comma at the end separates nothing.

    Examples:
        >>> [[token.text for token in part] for part in split(tokens_of("a, f(b, c),"))]
        [['a'], ['f', '(', 'b', ',', 'c', ')']]
    """
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "mark" else 0
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def arguments(item: Item) -> list[list[Token]]:
    """Return the arguments of a macro call, or the parameters of a function."""
    outside = [at for at, token in enumerate(item.tokens[: item.body or None]) if token.text == "("]
    if not outside:
        return []
    first = outside[0]
    depth = 0
    for at in range(first, len(item.tokens)):
        depth += (item.tokens[at].text == "(") - (item.tokens[at].text == ")")
        if depth == 0:
            return split(item.tokens[first + 1 : at])
    return []


def prototype(item: Item) -> str:
    """Return the function that a prototype declares; empty: it is none.

    Examples:
        >>> prototype(items_of("extern __u32 f(struct sock *sk) __ksym;")[0])
        'f'
    """
    texts = [token.text for token in item.tokens]
    return texts[texts.index("(") - 1] if item.kind == "other" and item.has("(") else ""


def joined(tokens: Sequence[Token]) -> str:
    """Return tokens as text, adjacent strings as one.

    Examples:
        >>> joined(tokens_of('1 +  2')), joined(tokens_of('"a "  "b"'))
        ('1 + 2', '"a b"')
    """
    if tokens and all(token.kind == "string" for token in tokens):
        return '"' + "".join(token.text[1:-1] for token in tokens) + '"'
    return " ".join(token.text for token in tokens)


def _outside(tokens: Sequence[Token]) -> Iterator[Token]:
    depth = 0
    for token in tokens:
        if token.kind == "mark" and token.text in ")]}":
            depth -= 1
        if depth == 0:
            yield token
        if token.kind == "mark" and token.text in "([{":
            depth += 1


def _is_function(tokens: Sequence[Token]) -> bool:
    head = [token.text for token in _outside(tokens)]
    before = head[: head.index("{")] if "{" in head else head
    return "(" in before and "=" not in before and tokens[-1].text == "}"


def _item(tokens: list[Token]) -> Item:
    outside = list(_outside(tokens))
    texts = [token.text for token in outside]
    if _is_function(tokens):
        named = max(at for at in range(texts.index("{")) if texts[at] == "(")
        named = texts.index("(") if texts[named - 1].startswith("__") else named
        return Item("function", [texts[named - 1]], tokens, tokens.index(outside[texts.index("{")]))
    if "=" in texts or ("(" not in texts and "typedef" not in texts and not _is_type(texts)):
        equals = texts.index("=") if "=" in texts else len(texts)
        body = tokens.index(outside[equals]) if equals < len(texts) else 0
        return Item("variable", [_declared(part) for part in split(outside[:-1])], tokens, body)
    if "(" in texts and texts.index("(") == 1:
        return Item("call", [texts[0]], tokens)
    if texts[0] in _TYPES:
        return Item("type", [text for text in texts[1:2] if text != "{"], tokens)
    return Item("other", [], tokens)


def _is_type(texts: Sequence[str]) -> bool:
    """Whether a declaration without initializer only declares a type."""
    return texts[0] in _TYPES and (len(texts) <= 3 or texts[-3:] == ["{", "}", ";"] or texts[-2:] == ["}", ";"])


def _declared(tokens: Sequence[Token]) -> str:
    """Return the name that a declarator declares: the last word before its `=` or `[` that is no mark of the build."""
    name = ""
    for token, following in itertools.zip_longest(tokens, tokens[1:]):
        if token.text in ("=", "["):
            break
        calls = following is not None and following.text == "("
        if token.kind == "word" and not token.text.startswith("__") and not calls:
            name = token.text
    return name
