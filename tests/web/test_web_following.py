# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A page that follows the queue, without a browser: what it does where the server refuses that."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from conftest import ROOT


def followed(*steps: str) -> tuple[list[str], int]:
    """Return what the page does in these steps of `following.mjs`, and how many tries it still waits for."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    command = [node, "--no-warnings", str(ROOT / "tests" / "web" / "following.mjs")]
    ran = subprocess.run(command, input=json.dumps(steps), capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    done, waiting = json.loads(ran.stdout)
    return done, waiting


def test_a_page_that_may_not_follow_the_queue_says_so_and_tries_again_with_growing_pauses() -> None:
    refused = ["says so", "waits 5 s", "follows", "says so", "waits 10 s", "follows"]
    done, waiting = followed("state", "break", "state", "refuse", "wait", "refuse", "wait", "state", "refuse", "wait")
    assert done == [
        *("follows", "shows", "shows", *refused, "says no more", "shows"),
        *("says so", "waits 5 s", "follows"),
    ]
    assert waiting == 0


def test_a_page_whose_session_has_ended_is_told_and_one_that_was_closed_does_nothing_more() -> None:
    assert followed("leave", "refuse") == (["follows", "has ended"], 0)
    assert followed("close", "refuse") == (["follows", "closes"], 0)
