# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Output generated from the commands: help, completion in shells, manual pages, the reference."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT, Perigee, environment, tool
from perigee.cc.skeleton import create
from perigee.commands.help_text import WIDEST, example_lines, help_text
from perigee.commands.line import whole_tree
from perigee.commands.man import page, page_name
from perigee.commands.overview import COMMANDS, GROUPS
from perigee.commands.tree import Command
from perigee.commands.values import NAMED, SHELL_OFFERS, SHELLS, candidates
from perigee.report.writer import FORMATS

TREE = whole_tree()
ALL = list(TREE.all())
SCRIPTS = ROOT / "python" / "perigee" / "data" / "completion"


def offered(line: str) -> tuple[str, list[str]]:
    """The kind and the words offered to complete a line at its end."""
    found = candidates(TREE, shlex.split(line)[1:] + ([""] if line.endswith(" ") else []))
    return found.kind, [word for word, _ in found.words]


def test_commands_are_listed_in_the_order_of_their_use_by_the_first_sentence_of_their_help() -> None:
    assert [(one.path[-1], one.summary) for one in TREE.commands] == list(COMMANDS.items())
    assert [one.group for one in TREE.commands] == [title for title, group in GROUPS.items() for _ in group]
    assert list(COMMANDS)[:2] == ["run", "report"]


def test_the_help_of_the_program_is_that_of_its_whole_command_line(perigee: Perigee) -> None:
    assert perigee("--help").stdout == help_text(TREE, WIDEST).plain
    done = perigee()
    assert (done.returncode, done.stdout, done.stderr) == (2, help_text(TREE, WIDEST).plain, "")
    done = perigee("cc")
    assert (done.returncode, done.stdout) == (2, perigee("cc", "--help").stdout)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize("width", [80, 100])
def test_help_fits_the_terminal_and_its_examples_can_be_pasted(one: Command, width: int) -> None:
    text = help_text(one, width).plain
    assert text.startswith(f"Usage: {one.usage}\n")
    wide = [line for line in text.splitlines() if len(line) > width]
    assert all(" " not in line.strip() for line in wide), wide
    assert "<" not in text.replace("<(", "")
    shown = "\n".join(line.split("#")[0] for line in example_lines(one.examples, width - 2)) if one.examples else ""
    pasted = [shlex.split(line) for line in shown.replace("\\\n", " ").splitlines() if line.strip()]
    for example in one.examples:
        words = shlex.split(example.command)
        assert any(line[: len(words)] == words for line in pasted), example.command


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_every_option_is_explained(one: Command) -> None:
    for parameter in (*one.arguments, *one.options):
        assert parameter.text.endswith((".", "?", ")")) or parameter.default, (one.name, parameter.usage)
        assert "<" not in parameter.value


def test_the_short_help_option_is_understood_everywhere(perigee: Perigee) -> None:
    for words in ((), ("run",), ("cc",), ("cc", "load"), ("exec",)):
        done = perigee(*words, "-h")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == perigee(*words, "--help").stdout
        assert done.stdout.startswith(f"Usage: perigee {' '.join(words)}".rstrip())


def test_help_that_is_a_programs_own_is_left_to_it() -> None:
    assert offered("perigee exec --link geo -- curl --he")[0] == "program 5"


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("perigee ru", "none", ["run"]),
        ("perigee cc lo", "none", ["load"]),
        ("perigee profiles vias", "files", ["viasat2"]),
        ("perigee profiles d", "files", ["draw"]),
        ("perigee run --eng", "none", ["--engine"]),
        ("perigee run --engine ", "none", ["sim", "emu", "live"]),
        ("perigee run --engine=e", "none", ["--engine=emu"]),
        ("perigee run --engine = e", "none", ["emu"]),
        ("perigee run claypool", "files", ["claypool-2021"]),
        ("perigee run --set rounds=3 --reduced claypool", "files", ["claypool-2021"]),
        ("perigee run --out ", "folders", []),
        ("perigee run gallery ", "none", []),
        ("perigee exec --link viasat", "files", ["viasat2"]),
        ("perigee exec -l viasat", "files", ["viasat2"]),
        ("perigee exec --link geo -- ", "program 5", []),
        ("perigee cc show hy", "files", ["hybla"]),
        ("perigee quic install ngt", "none", ["ngtcp2"]),
        ("perigee quic matrix --cell ngtcp2/ngtcp2/geo/bbr2+", "none", ["ngtcp2/ngtcp2/geo/bbr2+window"]),
        ("perigee compare ", "folders", []),
        ("perigee analyze a.pcap ", "files", []),
        ("perigee report results/a --format p", "none", ["pdf", "png"]),
        ("perigee completion ", "none", ["bash", "zsh", "fish"]),
        ("perigee no-such-command ", "none", list(COMMANDS)),
        (
            "perigee run validation --set links.path.queue.b",
            "open",
            ["links.path.queue.bdp=", "links.path.queue.bytes="],
        ),
        ("perigee run validation --set flow.tcp.abc=", "none", ["flow.tcp.abc=true", "flow.tcp.abc=false"]),
        ("perigee run validation --set=flow.op", "open", ["--set=flow.opened_by="]),
        ("perigee run validation --set flow.nosuch.", "open", []),
        ("perigee run validation --vary flow.cc=cubic,hy", "none", ["flow.cc=cubic,hybla"]),
        ("perigee run validation --vary flow.cc=./", "files", []),
        ("perigee run --set flow.opened_by = se", "none", ["flow.opened_by=sender"]),
        ("perigee run caini-2009 --vary sen", "open", ["sender="]),
        ("perigee run no-such-study --set roun", "open", ["rounds="]),
        ("perigee exec --link geo --set link.ra", "open", ["link.rate=", "link.rate."]),
        ("perigee cc load hybla --set rt", "open", ["rtt0="]),
        ("perigee cc load cubic --set delay=", "none", ["delay=on", "delay=off"]),
        ("perigee cc load reno --set slow_start=hystart", "none", ["slow_start=hystart", "slow_start=hystart++"]),
        ("perigee cc load ./mycc.c --set ", "open", []),
        ("perigee cc load --set ", "open", []),
        ("perigee run validation --vary flow.cc=cubic,./", "files", []),
    ],
)
def test_what_can_stand_at_a_place_is_offered(line: str, kind: str, words: list[str]) -> None:
    assert offered(line) == (kind, words)


