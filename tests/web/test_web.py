# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The simulator in a browser tab: the module of `make web` has the native tables under Node; its interface holds."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adversary import studies
from conftest import ROOT, tool
from perigee.places import headers

web_tables = tool("web_tables")
MODULE = ROOT / "target" / "web" / "perigee.wasm"

SHIPPED = (
    "claypool-2021",
    "return-channel",
    "low-orbit-now",
    "liu-2022",
    "page-loads",
    "two-orbits",
    "starlink-replay",
)
"""Studies with every kind of link process, proxies, populations, routes, computed orbits, and an author's algorithm."""

DIVIDES = """
static u32 zero;
CC_CALLBACK(void, trapping_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_sk(sk)->snd_cwnd = acked / zero;
}
"""
CALLS = """
void printk(void);
CC_CALLBACK(void, calling_avoid, struct sock *sk, u32 ack, u32 acked)
{
	printk();
}
"""


@pytest.fixture(scope="module")
def module() -> Path:
    """The module, if it is built from these sources and Node is there."""
    if reason := web_tables.available():
        pytest.skip(reason)
    return MODULE


@pytest.fixture(scope="module")
def asked(module: Path) -> Iterator[Any]:
    """The module in a process of Node."""
    with web_tables.Module(module) as asked:
        yield asked


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_study_has_the_native_tables(asked: Any, name: str) -> None:
    (question,) = web_tables.shipped([name], runs=2)
    here = web_tables.natively(question)
    assert here["runs"], here
    assert web_tables.difference(here, asked.answer(question)) is None


def test_random_studies_have_the_native_tables(asked: Any) -> None:
    for seed in range(7000, 7030):
        text = studies.study(random.Random(seed))  # noqa: S311 - no secret
        question = web_tables.Question(f"seed {seed}", text, Path("random.toml"), reduced=False, runs=1)
        assert web_tables.difference(web_tables.natively(question), asked.answer(question)) is None, question.name


def test_a_difference_is_found(asked: Any) -> None:
    (question,) = web_tables.shipped(["return-channel"], runs=1)
    other = web_tables.Question("other", question.text + "\n", question.file, question.reduced, runs=1)
    here, there = web_tables.natively(question), asked.answer(other)
    assert web_tables.difference(here, there) is None, "a line more in the text changes nothing"
    there["runs"][0]["tables"]["series"] = "0"
    assert web_tables.difference(here, there) == "run 0: table series"


def test_the_interface_for_scripts_holds(module: Path, tmp_path: Path) -> None:
    if not shutil.which("wasm-ld"):
        pytest.skip("lld, which links an author's module, is not installed")
    half = (headers() / "README.md").read_text(encoding="utf-8").split("```c\n")[1].split("```")[0]
    for name, body in (("trapping", DIVIDES), ("calling", CALLS)):
        (tmp_path / f"{name}.c").write_text(_algorithm(name, body), encoding="utf-8")
    (tmp_path / "half.c").write_text(half, encoding="utf-8")
    shutil.copy(headers() / "hybla.c", tmp_path)
    for source in tmp_path.glob("*.c"):
        source.with_suffix(".wasm").write_bytes(web_tables.author_module(source))
    environment = os.environ | {"PERIGEE_WASM": str(module), "PERIGEE_AUTHORED": str(tmp_path)}
    command = ["node", "--test", "--test-reporter=spec", str(ROOT / "tests" / "web")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout


def _algorithm(name: str, body: str) -> str:
    slots = f".ssthresh = OP(tcp_reno_ssthresh), .cong_avoid = OP({name}_avoid), .undo_cwnd = OP(tcp_reno_undo_cwnd)"
    return (
        f'#include "tcp.h"\n#define PARAMETERS(P)\nCC_PARAMETERS(PARAMETERS)\n{body}\n'
        f'CC_REGISTER({name}, "a test", PARAMETERS, {slots})\n'
    )
