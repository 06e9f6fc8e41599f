# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The command lines of README and guides that need another host, root, or a day are read as the program reads them.

What a guide has in blocks of `sh` is carried out (`test_house.py`).
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import LONG_PAGES, ROOT, Perigee
from perigee.commands.line import command_line
from perigee.commands.overview import COMMANDS
from perigee.places import studies

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HERE_DOCUMENT = re.compile(r"<<'(\w+)'\n.*?^\1$", re.MULTILINE | re.DOTALL)
"""A file that a page writes: its commands have variables that only its reader knows."""
AS_ROOT = 'sudo "$(command -v perigee)"'
ENDS = {"&&", "||", "|", ">", ">>", "<", "&", ";"}
"""Words of the shell that end a command."""


def written(page: Path) -> Iterator[list[str]]:
    """Yield the words of each call of perigee on a page that no other test of each run carries out."""
    for language, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        lines = HERE_DOCUMENT.sub("", content).replace("\\\n", " ").splitlines()
        if language == "console":
            yield from (words for line in lines if line[:2] in ("$ ", "# ") for words in calls(line[2:]))
        elif page.parent == ROOT or page.name in LONG_PAGES:
            yield from (words for line in lines for words in calls(line))


def calls(line: str) -> Iterator[list[str]]:
    """Yield the words after `perigee` of each call in a line of the shell, without its comment."""
    command = re.split(r"\s{2,}|\s#\s", line.replace(AS_ROOT, "perigee"))[0]
    if "perigee " not in command:
        return
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in ENDS:
            words.append(word)
            continue
        called = list(itertools.dropwhile(lambda one: "=" in one or one == "sudo", words))
        if called and called[0].rpartition("/")[2] == "perigee":
            yield called[1:]
        words = []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_that_is_written_down_is_one(page: Path, perigee: Perigee) -> None:
    for words in written(page):
        given = parsed(words)
        if words[0] in ("ping", "probe") and not given["server"] and given["summary"] is None:
            # The other end is not here; that a token is given can be seen.
            assert given["token"] or given["token_file"], words
        is_shipped = words[0] == "run" and given["study"] in studies()
        if is_shipped and not any(re.search(r"\.c\b", word) for word in words):
            done = perigee(*words, "--dry-run")
            assert done.returncode == 0, (words, done.stderr)


def parsed(words: list[str]) -> dict[str, Any]:
    """Return the options and arguments of a call, by the program's own parser; nothing of it is carried out."""
    command, context = command_line(*COMMANDS), None
    while True:
        context = command.make_context("perigee", words, parent=context)
        if not hasattr(command, "resolve_command"):
            params: dict[str, Any] = context.params
            return params
        words = [*context._protected_args, *context.args]
        if not words:
            return {}
        _, command, words = command.resolve_command(context, words)


def test_a_command_that_is_none_is_found() -> None:
    assert sum(1 for page in PAGES for _ in written(page)) > 100
    assert {page.name for page in PAGES} >= set(LONG_PAGES)
    line = 'perigee run a --set b="1 %" && FOO=1 x/perigee report x > y  # and so on'
    assert list(calls(line)) == [["run", "a", "--set", "b=1 %"], ["report", "x"]]
    for wrong, fault in ((["run"], "study"), (["run", "a", "--sett", "b=1"], "--sett"), (["pnig", "a"], "pnig")):
        with pytest.raises(Exception, match=fault):
            parsed(wrong)