def test_each_word_is_offered_with_its_meaning() -> None:
    assert ("run", "Run a study and write its results to a folder.") in candidates(TREE, [""]).words
    assert dict(candidates(TREE, ["cc", "load", "hybla"]).words)["hybla"].startswith("Hybla")


def test_key_paths_have_the_names_of_the_study_and_the_words_of_the_schema() -> None:
    study = json.loads((ROOT / "schema" / "study.json").read_text())["properties"]
    _, heads = offered("perigee run liu-2022 --set ")
    assert {"seed=", "rounds=", "time_limit=", "flow.", "flows.", "links.", "hosts.", "measure.", "proxy."} <= set(
        heads
    )
    declared = tomllib.loads((ROOT / "studies" / "liu-2022" / "study.toml").read_text())
    for table in ("links", "proxies", "flows"):
        _, names = offered(f"perigee run liu-2022 --set {table}.")
        assert names == sorted(f"{table}.{one['name']}." for one in declared[table])
    kinds = study["flows"]["items"]["properties"]["kind"]["enum"]
    assert offered("perigee run liu-2022 --set flow.kind=")[1] == [f"flow.kind={kind}" for kind in kinds]
    measured = {word.split(".")[1].rstrip("=") for word in offered("perigee run liu-2022 --set measure.")[1]}
    assert measured == set(study["measure"]["properties"])


def test_parameters_of_a_file_are_offered_with_what_they_are(tmp_path: Path) -> None:
    create("mycc", tmp_path)
    found = candidates(TREE, ["cc", "load", str(tmp_path / "mycc" / "mycc.c"), "--set", "dec"])
    assert [word for word, _ in found.words] == ["decrease="]
    assert found.words[0][1].endswith("(30 % unless set)")


def test_formats_and_shells_are_those_that_are_understood() -> None:
    report = next(one for one in ALL if one.path[-1] == "report")
    values = next(option.value for option in report.options if "--format" in option.names)
    assert values == "|".join(FORMATS)
    assert tuple(word for word, _ in NAMED["SHELL"]()) == SHELLS
    assert not set(NAMED) & set(SHELL_OFFERS)


