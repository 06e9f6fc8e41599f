# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The image of `packaging/Containerfile`: its command and the web page."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

import perigee

IMAGE = os.environ.get("PERIGEE_IMAGE", "")
BUILDAH = shutil.which("buildah") or ""

if not IMAGE or not BUILDAH:
    pytest.skip("needs buildah, and PERIGEE_IMAGE=NAME of a built image", allow_module_level=True)

PAGE = """
set -e
perigee serve --port 18700 > said & server=$!
trap 'kill $server; wait' EXIT
until grep -q token= said; do sleep 0.1; done
python3 -c '
import re, urllib.request as u
opened = u.build_opener(u.HTTPCookieProcessor()).open(re.search("http[^ ]*", open("said").read())[0].strip())
print(re.search("<title>.*</title>", opened.read().decode())[0])'
"""


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """A working container of the image."""
    made = subprocess.run([BUILDAH, "from", "--pull-never", IMAGE], capture_output=True, text=True, check=True)
    name = made.stdout.strip()
    yield name
    subprocess.run([BUILDAH, "rm", name], capture_output=True, check=True)


def ran(container: str, script: str) -> str:
    """Return the output of a shell script run as the image's own user."""
    command = [BUILDAH, "run", container, "--", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_image_has_the_command_for_a_user_without_rights(container: str) -> None:
    assert ran(container, "id -un; perigee --version").split() == ["perigee", "perigee", perigee.__version__]
    assert "hybla" in ran(container, "perigee cc list")
    assert "invite" in ran(container, "perigee agent --help")


def test_the_page_answers_in_the_image(container: str) -> None:
    assert "<title>Perigee</title>" in ran(container, PAGE)
