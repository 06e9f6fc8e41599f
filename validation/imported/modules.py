# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Linux's own congestion control modules: which import, simulate and load, and whether they do what our files do.

    modules.py                 all of it, and writes docs/models/validation-imported.md (20 busy minutes; loads as root)
    modules.py --module bic    one of them; may be given several times; its cells are printed

The modules are those of Debian's package `linux-source-6.1`, unpacked into a temporary folder. Nothing of them is kept.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parent))

from beside import ROOT, Tolerance, toml  # noqa: E402

PACKAGE = "linux-source-6.1"
STUDY = FOLDER / "study.toml"
UNDONE = FOLDER / "undone.toml"
PAGE = ROOT / "docs" / "models" / "validation-imported.md"
OURS = {
    "bbr": "bbr",
    "bic": "bic",
    "cubic": "cubic",
    "dctcp": "dctcp",
    "highspeed": "highspeed",
    "htcp": "htcp",
    "hybla": "hybla",
    "illinois": "illinois",
    "vegas": "vegas",
    "westwood": "westwood_plus",
}
"""The file of `algorithms/` for a module."""
ALONE = ("lp", "nv", "scalable", "veno", "yeah", "cdg")
AGREES = Tolerance(goodput=0.01, rtt=0.01, retransmitted=1.1)
SEQUENCES = "500"


class MissingError(Exception):
    """Why the modules are not to be had here."""


@dataclass
class Found:
    """A module, and what came of it.

    Attributes:
        name: of the module.
        refused: why it is not imported; empty: it is.
        checked: what random events find; empty: nothing.
        loaded: why the kernel refused it; empty: it did not; none: not tried, for want of root.
        flows: its transfers, those of this project's file, and of the one in which known differences are undone.
        said: what the import changed.
    """

    name: str
    refused: str = ""
    checked: str = ""
    loaded: str | None = None
    flows: pl.DataFrame = field(default_factory=pl.DataFrame)
    said: str = ""


def modules(folder: Path) -> Path:
    """Fetch the package, and unpack the modules of it.

    Args:
        folder: where; the caller removes it.

    Returns:
        The folder of the modules.

    Raises:
        MissingError: there is no such package, or no network.
    """
    try:
        asked = ["apt-get", "download", "-qq", PACKAGE]
        done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MissingError(f"{PACKAGE} is a package of Debian, and there is no apt-get here") from None
    packed = next(folder.glob(f"{PACKAGE}_*.deb"), None)
    if done.returncode or packed is None:
        raise MissingError(f"{PACKAGE} cannot be downloaded: {done.stderr.strip()}")
    subprocess.run(["dpkg-deb", "-x", packed, folder / "package"], check=True)
    packed.unlink()
    with tarfile.open(folder / "package" / "usr" / "src" / f"{PACKAGE}.tar.xz") as tar:
        for member in tar:
            if Path(member.name).match(f"{PACKAGE}/net/ipv4/tcp_*.[ch]"):
                tar.extract(member, folder, filter="data")
    return folder / PACKAGE / "net" / "ipv4"


