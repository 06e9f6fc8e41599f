# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The form for what a reader judges: RFC 9743, 5.3.1 and 8, the status that is sought, and what its abstract says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perigee.errors import InputError
from perigee.files import TEXT_BYTES, read_bounded, write_atomically


@dataclass(frozen=True)
class Question:
    """A question to the author.

    Attributes:
        key: its key in the form.
        section: of RFC 9743.
        text: the question.
    """

    key: str
    section: str
    text: str


QUESTIONS = (
    Question("signals", "5.3.1",
        "Which signals of congestion does it use, and how far does it reduce its rate on each?"),
    Question("deviations", "5.3.1", "Where does it deviate from RFC 2914, and why is that acceptable?"),
    Question("packets", "5.3.1", "Does it react to lost packets or to lost bytes, whatever their size (RFC 7141)?"),
    Question("attacks", "8", "How can a receiver or a node on the path make it send too much, or too little?"),
    Question("revealed", "8", "What does its behaviour reveal of hosts, users or traffic?"),
    Question("status", "3.2", "Which status is sought, and which evidence is there from the Internet?"),
    Question("scope", "4", "Is it for the Internet or for a controlled environment, and what keeps it there?"),
    Question("abstract", "3.2",
        "What do the two statements of its abstract say: is there consensus that it is safe to use, and in which "
        "environments is it not recommended?"),
)  # fmt: skip
"""All questions of the form, in its order."""


def read_form(path: Path) -> dict[str, str]:
    """Return the answers in a form by their keys; without those left empty.

    Raises:
        InputError: it cannot be read, has another key, or an answer is no text.
    """
    try:
        content = tomllib.loads(read_bounded(path, TEXT_BYTES, "a form").decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not TOML: {error}") from error
    known = [question.key for question in QUESTIONS]
    for key, answer in content.items():
        if key not in known:
            raise InputError(f"{path}: the form has no `{key}`; its keys are: {', '.join(known)}")
        if not isinstance(answer, str):
            raise InputError(f"{path}: the answer to `{key}` is no text; put it in quotes")
    return {key: answer.strip() for key, answer in content.items() if answer.strip()}


def write_form(path: Path) -> None:
    """Write an empty form.

    Raises:
        StorageError: it cannot be written.
    """
    parts = ["# What a reader of an evaluation by RFC 9743 judges. The page shows the answers.\n"]
    parts += [f'\n# RFC 9743, {one.section}: {one.text}\n{one.key} = """\n"""\n' for one in QUESTIONS]
    write_atomically(path, "".join(parts).encode())


def answered(answers: Mapping[str, str]) -> list[tuple[Question, str]]:
    """Return each question with its answer; empty where there is none."""
    return [(question, answers.get(question.key, "")) for question in QUESTIONS]
