# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Completions of an unfinished word: commands, options, and values of options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from perigee.commands.tree import Command, Parameter
from perigee.places import current_profiles, studies

Offers = Iterator[tuple[str, str]]
"""Words, each with its meaning or an empty text."""

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True)
class Candidates:
    """Completions of an unfinished word.

    Attributes:
        kind: what the shell adds of its own: `files`, `folders`, `none`, `open`, after whose words no space follows, or
            `program N`, where another program's command begins at word N (from 1, the name of this program not
            counted).
        words: words with their meaning, already those that begin as the unfinished one does.
    """

    kind: str
    words: tuple[tuple[str, str], ...] = ()

    def lines(self) -> str:
        """Return the form that the shell scripts read: the kind, then a line per word, its meaning after a tab."""
        return "\n".join([self.kind, *(f"{word}\t{meaning}" if meaning else word for word, meaning in self.words)])


def candidates(command: Command, words: Sequence[str]) -> Candidates:
    """Return the completions of the last word.

    Args:
        command: the root of the commands.
        words: what stands on the line after the program's name; the last may be unfinished or empty. As bash splits
            them, an `=` may be a word of its own.
    """
    *before, last = _joined(words)
    at, place, open_option, plain = 0, command, None, False
    given: list[str] = []
    for number, word in enumerate(before, 1):
        if open_option is not None:
            open_option = None
        elif word == "--" and not plain:
            plain = True
        elif word.startswith("-") and len(word) > 1 and not plain:
            option = _option(place, word)
            open_option = option if option is not None and option.value and "=" not in word else None
        elif below := _below(place, word):
            place = below
        else:
            # The first argument of the command whose name is left out.
            place = _below(place, place.implied) or place
            if _argument(place, at) == "COMMAND...":
                return Candidates(f"program {number}")
            at += 1
            given.append(word)
    if open_option is not None:
        return _of_option(place, open_option, last, given)
    if last.startswith("-") and not plain:
        name, equals, value = last.partition("=")
        option = _option(place, name)
        if equals and option is not None:
            found = _of_option(place, option, value, given)
            return Candidates(found.kind, tuple((f"{name}={word}", meaning) for word, meaning in found.words))
        return Candidates("none", tuple(_begin(last, _options(place))))
    if place.commands:
        commands = tuple(_begin(last, ((one.path[-1], one.summary) for one in place.commands)))
        implied = _below(place, place.implied)
        others = _of_value(_argument(implied, 0), last) if implied else Candidates("none")
        return Candidates(others.kind, (*commands, *others.words))
    if _argument(place, at) == "COMMAND...":
        return Candidates(f"program {len(before) + 1}")
    return _of_value(_argument(place, at), last)


def _joined(words: Sequence[str]) -> list[str]:
    """Join words at a separate `=`, which after an option only ends the option's name.

    Examples:
        >>> _joined(["run", "--engine", "=", "si"]), _joined(["--engine", "="])
        (['run', '--engine', 'si'], ['--engine', ''])
        >>> _joined(["--set", "flow.cc", "=", "cu"])
        ['--set', 'flow.cc=cu']
    """
    joined: list[str] = []
    rest = list(words) or [""]
    while rest:
        word = rest.pop(0)
        if word != "=" or not joined:
            joined.append(word)
        elif joined[-1].startswith("--"):
            joined.append(rest.pop(0) if rest else "")
        else:
            joined[-1] += "=" + (rest.pop(0) if rest else "")
    return joined


def _below(place: Command, word: str) -> Command | None:
    return next((one for one in place.commands if one.path[-1] == word), None)


def _option(place: Command, word: str) -> Parameter | None:
    return next((one for one in place.options if word.partition("=")[0] in one.names), None)


def _options(place: Command) -> Offers:
    for one in place.options:
        yield one.names[-1], one.text


def _argument(place: Command, at: int) -> str:
    """Return the values of the argument of this number; a repeated last argument continues."""
    if at < len(place.arguments):
        return place.arguments[at].value
    if place.arguments and place.arguments[-1].repeated:
        return place.arguments[-1].value
    return "NOTHING"


def _of_option(place: Command, option: Parameter, word: str, given: Sequence[str]) -> Candidates:
    """Return the values of an option; `given` are the command's arguments before it."""
    if option.value not in SETTINGS:
        return _of_value(option.value, word)
    from perigee.commands import setting_words

    if any(one.value == "STUDY" for one in place.arguments):
        settings = setting_words.of_study(given[0] if given else "")
    elif any("STUDY" in one.value for one in place.arguments):
        # A study of the command's own.
        settings = setting_words.of_study("")
    elif any("PROFILE" in one.value for one in (*place.arguments, *place.options)):
        settings = setting_words.of_profile()
    elif any("ALGORITHM" in one.value for one in place.arguments):
        settings = setting_words.of_algorithm(given[0] if given else "")
    else:
        return Candidates("none")
    are_keys, words = settings.words(word, several=SETTINGS[option.value])
    values = word.partition("=")[2].split(",")
    is_path = values[-1].startswith((".", "/", "~"))
    return Candidates("open" if are_keys else "files" if is_path else "none", tuple(words))


def _of_value(value: str, word: str) -> Candidates:
    """Return the values of an option or argument; words in lower case in its metavar are literal."""
    words: list[tuple[str, str]] = []
    kind = "none"
    for part in value.removesuffix("...").split("|"):
        if part in NAMED:
            words += _begin(word, NAMED[part]())
            kind = "files" if part in ALSO_FILES and kind == "none" else kind
        elif part in SHELL_OFFERS:
            kind = SHELL_OFFERS[part]
        elif part == part.lower():
            words += _begin(word, [(part, "")])
    return Candidates(kind, tuple(words))


def _begin(word: str, offers: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> Offers:
    return (offer for offer in offers if offer[0].startswith(word))


def _studies() -> Offers:
    yield from ((name, "") for name in sorted(studies()))


def _profiles() -> Offers:
    yield from ((name, "") for name in sorted(current_profiles()))


def _algorithms() -> Offers:
    from perigee.cc.catalog import algorithms

    yield from ((one.name, one.title) for one in algorithms())


def _stacks() -> Offers:
    from perigee.stacks.table import stacks

    yield from ((one.name, one.title) for one in stacks())


def _cells() -> Offers:
    from perigee.matrix.cells import whole

    yield from ((one.name, one.link.title) for one in whole())


NAMED: dict[str, Callable[[], Offers]] = {
    "STUDY": _studies,
    "PROFILE": _profiles,
    "ALGORITHM": _algorithms,
    "STACK": _stacks,
    "CELL": _cells,
    "SHELL": lambda: ((one, "") for one in SHELLS),
}
"""Metavars of values whose names are known here."""
ALSO_FILES = ("STUDY", "PROFILE")
"""Metavars whose value may also be a file."""
SETTINGS = {"KEY=VALUE": False, "KEY=V1,V2": True}
"""Metavars of key paths with a value, or with several."""
SHELL_OFFERS = {"FILE": "files", "FOLDER": "folders", "RESULTS": "folders", "CAMPAIGN": "folders", "A B": "folders"}
"""Metavars that the shell itself completes."""