def perigee(*arguments: str | Path) -> tuple[int, str]:
    """Carry out `perigee`; return its exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "perigee", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr.strip()


def examine(name: str, sources: Path, folder: Path) -> Found:
    """Import a module, check it, load it and unload it, and simulate it."""
    found = Found(name)
    file = folder / f"{name}.c"
    code, said = perigee("cc", "import", sources / f"tcp_{name}.c", "--out", file)
    if code:
        found.refused = said.replace(f"{sources}/", "").removeprefix("error: ")
        return found
    found.said = said
    code, said = perigee("cc", "check", file, "--sequences", SEQUENCES)
    found.checked = said if code else ""
    if os.geteuid() == 0:
        code, said = perigee("cc", "load", file, "--as", f"pi_{name}")
        found.loaded = said if code else ""
        if not code:
            perigee("cc", "unload", f"pi_{name}")
    files = [OURS[name], file, *undone(name, file, folder)] if name in OURS else [file]
    values = ",".join(map(str, files))
    out = folder / "results" / name
    code, said = perigee("run", STUDY, "--vary", f"flow.cc={values}", "--out", out, "--fresh")
    if code:
        raise RuntimeError(said)
    found.flows = pl.read_parquet(out / "flows.parquet")
    return found


def undone(name: str, module: Path, folder: Path) -> Iterator[Path]:
    """Write one of the two files with what is known to differ undone; yield it where there is anything."""
    known = toml(UNDONE).get(name)
    if not known:
        return
    source = module if known["file"] == "module" else ROOT / "algorithms" / f"{OURS[name]}.c"
    text = source.read_text(encoding="utf-8")
    for edit in known["edits"]:
        if edit["old"] not in text:
            raise RuntimeError(f"{UNDONE}: {source.name} has no longer: {edit['old']}")
        text = text.replace(edit["old"], edit["new"], 1)
    changed = folder / f"{name}_undone.c"
    changed.write_text(re.sub(r"(CC_REGISTER\()\w+", r"\1undone", text), encoding="utf-8")
    yield changed


def cells(found: Found) -> Iterator[dict[str, Any]]:
    """Yield both files on each link: means of the rounds, and what differs by more than the page allows."""
    columns = ("goodput_mbps", "rtt_mean_ms", "retransmitted_packets", "sent_packets")
    flows = found.flows.with_columns(pl.col("point").str.json_path_match("$.experiment").alias("link"))
    known = toml(UNDONE).get(found.name, {})
    for link in flows["link"].unique(maintain_order=True):
        here = flows.filter(pl.col("link") == link).sort("round")
        ours = here.filter(pl.col("cc") == OURS[found.name])
        changed = here.filter(pl.col("cc") == "undone")
        theirs = here.filter(~pl.col("cc").is_in([OURS[found.name], "undone"]))
        means = [part.select(pl.col(columns).cast(pl.Float64).mean()).row(0) for part in (ours, theirs)]
        figures = [(mean[0], mean[1], 100 * mean[2] / max(mean[3], 1)) for mean in means]
        other = ours if known.get("file") == "module" else theirs
        yield {
            "link": link,
            "ours": figures[0],
            "theirs": figures[1],
            "same": ours.select(columns).equals(theirs.select(columns)),
            "same_undone": changed.height > 0 and changed.select(columns).equals(other.select(columns)),
            "misses": AGREES.misses(*figures),
        }


def table(all_found: Sequence[Found]) -> Iterator[str]:
    """Yield the rows of the modules."""
    for found in all_found:
        if found.refused:
            yield f"| `{found.name}` | no | - | - | - | - | - |\n"
            continue
        loads = {None: "not tried", "": "yes"}.get(found.loaded, "no")
        compared = list(cells(found)) if found.name in OURS else []
        same, undo = (sum(cell[key] for cell in compared) for key in ("same", "same_undone"))
        within = sum(not cell["misses"] for cell in compared)
        of = len(compared)
        agreed = f"`{OURS[found.name]}`: {within} of {of} | {same} of {of}" if compared else "- | -"
        has_known = compared and found.name in toml(UNDONE)
        after = f"{undo} of {of}" if has_known else "-"
        yield f"| `{found.name}` | yes | {'no' if found.checked else 'yes'} | {loads} | {agreed} | {after} |\n"


def differing(all_found: Sequence[Found]) -> Iterator[str]:
    """Yield the rows of the cells that differ."""
    for found in all_found:
        for cell in cells(found) if found.name in OURS and not found.refused else ():
            if cell["misses"]:
                both = [f"{a:.3g} / {b:.3g}" for a, b in zip(cell["ours"], cell["theirs"], strict=True)]
                yield f"| `{found.name}` | {cell['link']} | " + " | ".join(both) + " |\n"


def known() -> Iterator[str]:
    """Yield what is known to differ, and why."""
    for name, difference in toml(UNDONE).items():
        yield f"- `{name}`: {difference['why']}\n"


def why(all_found: Sequence[Found]) -> Iterator[str]:
    """Yield what was refused, and what random events found, word for word."""
    for found in all_found:
        for what, said in (("is refused", found.refused), ("is checked", found.checked), ("is loaded", found.loaded)):
            if said:
                lines = re.sub(r"\S*/perigee-modules-\w+/", "", said[said.rfind("error: ") :]).splitlines()
                yield f"`{found.name}` {what}:\n\n```text\n" + "\n".join(line[:200] for line in lines[:8]) + "\n```\n\n"


def main() -> None:
    """Examine the modules, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = sorted([*OURS, *ALONE])
    parser.add_argument("--module", action="append", choices=names, help="only this one; its cells are printed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perigee-modules-") as temporary:
        folder = Path(temporary)
        try:
            sources = modules(folder)
        except MissingError as missing:
            print(f"skipped: {missing}")
            return
        found = [examine(name, sources, folder) for name in options.module or names]
    if options.module:
        print("".join(table(found)) + "".join(differing(found)) + "".join(why(found)), end="")
        return
    text = (FOLDER / "page.txt").read_text(encoding="utf-8")
    for mark, rows in (
        ("MODULES\n", table(found)),
        ("CELLS\n", differing(found)),
        ("KNOWN\n", known()),
        ("WHY\n", why(found)),
    ):
        text = text.replace(mark, "".join(rows))
    PAGE.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