@pytest.fixture
def program(tmp_path: Path) -> dict[str, str]:
    """An environment with this checkout's `perigee`, and an empty home folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "perigee"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m perigee "$@"\n')
    script.chmod(0o755)
    known = environment()
    return {**known, "PATH": f"{folder}:{known['PATH']}", "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}


def ask(shell: str, script: str, known: dict[str, str], cwd: Path) -> list[str]:
    """The lines that a shell script prints."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *options, "-c", script], env=known, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        (["run", "--engine", ""], {"sim", "emu", "live"}),
        (["run", "--engine", "=", "e"], {"emu"}),
        (["exec", "--link", "viasat"], {"viasat2"}),
        (["run", "a stud"], {"a study.toml"}),
        (["exec", "--link", "geo", "--", "perig"], {"perigee"}),
        (["run", "validation", "--set", "flow.tcp.ab"], {"flow.tcp.abc="}),
        (["run", "validation", "--set", "=", "flow.tcp.ab"], {"flow.tcp.abc="}),
        (["run", "validation", "--set", "flow.tcp.abc", "="], {"true", "false"}),
        (["run", "validation", "--vary", "flow.cc", "=", "cubic,hy"], {"cubic,hybla"}),
        (["run", "validation", "--set", "flow.cc", "=", "./a"], {"./a study.toml"}),
        (["run", "validation", "--vary", "flow.cc", "=", "cubic,./a"], {"cubic,./a study.toml"}),
        (["cc", "load", "hybla", "--set", "rt"], {"rtt0="}),
    ],
)
def test_bash_completes(words: list[str], offers: set[str], program: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a study.toml").touch()
    line = " ".join(shlex.quote(word) for word in ("perigee", *words))
    script = f"source {shlex.quote(str(SCRIPTS / 'perigee.bash'))}\ncompopt() {{ :; }}\n"
    script += f"COMP_WORDS=({line}); COMP_CWORD={len(words)}\n"
    script += "_perigee_completion; complete -p perigee >&2 && printf '%s\\n' \"${COMPREPLY[@]}\""
    assert set(ask("bash", script, program, tmp_path)) == offers


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("perigee run --engine ", {"sim", "emu", "live"}),
        ("perigee exec --link viasat", {"viasat2"}),
        ("perigee run a", {"a-study.toml"}),
        ("perigee exec --link geo -- perig", {"perigee"}),
        ("perigee run validation --set flow.tcp.ab", {"flow.tcp.abc="}),
        ("perigee run validation --set flow.opened_by=s", {"flow.opened_by=sender"}),
        ("perigee run validation --set flow.cc=./a", {"flow.cc=./a-study.toml"}),
        ("perigee run validation --vary flow.cc=cubic,./a", {"flow.cc=cubic,./a-study.toml"}),
        ("perigee run validation --out=./bi", {"--out=./bin/"}),
    ],
)
def test_fish_completes(line: str, offers: set[str], program: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a-study.toml").touch()
    script = f"source {shlex.quote(str(SCRIPTS / 'perigee.fish'))}; complete -C {shlex.quote(line)}"
    assert {each.split("\t")[0] for each in ask("fish", script, program, tmp_path)} == offers


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--engine", ""], ["sim", "emu", "live"]),
        (["exec", "--link", "viasat"], ["viasat2", "files"]),
        (["run", "validation", "--set", "flow.opened_by=s"], ["flow.opened_by=sender"]),
        (["run", "validation", "--set", "flow.cc=./m"], ["compset -P *=", "compset -P *,", "files"]),
        (["report", "results"], ["files -/"]),
        (["exec", "--link", "geo", "--", "echo", "x"], ["normal echo x 2"]),
    ],
)
def test_zsh_completes(words: list[str], said: list[str], program: dict[str, str], tmp_path: Path) -> None:
    line = " ".join(shlex.quote(word) for word in ("perigee", *words))
    # The completion system of the shell handles the answer.
    script = "compdef() { :; }\ncompset() { echo compset $@ }\n"
    script += "_files() { echo files $@ }\n_normal() { echo normal $words $CURRENT }\n"
    script += '_describe() { print -l "${(@P)3}" }\n'
    script += f"source {shlex.quote(str(SCRIPTS / '_perigee'))}\n"
    script += f"words=({line}); CURRENT={len(words) + 1}\n_perigee; true"
    assert ask("zsh", script, program, tmp_path) == said


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_installed_where_the_shell_looks(shell: str, program: dict[str, str], tmp_path: Path) -> None:
    known = {**program, "XDG_DATA_HOME": str(tmp_path / "data"), "SHELL": f"/bin/{shell}"}
    done = subprocess.run(
        [tmp_path / "bin" / "perigee", "completion", "--install"],
        env=known,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    written = Path(done.stdout.strip())
    assert written.is_relative_to(tmp_path)
    printed = subprocess.run(
        [tmp_path / "bin" / "perigee", "completion", shell],
        env=known,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert written.read_text() == printed.stdout


def test_a_shell_that_is_not_known_is_bad_input(perigee: Perigee) -> None:
    done = perigee("completion", "bsh")
    assert (done.returncode, done.stderr) == (
        2,
        "error: bsh: completion is not available for this shell; did you mean `bash`?\n",
    )


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_manual_page_names_every_option_and_means_its_own_text(one: Command) -> None:
    text = page(one, "1.0")
    for option in one.options:
        assert option.names[-1].replace("-", "\\-") in text
    assert not [line for line in text.splitlines() if line.startswith("'")]
    assert all(re.match(r"\.(TH|SH|PP|TP|B|nf|fi|RS|RE)\b", line) for line in text.splitlines() if line[:1] == ".")


def test_manual_pages_are_written_and_understood(perigee: Perigee, tmp_path: Path) -> None:
    assert perigee("man", "--out", tmp_path / "man1").returncode == 0
    written = sorted(path.name for path in (tmp_path / "man1").iterdir())
    assert written == sorted(f"{page_name(one)}.1" for one in ALL)
    mandoc = shutil.which("mandoc")
    if mandoc is None:
        return
    checked = subprocess.run(
        [mandoc, "-Tlint", "-Wwarning", *sorted((tmp_path / "man1").iterdir())],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert [line for line in checked.stdout.splitlines() if "missing date" not in line] == []


def test_the_reference_has_every_command_and_no_help_text_says_that_there_is_something() -> None:
    page = tool("commands").reference(TREE)
    assert [one.name for one in ALL if f"# {one.name}\n" not in page] == []
    assert tool("lint").EXISTENCE.findall(page) == []
