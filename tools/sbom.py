# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Lists the crates that a program is linked from, in CycloneDX: a bill of materials as a wheel of maturin's has it.

`tools/release.py` calls it for the static proxy.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORMAT = "{p}|{l}"
CRATE = re.compile(r"(\S+) v(\S+)(?: \((.*)\))?(?: \(proc-macro\))?\|(.*)")


def component(line: str) -> dict[str, object]:
    """Return a crate as a component.

    Args:
        line: a line of `cargo tree` in the format above.

    Examples:
        >>> component("libc v0.2.1|MIT OR Apache-2.0")["purl"]
        'pkg:cargo/libc@0.2.1'
        >>> "purl" in component("perigee-text v0.1.0 (/home/a/perigee/crates/perigee-text)|MIT")
        False
    """
    found = CRATE.fullmatch(line)
    if found is None:
        raise ValueError(f"`{line}` is no crate of `cargo tree`")
    name, version, place, licence = found.groups()
    stated: dict[str, object] = {"type": "library", "name": name, "version": version}
    if licence:
        stated["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    # A crate of this repository is in no registry.
    if place is None or place == "proc-macro":
        stated["purl"] = f"pkg:cargo/{name}@{version}"
    return stated


def of(crate: str, version: str) -> str:
    """Return the bill of materials of a program that is one of the repository's crates.

    Args:
        crate: the crate.
        version: of the program.
    """
    command = ["cargo", "tree", "--package", crate, "--edges", "normal", "--prefix", "none", "--format", FORMAT]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = dict.fromkeys(line.removesuffix(" (*)") for line in listed.splitlines() if line)
    program, *others = (component(line) for line in lines)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": program | {"type": "application", "version": version}},
        "components": sorted(others, key=lambda one: (str(one["name"]), str(one["version"]))),
    }
    return json.dumps(bill, indent=1) + "\n"
