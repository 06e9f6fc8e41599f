# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The guide to deployment as an administrator types it, and the unit that loads at boot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, environment, own
from perigee.cc.kernel import status

PAGE = ROOT / "docs" / "guide" / "deploy-congestion-control.md"
LOADER = "perigee-cc@.service"
UNITS = [LOADER, "perigee-pep.service", "perigee-agent.service"]
# ```console TOOL: only where there is such a tool.
BLOCK = re.compile(r"^```(console|py|c)(?: (\w+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Names of congestion controls that an emulated study loads.
OF_A_RUN = re.compile(r"e\d+_\d+")
SAVE_AS = re.compile(r"as\s+`([\w.-]+)`")
UNDO = """
ip netns delete dish; ip netns delete town
perigee cc unload --all --force
"""


@pytest.mark.alone  # namespaces that others make meanwhile have the default, and their sockets hold it
@pytest.mark.usefixtures("machine")
def test_every_command_of_the_guide_to_deployment_works(tmp_path: Path) -> None:
    if status()["loaded"]:
        pytest.skip("something is loaded on this machine that is not a test's")
    before = _ours()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
    }
    text = PAGE.read_text(encoding="utf-8")
    commands = []
    for block in BLOCK.finditer(text):
        language, tool, content = block.groups()
        if language != "console":
            (tmp_path / SAVE_AS.findall(text[: block.start()])[-1]).write_text(content, encoding="utf-8")
        elif not tool or shutil.which(tool):
            assert all(line.startswith("# ") for line in content.splitlines()), content
            commands += [line.removeprefix("# ") for line in content.splitlines()]
    assert len(commands) > 20
    try:
        script = ["/bin/bash", "-euxc", "\n".join(commands)]
        done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    finally:
        subprocess.run(["/bin/bash", "-c", UNDO], env=environment, capture_output=True, check=False)
    assert "hybla\n" in done.stdout
    assert _ours() == before
    assert not Path("/sys/fs/bpf/perigee").exists()


def _ours() -> dict[str, Any]:
    """Return the loaded algorithms, without those of the emulated studies of tests beside this one."""
    found = status()
    names = {"others": found["others"], "detached": [socket["cc"] for socket in found["detached"]]}
    kept = {key: [name for name in listed if not OF_A_RUN.fullmatch(name)] for key, listed in names.items()}
    return {"loaded": found["loaded"], "default": found["default"], **kept}


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_no_fault_with_the_unit(unit: str, tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    text = (ROOT / "packaging" / unit).read_text(encoding="utf-8")
    installed = tmp_path / unit.replace("@", "@hybla")
    # The verification includes that the program is there.
    installed.write_text(re.sub(r"=/\S+/perigee\S*", "=/bin/true", text), encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", str(installed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS)
def test_the_unit_is_exposed_to_little_and_cannot_hold_up_the_boot(unit: str) -> None:
    path = ROOT / "packaging" / unit
    assert re.search(r"^TimeoutStartSec=\d+(s|min)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    # In tenths of what systemd calls exposure, from 0 to 10.
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=35", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze is older than 250")
    assert done.returncode == 0, done.stdout.splitlines()[-1:]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("unit", [LOADER])
def test_the_unit_s_capabilities_suffice_to_load_and_unload(unit: str, tmp_path: Path) -> None:
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv")
    (given,) = re.findall(
        r"^CapabilityBoundingSet=(.*)$", (ROOT / "packaging" / unit).read_text(encoding="utf-8"), re.MULTILINE
    )
    held = "-all," + ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in given.split())
    name = own("u")
    for arguments in (["load", "hybla", "--as", name], ["load", "hybla", "--as", name], ["unload", name, "--force"]):
        command = ["setpriv", f"--bounding-set={held}", f"--inh-caps={held}", "--no-new-privs", sys.executable]
        done = subprocess.run(
            [*command, "-m", "perigee", "cc", *arguments],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
